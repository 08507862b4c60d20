"""The body of a kernel on its way from LLVM text to PTX: values, what is known of them, instructions of the block.

A value is a register's name, or an integer: a constant, floats by their bits, signed.  Pure instructions are made once
where a block that dominates has made them.  Three facts spare instructions: a register may be another one plus a
constant (`sums`), can only have these bits set (`ones`), is a narrower one widened (`widened`).
An i8 lives in 16 bits whose upper half is anything; an i1 is a predicate.
Before: nothing.  After: records (`Record`) for `writing`.  Tests: tests/targets/nvidia/translate/.
"""

from __future__ import annotations

import struct
from typing import Any

# a register's name or a constant; vectors and results of several registers are `vectors.Vector` and tuples
Operand = Any
# (register, opcode, operands): an instruction without effects; (registers, template, names for it, effect, uses), where
# `effect` is true, false, or `MOVABLE`: without an effect, and of one register, wherever it stands;
# (number,): what follows is from this place
Record = tuple[Any, ...]

PREFIXES = {"i1": "%p", "i8": "%rs", "i16": "%rs", "half": "%rs", "bfloat": "%rs", "i32": "%r", "float": "%r",
            "i64": "%rd", "double": "%rd", "ptr": "%rd"}
BITS = {"i1": 1, "i8": 8, "i16": 16, "half": 16, "bfloat": 16, "i32": 32, "float": 32, "i64": 64, "double": 64,
        "ptr": 64}
SIZES = {"i8": "16", "i16": "16", "i32": "32", "i64": "64"}      # of the instructions for a type
WIDTHS = {"%rs": 16, "%r": 32, "%rd": 64}
_NAMED = {"true": 1, "false": 0, "null": 0, "zeroinitializer": 0, "poison": 0, "undef": 0}


MOVABLE = None


class UntranslatableError(Exception):
    """LLVM text that this package does not know; LLVM does."""


def signed(value: int, bits: int) -> int:
    """`value` wrapped to a signed number of `bits` bits."""
    half = 1 << bits - 1
    return (value + half & (half << 1) - 1) - half


class Body:
    """See the module's text.  `threads` is the size of a block."""

    def __init__(self, threads: int) -> None:
        self.threads = threads
        self.values: dict[str, Operand] = {}
        self.code: list[Record] = []
        self.entry: list[Record] = []           # what comes before the first block's instructions
        self.makers: dict[str, Record] = {}
        self.counts = {"%p": 0, "%rs": 0, "%r": 0, "%rd": 0}
        self.block = 0                  # the number of the block that instructions go to
        self.dominators = 1             # the blocks that dominate it, itself included, as bits
        self.sums: dict[str, tuple[str, int]] = {}
        self.ones: dict[str, int] = {}
        self.widened: dict[str, tuple[str, str]] = {}           # from 32 to 64 bits: "s", "u", or "n" for either
        self.fields: dict[str, tuple[str, int, int]] = {}       # of 32 bits: what, shifted left by, and masked by
        self.remainders: dict[str, tuple[str, int]] = {}        # of a signed number by a power of two
        self.positive: set[str] = set()                         # more than 0, as signed numbers
        self.chosen: dict[str, tuple[str, Operand, Operand]] = {}       # by a condition, of two
        self.compared: dict[str, tuple[str, str, Operand, Operand]] = {}
        self.local: set[str] = set()       # addresses of places on the stack, in local memory
        self.stack: list[str] = []           # their declarations
        self.symbols: dict[str, int] = {}                       # of global variables, and their address spaces
        self._known: dict[tuple[Any, ...], tuple[Any, int]] = {}
        self._constants: dict[tuple[str, str], int] = {}

    # --- operands

    def get(self, token: str, t: str) -> Operand:
        """The operand that `token` of type `t` names."""
        found = self.values.get(token)
        return self.constant(token, t) if found is None else found

    def constant(self, token: str, t: str) -> int:
        """A constant's bits, signed."""
        found = self._constants.get((t, token))
        if found is None:
            found = self._constants[t, token] = _bits_of(token, t)
        return found

    def register(self, operand: Operand, prefix: str) -> str:
        """A register that holds the operand."""
        if type(operand) is str:
            return operand
        if type(operand) is not int:
            raise UntranslatableError(f"a register for {operand!r}")
        if prefix == "%p":
            return self.pure("%p", "setp.eq.s32", self.pure("%r", "mov.b32", 0), 0 if operand & 1 else 1)
        return self.pure(prefix, f"mov.b{WIDTHS[prefix]}", operand)

    # --- instructions

    def fresh(self, prefix: str) -> str:
        """A new register."""
        number = self.counts[prefix] = self.counts[prefix] + 1
        return f"{prefix}{number}"

    def pure(self, prefix: str, opcode: str, *operands: Operand) -> str:
        """The result of an instruction without effects."""
        key = opcode, operands
        found = self._known.get(key)
        if found is not None and self.dominators >> found[1] & 1:
            known: str = found[0]
            return known
        number = self.counts[prefix] = self.counts[prefix] + 1
        name = f"{prefix}{number}"
        self.makers[name] = record = (name, opcode, operands)
        self.code.append(record)
        self._known[key] = name, self.block
        return name

    def statement(self, registers: tuple[str, ...], template: str, names: tuple[Operand, ...], effect: bool | None,
                  uses: tuple[Operand, ...]) -> None:
        """Text with `names` for its `%s`, which sets `registers`."""
        record = registers, template, names, effect, uses
        self.code.append(record)
        for register in registers:
            self.makers[register] = record

    def known(self, key: tuple[Any, ...], here: bool) -> Any:
        """What `remember` got for `key` in a block that dominates this one, or in this one if it must be `here`."""
        found = self._known.get(key)
        if found is None or (found[1] != self.block if here else not self.dominators >> found[1] & 1):
            return None
        return found[0]

    def remember(self, key: tuple[Any, ...], value: Any) -> None:
        self._known[key] = value, self.block

    # --- facts

    def most(self, operand: Operand, bits: int) -> int:
        """The bits that may be set."""
        if type(operand) is int:
            return operand & (1 << bits) - 1
        return self.ones.get(operand, (1 << bits) - 1)

    def opcode_of(self, operand: Operand) -> str:
        """The opcode that made a register; empty for what no single instruction made."""
        record = self.makers.get(operand) if type(operand) is str else None
        return record[1] if record is not None and len(record) == 3 else ""


def _bits_of(token: str, t: str) -> int:
    if token in _NAMED:
        return _NAMED[token]
    bits = BITS.get(t)
    if bits is None or token[0] in "%@":
        raise UntranslatableError(f"{t} {token}")
    try:
        if t == "double":
            return signed(int(token, 16), 64)
        if t == "float":
            (value,) = struct.unpack("<d", struct.pack("<Q", int(token, 16)))
            return signed(int.from_bytes(struct.pack("<f", value), "little"), 32)
        if t in ("half", "bfloat"):
            return signed(int(token[3:], 16), 16)
        return signed(int(token), bits)
    except ValueError:
        raise UntranslatableError(f"{t} {token}") from None
