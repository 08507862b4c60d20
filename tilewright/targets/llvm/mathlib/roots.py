"""Roots, hypot, floor, ceil: what machines have, and what they lack written out.  Tests: test_mathlib.py."""

from __future__ import annotations

from tilewright.targets.llvm.mathlib.kit import MANTISSA, magnitude, number, with_sign_of
from tilewright.targets.llvm.text import FunctionWriter
from tilewright.targets.llvm.types import Value, constant

# a third of the exponent's bias in the upper half of a double, less what makes the start's error smallest
_CBRT_START = 715094163


def sqrt(f: FunctionWriter, x: Value) -> Value:
    """Correctly rounded."""
    return f.unary_intrinsic("sqrt", x)


def rsqrt(f: FunctionWriter, x: Value) -> Value:
    """1 / sqrt(x): two roundings, at most 1.5 ulp; +-0 gives +-inf."""
    return f.op("fdiv", number(x, 1.0), sqrt(f, x))


def floor(f: FunctionWriter, x: Value) -> Value:
    return f.unary_intrinsic("floor", x) if f.isa.round else _rounded(f, x, "ogt", -1.0)


def ceil(f: FunctionWriter, x: Value) -> Value:
    return f.unary_intrinsic("ceil", x) if f.isa.round else _rounded(f, x, "olt", 1.0)


def truncate(f: FunctionWriter, x: Value) -> Value:
    """Toward zero."""
    if f.isa.round:
        return f.unary_intrinsic("trunc", x)
    a = magnitude(f, x)
    return with_sign_of(f, _rounded(f, a, "ogt", -1.0), x)


def _rounded(f: FunctionWriter, x: Value, wrong: str, step: float) -> Value:
    """The nearest integer, moved by `step` where it lies on the wrong side of x; large numbers are integers."""
    large = number(x, 2.0 ** MANTISSA[x.type.element])
    a = magnitude(f, x)
    nearest = with_sign_of(f, f.op("fsub", f.op("fadd", a, large), large), x)
    moved = f.op("fadd", nearest, number(x, step))
    whole = f.select(f.fcmp(wrong, nearest, x), moved, nearest)
    return f.select(f.fcmp("olt", a, large), with_sign_of(f, whole, x), x)


def cbrt(f: FunctionWriter, x: Value) -> Value:
    """The cube root of a double within 1 ulp: a third of the exponent's bits as a start, then Halley's rule thrice."""
    a = magnitude(f, x)
    tiny, huge = f.fcmp("olt", a, number(x, 2.0**-900)), f.fcmp("ogt", a, number(x, 2.0**900))
    scaled = f.op("fmul", a, f.select(tiny, number(x, 2.0**300), f.select(huge, number(x, 2.0**-300), number(x, 1.0))))
    bits = f.op("lshr", f.bitcast(scaled, x.type.as_int), constant(x.type.as_int, 32))
    third = f.op("fmul", f.cast("sitofp", f.cast("trunc", bits, x.type.of("i32")), x.type), number(x, 1 / 3))
    start = f.op("add", f.cast("fptosi", third, x.type.of("i32")), constant(x.type.of("i32"), _CBRT_START))
    t = f.bitcast(f.op("shl", f.cast("zext", start, x.type.as_int), constant(x.type.as_int, 32)), x.type)
    for _ in range(3):
        cube = f.op("fmul", f.op("fmul", t, t), t)
        step = f.op("fdiv", f.op("fsub", scaled, cube), f.op("fadd", f.op("fadd", cube, cube), scaled))
        t = f.fma(t, step, t)
    t = f.op("fmul", t, f.select(tiny, number(x, 2.0**-100), f.select(huge, number(x, 2.0**100), number(x, 1.0))))
    special = f.op("or", f.fcmp("oeq", a, number(x, 0.0)), f.fcmp("ueq", a, number(x, float("inf"))))
    return f.select(special, x, with_sign_of(f, t, x))


def hypot(f: FunctionWriter, x: Value, y: Value) -> Value:
    """sqrt(x*x + y*y) of doubles without overflow on the way; infinite where one of them is, also beside a NaN."""
    a, b = magnitude(f, x), magnitude(f, y)
    steep, infinity = f.fcmp("ogt", b, a), number(x, float("inf"))
    large, small = f.select(steep, b, a), f.select(steep, a, b)
    huge, tiny = f.fcmp("ogt", large, number(x, 2.0**500)), f.fcmp("olt", large, number(x, 2.0**-450))
    factor = f.select(huge, number(x, 2.0**-600), f.select(tiny, number(x, 2.0**600), number(x, 1.0)))
    back = f.select(huge, number(x, 2.0**600), f.select(tiny, number(x, 2.0**-600), number(x, 1.0)))
    p, q = f.op("fmul", large, factor), f.op("fmul", small, factor)
    result = f.op("fmul", sqrt(f, f.fma(p, p, f.op("fmul", q, q))), back)
    result = f.select(f.fcmp("uno", x, y), number(x, float("nan")), result)
    either = f.op("or", f.fcmp("oeq", a, infinity), f.fcmp("oeq", b, infinity))
    return f.select(either, infinity, result)
