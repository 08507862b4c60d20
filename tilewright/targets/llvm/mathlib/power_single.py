"""pow of f32 in f32 arithmetic with FMA: 2**(y * log2(x)), the logarithm as a pair of numbers.

The result is off by ln(2) times what y * log2(x) is off, which is up to 150: so the logarithm is right to some 2**-31.
Bound: 4 ulp; special values as in C11 F.10.4.4.  Without FMA, and of f64, `power.pow` is used.  Tests: test_mathlib.py.
"""

from __future__ import annotations

from tilewright.targets.llvm.mathlib.exponential import exp2_of_pair
from tilewright.targets.llvm.mathlib.kit import fast_two_sum, limit_above, limit_below, magnitude, number, polynomial
from tilewright.targets.llvm.mathlib.logarithm import decompose
from tilewright.targets.llvm.mathlib.wide import Pair
from tilewright.targets.llvm.text import FunctionWriter
from tilewright.targets.llvm.types import Value, constant

# 2/ln(2) as a sum (tools/fit_math.py, two_over_ln2)
_TWO_OVER_LN2 = (2.885390043258667, 3.851926067000022e-08)
# (log2((1+s)/(1-s))/s - 2/ln(2)) / s**2 as a function of s**2, for s = (m-1)/(m+1), m in [sqrt(1/2), sqrt(2)].
# tools/fit_math.py, 2026-12-01; lowest power first.
_LOG2_TAIL = (0.9617967009544373, 0.5770790576934814, 0.4119064509868622, 0.3369290828704834)
# Beyond it y only tells whether the result is 0, 1 or infinite: the least |log2(x)| is 2**-24 / ln(2).
_LARGEST = 2.0**40


def pow_single(f: FunctionWriter, x: Value, y: Value) -> Value:
    size, infinity = magnitude(f, x), float("inf")
    high, low = log2_pair(f, size)
    high = f.select(f.fcmp("oeq", size, number(x, 0.0)), number(x, -infinity), high)
    high = f.select(f.fcmp("uge", size, number(x, infinity)), size, high)     # a NaN as well
    factor = limit_below(f, limit_above(f, y, _LARGEST), -_LARGEST)
    product = f.op("fmul", factor, high)
    rest = f.fma(factor, low, f.fma(factor, high, f.fneg(product)))
    result = _with_sign(f, x, y, exp2_of_pair(f, product, rest))
    always_one = f.op("or", f.fcmp("oeq", y, number(y, 0.0)), f.fcmp("oeq", x, number(x, 1.0)))
    return f.select(always_one, number(x, 1.0), result)


def log2_pair(f: FunctionWriter, x: Value) -> Pair:
    """log2(x) as a pair, the second below a 64th of the first, for finite x > 0 (denormals as well).

    x = m * 2**e; log2(m) = s * (2/ln(2) + z*P(z)) with s = (m-1)/(m+1), z = s*s.  What s lacks is found from the
    remainder of its division.
    """
    e, fraction = decompose(f, x)
    two, factor = number(x, 2.0), number(x, _TWO_OVER_LN2[0])
    below = f.op("fadd", fraction, two)
    below_rest = f.op("fsub", fraction, f.op("fsub", below, two))
    inverse = f.reciprocal(below)
    s = f.op("fmul", fraction, inverse)
    left = f.fma(f.fneg(s), below_rest, f.fma(f.fneg(s), below, fraction))
    z = f.op("fmul", s, s)
    z_rest = f.fma(f.fma(s, s, f.fneg(z)), number(x, _LOG2_TAIL[0]), number(x, _TWO_OVER_LN2[1]))
    tail = f.fma(z, polynomial(f, z, _LOG2_TAIL), z_rest)
    lead = f.op("fmul", s, factor)
    low = f.fma(s, tail, f.fma(s, factor, f.fneg(lead)))
    low = f.fma(f.op("fmul", left, inverse), f.fma(tail, number(x, 3.0), factor), low)
    total, error = fast_two_sum(f, e, lead)
    return total, f.op("fadd", error, low)


def _with_sign(f: FunctionWriter, x: Value, y: Value, result: Value) -> Value:
    """`result` = |x|**y, negative for odd y where x is; NaN for finite x < 0 and y that is not whole.

    Adding 2**23 puts a whole number's last bit where it can be seen; from there on it is there already, and from 2**24
    on numbers are even.
    """
    a, bits = limit_above(f, magnitude(f, y), 2.0**24), x.type.as_int
    shift = f.select(f.fcmp("olt", a, number(a, 2.0**23)), number(a, 2.0**23), number(a, 0.0))
    moved = f.op("fadd", a, shift)
    whole = f.fcmp("oeq", f.op("fsub", moved, shift), a)
    odd = f.op("shl", f.bitcast(moved, bits), constant(bits, 31))
    sign = f.select(whole, f.op("and", odd, f.bitcast(x, bits)), constant(bits, 0))
    signed = f.bitcast(f.op("or", f.bitcast(result, bits), sign), x.type)
    below = f.op("and", f.fcmp("olt", x, number(x, 0.0)), f.fcmp("ogt", x, number(x, float("-inf"))))
    return f.select(f.op("and", below, f.not_(whole)), number(x, float("nan")), signed)
