"""Memory of the machine: global (exact extents, any number of arrays), shared, and each thread's own.

Addresses are the machine's: global memory lies low, shared and local memory have windows of the generic address space
(PTX ISA 5, 6.4.1.1).  Every access is tested for bounds, alignment, initialisation and races, then done with NumPy for
all lanes at once.  Rows of results belong to the given addresses in order.
Tests: tests/targets/nvidia/ptx/test_memory.py.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable
from typing import Any

import numpy as np

from tilewright.targets.nvidia.ptx.clocks import Clocks, Tracker
from tilewright.targets.nvidia.ptx.regions import Checks, Region
from tilewright.targets.nvidia.ptx.report import Fault

Array = np.ndarray[Any, Any]

SHARED_WINDOW = 1 << 56
LOCAL_WINDOW = 1 << 57
WINDOW_BITS = 56
CTA_BITS = 24           # of a shared::cluster address, below the rank of the CTA
GLOBAL_START = 1 << 32
WRITTEN = 1             # a record of a write that is ordered before everything
GLOBAL_GAP = 1 << 24    # at least this far between regions, so that a stray offset meets nothing

UNSIGNED: dict[int, np.dtype[Any]] = {size: np.dtype(f"u{size}") for size in (1, 2, 4, 8)}


def check_alignment(address: Array, size: int, threads: Array, what: str) -> None:
    """PTX ISA 9.7.9: an address is a multiple of the access size.  Raises `Fault`."""
    odd = address & (size - 1)
    if odd.any():
        at = int(np.flatnonzero(odd)[0])
        raise Fault("misaligned", f"{what} of {size} bytes at address {int(address[at]):#x}, which is no multiple of "
                    f"{size}", (int(threads[at]),))


def gather(data: Array, offset: Array, item: int, count: int) -> Array:
    """`count` items of `item` bytes from each aligned byte offset: [lanes, count], unsigned."""
    if item == 16:
        return np.asarray(data.view(np.uint64).reshape(-1, 2)[offset >> 4])
    view = data.view(UNSIGNED[item])
    if count == 1:
        return np.asarray(view[offset // item][:, None])
    return np.asarray(view.reshape(-1, count)[offset // (item * count)])


def holding(data: Array, offset: Array, values: Array, cells: int) -> Callable[[], Array]:
    """Of each of `cells` cells, lane by lane: does memory hold what is about to be written?"""
    def same() -> Array:
        equal = (gather(data, offset, values.dtype.itemsize, values.shape[1]) == values).all(1)
        return np.repeat(equal, cells // max(1, len(offset)))

    return same


def scatter(data: Array, offset: Array, values: Array) -> None:
    """The inverse of `gather`; of several lanes at one place the last one counts."""
    item, count = values.dtype.itemsize, values.shape[1]
    if count == 1:
        data.view(values.dtype)[offset // item] = values[:, 0]
    else:
        data.view(values.dtype).reshape(-1, count)[offset // (item * count)] = values


def in_rounds(address: Array, step: Callable[[Array], None]) -> None:
    """Call `step` with lane indices such that no two lanes of a call have one address: how atomics serialise."""
    order = np.argsort(address, kind="stable")
    ordered = address[order]
    first = np.empty(len(ordered), bool)
    first[:1] = True
    first[1:] = ordered[1:] != ordered[:-1]
    if first.all():
        step(order)
        return
    starts = np.flatnonzero(first)
    rank = np.arange(len(ordered)) - np.repeat(starts, np.diff(np.append(starts, len(ordered))))
    for turn in range(int(rank.max()) + 1):
        step(order[rank == turn])


class GlobalMemory:
    """Regions of global memory, in order of address."""

    space = "global"

    def __init__(self, checks: Checks, shift: int) -> None:
        self.checks, self.shift = checks, shift
        self.regions: list[Region] = []
        self.lows: list[int] = []
        self.next = GLOBAL_START
        self.clocks: Clocks | None = None
        self.cta, self.ctas = 0, 1           # whose accesses these are; how many the grid has
        self.rank = 0                        # of the CTA in its cluster
        self.orders: dict[int, set[int]] = {}       # of a CTA: those whose writes it has acquired

    def add(self, name: str, data: Array, low: int, high: int, writable: bool = True) -> Region:
        """Put `data`, of which bytes `low` to `high` are in bounds, at a new address."""
        region = Region(name, self.next, data, self.next + low, self.next + high, writable)
        self.next += -(-(len(data) + GLOBAL_GAP) // GLOBAL_GAP) * GLOBAL_GAP
        self.regions.append(region)
        self.lows.append(region.base)
        return region

    def enter(self, cta: int, clocks: Clocks, rank: int = 0) -> None:
        """From now on, accesses are those of this CTA.  CTAs of a cluster take turns, each with records of its own."""
        self.cta, self.clocks, self.rank = cta, clocks, rank
        for region in self.regions:
            region.tracker = region.trackers.get(rank)
            if region.tracker is not None:
                region.tracker.adopt(clocks)

    @property
    def ordered(self) -> set[int]:
        """CTAs whose writes this one has acquired."""
        return self.orders.setdefault(self.cta, set())

    def region_at(self, address: int) -> Region | None:
        index = bisect_right(self.lows, address) - 1
        return self.regions[index] if index >= 0 else None

    def _parts(self, address: Array, size: int, threads: Array, what: str) -> list[tuple[Region, Array | slice]]:
        """Regions that the accesses fall in, each with its lanes."""
        low, high = int(address.min()), int(address.max()) + size
        region = self.region_at(low)
        if region is not None and region.low <= low and high <= region.high:
            return [(region, slice(None))]
        which = np.searchsorted(self.lows, address, side="right") - 1
        parts: list[tuple[Region, Array | slice]] = []
        for index in np.unique(which):
            lanes = np.flatnonzero(which == index)
            region = self.regions[index] if index >= 0 else None
            bad = np.ones(len(lanes), bool) if region is None else \
                (address[lanes] < region.low) | (address[lanes] + size > region.high)
            if bad.any():
                at = lanes[np.flatnonzero(bad)[0]]
                raise Fault("out of bounds", f"{what} of {size} bytes {self._where(int(address[at]), size)}",
                            (int(threads[at]),))
            assert region is not None
            parts.append((region, lanes))
        return parts

    def _where(self, address: int, size: int) -> str:
        """The address, as a distance from the region that is near."""
        region = self.region_at(address + GLOBAL_GAP // 2)
        near = [r for r in (region, self.region_at(address)) if r is not None]
        if not near or address < GLOBAL_START // 2 or address >= 1 << WINDOW_BITS:
            return f"at address {address:#x}, where nothing is"
        region = min(near, key=lambda r: max(r.low - address, address + size - r.high))
        if address < region.low:
            return f"{region.low - address} bytes before {region.name}"
        return f"at byte {address - region.low} of {region.name}, which has {region.high - region.low} bytes"

    # ---- accesses
    def read(self, address: Array, threads: Array, item: int, count: int, strong: bool = False) -> Array:
        """[lanes, count] items; `strong` accesses are ordered by the memory model, not by barriers (PTX ISA 8.3)."""
        size = item * count
        check_alignment(address, size, threads, "a load")
        out: Array | None = None
        for region, lanes in self._parts(address, size, threads, "a load"):
            offset, who = address[lanes] - region.base, threads[lanes]
            self._before_read(region, offset, size, who, strong)
            found = gather(region.data, offset, item, count)
            if isinstance(lanes, slice):
                return found
            if out is None:
                out = np.empty((len(address), found.shape[1]), found.dtype)
            out[lanes] = found
        assert out is not None
        return out

    def _before_read(self, region: Region, offset: Array, size: int, threads: Array, strong: bool) -> None:
        if region.unwritten is not None:
            region.check_written(offset, size, threads)
        if self.checks.races and region.writable:
            self._track(region).read(offset, size, threads, self, strong)

    def check_never_written(self, address: Array, size: int, threads: Array) -> None:
        """ld.global.nc is for memory that the whole kernel only reads (PTX ISA 9.7.9.9).  Raises `Fault`."""
        for region, lanes in self._parts(address, size, threads, "a load"):
            if region.tracker is None or not region.changed:
                continue
            cells, who = region.tracker.cells_of(address[lanes] - region.base, size, threads[lanes])
            written = region.tracker.written[cells] != 0
            if written.any():
                raise Fault("race", f"a read-only load (ld.global.nc) of {region.name}, where this kernel has written",
                            (int(who[np.flatnonzero(written)[0]]),))

    def _track(self, region: Region) -> Region:
        if region.tracker is None:
            assert self.clocks is not None
            region.tracker = Tracker(len(region.data), self.shift, self.clocks, region.name)
            region.trackers[self.rank] = region.tracker
        return region

    def write(self, address: Array, threads: Array, values: Array, strong: bool = False) -> None:
        """Store rows of unsigned items."""
        size = values.dtype.itemsize * values.shape[1]
        check_alignment(address, size, threads, "a store")
        for region, lanes in self._parts(address, size, threads, "a store"):
            offset, who, mine = address[lanes] - region.base, threads[lanes], values[lanes]
            self._writable(region, who)
            if self.checks.races:
                self._track(region).write(offset, mine, who, self, strong)
            scatter(region.data, offset, mine)
            if self.checks.races and len(offset) > 1 and (gather(region.data, offset, mine.dtype.itemsize,
                                                                 mine.shape[1]) != mine).any():
                raise Fault("race", f"two lanes write different values to one place of {region.name} at once")
            if region.unwritten is not None:
                region.note_written(offset, size)

    def _writable(self, region: Region, threads: Array) -> None:
        if not region.writable:
            raise Fault("read-only", f"a store to {region.name}, which is read-only", (int(threads[0]),))
        region.changed = True

    def update(self, address: Array, threads: Array, item: int, step: Callable[[Array, Array], Array]) -> Array:
        """Atomic read, `step(old, lanes)`, write; gives what was there, unsigned (item 16: pairs of 8 bytes)."""
        check_alignment(address, item, threads, "an atomic operation")
        dtype, tail = (np.dtype(np.uint64), (2,)) if item == 16 else (UNSIGNED[item], ())
        old = np.empty((len(address), *tail), dtype)
        for region, lanes in self._parts(address, item, threads, "an atomic operation"):
            offset, who = address[lanes] - region.base, threads[lanes]
            self._writable(region, who)
            if region.unwritten is not None:
                region.check_written(offset, item, who)
            if self.checks.races:
                self._track(region).atomic(offset, item, who, self)
            view = region.data.view(dtype).reshape(-1, *tail)
            index = np.empty(len(address), np.int64)
            index[lanes] = offset // item
            chosen = np.arange(len(address))[lanes]

            def turn(some: Array, view: Array = view, index: Array = index, chosen: Array = chosen) -> None:
                mine = chosen[some]
                old[mine] = view[index[mine]]
                view[index[mine]] = step(old[mine], mine)

            in_rounds(offset, turn)
        return old


class SharedMemory:
    """A CTA's shared memory, poisoned."""

    space = "shared"

    def __init__(self, size: int, shift: int, checks: Checks, clocks: Clocks, warpgroups: int) -> None:
        self.size, self.checks = size, checks
        padded = -(-max(size, 1) // 128) * 128
        self.data = np.full(padded, 0xFF, np.uint8)      # NaN in every float type
        self.tracker = Tracker(padded, shift, clocks, "shared memory", warpgroups)
        cells = self.tracker.cells
        self.landing = np.zeros(cells, np.int32)         # asynchronous writes under way
        self.leaving = np.zeros(cells, np.int32)         # asynchronous reads under way
        self.unfenced = np.zeros(cells, bool)            # ordinary writes that no fence has shown to the async proxy
        self.asynchronous = False                        # does the program copy at all
        self.barrier_cells: set[int] = set()             # of mbarriers

    def clear(self) -> None:
        self.data[:] = 0xFF
        self.tracker.clear()
        if self.asynchronous:
            self.landing[:] = 0
            self.leaving[:] = 0
            self.unfenced[:] = False

    def check(self, address: Array, size: int, threads: Array, what: str) -> None:
        """In bounds and aligned?  Raises `Fault`."""
        check_alignment(address, size, threads, what)
        bad = (address < 0) | (address + size > self.size)
        if bad.any():
            at = int(np.flatnonzero(bad)[0])
            raise Fault("out of bounds", f"{what} of {size} bytes at byte {int(address[at])} of shared memory, of "
                        f"which the CTA has {self.size} bytes", (int(threads[at]),))

    def read(self, address: Array, threads: Array, item: int, count: int, strong: bool = False) -> Array:
        size = item * count
        self.check(address, size, threads, "a load")
        cells, who = self.tracker.cells_of(address, size, threads)
        self.before_read(cells, who)
        if self.checks.races and not strong:
            self.tracker.on_read(cells, who)
        return gather(self.data, address, item, count)

    def before_read(self, cells: Array, who: Array) -> None:
        """Landed and written?  Raises `Fault`."""
        if self.asynchronous and self.landing[cells].any():
            at = int(np.flatnonzero(self.landing[cells])[0])
            raise Fault("early read", "a read of shared memory that an asynchronous copy is still writing",
                        (int(who[at]),))
        if self.checks.uninitialised:
            fresh = self.tracker.written[cells] == 0
            if fresh.any():
                at = int(np.flatnonzero(fresh)[0])
                raise Fault("uninitialised", f"a read of shared memory, byte {int(cells[at]) << self.tracker.shift}, "
                            "which was never written", (int(who[at]),))

    def before_write(self, cells: Array, who: Array) -> None:
        if self.asynchronous and (self.landing[cells] | self.leaving[cells]).any():
            at = int(np.flatnonzero(self.landing[cells] | self.leaving[cells])[0])
            raise Fault("in flight", "a write to shared memory that an asynchronous operation still uses",
                        (int(who[at]),))

    def _note(self, cells: Array, who: Array, atomic: bool = False, same: Callable[[], Array] | None = None) -> None:
        self.before_write(cells, who)
        if self.checks.races:
            self.tracker.on_write(cells, who, atomic=atomic, same=same)
        if atomic or not self.checks.races:
            written = self.tracker.written
            written[cells] = np.maximum(written[cells], WRITTEN)
        if self.asynchronous:
            self.unfenced[cells] = True

    def write(self, address: Array, threads: Array, values: Array, strong: bool = False) -> None:
        size = values.dtype.itemsize * values.shape[1]
        self.check(address, size, threads, "a store")
        cells, who = self.tracker.cells_of(address, size, threads)
        self._note(cells, who, strong, holding(self.data, address, values, len(cells)))
        scatter(self.data, address, values)
        if self.checks.races and (gather(self.data, address, values.dtype.itemsize, values.shape[1]) != values).any():
            raise Fault("race", "two lanes write different values to one place of shared memory in one instruction")

    def update(self, address: Array, threads: Array, item: int, step: Callable[[Array, Array], Array]) -> Array:
        self.check(address, item, threads, "an atomic operation")
        cells, who = self.tracker.cells_of(address, item, threads)
        self.before_read(cells, who)
        self._note(cells, who, atomic=True)
        dtype, tail = (np.dtype(np.uint64), (2,)) if item == 16 else (UNSIGNED[item], ())
        view = self.data.view(dtype).reshape(-1, *tail)
        old = np.empty((len(address), *tail), dtype)

        def turn(some: Array) -> None:
            index = address[some] // item
            old[some] = view[index]
            view[index] = step(old[some], some)

        in_rounds(address, turn)
        return old


class LocalMemory:
    """Memory of each thread's own, with parameters of calls; addresses are offsets, the same for every thread."""

    space = "local"

    def __init__(self, size: int, threads: int, checks: Checks) -> None:
        self.size, self.checks = size, checks
        self.row = -(-max(size, 1) // 16) * 16
        self.data = np.full(threads * self.row, 0xFF, np.uint8)
        self.known = np.zeros(threads * self.row, bool)

    def clear(self) -> None:
        self.data[:] = 0xFF
        self.known[:] = False

    def _flat(self, address: Array, threads: Array, size: int, what: str) -> Array:
        check_alignment(address, size, threads, what)
        bad = (address < 0) | (address + size > self.size)
        if bad.any():
            at = int(np.flatnonzero(bad)[0])
            raise Fault("out of bounds", f"{what} of {size} bytes at byte {int(address[at])} of local memory, of which "
                        f"a thread has {self.size} bytes", (int(threads[at]),))
        return np.asarray(threads * self.row + address)

    def read(self, address: Array, threads: Array, item: int, count: int, strong: bool = False) -> Array:
        flat = self._flat(address, threads, item * count, "a load")
        if self.checks.uninitialised:
            known = self.known[flat[:, None] + np.arange(item * count)].all(1)
            if not known.all():
                at = int(np.flatnonzero(~known)[0])
                raise Fault("uninitialised", f"a read of local memory, byte {int(address[at])}, which was never "
                            "written", (int(threads[at]),))
        return gather(self.data, flat, item, count)

    def write(self, address: Array, threads: Array, values: Array, strong: bool = False) -> None:
        size = values.dtype.itemsize * values.shape[1]
        flat = self._flat(address, threads, size, "a store")
        self.known[flat[:, None] + np.arange(size)] = True
        scatter(self.data, flat, values)

    def update(self, address: Array, threads: Array, item: int, step: Callable[[Array, Array], Array]) -> Array:
        raise Fault("operand", "an atomic operation on local memory")
