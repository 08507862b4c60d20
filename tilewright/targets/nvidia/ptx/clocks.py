"""Vector clocks of warps, and who touched which cell of memory when: data races, whatever the interleaving showed.

An *agent* is a warp, the tensor cores of a warpgroup, which read operands on their own, or an mbarrier on whose behalf
asynchronous copies write.  `seen[w, a]` is the last time of agent
`a` whose actions are ordered before what warp `w` does now; `now[w]` is the time at which it acts.  A synchronising
action hands a warp's clock on and advances it.  Inside a warp, other lanes' accesses count as ordered only after
bar.warp.sync or a barrier (PTX ISA 8.8), a thread's own always.  (Vector clocks: Mattern 1989; one record per cell for
writes, one per warp for reads, after FastTrack: Flanagan, Freund, PLDI 2009.)
Tests: tests/targets/nvidia/ptx/test_clocks.py, test_faults.py.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tilewright.targets.nvidia.ptx.report import Fault

Array = np.ndarray[Any, Any]

CODE_BITS = 12                    # of a record: who, below the time
FIRST_AGENT_CODE = 1024           # codes below are threads
FIRST_TENSOR_AGENT = 32           # the tensor cores of each warpgroup, then mbarriers
FIRST_BARRIER_AGENT = 40
_AGENT_OF_CODE = np.concatenate([np.arange(1024) // 32, 32 + np.arange(4096 - 1024)])
_NOTHING = np.zeros(1, bool)
SEVERAL = 63                      # in a record of reads: more than one lane of the warp


class Clocks:
    """The clocks of one CTA's warps.  Time never goes back, so records of earlier CTAs count as ordered."""

    def __init__(self, warps: int) -> None:
        self.warps = warps
        self.start(0)

    def start(self, after: int) -> None:
        """A new CTA, all of whose times are later than `after`."""
        agents = 32 + 16
        self.seen = np.full((self.warps, agents), after, np.int64)
        self.now = np.full(self.warps, after + 1, np.int64)
        self.first = after + 1
        self.fenced: dict[int, Array] = {}       # warp -> its clock at its last fence
        self.pending: dict[int, list[Any]] = {}      # warp -> releases read by relaxed loads, taken over at a fence

    def seen_by_all(self) -> int:
        """A time up to which every warp has seen what every warp did: what is older needs no closer look."""
        return int(self.seen[:, :self.warps].min())

    @property
    def latest(self) -> int:
        return int(self.now.max())

    def add_agent(self, agent: int) -> None:
        while agent >= self.seen.shape[1]:
            more = np.full((self.warps, self.seen.shape[1]), self.first - 1, np.int64)
            self.seen = np.concatenate([self.seen, more], 1)

    def hand_on(self, warps: Array) -> Array:
        """What these warps have seen and done so far; their own time advances."""
        clock = self.seen[warps].max(0)
        clock[warps] = np.maximum(clock[warps], self.now[warps])
        self.now[warps] += 1
        self.seen[warps, warps] = self.now[warps] - 1
        return np.asarray(clock)

    def take_over(self, warps: Array, clock: Array) -> None:
        """What is in `clock` is ordered before what these warps do from now on."""
        width = min(len(clock), self.seen.shape[1])
        own = self.seen[warps, warps]
        self.seen[warps, :width] = np.maximum(self.seen[warps, :width], clock[:width])
        self.seen[warps, warps] = own

    def sync_lanes(self, warps: Array) -> None:
        """bar.warp.sync: lanes of each warp among themselves."""
        self.now[warps] += 1
        self.seen[warps, warps] = self.now[warps] - 1


def merge(one: Array | None, other: Array) -> Array:
    """The later of two clocks, agent by agent."""
    if one is None:
        return other.copy()
    if len(one) < len(other):
        one, other = other, one
    out = one.copy()
    out[:len(other)] = np.maximum(out[:len(other)], other)
    return out


class Tracker:
    """Records of accesses, for each cell of `1 << shift` bytes."""

    def __init__(self, size: int, shift: int, clocks: Clocks, name: str, warpgroups: int = 0) -> None:
        self.shift, self.name = shift, name
        self.asynchronous = False        # did anybody but threads write
        self.cells = max(1, (size + (1 << shift) - 1) >> shift)
        self.adopt(clocks)
        self.written = np.zeros(self.cells, np.int64)                     # time << 12 | who
        # time << 6 | lane, a row a warp, then one a warpgroup for its tensor cores
        self.read = np.zeros((clocks.warps + warpgroups, self.cells), np.int64)
        self.readers = np.array([*range(clocks.warps), *range(FIRST_TENSOR_AGENT, FIRST_TENSOR_AGENT + warpgroups)])
        self.atomic: Array | None = None                                  # as `read`

    def adopt(self, clocks: Clocks) -> None:
        self.clocks = clocks

    def clear(self) -> None:
        self.written[:] = 0
        self.read[:] = 0
        self.asynchronous = False
        self.atomic = None

    def cells_of(self, address: Array, size: int, threads: Array) -> tuple[Array, Array]:
        """Cells that accesses of `size` bytes touch, and the thread of each."""
        count = max(1, size >> self.shift)
        first = address >> self.shift
        if count == 1:
            return first, threads
        return (first[:, None] + np.arange(count)).reshape(-1), np.repeat(threads, count)

    # ---- tests
    def _unordered(self, record: Array, warp: Array, thread: Array) -> Array:
        if not self.asynchronous and int(record.max()) >> CODE_BITS <= self.clocks.seen_by_all():
            return _NOTHING
        who = record & ((1 << CODE_BITS) - 1)
        late = (record >> CODE_BITS) > self.clocks.seen[warp, _AGENT_OF_CODE[who]]
        return np.asarray(late & (who != thread))

    def _unordered_lanes(self, records: Array, warp: Array, thread: Array) -> Array:
        """For each access: is one of the lane records (a row a warp) not ordered before it?"""
        if len(records) == self.clocks.warps and int(records.max()) >> 6 <= self.clocks.seen_by_all():
            return _NOTHING
        readers = self.readers[:len(records)]
        late = (records >> 6) > self.clocks.seen[warp[None, :], readers[:, None]]
        if not late.any():
            return _NOTHING
        own = (readers[:, None] == warp) & ((records & 63) == (thread & 31))
        return np.asarray((late & ~own).any(0))

    def _report(self, bad: Array, thread: Array, cells: Array, what: str) -> None:
        at = int(np.flatnonzero(bad)[0])
        raise Fault("race", f"{what}, with nothing that orders them ({self.name}, byte {int(cells[at]) << self.shift})",
                    (int(thread[at]),))

    # ---- accesses
    def on_read(self, cells: Array, thread: Array, note: bool = True) -> None:
        """Plain reads: ordered after the last write?  Raises `Fault`."""
        warp = thread >> 5
        bad = self._unordered(self.written[cells], warp, thread)
        if bad.any():
            self._report(bad, thread, cells, f"a read after {self._writer(bad, cells)}")
        if self.atomic is not None:
            bad = self._unordered_lanes(self.atomic[:, cells], warp, thread)
            if bad.any():
                self._report(bad, thread, cells, "a plain read after another thread's atomic operation")
        if note:
            self._note(self.read, cells, warp, thread)

    def _writer(self, bad: Array, cells: Array) -> str:
        who = int(self.written[cells[np.flatnonzero(bad)[0]]]) & ((1 << CODE_BITS) - 1)
        return f"a write by thread {who} (warp {who // 32})" if who < FIRST_AGENT_CODE else "an asynchronous copy"

    def _note(self, records: Array, cells: Array, warp: Array, thread: Array) -> None:
        time, lane = self.clocks.now[warp] << 6, thread & 31
        old = records[warp, cells]
        new = np.where(((old ^ time) >> 6 == 0) & (old & 63 != lane), time | SEVERAL, time | lane)
        records[warp, cells] = new
        clash = records[warp, cells] != new          # several lanes, one cell
        if clash.any():
            records[warp[clash], cells[clash]] = time[clash] | SEVERAL

    def on_write(self, cells: Array, thread: Array, atomic: bool = False,
                 same: Callable[[], Array] | None = None) -> None:
        """Writes by `thread`: tested, and recorded."""
        self.check_write(cells, thread, atomic, same)
        warp = thread >> 5
        if atomic:
            if self.atomic is None:
                self.atomic = np.zeros_like(self.read)
            self._note(self.atomic, cells, warp, thread)
        else:
            self.written[cells] = (self.clocks.now[warp] << CODE_BITS) | thread

    def check_write(self, cells: Array, thread: Array, atomic: bool = False,
                    same: Callable[[], Array] | None = None) -> None:
        """Would a write by `thread` now be ordered after the last write and all reads?  Raises `Fault`.

        `same()` tells of each cell whether it holds the value already: writing that again is let pass (compilers clear
        memory from several warps).
        """
        warp = thread >> 5
        bad = self._unordered(self.written[cells], warp, thread)
        if bad.any() and same is not None:
            bad &= ~same()
        if bad.any():
            self._report(bad, thread, cells, f"a write after {self._writer(bad, cells)}")
        bad = self._unordered_lanes(self.read[:, cells], warp, thread)
        if bad.any():
            self._report(bad, thread, cells, "a write after another thread's read")
        if self.atomic is not None and not atomic:
            bad = self._unordered_lanes(self.atomic[:, cells], warp, thread)
            if bad.any():
                self._report(bad, thread, cells, "a plain write after another thread's atomic operation")
