"""Ops that rearrange tiles, on every engine, against NumPy."""

import numpy as np
import pytest

import tilewright as triton
import tilewright.language as tl
from tests.departures import differs


@triton.jit
def load_2d(x, M: tl.constexpr, N: tl.constexpr):
    return tl.load(x + tl.arange(0, M)[:, None] * N + tl.arange(0, N)[None, :])


@triton.jit
def store_2d(out, v, M: tl.constexpr, N: tl.constexpr):
    tl.store(out + tl.arange(0, M)[:, None] * N + tl.arange(0, N)[None, :], v)


@triton.jit
def transpose(out, x, M: tl.constexpr, N: tl.constexpr):
    store_2d(out, tl.trans(load_2d(x, M, N)), N, M)


@triton.jit
def reshape(out, x, M: tl.constexpr, N: tl.constexpr, P: tl.constexpr, Q: tl.constexpr):
    store_2d(out, tl.reshape(load_2d(x, M, N), (P, Q)) * 2, P, Q)


@triton.jit
def reshape_of_transpose(out, x, M: tl.constexpr, N: tl.constexpr):
    store_2d(out, tl.reshape(load_2d(x, M, N).T, (M, N)), M, N)


@triton.jit
def permute_3d(out, x, A: tl.constexpr, B: tl.constexpr, C: tl.constexpr):
    v = tl.reshape(tl.load(x + tl.arange(0, A * B * C)), (A, B, C))
    tl.store(out + tl.arange(0, A * B * C), tl.reshape(tl.permute(v, (2, 0, 1)), (A * B * C,)))


@triton.jit
def join_split(joined, low, high, x, y, N: tl.constexpr):
    i = tl.arange(0, N)
    j = tl.join(tl.load(x + i), tl.load(y + i))
    tl.store(joined + i[:, None] * 2 + tl.arange(0, 2)[None, :], j)
    a, b = tl.split(j)
    tl.store(low + i, a + 1)
    tl.store(high + i, b - 1)


@triton.jit
def repeated_joins(out):
    v = tl.join(tl.join(1, 2), tl.join(3, 4))
    tl.store(out + tl.arange(0, 4), tl.reshape(v, (4,)))


@triton.jit
def cat(out, x, y, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(out + tl.arange(0, 2 * N), tl.cat(tl.load(x + i), tl.load(y + i), can_reorder=True))


@triton.jit
def outer(out, x, y, M: tl.constexpr, N: tl.constexpr):
    a = tl.load(x + tl.arange(0, M))
    b = tl.load(y + tl.arange(0, N))
    v = tl.broadcast_to(tl.expand_dims(a, 1), (M, N)) * tl.expand_dims(b, 0)
    store_2d(out, v, M, N)


@triton.jit
def filled(out, M: tl.constexpr, N: tl.constexpr):
    v = tl.full((M, N), 3, tl.float32) + tl.zeros((N,), tl.float32)[None, :]
    v += tl.zeros_like(tl.full((M, 1), 1, tl.float32))
    store_2d(out, v, M, N)


@triton.jit
def reduce_of_reshape(out, x, N: tl.constexpr):
    v = tl.reshape(tl.load(x + tl.arange(0, 4 * N)), (N, 2, 2))
    tl.store(out + tl.arange(0, N), tl.sum(tl.sum(v, axis=2), axis=1))


SHAPES = [(4, 8), (16, 16), (32, 2), (1, 16), (7, 5), (33, 17)]


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("dtype", [np.float32, np.int8, np.float16, np.int64])
def test_transpose(launch, shape, dtype):
    x = np.arange(shape[0] * shape[1]).reshape(shape).astype(dtype)
    out = np.zeros(shape[::-1], dtype)
    launch(transpose, (1,), out, x, M=shape[0], N=shape[1])
    np.testing.assert_array_equal(out, x.T)


@pytest.mark.parametrize("shapes", [((4, 8), (8, 4)), ((16, 16), (4, 64)), ((6, 10), (15, 4)), ((32, 1), (2, 16)),
                                    ((5, 7), (7, 5))])
def test_reshape(launch, shapes):
    (m, n), (p, q) = shapes
    x, out = np.arange(m * n, dtype=np.float32).reshape(m, n), np.zeros((p, q), np.float32)
    launch(reshape, (1,), out, x, M=m, N=n, P=p, Q=q)
    np.testing.assert_array_equal(out, x.reshape(p, q) * 2)


@pytest.mark.parametrize("shape", SHAPES)
def test_reshape_of_transpose(launch, shape):
    x, out = np.arange(shape[0] * shape[1], dtype=np.int32).reshape(shape), np.zeros(shape, np.int32)
    launch(reshape_of_transpose, (1,), out, x, M=shape[0], N=shape[1])
    np.testing.assert_array_equal(out, x.T.reshape(shape))


@pytest.mark.parametrize("shape", [(2, 4, 8), (3, 5, 7), (1, 1, 16)])
def test_permute(launch, shape):
    x = np.arange(np.prod(shape), dtype=np.float32)
    out = np.zeros_like(x)
    launch(permute_3d, (1,), out, x, A=shape[0], B=shape[1], C=shape[2])
    np.testing.assert_array_equal(out, x.reshape(shape).transpose(2, 0, 1).ravel())


@pytest.mark.parametrize("n", [1, 7, 16, 64])
def test_join_and_split(launch, n):
    x, y = np.arange(n, dtype=np.float32), 100 + np.arange(n, dtype=np.float32)
    joined, low, high = np.zeros((n, 2), np.float32), np.zeros(n, np.float32), np.zeros(n, np.float32)
    launch(join_split, (1,), joined, low, high, x, y, N=n)
    np.testing.assert_array_equal(joined, np.stack([x, y], -1))
    np.testing.assert_array_equal(low, x + 1)
    np.testing.assert_array_equal(high, y - 1)


def test_order_of_repeated_joins(launch):
    out = np.zeros(4, np.int32)
    launch(repeated_joins, (1,), out)
    assert out.tolist() == [1, 3, 2, 4]


@differs("Tiles may have any size")
@pytest.mark.parametrize("n", [1, 5, 16])
def test_cat(launch, n):
    x, y, out = np.arange(n, dtype=np.int32), -np.arange(n, dtype=np.int32), np.zeros(2 * n, np.int32)
    launch(cat, (1,), out, x, y, N=n)
    np.testing.assert_array_equal(out, np.concatenate([x, y]))


@pytest.mark.parametrize("shape", SHAPES)
def test_outer_product(launch, shape):
    m, n = shape
    x, y, out = np.arange(m, dtype=np.float32), np.arange(n, dtype=np.float32), np.zeros(shape, np.float32)
    launch(outer, (1,), out, x, y, M=m, N=n)
    np.testing.assert_array_equal(out, np.outer(x, y))


def test_filled(launch):
    out = np.zeros((4, 8), np.float32)
    launch(filled, (1,), out, M=4, N=8)
    assert (out == 3).all()


@pytest.mark.parametrize("n", [1, 4, 7, 32])
def test_reduce_of_reshape(launch, n):
    x, out = np.arange(4 * n, dtype=np.float32), np.zeros(n, np.float32)
    launch(reduce_of_reshape, (1,), out, x, N=n)
    np.testing.assert_array_equal(out, x.reshape(n, 4).sum(1))


@triton.jit
def scaled_rows(x, scale, out, BY_ROW: tl.constexpr, M: tl.constexpr, N: tl.constexpr):
    if BY_ROW:
        s = tl.load(scale + tl.arange(0, M))
    else:
        s = tl.load(scale)
    at = tl.arange(0, M)[:, None] * N + tl.arange(0, N)[None, :]
    tl.store(out + at, tl.load(x + at) * s[:, None])


@pytest.mark.parametrize("by_row", [True, False])
def test_a_scalar_is_subscripted_like_the_tile_in_its_place(launch, by_row):
    x, scale, out = np.ones((8, 16), np.float32), np.arange(3, 11, dtype=np.float32), np.zeros((8, 16), np.float32)
    launch(scaled_rows, (1,), x, scale, out, BY_ROW=by_row, M=8, N=16)
    np.testing.assert_array_equal(out, x * (scale[:, None] if by_row else 3))
