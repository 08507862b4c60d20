"""Who touched which cell of memory in a launch, and whether two programs did so without order.

A cell has three marks: the program that wrote it last, one that read it and one that accessed it atomically since.
Two accesses of different programs conflict if one of them writes and not both are atomic, unless atomic operations
put them in order: a program that *uses* what an atomic operation found (or reads a volatile flag) knows everything
that the programs before it at that address did until then (`Order`).  Atomic operations whose result nobody uses can
have kept nobody waiting, and relaxed ones order nothing.  Two programs that store the same bits in a cell do not
conflict.  The marks keep one accessor of each kind, so of many conflicts one is found, and none is invented.
Tests: tests/check/test_races.py.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

Array = np.ndarray[Any, Any]

# With more programs than this, nothing is reported in a launch that synchronises: the clocks would not fit.
MOST_ORDERED = 4096
_MOST_PLACES = 2048
_CHANGED = "atomically changed"


class Conflict(NamedTuple):
    """Lane `lane` of this access and an earlier one by `program` (-1: not known which), op `op`, a `kind` of access."""

    lane: int
    kind: str
    program: int
    op: int


class Order:
    """Which accesses happened before which, by vector clocks: a program's clock counts its releases."""

    def __init__(self, programs: int) -> None:
        self._programs = programs
        self.epochs = np.zeros(min(programs, MOST_ORDERED), np.int32)
        self._known: dict[int, Array] = {}              # by program: the clocks that it knows of
        self._left: dict[int, Array] = {}               # by address: the clocks that were released there

    @property
    def gives_up(self) -> bool:
        return self._programs > MOST_ORDERED

    def synchronise(self, program: int, place: int, acquires: bool, releases: bool) -> None:
        """An atomic access of `program` at the address `place`."""
        if self.gives_up:
            return
        if place not in self._left and len(self._left) >= _MOST_PLACES:
            place = -1
        left = self._left.get(place)
        if acquires and left is not None:
            known = self._known.get(program)
            self._known[program] = left.copy() if known is None else np.maximum(known, left)
        if releases:
            self.epochs[program] += 1
            known = self._known.get(program)
            mine = np.zeros(self._programs, np.int32) if known is None else known.copy()
            mine[program] = self.epochs[program]
            self._left[place] = mine if left is None else np.maximum(left, mine)

    def before(self, other: Array, epoch: Array, program: Array) -> Array:
        """Whether the access of `other` at its `epoch` happened before what `program` does now."""
        if self.gives_up:
            return np.ones(other.shape, np.bool_)
        out: Array = np.zeros(other.shape, np.bool_)
        for p in np.unique(program):
            known = self._known.get(int(p))
            if known is not None:
                rows = program == p
                out[rows] = known[other[rows]] > epoch[rows]
        return out


class _Marks:
    """For each cell: 0, or program + 1, or -(program + 1) if there were several, of whom this was the last."""

    def __init__(self, cells: int) -> None:
        self.who = np.zeros(cells, np.int32)
        self.op = np.zeros(cells, np.int32)
        self.epoch = np.zeros(cells, np.int32)

    def others(self, cells: Array, mine: Array) -> Array:
        """Where another program than `mine` (program + 1) has left its mark."""
        who = self.who[cells]
        return np.asarray((who < 0) | ((who > 0) & (who != mine)))

    def add(self, cells: Array, mine: Array, op: int, epoch: Array, several: Array) -> None:
        """Leave the mark of `mine`; `several` where the cell has marks of others, too."""
        self.who[cells] = np.where(several, -mine, mine)
        shared = cells[np.abs(self.who[cells]) != mine]     # also touched by a later lane of this very access
        self.who[shared] = -np.abs(self.who[shared])
        self.op[cells] = op
        self.epoch[cells] = epoch

    def clear(self, cells: Array) -> None:
        self.who[cells] = 0


class Races:
    """The marks of a launch.  Each method takes flat arrays: the cells of every access, and its program."""

    def __init__(self, cells: int, order: Order | None) -> None:
        self._written, self._read, self._atomic = _Marks(cells), _Marks(cells), _Marks(cells)
        self._order = order

    def read(self, cells: Array, program: Array, op: int) -> Conflict | None:
        """A plain read: it conflicts with writes of others, unless these all stored the same."""
        flat, mine, lane = _flat(cells, program)
        one = self._written.who[flat]
        found = (self._conflict(self._written, "stored to", (one > 0) & (one != mine), flat, mine, lane)
                 or self._conflict(self._atomic, _CHANGED, self._atomic.others(flat, mine), flat, mine, lane))
        if found is None:
            self._read.add(flat, mine, op, self._epochs(mine), self._read.others(flat, mine))
        return found

    def touch_atomically(self, cells: Array, program: Array, op: int, writes: bool = True) -> Conflict | None:
        """An atomic access, or a volatile read (`writes` is False): it conflicts with plain accesses of others."""
        flat, mine, lane = _flat(cells, program)
        found = self._conflict(self._written, "stored to", self._written.others(flat, mine), flat, mine, lane)
        if found is None and writes:
            found = self._conflict(self._read, "read", self._read.others(flat, mine), flat, mine, lane)
        if found is None and writes:
            self._atomic.add(flat, mine, op, self._epochs(mine), self._atomic.others(flat, mine))
        return found

    def write(self, cells: Array, program: Array, op: int, changes: Callable[[Array], Array]) -> Conflict | None:
        """A store, about to be done; `changes` says of lanes whether they store other bits than memory has."""
        flat, mine, lane = _flat(cells, program)
        found = (self._conflict(self._read, "read", self._read.others(flat, mine), flat, mine, lane)
                 or self._conflict(self._atomic, _CHANGED, self._atomic.others(flat, mine), flat, mine, lane))
        if found is not None:
            return found
        again = self._written.others(flat, mine)
        rows = np.flatnonzero(again)
        if rows.size:
            again[rows] &= ~self._ordered(self._written, flat[rows], mine[rows])
            rows = np.flatnonzero(again)
            differs = changes(lane[rows])
            if differs.any():
                return self._of(self._written, "stored something else to", flat, lane, int(rows[np.argmax(differs)]))
        self._read.clear(flat)
        self._atomic.clear(flat)
        self._written.add(flat, mine, op, self._epochs(mine), again)
        return None

    def written_over(self, cells: Array, program: Array, op: int, changed: Callable[[Array], Array]) -> Conflict | None:
        """After that store: a lane whose cell has the mark and other bits of another program of the same store."""
        flat, mine, lane = _flat(cells, program)
        rows = np.flatnonzero(np.abs(self._written.who[flat]) != mine)
        if rows.size:
            differs = changed(lane[rows])
            if differs.any():
                return self._of(self._written, "stored something else to", flat, lane, int(rows[np.argmax(differs)]))
        return None

    def untouched(self, cells: Array) -> Array:
        """Of each access, whether the launch has written none of its cells yet."""
        return np.asarray(((self._written.who[cells] == 0) & (self._atomic.who[cells] == 0)).all(axis=1))

    def _epochs(self, mine: Array) -> Array:
        if self._order is None or self._order.gives_up:
            return np.zeros(mine.shape, np.int32)
        return np.asarray(self._order.epochs[mine - 1])

    def _ordered(self, marks: _Marks, cells: Array, mine: Array) -> Array:
        if self._order is None:
            return np.zeros(cells.shape, np.bool_)
        other = np.abs(marks.who[cells])
        return np.asarray((other == mine) | self._order.before(other - 1, marks.epoch[cells], mine - 1))

    def _conflict(self, marks: _Marks, kind: str, others: Array, flat: Array, mine: Array,
                  lane: Array) -> Conflict | None:
        rows = np.flatnonzero(others)
        if rows.size:
            rows = rows[~self._ordered(marks, flat[rows], mine[rows])]
        return self._of(marks, kind, flat, lane, int(rows[0]), mine) if rows.size else None

    @staticmethod
    def _of(marks: _Marks, kind: str, flat: Array, lane: Array, row: int, mine: Array | None = None) -> Conflict:
        who = int(np.abs(marks.who[flat[row]]))
        known = mine is None or who != int(mine[row])       # else the mark of the last of several is our own
        return Conflict(int(lane[row]), kind, who - 1 if known else -1, int(marks.op[flat[row]]))


def _flat(cells: Array, program: Array) -> tuple[Array, Array, Array]:
    """Cells, program + 1 and lane, each for every cell of every access."""
    count, across = cells.shape
    return (cells.reshape(-1), np.repeat(program.astype(np.int32) + 1, across),
            np.repeat(np.arange(count), across))
