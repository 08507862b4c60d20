"""exp, exp2, and exp10 of f32: reduce to |r| <= ln(2)/2, polynomial, scale by a power of two.

x = n*ln(2) + r with ln(2) in two parts, the first short enough that n times it is exact (Cody and Waite).
f32 on AVX-512 has a shorter form (`exp_parts`).
Bounds: 1 ulp, exp10 2; exact for +-0, inf, NaN, overflow and results that are denormal.  Tests: test_mathlib.py.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tilewright.targets.llvm import avx512
from tilewright.targets.llvm.mathlib import exp_parts
from tilewright.targets.llvm.mathlib.kit import (
    is_single,
    leading,
    limit_above,
    limit_below,
    nearest,
    nearest_exponent,
    number,
    polynomial,
)
from tilewright.targets.llvm.text import FunctionWriter
from tilewright.targets.llvm.types import Value

LOG2_E = {"float": 1.4426950216293335, "double": 1.4426950408889634}
# ln(2) = high + low; high has 15 (f32) or 40 (f64) bits.
LN2 = {"float": (0.693145751953125, 1.428606765330187e-06), "double": (0.6931471805601177, -1.7239444525614835e-13)}
# ln(2) to the format, and the rest
_LN2_NEAREST = {"float": (0.6931471824645996, -1.9046542121259336e-09),
                "double": (0.6931471805599453, 2.3190468138462996e-17)}
# The same with a first part of 12 or 32 bits, whose product with `kit.leading` is exact.
_LN2_SHORT = {"float": (0.693115234375, 3.194618329871446e-05), "double": (0.6931471806019545, -4.2009150726810846e-11)}
# Above the first the result is infinite, below the second it rounds to 0.
_EXP_RANGE = {"float": (89.0, -105.0), "double": (710.0, -746.0)}
_EXP2_RANGE = {"float": (129.0, -151.0), "double": (1025.0, -1076.0)}

# (e**r - 1 - r) / r**2 on |r| <= ln(2)/2.  tools/fit_math.py, 2026-11-30; lowest power first.
_EXP_F32 = (
    0.5, 0.16666516661643982, 0.04166645556688309, 0.008369090966880322, 0.001393576036207378,
)
_EXP_F64 = (
    0.5000000000000013, 0.16666666666666685, 0.04166666666651157, 0.008333333333315953, 0.0013888888947865923,
    0.00019841269898664948, 2.480148917255337e-05, 2.7557232865118846e-06, 2.7631526235149347e-07,
    2.5112658622693133e-08,
)

# (2**r - 1 - r*ln(2)) / r**2 on |r| <= 1/2.  tools/fit_math.py, 2026-11-30; lowest power first.
_EXP2_F32 = (
    0.24022650718688965, 0.05550360679626465, 0.009618077427148819, 0.001339087262749672, 0.0001545635750517249,
)
_EXP2_F64 = (
    0.24022650695910136, 0.05550410866482164, 0.009618129107592435, 0.0013333558146401475, 0.00015403530459040513,
    1.5252733847353558e-05, 1.3215434396286245e-06, 1.0178054454265361e-07, 7.073925070299364e-09,
    4.456232799249259e-10,
)

# (10**r - 1 - r*ln(10)) / r**2 on |r| <= log10(2)/2.  tools/fit_math.py, 2026-12-01; lowest power first.
_EXP10_F32 = (2.650949001312256, 2.0346601009368896, 1.1712560653686523, 0.5417060852050781, 0.20749187469482422)
_EXP10_RANGE = (39.0, -46.0)
# as sums (tools/fit_math.py, log2_10, log10_2 and ln_10)
_LOG2_10 = 3.321928024291992
_LOG10_2 = (0.3010300099849701, -1.432098883924482e-08)
_LN_10 = (2.3025851249694824, -3.1975435632602967e-08)

Powers = Callable[[FunctionWriter], Sequence[Value]]    # asked for late: what they are made of is one register


def reduce(f: FunctionWriter, x: Value) -> tuple[Value, Value]:
    """(n as an integer, r) with x = n*ln(2) + r."""
    whole, n = nearest(f, x, LOG2_E[x.type.element])
    return n, _rest_of(f, x, whole)


def exp_reduced(f: FunctionWriter, r: Value) -> Value:
    """e**r for |r| <= ln(2)/2."""
    one = number(r, 1.0)
    q = polynomial(f, r, _EXP_F32 if is_single(r) else _EXP_F64)
    if f.isa.fma:
        return f.fma(f.fma(q, r, one), r, one)
    return f.op("fadd", f.op("fadd", f.op("fmul", f.op("fmul", r, r), q), r), one)   # the products are small


def expm1_reduced(f: FunctionWriter, r: Value) -> Value:
    """e**r - 1 for |r| <= ln(2)/2."""
    q = polynomial(f, r, _EXP_F32 if is_single(r) else _EXP_F64)
    return f.fma(f.op("fmul", r, r), q, r)


def _round(f: FunctionWriter, x: Value) -> Value:
    return f.unary_intrinsic("roundeven", x)


def _rest_of(f: FunctionWriter, x: Value, whole: Value) -> Value:
    """x - whole*ln(2)."""
    high, low = LN2[x.type.element]
    return f.fma(whole, number(x, -low), f.fma(whole, number(x, -high), x))


def exp(f: FunctionWriter, x: Value) -> Value:
    if exp_parts.serves(f, x.type):
        return exp_parts.exp(f, x)
    if avx512.serves(f, x.type):
        whole, _ = nearest(f, x, LOG2_E[x.type.element])
        return avx512.scale(f, exp_reduced(f, avx512.kept_small(f, _rest_of(f, x, whole))), whole)
    top, low = _EXP_RANGE[x.type.element]
    limited = limit_below(f, limit_above(f, x, top), low)
    whole, exponent = nearest_exponent(f, limited, LOG2_E[x.type.element], 2)
    return _exp_times(f, _rest_of(f, limited, whole), exponent.powers)


def exp_moderate(f: FunctionWriter, x: Value) -> Value:
    """e**x for |x| < 80, where one factor 2**n is enough."""
    if exp_parts.serves(f, x.type):
        return exp_parts.exp_moderate(f, x)
    if avx512.serves(f, x.type):
        whole, _ = nearest(f, x, LOG2_E[x.type.element])
        return avx512.scale(f, exp_reduced(f, _rest_of(f, x, whole)), whole)
    whole, exponent = nearest_exponent(f, x, LOG2_E[x.type.element], 1)
    return _exp_times(f, _rest_of(f, x, whole), lambda f: (exponent.power(f),))


def exp2(f: FunctionWriter, x: Value) -> Value:
    if exp_parts.serves(f, x.type):
        return exp_parts.exp2(f, x)
    if avx512.serves(f, x.type):
        whole = _round(f, x)
        return avx512.scale(f, _exp2_reduced(f, avx512.kept_small(f, f.op("fsub", x, whole))), whole)
    top, low = _EXP2_RANGE[x.type.element]
    limited = limit_below(f, limit_above(f, x, top), low)
    whole, exponent = nearest_exponent(f, limited, 1.0, 2)
    return _one_more_times(f, _exp2m1_reduced(f, f.op("fsub", limited, whole)), exponent.powers)


def exp10_single(f: FunctionWriter, x: Value) -> Value:
    """10**x = 2**n * 10**r of f32 with FMA, x = n*log10(2) + r; what is left after the first product is exact."""
    top, low = _EXP10_RANGE
    limited = limit_below(f, limit_above(f, x, top), low)
    whole, exponent = nearest_exponent(f, limited, _LOG2_10, 2)
    r = f.fma(whole, number(x, -_LOG10_2[1]), f.fma(whole, number(x, -_LOG10_2[0]), limited))
    q = f.fma(polynomial(f, r, _EXP10_F32), r, number(x, _LN_10[1]))
    return _one_more_times(f, f.fma(r, number(x, _LN_10[0]), f.op("fmul", r, q)), exponent.powers)


def exp2_of_pair(f: FunctionWriter, high: Value, low: Value) -> Value:
    """2**(high + low) of f32 with FMA; `low` is below 4 wherever the result is neither 0 nor infinite.

    It counts only there, and may be anything, also NaN, elsewhere.
    """
    top, bottom = _EXP2_RANGE[high.type.element]
    limited = limit_below(f, limit_above(f, high, top + 5.0), bottom - 5.0)
    low = f.select(f.fcmp("oeq", limited, high), low, number(high, 0.0))
    whole, exponent = nearest_exponent(f, f.op("fadd", limited, low), 1.0, 2)
    r = f.op("fadd", f.op("fsub", limited, whole), low)
    return _one_more_times(f, _exp2m1_reduced(f, r), exponent.powers)


def _exp2_reduced(f: FunctionWriter, r: Value) -> Value:
    """2**r for |r| <= 1/2."""
    return f.op("fadd", _exp2m1_reduced(f, r), number(r, 1.0))


def _exp2m1_reduced(f: FunctionWriter, r: Value) -> Value:
    """2**r - 1 for |r| <= 1/2."""
    return _times_ln2(f, r, polynomial(f, r, _EXP2_F32 if is_single(r) else _EXP2_F64))


def _exp_times(f: FunctionWriter, r: Value, powers: Powers) -> Value:
    """e**r for |r| <= ln(2)/2, times powers of two."""
    if not f.isa.fma:
        return _one_more_times(f, expm1_reduced(f, r), powers)
    q = polynomial(f, r, (1.0, *(_EXP_F32 if is_single(r) else _EXP_F64)))
    first, *others = powers(f)
    return _product(f, f.fma(f.op("fmul", r, first), q, first), others)


def _one_more_times(f: FunctionWriter, t: Value, powers: Powers) -> Value:
    """(1 + t) times powers of two, without an addition for it."""
    first, *others = powers(f)
    return _product(f, f.fma(t, first, first), others)


def _product(f: FunctionWriter, x: Value, powers: Sequence[Value]) -> Value:
    """`x`, a normal number, times powers of two, of which the last may make it denormal."""
    for power in powers:
        x = f.op("fmul", x, power)
    return x


def _times_ln2(f: FunctionWriter, r: Value, q: Value) -> Value:
    """r*ln(2) + r*r*q to about half an ulp: ln(2) has more digits than one number holds."""
    if f.isa.fma:
        first, rest = _LN2_NEAREST[r.type.element]
        return f.fma(r, number(r, first), f.op("fmul", r, f.fma(q, r, number(r, rest))))
    first, rest = _LN2_SHORT[r.type.element]
    lead = leading(f, r)
    small = f.op("fmul", r, f.op("fadd", f.op("fmul", q, r), number(r, rest)))
    small = f.op("fadd", small, f.op("fmul", f.op("fsub", r, lead), number(r, first)))
    return f.op("fadd", f.op("fmul", lead, number(r, first)), small)
