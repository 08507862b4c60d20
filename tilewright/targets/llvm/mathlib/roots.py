"""Roots, hypot, floor, ceil: what machines have, and what they lack written out.  Tests: test_mathlib.py."""

from __future__ import annotations

from tilewright.targets.llvm.mathlib.kit import MANTISSA, magnitude, number, with_sign_of
from tilewright.targets.llvm.text import FunctionWriter
from tilewright.targets.llvm.types import Value, constant

# a third of the exponent's bias in the upper half of a double, less what makes the start's error smallest
_CBRT_START = 715094163
# The same of x**(-1/3), in units of 256, for floats (tools/fit_math.py, cube_root_start).
_CBRT_START_F32 = 5546500
_INTEGER, _INTEGER_BITS = 2.0**23 + 2796203, 0x4B000000       # 2**23, and a third of it once more; the bits of 2**23
_MINUS_THIRD, _TWO_NINTHS = -0.3333333432674408, 0.2222222238779068
# (from where numbers are made smaller, to where they are made larger, by what, by what), so that squares are normal
_HYPOT = {"float": (2.0**60, 2.0**-50, 2.0**70, 2.0**100), "double": (2.0**500, 2.0**-450, 2.0**600, 2.0**600)}


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


def cbrt_single(f: FunctionWriter, x: Value) -> Value:
    """The cube root of a float: r = x**(-1/3) in two steps without a quotient, then one of Newton's for t = x*r*r.

    The start is a third of the exponent's bits, with the highest bits of the fraction, in float arithmetic: 2**23 is
    added to what is above the lowest byte, so that the integer is the low bits of the float.
    """
    a, bits = magnitude(f, x), x.type.as_int
    tiny = f.fcmp("olt", a, number(x, 2.0**-126))
    a = f.op("fmul", a, f.select(tiny, number(x, 2.0**24), number(x, 1.0)))
    top = f.op("or", f.op("lshr", f.bitcast(a, bits), constant(bits, 8)), constant(bits, _INTEGER_BITS))
    start = f.fma(f.bitcast(top, x.type), number(x, _MINUS_THIRD), number(x, _INTEGER + _CBRT_START_F32))
    r = f.bitcast(f.op("shl", f.bitcast(start, bits), constant(bits, 8)), x.type)
    h, step = _inverse_cube_step(f, a, r)
    r = f.fma(step, f.fma(h, number(x, _TWO_NINTHS), number(x, -_MINUS_THIRD)), r)
    _, step = _inverse_cube_step(f, a, r)
    r = f.fma(step, number(x, -_MINUS_THIRD), r)
    t = f.op("fmul", f.op("fmul", a, r), r)
    left = f.fma(f.fneg(f.op("fmul", t, t)), t, a)
    t = f.fma(left, f.op("fmul", f.op("fmul", r, r), number(x, -_MINUS_THIRD)), t)
    t = f.op("fmul", t, f.select(tiny, number(x, 2.0**-8), number(x, 1.0)))
    special = f.op("or", f.fcmp("oeq", x, number(x, 0.0)), f.fcmp("ueq", a, number(x, float("inf"))))
    return f.select(special, x, with_sign_of(f, t, x))


def _inverse_cube_step(f: FunctionWriter, a: Value, r: Value) -> tuple[Value, Value]:
    """(h, h*r) with h = 1 - a*r**3."""
    h = f.fma(f.fneg(f.op("fmul", a, r)), f.op("fmul", r, r), number(a, 1.0))
    return h, f.op("fmul", h, r)


def hypot(f: FunctionWriter, x: Value, y: Value) -> Value:
    """sqrt(x*x + y*y) without overflow on the way; infinite where one of them is, also beside a NaN."""
    top, low, down, up = _HYPOT[x.type.element]
    a, b = magnitude(f, x), magnitude(f, y)
    steep, infinity = f.fcmp("ogt", b, a), number(x, float("inf"))
    large, small = f.select(steep, b, a), f.select(steep, a, b)
    huge, tiny = f.fcmp("ogt", large, number(x, top)), f.fcmp("olt", large, number(x, low))
    factor = f.select(huge, number(x, 1 / down), f.select(tiny, number(x, up), number(x, 1.0)))
    back = f.select(huge, number(x, down), f.select(tiny, number(x, 1 / up), number(x, 1.0)))
    p, q = f.op("fmul", large, factor), f.op("fmul", small, factor)
    result = f.op("fmul", sqrt(f, f.fma(p, p, f.op("fmul", q, q))), back)
    result = f.select(f.fcmp("uno", x, y), number(x, float("nan")), result)
    either = f.op("or", f.fcmp("oeq", a, infinity), f.fcmp("oeq", b, infinity))
    return f.select(either, infinity, result)
