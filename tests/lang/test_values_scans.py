"""Scans over any axis, in both directions, of any size, on every engine, against NumPy and sequential loops."""

import numpy as np
import pytest

import tilewright as triton
import tilewright.language as tl
from tests.departures import differs

SHAPES = [(1, 8), (16, 1), (3, 33), (33, 7), (2, 64)]


@triton.jit
def running(out, x, M: tl.constexpr, N: tl.constexpr, AXIS: tl.constexpr, REVERSE: tl.constexpr, OP: tl.constexpr):
    p = tl.arange(0, M)[:, None] * N + tl.arange(0, N)[None, :]
    v = tl.load(x + p)
    if OP == "sum":
        r = tl.cumsum(v, axis=AXIS, reverse=REVERSE)
    elif OP == "prod":
        r = tl.cumprod(v, AXIS, REVERSE)
    else:
        r = v.cumsum(axis=AXIS, dtype=tl.int64, reverse=REVERSE)
    tl.store(out + p, r)


@triton.jit
def recurrence(a1, b1, a2, b2):
    return a1 * a2, a2 * b1 + b2


@triton.jit
def linear_recurrence(out_a, out_b, a, b, N: tl.constexpr, REVERSE: tl.constexpr):
    i = tl.arange(0, N)
    x, y = tl.associative_scan((tl.load(a + i), tl.load(b + i)), 0, recurrence, reverse=REVERSE)
    tl.store(out_a + i, x)
    tl.store(out_b + i, y)


@triton.jit
def keep_left(a, b):
    return a


@triton.jit
def keep_right(a, b):
    return b


@triton.jit
def two_sides(first, same, x, M: tl.constexpr, N: tl.constexpr, AXIS: tl.constexpr, REVERSE: tl.constexpr):
    p = tl.arange(0, M)[:, None] * N + tl.arange(0, N)[None, :]
    v = tl.load(x + p)
    tl.store(first + p, tl.associative_scan(v, AXIS, keep_left, REVERSE))
    tl.store(same + p, v.associative_scan(AXIS, keep_right, reverse=REVERSE))


@triton.jit
def last_set(v1, s1, v2, s2):
    return tl.where(s2, v2, v1), s1 | s2


@triton.jit
def fill_forward(out, x, N: tl.constexpr):
    i = tl.arange(0, N)
    v = tl.load(x + i)
    filled, _ = tl.associative_scan((v, v != 0), axis=0, combine_fn=last_set)
    tl.store(out + i, filled)


@triton.jit
def count_in_loop(out, n, B: tl.constexpr):
    for start in range(0, n, B):
        offs = start + tl.arange(0, B)[None, :]
        ones = tl.where(offs < n, 1, 0)
        tl.store(out + offs, tl.cumsum(ones, axis=1).to(tl.int64) + start, mask=offs < n)


@triton.jit
def cube(out, x, A: tl.constexpr, B: tl.constexpr, C: tl.constexpr, AXIS: tl.constexpr, REVERSE: tl.constexpr):
    p = (tl.arange(0, A)[:, None, None] * B + tl.arange(0, B)[None, :, None]) * C + tl.arange(0, C)[None, None, :]
    tl.store(out + p, tl.cumsum(tl.load(x + p), AXIS, REVERSE))


@triton.jit
def seen_by_assert(out, N: tl.constexpr):
    sums = tl.cumsum(tl.full((1, N), 1, tl.int32), 1)
    tl.device_assert(sums == tl.arange(0, N)[None, :] + 1, "each element once")
    tl.store(out + tl.arange(0, N)[None, :], sums)


def in_order(x, axis, reverse, function):
    """function.accumulate along an axis, from the end if `reverse`."""
    turned = np.flip(x, axis) if reverse else x
    done = function.accumulate(turned, axis=axis)
    return np.flip(done, axis) if reverse else done


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("dtype", [np.int32, np.float32])
def test_cumsum(launch, shape, axis, reverse, dtype):
    x = np.random.default_rng(1).integers(-9, 9, shape).astype(dtype)
    out = np.zeros_like(x)
    launch(running, (1,), out, x, M=shape[0], N=shape[1], AXIS=axis, REVERSE=reverse, OP="sum")
    np.testing.assert_array_equal(out, in_order(x, axis, reverse, np.add))


@pytest.mark.parametrize("dtype, result", [(np.int8, np.int32), (np.uint8, np.uint32), (np.float16, np.float16),
                                           (np.float64, np.float64)])
@pytest.mark.parametrize("op", ["sum", "prod"])
def test_types(launch, dtype, result, op):
    x = np.array([[1, 2, 1, 3, 1, 1, 2, 5, 1, 1, 1]], dtype)
    out = np.zeros(x.shape, result)
    launch(running, (1,), out, x, M=1, N=11, AXIS=1, REVERSE=False, OP=op)
    np.testing.assert_array_equal(out, in_order(x.astype(result), 1, False, np.add if op == "sum" else np.multiply))


def test_dtype_argument(launch):
    x = np.array([[2**31 - 1, 1, 5]], np.int32)
    out = np.zeros(x.shape, np.int64)
    launch(running, (1,), out, x, M=1, N=3, AXIS=1, REVERSE=True, OP="wide")
    assert out.tolist() == [[2**31 + 5, 6, 5]]


@differs("Sums of fp16 and bf16 accumulate in fp32")
def test_half_accumulates_in_single(launch):
    x = np.full((1, 4096), 0.25, np.float16)
    x[0, 0] = 2048
    out = np.zeros_like(x)
    launch(running, (1,), out, x, M=1, N=4096, AXIS=1, REVERSE=False, OP="sum")
    np.testing.assert_array_equal(out, np.cumsum(x.astype(np.float64), 1).astype(np.float16))


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("n", [1, 2, 37, 1024])
def test_linear_recurrence(launch, n, reverse):
    """Traps B12: the operands of a combine that is not commutative keep their sides."""
    rng = np.random.default_rng(n)
    a, b = rng.uniform(0.5, 1.0, n), rng.standard_normal(n)
    out_a, out_b = np.zeros(n), np.zeros(n)
    launch(linear_recurrence, (1,), out_a, out_b, a, b, N=n, REVERSE=reverse)
    places = range(n - 1, -1, -1) if reverse else range(n)
    product, state = 1.0, 0.0
    for i in places:
        product, state = product * a[i], a[i] * state + b[i]
        np.testing.assert_allclose([out_a[i], out_b[i]], [product, state], rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("shape", [(5, 19), (16, 16), (1, 8), (40, 3)])
def test_sides(launch, shape, axis, reverse):
    x = np.random.default_rng(2).integers(0, 100, shape).astype(np.int32)
    first, same = np.zeros_like(x), np.zeros_like(x)
    launch(two_sides, (1,), first, same, x, M=shape[0], N=shape[1], AXIS=axis, REVERSE=reverse)
    edge = np.take(x, [-1 if reverse else 0], axis)
    np.testing.assert_array_equal(first, np.broadcast_to(edge, shape))
    np.testing.assert_array_equal(same, x)


@pytest.mark.parametrize("n", [7, 64])
def test_tiles_of_two_types(launch, n):
    x = np.random.default_rng(3).integers(0, 3, n).astype(np.float32)
    out = np.zeros_like(x)
    launch(fill_forward, (1,), out, x, N=n)
    want, last = [], 0.0
    for v in x.tolist():
        last = v or last
        want.append(last)
    assert out.tolist() == want


@pytest.mark.parametrize("block", [8, 32])
def test_int_cumsum_in_a_loop(launch, block):
    """Traps B11."""
    out = np.zeros(block, np.int64)
    launch(count_in_loop, (1,), out, block, B=block)
    assert out.tolist() == list(range(1, block + 1))
    out = np.zeros(2 * block + 3, np.int64)
    launch(count_in_loop, (1,), out, out.size, B=block)
    assert out.tolist() == list(range(1, out.size + 1))


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("axis", [-3, -2, 1, 2])
def test_axes_of_a_cube(launch, axis, reverse):
    """Traps B14: axes are those of NumPy, the error names what is allowed."""
    x = np.random.default_rng(4).integers(-9, 9, (2, 5, 17)).astype(np.int32)
    out = np.zeros_like(x)
    launch(cube, (1,), out, x, A=2, B=5, C=17, AXIS=axis, REVERSE=reverse)
    np.testing.assert_array_equal(out, in_order(x, axis, reverse, np.add))


def test_an_axis_that_is_not_there(launch):
    x = np.zeros((2, 2, 2), np.int32)
    with pytest.raises(Exception, match="allowed are -3 to 2"):
        launch(cube, (1,), x, x, A=2, B=2, C=2, AXIS=3, REVERSE=False)


@differs("Prints are whole and in order")
def test_asserts_see_each_element(launch):
    """Traps B15."""
    out = np.zeros(32, np.int32)
    launch(seen_by_assert, (1,), out, N=32, debug=True)
    assert out.tolist() == list(range(1, 33))
