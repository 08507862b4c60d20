"""Programs of 1 to 32 warps: what crosses lanes and warps, at sizes that fit and that do not."""

import numpy as np
import pytest

import tilewright as triton
import tilewright.language as tl
from tilewright.testing import engines

WARPS = (1, 2, 8, 32)
SIZES = (1, 7, 33, 256, 1000)


@triton.jit
def first_of_larger(a, i, b, j):
    """Of equal numbers the one that comes first."""
    left = (a > b) | ((a == b) & (i < j))
    return tl.where(left, a, b), tl.where(left, i, j)


@triton.jit
def affine(a, b, c, d):
    """x -> a*x + b, then x -> c*x + d: associative, not commutative."""
    return c * a, c * b + d


@triton.jit
def everything(x, total, where, prefix, suffix, slopes, ordered, counts, N: tl.constexpr):
    i = tl.arange(0, N)
    v = tl.load(x + i)
    tl.store(total, tl.sum(v, axis=0))
    best, place = tl.reduce((v % 5, i), 0, first_of_larger)
    tl.store(where, place)
    tl.store(prefix + i, tl.cumsum(v, 0))
    tl.store(suffix + i, tl.cumsum(v, 0, reverse=True))
    a, b = tl.associative_scan((v % 3 - 1, v), 0, affine)
    tl.store(slopes + i, a * 1000 + b)
    tl.store(ordered + i, tl.sort(v))
    tl.store(counts + tl.arange(0, 16), tl.histogram(v & 15, 16))
    tl.atomic_add(total + 1 + i % 2, v)


def expected(x):
    best, place = -1, 0
    for k, v in enumerate((x % 5).tolist()):
        if v > best:
            best, place = v, k
    a, b, slopes = 1, 0, []
    for k, v in enumerate(x.tolist()):
        c, d = v % 3 - 1, v
        a, b = (c, d) if k == 0 else (c * a, c * b + d)
        slopes.append(a * 1000 + b)
    sums = np.array([x.sum(), x[::2].sum(), x[1::2].sum()])
    return (sums, np.array([place]), np.cumsum(x), np.cumsum(x[::-1])[::-1], np.array(slopes), np.sort(x),
            np.bincount(x & 15, minlength=16))


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("warps", WARPS)
def test_vectors(warps, n):
    x = np.random.default_rng(n).integers(0, 50, n).astype(np.int32)
    outs = [np.zeros(size, np.int32) for size in (3, 1, n, n, n, n, 16)]
    engines.launch("ptx", everything, (1,), x, *outs, N=n, num_warps=warps)
    for name, out, want in zip(("total", "where", "prefix", "suffix", "slopes", "ordered", "counts"), outs,
                               expected(x), strict=True):
        np.testing.assert_array_equal(out, want, err_msg=name)


@triton.jit
def matrices(x, rows, columns, scans, turned, M: tl.constexpr, N: tl.constexpr):
    i, j = tl.arange(0, M), tl.arange(0, N)
    v = tl.load(x + i[:, None] * N + j[None, :])
    tl.store(rows + i, tl.sum(v, axis=1))
    tl.store(columns + j, tl.max(v, axis=0))
    tl.store(scans + i[:, None] * N + j[None, :], tl.cumsum(v, 0))
    tl.store(turned + j[:, None] * M + i[None, :], tl.trans(v) + tl.sum(v, axis=1)[None, :])


@pytest.mark.parametrize("shape", [(1, 1), (3, 5), (16, 64), (100, 3), (2, 300)])
@pytest.mark.parametrize("warps", WARPS)
def test_matrices(warps, shape):
    m, n = shape
    x = np.random.default_rng(m * n).integers(-9, 9, shape).astype(np.int32)
    outs = [np.zeros(s, np.int32) for s in ((m,), (n,), (m, n), (n, m))]
    engines.launch("ptx", matrices, (1,), x, *outs, M=m, N=n, num_warps=warps)
    for out, want in zip(outs, (x.sum(1), x.max(0), x.cumsum(0), x.T + x.sum(1)[None, :]), strict=True):
        np.testing.assert_array_equal(out, want)
