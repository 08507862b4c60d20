"""asin, acos, atan, atan2 of f64: polynomials on a short range, and identities that lead there.

f32: `inverse_single`.  Bounds: 2 ulp, atan2 3; special values as in C11 F.10.1.  Tests: test_mathlib.py.
"""

from __future__ import annotations

from tilewright.targets.llvm.mathlib.kit import magnitude, number, polynomial, with_sign_of
from tilewright.targets.llvm.text import FunctionWriter
from tilewright.targets.llvm.types import Value, constant

_HALF_PI = (1.5707963267948966, 6.123233995736766e-17)
_QUARTER_PI = (0.7853981633974483, 3.061616997868383e-17)
_PI = (3.141592653589793, 1.2246467991473532e-16)
_TAN_EIGHTH, _TAN_THREE_EIGHTHS = 0.41421356237309503, 2.414213562373095      # of pi

# (asin(s) - s) / s**3 as a function of s**2, for |s| <= 1/2, and the same of atan for |s| <= tan(pi/8).
# tools/fit_math.py, 2026-11-30; lowest power first.
_ASIN = (
    0.1666666666666676, 0.07499999999971048, 0.044642857174297765, 0.030381942724964518, 0.02237221446897879,
    0.017351621680535938, 0.01398070256804337, 0.011399883105498927, 0.010774824438216462, 0.0037267448301756185,
    0.021658578249008832, -0.020930973186465963, 0.032586801610281546,
)
_ATAN = (
    -0.33333333333333187, 0.19999999999951087, -0.1428571427997442, 0.11111110773373047, -0.09090897489469017,
    0.07692055746043196, -0.06663056030878345, 0.058475566267457674, -0.05037869197686522, 0.03802947158611575,
    -0.017870098782875134,
)


def _arc_of_half(f: FunctionWriter, a: Value) -> tuple[Value, Value]:
    """For 0 <= a <= 1: (s, asin(s) - s), s being a up to 1/2 and sqrt((1-a)/2) beyond, so at most 1/2."""
    far = f.op("fmul", f.op("fsub", number(a, 1.0), a), number(a, 0.5))
    beyond = f.fcmp("ogt", a, number(a, 0.5))
    square = f.select(beyond, far, f.op("fmul", a, a))
    root = f.unary_intrinsic("sqrt", far)
    # what the rounding of the root has lost, in first order
    lost = f.op("fdiv", f.fma(f.fneg(root), root, far), f.op("fadd", root, root))
    positive = f.op("and", beyond, f.fcmp("ogt", root, number(a, 0.0)))
    lost = f.select(positive, lost, number(a, 0.0)) if f.isa.fma else number(a, 0.0)
    s = f.select(beyond, root, a)
    return s, f.fma(f.op("fmul", s, square), polynomial(f, square, _ASIN), lost)


def asin(f: FunctionWriter, x: Value) -> Value:
    """Beyond 1/2: asin(x) = pi/2 - 2*asin(sqrt((1-x)/2))."""
    a, two = magnitude(f, x), number(x, 2.0)
    s, rest = _arc_of_half(f, a)
    far = f.op("fsub", number(x, _HALF_PI[1]), f.op("fmul", two, rest))
    far = f.op("fadd", f.op("fsub", number(x, _HALF_PI[0]), f.op("fmul", two, s)), far)
    result = f.select(f.fcmp("ogt", a, number(x, 0.5)), far, f.op("fadd", s, rest))
    return with_sign_of(f, result, x)


def acos(f: FunctionWriter, x: Value) -> Value:
    """pi/2 - asin(x) up to 1/2, 2*asin(sqrt((1-x)/2)) above, pi minus that of -x below."""
    a, two = magnitude(f, x), number(x, 2.0)
    s, rest = _arc_of_half(f, a)
    signed, signed_rest = with_sign_of(f, s, x), f.select(f.fcmp("olt", x, number(x, 0.0)), f.fneg(rest), rest)
    near = f.op("fsub", number(x, _HALF_PI[0]), f.op("fsub", signed, f.op("fsub", number(x, _HALF_PI[1]), signed_rest)))
    above = f.op("fmul", two, f.op("fadd", s, rest))
    below = f.op("fsub", number(x, _PI[1]), f.op("fmul", two, rest))
    below = f.op("fadd", f.op("fsub", number(x, _PI[0]), f.op("fmul", two, s)), below)
    far = f.select(f.fcmp("olt", x, number(x, 0.0)), below, above)
    return f.select(f.fcmp("ogt", a, number(x, 0.5)), far, near)


def atan(f: FunctionWriter, x: Value) -> Value:
    return with_sign_of(f, _atan_positive(f, magnitude(f, x)), x)


def _atan_positive(f: FunctionWriter, a: Value) -> Value:
    """atan(a) for a >= 0: of a, of (a-1)/(a+1) behind pi/4, or of -1/a behind pi/2."""
    one = number(a, 1.0)
    middle, far = f.fcmp("ogt", a, number(a, _TAN_EIGHTH)), f.fcmp("ogt", a, number(a, _TAN_THREE_EIGHTHS))
    top = f.select(far, number(a, -1.0), f.select(middle, f.op("fsub", a, one), a))
    bottom = f.select(far, a, f.select(middle, f.op("fadd", a, one), one))
    u = f.op("fdiv", top, bottom)
    square = f.op("fmul", u, u)
    rest = f.op("fmul", f.op("fmul", u, square), polynomial(f, square, _ATAN))
    base, base_rest = (f.select(far, number(a, h), f.select(middle, number(a, q), number(a, 0.0)))
                       for h, q in zip(_HALF_PI, _QUARTER_PI, strict=True))
    return f.op("fadd", base, f.op("fadd", u, f.op("fadd", rest, base_rest)))


def atan2(f: FunctionWriter, y: Value, x: Value) -> Value:
    """The angle of (x, y), from -pi to pi; by the quotient of the smaller side by the larger one."""
    a, b, zero = magnitude(f, y), magnitude(f, x), number(x, 0.0)
    steep = f.fcmp("ogt", a, b)
    small, large = f.select(steep, b, a), f.select(steep, a, b)
    quotient = f.op("fdiv", small, large)
    quotient = f.select(f.fcmp("oeq", large, zero), zero, quotient)
    quotient = f.select(f.fcmp("oeq", small, number(x, float("inf"))), number(x, 1.0), quotient)
    angle = _atan_positive(f, quotient)
    bits = x.type.as_int
    left = f.icmp("slt", f.bitcast(x, bits), constant(bits, 0))
    base, rest = (f.select(steep, number(x, h), f.select(left, number(x, p), zero))
                  for h, p in zip(_HALF_PI, _PI, strict=True))
    turned = f.op("xor", steep, left)
    angle = f.select(turned, f.fneg(angle), angle)
    moved = f.op("fadd", base, f.op("fadd", angle, rest))
    moved = f.select(f.op("or", steep, left), moved, angle)
    result = with_sign_of(f, moved, y)
    return f.select(f.fcmp("uno", x, y), number(x, float("nan")), result)
