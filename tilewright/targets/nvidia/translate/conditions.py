"""Comparisons of integers, choices, and the lesser and the greater of two."""

from __future__ import annotations

from collections.abc import Sequence

from tilewright.targets.nvidia.translate.body import (
    BITS,
    PREFIXES,
    SIZES,
    WIDTHS,
    Body,
    Operand,
    UntranslatableError,
    signed,
)
from tilewright.targets.nvidia.translate.integers import and_, either, exact, not_, or_, set_flag, xor

_MIRROR = {"eq": "eq", "ne": "ne", "lt": "gt", "gt": "lt", "le": "ge", "ge": "le"}
_TESTS = {"eq": lambda a, b: a == b, "ne": lambda a, b: a != b, "lt": lambda a, b: a < b, "le": lambda a, b: a <= b,
          "gt": lambda a, b: a > b, "ge": lambda a, b: a >= b}


def compare(body: Body, words: Sequence[str]) -> Operand:
    """`%v = icmp slt i32 %a, %b`, given as words."""
    t, predicate = words[-3], words[3]
    if t not in PREFIXES:
        raise UntranslatableError(" ".join(words))
    a, b = body.get(words[-2][:-1], t), body.get(words[-1], t)
    if t == "i1":
        return _compare_flags(body, predicate, a, b)
    kind, how = (predicate[0], predicate[1:]) if predicate not in ("eq", "ne") else ("", predicate)
    a, b = exact(body, t, a, kind or "u"), exact(body, t, b, kind or "u")
    return comparison(body, t, how, kind, a, b)


def comparison(body: Body, t: str, how: str, kind: str, a: Operand, b: Operand) -> Operand:
    """`how` says which (`lt`), `kind` is s, u, or empty for equality."""
    if type(a) is int:
        if type(b) is int:
            if kind != "s":
                most = (1 << BITS[t]) - 1
                a, b = a & most, b & most
            return int(_TESTS[how](a, b))
        a, b, how = b, a, _MIRROR[how]
    if b == 0 and a in body.positive:
        return int(how in ("gt", "ge", "ne"))
    if type(b) is int and a in body.ones:
        known = _known(how, kind, body.ones[a], b, WIDTHS[PREFIXES[t]])
        if known is not None:
            return known
    if b == 0 and not kind and a in body.remainders:
        number, power = body.remainders[a]
        return comparison(body, t, how, kind, and_(body, t, number, power - 1), 0)
    if t in ("i64", "ptr"):
        narrow = _narrowed(body, kind, a, b)
        if narrow is not None:
            t, (a, b) = "i32", narrow
    return set_flag(body, how, f"{kind or 'b'}{SIZES.get(t, '64')}", a, b)


def _known(how: str, kind: str, most: int, b: int, bits: int) -> int | None:
    """What comparing a number of the bits `most` with a constant gives, where that is known."""
    if not kind:
        return int(how == "ne") if (b & (1 << bits) - 1) & ~most else None
    if kind == "u":
        b &= (1 << bits) - 1
    elif most >> bits - 1:
        return None
    if b < 0:
        return int(how in ("gt", "ge"))
    if b == 0 and how in ("lt", "ge"):
        return int(how == "ge")
    if how in ("lt", "ge"):
        return int(how == "lt") if most < b else None
    return int(how == "le") if most <= b else None


def _narrowed(body: Body, kind: str, a: str, b: Operand) -> tuple[Operand, Operand] | None:
    """The numbers of 32 bits that two of 64 were widened from, where comparing them gives the same."""
    first, how = body.widened.get(a) or ("", "")
    if not first or kind != "s":
        return None
    if type(b) is int:
        return (first, b) if how != "u" and -1 << 31 <= b < 1 << 31 else None
    second, also = body.widened.get(b) or ("", "")
    return (first, second) if second and how != "u" and also != "u" else None


def _compare_flags(body: Body, predicate: str, a: Operand, b: Operand) -> Operand:
    if predicate == "ne":
        return xor(body, "i1", a, b)
    if predicate == "eq":
        return not_(body, xor(body, "i1", a, b))
    raise UntranslatableError(f"icmp {predicate} i1")


def select(body: Body, words: Sequence[str]) -> Operand:
    """`%v = select i1 %c, i32 %a, i32 %b`, given as words."""
    t = words[-2]
    if len(words) != 9 or t not in PREFIXES:
        raise UntranslatableError(" ".join(words))
    return choose(body, t, body.get(words[4][:-1], "i1"), body.get(words[6][:-1], t), body.get(words[8], t))


def choose(body: Body, t: str, condition: Operand, a: Operand, b: Operand) -> Operand:
    """`a` where the condition holds, else `b`."""
    if type(condition) is int:
        return a if condition & 1 else b
    if a == b:
        return a
    if t == "i1":
        flag = _choose_flag(body, condition, a, b)
        if type(flag) is str:
            body.chosen[flag] = condition, a, b
        return flag
    if body.opcode_of(condition) == "not.pred":
        condition, a, b = body.makers[condition][2][0], b, a
    prefix = PREFIXES[t]
    bits = WIDTHS[prefix]
    result = body.pure(prefix, f"selp.b{bits}", a, b, condition)
    body.chosen[result] = condition, a, b
    may = body.most(a, bits) | body.most(b, bits)
    if may < (1 << bits) - 1:
        body.ones[result] = may
    return result


def _choose_flag(body: Body, condition: str, a: Operand, b: Operand) -> Operand:
    if type(a) is int:
        return or_(body, "i1", condition, b) if a & 1 else and_(body, "i1", not_(body, condition), b)
    if type(b) is int:
        return or_(body, "i1", not_(body, condition), a) if b & 1 else and_(body, "i1", condition, a)
    return or_(body, "i1", and_(body, "i1", condition, a), and_(body, "i1", not_(body, condition), b))


def _limits(t: str, kind: str) -> tuple[int, int]:
    """The least and the greatest number of a type, as bits that a sign is read from.

    With these an extremum is none; ptxas 13.0 takes `min.s32(max.u32(x, 0), 0)` and `max.u32(min.s32(x, 0), 0)` for 0,
    as if both were of one signedness, and 64 bits alike (its SASS for 9.0, 10.0 and 12.0, 2026-12-01).
    """
    half = 1 << BITS[t] - 1
    return (-half, half - 1) if kind == "s" else (0, -1)


def extremum(body: Body, t: str, name: str, a: Operand, b: Operand) -> Operand:
    """`smin`, `umax` and so on."""
    kind, how = name[0], name[1:]
    if t not in SIZES:
        raise UntranslatableError(f"{name} {t}")
    a, b = exact(body, t, a, kind), exact(body, t, b, kind)
    if type(a) is int:
        a, b = b, a
    if type(a) is int:
        most = (1 << BITS[t]) - 1
        key = (lambda v: v) if kind == "s" else (lambda v: v & most)
        return (min if how == "min" else max)(a, b, key=key)
    bits = WIDTHS[PREFIXES[t]]
    if type(b) is str:
        pair = either(body, a, b)
        if pair is not None:
            return extremum(body, t, name, *pair)
        if b < a:
            a, b = b, a
    elif b in (limits := _limits(t, kind)):
        return a if (b == limits[0]) == (how == "max") else b
    elif a in body.ones and t != "i8":
        known = _known("le", kind, body.ones[a], b, bits)      # or `ge`: always the one or the other
        if known is not None:
            return a if (how == "min") == bool(known) else signed(b, BITS[t])
    result = body.pure(PREFIXES[t], f"{how}.{kind}{SIZES[t]}", a, b)
    first, second = body.most(a, bits), body.most(b, bits)
    if how == "min" and kind == "u":
        body.ones[result] = (1 << min(first.bit_length(), second.bit_length())) - 1
    elif first < 1 << bits - 1 and second < 1 << bits - 1:
        body.ones[result] = first | second
    return result
