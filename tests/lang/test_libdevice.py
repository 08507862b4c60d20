"""tl.extra.libdevice: exact functions bit for bit, types, names that are not there yet."""

import math
from fractions import Fraction

import numpy as np
import pytest

from tests.lang.recorder import call, evaluate, trace
from tilewright import language as tl
from tilewright.language.extra import cuda, libdevice

NAN, INF = float("nan"), float("inf")
X = [0.0, -0.0, 0.5, -0.5, 1.5, 2.5, -2.5, 0.49999997, -0.49999997, 1e10, -3.75, 4194304.5, 8388609.0, INF, -INF, NAN]


def of(name, *arguments, kind="fp32"):
    return evaluate(lambda b, *x: call(b, getattr(libdevice, name), *x), *((a, kind) for a in arguments))


@pytest.mark.parametrize("kind, dtype", [("fp32", np.float32), ("fp64", np.float64)])
@pytest.mark.parametrize("name, reference", [
    ("trunc", np.trunc), ("rint", np.rint), ("nearbyint", np.rint), ("floor", np.floor), ("ceil", np.ceil),
    ("isnan", np.isnan), ("isinf", np.isinf), ("signbit", np.signbit), ("abs", np.abs), ("sqrt_rn", np.sqrt),
    ("rcp_rn", np.reciprocal), ("round", lambda x: np.copysign(np.where(np.abs(x - np.trunc(x)) >= 0.5, np.ceil(
        np.abs(x)), np.floor(np.abs(x))), x)),
])
def test_exact_functions_of_one_operand(kind, dtype, name, reference):
    with np.errstate(all="ignore"):
        want = reference(np.array(X, dtype))
    got = of(name, X, kind=kind)
    np.testing.assert_array_equal(got, want)
    if want.dtype != np.bool_:
        numbers = ~np.isnan(want)
        assert np.signbit(got)[numbers].tolist() == np.signbit(want)[numbers].tolist()


@pytest.mark.parametrize("name, reference", [
    ("copysign", np.copysign), ("add_rn", np.add), ("sub_rn", np.subtract), ("mul_rn", np.multiply),
    ("div_rn", np.divide), ("fmod", np.fmod), ("fast_dividef", np.divide),
    ("fdim", lambda x, y: np.where(x <= y, np.float32(0), x - y)),
])
def test_exact_functions_of_two_operands(name, reference):
    x, y = (v.ravel().astype(np.float32) for v in np.meshgrid(X, X))
    with np.errstate(all="ignore"):
        want = reference(x, y)
    np.testing.assert_array_equal(of(name, x, y), want)


@pytest.mark.parametrize("name", ["exp", "log", "sin", "cos", "tanh", "sqrt", "erf", "fast_expf", "fast_tanhf"])
def test_elementary_functions(name):
    plain = name.removeprefix("fast_").removesuffix("f") if name.startswith("fast") else name
    got = of(name, [0.25, 1.5])
    np.testing.assert_allclose(got, [getattr(math, plain)(v) for v in (0.25, 1.5)], rtol=3e-7)


@pytest.mark.parametrize("name", ["tan", "asin", "acos", "atan", "sinh", "cosh", "asinh", "atanh", "expm1", "log10",
                                  "log1p", "fast_log10f"])
def test_functions_of_the_c_library(name):
    plain = name.removeprefix("fast_").removesuffix("f") if name.startswith("fast") else name
    np.testing.assert_allclose(of(name, [0.25, 0.75]), [getattr(math, plain)(v) for v in (0.25, 0.75)], rtol=1e-7)


def test_functions_of_two():
    np.testing.assert_allclose(of("pow", [2.0, -3.0, 0.5], [0.5, 3.0, -2.0]), [math.sqrt(2), -27.0, 4.0], rtol=1e-7)
    np.testing.assert_allclose(of("atan2", [1.0, -1.0], [-1.0, 0.0]), [math.pi * 0.75, -math.pi / 2], rtol=1e-7)
    np.testing.assert_allclose(of("hypot", [3.0, 1e30], [4.0, 0.0]), [5.0, 1e30], rtol=1e-7)
    result = evaluate(lambda b, x, n: call(b, libdevice.pow, x, n), ([2.0, -2.0], "fp32"), ([10, 3], "int32"))
    assert result.tolist() == [1024.0, -8.0]


def test_conversions_round_as_they_say():
    x = [-2.5, -0.5, 0.5, 1.5, 2.7]
    for suffix, want in (("rn", [-2, 0, 0, 2, 3]), ("rd", [-3, -1, 0, 1, 2]), ("ru", [-2, 0, 1, 2, 3]),
                         ("rz", [-2, 0, 0, 1, 2])):
        assert of(f"float2int_{suffix}", x).tolist() == want == of(f"double2ll_{suffix}", x, kind="fp64").tolist()
    assert of("int2float_rn", [2**24 + 1, -3], kind="int32").tolist() == [2**24, -3]
    assert of("ull2double_rn", [2**64 - 1], kind="uint64").tolist() == [2.0**64]


@pytest.mark.parametrize("kind, dtype", [("fp32", np.float32), ("fp64", np.float64)])
def test_division_toward_zero(kind, dtype):
    rng = np.random.default_rng(1)
    x, y = (rng.standard_normal(500).astype(dtype) * dtype(9) for _ in range(2))
    got = of("div_rz", x, y, kind=kind).astype(dtype)
    for a, b, q in zip(x.tolist(), y.tolist(), got, strict=True):
        exact = abs(Fraction(a) / Fraction(b))
        size = abs(q)
        assert Fraction(float(size)) <= exact < Fraction(float(np.nextafter(size, dtype(np.inf))))
        assert np.signbit(q) == (a < 0) ^ (b < 0)
    big = np.finfo(dtype).max
    assert of("div_rz", [big, 1.0, 0.0, 1.0], [0.5, 0.0, 5.0, INF], kind=kind).tolist() == [big, INF, 0.0, 0.0]


def test_finite_is_named_by_type():
    assert of("finitef", [1.0, INF, NAN]).tolist() == [True, False, False]
    assert of("isfinited", [1.0, -INF, NAN], kind="fp64").tolist() == [True, False, False]
    with pytest.raises(TypeError, match=r"Expected dtype \['fp32'\] but got fp64: tl.extra.libdevice.finitef"):
        trace(lambda b, x: call(b, libdevice.finitef, x), "fp64")


def test_bits():
    assert of("float_as_int", [1.0, -0.0]).tolist() == [0x3F800000, -2**31]
    assert of("float_as_uint", [-0.0]).tolist() == [2**31]
    assert of("int_as_float", [0x3F800000], kind="int32").tolist() == [1.0]
    assert of("uint_as_float", [0x40000000], kind="uint32").tolist() == [2.0]
    assert of("saturatef", [-1.0, 0.25, 7.0, NAN]).tolist() == [0.0, 0.25, 1.0, 0.0]
    assert float(of("fma", [1.0 + 2.0**-12], [1.0 + 2.0**-12], [-1.0])[0]) == float(np.float32(2.0**-11 + 2.0**-24))


def test_types():
    for kind in ("fp16", "int32"):
        with pytest.raises(TypeError, match="Expected dtype"):
            trace(lambda b, x: call(b, libdevice.tanh, x), kind)
    assert trace(lambda b, x: call(b, libdevice.copysign, 1.0, x), "fp64[4]").result.dtype == tl.float64
    assert trace(lambda b, x: call(b, libdevice.isnan, x), "fp32[4]").result.dtype == tl.int1


def test_names():
    assert cuda.libdevice is libdevice is tl.extra.libdevice
    for name, function in libdevice.FUNCTIONS.items():
        assert function.name == name and function.__doc__ and name in dir(libdevice)
    with pytest.raises(AttributeError):
        libdevice.no_such_name


def test_types_of_mixed_operands():
    with pytest.raises(TypeError, match=r"ldexp takes operands of the types \(fp32, int32\) or \(fp64, int32\), but "
                                        r"got \(fp32, fp32\)"):
        trace(lambda b, x: call(b, libdevice.ldexp, x, x), "fp32")
    assert trace(lambda b, x: call(b, libdevice.ldexp, x, 3), "fp64[4]").result.dtype == tl.float64
    assert trace(lambda b, x: call(b, libdevice.ldexp, 2.0, x), "int32[4]").result.dtype == tl.float32
    with pytest.raises(TypeError, match=r"missing a required argument: 'arg1'"):
        trace(lambda b, x: call(b, libdevice.ldexp, x), "fp32")
