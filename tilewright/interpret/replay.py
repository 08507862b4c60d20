"""One program of a launch, run again to find the access that a memory fault came from.

Compiled code that faults knows the address and the program, but not the line.  The same program is interpreted here:
it reads memory as it is now, safely (`interpret.foreign`), and stores nothing, since its stores have been done.  The
access that cannot be read, or that covers the faulting address, is the one.  It may not be found: memory may have
changed since, or the program may take longer than `SECONDS`.
Tests: tests/interpret/test_replay.py.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from tilewright.diagnostics import BadAccess, Location
from tilewright.interpret import foreign
from tilewright.interpret.batched import Engine, bind_arguments
from tilewright.interpret.frame import Frame
from tilewright.interpret.known import Known
from tilewright.interpret.memory import Extent, Memory, MemoryAccessError, _Lanes, _Reach
from tilewright.ir.node import Module, Op

SECONDS = 3.0
Array = np.ndarray[Any, Any]


class Found(NamedTuple):
    """The access: what it was, where in its argument (None: its pointer came out of memory), and its line."""

    summary: str
    bad: BadAccess | None
    location: Location | None


def find_access(module: Module, grid: tuple[int, int, int], program: int, args: Sequence[object],
                extents: Sequence[Extent], address: int, places: Mapping[int, Location]) -> Found | None:
    """The access of `program` (its linear id) that faulted at `address`; None if that is not known.

    `args` and `extents` as `batched.run` takes them; `places` has the line of an op under its `id`.
    """
    engine = _Replay(module, grid, extents, address)
    arrays = bind_arguments(module.entry, args)
    engine.find_origins(arrays)
    with contextlib.suppress(Exception):        # whatever it is, the memory fault is what happened and what is told
        engine.run_programs(np.array([program], np.int64), arrays)
    if engine.found is None:
        return None
    op, error = engine.found
    return Found(error.summary, error.bad, places.get(id(op)))


class _Replay(Engine):
    """The batched engine on memory that it leaves alone; it remembers the first bad access."""

    def __init__(self, module: Module, grid: tuple[int, int, int], extents: Sequence[Extent], fault: int) -> None:
        memory = _Untouched(extents, fault)
        super().__init__(Known(module), grid, memory, lambda text: None)
        self.found: tuple[Op, MemoryAccessError] | None = None
        self._memory = memory
        self._deadline = time.monotonic() + SECONDS

    def evaluate(self, op: Op, frame: Frame) -> tuple[Array, ...]:
        if time.monotonic() > self._deadline:
            raise TimeoutError
        try:
            return super().evaluate(op, frame)
        except BaseException:
            if self.found is None and self._memory.refused is not None:
                self.found = op, self._memory.refused
            raise


class _Untouched(Memory):
    """Memory that is read by the system's copying calls alone, and never written."""

    def __init__(self, extents: Sequence[Extent], fault: int) -> None:
        super().__init__(extents)
        self._fault = fault
        self.refused: MemoryAccessError | None = None

    def _gather(self, address: Array, dtype: np.dtype[Any], reach: _Reach, lanes: _Lanes) -> Array:
        distance = self._fault - address.astype(np.int64)
        hit = np.flatnonzero((distance >= 0) & (distance < dtype.itemsize))
        try:
            if hit.size:
                raise foreign.BadAddressError(int(hit[0]), "it is no memory for this access")
            return foreign.read(address, dtype)
        except foreign.BadAddressError as error:
            self.refused = self._refusal(address, dtype, reach, lanes, error)
            raise self.refused from None

    def _scatter(self, address: Array, value: Array, reach: _Reach, lanes: _Lanes) -> None:
        self._gather(address, value.dtype, reach, lanes)

    def _refusal(self, address: Array, dtype: np.dtype[Any], reach: _Reach, lanes: _Lanes,
                 error: foreign.BadAddressError) -> MemoryAccessError:
        where = int(address[error.index])
        row, index = lanes.place(error.index)
        if reach.foreign or not reach.extents:
            return MemoryAccessError(f"{lanes.what} at address {where & 2**64 - 1:#x}, which came out of memory", row,
                                     index)
        bad = self._nearest(reach, lanes.what, where, dtype.itemsize, index)
        return MemoryAccessError(str(bad), row, index, bad)
