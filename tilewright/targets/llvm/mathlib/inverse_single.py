"""asin, acos, atan, atan2 of f32 in f32 arithmetic: polynomials on a short range, and identities that lead there.

All are base + t + t*z*P(z) with a base of 0, pi/2 or pi, whose second part and whose sum's rounding error are kept.
Bounds: 2 ulp, atan2 3; special values as in C11 F.10.1.  f64: `inverse`.  Tests: test_mathlib.py.
"""

from __future__ import annotations

from tilewright.targets.llvm.mathlib.kit import fast_two_sum, magnitude, number, polynomial, with_sign_of
from tilewright.targets.llvm.text import FunctionWriter
from tilewright.targets.llvm.types import Value, constant

# as sums (tools/fit_math.py, half_pi and pi)
_HALF_PI = (1.5707963705062866, -4.371138828673793e-08)
_PI = (3.1415927410125732, -8.742277657347586e-08)
_NOTHING = (0.0, 0.0)

# (asin(s) - s) / s**3 as a function of s**2, for |s| <= 1/2, and the same of atan for |s| <= 1.
# tools/fit_math.py, 2026-12-01; lowest power first.
_ASIN = (
    0.16666753590106964, 0.07495273649692535, 0.04547207057476044, 0.024174826219677925, 0.04217052459716797,
)
_ATAN = (
    -0.33333295583724976, 0.19998453557491302, -0.14263306558132172, 0.10947562754154205, -0.08390539139509201,
    0.0577445887029171, -0.030972078442573547, 0.010807008482515812, -0.0017701075412333012,
)

Sum = tuple[Value, Value]


def _chosen(f: FunctionWriter, condition: Value, a: Sum, b: Sum) -> Sum:
    return f.select(condition, a[0], b[0]), f.select(condition, a[1], b[1])


def _constants(x: Value, parts: tuple[float, float]) -> Sum:
    return number(x, parts[0]), number(x, parts[1])


def _negated_if(f: FunctionWriter, x: Value, condition: Value) -> Value:
    return f.select(condition, f.fneg(x), x)


def _extended(f: FunctionWriter, base: Sum, t: Value, square: Value, coefficients: tuple[float, ...]) -> Value:
    """base + t + t*z*P(z), where |base| >= |t| or base is 0."""
    rest = f.fma(f.op("fmul", t, square), polynomial(f, square, coefficients), base[1])
    total, error = fast_two_sum(f, base[0], t)
    return f.op("fadd", total, f.op("fadd", error, rest))


def _arc_of_half(f: FunctionWriter, a: Value) -> tuple[Value, Value, Value]:
    """For 0 <= a <= 1: (whether a > 1/2, t, z): t = a and z = a*a; beyond, z = (1-a)/2 and t = 2*sqrt(z)."""
    beyond = f.fcmp("ogt", a, number(a, 0.5))
    far = f.fma(a, number(a, -0.5), number(a, 0.5))
    root = f.unary_intrinsic("sqrt", far)
    return (beyond, f.select(beyond, f.op("fadd", root, root), a),
            f.select(beyond, far, f.op("fmul", a, a)))


def asin_single(f: FunctionWriter, x: Value) -> Value:
    """Beyond 1/2: asin(x) = pi/2 - 2*asin(sqrt((1-x)/2))."""
    beyond, t, square = _arc_of_half(f, magnitude(f, x))
    base = _chosen(f, beyond, _constants(x, _HALF_PI), _constants(x, _NOTHING))
    return with_sign_of(f, _extended(f, base, _negated_if(f, t, beyond), square, _ASIN), x)


def acos_single(f: FunctionWriter, x: Value) -> Value:
    """pi/2 - asin(x) up to 1/2, 2*asin(sqrt((1-x)/2)) above, pi minus that of -x below."""
    beyond, t, square = _arc_of_half(f, magnitude(f, x))
    negative = f.fcmp("olt", x, number(x, 0.0))
    far = _chosen(f, negative, _constants(x, _PI), _constants(x, _NOTHING))
    base = _chosen(f, beyond, far, _constants(x, _HALF_PI))
    t = _negated_if(f, t, f.op("xor", negative, f.not_(beyond)))
    return _extended(f, base, t, square, _ASIN)


def atan_single(f: FunctionWriter, x: Value) -> Value:
    """Beyond 1: atan(x) = pi/2 - atan(1/x)."""
    a = magnitude(f, x)
    far = f.fcmp("ogt", a, number(a, 1.0))
    t = f.select(far, f.fneg(f.reciprocal(a)), a)
    base = _chosen(f, far, _constants(x, _HALF_PI), _constants(x, _NOTHING))
    return with_sign_of(f, _extended(f, base, t, f.op("fmul", t, t), _ATAN), x)


def atan2_single(f: FunctionWriter, y: Value, x: Value) -> Value:
    """The angle of (x, y), from -pi to pi; by the quotient of the smaller side by the larger one."""
    a, b, zero, bits = magnitude(f, y), magnitude(f, x), number(x, 0.0), x.type.as_int
    steep, left = f.fcmp("ogt", a, b), f.icmp("slt", f.bitcast(x, bits), constant(bits, 0))
    small, large = f.select(steep, b, a), f.select(steep, a, b)
    quotient = f.op("fdiv", small, large)
    quotient = f.select(f.fcmp("oeq", large, zero), zero, quotient)
    quotient = f.select(f.fcmp("oeq", small, number(x, float("inf"))), number(x, 1.0), quotient)
    t = _negated_if(f, quotient, f.op("xor", steep, left))
    flat = _chosen(f, left, _constants(x, _PI), _constants(x, _NOTHING))
    base = _chosen(f, steep, _constants(x, _HALF_PI), flat)
    result = with_sign_of(f, _extended(f, base, t, f.op("fmul", t, t), _ATAN), y)
    return f.select(f.fcmp("uno", x, y), number(x, float("nan")), result)
