"""cp.async in its forms, mbarriers, bulk and tensor copies: right values under every interleaving."""

from __future__ import annotations

from contextlib import nullcontext

import numpy as np
import pytest

from tests.targets.nvidia.ptx.harness import aligned, kernel, run_body
from tilewright.targets.nvidia.ptx import Fault, TensorMap, run

SEEDS = [0, 1, 2]


@pytest.mark.parametrize("size", [4, 8, 16])
def test_sizes_and_what_lies_behind_the_source(size: int) -> None:
    """A source size below the copy's: the rest is zero, and is not read."""
    x, out = aligned(32 * size, "u1"), np.zeros(32 * size, "u1")
    x[:] = np.arange(32 * size) % 250 + 1
    kind = "cg" if size == 16 else "ca"
    words = size // 4
    moves = "".join(f"ld.shared.b32 %r9, [%r2+{4 * i}]; st.global.b32 [%rd2+{4 * i}], %r9;" for i in range(words))
    run_body(f"""mov.u32 %r1, tile; mad.lo.u32 %r2, %r100, {size}, %r1; mad.wide.u32 %rd1, %r100, {size}, %rd100;
        rem.u32 %r3, %r100, {size + 1}; cp.async.{kind}.shared.global [%r2], [%rd1], {size}, %r3; cp.async.wait_all;
        mad.wide.u32 %rd2, %r100, {size}, %rd101;
        {moves} ret;""", x, out, block=32, before=".shared .align 16 .b8 tile[512];")
    want = x.reshape(32, size).copy()
    for lane in range(32):
        want[lane, lane % (size + 1):] = 0
    assert (out.reshape(32, size) == want).all()


def test_a_predicate_that_ignores_the_source() -> None:
    out = np.zeros(32, "i4")
    run_body("""mov.u32 %r1, tile; mad.lo.u32 %r2, %r100, 4, %r1; mad.wide.u32 %rd1, %r100, 4, %rd100;
        setp.ge.u32 %p1, %r100, 8; cp.async.ca.shared.global [%r2], [%rd1], 4, %p1; cp.async.commit_group;
        cp.async.wait_group 0; ld.shared.b32 %r3, [%r2]; mad.wide.u32 %rd2, %r100, 4, %rd101; st.global.b32 [%rd2], %r3;
        ret;""", np.arange(1, 9, dtype="i4"), out, block=32, before=".shared .align 4 .b8 tile[128];")
    assert out.tolist() == [*range(1, 9), *[0] * 24]


@pytest.mark.parametrize("noinc", [True, False])
@pytest.mark.parametrize("seed", SEEDS)
def test_copies_that_arrive_at_an_mbarrier(seed: int, noinc: bool) -> None:
    """Warp 0 copies; warp 1 waits at the mbarrier and reads."""
    x, out = aligned(32, "i4"), np.zeros(32, "i4")
    x[:] = np.arange(32) + 5
    form = ".noinc" if noinc else ""
    run_body(f"""mov.u32 %r1, tile; mov.u32 %r2, full; and.b32 %r3, %r100, 31; mad.lo.u32 %r4, %r3, 4, %r1;
        setp.ne.u32 %p1, %r100, 0; @%p1 bra ready; mbarrier.init.shared.b64 [%r2], {32 if noinc else 1};
        ready: bar.sync 0;
        setp.ge.u32 %p2, %r100, 32; @%p2 bra reader; mad.wide.u32 %rd1, %r3, 4, %rd100;
        cp.async.ca.shared.global [%r4], [%rd1], 4; cp.async.mbarrier.arrive{form}.shared.b64 [%r2];
        {'' if noinc else 'bar.warp.sync -1; @%p1 bra join; mbarrier.arrive.shared.b64 _, [%r2];'} bra join;
        reader: mbarrier.try_wait.parity.shared.b64 %p3, [%r2], 0; @!%p3 bra reader; ld.shared.b32 %r5, [%r4];
        mad.wide.u32 %rd2, %r3, 4, %rd101; st.global.b32 [%rd2], %r5; join: ret;""", x, out, block=64, seed=seed,
             before=".shared .align 4 .b8 tile[128]; .shared .align 8 .b8 full[8];")
    assert (out == x).all()


@pytest.mark.parametrize("seed", SEEDS)
def test_phases_of_a_ring(seed: int) -> None:
    """Full and empty mbarriers over two stages, seven tiles; states and parities."""
    x, out = aligned(7 * 32, "i4"), np.zeros(7 * 32, "i4")
    x[:] = np.arange(7 * 32) * 3
    run_body("""mov.u32 %r1, tile; mov.u32 %r2, full; mov.u32 %r3, empty; and.b32 %r4, %r100, 31; mov.u32 %r5, 0;
        setp.ne.u32 %p1, %r100, 0; @%p1 bra ready;
        mbarrier.init.shared.b64 [%r2], 1; mbarrier.init.shared.b64 [%r2+8], 1;
        mbarrier.init.shared.b64 [%r3], 32; mbarrier.init.shared.b64 [%r3+8], 32; ready: bar.sync 0;
        setp.ge.u32 %p2, %r100, 32; @%p2 bra reader; @%p1 bra join;
        writer: and.b32 %r6, %r5, 1; shr.u32 %r7, %r5, 1; and.b32 %r7, %r7, 1; shl.b32 %r8, %r6, 3;
        add.u32 %r9, %r2, %r8;
        add.u32 %r10, %r3, %r8; xor.b32 %r11, %r7, 1;
        free: mbarrier.try_wait.parity.shared.b64 %p3, [%r10], %r11; @!%p3 bra free;
        mad.lo.u32 %r12, %r6, 128, %r1; mad.wide.u32 %rd1, %r5, 128, %rd100;
        mbarrier.arrive.expect_tx.shared.b64 %rd9, [%r9], 128;
        cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r12], [%rd1], 128, [%r9];
        add.u32 %r5, %r5, 1; setp.lt.u32 %p4, %r5, 7; @%p4 bra writer; bra join;
        reader: and.b32 %r6, %r5, 1; shr.u32 %r7, %r5, 1; and.b32 %r7, %r7, 1; shl.b32 %r8, %r6, 3;
        add.u32 %r9, %r2, %r8;
        add.u32 %r10, %r3, %r8;
        come: mbarrier.try_wait.parity.shared.b64 %p3, [%r9], %r7; @!%p3 bra come;
        mad.lo.u32 %r12, %r6, 128, %r1; mad.lo.u32 %r12, %r4, 4, %r12; ld.shared.b32 %r13, [%r12];
        mbarrier.arrive.shared.b64 _, [%r10]; mad.lo.u32 %r14, %r5, 32, %r4; mad.wide.u32 %rd2, %r14, 4, %rd101;
        st.global.b32 [%rd2], %r13; add.u32 %r5, %r5, 1; setp.lt.u32 %p4, %r5, 7; @%p4 bra reader; join: ret;""",
             x, out, block=64, seed=seed,
             before=".shared .align 128 .b8 tile[256]; .shared .align 8 .b8 full[16]; .shared .align 8 .b8 empty[16];")
    assert (out == x).all()


def test_a_state_and_a_test() -> None:
    """arrive gives a state; test_wait does not block."""
    out = np.zeros(3, "i4")
    run_body("""mov.u32 %r2, bar; mbarrier.init.shared.b64 [%r2], 2; mbarrier.arrive.shared.b64 %rd1, [%r2];
        mbarrier.test_wait.shared.b64 %p1, [%r2], %rd1; selp.b32 %r3, 1, 0, %p1; st.global.b32 [%rd100], %r3;
        mbarrier.arrive.shared.b64 _, [%r2]; mbarrier.test_wait.shared.b64 %p1, [%r2], %rd1; selp.b32 %r3, 1, 0, %p1;
        st.global.b32 [%rd100+4], %r3; mbarrier.arrive.shared.b64 %rd1, [%r2], 2;
        mbarrier.test_wait.parity.shared.b64 %p1, [%r2], 1; selp.b32 %r3, 1, 0, %p1; st.global.b32 [%rd100+8], %r3;
        mbarrier.inval.shared.b64 [%r2]; ret;""", out, block=1, before=".shared .align 8 .b8 bar[8];")
    assert out.tolist() == [0, 1, 1]


TENSOR = """
.shared .align 1024 .b8 tile[8192]; .shared .align 8 .b8 full[8];
mov.u32 %r100, %tid.x; ld.param.u64 %rd101, [out]; ld.param.s32 %r50, [c0]; ld.param.s32 %r51, [c1];
mov.u32 %r1, tile; mov.u32 %r2, full; mov.b64 %rd1, map; mov.b64 %rd2, omap; setp.ne.u32 %p1, %r100, 0; @%p1 bra ready;
mbarrier.init.shared.b64 [%r2], 1; ready: bar.sync 0; @%p1 bra wait;
mbarrier.arrive.expect_tx.shared.b64 _, [%r2], BYTES;
cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%r1], [%rd1, {%r50, %r51}], [%r2];
wait: mbarrier.try_wait.parity.shared.b64 %p2, [%r2], 0; @!%p2 bra wait;
mov.u32 %r3, %r100;
again: shl.b32 %r4, %r3, 2; add.u32 %r5, %r1, %r4; ld.shared.b32 %r6, [%r5]; mul.wide.u32 %rd3, %r3, 4;
add.u64 %rd4, %rd101, %rd3; st.global.b32 [%rd4], %r6; add.u32 %r3, %r3, 32; setp.lt.u32 %p3, %r3, WORDS;
@%p3 bra again;
bar.sync 0; @%p1 bra end;
cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%rd2, {%r50, %r51}], [%r1]; cp.async.bulk.commit_group;
cp.async.bulk.wait_group 0; end: ret;
"""
PARAMETERS = ".param .align 64 .b8 map[128], .param .align 64 .b8 omap[128], .param .u64 out, .param .s32 c0, " \
    ".param .s32 c1"


@pytest.mark.parametrize("swizzle, width", [(0, 32), (32, 16), (64, 32), (128, 64), (128, 32)])
@pytest.mark.parametrize("corner", [(0, 0), (8, 3), (40, 13), (-5, -2)])
def test_boxes_of_tensors(swizzle: int, width: int, corner: tuple[int, int]) -> None:
    """In bounds and across every edge; back again into another tensor, whose parts out of bounds stay.  A load may
    start at a negative place, a store may not."""
    rows = 8
    backing = aligned(2 * 16 * 48, "f2")
    x, target = backing[:16 * 48].reshape(16, 48), backing[16 * 48:].reshape(16, 48)
    x[:] = np.random.default_rng(0).standard_normal(x.shape)
    size = rows * width * 2
    seen = np.zeros(size // 4, "u4")
    text = kernel(TENSOR.replace("BYTES", str(size)).replace("WORDS", str(size // 4)), PARAMETERS)
    with nullcontext() if min(corner) >= 0 else pytest.raises(Fault, match="negative"):
        run(text, "k", (1,), 32, [TensorMap(x, (rows, width), swizzle), TensorMap(target, (rows, width), swizzle), seen,
                                  *corner])
    box = np.zeros((rows, width), "f2")
    want = np.zeros_like(target)
    for i in range(rows):
        for j in range(width):
            r, c = corner[1] + i, corner[0] + j
            if 0 <= r < 16 and 0 <= c < 48:
                box[i, j] = x[r, c]
                if min(corner) >= 0:
                    want[r, c] = x[r, c]
    byte = np.arange(rows * width) * 2
    if swizzle:
        byte ^= (byte >> 7 & swizzle // 16 - 1) << 4
    assert (seen.view("f2")[byte // 2].reshape(rows, width) == box).all()
    assert (target == want).all()


@pytest.mark.parametrize("change, kind", [
    (lambda a: TensorMap(a, (8, 4), 0), "operand"), (lambda a: TensorMap(a, (8, 64), 32), "operand"),
    (lambda a: TensorMap(a[:, :47][:, 1:], (8, 16), 0), "misaligned"),
    (lambda a: TensorMap(a, (300, 8), 0), "operand")])
def test_maps_that_the_hardware_refuses(change, kind: str) -> None:
    x = aligned(16 * 48, "f2").reshape(16, 48)
    text = kernel(TENSOR.replace("BYTES", "256").replace("WORDS", "64"), PARAMETERS)
    with pytest.raises(Fault) as caught:
        run(text, "k", (1,), 32, [change(x), change(x), np.zeros(64, "u4"), 0, 0])
    assert caught.value.kind == kind


@pytest.mark.parametrize("type, dtype", [("f32", "f4"), ("s32", "i4"), ("u64", "u8"), ("f16", "f2")])
def test_bulk_reductions(type: str, dtype: str) -> None:
    out = aligned(64, dtype)
    out[:] = np.arange(64)
    size = out.nbytes
    modifier = ".noftz" if type == "f16" else ""
    run_body(f"""mov.u32 %r1, tile; ld.global.v4.b32 {{%r2, %r3, %r4, %r5}}, [%rd100]; mad.lo.u32 %r6, %r100, 16, %r1;
        mad.wide.u32 %rd1, %r100, 16, %rd100; setp.ge.u32 %p2, %r100, {size // 16}; @%p2 bra all;
        ld.global.v4.b32 {{%r2, %r3, %r4, %r5}}, [%rd1]; st.shared.v4.b32 [%r6], {{%r2, %r3, %r4, %r5}};
        all: fence.proxy.async; bar.sync 0; setp.ne.u32 %p1, %r100, 0; @%p1 bra end;
        cp.reduce.async.bulk.global.shared::cta.bulk_group.add{modifier}.{type} [%rd100], [%r1], {size};
        cp.async.bulk.commit_group; cp.async.bulk.wait_group 0; end: ret;""", out, block=32,
             before=".shared .align 128 .b8 tile[1024];")
    assert (out == 2 * np.arange(64)).all()
