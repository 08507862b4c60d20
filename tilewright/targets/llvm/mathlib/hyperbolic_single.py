"""sinh, cosh, asinh, acosh and atanh of f32 in f32 arithmetic.

With x = n*ln(2) + r both sinh and cosh are made of the short polynomials of cosh(r) - 1 and sinh(r), and of sums of
powers of two, which are exact: no quotient is needed, and nothing is lost near 0.
Bounds: sinh and cosh 3 ulp, the others 4.  f64: `hyperbolic`.  Tests: test_mathlib.py.
"""

from __future__ import annotations

from tilewright.targets.llvm.mathlib.exponential import reduce
from tilewright.targets.llvm.mathlib.kit import limit_above, magnitude, number, polynomial, power_of_two, with_sign_of
from tilewright.targets.llvm.mathlib.logarithm import log1p_single
from tilewright.targets.llvm.text import FunctionWriter
from tilewright.targets.llvm.types import Value, constant

_TOP = 89.75            # from here on the result is infinite
_FARTHEST = 32          # 2**(-2*n) counts no more
_BIG = 2.0**30          # from here on 1 + x*x is x*x, and log1p(x) is log(x)
_LN2 = 0.6931471824645996

# (sinh(r) - r) / r**3 and (cosh(r) - 1) / r**2 as functions of r**2, for |r| <= ln(2)/2.
# tools/fit_math.py, 2026-12-01; lowest power first.
_SINH = (0.1666666716337204, 0.008333191275596619, 0.00019959323981311172)
_COSH = (0.5, 0.04166645556688309, 0.001393576036207378)


def _parts(f: FunctionWriter, a: Value) -> tuple[Value, Value, Value, Value]:
    """Of a >= 0: (sinh(r), cosh(r) - 1, (2**n - 2**-n) / 4, (2**n + 2**-n) / 4), where n*ln(2) + r = a."""
    n, r = reduce(f, limit_above(f, a, _TOP))
    z = f.op("fmul", r, r)
    sine = f.fma(f.op("fmul", r, z), polynomial(f, z, _SINH), r)
    cosine = f.op("fmul", z, polynomial(f, z, _COSH))
    two, far = constant(n.type, 2), constant(n.type, _FARTHEST)
    large = power_of_two(f, f.op("sub", n, two), a.type)
    near = f.select(f.icmp("slt", n, far), n, far)
    small = power_of_two(f, f.op("sub", constant(n.type, -2), near), a.type)
    return sine, cosine, f.op("fsub", large, small), f.op("fadd", large, small)


def sinh_single(f: FunctionWriter, x: Value) -> Value:
    """sinh(n*ln(2)) * cosh(r) + cosh(n*ln(2)) * sinh(r)."""
    sine, cosine, difference, total = _parts(f, magnitude(f, x))
    half = f.op("fadd", difference, f.fma(total, sine, f.op("fmul", difference, cosine)))
    return with_sign_of(f, f.op("fadd", half, half), x)


def cosh_single(f: FunctionWriter, x: Value) -> Value:
    """cosh(n*ln(2)) * cosh(r) + sinh(n*ln(2)) * sinh(r)."""
    sine, cosine, difference, total = _parts(f, magnitude(f, x))
    half = f.op("fadd", total, f.fma(difference, sine, f.op("fmul", total, cosine)))
    return f.op("fadd", half, half)


def _log1p_or_more(f: FunctionWriter, big: Value, a: Value, near: Value) -> Value:
    """log1p(near); where `big`, log(2*a)."""
    more = f.select(big, number(a, _LN2), number(a, 0.0))
    return f.op("fadd", log1p_single(f, f.select(big, a, near)), more)


def asinh_single(f: FunctionWriter, x: Value) -> Value:
    """log(a + sqrt(a*a + 1)) = log1p(a + a*a / (1 + sqrt(1 + a*a)))."""
    a, one = magnitude(f, x), number(x, 1.0)
    square = f.op("fmul", a, a)
    bottom = f.op("fadd", one, f.unary_intrinsic("sqrt", f.op("fadd", one, square)))
    near = f.op("fadd", a, f.quotient(square, bottom))
    return with_sign_of(f, _log1p_or_more(f, f.fcmp("ogt", a, number(x, _BIG)), a, near), x)


def acosh_single(f: FunctionWriter, x: Value) -> Value:
    """log(x + sqrt(x*x - 1)) = log1p(t + sqrt(2*t + t*t)) with t = x - 1; NaN below 1."""
    t = f.op("fsub", x, number(x, 1.0))
    near = f.op("fadd", t, f.unary_intrinsic("sqrt", f.op("fmul", t, f.op("fadd", t, number(x, 2.0)))))
    result = _log1p_or_more(f, f.fcmp("ogt", x, number(x, _BIG)), x, near)
    return f.select(f.fcmp("ult", x, number(x, 1.0)), number(x, float("nan")), result)


def atanh_single(f: FunctionWriter, x: Value) -> Value:
    """log((1+a) / (1-a)) / 2 = log1p(2*a / (1-a)) / 2."""
    a, one = magnitude(f, x), number(x, 1.0)
    ratio = f.quotient(f.op("fadd", a, a), f.op("fsub", one, a))
    inside = f.op("fmul", number(x, 0.5), log1p_single(f, ratio))
    outside = f.select(f.fcmp("oeq", a, one), number(x, float("inf")), number(x, float("nan")))
    return with_sign_of(f, f.select(f.fcmp("olt", a, one), inside, outside), x)
