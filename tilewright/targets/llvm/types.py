"""LLVM types, typed values and constants, as text.

A `Type` is a scalar (lanes 0) or a fixed vector of scalars; a `Value` is an operand with its type: a register
(`%v3`) or the text of a constant.  `str(value)` is the typed operand (`<16 x float> %v3`), `value.name` the bare one.
`constant` is exact: a number that the type cannot hold is an error, never rounded.
Tests: tests/targets/llvm/test_types.py.
"""

from __future__ import annotations

import functools
import math
import re
import struct
from collections.abc import Sequence
from typing import NamedTuple

from tilewright.diagnostics import InternalError

_MANGLED = {"half": "f16", "bfloat": "bf16", "float": "f32", "double": "f64", "ptr": "p0"}
_FLOAT_BITS = {"half": 16, "bfloat": 16, "float": 32, "double": 64}
_INTEGERS_OF_FLOATS = {"half": "i16", "bfloat": "i16", "float": "i32", "double": "i64"}


class Type(NamedTuple):
    """`element` is LLVM's scalar name (`i32`, `float`, `ptr`, ...); `lanes` is 0 for a scalar."""

    element: str
    lanes: int = 0

    def __str__(self) -> str:
        return f"<{self.lanes} x {self.element}>" if self.lanes else self.element

    @property
    def mangled(self) -> str:
        """The type's part of an intrinsic's name, e.g. `v16f32`."""
        short = _MANGLED.get(self.element, self.element)
        return f"v{self.lanes}{short}" if self.lanes else short

    @property
    def is_float(self) -> bool:
        return self.element in _FLOAT_BITS

    @property
    def bits(self) -> int:
        """Bits of one element."""
        if self.element == "ptr":
            return 64
        return _FLOAT_BITS.get(self.element) or int(self.element[1:])

    def of(self, element: str) -> Type:
        """As many lanes of another element."""
        return Type(element, self.lanes)

    @property
    def as_int(self) -> Type:
        """The integer type of the same width and lanes."""
        return self.of(_INTEGERS_OF_FLOATS[self.element]) if self.is_float else self

    @property
    def scalar(self) -> Type:
        return Type(self.element)


class Value(NamedTuple):
    """An operand: its type, and a register's name or a constant's text."""

    type: Type
    name: str

    def __str__(self) -> str:
        element, lanes = self.type
        return f"<{lanes} x {element}> {self.name}" if lanes else f"{element} {self.name}"

    @property
    def is_constant(self) -> bool:
        return not self.name.startswith("%")


VOID = Type("void")
PTR = Type("ptr")
I1, I8, I16, I32, I64 = (Type(f"i{n}") for n in (1, 8, 16, 32, 64))
HALF, BFLOAT, FLOAT, DOUBLE = (Type(n) for n in ("half", "bfloat", "float", "double"))


def vector(lanes: int, element: str) -> Type:
    """`<lanes x element>`."""
    return Type(element, lanes)


def float_text(element: str, value: float) -> str:
    """The exact text of `value` as a constant of a float type; InternalError when the type cannot hold it."""
    if element == "double":
        return f"0x{struct.unpack('<Q', struct.pack('<d', value))[0]:016X}"
    if math.isnan(value):
        return {"float": "0x7FF8000000000000", "half": "0xH7E00", "bfloat": "0xR7FC0"}[element]
    try:
        if element == "half":
            packed = struct.pack("<e", value)
            back, text = struct.unpack("<e", packed)[0], f"0xH{struct.unpack('<H', packed)[0]:04X}"
        else:
            packed = struct.pack("<f", value)
            back = struct.unpack("<f", packed)[0]
            text = f"0x{struct.unpack('<Q', struct.pack('<d', back))[0]:016X}"
            if element == "bfloat":
                bits = struct.unpack("<I", packed)[0]
                back, text = (back, f"0xR{bits >> 16:04X}") if bits & 0xFFFF == 0 else (math.nan, "")
    except OverflowError:
        back, text = math.nan, ""
    if back != value:
        raise InternalError(f"{value!r} is no {element}")
    return text


def constant(t: Type, value: float) -> Value:
    """`value` in every lane of `t`.  Integers wrap into the type's width; floats must be exact."""
    if t.is_float:
        text = float_text(t.element, value)
    elif t.element == "ptr":
        if value != 0:
            raise InternalError("the only pointer constant is null")
        text = "null"
    else:
        return _integer(t, int(value))
    return Value(t, f"splat ({t.element} {text})" if t.lanes else text)


@functools.lru_cache(1024)
def _integer(t: Type, value: int) -> Value:
    """An integer constant; most are small and asked for again and again."""
    text = _int_text(t, value)
    return Value(t, f"splat ({t.element} {text})" if t.lanes else text)


def _int_text(t: Type, value: int) -> str:
    if t.element == "i1":
        return "true" if value & 1 else "false"
    bits = t.bits
    return str(((value + (1 << (bits - 1))) & ((1 << bits) - 1)) - (1 << (bits - 1)))


def constant_lanes(element: str, values: Sequence[float]) -> Value:
    """A vector constant, lane by lane."""
    scalar = Type(element)
    lanes = ", ".join(str(constant(scalar, v)) for v in values)
    return Value(Type(element, len(values)), f"<{lanes}>")


def poison(t: Type) -> Value:
    return Value(t, "poison")


def zero(t: Type) -> Value:
    """All bits zero: 0, +0.0, false, null."""
    return Value(t, "zeroinitializer") if t.lanes else constant(t, 0)


_SPLAT = re.compile(r"splat \(i\d+ (\S+)\)|(-?\d+|true|false)$")


def integer_value(value: Value) -> int | None:
    """The signed integer that a constant holds (in every lane), or None if it is no such constant."""
    name = value.name
    if name.startswith("%") or value.type.is_float:
        return None
    if name == "zeroinitializer":
        return 0
    match = _SPLAT.match(name)
    if match is None:
        return None
    text = match[1] or match[2]
    return {"true": -1, "false": 0}.get(text) if text in ("true", "false") else int(text)


_FLOATS = re.compile(r"(?:splat \((?:float|double) )?0x([0-9A-F]{16})\)?$")


def float_value(value: Value) -> float | None:
    """The number that a float or double constant holds (in every lane), or None if it is no such constant."""
    if value.type.element not in ("float", "double"):
        return None
    if value.name == "zeroinitializer":
        return 0.0
    match = _FLOATS.match(value.name)
    return None if match is None else float(struct.unpack("<d", struct.pack("<Q", int(match[1], 16)))[0])
