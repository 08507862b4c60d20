"""Integer arithmetic and bits.  Shifts by the width or more are undefined."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

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

Binary = Callable[[Body, str, Operand, Operand], Operand]

_ALL = (1 << 32) - 1


def binary(body: Body, words: Sequence[str]) -> Operand:
    """`%v = add nuw i32 %a, %b`, given as words."""
    t = words[-3]
    if t not in PREFIXES:
        raise UntranslatableError(" ".join(words))
    rule = or_disjoint if words[3] == "disjoint" else BINARY[words[2]]
    return rule(body, t, body.get(words[-2][:-1], t), body.get(words[-1], t))


# --- sums


def add(body: Body, t: str, a: Operand, b: Operand) -> Operand:
    if type(a) is int:
        a, b = b, a
    if type(b) is int:
        return signed(a + b, BITS[t]) if type(a) is int else plus(body, t, a, b)
    if t == "i1":
        return xor(body, t, a, b)
    pair = either(body, a, b)
    if pair is not None:
        return add(body, t, *pair)
    sums = body.sums
    a, first = sums.get(a) or (a, 0)
    b, second = sums.get(b) or (b, 0)
    if b < a:
        a, b = b, a
    total = body.pure(PREFIXES[t], f"add.s{SIZES[t]}", a, b)
    return plus(body, t, total, first + second) if first or second else total


def either(body: Body, a: str, b: str) -> tuple[Operand, Operand] | None:
    """The two numbers that `a` and `b` are, if a condition chooses which is which."""
    first = body.chosen.get(a)
    second = body.chosen.get(b) if first is not None else None
    if first is None or second is None or first[0] != second[0] or first[1] != second[2] or first[2] != second[1]:
        return None
    return first[1], first[2]


def plus(body: Body, t: str, a: str, number: int) -> Operand:
    """A register plus a constant."""
    if t == "i1":
        return xor(body, t, a, number)
    if t in ("i8", "i16"):
        return body.pure("%rs", "add.s16", a, number) if number else a
    base, before = body.sums.get(a) or (a, 0)
    number = signed(before + number, BITS[t])
    if not number:
        return base
    total = body.pure(PREFIXES[t], "add.s32" if t == "i32" else "add.s64", base, number)
    body.sums[total] = base, number
    limit = body.ones.get(base)
    if limit is not None and number > 0:
        may = limit | number if not limit & number else (1 << (limit + number).bit_length()) - 1
        if may < 1 << BITS[t] - 1:
            body.ones[total] = may
    return total


def subtract(body: Body, t: str, a: Operand, b: Operand) -> Operand:
    if type(b) is int:
        return signed(a - b, BITS[t]) if type(a) is int else plus(body, t, a, -b)
    if t == "i1":
        return xor(body, t, a, b)
    base, second = body.sums.get(b) or (b, 0)
    if type(a) is str:
        other, first = body.sums.get(a) or (a, 0)
        if other == base:
            return signed(first - second, BITS[t])
    if a == 0:
        return body.pure(PREFIXES[t], f"neg.s{SIZES[t]}", b)
    return body.pure(PREFIXES[t], f"sub.s{SIZES[t]}", a, b)


# --- products and quotients


def multiply(body: Body, t: str, a: Operand, b: Operand) -> Operand:
    if type(a) is int:
        a, b = b, a
    if t == "i1":
        return and_(body, t, a, b)
    if type(b) is int:
        if type(a) is int:
            return signed(a * b, BITS[t])
        return times(body, t, a, b)
    if b < a:
        a, b = b, a
    if t == "i64":
        wide = _wide(body, a, b)
        if wide is not None:
            return wide
    return body.pure(PREFIXES[t], f"mul.lo.s{SIZES[t]}", a, b)


def times(body: Body, t: str, a: str, number: int) -> Operand:
    """A register times a constant."""
    if number in (0, 1):
        return a if number else 0
    if t in ("i8", "i16"):
        return body.pure("%rs", "mul.lo.s16", a, number)
    base, more = body.sums.get(a) or (a, 0)
    if more:
        return plus(body, t, times(body, t, base, number), more * number)
    if t == "i32":
        if number > 0 and number & number - 1 == 0:
            return shift_left(body, t, a, number.bit_length() - 1)
        return body.pure("%r", "mul.lo.s32", a, number)
    wide = _wide(body, a, number)
    if wide is not None:
        return wide
    if number > 0 and number & number - 1 == 0:
        return body.pure("%rd", "shl.b64", a, number.bit_length() - 1)
    return body.pure("%rd", "mul.lo.s64", a, number)


def _wide(body: Body, a: str, b: Operand) -> str | None:
    """The product of 64 bits of two numbers of 32 that were widened."""
    narrow, how = body.widened.get(a) or ("", "")
    if not narrow:
        return None
    other: Operand
    if type(b) is int:
        if how != "u" and -1 << 31 <= b < 1 << 31:
            other, also = b, "n" if b >= 0 else "s"
        elif 0 <= b < 1 << 32:
            other, also = b, "u"
        else:
            return None
    else:
        other, also = body.widened.get(b) or ("", "")
        if not other:
            return None
    if {how, also} == {"s", "u"}:
        return None
    kind = "s" if "s" in (how, also) else "u"
    product = body.pure("%rd", f"mul.wide.{kind}32", narrow, other)
    if kind == "u":
        most = body.most(narrow, 32) * body.most(other, 32)
        if most < 1 << 63:
            body.ones[product] = (1 << most.bit_length()) - 1
    return product


# --- bits


def and_(body: Body, t: str, a: Operand, b: Operand) -> Operand:
    if type(a) is int:
        a, b = b, a
    if type(b) is int:
        if type(a) is int:
            return a & b
        if t == "i1":
            return a if b else 0
        if not b or signed(b, BITS[t]) == -1:
            return a if b else 0
        if t == "i32":
            base, number = _apart(body, a)
            if number:
                return _together(body, and_(body, t, base, b), number & b)
            x, shift, mask = body.fields.get(a) or (a, 0, body.ones.get(a, _ALL))
            return field(body, x, shift, mask & b)
        bits = WIDTHS[PREFIXES[t]]
        may = body.most(a, bits) & b
        if may == body.most(a, bits):
            return a
        result = body.pure(PREFIXES[t], f"and.b{bits}", a, b)
        body.ones[result] = may
        return result
    if a == b:
        return a
    pair = either(body, a, b)
    if pair is not None:
        return and_(body, t, *pair)
    return _both_signs(body, t, "ge", a, b) or _bitwise(body, t, "and", a, b)


def or_(body: Body, t: str, a: Operand, b: Operand) -> Operand:
    if type(a) is int:
        a, b = b, a
    if type(b) is int:
        if type(a) is int:
            return a | b
        if t == "i1":
            return 1 if b else a
        if not b:
            return a
        if BITS[t] >= 32 and not body.most(a, BITS[t]) & b:
            return plus(body, t, a, b)
    elif a == b:
        return a
    else:
        pair = either(body, a, b)
        if pair is not None:
            return or_(body, t, *pair)
        return _both_signs(body, t, "lt", a, b) or _bitwise(body, t, "or", a, b)
    return _bitwise(body, t, "or", a, b)


def _both_signs(body: Body, t: str, how: str, a: str, b: str) -> str | None:
    """Two tests of signs as one of both numbers' bits: ptxas then knows of uniform ones that all threads agree."""
    first, second = body.compared.get(a), body.compared.get(b)
    if t != "i1" or first is None or second is None or first[:2] != second[:2] or first[0] != how or \
            first[1] not in ("s32", "s64") or first[3] != 0 or second[3] != 0:
        return None
    kind = f"i{first[1][1:]}"
    one, other = (_with_sign(body, number, kind) for number in (first[2], second[2]))
    if one == other:
        return set_flag(body, how, first[1], one, 0)
    return set_flag(body, how, first[1], _bitwise(body, kind, "or", one, other), 0)


def _with_sign(body: Body, a: str, t: str) -> str:
    """A number of the sign of `a`: itself, or what it is but for bits below."""
    opcode = body.opcode_of(a)
    if opcode not in ("or.b32", "or.b64", "add.s32", "add.s64"):
        return a
    bits = BITS[t]
    operands = body.makers[a][2]
    most = [body.most(operand, bits) for operand in operands]
    if opcode.startswith("add") and most[0] & most[1]:
        return a
    signs = [operand for operand, may in zip(operands, most) if may >> bits - 1]
    return _with_sign(body, signs[0], t) if len(signs) == 1 and type(signs[0]) is str else a


def or_disjoint(body: Body, t: str, a: Operand, b: Operand) -> Operand:
    """The same where no bit is set in both: a sum."""
    if type(a) is int:
        a, b = b, a
    if BITS[t] < 32 or type(a) is int:
        return or_(body, t, a, b)
    if type(b) is int:
        return plus(body, t, a, b)
    a, first = body.sums.get(a) or (a, 0)
    b, second = body.sums.get(b) or (b, 0)
    both = _bitwise(body, t, "or", a, b)
    return plus(body, t, both, first + second) if first or second else both


def xor(body: Body, t: str, a: Operand, b: Operand) -> Operand:
    if type(a) is int:
        a, b = b, a
    if type(b) is int:
        if type(a) is int:
            return a ^ b
        if not b:
            return a
        if t == "i1":
            return not_(body, a)
        if BITS[t] >= 32 and not body.most(a, BITS[t]) & b:
            return plus(body, t, a, b)
        if t == "i32":
            base, number = _apart(body, a)
            if number:
                return xor(body, t, base, number ^ b)
        if body.opcode_of(a) == f"xor.b{WIDTHS[PREFIXES[t]]}" and type(body.makers[a][2][1]) is int:
            inside, before = body.makers[a][2]
            return xor(body, t, inside, before ^ b)
    elif a == b:
        return 0
    return _bitwise(body, t, "xor", a, b)


def _bitwise(body: Body, t: str, name: str, a: str, b: Operand) -> str:
    prefix = PREFIXES[t]
    if type(b) is str and b < a:
        a, b = b, a
    if prefix == "%p":
        return body.pure(prefix, f"{name}.pred", a, b)
    bits = WIDTHS[prefix]
    result = body.pure(prefix, f"{name}.b{bits}", a, b)
    first, second = body.most(a, bits), body.most(b, bits)
    may = first & second if name == "and" else first | second
    if may < (1 << bits) - 1:
        body.ones[result] = may
    return result


def _apart(body: Body, a: str) -> tuple[str, int]:
    """An i32 as a number and a positive constant of other bits; 0 if it is no such sum."""
    base, number = body.sums.get(a) or (a, 0)
    return (base, number) if number > 0 and not body.ones.get(base, _ALL) & number else (a, 0)


def _together(body: Body, a: Operand, number: int) -> Operand:
    """The opposite."""
    if type(a) is int:
        return a | number
    return plus(body, "i32", a, number) if number else a


def field(body: Body, x: str, shift: int, mask: int) -> Operand:
    """Bits of the i32 `x`, shifted to the left and masked."""
    may = body.ones.get(x, _ALL)
    may = may << shift & _ALL if shift >= 0 else may >> -shift
    mask &= may
    if not mask:
        return 0
    moved = x
    if shift:
        moved = body.pure("%r", "shl.b32", x, shift) if shift > 0 else body.pure("%r", "shr.u32", x, -shift)
        body.ones[moved] = may
        body.fields[moved] = x, shift, may
    if mask == may:
        return moved
    result = body.pure("%r", "and.b32", moved, signed(mask, 32))
    body.ones[result] = mask
    body.fields[result] = x, shift, mask
    return result


def _amount(body: Body, t: str, b: Operand) -> Operand:
    """How far to shift, as PTX wants it: in 32 bits."""
    if type(b) is int or t == "i32":
        return b
    if t == "i64":
        return body.pure("%r", "cvt.u32.u64", b)
    return body.pure("%r", "cvt.u32.u16", exact(body, t, b, "u"))


def shift_left(body: Body, t: str, a: Operand, b: Operand) -> Operand:
    if type(b) is int:
        if type(a) is int:
            return signed(a << b, BITS[t]) if 0 <= b < BITS[t] else 0
        if not b:
            return a
        if t == "i32" and 0 < b < 32:
            base, more = body.sums.get(a) or (a, 0)
            if more:
                return plus(body, t, shift_left(body, t, base, b), more << b)
            x, shift, mask = body.fields.get(a) or (a, 0, body.ones.get(a, _ALL))
            return field(body, x, shift + b, mask << b & _ALL)
        if t == "i64" and 0 < b < 63:
            return times(body, t, a, 1 << b)
    return body.pure(PREFIXES[t], f"shl.b{SIZES[t]}", a, _amount(body, t, b))


def shift_right(body: Body, t: str, a: Operand, b: Operand) -> Operand:
    bits = BITS[t]
    a = exact(body, t, a, "u")
    if type(b) is int:
        if type(a) is int:
            return signed((a & (1 << bits) - 1) >> b, bits) if 0 <= b < bits else 0
        if not b:
            return a
        if t == "i32" and 0 < b < 32:
            base, number = _apart(body, a)
            if number:
                return _together(body, shift_right(body, t, base, b), number >> b)
            x, shift, mask = body.fields.get(a) or (a, 0, body.ones.get(a, _ALL))
            return field(body, x, shift - b, mask >> b)
        if t == "i64" and 0 < b < 64:
            result = body.pure("%rd", "shr.u64", a, b)
            body.ones[result] = body.most(a, 64) >> b
            return result
    return body.pure(PREFIXES[t], f"shr.u{SIZES[t]}", a, _amount(body, t, b))


def shift_right_signed(body: Body, t: str, a: Operand, b: Operand) -> Operand:
    a = exact(body, t, a, "s")
    if type(b) is int:
        if type(a) is int:
            return a >> b if 0 <= b < BITS[t] else 0
        if not b:
            return a
    return body.pure(PREFIXES[t], f"shr.s{SIZES[t]}", a, _amount(body, t, b))


def exact(body: Body, t: str, a: Operand, kind: str) -> Operand:
    """An i8 with its upper half made what its sign says, or zero; anything else as it is."""
    if t != "i8":
        return a
    if type(a) is int:
        return a if kind == "s" else a & 255
    if kind == "s":
        return body.pure("%rs", "cvt.s16.s8", a)
    if body.ones.get(a, _ALL) <= 255:
        return a
    result = body.pure("%rs", "and.b16", a, 255)
    body.ones[result] = 255
    return result


# --- opposites

_INVERSE = {"eq": "ne", "ne": "eq", "lt": "ge", "ge": "lt", "gt": "le", "le": "gt"}
_INVERSE_OF_FLOATS = {"eq": "neu", "neu": "eq", "lt": "geu", "geu": "lt", "le": "gtu", "gtu": "le", "gt": "leu",
                      "leu": "gt", "ge": "ltu", "ltu": "ge", "ne": "equ", "equ": "ne", "num": "nan", "nan": "num"}


def set_flag(body: Body, how: str, kind: str, a: Operand, b: Operand) -> str:
    """A predicate: how two operands, of floats as PTX writes them, compare."""
    result = body.pure("%p", f"setp.{how}.{kind}", a, b)
    body.compared[result] = how, kind, a, b
    return result


def not_(body: Body, a: Operand) -> Operand:
    """The opposite of a predicate."""
    if type(a) is int:
        return 1 - (a & 1)
    known = body.compared.get(a)
    if known is not None:
        how, kind, x, y = known
        return set_flag(body, (_INVERSE_OF_FLOATS if kind[0] == "f" else _INVERSE)[how], kind, x, y)
    if body.opcode_of(a) == "not.pred":
        return body.makers[a][2][0]
    return body.pure("%p", "not.pred", a)


BINARY: Mapping[str, Binary] = {
    "add": add, "sub": subtract, "mul": multiply, "and": and_, "or": or_, "xor": xor, "shl": shift_left,
    "lshr": shift_right, "ashr": shift_right_signed,
}
