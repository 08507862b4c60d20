"""sinh, cosh, asinh, acosh, atanh and tan of f64, from the functions that they are made of.

f32: `hyperbolic_single`, `trigonometric.tan_single`.  Bounds: sinh and cosh 3 ulp, the others 4.
Tests: test_mathlib.py.
"""

from __future__ import annotations

from tilewright.targets.llvm.mathlib.exponential import exp
from tilewright.targets.llvm.mathlib.kit import magnitude, number, same_if_zero, with_sign_of
from tilewright.targets.llvm.mathlib.power import expm1, log1p
from tilewright.targets.llvm.mathlib.trigonometric import cos, sin
from tilewright.targets.llvm.mathlib.wide import log_pair, log_specials
from tilewright.targets.llvm.text import FunctionWriter
from tilewright.targets.llvm.types import Value

_LN2 = (0.6931471805599453, 2.3190468138462996e-17)
_BIG = 2.0**28          # from here on 1 + x*x is x*x


def tan(f: FunctionWriter, x: Value) -> Value:
    return f.op("fdiv", sin(f, x), cos(f, x))


def _large(f: FunctionWriter, a: Value) -> Value:
    """e**a / 2, also where e**a alone is too large."""
    half = number(a, 0.5)
    root = exp(f, f.op("fmul", a, half))
    return f.op("fmul", f.op("fmul", half, root), root)


def sinh(f: FunctionWriter, x: Value) -> Value:
    a = magnitude(f, x)
    t = expm1(f, a)
    small = f.op("fmul", number(x, 0.5), f.op("fadd", t, f.op("fdiv", t, f.op("fadd", t, number(x, 1.0)))))
    result = f.select(f.fcmp("ogt", a, number(x, 22.0)), _large(f, a), small)
    return with_sign_of(f, result, x)


def cosh(f: FunctionWriter, x: Value) -> Value:
    a, half = magnitude(f, x), number(x, 0.5)
    power = exp(f, a)
    small = f.op("fadd", f.op("fmul", half, power), f.op("fdiv", half, power))
    return f.select(f.fcmp("ogt", a, number(x, 22.0)), _large(f, a), small)


def _log_of_twice(f: FunctionWriter, x: Value) -> Value:
    """log(2*x)."""
    high, low = log_pair(f, x)
    high, low = (f.op("fadd", part, number(x, more)) for part, more in zip((high, low), _LN2, strict=True))
    return log_specials(f, x, f.op("fadd", high, low))


def asinh(f: FunctionWriter, x: Value) -> Value:
    """log(a + sqrt(a*a + 1)) = log1p(a + a*a / (1 + sqrt(1 + a*a)))."""
    a, one = magnitude(f, x), number(x, 1.0)
    square = f.op("fmul", a, a)
    bottom = f.op("fadd", one, f.unary_intrinsic("sqrt", f.op("fadd", one, square)))
    small = log1p(f, f.op("fadd", a, f.op("fdiv", square, bottom)))
    result = f.select(f.fcmp("ogt", a, number(x, _BIG)), _log_of_twice(f, a), small)
    return with_sign_of(f, same_if_zero(f, a, result), x)


def acosh(f: FunctionWriter, x: Value) -> Value:
    """log(x + sqrt(x*x - 1)) = log1p(t + sqrt(2*t + t*t)) with t = x - 1; NaN below 1."""
    t = f.op("fsub", x, number(x, 1.0))
    inside = f.op("fmul", t, f.op("fadd", t, number(x, 2.0)))
    small = log1p(f, f.op("fadd", t, f.unary_intrinsic("sqrt", inside)))
    result = f.select(f.fcmp("ogt", x, number(x, _BIG)), _log_of_twice(f, x), small)
    return f.select(f.fcmp("ult", x, number(x, 1.0)), number(x, float("nan")), result)


def atanh(f: FunctionWriter, x: Value) -> Value:
    """log((1+a) / (1-a)) / 2 = log1p(2*a / (1-a)) / 2."""
    a = magnitude(f, x)
    ratio = f.op("fdiv", f.op("fadd", a, a), f.op("fsub", number(x, 1.0), a))
    return with_sign_of(f, f.op("fmul", number(x, 0.5), log1p(f, ratio)), x)
