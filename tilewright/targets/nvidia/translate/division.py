"""Quotients and remainders of integers by constants, which ptxas leaves to a division by floats.

A product with a multiplier of as many bits as the number, its upper half, and shifts (Granlund and Montgomery, Division
by invariant integers using multiplication, 1994; theorems 4.2 and 5.2).  Powers of two are shifts.
"""

from __future__ import annotations

from collections.abc import Sequence

from tilewright.targets.nvidia.translate.body import BITS, PREFIXES, Body, Operand, UntranslatableError, signed
from tilewright.targets.nvidia.translate.integers import (
    add,
    and_,
    exact,
    multiply,
    shift_right,
    shift_right_signed,
    subtract,
)

DIVISIONS = ("sdiv", "udiv", "srem", "urem")


def divide(body: Body, words: Sequence[str]) -> Operand:
    """`%v = sdiv i32 %a, %b`, given as words."""
    t, kind, what = words[-3], words[2][0], words[2][1:]
    if t not in ("i8", "i16", "i32", "i64"):
        raise UntranslatableError(" ".join(words))
    a, b = exact(body, t, body.get(words[-2][:-1], t), kind), exact(body, t, body.get(words[-1], t), kind)
    if type(b) is int and b:
        if type(a) is int:
            return _folded(a, b, BITS[t], kind, what)
        if BITS[t] >= 32:
            return by_constant(body, t, what, kind, a, b)
    return body.pure(PREFIXES[t], f"{what}.{kind}{max(16, BITS[t])}", a, b)


def _folded(a: int, b: int, bits: int, kind: str, what: str) -> int:
    if kind == "u":
        a, b = a & (1 << bits) - 1, b & (1 << bits) - 1
    quotient = abs(a) // abs(b) * (-1 if (a < 0) != (b < 0) else 1)
    return signed(quotient if what == "div" else a - quotient * b, bits)


def by_constant(body: Body, t: str, what: str, kind: str, a: str, b: int) -> Operand:
    """`a` by the constant `b`, not 0: `what` is "div" or "rem", `kind` "s" or "u"; `t` is i32 or i64."""
    bits = BITS[t]
    if kind == "u":
        b &= (1 << bits) - 1
    if kind == "u" or (b > 0 and body.most(a, bits) < 1 << bits - 1):
        if b & b - 1 == 0:
            if what == "div":
                return shift_right(body, t, a, b.bit_length() - 1)
            return and_(body, t, a, signed(b - 1, bits))
        quotient = _unsigned(body, t, a, b)
    else:
        size = abs(b)
        if size & size - 1 == 0:
            return _power(body, t, what, a, b)
        quotient = _signed(body, t, a, size)
        if b < 0:
            quotient = subtract(body, t, 0, quotient)
    if what == "div":
        return quotient
    return subtract(body, t, a, multiply(body, t, quotient, signed(b, bits)))


def _high(body: Body, t: str, kind: str, a: str, number: int) -> str:
    bits = BITS[t]
    return body.pure(PREFIXES[t], f"mul.hi.{kind}{bits}", a, signed(number, bits))


def _unsigned(body: Body, t: str, a: str, b: int) -> Operand:
    bits, digits = BITS[t], (b - 1).bit_length()
    if body.most(a, bits) < 1 << bits - 1:      # one bit to spare
        multiplier = -(-(1 << bits + digits - 1) // b)
        return shift_right(body, t, _high(body, t, "u", a, multiplier), digits - 1)
    multiplier = ((1 << bits) * ((1 << digits) - b)) // b + 1
    high = _high(body, t, "u", a, multiplier)
    half = shift_right(body, t, subtract(body, t, a, high), 1)
    return shift_right(body, t, add(body, t, high, half), digits - 1)


def _signed(body: Body, t: str, a: str, b: int) -> Operand:
    """By a positive number, rounded to zero."""
    bits, shift = BITS[t], (b - 1).bit_length() - 1
    multiplier = (1 << bits + shift) // b + 1
    quotient: Operand = _high(body, t, "s", a, multiplier)
    if multiplier >= 1 << bits - 1:     # which the product took for negative
        quotient = add(body, t, quotient, a)
    quotient = shift_right_signed(body, t, quotient, shift)
    return subtract(body, t, quotient, shift_right_signed(body, t, a, bits - 1))


def _power(body: Body, t: str, what: str, a: str, b: int) -> Operand:
    """A signed number by a power of two, or the opposite of one: rounded to zero."""
    size, bits = abs(b), BITS[t]
    if size == 1:
        return 0 if what == "rem" else a if b > 0 else subtract(body, t, 0, a)
    power = size.bit_length() - 1
    sign = shift_right_signed(body, t, a, bits - 1)
    moved = add(body, t, a, shift_right(body, t, sign, bits - power))
    if what == "div":
        quotient = shift_right_signed(body, t, moved, power)
        return quotient if b > 0 else subtract(body, t, 0, quotient)
    rest = subtract(body, t, a, and_(body, t, moved, -size))
    if type(rest) is str:
        body.remainders[rest] = a, size
    return rest
