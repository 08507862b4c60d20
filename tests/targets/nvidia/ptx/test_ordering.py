"""Order through memory: release and acquire, fences, between warps and between CTAs; and without them a race."""

from __future__ import annotations

import numpy as np
import pytest

from tests.targets.nvidia.ptx.harness import run_body
from tilewright.targets.nvidia.ptx import Fault

# warp 0 writes data[1], then says so in data[0]; warp 1 polls it and reads
HANDOVER = """
setp.ge.u32 %p1, %r100, 32; @%p1 bra reader; setp.ne.u32 %p2, %r100, 0; @%p2 bra join;
st.global.b32 [%rd100+4], 42; WRITE bra join;
reader: setp.ne.u32 %p2, %r100, 32; @%p2 bra join;
poll: READ setp.eq.u32 %p3, %r1, 0; @%p3 bra poll; AFTER
ld.global.b32 %r2, [%rd100+4]; st.global.b32 [%rd100+8], %r2; join: ret;
"""


def handover(write: str, read: str, after: str = "", seed: int = 0) -> int:
    data = np.zeros(3, "i4")
    run_body(HANDOVER.replace("WRITE", write).replace("READ", read).replace("AFTER", after), data, block=64, seed=seed)
    return int(data[2])


ORDERED = [
    ("st.release.gpu.global.b32 [%rd100], 1;", "ld.acquire.gpu.global.b32 %r1, [%rd100];", ""),
    ("atom.release.gpu.global.exch.b32 %r9, [%rd100], 1;", "ld.acquire.gpu.global.b32 %r1, [%rd100];", ""),
    ("atom.acq_rel.gpu.global.add.u32 %r9, [%rd100], 1;", "atom.acq_rel.gpu.global.or.b32 %r1, [%rd100], 0;", ""),
    ("fence.acq_rel.gpu; st.relaxed.gpu.global.b32 [%rd100], 1;", "ld.relaxed.gpu.global.b32 %r1, [%rd100];",
     "fence.acq_rel.gpu;"),
    ("membar.gl; st.volatile.global.b32 [%rd100], 1;", "ld.volatile.global.b32 %r1, [%rd100];", "membar.gl;"),
    ("membar.gl; red.relaxed.gpu.global.add.u32 [%rd100], 1;", "ld.acquire.gpu.global.b32 %r1, [%rd100];", ""),
]


@pytest.mark.parametrize("seed", [0, 1, 2])
@pytest.mark.parametrize("write, read, after", ORDERED)
def test_ordered(write: str, read: str, after: str, seed: int) -> None:
    assert handover(write, read, after, seed) == 42


@pytest.mark.parametrize("write, read, after", [
    ("st.relaxed.gpu.global.b32 [%rd100], 1;", "ld.relaxed.gpu.global.b32 %r1, [%rd100];", ""),
    ("st.release.gpu.global.b32 [%rd100], 1;", "ld.relaxed.gpu.global.b32 %r1, [%rd100];", ""),
    ("st.relaxed.gpu.global.b32 [%rd100], 1;", "ld.acquire.gpu.global.b32 %r1, [%rd100];", ""),
    ("st.relaxed.gpu.global.b32 [%rd100], 1; fence.acq_rel.gpu;", "ld.relaxed.gpu.global.b32 %r1, [%rd100];",
     "fence.acq_rel.gpu;")])
def test_not_ordered(write: str, read: str, after: str) -> None:
    with pytest.raises(Fault, match="a read after a write") as caught:
        handover(write, read, after)
    assert caught.value.kind == "race"


TICKETS = """
setp.ne.u32 %p1, %r100, 0; @%p1 bra end; mov.u32 %r1, %ctaid.x;
poll: TAKE setp.ne.u32 %p2, %r2, %r1; @%p2 bra poll;
ld.global.b32 %r3, [%rd101]; add.u32 %r3, %r3, %r1; st.global.b32 [%rd101], %r3;
GIVE end: ret;
"""


def test_a_chain_of_ctas() -> None:
    """Each adds to what the one before left, as a serialised split-K does."""
    turn, total = np.zeros(1, "i4"), np.zeros(1, "i4")
    body = TICKETS.replace("TAKE", "ld.acquire.gpu.global.b32 %r2, [%rd100];")
    body = body.replace("GIVE", "add.u32 %r4, %r1, 1; st.release.gpu.global.b32 [%rd100], %r4;")
    run_body(body, turn, total, block=32, grid=(6,))
    assert total[0] == 15


def test_a_chain_of_ctas_without_order() -> None:
    body = TICKETS.replace("TAKE", "ld.relaxed.gpu.global.b32 %r2, [%rd100];")
    body = body.replace("GIVE", "add.u32 %r4, %r1, 1; st.relaxed.gpu.global.b32 [%rd100], %r4;")
    with pytest.raises(Fault, match="another CTA"):
        run_body(body, np.zeros(1, "i4"), np.zeros(1, "i4"), block=32, grid=(3,))


def test_waiting_for_a_higher_cta_never_ends() -> None:
    with pytest.raises(Fault) as caught:
        run_body("""mov.u32 %r1, %ctaid.x; setp.ne.u32 %p1, %r1, 0; @%p1 bra writer;
            poll: ld.acquire.gpu.global.b32 %r2, [%rd100]; setp.eq.u32 %p2, %r2, 0; @%p2 bra poll; ret;
            writer: st.release.gpu.global.b32 [%rd100], 1; ret;""", np.zeros(1, "i4"), block=32, grid=(2,), limit=5000)
    assert caught.value.kind == "limit"


def test_a_loop_of_compare_and_swaps() -> None:
    """As LLVM writes an atomic operation that the hardware lacks; its first load is a plain one."""
    total = np.zeros(1, "f4")
    run_body("""mov.b32 %r2, 0f3F800000; ld.global.b32 %r1, [%rd100];
        again: add.f32 %r3, %r1, %r2; atom.relaxed.gpu.global.cas.b32 %r4, [%rd100], %r1, %r3;
        setp.ne.b32 %p1, %r4, %r1;
        mov.b32 %r1, %r4; @%p1 bra again; ret;""", total, block=64, grid=(2,))
    assert total[0] == 128


def test_read_only_loads_of_what_the_kernel_writes() -> None:
    with pytest.raises(Fault, match="read-only load") as caught:
        run_body("""mul.wide.u32 %rd1, %r100, 4; add.u64 %rd2, %rd100, %rd1; st.global.b32 [%rd2], %r100;
            ld.global.nc.b32 %r1, [%rd2]; ret;""", np.zeros(32, "i4"), block=32)
    assert caught.value.kind == "race"


def test_the_same_value_from_several_places_is_let_pass() -> None:
    out = np.zeros(4, "i4")
    run_body("st.global.b32 [%rd100], 7; ret;", out, block=128, grid=(3,))
    assert out[0] == 7


def test_without_checks_races_are_let_pass() -> None:
    from tilewright.targets.nvidia.ptx import Checks

    out = np.zeros(64, "i4")
    body = """mul.wide.u32 %rd1, %r100, 4; add.u64 %rd2, %rd100, %rd1; st.global.b32 [%rd2], %r100;
        xor.b32 %r1, %r100, 32;
        mul.wide.u32 %rd3, %r1, 4; add.u64 %rd4, %rd100, %rd3; ld.global.b32 %r2, [%rd4]; ret;"""
    with pytest.raises(Fault):
        run_body(body, out, block=64)
    run_body(body, out, block=64, checks=Checks(races=False))
