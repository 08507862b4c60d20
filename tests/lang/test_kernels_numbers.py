"""Numbers in kernels, on every engine: promotion of variables, integer rules, weak literals, casts, math."""

import numpy as np
import pytest

import tilewright as triton
import tilewright.language as tl
from tests.departures import differs


@triton.jit
def added_in_a_loop(x_ptr, out_ptr, N: tl.constexpr):
    offsets = tl.arange(0, N)
    total = tl.zeros((N,), tl.int32)
    for i in range(3):
        v = tl.load(x_ptr + offsets) + i
        tl.static_assert(v.dtype == tl.int32)
        total += v
    tl.store(out_ptr + offsets, total)


def test_a_narrow_value_plus_a_loop_variable_is_int32(launch):
    x, out = np.array([127, -128, 5, 0], np.int8), np.zeros(4, np.int32)
    launch(added_in_a_loop, (1,), x, out, N=4)
    assert out.tolist() == (3 * x.astype(np.int32) + 3).tolist()


@triton.jit
def literal_or_variable(x_ptr, out_ptr, small_ptr):
    x = tl.load(x_ptr)
    c = 2.5
    i = 1
    tl.static_assert((c + x).dtype == tl.float32)
    tl.static_assert((2.5 + x).dtype == tl.float16)
    small = tl.load(small_ptr)
    tl.static_assert((i + small).dtype == tl.int32)
    tl.static_assert((1 + small).dtype == tl.int8)
    tl.store(out_ptr, c + x)
    tl.store(out_ptr + 1, 2.5 + x)
    tl.store(out_ptr + 2, i + small)
    tl.store(out_ptr + 3, 1 + small)


def test_an_assigned_number_is_strong_and_a_literal_weak(launch):
    x, small, out = np.array([2048.0], np.float16), np.array([127], np.int8), np.zeros(4, np.float32)
    launch(literal_or_variable, (1,), x, out, small)
    assert out.tolist() == [2050.5, 2050.0, 128.0, -128.0]


@triton.jit
def truncating(out_ptr, C: tl.constexpr):
    c = -7
    tl.store(out_ptr, c // 2)
    tl.store(out_ptr + 1, c % 2)
    tl.store(out_ptr + 2, C // 2)
    tl.store(out_ptr + 3, C % 2)
    d: tl.constexpr = -7
    tl.store(out_ptr + 4, d // 2)


def test_run_time_division_truncates_and_compile_time_division_floors(launch):
    out = np.zeros(5, np.int32)
    launch(truncating, (1,), out, C=-7)
    assert out.tolist() == [-3, -1, -4, 1, -4]


@triton.jit
def wrapping(out_ptr, n):
    acc = 2147483647
    acc += n
    tl.store(out_ptr, acc)
    tl.store(out_ptr + 1, acc * acc)
    u = n.to(tl.uint32) - 3
    tl.store(out_ptr + 2, (u > 5).to(tl.int64))
    tl.store(out_ptr + 3, u.to(tl.int64))


def test_integers_wrap(launch):
    out = np.zeros(4, np.int64)
    launch(wrapping, (1,), out, 2)
    assert out.tolist() == [-2147483647, 1, 1, 2**32 - 1]


@triton.jit
def chained(x_ptr, out_ptr, N: tl.constexpr):
    i = tl.arange(0, N)
    x = tl.load(x_ptr + i)
    inside = 2 < x < 6
    tl.store(out_ptr + i, inside)


@differs("Python that 3.9 has new", topic="Control flow",
         peer="3.6 refuses chained comparisons, `:=`, `*args` of called functions and `if` in comprehensions.",
         ours="They work.")
def test_chained_comparison_of_tiles(launch):
    x, out = np.arange(8, dtype=np.int32), np.zeros(8, np.int32)
    launch(chained, (1,), x, out, N=8)
    assert out.tolist() == [0, 0, 0, 1, 1, 1, 0, 0]


@triton.jit
def all_operators(x_ptr, y_ptr, out_ptr, N: tl.constexpr):
    i = tl.arange(0, N)
    x = tl.load(x_ptr + i)
    y = tl.load(y_ptr + i)
    tl.store(out_ptr + i, x + y)
    tl.store(out_ptr + N + i, x - y)
    tl.store(out_ptr + 2 * N + i, x * y)
    tl.store(out_ptr + 3 * N + i, x // y)
    tl.store(out_ptr + 4 * N + i, x % y)
    tl.store(out_ptr + 5 * N + i, x & y)
    tl.store(out_ptr + 6 * N + i, x | y)
    tl.store(out_ptr + 7 * N + i, x ^ y)
    tl.store(out_ptr + 8 * N + i, x << (y & 3))
    tl.store(out_ptr + 9 * N + i, x >> (y & 3))
    tl.store(out_ptr + 10 * N + i, -x)
    tl.store(out_ptr + 11 * N + i, ~x)
    tl.store(out_ptr + 12 * N + i, (x < y).to(tl.int8) + (x == y).to(tl.int8))
    tl.store(out_ptr + 13 * N + i, tl.maximum(x, y))
    tl.store(out_ptr + 14 * N + i, tl.minimum(x, y))
    tl.store(out_ptr + 15 * N + i, tl.abs(x))


@pytest.mark.parametrize("name", ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"])
def test_all_integer_operators(launch, name):
    t, info = np.dtype(name), np.iinfo(name)
    rng = np.random.default_rng(1)
    x = rng.integers(info.min, info.max, 16, t, endpoint=True)
    y = rng.integers(info.min, info.max, 16, t, endpoint=True)
    y[y == 0] = 1
    y[:4] = [1, 2, 3, 7]
    x[0], x[1], x[2] = info.max, info.min, 0
    out = np.zeros((16, 16), t)
    launch(all_operators, (1,), x, y, out, N=16)
    big, other = x.astype(object), y.astype(object)
    quotient = np.array([abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1) for a, b in zip(big, other)], object)
    shift = other & 3
    want = [big + other, big - other, big * other, quotient, big - quotient * other, x & y, x | y, x ^ y,
            big * 2**shift, big // 2**shift, -big, ~big, (x < y).astype(int) + (x == y), np.maximum(x, y),
            np.minimum(x, y), abs(big)]
    bits = info.bits
    for row, values in zip(out, want):
        wrapped = np.array([int(v) % 2**bits for v in values], np.uint64).astype(f"u{t.itemsize}").view(t)
        assert row.tolist() == wrapped.tolist()


@triton.jit
def undefined_integers(x_ptr, y_ptr, out_ptr, N: tl.constexpr):
    i = tl.arange(0, N)
    x = tl.load(x_ptr + i)
    y = tl.load(y_ptr + i)
    tl.store(out_ptr + i, (x // y) + (x % y) + (x << y) + (x >> y))


@differs("Undefined integer operations give some value", topic="Numbers",
         peer="Division by zero, INT_MIN // -1 and shifts by the width are undefined; on a CPU they could end the "
              "process.",
         ours="They give some value, the same wherever it is computed in one kernel, and never a trap.")
def test_undefined_integer_operations_never_end_the_process(launch):
    x = np.array([5, -2**31, 0, 7, -2**31], np.int32)
    y = np.array([0, -1, 0, 40, 0], np.int32)
    out = np.zeros(5, np.int32)
    launch(undefined_integers, (1,), x, y, out, N=5)


@triton.jit
def math_of(x_ptr, out_ptr, N: tl.constexpr):
    i = tl.arange(0, N)
    x = tl.load(x_ptr + i)
    tl.store(out_ptr + i, tl.exp(x))
    tl.store(out_ptr + N + i, tl.exp2(x))
    tl.store(out_ptr + 2 * N + i, tl.log(tl.abs(x)))
    tl.store(out_ptr + 3 * N + i, tl.log2(tl.abs(x)))
    tl.store(out_ptr + 4 * N + i, tl.sin(x))
    tl.store(out_ptr + 5 * N + i, tl.cos(x))
    tl.store(out_ptr + 6 * N + i, tl.sqrt(tl.abs(x)))
    tl.store(out_ptr + 7 * N + i, tl.rsqrt(tl.abs(x)))
    tl.store(out_ptr + 8 * N + i, tl.floor(x))
    tl.store(out_ptr + 9 * N + i, tl.ceil(x))
    tl.store(out_ptr + 10 * N + i, tl.sigmoid(x))
    tl.store(out_ptr + 11 * N + i, tl.fma(x, x, 1.0))
    tl.store(out_ptr + 12 * N + i, tl.clamp(x, -1.0, 1.0))
    tl.store(out_ptr + 13 * N + i, x / 3.0)
    tl.store(out_ptr + 14 * N + i, x % 1.5)


@pytest.mark.parametrize("name", ["float32", "float64"])
def test_elementary_functions(launch, name):
    x = np.concatenate([np.linspace(-20, 20, 61), [0.1, -0.1, 1e-6]]).astype(name)
    out = np.zeros((15, 64), name)
    launch(math_of, (1,), x, out, N=64)
    z = x.astype(np.float64)
    with np.errstate(all="ignore"):
        want = [np.exp(z), np.exp2(z), np.log(abs(z)), np.log2(abs(z)), np.sin(z), np.cos(z), np.sqrt(abs(z)),
                1 / np.sqrt(abs(z)), np.floor(z), np.ceil(z), 1 / (1 + np.exp(-z)), z * z + 1, np.clip(z, -1, 1), z / 3,
                np.fmod(z, 1.5)]
    eps = np.finfo(name).eps
    for row, values in zip(out, want):
        np.testing.assert_allclose(row, values, rtol=4 * eps, atol=4 * eps)


@triton.jit
def converted(x_ptr, out_ptr, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(out_ptr + i, tl.load(x_ptr + i))


@pytest.mark.parametrize("source", ["bool", "int8", "uint8", "int32", "uint32", "int64", "float16", "float32",
                                    "float64"])
def test_a_store_converts(launch, source):
    x = np.array([0, 1, 2, 100, 3, 7], source)
    for target in ("bool", "int8", "uint16", "int64", "float16", "float32", "float64"):
        out = np.zeros(6, target)
        launch(converted, (1,), x, out, N=6)
        assert out.tolist() == x.astype(target).tolist(), target


@triton.jit
def uniform(out_ptr, seed, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(out_ptr + i, tl.rand(seed, i))
    tl.store(out_ptr + N + i, tl.randn(seed, i))


def test_random_numbers(launch):
    out = np.zeros((2, 4), np.float32)
    launch(uniform, (1,), out, 42, N=4)
    np.testing.assert_allclose(out[0], [0.77408016, 0.02456270, 0.34826630, 0.54080141], atol=5e-9)
    np.testing.assert_allclose(out[1], [0.66061336, -1.54271352, -0.59046358, -0.60162544], rtol=2e-6)


@triton.jit
def nan_and_zeros(x_ptr, y_ptr, out_ptr, N: tl.constexpr):
    i = tl.arange(0, N)
    x = tl.load(x_ptr + i)
    y = tl.load(y_ptr + i)
    tl.store(out_ptr + i, tl.maximum(x, y))
    tl.store(out_ptr + N + i, tl.minimum(x, y))
    tl.store(out_ptr + 2 * N + i, tl.maximum(x, y, propagate_nan=tl.PropagateNan.ALL))
    tl.store(out_ptr + 3 * N + i, (x != x).to(tl.float32))


@differs("max and min are the same on every engine", topic="Numbers",
         peer="Compiled code ignores NaNs, the interpreter gives NaN; of two zeros either may come.",
         ours="A NaN is ignored, in reductions too, unless `propagate_nan` asks for it; -0.0 is less than +0.0.")
def test_nan_and_signed_zero_are_alike_on_all_engines(launch):
    nan = np.nan
    x = np.array([nan, 1, nan, -0.0, 0.0, 3], np.float32)
    y = np.array([2, nan, nan, 0.0, -0.0, 3], np.float32)
    out = np.zeros((4, 6), np.float32)
    launch(nan_and_zeros, (1,), x, y, out, N=6)
    np.testing.assert_array_equal(out[0], [2, 1, nan, 0, 0, 3])
    np.testing.assert_array_equal(out[1], [2, 1, nan, 0, 0, 3])
    np.testing.assert_array_equal(out[2], [nan, nan, nan, 0, 0, 3])
    assert out[3].tolist() == [1, 0, 1, 0, 0, 0]
    assert not np.signbit(out[0, 3:5]).any() and np.signbit(out[1, 3:5]).all()
