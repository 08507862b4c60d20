"""C's fmod of f32 on a GPU: one exact product where the quotient is below 2**20, which nearly all are.

    q = round(|x| * rcp(|y|)),  r = fma(-q, |y|, |x|),  r + |y| if that is negative,  with the sign of x

rcp.approx is right to 1 ulp, so q errs from |x| / |y| by less than 1/2 + 1/8, and is its whole part or one more.  Then
|r| <= |y|, and r is a multiple of the last place of both numbers: a float, which the fma gives exactly; so is r + |y|.
A larger quotient, a divisor without a normal reciprocal, and what is no number take a long division of significands,
eight bits at a time, if any element of a thread does: one branch for all.  (The doubles in which other machines divide,
`llvm.floatrem`, take 57 registers, and all threads have to have them.)
Before: registers of an elementwise op.  After: their remainders.  Tests: tests/targets/nvidia/test_remainder.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

from tilewright.targets.llvm.types import FLOAT, I1, I32, Value, constant
from tilewright.targets.nvidia.emit.code import Code

_COUNTER = 1.5 * 2.0**23        # behind it a float counts by ones
_MOST = 2.0**20                 # of a quotient
_DIGITS, _FRACTION = 24, 23     # bits of a significand, and of what is stored of it
_AT_ONCE = 8                    # 24 + 8 bits fill a word
_INFINITY = 0x7F800000
_NAN = 0x7FC00000

Pair = tuple[Value, Value]


def remainders(code: Code, pairs: Sequence[Pair]) -> Sequence[Value]:
    """fmod of pairs of floats.  Starts new blocks."""
    made = [_near(code, x, y) for x, y in pairs]
    usual = reduce(lambda a, b: code.op("and", a, b), (flag for _, flag in made))
    return code.branch(usual, lambda: [value for value, _ in made],
                       lambda: [_far(code, x, y) for x, y in pairs])


def _near(code: Code, x: Value, y: Value) -> Pair:
    """The remainder, and whether it is one."""
    a, b = (code.unary_intrinsic("fabs", v) for v in (x, y))
    counter = constant(FLOAT, _COUNTER)
    counted = code.fma(a, code.reciprocal(b), counter)
    usual = code.fcmp("ole", counted, constant(FLOAT, _COUNTER + _MOST))
    for how, limit in (("oge", 2.0**-126), ("ole", 2.0**126)):
        usual = code.op("and", usual, code.fcmp(how, b, constant(FLOAT, limit)))
    rest = code.fma(code.fneg(code.op("fsub", counted, counter)), b, a)
    rest = code.select(code.fcmp("olt", rest, constant(FLOAT, 0.0)), code.op("fadd", rest, b), rest)
    return code.binary_intrinsic("copysign", rest, x), usual


def _number(value: int) -> Value:
    return constant(I32, value)


def _far(code: Code, x: Value, y: Value) -> Value:
    """The remainder of any floats: NaN of an infinite x and of y = 0, x of an infinite y."""
    bits = code.bitcast(x, I32)
    a, b = (code.op("and", code.bitcast(v, I32), _number(0x7FFFFFFF)) for v in (x, y))
    invalid = code.op("or", code.icmp("uge", a, _number(_INFINITY)), code.icmp("ugt", b, _number(_INFINITY)))
    invalid = code.op("or", invalid, code.icmp("eq", b, _number(0)))
    least = code.icmp("ult", a, b)
    unusual = code.op("or", invalid, least)
    a, b = (code.select(unusual, _number(_INFINITY - 1), v) for v in (a, b))      # a loop of no turns
    (mine, high), (by, low) = _unpacked(code, a), _unpacked(code, b)

    def step(state: tuple[Value, ...]) -> tuple[Value, ...]:
        rest, distance = state
        some = code.binary_intrinsic("smin", distance, _number(_AT_ONCE))
        return _rest(code, code.op("shl", rest, some), by), code.op("sub", distance, some)

    rest, _ = code.while_loop((_rest(code, mine, by), code.op("sub", high, low)),
                              lambda state: code.icmp("sgt", state[1], _number(0)), step)
    sign = code.op("and", bits, _number(-(1 << 31)))
    result = code.select(least, bits, code.op("or", _packed(code, rest, low), sign))
    return code.bitcast(code.select(invalid, _number(_NAN), result), FLOAT)


def _rest(code: Code, a: Value, b: Value) -> Value:
    (quotient,) = code.machine("div.u32", [I32], [a, b])
    return code.op("sub", a, code.op("mul", quotient, b))


def _shift_to_top(code: Code, significand: Value) -> Value:
    """By how much to shift for 24 digits."""
    zeros = code.intrinsic("ctlz", I32, (significand, constant(I1, 0)), (I32,))
    return code.op("sub", zeros, _number(32 - _DIGITS))


def _unpacked(code: Code, magnitude: Value) -> Pair:
    """Significand of 24 digits and exponent of a number > 0; a subnormal's exponent is below 1."""
    stored = code.op("lshr", magnitude, _number(_FRACTION))
    subnormal, shift = code.icmp("eq", stored, _number(0)), _shift_to_top(code, magnitude)
    fraction = code.op("or", code.op("and", magnitude, _number((1 << _FRACTION) - 1)), _number(1 << _FRACTION))
    safe = code.select(subnormal, shift, _number(0))
    return (code.select(subnormal, code.op("shl", magnitude, safe), fraction),
            code.select(subnormal, code.op("sub", _number(1), shift), stored))


def _packed(code: Code, significand: Value, exponent: Value) -> Value:
    """The bits of significand * 2**(exponent - 150), which is below 2**24 of them and exact."""
    shift = code.binary_intrinsic("smin", _shift_to_top(code, significand), _number(_FRACTION))
    top, place = code.op("shl", significand, shift), code.op("sub", exponent, shift)
    down = code.binary_intrinsic("smax", code.op("sub", _number(1), place), _number(0))
    subnormal = code.op("lshr", top, code.binary_intrinsic("smin", down, _number(31)))
    normal = code.op("or", code.op("and", top, _number((1 << _FRACTION) - 1)),
                     code.op("shl", place, _number(_FRACTION)))
    packed = code.select(code.icmp("sgt", place, _number(0)), normal, subnormal)
    return code.select(code.icmp("eq", significand, _number(0)), _number(0), packed)
