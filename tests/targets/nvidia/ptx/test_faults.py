"""Faults planted in PTX text: each is found, is of its class, and says the PTX line.

The texts are right before (test_the_texts_are_right); each case changes one thing.  Where only values can show a fault
(a wrong swizzle), the case says "value".
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.targets.nvidia.ptx.harness import aligned, kernel, pointers
from tilewright.targets.nvidia.ptx import Checks, Fault, TensorMap, Uninitialised, run

HERE = Path(__file__).parent

# ---- texts, each with a way to run it that gives the error against NumPy

REDUCTION = kernel("""
.shared .align 16 .b8 tile[512];
.shared .align 8 .b8 sums[16];
ld.param.u64 %rd1, [p0]; ld.param.u64 %rd2, [p1];
mov.u32 %r1, %tid.x;
mul.wide.u32 %rd3, %r1, 4;
add.u64 %rd4, %rd1, %rd3;
ld.global.f32 %r2, [%rd4];
mov.u32 %r3, tile; shl.b32 %r4, %r1, 2; add.u32 %r5, %r3, %r4;
st.shared.f32 [%r5], %r2;
bar.sync 0;
xor.b32 %r6, %r1, 64; shl.b32 %r7, %r6, 2; add.u32 %r8, %r3, %r7;
ld.shared.f32 %r9, [%r8];
add.f32 %r10, %r2, %r9;
bar.sync 0;
st.shared.f32 [%r5], %r10;
bar.warp.sync -1;
xor.b32 %r11, %r1, 1; shl.b32 %r12, %r11, 2; add.u32 %r13, %r3, %r12;
ld.shared.f32 %r14, [%r13];
shfl.sync.bfly.b32 %r15, %r14, 1, 31, -1;
add.f32 %r16, %r10, %r15;
add.u64 %rd5, %rd2, %rd3;
st.global.f32 [%rd5], %r16;
ret;
""", pointers(2))


def run_reduction(text: str, seed: int) -> float:
    x = np.random.default_rng(0).standard_normal(128).astype("f4")
    out = np.empty(128, "f4")
    run(text, "k", (1,), 128, [x, Uninitialised(out)], seed=seed, limit=5000)
    return float(np.abs(out - 2 * (x + np.roll(x, 64))).max())


COPIES = kernel("""
.shared .align 16 .b8 tile[4096];
ld.param.u64 %rd1, [p0]; ld.param.u64 %rd2, [p1];
mov.u32 %r1, %tid.x;
mul.wide.u32 %rd3, %r1, 16;
add.u64 %rd4, %rd1, %rd3;
mov.u32 %r3, tile; shl.b32 %r4, %r1, 4; add.u32 %r5, %r3, %r4;
cp.async.cg.shared.global [%r5], [%rd4], 16;
cp.async.commit_group;
cp.async.cg.shared.global [%r5+2048], [%rd4+2048], 16;
cp.async.commit_group;
cp.async.wait_group 1;
bar.sync 0;
xor.b32 %r6, %r1, 127; shl.b32 %r7, %r6, 4; add.u32 %r8, %r3, %r7;
ld.shared.v4.b32 {%r10, %r11, %r12, %r13}, [%r8];
add.u64 %rd5, %rd2, %rd3;
st.global.v4.b32 [%rd5], {%r10, %r11, %r12, %r13};
cp.async.wait_group 0;
bar.sync 0;
ld.shared.v4.b32 {%r10, %r11, %r12, %r13}, [%r8+2048];
st.global.v4.b32 [%rd5+2048], {%r10, %r11, %r12, %r13};
ret;
""", pointers(2))


def run_copies(text: str, seed: int) -> float:
    x = np.arange(1024, dtype="i4")
    out = np.empty(1024, "i4")
    run(text, "k", (1,), 128, [x, Uninitialised(out)], seed=seed, limit=5000)
    want = x.reshape(2, 128, 4)[:, ::-1].reshape(-1)
    return float(np.abs(out - want).max())


BULK = kernel("""
.shared .align 128 .b8 tile[1024];
.shared .align 8 .b8 full[8];
ld.param.u64 %rd1, [p0]; ld.param.u64 %rd2, [p1];
mov.u32 %r1, %tid.x; mov.u32 %r2, full; mov.u32 %r3, tile;
setp.ne.u32 %p1, %r1, 0;
@%p1 bra ready;
mbarrier.init.shared.b64 [%r2], 1;
fence.mbarrier_init.release.cluster;
ready: bar.sync 0;
@%p1 bra wait;
mbarrier.arrive.expect_tx.shared.b64 _, [%r2], 512;
cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r3], [%rd1], 512, [%r2];
wait: mbarrier.try_wait.parity.shared.b64 %p2, [%r2], 0;
@!%p2 bra wait;
shl.b32 %r4, %r1, 2; add.u32 %r5, %r3, %r4;
ld.shared.b32 %r6, [%r5];
add.u32 %r6, %r6, 1;
st.shared.b32 [%r5+512], %r6;
fence.proxy.async.shared::cta;
bar.sync 0;
@%p1 bra done;
add.u32 %r7, %r3, 512;
cp.async.bulk.global.shared::cta.bulk_group [%rd2], [%r7], 512;
cp.async.bulk.commit_group;
cp.async.bulk.wait_group.read 0;
done: ret;
""", pointers(2))


def run_bulk(text: str, seed: int) -> float:
    x, out = aligned(128, "i4"), aligned(128, "i4")
    x[:] = np.arange(128)
    run(text, "k", (1,), 128, [x, Uninitialised(out)], seed=seed, limit=5000)
    return float(np.abs(out - x - 1).max())


ATOMIC = kernel("""
ld.param.u64 %rd1, [p0]; ld.param.u64 %rd2, [p1];
mov.u32 %r1, %tid.x; mov.u32 %r9, %ctaid.x;
mad.lo.u32 %r2, %r9, 64, %r1;
mul.wide.u32 %rd3, %r2, 4; add.u64 %rd4, %rd1, %rd3;
ld.global.b32 %r3, [%rd4];
red.relaxed.gpu.global.add.u32 [%rd2], %r3;
ret;
""", pointers(2))


def run_atomic(text: str, seed: int) -> float:
    x, total = np.arange(128, dtype="i4"), np.zeros(2, "i4")
    run(text, "k", (2,), 64, [x, total], seed=seed, limit=5000)
    return float(abs(total[0] - x.sum()))


def matmul(name: str, shared: int):
    def go(text: str, seed: int) -> float:
        rng = np.random.default_rng(0)
        m, n, k = 64, 64, 128
        a, b = rng.standard_normal((m, k)).astype("f2"), rng.standard_normal((k, n)).astype("f2")
        out = np.empty((m, n), "f2")
        run(text, "matmul", (1,), 128, [a, b, Uninitialised(out), m, n, k, k, n, n, None, None], shared_bytes=shared,
            seed=seed, limit=20_000, checks=Checks(copied_proxies=False))    # Triton has no such fence
        error = float(np.abs(out - a.astype("f8") @ b.astype("f8")).max())
        return 0.0 if error < 0.05 else error

    return (HERE / "made_by_triton" / f"{name}.ptx").read_text(), go


def run_specialised(text: str, seed: int) -> float:
    """A warp-specialised matmul: a producer warp with TMA, two warpgroups with wgmma, three stages."""
    rng = np.random.default_rng(0)
    m, n, k = 128, 128, 320
    a, b = rng.standard_normal((m, k)).astype("f2"), rng.standard_normal((k, n)).astype("f2")
    out = np.empty((m, n), "f2")
    run(text, "matmul", (1,), 288, [TensorMap(a, (128, 64), 128), TensorMap(b, (64, 64), 128), Uninitialised(out), n, m,
                                    n, k, 8], shared_bytes=131136, seed=seed, limit=200_000)
    error = float(np.abs(out - a.astype("f8") @ b.astype("f8")).max())
    return 0.0 if error < 0.05 else error


TEXTS: dict[str, tuple[str, Any]] = {
    "reduction": (REDUCTION, run_reduction), "copies": (COPIES, run_copies), "bulk": (BULK, run_bulk),
    "atomic": (ATOMIC, run_atomic), "mma": matmul("matmul_80", 16384), "wgmma": matmul("matmul_90", 24576),
    "specialised": ((HERE / "warp_specialised" / "matmul.ptx").read_text(), run_specialised),
}


@pytest.mark.parametrize("seed", [0, 1, 7])
@pytest.mark.parametrize("name", TEXTS)
def test_the_texts_are_right(name: str, seed: int) -> None:
    text, go = TEXTS[name]
    assert go(text, seed) == 0


def nth(old: str, new: str, n: int):
    """Replace the n-th occurrence only."""
    def change(text: str) -> str:
        parts = text.split(old)
        return old.join(parts[:n + 1]) + new + old.join(parts[n + 1:])

    return change


def without(old: str):
    return lambda text: text.replace(old, "")


def swap(old: str, new: str):
    return lambda text: text.replace(old, new)


def pattern(old: str, new: str, count: int = 0):
    return lambda text: re.sub(old, new, text, count=count)


PLANTED = [
    # shared memory and barriers
    ("reduction", "first barrier missing", nth("bar.sync 0;", "", 0), "race"),
    ("reduction", "second barrier missing", nth("bar.sync 0;", "", 1), "race"),
    ("reduction", "warp barrier missing", without("bar.warp.sync -1;"), "race"),
    ("reduction", "barrier of a part of the warps", nth("bar.sync 0;", "bar.sync 0, 64;", 0), "barrier race"),
    ("reduction", "barrier number out of range", nth("bar.sync 0;", "bar.sync 16;", 0), "barrier"),
    ("reduction", "barrier count no multiple of 32", nth("bar.sync 0;", "bar.sync 0, 100;", 0), "barrier"),
    ("reduction", "barrier that one warp leaves out",
     nth("bar.sync 0;", "setp.lt.u32 %p1, %r1, 96; @%p1 bar.sync 0, 128;", 0), "deadlock race"),
    ("reduction", "barriers of different counts", nth("bar.sync 0;", "setp.lt.u32 %p1, %r1, 32;\n"
     "@%p1 bar.sync 1, 64;\n@!%p1 bar.sync 1, 128;", 0), "barrier"),
    ("reduction", "stores to the wrong place", swap("xor.b32 %r6, %r1, 64", "or.b32 %r6, %r1, 64"), "value"),
    ("reduction", "shared memory past its end", swap("xor.b32 %r6, %r1, 64", "add.u32 %r6, %r1, 64"),
     "out of bounds uninitialised"),
    ("reduction", "shared memory before its start", swap("add.u32 %r8, %r3, %r7", "sub.u32 %r8, %r3, %r7"),
     "out of bounds"),
    ("reduction", "misaligned shared load", swap("ld.shared.f32 %r9, [%r8]", "ld.shared.f32 %r9, [%r8+2]"),
     "misaligned"),
    ("reduction", "vector load at an address for a scalar", swap("ld.shared.f32 %r9, [%r8]",
                                                                 "ld.shared.v2.f32 {%r9, %r20}, [%r8]"), "misaligned"),
    ("reduction", "shared memory that nothing wrote", swap("st.shared.f32 [%r5], %r2;", ""), "uninitialised"),
    ("reduction", "a half of it written", swap("st.shared.f32 [%r5], %r2;",
                                               "setp.lt.u32 %p1, %r1, 64; @%p1 st.shared.f32 [%r5], %r2;"),
     "uninitialised"),
    ("reduction", "two lanes store different values to one place",
     swap("shl.b32 %r4, %r1, 2", "and.b32 %r4, %r1, 124"), "race"),
    # registers
    ("reduction", "a register that nothing wrote", swap("add.f32 %r10, %r2, %r9", "add.f32 %r10, %r2, %r99"),
     "uninitialised"),
    ("reduction", "a load that a guard keeps out", swap("ld.global.f32 %r2, [%rd4]",
                                                        "setp.lt.u32 %p1, %r1, 100; @%p1 ld.global.f32 %r2, [%rd4]"),
     "uninitialised"),
    ("reduction", "a guard that nothing wrote", swap("st.global.f32 [%rd5], %r16", "@%p9 st.global.f32 [%rd5], %r16"),
     "uninitialised"),
    ("reduction", "a branch on a predicate that nothing wrote",
     swap("add.u64 %rd5, %rd2, %rd3;", "@%p9 bra end; end: add.u64 %rd5, %rd2, %rd3;"), "uninitialised"),
    ("reduction", "an address that nothing wrote", swap("add.u64 %rd5, %rd2, %rd3;", "mov.u64 %rd5, %rd77;"),
     "uninitialised"),
    # global memory
    ("reduction", "a load past the end", swap("ld.global.f32 %r2, [%rd4]", "ld.global.f32 %r2, [%rd4+4]"),
     "out of bounds"),
    ("reduction", "a load before the start", swap("ld.global.f32 %r2, [%rd4]", "ld.global.f32 %r2, [%rd4+-4]"),
     "out of bounds"),
    ("reduction", "a store past the end", swap("st.global.f32 [%rd5], %r16", "st.global.f32 [%rd5+512], %r16"),
     "out of bounds"),
    ("reduction", "a wild address", swap("add.u64 %rd5, %rd2, %rd3;", "mov.u64 %rd5, 0;"), "out of bounds"),
    ("reduction", "an address in the wrong space", swap("st.global.f32 [%rd5], %r16", "st.shared.f32 [%rd5], %r16"),
     "out of bounds"),
    ("reduction", "a misaligned global load", swap("ld.global.f32 %r2, [%rd4]", "ld.global.f32 %r2, [%rd4+1]"),
     "misaligned"),
    ("reduction", "an output read before it is written", swap("add.f32 %r16, %r10, %r15;",
     "add.u64 %rd6, %rd2, %rd3; ld.global.f32 %r16, [%rd6];"), "uninitialised"),
    ("reduction", "a race in global memory", swap("ret;", "mul.wide.u32 %rd7, %r6, 4; add.u64 %rd8, %rd2, %rd7;\n"
                                                  "ld.global.f32 %r20, [%rd8]; ret;"), "race"),
    ("reduction", "a race of stores in global memory", swap("st.global.f32 [%rd5], %r16", "st.global.f32 [%rd2], %r16"),
     "race"),
    ("reduction", "a store to the kernel's parameters", swap("st.global.f32 [%rd5], %r16",
     "mov.b64 %rd9, p0; st.global.f32 [%rd9], %r16"), "read-only"),
    # warps
    ("reduction", "a lane that the mask leaves out", swap("31, -1;", "31, 0x7fffffff;"), "membermask"),
    ("reduction", "a shuffle from lanes that are elsewhere",
     swap("shfl.sync.bfly.b32 %r15, %r14, 1, 31, -1;",
          "and.b32 %r30, %r1, 1; setp.eq.u32 %p1, %r30, 0; mov.u32 %r15, %r14;\n"
          "@%p1 shfl.sync.bfly.b32 %r15, %r14, 1, 31, 0x55555555;"), "uninitialised"),
    ("reduction", "a shuffle that waits for lanes that never come",
     swap("shfl.sync.bfly.b32 %r15, %r14, 1, 31, -1;",
          "and.b32 %r30, %r1, 31; setp.lt.u32 %p1, %r30, 16; mov.u32 %r15, %r14;\n"
          "@%p1 shfl.sync.bfly.b32 %r15, %r14, 1, 31, -1;\nbar.sync 3;"), "deadlock"),
    ("reduction", "an endless loop", swap("ret;", "again: bra again; ret;"), "limit"),
    ("reduction", "trap", swap("ret;", "setp.eq.u32 %p1, %r1, 77; @%p1 trap; ret;"), "trap"),
    # several CTAs
    ("atomic", "a plain addition of several CTAs", swap("red.relaxed.gpu.global.add.u32 [%rd2], %r3;",
     "ld.global.b32 %r4, [%rd2]; add.u32 %r4, %r4, %r3; st.global.b32 [%rd2], %r4;"), "race"),
    ("atomic", "a result read while others add", swap("ret;", "ld.global.b32 %r5, [%rd2]; st.global.b32 [%rd2+4], %r5;"
                                                      " ret;"), "race"),
    ("atomic", "a store where others add",
     swap("ret;", "setp.eq.u32 %p1, %r1, 0; @%p1 st.global.b32 [%rd2], %r9; ret;"), "race"),
    # asynchronous copies
    ("copies", "no wait", without("cp.async.wait_group 1;"), "early read"),
    ("copies", "a wait that leaves too much", swap("wait_group 1;", "wait_group 2;"), "early read"),
    ("copies", "no second wait", without("cp.async.wait_group 0;"), "early read"),
    ("copies", "no barrier after the wait", nth("bar.sync 0;", "", 0), "race"),
    ("copies", "a copy over what is being read", swap("xor.b32 %r6",
     "cp.async.cg.shared.global [%r5], [%rd4], 16; xor.b32 %r6"), "early read race"),
    ("copies", "a store over a copy under way", swap("cp.async.wait_group 1;", "st.shared.b32 [%r5], %r1;"),
     "in flight"),
    ("copies", "a copy past the end of its source", swap("[%rd4+2048], 16;", "[%rd4+4096], 16;"), "out of bounds"),
    ("copies", "a copy to a misaligned place", swap("[%r5+2048], [%rd4+2048]", "[%r5+2040], [%rd4+2048]"),
     "misaligned"),
    # bulk copies and mbarriers
    ("bulk", "no wait", pattern(r"wait: mbarrier.*\n.*\n", "wait:\n"), "early read"),
    ("bulk", "a try that nobody repeats", without("@!%p2 bra wait;"), "early read"),
    ("bulk", "too few bytes announced", swap("[%r2], 512;\ncp", "[%r2], 256;\ncp"), "deadlock"),
    ("bulk", "too many bytes announced", swap("[%r2], 512;\ncp", "[%r2], 1024;\ncp"), "deadlock"),
    ("bulk", "the wrong phase", swap("[%r2], 0;", "[%r2], 1;"), "early read"),
    ("bulk", "nobody arrives", swap("mbarrier.arrive.expect_tx.shared.b64 _,", "mbarrier.expect_tx.shared.b64"),
     "deadlock"),
    ("bulk", "more arrivals than awaited", swap("[%r2], 512;\ncp", "[%r2], 512;\nmbarrier.arrive.shared.b64 _, [%r2];\n"
                                               "mbarrier.arrive.shared.b64 _, [%r2];\ncp"), "barrier"),
    ("bulk", "an mbarrier that was not initialised", swap("mbarrier.init.shared.b64 [%r2], 1;", ""), "barrier"),
    ("bulk", "no barrier after the initialisation", nth("bar.sync 0;", "", 0), "race barrier"),
    ("bulk", "no proxy fence", without("fence.proxy.async.shared::cta;"), "proxy fence"),
    ("bulk", "the fence before the store", swap("st.shared.b32 [%r5+512], %r6;\nfence.proxy.async.shared::cta;",
     "fence.proxy.async.shared::cta;\nst.shared.b32 [%r5+512], %r6;"), "proxy fence"),
    ("bulk", "no barrier before the bulk store", nth("bar.sync 0;", "", 1), "race proxy fence uninitialised"),
    ("bulk", "no wait for the bulk store", without("cp.async.bulk.wait_group.read 0;"), "in flight"),
    ("bulk", "a store over what is being sent", swap("cp.async.bulk.wait_group.read 0;", "st.shared.b32 [%r7], %r1;"),
     "in flight"),
    ("bulk", "a size that is no multiple of 16", swap("[%rd1], 512, [%r2]", "[%rd1], 500, [%r2]"), "misaligned"),
    ("bulk", "a bulk copy past the end", swap("[%rd2], [%r7], 512", "[%rd2], [%r7], 528"), "out of bounds"),
    # matmul with mma.sync
    ("mma", "a barrier of the loop missing", nth("bar.sync", "//", 1), "race early"),
    ("mma", "a wait that leaves too much", swap("cp.async.wait_group \t2;", "cp.async.wait_group 3;"), "early read"),
    ("mma", "a wrong swizzle", nth("xor.b32", "or.b32", 3), "value race out of bounds uninitialised"),
    ("mma", "operands swapped", pattern(r"(mma\.sync[^;]*?\}, \{ )(%r\d+), (%r\d+)", r"\1\3, \2", 1), "value"),
    # matmul with wgmma
    ("wgmma", "accumulators read before the wait", swap("wgmma.wait_group.sync.aligned 0;", ""), "in flight"),
    ("wgmma", "a barrier of the loop missing", nth("bar.sync", "//", 1), "race early"),
    ("wgmma", "operands overwritten while they are read", swap("wgmma.wait_group.sync.aligned 1;",
                                                             "wgmma.wait_group.sync.aligned 3;"), "in flight"),
    # producer and consumers
    ("specialised", "the producer does not wait for free stages",
     pattern(r"@p bra L2;\s*bra L1;", "bra L2;", 1), "in flight race early read barrier"),
    ("specialised", "stages given back before their products are done",
     swap("wgmma.wait_group.sync.aligned 1;", "wgmma.wait_group.sync.aligned 2;"), "in flight race"),
    ("specialised", "accumulators read before the wait", swap("wgmma.wait_group.sync.aligned 0;", ""), "in flight"),
    ("specialised", "too few bytes announced", pattern(r"(expect_tx[^,]*, \[[^\]]*\], )(\d+)", r"\g<1>24576"),
     "early read deadlock barrier"),
    ("specialised", "no barrier in the warp's epilogue", pattern(r"bar\.warp\.sync\s+-1;", ""), "race"),
    ("specialised", "a wrong transpose immediate", swap("p, 1, 1, 0, 1;", "p, 1, 1, 0, 0;"),
     "value uninitialised out of bounds race early read"),
    ("specialised", "more arrivals awaited than come",
     swap("mbarrier.init.shared::cta.b64 [%r32], 2;", "mbarrier.init.shared::cta.b64 [%r32], 3;"), "deadlock"),
]


@pytest.mark.parametrize("name, what, change, kinds", PLANTED, ids=[f"{n}: {w}" for n, w, _, _ in PLANTED])
def test_planted(name: str, what: str, change: Any, kinds: str) -> None:
    text, go = TEXTS[name]
    wrong = change(text)
    assert wrong != text, "the fault was not planted"
    try:
        error = go(wrong, 0)
    except Fault as fault:
        assert fault.kind in kinds, str(fault)
        assert fault.line > 0
        assert fault.text == wrong.split("\n")[fault.line - 1].strip()
        assert f"PTX line {fault.line}" in str(fault)
    else:
        assert "value" in kinds and error > 0, f"not found: {what}"


def test_enough_are_planted() -> None:
    assert len(PLANTED) >= 40
    assert {kind for row in PLANTED for kind in ("race", "early read", "uninitialised", "out of bounds", "misaligned",
                                                 "deadlock", "barrier", "proxy fence", "in flight", "read-only",
                                                 "membermask", "trap", "limit") if kind in row[3]} >= {
        "race", "early read", "uninitialised", "out of bounds", "misaligned", "deadlock", "barrier", "proxy fence",
        "in flight", "read-only", "membermask", "trap", "limit"}


def test_the_users_line_is_named() -> None:
    text, go = TEXTS["mma"]
    with pytest.raises(Fault) as caught:
        go(text.replace("cp.async.wait_group \t2;", "cp.async.wait_group 3;"), 0)
    assert caught.value.location is not None
    assert caught.value.location.file == "kernels.py"
    assert "kernels.py:" in str(caught.value)


def test_a_deadlock_says_who_waits_for_what() -> None:
    text, go = TEXTS["bulk"]
    with pytest.raises(Fault, match=r"lacks 0 of 1 arrivals and 512 bytes") as caught:
        go(text.replace("[%r2], 512;\ncp", "[%r2], 1024;\ncp"), 0)
    assert "try_wait" in caught.value.text
