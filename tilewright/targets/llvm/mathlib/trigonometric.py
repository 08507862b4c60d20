"""sin and cos, and tan of f32: subtract the nearest multiple of pi/2, then the polynomial of the quadrant.

f32 with FMA subtracts three float parts of pi/2; without FMA it reduces in f64.  f64 subtracts four parts, of 33
bits each but the last, so that the products are exact, and keeps the remainder as a sum of two numbers.
Beyond 2**20 `large_angles` and `large_angles_single` take over.
Bounds: 2 ulp, tan 4, for all x; sin(-0) = -0; inf and NaN give NaN.  Tests: test_mathlib.py.
"""

from __future__ import annotations

from tilewright.targets.llvm.mathlib.kit import (
    fast_two_sum,
    is_single,
    magnitude,
    nearest,
    number,
    polynomial,
    two_sum,
)
from tilewright.targets.llvm.mathlib.large_angles import with_large
from tilewright.targets.llvm.mathlib.large_angles_single import with_large_single
from tilewright.targets.llvm.text import FunctionWriter
from tilewright.targets.llvm.types import Value, constant

_TWO_OVER_PI = {"float": 0.6366197466850281, "double": 0.6366197723675814}
# pi/2 as a sum: float by float, and in parts of 33 bits with the rest.
_HALF_PI_F32 = (1.5707963705062866, -4.371138828673793e-08, -1.7151245100058819e-15)
_HALF_PI_F64 = (1.5707963267341256, 6.077100506303966e-11, 2.0222662487111665e-21, 8.4784276603689e-32)

# (sin(r) - r) / r**3 and (cos(r) - 1 + r*r/2) / r**4 as functions of r**2, for |r| <= pi/4.
# tools/fit_math.py, 2026-11-30; lowest power first.
_SIN_F32 = (
    -0.16666655242443085, 0.008332190103828907, -0.0001951840822584927,
)
_SIN_F64 = (
    -0.1666666666666663, 0.008333333333321945, -0.00019841269829484602, 2.755731359108751e-06,
    -2.5050743528454354e-08, 1.5896000046150026e-10,
)
_COS_F32 = (
    0.04166664555668831, -0.0013887311797589064, 2.4432742065982893e-05,
)
# (tan(r) - r) / r**3 as a function of r**2, for |r| up to pi/4 and what _TWO_OVER_PI lacks, times 2**20.
# tools/fit_math.py, 2026-12-01; lowest power first.
_TAN_F32 = (
    0.3333337604999542, 0.1333179473876953, 0.05415474623441696, 0.020809629932045937, 0.012018867768347263,
    -0.001359598827548325, 0.005067174322903156,
)
_COS_F64 = (
    0.041666666666666595, -0.0013888888888873433, 2.4801587289088995e-05, -2.7557314246727625e-07,
    2.087570973642429e-09, -1.1358979878585515e-11,
)


def _reduce_single(f: FunctionWriter, a: Value) -> tuple[Value, Value]:
    """(quadrant, remainder) of a float a >= 0."""
    if not f.isa.fma:
        wide = f.cast("fpext", a, a.type.of("double"))
        whole, n = nearest(f, f.op("fmul", wide, number(wide, _TWO_OVER_PI["double"])))
        for part in _HALF_PI_F64[:2]:
            wide = f.op("fsub", wide, f.op("fmul", whole, number(wide, part)))
        return f.cast("trunc", n, a.type.as_int), f.cast("fptrunc", wide, a.type)
    whole, n = nearest(f, a, _TWO_OVER_PI["float"])
    for part in _HALF_PI_F32:
        a = f.fma(whole, number(a, -part), a)
    return n, a


def _reduce_double(f: FunctionWriter, a: Value) -> tuple[Value, Value, Value]:
    """(quadrant, remainder, its tail) of a double a >= 0."""
    whole, n = nearest(f, f.op("fmul", a, number(a, _TWO_OVER_PI["double"])))
    first, second, third, last = (f.op("fmul", whole, number(a, -part)) for part in _HALF_PI_F64)
    total, error = two_sum(f, f.op("fadd", a, first), second)
    total, more = two_sum(f, total, third)
    tail = f.op("fadd", f.op("fadd", error, more), last)
    r, tail = fast_two_sum(f, total, tail)
    return n, r, tail


def _reduced(f: FunctionWriter, a: Value) -> tuple[Value, ...]:
    """(quadrant, remainder[, its tail]) of a >= 0."""
    if not is_single(a):
        return with_large(f, a, _reduce_double(f, a))
    return (with_large_single if f.isa.fma else with_large)(f, a, _reduce_single(f, a))


def _kernels(f: FunctionWriter, r: Value, tail: Value | None) -> tuple[Value, Value]:
    """(sin, cos) of r + tail."""
    z = f.op("fmul", r, r)
    half = f.op("fmul", z, number(r, 0.5))
    one = number(r, 1.0)
    rough_cos = f.op("fsub", one, half)
    s = f.op("fmul", f.op("fmul", r, z), polynomial(f, z, _SIN_F32 if is_single(r) else _SIN_F64))
    c = f.op("fmul", f.op("fmul", z, z), polynomial(f, z, _COS_F32 if is_single(r) else _COS_F64))
    if tail is not None:
        s = f.op("fadd", s, f.op("fmul", tail, rough_cos))
        lost = f.op("fsub", f.op("fsub", one, rough_cos), half)
        c = f.op("fadd", lost, f.op("fsub", c, f.op("fmul", r, tail)))
    return f.op("fadd", r, s), f.op("fadd", rough_cos, c)


def _sin_cos(f: FunctionWriter, x: Value, turn: int) -> Value:
    """sin(|x| + turn * pi/2), with no sign of x."""
    a = magnitude(f, x)
    n, r, *tail = _reduced(f, a)
    sine, cosine = _kernels(f, r, tail[0] if tail else None)
    integer = x.type.as_int
    quadrant = f.op("add", n, constant(integer, turn)) if turn else n
    odd = f.icmp("ne", f.op("and", quadrant, constant(integer, 1)), constant(integer, 0))
    value = f.select(odd, cosine, sine)
    flip = f.op("shl", f.op("and", quadrant, constant(integer, 2)), constant(integer, integer.bits - 2))
    return f.bitcast(f.op("xor", f.bitcast(value, integer), flip), x.type)


def tan_single(f: FunctionWriter, x: Value) -> Value:
    """tan(r), or -1 / tan(r) an odd number of quarter turns further, of f32; 4 ulp."""
    a, bits = magnitude(f, x), x.type.as_int
    n, r = _reduced(f, a)
    z = f.op("fmul", r, r)
    t = f.fma(f.op("fmul", r, z), polynomial(f, z, _TAN_F32), r)
    odd = f.icmp("ne", f.op("and", n, constant(bits, 1)), constant(bits, 0))
    value = f.select(odd, f.quotient(number(t, -1.0), t), t)
    sign = f.op("and", f.bitcast(x, bits), constant(bits, 1 << (bits.bits - 1)))
    return f.bitcast(f.op("xor", f.bitcast(value, bits), sign), x.type)


def sin(f: FunctionWriter, x: Value) -> Value:
    integer = x.type.as_int
    sign = f.op("and", f.bitcast(x, integer), constant(integer, 1 << (integer.bits - 1)))
    value = f.bitcast(_sin_cos(f, x, 0), integer)
    return f.bitcast(f.op("xor", value, sign), x.type)


def cos(f: FunctionWriter, x: Value) -> Value:
    return _sin_cos(f, x, 1)
