"""Operands bound to arrays: how a meaning reads and writes registers, a row of threads at once.

A register is an unsigned array of the CTA's threads; a typed read is a view of it, so it costs nothing when the program
runs.  A *step* is a closure over such views that does one instruction for the lanes in `on` (None: all of them).
Before: a program and a CTA.  After: nothing is looked up by name any more.  Tests: tests/targets/nvidia/ptx.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from inspect import CO_VARARGS
from typing import TYPE_CHECKING, Any

import numpy as np

from tilewright.targets.nvidia.ptx.declarations import TYPE_BYTES
from tilewright.targets.nvidia.ptx.memory import LOCAL_WINDOW, SHARED_WINDOW
from tilewright.targets.nvidia.ptx.operands import (
    Address,
    Immediate,
    Instruction,
    Operand,
    Register,
    Sink,
    Special,
    Symbol,
    Vector,
)
from tilewright.targets.nvidia.ptx.report import PtxSyntaxError

if TYPE_CHECKING:
    from tilewright.targets.nvidia.ptx.cta import Cta

Array = np.ndarray[Any, Any]
Mask = Array | None
Step = Callable[[Mask], None]
Put = Callable[[Any, Mask], None]

DTYPE: dict[str, np.dtype[Any]] = {
    "pred": np.dtype(bool), "f16": np.dtype(np.float16), "f32": np.dtype(np.float32), "f64": np.dtype(np.float64),
    **{f"{kind}{bits}": np.dtype(f"{'i' if kind == 's' else 'u'}{bits // 8}")
       for kind in "bus" for bits in (8, 16, 32, 64)},
    "bf16": np.dtype(np.uint16), "e4m3": np.dtype(np.uint8), "e5m2": np.dtype(np.uint8),
    "e4m3x2": np.dtype(np.uint16), "e5m2x2": np.dtype(np.uint16), "tf32": np.dtype(np.float32),
}
# two elements in a register: its array is read as one of twice the length
PACKED: dict[str, np.dtype[Any]] = {
    "f16x2": np.dtype(np.float16), "bf16x2": np.dtype(np.uint16), "s16x2": np.dtype(np.int16),
    "u16x2": np.dtype(np.uint16), "f32x2": np.dtype(np.float32),
}


def storage(type: str) -> np.dtype[Any] | None:
    """The dtype that elements of `type` are read as; None for what has no plain one (b128)."""
    return PACKED.get(type, DTYPE.get(type))


def register_dtype(type: str) -> np.dtype[Any]:
    """The unsigned storage of a register of `type` (128-bit ones are pairs of 64)."""
    if type == "pred":
        return np.dtype(bool)
    return np.dtype(f"u{TYPE_BYTES[type]}") if TYPE_BYTES[type] <= 8 else np.dtype((np.uint64, 2))


class Binding:
    """Registers and special registers of one CTA, for the meanings of `program`'s instructions."""

    def __init__(self, cta: Cta) -> None:
        self.cta, self.threads = cta, cta.threads
        self.instruction = cta.program.code[0] if cta.program.code else None
        self.registers: dict[str, Array] = {}
        self.known: dict[str, Array] = {}       # of registers that may be unwritten: which threads wrote them

        self.marks: dict[str, Array] = {}       # of accumulators of wgmma: the commit that last wrote them, a thread
        self.fragments: dict[str, Array] = {}   # of its operands in registers: the commit that last read them
        self.changed: dict[str, Array] = {}     # of both: before which wgmma.fence other instructions last wrote them

    # ---- errors
    def error(self, message: str) -> PtxSyntaxError:
        assert self.instruction is not None
        line = self.instruction.line
        return PtxSyntaxError(f"{self.instruction.opcode}: {message}", line, self.cta.program.text(line),
                              self.instruction.location)

    def register(self, name: str) -> Array:
        """The array of a register."""
        if name not in self.registers:
            type = self.cta.program.function.registers.get(name)
            if type is None:
                raise self.error(f"register {name} is not declared")
            self.registers[name] = np.zeros(self.threads, register_dtype(type))
        return self.registers[name]

    def flying(self, name: str) -> Array:
        """The marks of an accumulator; -1 where no product writes it."""
        return self._mark(self.marks, name)

    def fragment(self, name: str) -> Array:
        """The marks of an operand of wgmma in registers."""
        return self._mark(self.fragments, name)

    def _mark(self, table: dict[str, Array], name: str) -> Array:
        if name not in table:
            table[name] = np.full(self.threads, -1, np.int64)
            self.changed.setdefault(name, np.full(self.threads, -1, np.int64))
        return table[name]

    # ---- reading
    def source(self, operand: Operand, type: str) -> Array:
        """A view of `operand` as `type`: [threads], [2 * threads] of a packed type, or a scalar of a constant."""
        if isinstance(operand, Register):
            return self._register_view(operand, type)
        if isinstance(operand, Immediate):
            return self._constant(operand, type)
        if isinstance(operand, Special):
            return self._special(operand.name, type)
        if isinstance(operand, Symbol):
            return self._constant(Immediate(self.symbol_address(operand)), type)
        raise self.error(f"{operand} cannot be read as {type}")

    def _register_view(self, operand: Register, type: str) -> Array:
        array = self.register(operand.name)
        if type == "pred":
            if array.dtype != bool:
                raise self.error(f"{operand.name} is no predicate")
            if operand.negated:
                raise self.error("a negated predicate cannot stand here")
            return array
        if array.dtype == bool:
            raise self.error(f"{operand.name} is a predicate, {type} is wanted")
        dtype = storage(type)
        if dtype is None:
            if type == "b128" and array.ndim == 2:
                return array
            raise self.error(f"{type!r} is no type that a register is read as")
        wide, narrow = array.dtype.itemsize, dtype.itemsize * (2 if type in PACKED else 1)
        if wide == narrow:
            return array.view(dtype)
        if wide < narrow or array.ndim > 1:
            raise self.error(f"{operand.name} has {8 * wide} bits, {type} is wanted")
        if type in PACKED:
            raise self.error(f"{operand.name} has {8 * wide} bits, {type} is wanted")
        return array.view(dtype)[:: wide // narrow]

    def guard(self, name: str) -> Array:
        """The predicate register of a guard."""
        return self.source(Register(name), "pred")

    def predicate(self, operand: Operand) -> Callable[[], Array]:
        """A predicate that may be negated, or a constant."""
        if isinstance(operand, Register):
            array = self.source(Register(operand.name), "pred")
            return (lambda: ~array) if operand.negated else (lambda: array)
        constant = self.source(operand, "pred")
        return lambda: constant

    def _constant(self, operand: Immediate, type: str) -> Array:
        dtype = storage(type)
        if dtype is None or type == "b128":
            raise self.error(f"a constant cannot be read as {type}")
        if type == "pred":
            return np.array(bool(operand.value))
        if type in PACKED:
            size = 2 * dtype.itemsize
            whole = np.array(operand.value & ((1 << (8 * size)) - 1), f"u{size}")
            return np.ascontiguousarray(np.broadcast_to(whole, self.threads)).view(dtype)
        if operand.kind != "int" and dtype.kind == "f":
            bits = np.array(operand.value, np.uint32 if operand.kind == "f32" else np.uint64)
            return bits.view(np.float32 if operand.kind == "f32" else np.float64).astype(dtype)
        return np.array(operand.value & ((1 << (8 * dtype.itemsize)) - 1), f"u{dtype.itemsize}").view(dtype)

    def _special(self, name: str, type: str) -> Array:
        array = self.cta.special.get(name)
        if array is None:
            raise self.error(f"special register {name} has no meaning here")
        wanted = DTYPE.get(type)
        if wanted is None or wanted.kind == "f":
            raise self.error(f"{name} cannot be read as {type}")
        if wanted.itemsize == array.dtype.itemsize:
            return array.view(wanted)
        if wanted.itemsize > array.dtype.itemsize:
            raise self.error(f"{name} has {8 * array.dtype.itemsize} bits, {type} is wanted")
        raise self.error(f"{name} read as {type}: use cvt")

    def symbol_address(self, symbol: Symbol) -> int:
        """The address of a variable in its own space."""
        address = self.cta.addresses.get(symbol.name)
        if address is None:
            raise self.error(f"{symbol.name!r} is declared nowhere")
        return address + symbol.offset

    def items(self, operand: Operand) -> tuple[Operand, ...]:
        """Elements of a vector operand; a plain operand is its only element."""
        return operand.items if isinstance(operand, Vector) else (operand,)

    # ---- writing
    def put(self, operand: Operand, type: str) -> Put:
        """put(values of all threads or a scalar, on): write as `type`; a wider register is extended (PTX ISA 9.4.1)."""
        if isinstance(operand, Sink):
            return _forget
        if not isinstance(operand, Register):
            raise self.error(f"{operand} cannot be written")
        array = self.register(operand.name)
        if (array.dtype == bool) != (type == "pred"):
            raise self.error(f"{operand.name} cannot hold a result of type {type}")
        if type == "pred" or type == "b128":
            return _put_into(array)
        if type in PACKED:
            if array.dtype.itemsize != 2 * PACKED[type].itemsize:
                raise self.error(f"{operand.name} has {8 * array.dtype.itemsize} bits, {type} is wanted")
            return _put_packed(array, PACKED[type])
        dtype = DTYPE[type]
        if array.dtype.itemsize == dtype.itemsize:
            return _put_into(array.view(dtype))
        if array.dtype.itemsize < dtype.itemsize or array.ndim > 1:
            raise self.error(f"{operand.name} has {8 * array.dtype.itemsize} bits, {type} is wanted")
        if dtype.kind == "f":
            return _put_bits(array, dtype)
        return _put_into(array.view(f"i{array.dtype.itemsize}") if dtype.kind == "i" else array)

    def put_rows(self, operand: Operand, type: str) -> Put:
        """As `put`, with values of the lanes in `on` only."""
        if isinstance(operand, Sink):
            return _forget
        put = self.put(operand, type)
        dtype = DTYPE.get(type)
        if type == "b128":
            array = self.source(operand, type)

            def rows_of_pairs(values: Any, on: Mask) -> None:
                array[... if on is None else on] = values

            return rows_of_pairs
        whole = np.zeros(self.threads, dtype)

        def rows(values: Any, on: Mask) -> None:
            if on is None:
                put(values, None)
            else:
                whole[on] = values
                put(whole, on)

        return rows

    # ---- addresses
    def address(self, operand: Operand) -> Callable[[], Array]:
        """Addresses of all threads, int64 [threads]; of a memory operand."""
        if not isinstance(operand, Address):
            raise self.error("an address in [ ] is wanted")
        offset = operand.offset
        if isinstance(operand.base, Register):
            register = self.register(operand.base.name)
            base = register.view(np.int64) if register.dtype.itemsize == 8 else register
            if offset == 0:
                return lambda: base.astype(np.int64)
            step = np.int64(offset)
            return lambda: np.add(base, step, dtype=np.int64)
        if isinstance(operand.base, Symbol):
            fixed = self.symbol_address(operand.base) + offset
        elif isinstance(operand.base, Immediate):
            fixed = operand.base.value + offset
        else:
            raise self.error(f"{operand.base} is no address")
        constant = np.full(self.threads, fixed, np.int64)
        return lambda: constant


def _forget(values: Any, on: Mask) -> None:
    """The sink `_`."""


def _put_into(view: Array) -> Put:
    def put(values: Any, on: Mask) -> None:
        if on is None:
            view[...] = values
        else:
            np.copyto(view, values, where=on, casting="unsafe")

    return put


def _put_bits(array: Array, dtype: np.dtype[Any]) -> Put:
    """A float in a wider register: its bits, zero-extended."""
    unsigned = np.dtype(f"u{dtype.itemsize}")

    def put(values: Any, on: Mask) -> None:
        bits = np.asarray(values, dtype).view(unsigned)
        if on is None:
            array[...] = bits
        else:
            np.copyto(array, bits, where=on)

    return put


def _put_packed(array: Array, dtype: np.dtype[Any]) -> Put:
    def put(values: Any, on: Mask) -> None:
        whole = np.ascontiguousarray(values, dtype).view(array.dtype)
        if on is None:
            array[...] = whole
        else:
            np.copyto(array, whole, where=on)

    return put


def elementwise(bind: Binding, instruction: Instruction, meaning: Callable[..., Any], type: str, result: str = "",
                types: Sequence[str] = ()) -> Step:
    """d = meaning(sources...): `type` of the sources (or `types`, one each), `result` of d."""
    operands = instruction.operands
    wanted = types or [type] * (meaning.nin if isinstance(meaning, np.ufunc) else _arity(meaning, len(operands) - 1))
    if len(operands) - 1 != len(wanted):
        raise bind.error(f"takes {len(wanted)} sources, got {len(operands) - 1}")
    sources = [bind.source(o, t) for o, t in zip(operands[1:], wanted)]
    put = bind.put(operands[0], result or type)
    if len(sources) == 2:
        a, b = sources
        return lambda on: put(meaning(a, b), on)
    if len(sources) == 1:
        (a,) = sources
        return lambda on: put(meaning(a), on)
    return lambda on: put(meaning(*sources), on)


def _arity(meaning: Callable[..., Any], given: int) -> int:
    """How many sources a function takes; as many as are given if it takes any number."""
    code = getattr(meaning, "__code__", None)
    if code is None or code.co_flags & CO_VARARGS:
        return given
    return int(code.co_argcount) - len(meaning.__defaults__ or ())


def generic_window(space: str) -> int:
    """What is added to an address of `space` to make it generic (PTX ISA 6.4.1.1)."""
    return {"shared": SHARED_WINDOW, "local": LOCAL_WINDOW}.get(space, 0)


class Control:
    """A closure of control flow: takes a strand at its instruction, gives the next one or -1 (taken care of)."""

    __slots__ = ("run",)

    def __init__(self, run: Callable[[Any], int]) -> None:
        self.run = run


Made = Step | Control
