"""pow, exp10, log10, expm1 and log1p of f64, and expm1 of f32.

Without FMA, pow and exp10 of f32 are computed here too; else in `power_single` and `exponential`.
pow takes the logarithm as a pair of numbers, so that the product with y has as many digits as the result needs.
Bounds: pow 4 ulp, the others 2; special values as in C11 F.10.  Tests: test_mathlib.py.
"""

from __future__ import annotations

from tilewright.targets.llvm.mathlib.exponential import exp, exp_reduced, expm1_reduced, reduce
from tilewright.targets.llvm.mathlib.kit import (
    limit_above,
    limit_below,
    magnitude,
    nearest,
    number,
    power_of_two,
    same_if_zero,
    scale,
)
from tilewright.targets.llvm.mathlib.roots import truncate
from tilewright.targets.llvm.mathlib.wide import (
    log_pair,
    log_specials,
    log_sum,
    pair_of,
    times,
    two_product,
)
from tilewright.targets.llvm.text import FunctionWriter
from tilewright.targets.llvm.types import Value, constant

_LOG2_10, _LN_10 = 3.321928094887362, 2.302585092994046
_LOG10_2 = (0.3010299956640665, -8.532344317057107e-14)         # the first has 40 bits
_LOG10_E = (0.4342944819032518, 1.098319650216765e-17)


def log1p(f: FunctionWriter, x: Value) -> Value:
    """log(1 + x)."""
    result = same_if_zero(f, x, log_sum(f, number(x, 1.0), x))
    return f.select(f.fcmp("oeq", x, number(x, float("inf"))), x, result)


def log10(f: FunctionWriter, x: Value) -> Value:
    high, low = times(f, log_pair(f, x), pair_of(x, _LOG10_E))
    return log_specials(f, x, f.op("fadd", high, low))


def exp10(f: FunctionWriter, x: Value) -> Value:
    """10**x = 2**n * e**(r*ln(10)) with x = n*log10(2) + r."""
    limited = limit_below(f, limit_above(f, x, 309.0), -325.0)
    whole, n = nearest(f, limited, _LOG2_10)
    high, low = (f.op("fmul", whole, number(x, part)) for part in _LOG10_2)
    r = f.op("fsub", f.op("fsub", limited, high), low)
    return scale(f, exp_reduced(f, f.op("fmul", r, number(x, _LN_10))), n)


def expm1(f: FunctionWriter, x: Value) -> Value:
    """e**x - 1 = 2**n * (e**r - 1) + (2**n - 1); for large x, e**x."""
    n, r = reduce(f, limit_below(f, limit_above(f, x, 40.0), -50.0))
    power, one = power_of_two(f, n, x.type), number(x, 1.0)
    result = f.fma(power, expm1_reduced(f, r), f.op("fsub", power, one))
    result = f.select(f.fcmp("ogt", x, number(x, 40.0)), exp(f, x), result)
    return same_if_zero(f, x, result)


def expm1_single(f: FunctionWriter, x: Value) -> Value:
    """e**x - 1 of f32: twice (2**n/2 * (e**r - 1) + (2**n - 1) / 2), since 2**128 is no number; x itself where the rest
    is less than half of its last digit."""
    n, r = reduce(f, limit_below(f, limit_above(f, x, 89.0), -20.0))
    power = power_of_two(f, f.op("sub", n, constant(n.type, 1)), x.type)
    half = f.fma(power, expm1_reduced(f, r), f.op("fsub", power, number(x, 0.5)))
    is_small = f.fcmp("olt", magnitude(f, x), number(x, 2.0**-25))
    return f.select(is_small, x, f.op("fadd", half, half))


def _exp_of_pair(f: FunctionWriter, high: Value, low: Value) -> Value:
    """e**(high + low); `low` does not count where the result is 0 or infinite."""
    low = f.select(f.fcmp("olt", magnitude(f, high), number(high, 800.0)), low, number(high, 0.0))
    n, r = reduce(f, limit_below(f, limit_above(f, high, 710.0), -746.0))
    return scale(f, exp_reduced(f, f.op("fadd", r, low)), n)


def pow(f: FunctionWriter, x: Value, y: Value) -> Value:
    size, one = magnitude(f, x), number(x, 1.0)
    high, low = log_pair(f, size)
    # beyond 2**64 the result is 0, 1 or infinite already
    exponent = limit_below(f, limit_above(f, y, 2.0**64), -(2.0**64))
    product, rest = two_product(f, exponent, high)
    result = _exp_of_pair(f, product, f.op("fadd", rest, f.op("fmul", exponent, low)))
    result = _at_the_ends(f, size, y, result)
    whole = f.fcmp("oeq", truncate(f, y), y)
    half = f.op("fmul", y, number(y, 0.5))
    odd = f.op("and", whole, f.fcmp("une", truncate(f, half), half))
    bits = x.type.as_int
    negative = f.icmp("slt", f.bitcast(x, bits), constant(bits, 0))
    nonzero = f.op("and", f.fcmp("olt", x, number(x, 0.0)), f.fcmp("one", x, number(x, float("-inf"))))
    result = f.select(f.op("and", nonzero, f.not_(whole)), number(x, float("nan")), result)
    result = f.select(f.op("and", negative, odd), f.fneg(result), result)
    result = f.select(f.fcmp("uno", x, y), number(x, float("nan")), result)
    always_one = f.op("or", f.fcmp("oeq", y, number(y, 0.0)), f.fcmp("oeq", x, one))
    return f.select(always_one, one, result)


def _at_the_ends(f: FunctionWriter, size: Value, y: Value, result: Value) -> Value:
    """`result`, and what 0 and infinity to the power y are."""
    zero, infinity = number(y, 0.0), number(y, float("inf"))
    is_zero, is_infinite = f.fcmp("oeq", size, zero), f.fcmp("oeq", size, infinity)
    vanishes = f.select(is_zero, f.fcmp("ogt", y, zero), f.fcmp("olt", y, zero))
    end = f.select(vanishes, zero, infinity)
    return f.select(f.op("or", is_zero, is_infinite), end, result)
