"""Divergence and meeting again, loops, tables of branches, barriers, exits; several interleavings give one answer."""

from __future__ import annotations

import numpy as np
import pytest

from tests.targets.nvidia.ptx.harness import kernel, pointers, run_body
from tilewright.targets.nvidia.ptx import Fault, run

SEEDS = [0, 1, 2, 3]
STORE = "mul.wide.u32 %rd1, %r100, 4; add.u64 %rd2, %rd100, %rd1; st.global.b32 [%rd2], %r1; ret;"


def outcome(body: str, block: int = 64, seed: int = 0, before: str = "") -> np.ndarray:
    out = np.full(block, -1, "i4")
    run_body(body + STORE, out, block=block, seed=seed, before=before)
    return out


@pytest.mark.parametrize("seed", SEEDS)
def test_if_else(seed: int) -> None:
    out = outcome("""setp.lt.u32 %p1, %r100, 20; @%p1 bra yes;
        mul.lo.u32 %r1, %r100, 3; bra join; yes: add.u32 %r1, %r100, 1000; join: add.u32 %r1, %r1, 5;""", seed=seed)
    t = np.arange(64)
    assert (out == np.where(t < 20, t + 1000, 3 * t) + 5).all()


@pytest.mark.parametrize("seed", SEEDS)
def test_loops_of_different_lengths_inside_a_branch(seed: int) -> None:
    out = outcome("""mov.u32 %r1, 0; and.b32 %r2, %r100, 1; setp.eq.u32 %p1, %r2, 0; @%p1 bra join;
        mov.u32 %r3, %r100; again: add.u32 %r1, %r1, %r3; sub.u32 %r3, %r3, 1; setp.gt.s32 %p2, %r3, 0;
        and.b32 %r4, %r3, 7; setp.eq.u32 %p3, %r4, 5; @%p3 bra join; @%p2 bra again;
        join: activemask.b32 %r5; shfl.sync.idx.b32 %r6, %r1, 1, 31, -1; add.u32 %r1, %r1, %r6;""", seed=seed)

    def one(t: int) -> int:
        total = 0
        if t & 1:
            r = t
            while True:
                total, r = total + r, r - 1
                if r & 7 == 5 or r <= 0:
                    break
        return total

    assert (out == [one(t) + one(t // 32 * 32 + 1) for t in range(64)]).all()


@pytest.mark.parametrize("seed", SEEDS)
def test_lanes_meet_before_the_join_is_left(seed: int) -> None:
    """All lanes are one again behind an if, so the mask is full."""
    out = outcome("setp.lt.u32 %p1, %r100, 7; @!%p1 bra join; mov.u32 %r9, 1; join: activemask.b32 %r1;", seed=seed)
    assert (out == -1).all()


def test_warps_are_whole_behind_loops_of_different_lengths() -> None:
    """Lanes of several warps come to the join in any company, and all of a warp leave it together."""
    for seed in range(24):
        out = outcome("""rem.u32 %r2, %r100, 5; mov.u32 %r1, 0; again: add.u32 %r1, %r1, 1; setp.gt.u32 %p1, %r1, %r2;
            @!%p1 bra again; bar.sync 0;""", block=160, seed=seed)
        assert (out == 1 + np.arange(160) % 5).all()


@pytest.mark.parametrize("seed", SEEDS)
def test_table_of_branches(seed: int) -> None:
    out = outcome("""rem.u32 %r2, %r100, 3; targets: .branchtargets a, b, c; brx.idx %r2, targets;
        a: mov.u32 %r1, 10; bra join; b: mov.u32 %r1, 20; bra join; c: mov.u32 %r1, 30; join:""", seed=seed)
    assert (out == 10 * (np.arange(64) % 3 + 1)).all()


def test_a_table_that_is_too_short() -> None:
    with pytest.raises(Fault, match="index 63 into 2 labels"):
        outcome("t: .branchtargets a, b; brx.idx %r100, t; a: mov.u32 %r1, 1; b:")


@pytest.mark.parametrize("seed", SEEDS)
def test_threads_that_leave(seed: int) -> None:
    """Barriers await those that are left."""
    out = np.full(96, -1, "i4")
    run_body("""setp.ge.u32 %p1, %r100, 64; @%p1 exit; bar.sync 0; setp.lt.u32 %p2, %r100, 3; @%p2 ret;
        mov.u32 %r1, 5;""" + STORE, out, block=96, seed=seed)
    assert (out[:3] == -1).all()
    assert (out[3:64] == 5).all()
    assert (out[64:] == -1).all()


@pytest.mark.parametrize("seed", SEEDS)
def test_a_warp_instruction_whose_lanes_come_by_two_ways(seed: int) -> None:
    """Lanes that parted meet at the instruction itself (independent thread scheduling)."""
    out = outcome("""setp.lt.u32 %p1, %r100, 16; @%p1 bra low; mov.u32 %r2, 7; bra both; low: mov.u32 %r2, 9;
        both: shfl.sync.bfly.b32 %r1, %r2, 16, 31, -1;""", block=32, seed=seed)
    assert (out == np.where(np.arange(32) < 16, 7, 9)).all()


@pytest.mark.parametrize("seed", SEEDS)
def test_guarded_warp_instructions(seed: int) -> None:
    out = outcome("""mov.u32 %r1, %r100; setp.lt.u32 %p1, %r100, 32;
        @%p1 shfl.sync.idx.b32 %r1, %r100, 3, 31, -1;""", seed=seed)
    assert (out == np.where(np.arange(64) < 32, 3, np.arange(64))).all()


@pytest.mark.parametrize("seed", SEEDS)
def test_named_barriers_between_producers_and_consumers(seed: int) -> None:
    """bar.arrive and bar.sync on two barriers, two slots in turn."""
    out = outcome("""shr.u32 %r2, %r100, 5; and.b32 %r10, %r100, 31; mov.u32 %r1, 0; mov.u32 %r3, 0; mov.u32 %r20, ring;
        shl.b32 %r11, %r10, 2; add.u32 %r12, %r20, %r11; setp.eq.u32 %p1, %r2, 0; @%p1 bra producer;
        consumer: bar.sync 1, 64; ld.shared.b32 %r4, [%r12]; add.u32 %r1, %r1, %r4; bar.arrive 2, 64;
        add.u32 %r3, %r3, 1; setp.lt.u32 %p2, %r3, 5; @%p2 bra consumer; bra join;
        producer: setp.eq.u32 %p3, %r3, 0; @%p3 bra first; bar.sync 2, 64;
        first: mad.lo.u32 %r4, %r3, 100, %r10; st.shared.b32 [%r12], %r4; bar.arrive 1, 64;
        add.u32 %r3, %r3, 1; setp.lt.u32 %p2, %r3, 5; @%p2 bra producer; bar.sync 2, 64; join:""", seed=seed,
                  before=".shared .align 4 .b8 ring[128];")
    lane = np.arange(32)
    assert (out[32:] == 5 * lane + 1000).all()


@pytest.mark.parametrize("seed", SEEDS)
def test_votes_of_a_barrier(seed: int) -> None:
    out = outcome("""setp.lt.u32 %p1, %r100, 40; bar.red.popc.u32 %r1, 0, %p1; bar.red.and.pred %p2, 0, %p1;
        bar.red.or.pred %p3, 0, !%p1; selp.b32 %r2, 100, 0, %p2; selp.b32 %r3, 1000, 0, %p3;
        add.u32 %r1, %r1, %r2; add.u32 %r1, %r1, %r3;""", seed=seed)
    assert (out == 40 + 1000).all()


def test_a_block_that_is_no_multiple_of_a_warp() -> None:
    out = np.full(40, -1, "i4")
    run_body("activemask.b32 %r2; popc.b32 %r1, %r2; bar.sync 0;" + STORE, out, block=40)
    assert (out == [32] * 32 + [8] * 8).all()


FUNCTION = """
.func (.param .b32 result) twice(.param .b32 x)
{ .reg .b32 %a<3>; .reg .pred %p; ld.param.b32 %a1, [x]; setp.gt.s32 %p, %a1, 50; @%p bra big;
  add.s32 %a2, %a1, %a1; st.param.b32 [result], %a2; ret; big: st.param.b32 [result], %a1; ret; }
"""


@pytest.mark.parametrize("seed", SEEDS)
def test_functions(seed: int) -> None:
    """Called twice, with names of its own, returning by two ways."""
    call = "{{ .param .b32 a; .param .b32 r; st.param.b32 [a], {0}; call.uni (r), twice, (a); ld.param.b32 {1}, [r]; }}"
    out = outcome(call.format("%r100", "%r2") + call.format("%r2", "%r1"), seed=seed, before=FUNCTION)

    def twice(x: int) -> int:
        return x if x > 50 else 2 * x

    assert (out == [twice(twice(t)) for t in range(64)]).all()


def test_a_kernel_without_an_end() -> None:
    with pytest.raises(Fault, match="runs past the end"):
        run_body("mov.u32 %r1, 1;", block=32)


def test_the_limit_names_the_loop() -> None:
    with pytest.raises(Fault, match="a loop that does not end") as caught:
        run_body("again: bra again;", block=32, limit=1000)
    assert caught.value.kind == "limit"


@pytest.mark.parametrize("seed", SEEDS)
def test_lanes_that_wait_for_each_other_through_memory(seed: int) -> None:
    """A lane may poll what another lane of its warp writes: no lane is starved."""
    text = kernel("""ld.param.u64 %rd100, [p0]; mov.u32 %r100, %tid.x; mov.u32 %r1, 5; setp.ne.u32 %p1, %r100, 0;
        @%p1 bra writer;
        poll: ld.volatile.global.b32 %r2, [%rd100]; setp.eq.u32 %p2, %r2, 0; @%p2 bra poll; mov.u32 %r1, %r2;
        st.global.b32 [%rd100+4], %r1; bra join;
        writer: setp.ne.u32 %p3, %r100, 1; @%p3 bra join; st.volatile.global.b32 [%rd100], 77; join: ret;""",
                  pointers(1))
    memory = np.zeros(2, "i4")
    run(text, "k", (1,), 32, [memory], seed=seed)
    assert memory.tolist() == [77, 77]
