"""Arithmetic on sums of two numbers, and the logarithm of f64 as one, to about 2**-66.

Also the choice between functions of f32 and of f64, and f64 for floats.  Tests: test_mathlib.py.
"""

from __future__ import annotations

from collections.abc import Callable

from tilewright.targets.llvm.mathlib.exponential import LN2
from tilewright.targets.llvm.mathlib.kit import fast_two_sum, is_single, number, polynomial, two_sum
from tilewright.targets.llvm.mathlib.logarithm import decompose
from tilewright.targets.llvm.text import FunctionWriter
from tilewright.targets.llvm.types import Value

Function = Callable[..., Value]
Pair = tuple[Value, Value]      # a number as the sum of two, the second below half an ulp of the first

# (log((1+s)/(1-s))/(2*s) - 1 - z/3) / z**2 with s**2 = z, m in [sqrt(1/2), sqrt(2)] and s = (m-1)/(m+1).
# tools/fit_math.py, 2026-11-30; lowest power first.
_LOG_TAIL = (
    0.20000000000001195, 0.14285714285022147, 0.11111111264377274, 0.09090891830157823, 0.07693393786993678,
    0.0662807802679355, 0.06601075261555747,
)
_THIRD = (0.3333333333333333, 1.850371707708594e-17)


def through_double(function: Function) -> Function:
    """`function` of doubles, for floats as well."""
    def emit(f: FunctionWriter, *args: Value) -> Value:
        if not is_single(args[0]):
            return function(f, *args)
        wide = [f.cast("fpext", a, a.type.of("double")) for a in args]
        return f.cast("fptrunc", function(f, *wide), args[0].type)

    return emit


def by_width(single: Function, double: Function) -> Function:
    """`single` of floats, `double` of doubles."""
    return lambda f, *args: (single if is_single(args[0]) else double)(f, *args)


def fused(single: Function, double: Function) -> Function:
    """`single` of floats where there is FMA; else, and of doubles, `double`."""
    wide = through_double(double)
    return lambda f, *args: (single if is_single(args[0]) and f.isa.fma else wide)(f, *args)


def two_product(f: FunctionWriter, a: Value, b: Value) -> Pair:
    """a*b rounded and the rounding error, exactly while nothing overflows or is denormal (Dekker)."""
    product = f.op("fmul", a, b)
    if f.isa.fma:
        return product, f.fma(a, b, f.fneg(product))
    (ah, al), (bh, bl) = _halves(f, a), _halves(f, b)
    error = f.op("fsub", f.op("fmul", ah, bh), product)
    error = f.op("fadd", f.op("fadd", error, f.op("fmul", ah, bl)), f.op("fmul", al, bh))
    return product, f.op("fadd", error, f.op("fmul", al, bl))


def _halves(f: FunctionWriter, a: Value) -> Pair:
    """a as the sum of two numbers of 26 bits (Veltkamp)."""
    big = f.op("fmul", a, number(a, 2.0**27 + 1))
    high = f.op("fsub", big, f.op("fsub", big, a))
    return high, f.op("fsub", a, high)


def times(f: FunctionWriter, a: Pair, b: Pair) -> Pair:
    """The product of two pairs, not normalised."""
    high, low = two_product(f, a[0], b[0])
    cross = f.op("fadd", f.op("fmul", a[0], b[1]), f.op("fmul", a[1], b[0]))
    return high, f.op("fadd", low, cross)


def pair_of(x: Value, parts: tuple[float, float]) -> Pair:
    """A constant pair of `x`'s type."""
    return number(x, parts[0]), number(x, parts[1])


def log_pair(f: FunctionWriter, x: Value) -> Pair:
    """log(x) as a pair, for finite x > 0 (denormals as well).

    x = m * 2**e; log(m) = 2*s * (1 + z/3 + z*z*R(z)) with s = (m-1)/(m+1), z = s*s; all but R in pairs.
    """
    e, fraction = decompose(f, x)
    two = number(x, 2.0)
    below = f.op("fadd", fraction, two)
    below_rest = f.op("fsub", fraction, f.op("fsub", below, two))
    s = f.op("fdiv", fraction, below)
    back, error = two_product(f, s, below)
    left = f.op("fsub", f.op("fsub", f.op("fsub", fraction, back), error), f.op("fmul", s, below_rest))
    ratio = (s, f.op("fdiv", left, below))
    z = times(f, ratio, ratio)
    third = times(f, z, pair_of(x, _THIRD))
    tail = f.op("fmul", f.op("fmul", z[0], z[0]), polynomial(f, z[0], _LOG_TAIL))
    series, rest = fast_two_sum(f, third[0], tail)
    more = times(f, ratio, (series, f.op("fadd", rest, third[1])))
    half, half_rest = fast_two_sum(f, ratio[0], more[0])
    half_rest = f.op("fadd", half_rest, f.op("fadd", ratio[1], more[1]))
    high, low = LN2["double"]
    total, error = fast_two_sum(f, f.op("fmul", e, number(x, high)), f.op("fadd", half, half))
    rest = f.op("fadd", f.op("fadd", half_rest, half_rest), f.op("fmul", e, number(x, low)))
    return fast_two_sum(f, total, f.op("fadd", error, rest))


def log_specials(f: FunctionWriter, x: Value, result: Value) -> Value:
    """`result`, and what a logarithm gives for 0 (-inf), negative numbers (NaN), inf and NaN."""
    infinity = number(x, float("inf"))
    result = f.select(f.fcmp("oeq", x, infinity), infinity, result)
    result = f.select(f.fcmp("oeq", x, number(x, 0.0)), number(x, float("-inf")), result)
    return f.select(f.fcmp("ult", x, number(x, 0.0)), number(x, float("nan")), result)


def log_sum(f: FunctionWriter, a: Value, b: Value) -> Value:
    """log(a + b), where the sum is rounded only at the end; b may be as small as it likes."""
    total, rest = two_sum(f, a, b)
    high, low = log_pair(f, total)
    return log_specials(f, total, f.op("fadd", high, f.op("fadd", low, f.op("fdiv", rest, total))))
