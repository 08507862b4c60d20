"""Vectors that fit a register: <2 x i16>, <2 x half>, <4 x i8> and the like.

A vector is a `Vector`: the word that it is, the elements that it was made of, or both.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from tilewright.targets.nvidia.translate.body import BITS, MOVABLE, Body, Operand, UntranslatableError, signed

_HIGH_HALF = "mov.b32 \t{_, %s}, %s;"


@dataclass(frozen=True, slots=True)
class Vector:
    """`lanes` elements of type `element`: a word, or operands (None: anything)."""

    element: str
    lanes: int
    word: Operand = None
    parts: tuple[Operand, ...] = ()


def insert(body: Body, words: Sequence[str]) -> Operand:
    """`%v = insertelement <2 x i16> %a, i16 %b, i64 0`, given as words."""
    if len(words) != 11 or words[9] != "i64":
        raise UntranslatableError(" ".join(words))
    lanes, element = int(words[3][1:]), words[5][:-1]
    found = body.values.get(words[6][:-1])
    if found is None:
        found = Vector(element, lanes, parts=(None,) * lanes)
    elif not found.parts:
        raise UntranslatableError("an element into a word")
    k = int(words[10])
    part = body.get(words[8][:-1], words[7])
    return replace(found, word=None, parts=(*found.parts[:k], part, *found.parts[k + 1:]))


def extract(body: Body, words: Sequence[str]) -> Operand:
    """`%v = extractelement <2 x i16> %a, i64 0`, given as words."""
    if len(words) != 9 or words[7] != "i64":
        raise UntranslatableError(" ".join(words))
    vector, k = body.values.get(words[6][:-1]), int(words[8])
    if not isinstance(vector, Vector):
        raise UntranslatableError(" ".join(words))
    if vector.parts:
        return vector.parts[k] if vector.parts[k] is not None else 0
    return _part(body, vector, k)


def _part(body: Body, vector: Vector, k: int) -> Operand:
    bits = BITS[vector.element]
    word, whole = vector.word, bits * vector.lanes
    if type(word) is int:
        return signed(word >> bits * k, bits)
    if whole == 16:     # two bytes
        return body.pure("%rs", "shr.u16", word, bits * k) if k else word
    if whole != 32 or bits not in (8, 16):
        raise UntranslatableError(f"{vector.lanes} x {vector.element}")
    if bits == 16 and k:
        return _high_half(body, word)
    moved = body.pure("%r", "shr.u32", word, bits * k) if k else word
    return body.pure("%rs", "cvt.u16.u32", moved)


def _high_half(body: Body, word: str) -> str:
    key = "high half", word
    known: str | None = body.known(key, here=False)
    if known is None:
        known = body.fresh("%rs")
        body.statement((known,), _HIGH_HALF, (known, word), MOVABLE, (word,))
        body.remember(key, known)
    return known


def half_of(body: Body, half: str) -> tuple[str, int] | None:
    """The word whose low (0) or high (1) half a register is; None if that is not known."""
    record = body.makers.get(half)
    if record is not None and record[1] == "cvt.u16.u32":
        return record[2][0], 0
    if record is not None and record[1] == _HIGH_HALF:
        return record[4][0], 1
    return None


def bitcast_vector(body: Body, words: Sequence[str]) -> Operand:
    """`%v = bitcast <2 x i16> %a to i32`, or back, given as words."""
    if words[3].startswith("<"):
        vector, target = body.values.get(words[6]), words[-1]
        if not isinstance(vector, Vector):
            raise UntranslatableError(" ".join(words))
        if target.endswith(">"):
            return _as_vector(_word(body, vector), words)
        return _word(body, vector)
    return _as_vector(body.get(words[4], words[3]), words)


def _as_vector(word: Operand, words: Sequence[str]) -> Vector:
    return Vector(words[-1][:-1], int(words[-3][1:]), word)


def _word(body: Body, vector: Vector) -> Operand:
    if vector.word is not None:
        return vector.word
    bits = BITS[vector.element]
    parts = [0 if p is None else p for p in vector.parts]
    if all(type(p) is int for p in parts):
        whole = sum((p & (1 << bits) - 1) << bits * k for k, p in enumerate(parts))
        return signed(whole, bits * vector.lanes)
    if bits == 16 and vector.lanes == 2:
        halves = [found for p in parts if type(p) is str and (found := half_of(body, p)) is not None]
        if len(halves) < len(parts):
            return _of_halves(body, parts)
        return _picked(body, [(word, 2 * k + j) for word, k in halves for j in (0, 1)])
    if bits == 8 and vector.lanes == 4:
        return _picked(body, [_byte_of(body, p) for p in parts])
    if bits == 8 and vector.lanes == 2:
        anything = 0, 0
        return body.pure("%rs", "cvt.u16.u32", _picked(body, [*(_byte_of(body, p) for p in parts), anything, anything]))
    raise UntranslatableError(f"{vector.lanes} x {vector.element}")


def _byte_of(body: Body, part: Operand) -> tuple[Operand, int]:
    """A word, and the number of the byte in it that an i8 is."""
    if type(part) is int:
        return part & 255, 0
    if body.opcode_of(part) != "cvt.u16.u32":
        return body.pure("%r", "cvt.u32.u16", part), 0
    (word,) = body.makers[part][2]
    x, shift, mask = body.fields.get(word) or (word, 0, 255)
    return (x, -shift // 8) if shift in (0, -8, -16, -24) and mask & 255 == 255 else (word, 0)


def _picked(body: Body, parts: Sequence[tuple[Operand, int]]) -> Operand:
    """The word of four bytes of words, the first in the low bits."""
    words = list(dict.fromkeys(word for word, _ in parts))
    if len(words) > 2:
        first, second = (_picked(body, [*parts[k:k + 2], *parts[k:k + 2]]) for k in (0, 2))
        return body.pure("%r", "prmt.b32", first, second, 0x5410)
    order = sum((k + 4 * words.index(word)) << 4 * place for place, (word, k) in enumerate(parts))
    if order == 0x3210:
        return words[0]
    return body.pure("%r", "prmt.b32", words[0], words[-1], order)


def _of_halves(body: Body, parts: Sequence[Operand]) -> str:
    low, high = (body.register(p, "%rs") for p in parts)
    key = "halves", low, high
    known: str | None = body.known(key, here=False)
    if known is None:
        known = body.fresh("%r")
        body.statement((known,), "mov.b32 \t%s, {%s, %s};", (known, low, high), MOVABLE, (low, high))
        body.remember(key, known)
    return known
