"""The exact remainder of a float division (C's fmod), without a library.

f32 (and what is held as float) is reduced in doubles, whole vectors at a time: each step takes away a multiple of y
that leaves at least 24 bits less, and every product and difference in it is exact.  f64 divides integers, one element
at a time, in a function of the module that is written on first use.
Special values: NaN for a NaN, an infinite x or y = 0; x itself for an infinite y; a zero has the sign of x.
Tests: tests/targets/llvm/test_floatrem.py.
"""

from __future__ import annotations

from tilewright.targets.llvm.mathlib import truncate
from tilewright.targets.llvm.text import FunctionWriter, ModuleWriter
from tilewright.targets.llvm.types import DOUBLE, I1, I64, Value, constant, poison

_DOUBLE_FUNCTION = "tilewright.fmod"
_INFINITY = 0x7FF << 52
_MANTISSA = (1 << 52) - 1


def rem_f(f: FunctionWriter, x: Value, y: Value) -> Value:
    """x - trunc(x/y)*y exactly, on floats or doubles.  Starts new blocks."""
    return _single(f, x, y) if x.type.element == "float" else _double(f, x, y)


def _single(f: FunctionWriter, x: Value, y: Value) -> Value:
    single, double = x.type, x.type.of("double")
    infinity, nothing = constant(single, float("inf")), constant(single, 0.0)
    a, b = f.unary_intrinsic("fabs", x), f.unary_intrinsic("fabs", y)
    whole_x = f.fcmp("oeq", b, infinity)
    invalid = f.op("or", f.fcmp("ueq", b, nothing), f.fcmp("ueq", a, infinity))
    skip = f.op("or", whole_x, invalid)
    dividend = f.cast("fpext", f.select(skip, nothing, a), double)
    divisor = f.cast("fpext", f.select(skip, constant(single, 1.0), b), double)
    (rest,) = f.while_loop(
        (dividend,), lambda v: f.any_lane(f.fcmp("oge", v[0], divisor)), lambda v: (_reduce(f, v[0], divisor),))
    result = f.binary_intrinsic("copysign", f.cast("fptrunc", rest, single), x)
    result = f.select(whole_x, x, result)
    return f.select(invalid, constant(single, float("nan")), result)


def _reduce(f: FunctionWriter, a: Value, b: Value) -> Value:
    """a minus the largest multiple of b * 2**k, where k brings the quotient below 2**26."""
    integer = a.type.as_int
    shift = constant(integer, 52)
    bits = f.bitcast(b, integer)
    distance = f.op("sub", f.op("lshr", f.bitcast(a, integer), shift), f.op("lshr", bits, shift))
    k = f.binary_intrinsic("smax", f.op("sub", distance, constant(integer, 24)), constant(integer, 0))
    step = f.bitcast(f.op("add", bits, f.op("shl", k, shift)), a.type)
    quotient = truncate(f, f.op("fdiv", a, step))
    return f.op("fsub", a, f.op("fmul", quotient, step))


def _double(f: FunctionWriter, x: Value, y: Value) -> Value:
    if not f.module.has_function(_DOUBLE_FUNCTION):
        _write_double_function(f.module)
    if not x.type.lanes:
        return f.call(_DOUBLE_FUNCTION, DOUBLE, (x, y))
    result = poison(x.type)
    for lane in range(x.type.lanes):
        one = f.call(_DOUBLE_FUNCTION, DOUBLE, (f.extract(x, lane), f.extract(y, lane)))
        result = f.insert(result, one, lane)
    return result


def _write_double_function(module: ModuleWriter) -> None:
    f = module.function(_DOUBLE_FUNCTION, [("x", DOUBLE), ("y", DOUBLE)], DOUBLE, linkage="internal",
                        attributes="noinline nounwind")
    x, y = f.params
    magnitude_mask = constant(I64, (1 << 63) - 1)
    xb, yb = f.bitcast(x, I64), f.bitcast(y, I64)
    a, b = f.op("and", xb, magnitude_mask), f.op("and", yb, magnitude_mask)
    sign = f.op("and", xb, constant(I64, 1 << 63))
    invalid = f.op("or", f.op("or", f.icmp("eq", b, constant(I64, 0)), f.icmp("uge", a, constant(I64, _INFINITY))),
                   f.icmp("ugt", b, constant(I64, _INFINITY)))
    bad, good, small, large = (f.label(h) for h in ("invalid", "valid", "small", "large"))
    f.cond_br(invalid, bad, good)
    f.place(bad)
    f.ret(constant(DOUBLE, float("nan")))
    f.place(good)
    f.cond_br(f.icmp("ult", a, b), small, large)
    f.place(small)
    f.ret(x)
    f.place(large)
    mx, ex = _unpack(f, a)
    my, ey = _unpack(f, b)
    first = f.op("urem", mx, my)

    def step(state: tuple[Value, ...]) -> tuple[Value, Value]:
        rest, distance = state
        some = f.binary_intrinsic("smin", distance, constant(I64, 11))     # 53 + 11 bits fill the word
        return f.op("urem", f.op("shl", rest, some), my), f.op("sub", distance, some)

    rest, _ = f.while_loop((first, f.op("sub", ex, ey)), lambda v: f.icmp("sgt", v[1], constant(I64, 0)), step)
    f.ret(f.bitcast(f.op("or", _pack(f, rest, ey), sign), DOUBLE))


def _unpack(f: FunctionWriter, magnitude: Value) -> tuple[Value, Value]:
    """(53-bit significand, biased exponent) of a number > 0; a denormal's exponent is below 1."""
    stored = f.op("lshr", magnitude, constant(I64, 52))
    denormal = f.icmp("eq", stored, constant(I64, 0))
    zeros = f.intrinsic("ctlz", I64, (magnitude, constant(I1, 0)), (I64,))
    shift = f.op("sub", zeros, constant(I64, 11))
    safe = f.select(denormal, shift, constant(I64, 0))
    normal = f.op("or", f.op("and", magnitude, constant(I64, _MANTISSA)), constant(I64, 1 << 52))
    significand = f.select(denormal, f.op("shl", magnitude, safe), normal)
    return significand, f.select(denormal, f.op("sub", constant(I64, 1), safe), stored)


def _pack(f: FunctionWriter, significand: Value, exponent: Value) -> Value:
    """The bits of significand * 2**(exponent - 1075), a significand below 2**53, exact by construction."""
    zeros = f.intrinsic("ctlz", I64, (significand, constant(I1, 0)), (I64,))
    shift = f.binary_intrinsic("smin", f.op("sub", zeros, constant(I64, 11)), constant(I64, 52))
    normalised = f.op("shl", significand, shift)
    e = f.op("sub", exponent, shift)
    down = f.binary_intrinsic("smax", f.op("sub", constant(I64, 1), e), constant(I64, 0))
    denormal = f.op("lshr", normalised, f.binary_intrinsic("smin", down, constant(I64, 63)))
    normal = f.op("or", f.op("and", normalised, constant(I64, _MANTISSA)), f.op("shl", e, constant(I64, 52)))
    packed = f.select(f.icmp("sgt", e, constant(I64, 0)), normal, denormal)
    return f.select(f.icmp("eq", significand, constant(I64, 0)), constant(I64, 0), packed)
