"""A program's shared memory: a stack of buffers, and scratch on top that all uses share.

`Stack` says what lies where, of ops in the order of a program (`allocation` walks one; no code is needed for that).
`SharedMemory` writes the addresses and barriers of what was laid out so, in the same order.

A use of scratch is `begin`, writes, `meet`, reads.  The barrier of `meet` shows every thread what the others wrote; one
in front of the writes keeps them from overtaking reads of the use before.  That one is left out where it can be: behind
a `meet` only the bytes of that use may still be read, so a small use takes bytes next to them.  Two places in turn are
enough.  Where control flow joins, nothing is known of what is still read.
Tests: tests/targets/nvidia/test_shared.py; the PTX machine finds a missing barrier as a race.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tilewright.ir.node import Op
from tilewright.targets.llvm.types import I32, Value, constant
from tilewright.targets.nvidia.emit.code import Code

SYMBOL = "tilewright_shared"
ALIGN = 128             # what swizzles of 128 bytes need
_SMALL = 2048           # bytes of a use that may lie beside the last one; a larger one would cost programs on the SM
_NOTHING = range(0)


@dataclass(frozen=True, slots=True)
class Need:
    """Arrays of so many bytes that an op needs at once, side by side, each at a multiple of `unit`."""

    sizes: tuple[int, ...]
    unit: int = 1
    align: int = ALIGN      # of the first one, in bytes

    @property
    def offsets(self) -> tuple[int, ...]:
        """Where each array begins, in bytes."""
        found = [0]
        for size in self.sizes:
            found.append(found[-1] + _aligned(size, self.unit))
        return tuple(found[:-1])

    @property
    def bytes(self) -> int:
        return sum(_aligned(size, self.unit) for size in self.sizes)


@dataclass(frozen=True, slots=True)
class Use:
    """A need that is met: from byte `start` on, behind a barrier if it `waits`."""

    need: Need
    start: int
    waits: bool = False

    @property
    def stop(self) -> int:
        return self.start + self.need.bytes


class Stack:
    """Where buffers and scratch lie, told of in the order of the program; offsets and sizes are in bytes."""

    def __init__(self) -> None:
        self.size = 0           # what the program needs
        self._taken = 0         # by the buffers in use here
        self._before: list[int] = []    # for each of them, what was taken before it
        self._read: range | None = _NOTHING     # the bytes that some thread may still read; None if that is not known

    # -- scratch

    def use(self, need: Need) -> Use:
        """Bytes that nobody reads any more, which are written, shown to all threads, and read."""
        made = self._begun(need)
        self.size = max(self.size, made.stop)
        self._read = range(made.start, made.stop)
        return made

    def _begun(self, need: Need) -> Use:
        first = _aligned(self._taken, need.align)
        if self._read is None:
            return Use(need, first, waits=True)
        if not _meet(range(first, first + need.bytes), self._read):
            return Use(need, first)
        if need.bytes <= _SMALL:
            return Use(need, _aligned(self._read.stop, need.align))
        return Use(need, first, waits=True)

    def barrier(self) -> None:
        """All threads arrive; nothing of before is still read."""
        self._read = _NOTHING

    def forget(self) -> None:
        """Control flow joins here."""
        self._read = None

    # -- buffers

    def allocate(self, need: Need) -> Use:
        """Bytes that stay taken until `free`; others may still read what lay there."""
        self._before.append(self._taken)
        made = Use(need, _aligned(self._taken, need.align))
        self._taken = _aligned(made.stop, ALIGN)
        self.size = max(self.size, self._taken)
        return made

    def free(self) -> None:
        """Give the buffer that was taken last back."""
        self._taken = self._before.pop()
        self.forget()


@dataclass(frozen=True, slots=True)
class Allocation:
    """What a program takes of shared memory: all uses in the order of the program, with the ops whose they are."""

    bytes: int
    align: int              # the largest that is asked for
    uses: Sequence[tuple[Op, Use]]


class Scratch:
    """The address of a use, an i32, as shared memory is addressed in PTX, and where in it the arrays begin."""

    def __init__(self, code: Code, address: Value, offsets: Sequence[int]) -> None:
        self._code, self.address, self._offsets = code, address, offsets

    @property
    def arrays(self) -> int:
        """How many there are."""
        return len(self._offsets)

    def array(self, number: int) -> Value:
        """The address of an array."""
        offset = self._offsets[number]
        return self._code.op("add", self.address, constant(I32, offset)) if offset else self.address


class SharedMemory:
    """The code of an allocation; ops ask for their uses in its order, for no more, and for all."""

    def __init__(self, code: Code, allocation: Allocation) -> None:
        self._code = code
        self._align = allocation.align
        self._uses = allocation.uses
        self._next = 0
        self._base: Value | None = None

    def serves(self, op: Op) -> bool:
        """Whether the next use is one of `op`."""
        return self._next < len(self._uses) and self._uses[self._next][0] is op

    def begin(self, op: Op) -> Scratch:
        """The next use, which is one of `op`: bytes that nobody reads any more."""
        assert self.serves(op), f"{op.name} takes shared memory that was not counted"
        use = self._uses[self._next][1]
        self._next += 1
        if use.waits:
            self.barrier()
        return Scratch(self._code, self._at(use.start), use.need.offsets)

    def meet(self) -> None:
        """What was written since `begin` is there for all threads."""
        self.barrier()

    def barrier(self) -> None:
        """All threads arrive."""
        self._code.barrier()

    def end(self) -> None:
        """The program is written."""
        left = self._uses[self._next:]
        assert not left, f"{left[0][0].name} was to take shared memory, and did not"

    def _at(self, offset: int) -> Value:
        if self._base is None:
            self._code.module.add_global(f"@{SYMBOL} = external addrspace(3) global [0 x i8], align {self._align}")
            with self._code.entry():
                self._base = self._code.emit(I32, f"ptrtoint ptr addrspace(3) @{SYMBOL} to i32")
        return self._code.op("add", self._base, constant(I32, offset)) if offset else self._base


def alignment(swizzle: int) -> int:
    """The alignment in bytes of a tile with the hardware's swizzle of so many bytes: it permutes eight rows of these by
    bits of the address."""
    return max(ALIGN, 8 * swizzle)


def _aligned(offset: int, align: int) -> int:
    return -(-offset // align) * align


def _meet(a: range, b: range) -> bool:
    return a.start < b.stop and b.start < a.stop
