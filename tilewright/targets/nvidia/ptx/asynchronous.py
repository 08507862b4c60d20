"""Asynchronous copies under way in a CTA, and when they land: as late as the program allows, or by chance.

cp.async copies land when their threads wait; bulk copies that an mbarrier awaits land when nothing else can go on, or
at a moment that the seed picks, one at a time.  From issue to landing their cells are marked, so an early read or a
write over them is found whatever the moment was.
Tests: tests/targets/nvidia/ptx/test_asynchronous.py.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from tilewright.targets.nvidia.ptx.clocks import CODE_BITS
from tilewright.targets.nvidia.ptx.mbarriers import Mbarrier, Mbarriers
from tilewright.targets.nvidia.ptx.memory import scatter
from tilewright.targets.nvidia.ptx.report import Fault

if TYPE_CHECKING:
    from tilewright.targets.nvidia.ptx.cta import Cta

Array = np.ndarray[Any, Any]


@dataclass
class ThreadCopies:
    """cp.async of some threads: bytes read already, to be written at `address` when their group is waited for."""

    threads: Array
    address: Array
    rows: Array         # [copies, items]
    group: Array        # of each: the commit that it belongs to
    order: int          # as they were started


@dataclass
class BulkGroupItem:
    """A bulk copy out of shared memory by instruction `pc`, that thread `thread` committed in `group`."""

    pc: int
    thread: int
    group: int
    cells: Array
    write: Callable[[], None]
    read_done: bool = False


class Asynchronous:
    """What a CTA's threads have started and not yet seen finished."""

    def __init__(self, cta: Cta) -> None:
        self.cta = cta
        self.barriers = Mbarriers(cta)
        self.clear()

    def clear(self) -> None:
        self.flying: list[tuple[int, Callable[[], None]]] = []      # (instruction, landing)
        self.copies: list[ThreadCopies] = []
        self.started = 0
        self.committed = np.zeros(self.cta.threads, np.int64)
        self.bulk: list[BulkGroupItem] = []
        self.bulk_committed = np.zeros(self.cta.threads, np.int64)
        self.barriers.clear()

    # ---- cp.async
    def start(self, threads: Array, address: Array, rows: Array) -> None:
        """A copy whose bytes were read; its cells are marked until it lands."""
        shared = self.cta.shared
        cells, who = shared.tracker.cells_of(address, rows.dtype.itemsize * rows.shape[1], threads)
        shared.before_write(cells, who)
        if self.cta.launch.checks.races:
            shared.tracker.check_write(cells, who)
        np.add.at(shared.landing, cells, 1)
        self.started += 1
        self.copies.append(ThreadCopies(threads, address, rows, self.committed[threads].copy(), self.started))

    def commit(self, lanes: Array) -> None:
        self.committed[lanes] += 1

    def wait(self, lanes: Array, left: int) -> None:
        """Of each thread in `lanes`, all groups but the last `left` have landed."""
        self._land_copies(lambda c: lanes[c.threads] & (c.group < self.committed[c.threads] - left))

    def wait_all(self, lanes: Array) -> None:
        self._land_copies(lambda c: lanes[c.threads])

    def _land_copies(self, which: Callable[[ThreadCopies], Array],
                     record: Callable[[Array], Array | int] | None = None) -> None:
        left = []
        for copy in self.copies:
            now = which(copy)
            if now.any():
                self._land(copy, now, record)
            if not now.all():
                stay = ~now
                left.append(ThreadCopies(copy.threads[stay], copy.address[stay], copy.rows[stay], copy.group[stay],
                                         copy.order))
        self.copies = left

    def _land(self, copy: ThreadCopies, now: Array, record: Callable[[Array], Array | int] | None) -> None:
        shared, clocks = self.cta.shared, self.cta.clocks
        threads, address, rows = copy.threads[now], copy.address[now], copy.rows[now]
        cells, who = shared.tracker.cells_of(address, rows.dtype.itemsize * rows.shape[1], threads)
        np.subtract.at(shared.landing, cells, 1)
        scatter(shared.data, address, rows)
        if shared.asynchronous and self.cta.launch.checks.copied_proxies:
            shared.unfenced[cells] = True
        shared.tracker.asynchronous |= record is not None
        shared.tracker.written[cells] = (clocks.now[who >> 5] << CODE_BITS | who) if record is None else record(cells)

    def arrive_after_copies(self, barriers: Mbarriers, barrier: Mbarrier, threads: Array, counted: bool,
                            pc: int) -> None:
        """cp.async.mbarrier.arrive: an arrival when the threads' copies until now have landed."""
        last = self.started
        lanes = np.zeros(self.cta.threads, bool)
        lanes[threads] = True
        if not counted:
            barrier.pending += len(threads)

        def land() -> None:
            time = barrier.tick()
            self._land_copies(lambda c: lanes[c.threads] & (c.order <= last),
                              lambda cells: time << CODE_BITS | barrier.code)
            barriers.arrive(barrier, len(threads), threads[:0], None, released=False)

        self.flying.append((pc, land))

    # ---- bulk copies
    def fly(self, pc: int, land: Callable[[], None]) -> None:
        self.flying.append((pc, land))

    def land_one(self) -> bool:
        """Let one copy land; False if none is under way."""
        if not self.flying:
            return False
        index = int(self.cta.random.integers(len(self.flying))) if self.cta.launch.seed else 0
        self._do(*self.flying.pop(index))
        return True

    def _do(self, pc: int, effect: Callable[[], None]) -> None:
        """A late effect; its faults are the instruction's that started it."""
        try:
            effect()
        except Fault as fault:
            instruction = self.cta.program.code[pc]
            fault.cta = fault.cta or self.cta.index
            raise fault.at(instruction.line, self.cta.program.text(instruction.line), instruction.location) from None

    def commit_bulk(self, lanes: Array) -> None:
        self.bulk_committed[lanes] += 1

    def wait_bulk(self, lanes: Array, left: int, read_only: bool) -> None:
        """Bulk groups but the last `left` have read their sources, and (unless `read_only`) written."""
        kept = []
        for item in self.bulk:
            done = lanes[item.thread] and item.group < self.bulk_committed[item.thread] - left
            if done:
                self._finish_read(item)
                if not read_only:
                    self._do(item.pc, item.write)
                    continue
            kept.append(item)
        self.bulk = kept

    def _finish_read(self, item: BulkGroupItem) -> None:
        if not item.read_done:
            np.subtract.at(self.cta.shared.leaving, item.cells, 1)
            item.read_done = True

    def finish(self) -> None:
        """After the last thread has left: nothing may still use shared memory; writes to global memory get done."""
        for item in self.bulk:
            self._do(item.pc, lambda item=item: _end(item))     # type: ignore[misc]
        self.bulk = []
        while self.land_one():
            pass

    # ---- for a deadlock
    def describe(self) -> list[str]:
        return self.barriers.describe()

    def blocked_at(self) -> list[int]:
        return self.barriers.blocked_at()


def _end(item: BulkGroupItem) -> None:
    if not item.read_done:
        raise Fault("in flight", "the CTA ends while a bulk copy still reads its shared memory; "
                    "cp.async.bulk.wait_group.read is missing", (item.thread,))
    item.write()
