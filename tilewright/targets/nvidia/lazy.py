"""Registers that are written when somebody first asks for them, where the value that they are part of was made.

Of a tile of addresses an access in runs takes one register of each run; what nobody takes costs neither text nor
LLVM's time.  Before: code that makes one register, and nothing that joins ways.  Tests: tests/targets/nvidia/.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import overload

from tilewright.targets.llvm.types import Value
from tilewright.targets.nvidia.emit.code import Code


class Lazy(Sequence[Value]):
    """`count` registers, of which `make` writes one."""

    def __init__(self, code: Code, count: int, make: Callable[[int], Value]) -> None:
        self._code, self._count, self._make = code, count, make
        self._place = code.here()
        self._made: dict[int, Value] = {}

    def __len__(self) -> int:
        return self._count

    @overload
    def __getitem__(self, index: int) -> Value: ...

    @overload
    def __getitem__(self, index: slice) -> Sequence[Value]: ...

    def __getitem__(self, index: int | slice) -> Value | Sequence[Value]:
        if isinstance(index, slice):
            return tuple(self[k] for k in range(*index.indices(self._count)))
        if not 0 <= index < self._count:
            raise IndexError(index)
        made = self._made.get(index)
        if made is None:
            made = self._made[index] = self._code.at(self._place, partial(self._make, index))
        return made


class Picked(Sequence[Value]):
    """Some registers of others, by number."""

    def __init__(self, source: Sequence[Value], numbers: Sequence[int]) -> None:
        self._source, self._numbers = source, numbers

    def __len__(self) -> int:
        return len(self._numbers)

    @overload
    def __getitem__(self, index: int) -> Value: ...

    @overload
    def __getitem__(self, index: slice) -> Sequence[Value]: ...

    def __getitem__(self, index: int | slice) -> Value | Sequence[Value]:
        if isinstance(index, slice):
            return Picked(self._source, self._numbers[index])
        return self._source[self._numbers[index]]


def registers_of(code: Code, count: int, make: Callable[[int], Value]) -> Sequence[Value]:
    """`count` registers made by `make`, which writes straight code: later, where that can be."""
    if count == 1 or not code.can_wait:
        return tuple(make(r) for r in range(count))
    return Lazy(code, count, make)
