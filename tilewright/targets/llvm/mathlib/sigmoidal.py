"""tanh and erf: odd functions that saturate at 1.

Both are polynomials near 0.  Further out tanh(a) = 1 - 2 / (e**(2a) + 1), and erf(a) = 1 - e**L(a) with
L = log(erfc), whose error counts only as far as erfc is large; of f32 1 - 2**L, with the logarithm to base 2.
Bounds: 2 ulp; +-0, inf, NaN and denormals exact.  Tests: test_mathlib.py.
"""

from __future__ import annotations

from tilewright.targets.llvm.mathlib import erf_pieces
from tilewright.targets.llvm.mathlib.exponential import exp_moderate
from tilewright.targets.llvm.mathlib.kit import (
    is_single,
    limit_above,
    magnitude,
    nearest_exponent,
    number,
    polynomial,
    with_sign_of,
)
from tilewright.targets.llvm.text import FunctionWriter
from tilewright.targets.llvm.types import Value

_TANH_NEAR = 0.5625
_TANH_TOP = {"float": 10.0, "double": 22.0}      # tanh rounds to 1 from here on
_ERF_TOP = {"float": 2.9375, "double": 4.9375}       # erf(1 + u) rounds to 1 from here on

# (tanh(a) - a) / a**3 as a function of a**2, for 0 <= a <= 0.5625.  tools/fit_math.py, 2026-11-30; lowest power first.
_TANH_F32 = (
    -0.3333331346511841, 0.13332442939281464, -0.05383672937750816, 0.02100527100265026, -0.006177370902150869,
)
_TANH_F64 = (
    -0.33333333333333276, 0.13333333333322941, -0.053968253961650434, 0.021869488325792552, -0.008863231619573116,
    0.003592082118269243, -0.0014554790041281847, 0.0005881816581234656, -0.0002327123595132919,
    8.235671500087626e-05, -1.890199039270639e-05,
)
# erf(a)/a - 1 as a function of a**2, for 0 <= a <= 1.  tools/fit_math.py, 2026-11-30; lowest power first.
_ERF_F32 = (
    0.12837916612625122, -0.3761262893676758, 0.11283618211746216, -0.026855124160647392, 0.005190725903958082,
    -0.000803065428044647, 7.919901690911502e-05,
)
_ERF_F64 = (
    0.1283791670955126, -0.37612638903183876, 0.11283791670958783, -0.026866170645631897, 0.00522397762924565,
    -0.0008548327199358272, 0.00012055338161400656, -1.4925748180206354e-05, 1.6463247307130268e-06,
    -1.6372371891698225e-07, 1.4798357234369911e-08, -1.1876555591839105e-09, 6.762801638832501e-11,
)
# log(erfc(1 + u)) for 0 <= u <= top.  tools/fit_math.py, 2026-11-30; lowest power first.
_LOG_ERFC_F64 = (
    -1.8496055099332482, -2.6389675142347904, -0.8431072563586065, -0.04156109804288649, 0.010033825383671984,
    -0.0019779026176306607, 0.00023732265985192548, 2.6277427411791824e-05, -2.7158301874580986e-05,
    9.607819924961844e-06, -2.058696782885556e-06, 1.4207121071958448e-07, 9.799940255998607e-08,
    -5.2227478787425064e-08, 1.4969819247740864e-08, -2.876829244860025e-09, 3.701346232192664e-10,
    -2.8983418181934064e-11, 1.0459032058107102e-12,
)

# log2(erfc(1 + u)) for 0 <= u <= top, and (2**r - 1)/r on |r| <= 1/2, which is good enough for what is taken from 1.
# tools/fit_math.py, 2026-12-01; lowest power first.
_LOG2_ERFC_F32 = (
    -2.668416738510132, -3.807223320007324, -1.2163708209991455, -0.05984700843691826, 0.014232693240046501,
    -0.0026109623722732067, 0.0002622332249302417,
)
_EXP2_SHORT_F32 = (
    0.6931471824645996, 0.2402222752571106, 0.05550358071923256, 0.009672201238572598, 0.0013391644461080432,
)


def tanh(f: FunctionWriter, x: Value) -> Value:
    a = limit_above(f, magnitude(f, x), _TANH_TOP[x.type.element])
    near = tanh_near(f, a)
    one = number(x, 1.0)
    power = exp_moderate(f, f.op("fadd", a, a))
    far = f.op("fsub", one, f.quotient(number(x, 2.0), f.op("fadd", power, one)))
    return with_sign_of(f, f.select(f.fcmp("olt", a, number(x, _TANH_NEAR)), near, far), x)


def tanh_near(f: FunctionWriter, a: Value) -> Value:
    """tanh of 0 <= a <= 0.5625, to 0.7 ulp; of f32 to 1.01 ulp up to 0.6."""
    z = f.op("fmul", a, a)
    return f.fma(f.op("fmul", a, z), polynomial(f, z, _TANH_F32 if is_single(a) else _TANH_F64), a)


def erf(f: FunctionWriter, x: Value) -> Value:
    if erf_pieces.serves(f, x.type):
        return erf_pieces.erf(f, x)
    a = magnitude(f, x)
    z = f.op("fmul", a, a)
    near = f.fma(a, polynomial(f, z, _ERF_F32 if is_single(x) else _ERF_F64), a)
    u = limit_above(f, f.op("fsub", a, number(x, 1.0)), _ERF_TOP[x.type.element])
    if is_single(x):
        far = _one_minus_exp2(f, polynomial(f, u, _LOG2_ERFC_F32))
    else:
        far = f.op("fsub", number(x, 1.0), exp_moderate(f, polynomial(f, u, _LOG_ERFC_F64)))
    return with_sign_of(f, f.select(f.fcmp("olt", a, number(x, 1.0)), near, far), x)


def _one_minus_exp2(f: FunctionWriter, y: Value) -> Value:
    """1 - 2**y for y from -30 to -2, to an ulp: a sixth of the power's error counts.  (Fewer products than by `exp`:
    the argument is reduced in one subtraction.  GELU 1.15 times as fast on AVX2; Zen 3, 2026-12-01.)
    """
    one, at_once = number(y, 1.0), f.power_of_two(y)
    if at_once is not None:
        return f.op("fsub", one, at_once)
    whole, exponent = nearest_exponent(f, y, 1.0, 1)
    r = f.op("fsub", y, whole)
    power = f.fma(polynomial(f, r, _EXP2_SHORT_F32), r, one)
    return f.fma(power, f.fneg(exponent.power(f)), one)
