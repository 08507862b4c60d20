"""A region of global memory, what is tested of it, and its accesses by several CTAs.

CTAs run one after another, so between them nothing is ordered but by atomics, fences and acquire/release
(`synchronise.py` fills `ordered`).  Two CTAs that write the same value to a place are let pass.
Tests: tests/targets/nvidia/ptx/test_ordering.py.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from tilewright.targets.nvidia.ptx.clocks import Tracker
from tilewright.targets.nvidia.ptx.report import Fault

Array = np.ndarray[Any, Any]
_NOBODY, _SEVERAL = 0, -1       # in place of a CTA's number, which is kept plus one: memory of zeros costs nothing


@dataclass(frozen=True, slots=True)
class Checks:
    """What is tested beside bounds and alignment, which always are; `memory_counters` counts sectors and wavefronts.

    `copied_proxies`: what cp.async wrote needs a fence.proxy.async before wgmma reads it, as PTX ISA 8.3 has it; Triton
    leaves that out, and an H200 takes it.
    """

    races: bool = True
    uninitialised: bool = True
    memory_counters: bool = False
    copied_proxies: bool = True


class _Memory(Protocol):
    cta: int
    ctas: int

    @property
    def ordered(self) -> set[int]: ...


class Region:
    """Bytes at `base`; those from address `low` to `high` are in bounds."""

    def __init__(self, name: str, base: int, data: Array, low: int, high: int, writable: bool) -> None:
        self.name, self.base, self.data = name, base, data
        self.low, self.high, self.writable = low, high, writable
        self.changed = False
        self.unwritten: Array | None = None       # a flag a byte, where reading before writing is a fault
        self.tracker: Tracker | None = None       # of the CTA that runs, one of these by rank in the cluster
        self.trackers: dict[int, Tracker] = {}
        self.by_cta: dict[str, Array] = {}        # kind of access -> the CTA that made it, a cell

    # ---- initialisation
    def check_written(self, offset: Array, size: int, threads: Array) -> None:
        assert self.unwritten is not None
        fresh = self.unwritten[offset[:, None] + np.arange(size)].any(1)
        if fresh.any():
            at = int(np.flatnonzero(fresh)[0])
            raise Fault("uninitialised", f"a read of {self.name}, byte {int(offset[at]) + self.base - self.low}, which "
                        "nothing wrote", (int(threads[at]),))

    def note_written(self, offset: Array, size: int) -> None:
        assert self.unwritten is not None
        self.unwritten[offset[:, None] + np.arange(size)] = False

    # ---- races
    def _ctas(self, kind: str) -> Array:
        if kind not in self.by_cta:
            assert self.tracker is not None
            self.by_cta[kind] = np.zeros(self.tracker.cells, np.int32)
        return self.by_cta[kind]

    def _others(self, kind: str, cells: Array, memory: _Memory) -> Array | None:
        """Which cells another CTA touched in this way, with nothing that orders it before."""
        if memory.ctas == 1:
            return None
        if kind not in self.by_cta:
            return None
        who = self.by_cta[kind][cells]
        bad = (who != _NOBODY) & (who != memory.cta + 1)
        if not bad.any():
            return None
        if memory.ordered:
            bad &= ~np.isin(who, [*(cta + 1 for cta in memory.ordered), _SEVERAL])
        return bad if bad.any() else None

    def _note(self, kind: str, cells: Array, memory: _Memory) -> None:
        if memory.ctas == 1:
            return
        ctas = self._ctas(kind)
        mine, old = memory.cta + 1, ctas[cells]
        ctas[cells] = np.where((old == _NOBODY) | (old == mine) | (kind == "write"), mine, _SEVERAL)

    def _report(self, bad: Array, cells: Array, threads: Array, what: str) -> None:
        at = int(np.flatnonzero(bad)[0])
        assert self.tracker is not None
        raise Fault("race", f"{what}, with nothing that orders them ({self.name}, byte "
                    f"{(int(cells[at]) << self.tracker.shift) + self.base - self.low})", (int(threads[at]),))

    def read(self, offset: Array, size: int, threads: Array, memory: _Memory, strong: bool) -> None:
        assert self.tracker is not None
        if strong:
            return
        cells, who = self.tracker.cells_of(offset, size, threads)
        self.tracker.on_read(cells, who)
        for kind, what in (("write", "a read after a write by another CTA"),
                           ("atomic", "a plain read after an atomic operation of another CTA")):
            bad = self._others(kind, cells, memory)
            if bad is not None:
                self._report(bad, cells, who, what)
        self._note("read", cells, memory)

    def write(self, offset: Array, values: Array, threads: Array, memory: _Memory, strong: bool) -> None:
        assert self.tracker is not None
        size = values.dtype.itemsize * values.shape[1]
        cells, who = self.tracker.cells_of(offset, size, threads)
        if strong:
            self.tracker.on_write(cells, who, atomic=True)
            self._note("atomic", cells, memory)
            return
        same = self._holding(offset, values, len(cells))
        self.tracker.on_write(cells, who, same=same)
        for kind in ("write", "read", "atomic"):
            bad = self._others(kind, cells, memory)
            if bad is not None:
                bad = bad & ~same()
                if bad.any():
                    self._report(bad, cells, who, f"a write after a {kind} by another CTA")
        self._note("write", cells, memory)

    def _holding(self, offset: Array, values: Array, cells: int) -> Callable[[], Array]:
        """Of each cell: does it hold what is about to be written?"""
        def same() -> Array:
            raw = np.ascontiguousarray(values).view(np.uint8).reshape(len(offset), -1)
            equal = (self.data[offset[:, None] + np.arange(raw.shape[1])] == raw).all(1)
            return np.repeat(equal, cells // max(1, len(offset)))

        return same

    def atomic(self, offset: Array, size: int, threads: Array, memory: _Memory) -> None:
        assert self.tracker is not None
        cells, who = self.tracker.cells_of(offset, size, threads)
        self.tracker.on_write(cells, who, atomic=True)
        for kind in ("write", "read"):
            bad = self._others(kind, cells, memory)
            if bad is not None:
                self._report(bad, cells, who, f"an atomic operation after a plain {kind} by another CTA")
        self._note("atomic", cells, memory)
