"""Reductions over any axis, any size, on every engine, against NumPy."""

import numpy as np
import pytest

import tilewright as triton
import tilewright.language as tl
from tests.departures import differs


@triton.jit
def reduce_2d(out, x, M: tl.constexpr, N: tl.constexpr, AXIS: tl.constexpr, OP: tl.constexpr):
    i = tl.arange(0, M)
    j = tl.arange(0, N)
    v = tl.load(x + i[:, None] * N + j[None, :])
    if OP == "sum":
        r = tl.sum(v, axis=AXIS)
    elif OP == "max":
        r = tl.max(v, axis=AXIS)
    elif OP == "min":
        r = tl.min(v, axis=AXIS)
    elif OP == "argmax":
        r = tl.argmax(v, axis=AXIS)
    else:
        r = tl.argmin(v, axis=AXIS)
    if AXIS == 0:
        tl.store(out + j, r)
    else:
        tl.store(out + i, r)


@triton.jit
def reduce_all(out, x, N: tl.constexpr):
    v = tl.load(x + tl.arange(0, N))
    tl.store(out, tl.sum(v))
    tl.store(out + 1, tl.max(v, axis=0))
    tl.store(out + 2, tl.min(v, axis=0))


@triton.jit
def product(a, b):
    return a * b


@triton.jit
def last_nonzero(a, b):
    return tl.where(b != 0, b, a)


@triton.jit
def custom_reduce(out, x, N: tl.constexpr):
    v = tl.load(x + tl.arange(0, N))
    tl.store(out, tl.reduce(v, 0, product))
    tl.store(out + 1, tl.reduce(v, 0, last_nonzero))


@triton.jit
def pair_max(a_value, a_index, b_value, b_index):
    take = (b_value > a_value) | ((b_value == a_value) & (b_index < a_index))
    return tl.where(take, b_value, a_value), tl.where(take, b_index, a_index)


@triton.jit
def joint_reduce(values, indices, x, M: tl.constexpr, N: tl.constexpr):
    i = tl.arange(0, M)
    j = tl.arange(0, N)
    v = tl.load(x + i[:, None] * N + j[None, :])
    index = tl.broadcast_to(j[None, :], (M, N))
    best, where = tl.reduce((v, index), 1, pair_max)
    tl.store(values + i, best)
    tl.store(indices + i, where)


@triton.jit
def reduce_3d(out, x, A: tl.constexpr, B: tl.constexpr, C: tl.constexpr, AXIS: tl.constexpr):
    i = tl.arange(0, A)[:, None, None]
    j = tl.arange(0, B)[None, :, None]
    k = tl.arange(0, C)[None, None, :]
    r = tl.sum(tl.load(x + i * (B * C) + j * C + k), axis=AXIS, keep_dims=True)
    if AXIS == 0:
        tl.store(out + j * C + k, r)
    elif AXIS == 1:
        tl.store(out + i * C + k, r)
    else:
        tl.store(out + i * B + j, r)


@triton.jit
def sum_of_sum(out, x, M: tl.constexpr, N: tl.constexpr):
    v = tl.load(x + tl.arange(0, M)[:, None] * N + tl.arange(0, N)[None, :])
    rows = tl.sum(v, axis=1)
    tl.store(out, tl.sum(rows, axis=0))
    tl.store(out + 1, tl.sum(tl.sum(v, axis=0), axis=0))
    tl.store(out + 2, tl.sum(v))


@triton.jit
def max_with_index(out, index, x, N: tl.constexpr):
    v, i = tl.max(tl.load(x + tl.arange(0, N)), axis=0, return_indices=True)
    tl.store(out, v)
    tl.store(index, i)


OPS = {"sum": np.sum, "max": np.max, "min": np.min, "argmax": np.argmax, "argmin": np.argmin}


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("op", list(OPS))
@pytest.mark.parametrize("shape", [(16, 1), (1, 16), (4, 4), (8, 64), (7, 33)])
@pytest.mark.parametrize("dtype", [np.float32, np.int32])
def test_2d(launch, shape, op, axis, dtype):
    rng = np.random.default_rng(3)
    x = (rng.standard_normal(shape) * 50).round().astype(dtype)
    expected = OPS[op](x, axis=axis)
    out = np.zeros(shape[1 - axis], np.int32 if op.startswith("arg") else dtype)
    launch(reduce_2d, (1,), out, x, M=shape[0], N=shape[1], AXIS=axis, OP=op)
    np.testing.assert_array_equal(out, expected)


@pytest.mark.parametrize("n", [1, 2, 7, 16, 64, 1000, 1024])
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16, np.int32, np.int64, np.int16, np.int8, np.uint8])
def test_whole_vector(launch, n, dtype):
    rng = np.random.default_rng(n)
    x = rng.integers(0, 9, n).astype(dtype)
    out = np.zeros(3, np.float64 if np.issubdtype(dtype, np.floating) else np.int64)
    launch(reduce_all, (1,), out, x, N=n)
    total = x.astype(np.int64).sum()        # a float16 sum accumulates in float32 and is rounded once
    assert out.tolist() == [np.float16(total) if dtype is np.float16 else total, x.max(), x.min()]


def test_user_combine(launch):
    x = np.array([1, 2, 3, 0.5, 2, 1, 1, 4], np.float32)
    out = np.zeros(2, np.float32)
    launch(custom_reduce, (1,), out, x, N=8)
    assert out.tolist() == [24.0, 4.0]


@pytest.mark.parametrize("shape", [(4, 8), (3, 17), (16, 1)])
def test_joint_reduce(launch, shape):
    x = np.random.default_rng(1).integers(0, 5, shape).astype(np.float32)
    values, indices = np.zeros(shape[0], np.float32), np.zeros(shape[0], np.int32)
    launch(joint_reduce, (1,), values, indices, x, M=shape[0], N=shape[1])
    np.testing.assert_array_equal(values, x.max(1))
    np.testing.assert_array_equal(indices, x.argmax(1))


@pytest.mark.parametrize("axis", [0, 1, 2])
@pytest.mark.parametrize("shape", [(2, 4, 8), (3, 5, 7), (1, 16, 1)])
def test_3d_keep_dims(launch, shape, axis):
    x = np.random.default_rng(2).integers(-9, 9, shape).astype(np.float32)
    expected = x.sum(axis)
    out = np.zeros(expected.shape, np.float32)
    launch(reduce_3d, (1,), out, x, A=shape[0], B=shape[1], C=shape[2], AXIS=axis)
    np.testing.assert_array_equal(out, expected)


@pytest.mark.parametrize("shape", [(4, 4), (8, 8), (128, 128), (3, 2)])
def test_sum_of_sums(launch, shape):
    x = np.full(shape, 1 / 128, np.float32)
    out = np.zeros(3, np.float32)
    launch(sum_of_sum, (1,), out, x, M=shape[0], N=shape[1])
    assert out.tolist() == [x.size / 128] * 3


@differs("max and min are the same on every engine")
def test_nan_in_max(launch):
    x = np.array([np.inf, np.nan, -1, 3], np.float32)
    out, index = np.zeros(3, np.float32), np.zeros(1, np.int32)
    launch(reduce_all, (1,), out, x, N=4)
    assert out[1] == np.inf and out[2] == -1  # NaN is ignored by max and min on every engine
    launch(max_with_index, (1,), out, index, x, N=4)
    assert index[0] == 1  # as torch: the NaN is the extreme


@triton.jit
def beside_known_numbers(highest, lowest, x, ROWS: tl.constexpr, N: tl.constexpr):
    i = tl.arange(0, ROWS)
    at = i[:, None] * N + tl.arange(0, N)[None, :]
    v = tl.load(x + at, mask=at % 2 == 0, other=1)
    tl.store(highest + i, tl.max(v, axis=1))
    tl.store(lowest + i, tl.min(v, axis=1))


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
@pytest.mark.parametrize("n", [2, 4, 8])
def test_nan_beside_numbers_known_while_compiling(launch, dtype, n):
    """LLVM's code for the maximum of a NaN and a number that it knows gave the NaN, in short vectors."""
    x = np.full((13, n), np.nan, dtype)
    highest, lowest = np.zeros((2, 13), dtype)
    launch(beside_known_numbers, (1,), highest, lowest, x, 13, n)
    assert (highest == 1).all() and (lowest == 1).all()


@differs("argmax and argmin of a NaN", topic="Numbers",
         peer="The result depends on the order in which elements meet.",
         ours="The first NaN, as in torch; also for `return_indices=True`. Ties give the first index, also with "
              "`tie_break_left=False`.")
@pytest.mark.parametrize("values,expected", [([np.nan, np.inf], 0), ([np.inf, np.nan], 1), ([2, 2], 0)])
def test_argmax_of_nan(launch, values, expected):
    x, out = np.array([values], np.float32), np.zeros(1, np.int32)
    launch(reduce_2d, (1,), out, x, M=1, N=2, AXIS=1, OP="argmax")
    assert out[0] == expected


@triton.jit
def along_one_axis(x, out, M: tl.constexpr, N: tl.constexpr, STEP_M: tl.constexpr, STEP_N: tl.constexpr,
                   AXIS: tl.constexpr):
    i, j = tl.arange(0, M), tl.arange(0, N)
    total = tl.sum(tl.load(x + i[:, None] * STEP_M + j[None, :] * STEP_N), axis=AXIS)
    tl.store(out + (j if AXIS == 0 else i), total)


@pytest.mark.parametrize("shape", [(16, 32), (64, 32), (32, 128)])
@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("turned", [False, True])
def test_many_warps_along_an_axis_and_lanes_beside_it(launch, shape, axis, turned):
    """Lanes of a warp hold totals of different rows, then, and none can stand for a warp."""
    M, N = shape
    x = np.random.default_rng(1).integers(-9, 9, shape).astype(np.int32)
    out = np.zeros(shape[1 - axis], np.int32)
    steps = {"STEP_M": 1, "STEP_N": M} if turned else {"STEP_M": N, "STEP_N": 1}
    launch(along_one_axis, (1,), x.T.copy() if turned else x, out, M=M, N=N, AXIS=axis, num_warps=32, **steps)
    np.testing.assert_array_equal(out, x.sum(axis))
