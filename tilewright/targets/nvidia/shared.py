"""A program's shared memory while its code is written: a stack of buffers, and scratch on top that all uses share.

A use of scratch is `begin`, writes, `meet`, reads.  The barrier of `meet` shows every thread what the others wrote; one
in front of the writes keeps them from overtaking reads of the use before.  That one is left out where it can be: behind
a `meet` only the bytes of that use may still be read, so a small use takes bytes next to them.  Two places in turn are
enough.  Where control flow joins, nothing is known of what is still read.
Tests: tests/targets/nvidia/test_shared.py; the PTX machine finds a missing barrier as a race.
"""

from __future__ import annotations

from tilewright.targets.llvm.types import I32, Value, constant
from tilewright.targets.nvidia.emit.code import Code

SYMBOL = "tilewright_shared"
_ALIGN = 128            # what swizzles of 128 bytes need
_SMALL = 2048           # bytes of a use that may lie beside the last one; a larger one would cost programs on the SM
_NOTHING = range(0)


class SharedMemory:
    """Addresses are i32, as shared memory is addressed in PTX; `align`: the largest that is asked for."""

    def __init__(self, code: Code, align: int = _ALIGN) -> None:
        self._align = align
        self.size = 0           # bytes that the program needs
        self._code = code
        self._base: Value | None = None
        self._taken = 0         # bytes of the buffers in use here
        self._before: list[int] = []    # for each of them, what was taken before it
        self._use = _NOTHING    # the bytes of the use of scratch that began last
        self._read: range | None = _NOTHING     # the bytes that some thread may still read; None if that is not known

    # -- scratch

    def begin(self, size: int, align: int = _ALIGN) -> Value:
        """The address of `size` bytes that nobody reads any more."""
        first = _aligned(self._taken, align)
        use = range(first, first + size)
        if self._read is None:
            self.barrier()
        elif _meet(use, self._read):
            if size <= _SMALL:
                start = _aligned(self._read.stop, align)
                use = range(start, start + size)
            else:
                self.barrier()
        self._use = use
        self.size = max(self.size, use.stop)
        return self._at(use.start)

    def meet(self) -> None:
        """What was written since `begin` is there for all threads."""
        self.barrier()
        self._read = self._use

    def barrier(self) -> None:
        """All threads arrive; nothing of before is still read."""
        self._code.barrier()
        self._read = _NOTHING

    def forget(self) -> None:
        """Control flow joins here."""
        self._read = None

    # -- buffers

    def allocate(self, size: int, align: int = _ALIGN) -> Value:
        """The address of `size` bytes that stay taken until `free`; others may still read what lay there."""
        self._before.append(self._taken)
        start = _aligned(self._taken, align)
        self._taken = _aligned(start + size, _ALIGN)
        self.size = max(self.size, self._taken)
        return self._at(start)

    def free(self) -> None:
        """Give the buffer that was taken last back."""
        self._taken = self._before.pop()
        self.forget()

    def _at(self, offset: int) -> Value:
        if self._base is None:
            self._code.module.add_global(f"@{SYMBOL} = external addrspace(3) global [0 x i8], align {self._align}")
            with self._code.entry():
                self._base = self._code.emit(I32, f"ptrtoint ptr addrspace(3) @{SYMBOL} to i32")
        return self._code.op("add", self._base, constant(I32, offset)) if offset else self._base


def alignment(swizzle: int) -> int:
    """The alignment in bytes of a tile with the hardware's swizzle of so many bytes: it permutes eight rows of these by
    bits of the address."""
    return max(_ALIGN, 8 * swizzle)


def _aligned(offset: int, align: int) -> int:
    return -(-offset // align) * align


def _meet(a: range, b: range) -> bool:
    return a.start < b.stop and b.start < a.stop
