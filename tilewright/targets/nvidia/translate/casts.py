"""Conversions from one type to another."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from tilewright.targets.nvidia.translate.body import BITS, PREFIXES, Body, Operand, UntranslatableError, signed
from tilewright.targets.nvidia.translate.conditions import choose, comparison
from tilewright.targets.nvidia.translate.integers import add, exact, field, plus, subtract
from tilewright.targets.nvidia.translate.vectors import bitcast_vector, half_of

Cast = Callable[[Body, Operand, str, str], Operand]


def cast(body: Body, words: Sequence[str]) -> Operand:
    """`%v = sext i32 %a to i64`, given as words."""
    if len(words) != 7:
        if words[2] == "bitcast":
            return bitcast_vector(body, words)
        if words[2:5] == ["ptrtoint", "ptr", "addrspace(3)"] and words[5][1:] in body.symbols and words[-1] == "i32":
            return body.pure("%r", "mov.b32", words[5][1:])
        return _unknown(words)
    _, _, name, source, token, _, target = words
    if source not in PREFIXES or target not in PREFIXES:
        return bitcast_vector(body, words) if name == "bitcast" else _unknown(words)
    return CASTS[name](body, body.get(token, source), source, target)


def _unknown(words: Sequence[str]) -> Operand:
    raise UntranslatableError(" ".join(words))


def sign_extend(body: Body, a: Operand, source: str, target: str) -> Operand:
    if type(a) is int:
        return -(a & 1) if source == "i1" else a
    if source == "i1":
        return choose(body, target, a, -1, 0)
    if target == "i64":
        return _widened(body, sign_extend(body, a, source, "i32") if source != "i32" else a, "s")
    if source == "i8":
        return exact(body, "i8", a, "s") if target == "i16" else body.pure("%r", "cvt.s32.s8", a)
    return body.pure("%r", "cvt.s32.s16", a)


def zero_extend(body: Body, a: Operand, source: str, target: str) -> Operand:
    if type(a) is int:
        return a & (1 << BITS[source]) - 1
    if source == "i1":
        return choose(body, target, a, 1, 0)
    if body.opcode_of(a) == "selp.b16":
        first, second, condition = body.makers[a][2]
        if type(first) is int and type(second) is int:
            most = (1 << BITS[source]) - 1
            return choose(body, target, condition, first & most, second & most)
    if target == "i64":
        return _widened(body, zero_extend(body, a, source, "i32") if source != "i32" else a, "u")
    if source == "i16":
        word = half_of(body, a)
        if word is not None:
            return field(body, word[0], -16 * word[1], 0xFFFF)
    a = exact(body, source, a, "u")
    if target in ("i16", "i8"):
        return a
    result = body.pure("%r", "cvt.u32.u16", a)
    body.ones[result] = body.most(a, 16)
    return result


def _widened(body: Body, a: Operand, kind: str) -> Operand:
    """The i32 `a` in 64 bits; a constant that it is a sum with is added there, where that cannot differ."""
    if type(a) is int:
        return a if kind == "s" else a & (1 << 32) - 1
    base, number = body.sums.get(a) or (a, 0)
    most = body.ones.get(base, 1 << 31)
    if number and most < 1 << 31 and number + most < 1 << 31 and (kind == "s" or number > 0):
        result = plus(body, "i64", _widened(body, base, kind), number)
        body.widened[result] = a, "s" if number < 0 else "n"
        return result
    may = body.ones.get(a, 1 << 31)
    if may < 1 << 31:
        result = body.pure("%rd", "cvt.u64.u32", a)
        body.widened[result], body.ones[result] = (a, "n"), may
        if a in body.positive:
            body.positive.add(result)
        return result
    result = body.pure("%rd", "cvt.s64.s32" if kind == "s" else "cvt.u64.u32", a)
    body.widened[result] = a, kind
    if kind == "u":
        body.ones[result] = (1 << 32) - 1
    return result


def truncate(body: Body, a: Operand, source: str, target: str) -> Operand:
    if type(a) is int:
        return a & 1 if target == "i1" else signed(a, BITS[target])
    if target == "i1":
        wide = truncate(body, a, source, "i32") if source == "i64" else a
        t = "i32" if source == "i64" else source
        prefix = PREFIXES[t]
        low = body.pure(prefix, "and.b32" if prefix == "%r" else "and.b16", wide, 1)
        return comparison(body, "i32" if prefix == "%r" else "i16", "ne", "", low, 0)
    if source in ("i16", "i8"):
        return a
    if source == "i64":
        if target != "i32":
            return truncate(body, truncate(body, a, "i64", "i32"), "i32", target)
        return _low_word(body, a)
    if body.opcode_of(a) in ("cvt.u32.u16", "cvt.s32.s16"):
        return body.makers[a][2][0]
    return body.pure("%rs", "cvt.u16.u32", a)


def _low_word(body: Body, a: str) -> Operand:
    known = body.widened.get(a)
    if known is not None:
        return known[0]
    base, number = body.sums.get(a) or (a, 0)
    if number:
        low = _low_word(body, base)
        return plus(body, "i32", low, number) if type(low) is str else signed(low + number, 32)
    opcode = body.opcode_of(a)
    if opcode in _IN_LOW_WORDS:
        numbers = body.makers[a][2][:2]
        if all(type(o) is int or o in body.widened or o in body.sums for o in numbers):
            low = [signed(o, 32) if type(o) is int else _low_word(body, o) for o in numbers]
            return _IN_LOW_WORDS[opcode](body, body.makers[a][2][-1], *low)
    result = body.pure("%r", "cvt.u32.u64", a)
    may = body.ones.get(a)
    if may is not None and may < 1 << 32:
        body.ones[result] = may
    return result


# What gives the low word of an instruction's result out of those of its operands; of a choice the last is a condition.
_IN_LOW_WORDS: Mapping[str, Callable[[Body, Operand, Operand, Operand], Operand]] = {
    "add.s64": lambda body, _, a, b: add(body, "i32", a, b),
    "sub.s64": lambda body, _, a, b: subtract(body, "i32", a, b),
    "selp.b64": lambda body, condition, a, b: choose(body, "i32", condition, a, b),
}


def same_bits(body: Body, a: Operand, source: str, target: str) -> Operand:
    """A bitcast, and those between pointers and i64."""
    if BITS[source] == BITS[target]:
        return a
    return truncate(body, a, "i64", target) if BITS[source] > BITS[target] else zero_extend(body, a, source, "i64")


# --- floats

_FLOATS = {"half": "f16", "bfloat": "bf16", "float": "f32", "double": "f64"}


def written(a: Operand, t: str) -> Operand:
    """A float operand as PTX writes it."""
    if type(a) is str:
        return a
    bits = BITS[t]
    if bits == 16:
        raise UntranslatableError(f"a constant {t}")
    return f"0{'f' if bits == 32 else 'd'}{a & (1 << bits) - 1:0{bits // 4}X}"


def float_to_float(body: Body, a: Operand, source: str, target: str) -> Operand:
    if type(a) is int and BITS[source] == 16:
        a = body.register(a, "%rs")
    if target == "half" and source == "float":
        if body.opcode_of(a) == "cvt.f32.f16":
            return body.makers[a][2][0]
        narrow = _in_halves(body, a)
        if narrow is not None:
            return narrow
    rounding = ".rn" if BITS[target] < BITS[source] else ""
    return body.pure(PREFIXES[target], f"cvt{rounding}.{_FLOATS[target]}.{_FLOATS[source]}", written(a, source))


_NARROW = {"add.rn.f32": "add.rn.f16", "sub.rn.f32": "sub.rn.f16", "mul.rn.f32": "mul.rn.f16"}


def _in_halves(body: Body, a: Operand) -> str | None:
    """A sum, difference or product of two halves that is rounded to one: f32 has more than twice the bits, so that
    rounding first to it changes nothing."""
    opcode = _NARROW.get(body.opcode_of(a))
    if opcode is None or not all(body.opcode_of(o) == "cvt.f32.f16" for o in body.makers[a][2]):
        return None
    return body.pure("%rs", opcode, *(body.makers[o][2][0] for o in body.makers[a][2]))


def _integer_to_float(kind: str) -> Cast:
    def handler(body: Body, a: Operand, source: str, target: str) -> Operand:
        if source == "i1":
            a, source = (sign_extend if kind == "s" else zero_extend)(body, a, "i1", "i32"), "i32"
        a = exact(body, source, a, kind)
        if type(a) is int:
            a = body.register(a, PREFIXES[source])
        bits = max(BITS[source], 16)
        return body.pure(PREFIXES[target], f"cvt.rn.{_FLOATS[target]}.{kind}{bits}", a)

    return handler


def _float_to_integer(kind: str) -> Cast:
    def handler(body: Body, a: Operand, source: str, target: str) -> Operand:
        if target in ("i1", "i8"):
            raise UntranslatableError(f"{source} to {target}")
        return body.pure(PREFIXES[target], f"cvt.rzi.{kind}{BITS[target]}.{_FLOATS[source]}", written(a, source))

    return handler


CASTS: Mapping[str, Cast] = {
    "sext": sign_extend, "zext": zero_extend, "trunc": truncate, "bitcast": same_bits, "inttoptr": same_bits,
    "ptrtoint": same_bits, "fpext": float_to_float, "fptrunc": float_to_float, "sitofp": _integer_to_float("s"),
    "uitofp": _integer_to_float("u"), "fptosi": _float_to_integer("s"), "fptoui": _float_to_integer("u"),
}
