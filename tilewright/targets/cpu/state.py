"""What code generation knows while it walks a kernel: bindings of values, scratch memory, messages.

Every tile-IR value that is in scope has a *binding*: a scalar is a uniform `Lane`; a tile is either a `Buffer` in
scratch memory (it has been computed) or `Virtual` (it is computed where it is used).  Scratch is laid out while the
kernel is walked; a buffer is freed after the last op that needs it, so its bytes are used again.
Tests: tests/targets/cpu/test_state.py.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tilewright.analysis.offsets import Offsets
from tilewright.diagnostics import Location
from tilewright.ir.node import Module, Op, Value
from tilewright.ir.types import Element, Tile, Type
from tilewright.targets.cpu.code import Code
from tilewright.targets.cpu.lanes import Lane, uniform
from tilewright.targets.cpu.tile_registers import Tiles
from tilewright.targets.llvm.lines import LineTable
from tilewright.targets.llvm.types import I8, PTR, integer_value
from tilewright.targets.llvm.types import Value as LlvmValue

_ALIGN = 64


@dataclass(frozen=True, slots=True)
class Buffer:
    """A tile in scratch: row-major from byte `offset`, or from `start` on, of `element` in its storage form."""

    offset: int
    shape: tuple[int, ...]
    element: Element
    start: LlvmValue | None = None      # its address, where it is not the same one each time

    @property
    def bytes(self) -> int:
        return math.prod(self.shape) * self.element.bytes

    @property
    def strides(self) -> tuple[int, ...]:
        """Elements between neighbours along each dimension."""
        return tuple(math.prod(self.shape[d + 1:]) for d in range(len(self.shape)))


@dataclass(frozen=True, slots=True)
class Virtual:
    """Result `index` of `op`, computed where it is used."""

    op: Op
    index: int = 0


Binding = Lane | Buffer | Virtual


class Scratch:
    """Offsets for buffers, first fit among the bytes that are free; `size` is the most that was ever in use."""

    def __init__(self) -> None:
        self._free: list[tuple[int, int]] = []      # (start, end), in order, below `size`
        self.size = 0

    def take(self, size: int) -> int:
        """The offset of `size` free bytes, 64-aligned."""
        size = -(-size // _ALIGN) * _ALIGN
        for k, (start, end) in enumerate(self._free):
            if end - start >= size:
                self._free[k:k + 1] = [(start + size, end)] if end - start > size else []
                return start
        start = self.size
        if self._free and self._free[-1][1] == self.size:
            start = self._free.pop()[0]
        self.size = start + size
        return start

    def take_apart(self, size: int) -> int:
        """The offset of `size` bytes that no buffer shares at any time, 64-aligned; they are never given back."""
        start = self.size
        self.size += -(-size // _ALIGN) * _ALIGN
        return start

    def give(self, offset: int, size: int) -> None:
        """Free what `take(size)` gave."""
        end = offset + -(-size // _ALIGN) * _ALIGN
        ranges = sorted([*self._free, (offset, end)])
        merged: list[tuple[int, int]] = []
        for start, stop in ranges:
            if merged and merged[-1][1] == start:
                merged[-1] = (merged[-1][0], stop)
            else:
                merged.append((start, stop))
        self._free = merged


@dataclass(frozen=True, slots=True)
class Loop:
    """A counted loop that is being written: the number of the iteration and that of all of them (i64)."""

    count: LlvmValue
    total: LlvmValue

    @property
    def trips(self) -> int | None:
        """The number of all iterations, if it is known."""
        return integer_value(self.total)


@dataclass(slots=True)
class Messages:
    """What the host shows when the kernel prints or an assertion fails, and whether it must be able to stop it."""

    asserts: list[Mapping[str, Any]] = field(default_factory=list)
    prints: list[Mapping[str, Any]] = field(default_factory=list)
    accesses: list[Mapping[str, Any]] = field(default_factory=list)     # those that may leave their extent
    loops: list[Location] = field(default_factory=list)     # those that poll
    waits: bool = False                                     # it has a `while` loop, which may run for ever


class Kernel:
    """The state of one kernel's code generation."""

    def __init__(self, module: Module, code: Code, vector_bits: int) -> None:
        self.module = module
        self.offsets = Offsets(module)
        self.code = code
        self.vector_bits = vector_bits
        self.bindings: dict[Value, Binding] = {}
        self.scratch = Scratch()
        self.messages = Messages()
        self.loops: list[Loop] = []                     # the counted loops around, outermost first
        self.tiles: Tiles | None = None                 # None: no product is made of tiles
        self.panels: list[tuple[int, int]] = []         # states to clear for a launch: byte offset and number of words
        self.context = code.params[3]
        self.scratch_base = self.context_word(3, PTR)
        self.checks_bounds = True
        self.atomics = False            # whether it asks if other launches work on atomically
        self.tested: set[Op] = set()    # accesses that have been tested on every way to where we are (`extents`)
        self.lines: LineTable | None = None     # None: nobody wants to know the user's lines
        self.program: tuple[LlvmValue, ...] = ()       # index along x, y, z as i64, and the linear index

    def context_word(self, index: int, t: Any) -> LlvmValue:
        """A word of the launch's context (the contract is in `targets.cpu.host.portable`)."""
        return self.code.shared_load(
            f"load {t}, {self.code.gep(self.context, index, t if str(t) == 'i64' else PTR)}, align 8", t, 0)

    def mark(self, op: Op) -> str:
        """What ends the instructions of `op`: its line, if lines are wanted."""
        return "" if self.lines is None else self.lines.mark(op.loc)

    def scalar(self, value: Value) -> Lane:
        """The binding of a scalar."""
        binding = self.bindings[value]
        assert isinstance(binding, Lane)
        return binding

    def bind_scalar(self, value: Value, llvm: LlvmValue) -> None:
        assert not isinstance(value.type, Tile)
        self.bindings[value] = uniform(value.type, llvm)

    def new_buffer(self, t: Type) -> Buffer:
        """Scratch for a tile of type `t`."""
        assert isinstance(t, Tile)
        buffer = Buffer(0, t.shape, t.element)
        return Buffer(self.scratch.take(buffer.bytes), t.shape, t.element)

    def start_of(self, buffer: Buffer) -> LlvmValue:
        """The address of a tile in scratch."""
        return buffer.start if buffer.start is not None else self.code.gep(self.scratch_base, buffer.offset, I8)

    def renew_tiles(self) -> None:
        """Behind a call that may have left the tile registers in any state."""
        if self.tiles is not None:
            self.tiles.renew(self.code)

    def free(self, buffer: Buffer) -> None:
        self.scratch.give(buffer.offset, buffer.bytes)

    def lanes_for(self, wide: bool) -> int:
        """Lanes of a group: a vector register of 4-byte elements, or of 8-byte ones if `wide`."""
        return max(2, self.vector_bits // (64 if wide else 32))

    def lanes_for_moving(self, lanes: int) -> int:
        """Lanes of a group that is loaded and stored with little in between, where others have `lanes`.

        Where 512 bits are halved, lines of the third cache come faster in halves: adding 1M numbers takes 0.86 times as
        long, and as long as before in nearer caches and from memory (Zen 4, 2026-11-30).
        """
        return lanes // 2 if self.code.isa.halved else lanes

    @property
    def least_streamed(self) -> int:
        """Bytes of a vector from which its store may bypass the caches."""
        return self.vector_bits // 8
