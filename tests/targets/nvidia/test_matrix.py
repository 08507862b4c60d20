"""Products on tensor cores: every type and precision, on the PTX machine, against NumPy."""

import numpy as np
import pytest

import tilewright as triton
import tilewright.language as tl
from tests.targets.nvidia.harness import compiled, laid_out, tile_ir
from tilewright.layout.mma import accumulator
from tilewright.targets.nvidia import NvidiaTarget
from tilewright.targets.nvidia.assemble import find_assembler
from tilewright.targets.nvidia.mma import warp_grid, warps_of
from tilewright.testing import ptx_machine
from tilewright.testing.engines import launch


@triton.jit
def product(a, b, c, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr, precision: tl.constexpr = None,
            transposed: tl.constexpr = False):
    m, n, k = tl.arange(0, M), tl.arange(0, N), tl.arange(0, K)
    x = tl.load(a + m[:, None] * K + k[None, :])
    if transposed:
        y = tl.trans(tl.load(b + n[:, None] * K + k[None, :]))
    else:
        y = tl.load(b + k[:, None] * N + n[None, :])
    tl.store(c + m[:, None] * N + n[None, :], tl.dot(x, y, input_precision=precision))


@triton.jit
def batches(a, b, c, B: tl.constexpr, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    i, m, n, k = tl.arange(0, B), tl.arange(0, M), tl.arange(0, N), tl.arange(0, K)
    x = tl.load(a + i[:, None, None] * (M * K) + m[None, :, None] * K + k[None, None, :])
    y = tl.load(b + i[:, None, None] * (K * N) + k[None, :, None] * N + n[None, None, :])
    tl.store(c + i[:, None, None] * (M * N) + m[None, :, None] * N + n[None, None, :], tl.dot(x, y))


@triton.jit
def attention(q, k, v, out, M: tl.constexpr, N: tl.constexpr, D: tl.constexpr):
    m, n, d = tl.arange(0, M), tl.arange(0, N), tl.arange(0, D)
    s = tl.dot(tl.load(q + m[:, None] * D + d[None, :]), tl.trans(tl.load(k + n[:, None] * D + d[None, :])))
    p = tl.exp(s - tl.max(s, 1)[:, None])
    p = p / tl.sum(p, 1)[:, None]
    o = tl.dot(p.to(tl.float16), tl.load(v + n[:, None] * D + d[None, :]))
    tl.store(out + m[:, None] * D + d[None, :], o)


@triton.jit
def product_of_bytes(a, b, c, one: tl.constexpr, other: tl.constexpr, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr,
                     transposed: tl.constexpr):
    m, n, k = tl.arange(0, M), tl.arange(0, N), tl.arange(0, K)
    x = tl.load(a + m[:, None] * K + k[None, :]).to(one, bitcast=True)
    if transposed:
        y = tl.trans(tl.load(b + n[:, None] * K + k[None, :])).to(other, bitcast=True)
    else:
        y = tl.load(b + k[:, None] * N + n[None, :]).to(other, bitcast=True)
    tl.store(c + m[:, None] * N + n[None, :], tl.dot(x, y))


def numbers(shape, dtype, seed=0):
    rng = np.random.default_rng(seed)
    if dtype == np.int8:
        return rng.integers(-128, 128, shape, np.int8)
    return rng.standard_normal(shape).astype(dtype)


def run(kernel, *args, target=ptx_machine.TARGET, **constants):
    return ptx_machine.run(kernel, (1,), args, constants, target).texts["ptx"]


@pytest.mark.parametrize("M, N, K, warps", [(16, 8, 16, 1), (64, 32, 32, 4), (32, 64, 64, 2), (16, 128, 16, 8),
                                            (128, 16, 32, 4)])
@pytest.mark.parametrize("transposed", [False, True])
def test_shapes_and_warps(M, N, K, warps, transposed):
    a, b = numbers((M, K), np.float16), numbers((K, N), np.float16, 1)
    c = np.zeros((M, N), np.float32)
    given = np.ascontiguousarray(b.T) if transposed else b
    ptx = run(product, a, given, c, M=M, N=N, K=K, transposed=transposed, num_warps=warps)
    np.testing.assert_allclose(c, a.astype(np.float32) @ b.astype(np.float32), rtol=1e-5, atol=1e-4)
    by_warpgroups = M >= 64 and N >= 32 and warps % 4 == 0      # test_warpgroup.py
    assert ("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32" in ptx) != by_warpgroups


@pytest.mark.parametrize("dtype, out, name", [
    (np.float32, np.float32, "m16n8k8.row.col.f32.tf32.tf32.f32"), (np.float64, np.float64, "m8n8k4.row.col.f64"),
    (np.int8, np.int32, "m16n8k32.row.col.s32.s8.s8.s32")])
def test_types(dtype, out, name):
    a, b, c = numbers((32, 32), dtype), numbers((32, 16), dtype, 1), np.zeros((32, 16), out)
    ptx = run(product, a, b, c, M=32, N=16, K=32)
    want = a.astype(np.float64) @ b.astype(np.float64)
    np.testing.assert_allclose(c, want, rtol=0, atol={4: 2e-2, 8: 1e-12, 1: 0}[np.dtype(dtype).itemsize])
    assert f"mma.sync.aligned.{name}" in ptx


@pytest.mark.parametrize("K", [16, 64])
@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("one, other", [(tl.float8e4nv, tl.float8e4nv), (tl.float8e5, tl.float8e4nv)])
def test_two_numbers_of_eight_bits_are_widened_at_a_time(one, other, transposed, K):
    """Without those that are not finite, since f16 products are summed in another order, all codes."""
    rng = np.random.default_rng(0)
    a, b = (rng.integers(0, 120, shape, np.uint8) + 128 * rng.integers(0, 2, shape, np.uint8)
            for shape in ((32, K), (16, K) if transposed else (K, 16)))
    given = {"one": one, "other": other, "M": 32, "N": 16, "K": K, "transposed": transposed}
    found, wanted = np.zeros((32, 16), np.float32), np.zeros((32, 16), np.float32)
    ptx = run(product_of_bytes, a, b, found, **given)
    launch("batched", product_of_bytes, (1,), a, b, wanted, **given)
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-5 * np.abs(wanted).max())
    assert "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32" in ptx and "cvt.rn.f16x2.e4m3x2" in ptx
    assert ("cvt.rn.f16x2.e5m2x2" in ptx) == (one == tl.float8e5) and "mul.rn.f16" not in ptx


def test_what_is_not_finite_in_eight_bits():
    a = np.full((16, 16), 0x38, np.uint8)      # e4m3's 1
    a[3, 5], a[4, 6] = 0x7F, 0xFF              # NaNs
    b, c = np.full((16, 8), 0x3C, np.uint8), np.zeros((16, 8), np.float32)
    b[0, 2], b[1, 2], b[2, 4] = 0x7C, 0xFC, 0xFC        # e5m2's infinities
    run(product_of_bytes, a, b, c, one=tl.float8e4nv, other=tl.float8e5, M=16, N=8, K=16, transposed=False)
    wanted = np.full((16, 8), 16.0)
    wanted[:, 2], wanted[:, 4], wanted[3:5] = np.nan, -np.inf, np.nan
    np.testing.assert_array_equal(c, wanted)


@pytest.mark.parametrize("precision, error, name", [("tf32", 2e-2, "tf32"), ("tf32x3", 2e-5, "tf32"),
                                                    ("bf16x3", 2e-3, "bf16"), ("bf16x6", 2e-5, "bf16"),
                                                    ("ieee", 2e-5, "")])
def test_precisions(precision, error, name):
    a, b, c = numbers((32, 32), np.float32), numbers((32, 16), np.float32, 1), np.zeros((32, 16), np.float32)
    ptx = run(product, a, b, c, M=32, N=16, K=32, precision=precision)
    np.testing.assert_allclose(c, a.astype(np.float64) @ b.astype(np.float64), rtol=0, atol=error)
    assert ("mma.sync" in ptx) == bool(name) and f".{name}" in ptx


@pytest.mark.parametrize("precision", ["tf32x3", "bf16x3", "bf16x6"])
def test_infinities_stay(precision):
    a, b, c = np.ones((16, 16), np.float32), np.ones((16, 8), np.float32), np.zeros((16, 8), np.float32)
    a[3, 2], a[5, 1] = np.inf, np.nan
    run(product, a, b, c, M=16, N=8, K=16, precision=precision)
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(c, a @ b)


def test_batches():
    a, b, c = numbers((3, 16, 16), np.float16), numbers((3, 16, 8), np.float16, 1), np.zeros((3, 16, 8), np.float32)
    batched = numbers((4, 16, 16), np.float16), numbers((4, 16, 8), np.float16, 1), np.zeros((4, 16, 8), np.float32)
    for x, y, z in ((a, b, c), batched):
        if len(x) == 4:
            run(batches, x, y, z, B=4, M=16, N=8, K=16)
            np.testing.assert_allclose(z, x.astype(np.float32) @ y.astype(np.float32), rtol=1e-5, atol=1e-4)


def test_sides_that_are_no_powers_of_two():
    a, b, c = numbers((48, 32), np.float16), numbers((32, 24), np.float16, 1), np.zeros((48, 24), np.float32)
    ptx = run(product, a, b, c, M=48, N=24, K=32, num_warps=2)
    np.testing.assert_allclose(c, a.astype(np.float32) @ b.astype(np.float32), rtol=1e-5, atol=1e-4)
    assert "mma.sync" in ptx
    a, b = numbers((16, 24), np.float16), numbers((24, 8), np.float16, 1)
    c = np.zeros((16, 8), np.float32)
    assert "mma.sync" not in run(product, a, b, c, M=16, N=8, K=24)      # what lies past K may be anything
    np.testing.assert_allclose(c, a.astype(np.float32) @ b.astype(np.float32), rtol=1e-5, atol=1e-4)


def test_the_rows_of_chained_products_stay_in_their_warps():
    q, k, v = (numbers((64, 32), np.float16, s) for s in range(3))
    out = np.zeros((64, 32), np.float32)
    ptx = run(attention, q, k, v, out, M=64, N=64, D=32)
    s = q.astype(np.float32) @ k.astype(np.float32).T
    p = np.exp(s - s.max(1, keepdims=True))
    np.testing.assert_allclose(out, p / p.sum(1, keepdims=True) @ v.astype(np.float32), rtol=0, atol=5e-3)
    assert ptx.count("bar.sync") == 5       # q and k together, v, the result: trips; one before the first is needless
    module = laid_out(tile_ir(attention, q, k, v, out, M=64, N=64, D=32))
    for op in module.entry.body.ops:
        if op.name == "dot":
            assert warps_of(op.result.type.layout, 4) == (4, 1)


def test_before_capability_9():
    a, b, c = numbers((32, 32), np.float16), numbers((32, 16), np.float16, 1), np.zeros((32, 16), np.float32)
    ptx = run(product, a, b, c, M=32, N=16, K=32, target=NvidiaTarget(80, assemble=False))
    np.testing.assert_allclose(c, a.astype(np.float32) @ b.astype(np.float32), rtol=1e-5, atol=1e-4)
    assert "stmatrix" not in ptx and "mma.sync" in ptx


@pytest.mark.parametrize("rows, columns, warps, along, want", [
    (128, 128, 4, False, (2, 2)), (64, 256, 4, False, (1, 4)), (256, 32, 4, False, (4, 1)), (128, 128, 8, True, (8, 1)),
    (32, 128, 8, True, (2, 4))])
def test_warp_grids(rows, columns, warps, along, want):
    grid = warp_grid(rows, columns, warps, along)
    assert grid == want and warps_of(accumulator((rows, columns), grid), warps) is not None


@pytest.mark.skipif(find_assembler() is None, reason="needs ptxas or nvJitLink")
def test_no_spills_in_a_tile_of_128():
    module = tile_ir(product, np.zeros((128, 64), np.float16), np.zeros((64, 128), np.float16),
                     np.zeros((128, 128), np.float32), M=128, N=128, K=64)
    facts = compiled(module, target=NvidiaTarget(90)).metadata
    assert facts["spill_bytes"] == 0 and facts["advisories"] == []
