"""log, log2, and log1p and log10 of f32: x = m * 2**e with m in [sqrt(1/2), sqrt(2)), then log(m) by a polynomial in
m - 1, or atanh's series.

Denormals are scaled up first.  The leading parts of e*ln(2) and m - 1 are added with their rounding error kept, so
that the sum is within 1 ulp with and without FMA.  Exact: log(1), 0 (-inf), negative (NaN), inf, NaN.
Tests: test_mathlib.py.
"""

from __future__ import annotations

from tilewright.targets.llvm.mathlib.exponential import LN2
from tilewright.targets.llvm.mathlib.kit import (
    BIAS,
    MAGIC,
    MAGIC_BITS,
    MANTISSA,
    fast_two_sum,
    is_single,
    leading,
    number,
    polynomial,
    same_if_zero,
    two_sum,
)
from tilewright.targets.llvm.text import FunctionWriter
from tilewright.targets.llvm.types import Value, constant

_SQRT_HALF_BITS = {"float": 0x3F3504F3, "double": 0x3FE6A09E667F3BCD}
# 1/ln(2) = high + low; high has 12 (f32) or 32 (f64) bits.
_LOG2_E = {"float": (1.44287109375, -0.00017605285393074155), "double": (1.4426950407214463, 1.6751713164886512e-10)}

# 1/ln(10) = high + low, high with 12 bits, and log10(2) = high + low, high with 15 bits.
_LOG10_E = (0.434326171875, -3.168997136526741e-05)
_LOG10_2 = (0.301025390625, 4.605039066518657e-06)

# (log(1+f) - f + f*f/2) / f**3 for 1+f in [sqrt(1/2), sqrt(2)].  tools/fit_math.py, 2026-11-30; lowest power first.
_LOG_F32 = (
    0.3333331048488617, -0.25, 0.20002228021621704, -0.1666852980852127, 0.14218074083328247, -0.12396303564310074,
    0.11888919025659561, -0.11726882308721542, 0.06805459409952164,
)
# (log((1+s)/(1-s))/s - 2) / s**2 as a function of s**2, for s = f/(2+f).
# tools/fit_math.py, 2026-11-30; lowest power first.
_ATANH_F64 = (
    0.6666666666666737, 0.3999999999939863, 0.28571428745551214, 0.22222198273544116, 0.1818357906686337,
    0.1531368752092411, 0.14799487338447104,
)


def decompose(f: FunctionWriter, x: Value) -> tuple[Value, Value]:
    """(e, m - 1), both floats, with x = m * 2**e; for finite x > 0."""
    element = x.type.element
    bits, bias = MANTISSA[element], BIAS[element]
    tiny = f.fcmp("olt", x, number(x, 2.0 ** (1 - bias)))
    scaled = f.select(tiny, f.op("fmul", x, number(x, 2.0**bits)), x)
    integer = x.type.as_int
    base = constant(integer, _SQRT_HALF_BITS[element])
    offset = f.op("sub", f.bitcast(scaled, integer), base)
    exponent = f.op("ashr", offset, constant(integer, bits))
    mantissa = f.op("add", f.op("and", offset, constant(integer, (1 << bits) - 1)), base)
    fraction = f.op("fsub", f.bitcast(mantissa, x.type), number(x, 1.0))
    shift = f.select(tiny, number(x, MAGIC[element] + bits), number(x, MAGIC[element]))
    moved = f.op("add", exponent, constant(integer, MAGIC_BITS[element]))
    return f.op("fsub", f.bitcast(moved, x.type), shift), fraction


def _log1p_rest(f: FunctionWriter, fraction: Value) -> tuple[Value, Value]:
    """(f*f/2, k) with log(1+f) = f - f*f/2 + k."""
    square = f.op("fmul", fraction, fraction)
    half_square = f.op("fmul", square, number(fraction, 0.5))
    if is_single(fraction):
        cube = f.op("fmul", square, fraction)
        return half_square, f.op("fmul", cube, polynomial(f, fraction, _LOG_F32))
    s = f.op("fdiv", fraction, f.op("fadd", fraction, number(fraction, 2.0)))
    z = f.op("fmul", s, s)
    r = f.op("fmul", z, polynomial(f, z, _ATANH_F64))
    return half_square, f.op("fmul", s, f.op("fadd", half_square, r))


def _specials(f: FunctionWriter, x: Value, result: Value) -> Value:
    infinity = number(x, float("inf"))
    result = f.select(f.fcmp("oeq", x, infinity), infinity, result)
    result = f.select(f.fcmp("oeq", x, number(x, 0.0)), number(x, float("-inf")), result)
    return f.select(f.fcmp("ult", x, number(x, 0.0)), number(x, float("nan")), result)


def log(f: FunctionWriter, x: Value) -> Value:
    high, low = LN2[x.type.element]
    e, fraction = decompose(f, x)
    half_square, k = _log1p_rest(f, fraction)
    lead, error = fast_two_sum(f, f.op("fmul", e, number(x, high)), fraction)
    rest = f.op("fsub", f.fma(e, number(x, low), k), half_square)
    return _specials(f, x, f.op("fadd", lead, f.op("fadd", error, rest)))


def log1p_single(f: FunctionWriter, x: Value) -> Value:
    """log(1 + x) of f32.  Where 1 + x is its own mantissa, x is that less 1; else what 1 + x lost is added."""
    high, low = LN2[x.type.element]
    total, lost = two_sum(f, number(x, 1.0), x)
    e, fraction = decompose(f, total)
    is_near = f.fcmp("oeq", e, number(x, 0.0))
    fraction = f.select(is_near, x, fraction)
    correction = f.select(is_near, number(x, 0.0), f.quotient(lost, total))
    half_square, k = _log1p_rest(f, fraction)
    lead, error = fast_two_sum(f, f.op("fmul", e, number(x, high)), fraction)
    rest = f.op("fadd", f.op("fsub", f.fma(e, number(x, low), k), half_square), correction)
    return same_if_zero(f, x, _specials(f, total, f.op("fadd", lead, f.op("fadd", error, rest))))


def log2(f: FunctionWriter, x: Value) -> Value:
    e, fraction = decompose(f, x)
    lead, small = _log1p_times(f, fraction, _LOG2_E[x.type.element])
    total, error = fast_two_sum(f, e, lead)
    return _specials(f, x, f.op("fadd", total, f.op("fadd", error, small)))


def log10_single(f: FunctionWriter, x: Value) -> Value:
    high, low = _LOG10_2
    e, fraction = decompose(f, x)
    lead, small = _log1p_times(f, fraction, _LOG10_E)
    total, error = fast_two_sum(f, f.op("fmul", e, number(x, high)), lead)
    return _specials(f, x, f.op("fadd", total, f.op("fadd", error, f.fma(e, number(x, low), small))))


def _log1p_times(f: FunctionWriter, fraction: Value, factor: tuple[float, float]) -> tuple[Value, Value]:
    """log(1 + fraction) times a sum of two numbers, the first of 12 or 32 bits, as a sum."""
    high, low = factor
    half_square, k = _log1p_rest(f, fraction)
    lead = leading(f, f.op("fsub", fraction, half_square))
    rest = f.op("fadd", f.op("fsub", f.op("fsub", fraction, lead), half_square), k)
    small = f.fma(f.op("fadd", rest, lead), number(fraction, low), f.op("fmul", rest, number(fraction, high)))
    return f.op("fmul", lead, number(fraction, high)), small
