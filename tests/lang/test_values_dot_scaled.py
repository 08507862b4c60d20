"""dot_scaled on every engine, against the formats stated element by element in float64."""

import numpy as np
import pytest

import tilewright as triton
import tilewright.language as tl
from tilewright.ir import fp
from tilewright.ir.types import F8E4M3, F8E5M2

FP4 = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6])


@triton.jit
def product(c, a, sa, b, sb, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr, AM: tl.constexpr, AK: tl.constexpr,
            BK: tl.constexpr, BN: tl.constexpr, GROUPS: tl.constexpr, FA: tl.constexpr, FB: tl.constexpr,
            PACK: tl.constexpr):
    x = tl.load(a + tl.arange(0, AM)[:, None] * AK + tl.arange(0, AK)[None, :])
    y = tl.load(b + tl.arange(0, BK)[:, None] * BN + tl.arange(0, BN)[None, :])
    g = tl.arange(0, GROUPS)[None, :]
    if sb is None:
        scale_b = None
    else:
        scale_b = tl.load(sb + tl.arange(0, N)[:, None] * GROUPS + g)
    acc = tl.full((M, N), 1, tl.float32)
    r = tl.dot_scaled(x, tl.load(sa + tl.arange(0, M)[:, None] * GROUPS + g), FA, y, scale_b, FB, acc,
                      lhs_k_pack=PACK, rhs_k_pack=PACK)
    tl.store(c + tl.arange(0, M)[:, None] * N + tl.arange(0, N)[None, :], r)


def operand(kind, shape, packed, rng):
    """(what is stored, its numbers in float64)."""
    if kind == "e2m1":
        codes = rng.integers(0, 16, shape).astype(np.uint8)
        low, high = (np.take(codes, range(k, shape[packed], 2), packed) for k in (0, 1))
        return low | (high << 4), FP4[codes]
    numbers = rng.integers(-4, 5, shape) / 2
    if kind == "fp16":
        return numbers.astype(np.float16), numbers
    return fp.encode(numbers, F8E4M3 if kind == "e4m3" else F8E5M2), numbers


@pytest.mark.parametrize("k_pack", [True, False])
@pytest.mark.parametrize("kinds", [("e2m1", "e2m1"), ("e4m3", "e2m1"), ("e5m2", "e4m3"), ("fp16", "e5m2")])
@pytest.mark.parametrize("scaled", [True, False])
def test_formats(launch, kinds, k_pack, scaled):
    rng = np.random.default_rng(1)
    m, n, k, groups = 16, 8, 64, 2
    a, x = operand(kinds[0], (m, k), 1 if k_pack else 0, rng)
    b, y = operand(kinds[1], (k, n), 0 if k_pack else 1, rng)
    sa, sb = rng.integers(120, 134, (m, groups)).astype(np.uint8), rng.integers(124, 130, (n, groups)).astype(np.uint8)
    c = np.zeros((m, n), np.float32)
    launch(product, (1,), c, a, sa, b, sb if scaled else None, M=m, N=n, K=k, AM=a.shape[0], AK=a.shape[1],
           BK=b.shape[0], BN=b.shape[1], GROUPS=groups, FA=kinds[0], FB=kinds[1], PACK=k_pack)
    left = x * np.repeat(2.0 ** (sa.astype(int) - 127), k // groups, 1)
    right = y * np.repeat(2.0 ** (sb.astype(int) - 127), k // groups, 1).T if scaled else y
    np.testing.assert_allclose(c, left @ right + 1, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("kinds", [("e2m1", "e2m1"), ("e4m3", "e4m3"), ("fp16", "e5m2")])
def test_scales_with_a_mantissa(launch, kinds):
    """NVFP4: scales of e4m3, a scale for 16 elements."""
    rng = np.random.default_rng(2)
    m, n, k, groups = 16, 8, 64, 4
    (a, x), (b, y) = operand(kinds[0], (m, k), 1, rng), operand(kinds[1], (k, n), 0, rng)
    scales = [rng.choice([0.875, 1.125, 1.75, 208.0, -0.25, 2.0**-9], (size, groups)) for size in (m, n)]
    sa, sb = (triton.reinterpret(fp.encode(s, F8E4M3), tl.float8e4nv) for s in scales)
    c = np.zeros((m, n), np.float32)
    launch(product, (1,), c, a, sa, b, sb, M=m, N=n, K=k, AM=a.shape[0], AK=a.shape[1], BK=b.shape[0], BN=b.shape[1],
           GROUPS=groups, FA=kinds[0], FB=kinds[1], PACK=True)
    left, right = (np.repeat(s, k // groups, 1) for s in scales)
    np.testing.assert_allclose(c, (x * left) @ (y * right.T) + 1, rtol=1e-5, atol=1e-4)


def test_smallest_scale_and_nan(launch):
    a, b = np.full((16, 32), 0x22, np.uint8), np.full((32, 8), 0x22, np.uint8)      # all ones
    sa = np.full((16, 2), 0, np.uint8)
    sa[3] = 255
    c = np.zeros((16, 8), np.float32)
    launch(product, (1,), c, a, sa, b, None, M=16, N=8, K=64, AM=16, AK=32, BK=32, BN=8, GROUPS=2, FA="e2m1",
           FB="e2m1", PACK=True)
    assert np.isnan(c[3]).all() and (np.delete(c, 3, 0) == 1).all()
