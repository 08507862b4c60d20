"""map_elementwise on every engine: branches, several results, packs, types."""

import numpy as np
import pytest

import tilewright as triton
import tilewright.language as tl


@triton.jit
def branching(x, y):
    if x > y:
        r = x - y
        if r > 2.0:
            r = 2.0 * x
    else:
        r = y * y
    return r


@triton.jit
def divide(a, b):
    return a // b, a % b, (a > b).to(tl.int8)


@triton.jit
def swap(a, b):
    return b, a


@triton.jit
def order_pairs(a, b, c, d):
    return tl.minimum(a, b), tl.maximum(a, b), c + a, d + b


@triton.jit
def one_result(out, x, y, M: tl.constexpr, N: tl.constexpr):
    i, j = tl.arange(0, M)[:, None], tl.arange(0, N)[None, :]
    tl.store(out + i * N + j, tl.map_elementwise(branching, tl.load(x + i * N + j), tl.load(y + j)))


@triton.jit
def many_results(q, r, g, a, b, N: tl.constexpr):
    i = tl.arange(0, N)
    quotient, rest, greater = tl.map_elementwise(divide, tl.load(a + i), tl.load(b + i))
    tl.store(q + i, quotient)
    tl.store(r + i, rest)
    tl.store(g + i, greater)


@triton.jit
def packed(out, more, x, y, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(out + i, tl.map_elementwise(swap, tl.load(x + i), pack=2))
    first, second = tl.map_elementwise(order_pairs, tl.load(x + i), tl.load(y + i), pack=2)
    tl.store(more + i, first)
    tl.store(more + N + i, second)


@pytest.mark.parametrize("shape", [(1, 8), (5, 19)])
def test_branches(launch, shape):
    rng = np.random.default_rng(1)
    x, y = rng.uniform(-4, 4, shape).astype(np.float32), rng.uniform(-4, 4, shape[1]).astype(np.float32)
    out = np.zeros_like(x)
    launch(one_result, (1,), out, x, y, M=shape[0], N=shape[1])
    want = np.where(x > y, np.where(x - y > 2, 2 * x, x - y), y * y)
    np.testing.assert_array_equal(out, want)


def test_several_results(launch):
    rng = np.random.default_rng(2)
    a, b = rng.integers(-50, 50, 37).astype(np.int32), rng.integers(1, 9, 37).astype(np.int32)
    q, r, g = np.zeros_like(a), np.zeros_like(a), np.zeros(37, np.int8)
    launch(many_results, (1,), q, r, g, a, b, N=37)
    np.testing.assert_array_equal(q, np.trunc(a / b))
    np.testing.assert_array_equal(r, np.fmod(a, b))
    np.testing.assert_array_equal(g, a > b)


@pytest.mark.parametrize("n", [2, 16, 38])
def test_packs_hold_neighbours(launch, n):
    x, y = (np.random.default_rng(k).integers(0, 99, n).astype(np.int32) for k in (3, 4))
    out, more = np.zeros(n, np.int32), np.zeros((2, n), np.int32)
    launch(packed, (1,), out, more, x, y, N=n)
    pairs = x.reshape(-1, 2)
    np.testing.assert_array_equal(out, pairs[:, ::-1].reshape(-1))
    np.testing.assert_array_equal(more, [np.sort(pairs, 1).reshape(-1), x + y])
