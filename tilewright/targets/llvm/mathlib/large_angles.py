"""Reducing large angles by pi/2: x * 2/pi modulo 4 in integers, with as many digits of 2/pi as the exponent asks for.

For |x| >= 2**20 the product's integer part would eat a float's digits.  Only 192 bits of 2/pi matter for one x: bits
of weight 8 and more times an integer are whole turns, bits below are beyond the result (Payne and Hanek, SIGNUM
1983).  One function of the module does it for a double; it is written on first use and called lane by lane, behind a
branch that almost no vector takes.  Tests: tests/targets/llvm/test_mathlib.py.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from tilewright.targets.llvm.text import FunctionWriter, ModuleWriter
from tilewright.targets.llvm.types import DOUBLE, I64, PTR, Type, Value, constant

LIMIT = 2.0**20
_FUNCTION = "tilewright.reduce_angle"
_TABLE = "@tilewright.two_over_pi"
_RESULT = Type("{ i64, double, double }")
_WIDE = Type("i128")
# Where the window starts: a double's stored exponent s makes x = m * 2**(s - 1075), the first bit that matters has
# weight 2**1 after scaling, and the table has 64 zero bits before the point.
_POSITION = -1075 - 2 + 64
# pi/2 in units of 2**-63
_HALF_PI = 0xc90fdaa22168c235

# 1280 bits of 2/pi after the point (mpmath, 2026-11-30), behind 64 zero bits.
_TWO_OVER_PI = (
    0x0000000000000000, 0xA2F9836E4E441529, 0xFC2757D1F534DDC0, 0xDB6295993C439041, 0xFE5163ABDEBBC561,
    0xB7246E3A424DD2E0, 0x06492EEA09D1921C, 0xFE1DEB1CB129A73E, 0xE88235F52EBB4484, 0xE99C7026B45F7E41,
    0x3991D639835339F4, 0x9C845F8BBDF9283B, 0x1FF897FFDE05980F, 0xEF2F118B5A0A6D1F, 0x6D367ECF27CB09B7,
    0x4F463F669E5FEA2D, 0x7527BAC7EBE5F17B, 0x3D0739F78A5292EA, 0x6BFB5FB11F8D5D08, 0x56033046FC7B6BAB,
    0xF0CFBC209AF4361D,
)


def with_large(f: FunctionWriter, a: Value, near: Sequence[Value]) -> tuple[Value, ...]:
    """`near` = (quadrant, remainder[, tail]) of the angles a >= 0, replaced in the lanes above `LIMIT`."""
    finite = f.fcmp("olt", a, constant(a.type, float("inf")))
    large = f.op("and", f.fcmp("ogt", a, constant(a.type, LIMIT)), finite)
    if not a.type.lanes:
        return f.branch(large, lambda: _reduce(f, a, near), lambda: near)
    return f.branch(f.any_lane(large), lambda: _by_lane(f, a, large, near), lambda: near)


def _by_lane(f: FunctionWriter, a: Value, large: Value, near: Sequence[Value]) -> tuple[Value, ...]:
    lanes = a.type.lanes
    marks = f.cast("zext", large, large.type.of("i8"))
    slots = [f.alloca(v.type) for v in (a, marks, *near)]
    for value, slot in zip((a, marks, *near), slots):
        f.store(value, slot, 64)
    kinds = [v.type.scalar for v in (a, marks, *near)]

    def lane(i: Value, _: tuple[Value, ...]) -> tuple[Value, ...]:
        places = [f.gep(slot, i, kind) for slot, kind in zip(slots, kinds)]
        sizes = [kind.bits // 8 for kind in kinds]
        mark = f.load(places[1], kinds[1], 1)

        def replace() -> tuple[Value, ...]:
            found = _reduce(f, f.load(places[0], kinds[0], sizes[0]), [Value(k, "") for k in kinds[2:]])
            for value, place, size in zip(found, places[2:], sizes[2:]):
                f.store(value, place, size)
            return ()

        f.branch(f.icmp("ne", mark, constant(mark.type, 0)), replace)
        return ()

    f.loop(constant(I64, 0), constant(I64, lanes), constant(I64, 1), lane)
    return tuple(f.load(slot, v.type, 64) for slot, v in zip(slots[2:], near))


def _reduce(f: FunctionWriter, a: Value, like: Sequence[Value]) -> tuple[Value, ...]:
    """(quadrant, remainder[, tail]) of one large angle, in the types of `like`."""
    if not f.module.has_function(_FUNCTION):
        _write_function(f.module)
    both = f.call(_FUNCTION, _RESULT, (f.cast("fpext", a, DOUBLE),))
    parts = [f.emit(t, f"extractvalue {both}, {k}") for k, t in enumerate((I64, DOUBLE, DOUBLE))]
    casts = ("trunc", "fptrunc", "fptrunc")
    return tuple(f.cast(cast, part, v.type) for cast, part, v in zip(casts, parts, like))


def _write_function(module: ModuleWriter) -> None:
    words = ", ".join(str(constant(I64, w)) for w in _TWO_OVER_PI)
    module.add_global(f"{_TABLE} = internal constant [{len(_TWO_OVER_PI)} x i64] [{words}], align 64")
    f = module.function(_FUNCTION, [("x", DOUBLE)], _RESULT, linkage="internal", attributes="noinline cold nounwind")
    bits = f.bitcast(f.params[0], I64)
    significand = f.op("or", f.op("and", bits, constant(I64, (1 << 52) - 1)), constant(I64, 1 << 52))
    quadrant, fraction = _turns(f, significand, f.op("lshr", bits, constant(I64, 52)))
    negative = f.icmp("slt", fraction, constant(_WIDE, 0))
    magnitude = f.select(negative, f.op("sub", constant(_WIDE, 0), fraction), fraction)
    high, low = _radians(f, magnitude)
    result = Value(_RESULT, "poison")
    values = (f.op("add", quadrant, f.cast("zext", negative, I64)), f.select(negative, f.fneg(high), high),
              f.select(negative, f.fneg(low), low))
    for k, value in enumerate(values):
        result = f.emit(_RESULT, f"insertvalue {result}, {value}, {k}")
    f.ret(result)


def _turns(f: FunctionWriter, significand: Value, exponent: Value) -> tuple[Value, Value]:
    """(quarter turns below, the rest of a quarter turn as a signed i128 fraction of 2**128)."""
    position = f.op("add", exponent, constant(I64, _POSITION))
    table = f.gep(Value(PTR, _TABLE), f.op("lshr", position, constant(I64, 6)), I64)
    shift = f.op("and", position, constant(I64, 63))
    words = [f.load(f.gep(table, k, I64), I64, 8) for k in range(4)]
    first, second, third = (f.intrinsic("fshl", I64, (a, b, shift), (I64,)) for a, b in itertools.pairwise(words))
    m = f.cast("zext", significand, _WIDE)
    middle = f.op("mul", m, f.cast("zext", second, _WIDE))
    last = f.op("mul", m, f.cast("zext", third, _WIDE))
    sixty_four = constant(_WIDE, 64)
    low = f.op("add", f.op("shl", middle, sixty_four), last)
    carry = f.cast("zext", f.icmp("ult", low, last), I64)
    top = f.op("add", f.op("mul", significand, first), f.cast("trunc", f.op("lshr", middle, sixty_four), I64))
    top = f.op("add", top, carry)
    fraction = f.op("or", f.op("shl", f.cast("zext", top, _WIDE), constant(_WIDE, 66)),
                    f.op("lshr", low, constant(_WIDE, 62)))
    return f.op("lshr", top, constant(I64, 62)), fraction


def _radians(f: FunctionWriter, magnitude: Value) -> tuple[Value, Value]:
    """magnitude / 2**128 * pi/2 as a sum of two doubles, the first with 53 bits."""
    zeros = f.intrinsic("ctlz", _WIDE, (magnitude, constant(Type("i1"), 0)), (_WIDE,))
    leading = f.cast("trunc", f.op("lshr", f.op("shl", magnitude, zeros), constant(_WIDE, 64)), I64)
    product = f.op("mul", f.cast("zext", leading, _WIDE), constant(_WIDE, _HALF_PI))
    top = f.cast("trunc", f.op("lshr", product, constant(_WIDE, 64)), I64)
    rest = f.op("or", f.op("shl", top, constant(I64, 53)),
                f.op("lshr", f.cast("trunc", product, I64), constant(I64, 11)))
    scale = f.cast("trunc", zeros, I64)

    def scaled(value: Value, exponent: int) -> Value:
        biased = f.op("sub", constant(I64, 1023 + exponent), scale)
        power = f.bitcast(f.op("shl", biased, constant(I64, 52)), DOUBLE)
        return f.op("fmul", f.cast("uitofp", value, DOUBLE), power)

    return scaled(f.op("and", top, constant(I64, -0x800)), -63), scaled(rest, -116)
