"""Reducing large angles of f32 by pi/2 in integers of 32 bits: x * 2/pi modulo 4, of scalars and vectors alike.

x = m * 2**s with m of 24 bits.  96 bits of 2/pi matter for one x: those of weight 2**(2-s) and more make whole turns,
those below 2**(-94-s) are beyond the result (Payne and Hanek, SIGNUM 1983).  The words that hold them are chosen by the
exponent; the 62 bits behind the quarter turns become a sum of floats, whose parts are exact.  All of it stands behind a
branch that almost nobody takes.  f64, and f32 without FMA: `large_angles`.  Tests: test_mathlib.py.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from tilewright.targets.llvm.mathlib.kit import fast_two_sum, number
from tilewright.targets.llvm.text import FunctionWriter
from tilewright.targets.llvm.types import Value, constant

LIMIT = 2.0**20

# 224 bits of 2/pi after the point, behind 32 zero bits (tools/fit_math.py, two_over_pi).
_WORDS = (0x00000000, 0xA2F9836E, 0x4E441529, 0xFC2757D1, 0xF534DDC0, 0xDB629599, 0x3C439041, 0xFE5163AB)
_PARTS = 4                              # words that 96 bits may lie in
_FIRST = 120                            # the stored exponent whose bits would begin with the first word
# pi/2 * 2**-64 as a sum (tools/fit_math.py, half_pi)
_UNIT = (1.5707963705062866 * 2.0**-64, -4.371138828673793e-08 * 2.0**-64)


def with_large_single(f: FunctionWriter, a: Value, near: Sequence[Value]) -> tuple[Value, ...]:
    """`near` = (quadrant, remainder) of the angles a >= 0, replaced where they are above `LIMIT`."""
    finite = f.fcmp("olt", a, number(a, float("inf")))
    large = f.op("and", f.fcmp("ogt", a, number(a, LIMIT)), finite)

    def far() -> tuple[Value, ...]:
        return tuple(f.select(large, new, old) for new, old in zip(_reduced(f, a), near, strict=True))

    return f.branch(f.any_lane(large), far, lambda: near)


def _reduced(f: FunctionWriter, a: Value) -> tuple[Value, Value]:
    """(quadrant, remainder) of finite a > LIMIT; other lanes give anything."""
    bits = f.bitcast(a, a.type.as_int)
    high, middle, low = _turns(f, bits, _window(f, bits))
    quadrant = _shifted(f, "lshr", high, 30)
    # the fraction of a quarter turn, at its top a signed number: beyond a half it counts back from the next
    top = f.op("or", _shifted(f, "shl", high, 2), _shifted(f, "lshr", middle, 30))
    rest = f.op("or", _shifted(f, "shl", middle, 2), _shifted(f, "lshr", low, 30))
    return f.op("add", quadrant, _shifted(f, "lshr", top, 31)), _radians(f, a, top, rest)


def _shifted(f: FunctionWriter, how: str, x: Value, by: int) -> Value:
    return f.op(how, x, constant(x.type, by))


def _window(f: FunctionWriter, bits: Value) -> list[Value]:
    """The 96 bits of 2/pi whose first has weight 2**(1-s), in words."""
    position = f.op("sub", _shifted(f, "lshr", bits, 23), constant(bits.type, _FIRST))
    word, shift = _shifted(f, "lshr", position, 5), f.op("and", position, constant(bits.type, 31))
    last = len(_WORDS) - _PARTS
    is_word = [f.icmp("eq", word, constant(bits.type, k)) for k in range(last)]
    words = []
    for part in range(_PARTS):
        found = constant(bits.type, _WORDS[last + part])
        for k in reversed(range(last)):
            found = f.select(is_word[k], constant(bits.type, _WORDS[k + part]), found)
        words.append(found)
    left = f.op("xor", shift, constant(bits.type, 31))
    return [f.op("or", f.op("shl", a, shift), f.op("lshr", _shifted(f, "lshr", b, 1), left))
            for a, b in itertools.pairwise(words)]


def _turns(f: FunctionWriter, bits: Value, window: Sequence[Value]) -> tuple[Value, ...]:
    """m times the window modulo 2**96, in words, the highest first: two bits of quarter turns and their fraction."""
    narrow, wide = bits.type, bits.type.of("i64")
    m = f.op("or", f.op("and", bits, constant(narrow, 0x7FFFFF)), constant(narrow, 0x800000))
    m_wide = f.cast("zext", m, wide)
    low = f.op("mul", m_wide, f.cast("zext", window[2], wide))
    middle = f.op("mul", m_wide, f.cast("zext", window[1], wide))
    middle = f.op("add", middle, _shifted(f, "lshr", low, 32))
    carry = f.cast("trunc", _shifted(f, "lshr", middle, 32), narrow)
    high = f.op("add", f.op("mul", m, window[0]), carry)
    return high, f.cast("trunc", middle, narrow), f.cast("trunc", low, narrow)


def _radians(f: FunctionWriter, like: Value, top: Value, rest: Value) -> Value:
    """The signed number of 64 bits (top, rest) times pi/2 * 2**-64: as floats of 24, 24 and 16 bits, each exact."""
    mask = constant(top.type, 0xFFFFFF)
    middle = f.op("and", f.op("or", _shifted(f, "shl", top, 16), _shifted(f, "lshr", rest, 16)), mask)
    low = f.op("and", rest, constant(top.type, 0xFFFF))
    pieces = ((_shifted(f, "ashr", top, 8), 2.0**40), (middle, 2.0**16), (low, 1.0))
    first, second, third = (f.op("fmul", f.cast("sitofp", piece, like.type), number(like, weight))
                            for piece, weight in pieces)
    total, error = fast_two_sum(f, first, second)
    small = f.op("fmul", f.op("fadd", error, third), number(like, _UNIT[0]))
    return f.fma(total, number(like, _UNIT[0]), f.fma(total, number(like, _UNIT[1]), small))
