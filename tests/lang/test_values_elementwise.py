"""Operators, comparisons, casts and math on every engine, against NumPy."""

import numpy as np
import pytest

import tilewright as triton
import tilewright.language as tl
from tests.departures import differs
from tests.gpu import CUDA

FLOATS = [np.float16, np.float32, np.float64]
INTS = [np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16, np.uint32, np.uint64]
SIZES = [1, 7, 16, 100]


@triton.jit
def binary(out, x, y, OP: tl.constexpr, N: tl.constexpr):
    i = tl.arange(0, N)
    a = tl.load(x + i)
    b = tl.load(y + i)
    if OP == "add":
        r = a + b
    elif OP == "sub":
        r = a - b
    elif OP == "mul":
        r = a * b
    elif OP == "div":
        r = a / b
    elif OP == "floordiv":
        r = a // b
    elif OP == "mod":
        r = a % b
    elif OP == "and":
        r = a & b
    elif OP == "or":
        r = a | b
    elif OP == "xor":
        r = a ^ b
    elif OP == "shl":
        r = a << b
    elif OP == "shr":
        r = a >> b
    elif OP == "max":
        r = tl.maximum(a, b)
    else:
        r = tl.minimum(a, b)
    tl.store(out + i, r)


@triton.jit
def compare(out, x, y, OP: tl.constexpr, N: tl.constexpr):
    i = tl.arange(0, N)
    a = tl.load(x + i)
    b = tl.load(y + i)
    if OP == "lt":
        r = a < b
    elif OP == "le":
        r = a <= b
    elif OP == "gt":
        r = a > b
    elif OP == "ge":
        r = a >= b
    elif OP == "eq":
        r = a == b
    else:
        r = a != b
    tl.store(out + i, r)


@triton.jit
def cast(out, x, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(out + i, tl.load(x + i).to(out.dtype.element_ty))


@triton.jit
def unary(out, x, OP: tl.constexpr, N: tl.constexpr):
    i = tl.arange(0, N)
    a = tl.load(x + i)
    if OP == "exp":
        r = tl.exp(a)
    elif OP == "exp2":
        r = tl.exp2(a)
    elif OP == "log":
        r = tl.log(a)
    elif OP == "log2":
        r = tl.log2(a)
    elif OP == "sqrt":
        r = tl.sqrt(a)
    elif OP == "rsqrt":
        r = tl.rsqrt(a)
    elif OP == "sin":
        r = tl.sin(a)
    elif OP == "cos":
        r = tl.cos(a)
    elif OP == "erf":
        r = tl.erf(a)
    elif OP == "sigmoid":
        r = tl.sigmoid(a)
    elif OP == "abs":
        r = tl.abs(a)
    elif OP == "floor":
        r = tl.floor(a)
    elif OP == "ceil":
        r = tl.ceil(a)
    else:
        r = -a
    tl.store(out + i, r)


@triton.jit
def mixed(out, x, n, s, N: tl.constexpr):
    i = tl.program_id(0) * N + tl.arange(0, N)
    mask = (i >= 1) & (i < n) & ~(i == 3)
    v = tl.load(x + i, mask=mask, other=-1.0)
    w = tl.where(v > 0, v * s, tl.fma(v, 0.5, 2.0))
    tl.store(out + i, tl.clamp(w, -4.0, 4.0), mask=i < n)


@triton.jit
def chained(out, x, N: tl.constexpr):
    i = tl.arange(0, N)
    v = tl.load(x + i)
    tl.store(out + i, (-1 < v < 2).to(tl.int32) + (v == v == v))


def data(dtype, n, seed):
    rng = np.random.default_rng(seed)
    if np.issubdtype(dtype, np.floating):
        return (rng.standard_normal(n) * 8).astype(dtype)
    info = np.iinfo(dtype)
    x = rng.integers(info.min, info.max, n, dtype=dtype, endpoint=True)
    x[:: 5] = info.min
    x[1:: 5] = info.max
    return x


ARITHMETIC = {"add": np.add, "sub": np.subtract, "mul": np.multiply, "max": np.maximum, "min": np.minimum}


@pytest.mark.parametrize("dtype", FLOATS + INTS)
@pytest.mark.parametrize("op", list(ARITHMETIC))
def test_arithmetic(launch, op, dtype):
    for n in SIZES:
        x, y, out = data(dtype, n, 0), data(dtype, n, 1), np.zeros(n, dtype)
        launch(binary, (1,), out, x, y, OP=op, N=n)
        with np.errstate(all="ignore"):
            np.testing.assert_array_equal(out, ARITHMETIC[op](x, y))


def assert_within(units, got, want):
    """Equal but for so many units in the last place; infinities, zeros and NaN alike."""
    exact = (want == got) | (np.isnan(want) & np.isnan(got))
    with np.errstate(invalid="ignore"):
        assert (exact | (np.isfinite(want) & (np.abs(got - want) <= units * np.spacing(np.abs(want))))).all()


@pytest.mark.parametrize("dtype", FLOATS)
def test_float_division(launch, dtype, request):
    """A GPU divides floats within 2 units in the last place, as the row allows (`div_rn` rounds correctly)."""
    units = 2 if request.node.callspec.params["launch"] == CUDA and dtype is not np.float64 else 0
    n = 64
    x, y = data(dtype, n, 0), data(dtype, n, 1)
    y[:3] = 0
    out = np.zeros(n, dtype if dtype is np.float64 else np.float32)
    launch(binary, (1,), out, x, y, OP="div", N=n)
    with np.errstate(all="ignore"):
        assert_within(units, out, x.astype(out.dtype) / y.astype(out.dtype))
        launch(binary, (1,), out, x, y, OP="mod", N=n)
        np.testing.assert_array_equal(out, np.fmod(x.astype(out.dtype), y.astype(out.dtype)))


@differs("Undefined integer operations give some value")
@pytest.mark.parametrize("dtype", INTS)
def test_integer_division_truncates_and_never_traps(launch, dtype):
    n = 100
    x, y = data(dtype, n, 0), data(dtype, n, 1)
    y[::3] = np.array([1, 2, 3, 7, 100, -1, -3, 16], np.int64)[np.arange(len(y[::3])) % 8].astype(dtype)
    y[5], y[6] = 0, 0
    quotient, remainder = np.zeros(n, dtype), np.zeros(n, dtype)
    launch(binary, (1,), quotient, x, y, OP="floordiv", N=n)
    launch(binary, (1,), remainder, x, y, OP="mod", N=n)
    limit = np.iinfo(dtype)
    for a, b, q, r in zip(x.tolist(), y.tolist(), quotient.tolist(), remainder.tolist()):
        if b == 0 or (limit.min < 0 and a == limit.min and b == -1):
            continue
        expected = abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)
        assert (q, r) == (expected, a - expected * b), (a, b)


@pytest.mark.parametrize("dtype", INTS)
@pytest.mark.parametrize("op,function", [("and", np.bitwise_and), ("or", np.bitwise_or), ("xor", np.bitwise_xor)])
def test_bits(launch, dtype, op, function):
    x, y, out = data(dtype, 33, 0), data(dtype, 33, 1), np.zeros(33, dtype)
    launch(binary, (1,), out, x, y, OP=op, N=33)
    np.testing.assert_array_equal(out, function(x, y))


@pytest.mark.parametrize("dtype", INTS)
@pytest.mark.parametrize("op,function", [("shl", np.left_shift), ("shr", np.right_shift)])
def test_shifts(launch, dtype, op, function):
    x, out = data(dtype, 33, 0), np.zeros(33, dtype)
    y = (np.arange(33) % np.iinfo(dtype).bits).astype(dtype)
    launch(binary, (1,), out, x, y, OP=op, N=33)
    np.testing.assert_array_equal(out, function(x, y))
    y[:] = np.iinfo(dtype).bits + 1
    launch(binary, (1,), out, x, y, OP=op, N=33)  # undefined value, but no trap


@pytest.mark.parametrize("dtype", FLOATS + INTS)
def test_comparisons(launch, dtype):
    x, y = data(dtype, 50, 0), data(dtype, 50, 1)
    y[::3] = x[::3]
    if np.issubdtype(dtype, np.floating):
        x[:4], y[2:6] = np.nan, np.nan
        x[10:12] = [0.0, -0.0]
        y[10:12] = [-0.0, 0.0]
    for op, function in [("lt", np.less), ("le", np.less_equal), ("gt", np.greater), ("ge", np.greater_equal),
                         ("eq", np.equal), ("ne", np.not_equal)]:
        out = np.zeros(50, np.bool_)
        launch(compare, (1,), out, x, y, OP=op, N=50)
        np.testing.assert_array_equal(out, function(x, y), err_msg=op)


@pytest.mark.parametrize("source", FLOATS + INTS)
def test_casts(launch, source):
    x = data(source, 40, 0)
    if np.issubdtype(source, np.floating):
        x = np.clip(x, -100, 100).astype(source)
    for target in FLOATS + INTS:
        if np.issubdtype(source, np.floating) and np.issubdtype(target, np.unsignedinteger):
            x = np.abs(x)
        out = np.zeros(40, target)
        launch(cast, (1,), out, x, N=40)
        with np.errstate(all="ignore"):
            np.testing.assert_array_equal(out, x.astype(target), err_msg=str(target))
    out = np.zeros(40, np.bool_)
    launch(cast, (1,), out, x, N=40)
    np.testing.assert_array_equal(out, x != 0)


MATH = {"exp": np.exp, "exp2": np.exp2, "log": np.log, "log2": np.log2, "sqrt": np.sqrt, "sin": np.sin, "cos": np.cos,
        "rsqrt": lambda x: 1 / np.sqrt(x), "sigmoid": lambda x: 1 / (1 + np.exp(-x)), "abs": np.abs,
        "floor": np.floor, "ceil": np.ceil, "neg": np.negative}


@pytest.mark.parametrize("op", list(MATH))
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_math(launch, op, dtype):
    special = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, -1.0, 1e-30, 88.0, -104.0], dtype)
    x = np.concatenate([data(dtype, 90, 0), special])
    out = np.zeros(100, dtype)
    launch(unary, (1,), out, x, OP=op, N=100)
    with np.errstate(all="ignore"):
        exact = MATH[op](x.astype(np.float64))
        tolerance = 0 if op in ("abs", "floor", "ceil", "neg") else 8 * np.finfo(dtype).eps
        np.testing.assert_allclose(out, exact.astype(dtype), rtol=tolerance, atol=np.finfo(dtype).tiny)


@pytest.mark.parametrize("n", [1, 7, 31, 32, 33, 100])
def test_masks_where_fma_clamp(launch, n):
    x, out = data(np.float32, 128, 0), np.zeros(128, np.float32)
    launch(mixed, (4,), out, x, n, 0.5, N=32)
    i = np.arange(128)
    v = np.where((i >= 1) & (i < n) & (i != 3), x, -1).astype(np.float32)
    w = np.clip(np.where(v > 0, v * np.float32(0.5), v * np.float32(0.5) + np.float32(2)), -4, 4)
    np.testing.assert_array_equal(out, np.where(i < n, w, 0))


def test_chained_comparison_of_tiles(launch):
    x, out = np.array([-2, -1, 0, 1, 2, np.nan, 5, 0.5], np.float32), np.zeros(8, np.int32)
    launch(chained, (1,), out, x, N=8)
    np.testing.assert_array_equal(out, ((x > -1) & (x < 2)).astype(np.int32) + (x == x))
