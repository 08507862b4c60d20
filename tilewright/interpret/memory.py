"""The interpreters' view of host memory: checked loads and stores of NumPy arrays of byte addresses.

One launch has an address space of extents, one for each pointer argument: the bytes that its tensor reaches.  A
`Memory` reads and writes through NumPy views of these ranges, at any alignment.  Masked-off lanes never touch memory.
An access that leaves the extents of the arguments that its address may be derived from (`pointers`; every extent where
that is not known), or a store into a read-only one, raises `MemoryAccessError`, which knows the lane; the engine adds
program and line.  A pointer that itself came out of memory may lead anywhere (`foreign=True`): such
an address goes through `interpret.foreign`, where a bad one is an error and never a crash.

A store with equal addresses keeps the last value in row-major order, programs in ascending order.  i1 is one byte in
memory: zero or not when read, 0 or 1 when written.  Tests: tests/interpret/test_memory.py.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tilewright.diagnostics import BadAccess, InterpreterError, Location, OutOfBoundsError, TritonError, render
from tilewright.interpret import foreign as foreign_memory
from tilewright.ir.types import Element, storage_dtype

Array = np.ndarray[Any, Any]


class MemoryAccessError(InterpreterError):
    """A load or store of an address that it must not touch.

    `row` is the index of the program in the batch, `index` that of the lane in the tile; `bad` says more of an access
    that leaves the arguments.
    """

    def __init__(self, summary: str, row: int, index: tuple[int, ...], bad: BadAccess | None = None) -> None:
        self.summary, self.row, self.index, self.bad = summary, row, index, bad
        super().__init__(summary)

    def located(self, kernel: str, program: tuple[int, int, int], location: Location | None) -> TritonError:
        """The error for the user: with the element of the tile, the program id and the line."""
        if self.bad is not None:
            return OutOfBoundsError(self.bad, kernel, program, location)
        lane = f"tile element {list(self.index)} of " if self.index else ""
        return InterpreterError(render(f"{self.summary} ({lane}program {program})", location))


@dataclass(frozen=True, slots=True)
class Extent:
    """The bytes `address .. address + size - 1` that the argument `name` reaches; it points to `pointer` among them.

    Without `pointer` that is the lowest byte.
    """

    name: str
    address: int
    size: int
    writable: bool = True
    pointer: int | None = None

    @property
    def end(self) -> int:
        return self.address + self.size


# The end of memory: an extent that ends here is of a tensor that does not tell where it ends.
HIGHEST = 2**63 - 1


class _Region:
    """An extent with its bytes as a NumPy view."""

    def __init__(self, extent: Extent) -> None:
        self.extent = extent
        buffer = (ctypes.c_ubyte * extent.size).from_address(extent.address)
        self.bytes: Array = np.frombuffer(memoryview(buffer), np.uint8)

    def holds(self, address: Array, size: int) -> Array:
        """Where an access of `size` bytes lies inside this extent."""
        return np.asarray((address >= self.extent.address) & (address <= self.extent.end - size))

    def gather(self, address: Array, dtype: np.dtype[Any]) -> Array:
        offset = address - self.extent.address
        if dtype.itemsize == 1:
            return np.asarray(self.bytes[offset]).view(dtype)
        whole = self._elements(dtype)
        if not (offset % dtype.itemsize).any():
            return np.asarray(whole[offset // dtype.itemsize])
        every_byte = offset[:, None] + np.arange(dtype.itemsize)
        return np.asarray(self.bytes[every_byte]).view(dtype).reshape(-1)

    def scatter(self, address: Array, value: Array) -> None:
        offset, size = address - self.extent.address, value.dtype.itemsize
        if (offset % size).any():
            every_byte = (offset[:, None] + np.arange(size)).reshape(-1)
            _assign_last(self.bytes, every_byte, np.ascontiguousarray(value).view(np.uint8).reshape(-1))
        else:
            _assign_last(self._elements(value.dtype), offset // size, value)

    def _elements(self, dtype: np.dtype[Any]) -> Array:
        return self.bytes[:self.extent.size // dtype.itemsize * dtype.itemsize].view(dtype)


def _assign_last(target: Array, index: Array, value: Array) -> None:
    """target[index] = value; of equal indices the last wins, which NumPy itself does not promise."""
    if index.size > 1 and not (index[1:] > index[:-1]).all():
        order = np.argsort(index, kind="stable")
        ordered = index[order]
        last = np.append(ordered[1:] != ordered[:-1], True)
        index, value = ordered[last], value[order[last]]
    target[index] = value


def _rounds(address: Array) -> list[Array]:
    """Indices of the addresses in groups of distinct ones; of equal addresses the first is in the first group."""
    if address.size == 0:
        return []
    order = np.argsort(address, kind="stable")
    first = np.append(True, address[order][1:] != address[order][:-1])
    starts = np.flatnonzero(first)
    rank = np.arange(address.size) - starts[np.cumsum(first) - 1]
    by_rank = order[np.argsort(rank, kind="stable")]
    return np.split(by_rank, np.cumsum(np.bincount(rank))[:-1])


@dataclass(frozen=True, slots=True)
class _Reach:
    """What an access may touch: extents, the regions of those that are not empty, and anything else if `foreign`, or if
    it is not told where one of the extents ends (`untold`)."""

    foreign: bool
    extents: tuple[Extent, ...]
    regions: tuple[_Region, ...]
    writable: tuple[_Region, ...]
    untold: bool


class Memory:
    """The address space of one launch; `keep` holds the owners of the memory alive."""

    def __init__(self, extents: Sequence[Extent], keep: object = None) -> None:
        self.extents = tuple(extents)
        self._keep = keep
        self._regions = tuple(_Region(e) for e in extents if e.size > 0 and e.end < HIGHEST)
        self._reaches: dict[tuple[bool, frozenset[int] | None], _Reach] = {}

    @classmethod
    def of_arrays(cls, arrays: Mapping[str, Array]) -> Memory:
        """The address space of named NumPy arrays, each with all bytes that its strides reach."""
        return cls([extent_of(name, array) for name, array in arrays.items()], keep=dict(arrays))

    def _reach(self, foreign: bool, pointers: frozenset[int] | None) -> _Reach:
        """The reach of an access: of the arguments that point to one of `pointers`, if these are known."""
        known = self._reaches.get((foreign, pointers))
        if known is None:
            of = [e for e in self.extents if pointers is not None and not foreign and e.pointer in pointers]
            extents = tuple(of) or self.extents
            regions = tuple(r for r in self._regions if r.extent in extents)
            known = self._reaches[foreign, pointers] = _Reach(
                foreign, extents, regions, tuple(r for r in regions if r.extent.writable),
                any(e.end >= HIGHEST for e in extents))
        return known

    def load(self, address: Array, mask: Array | None, other: Array | None, element: Element,
             foreign: bool = False, pointers: frozenset[int] | None = None) -> Array:
        """Elements at `address` (bytes); `other`, or else zero, where the mask is false."""
        reach = self._reach(foreign, pointers)
        dtype = _memory_dtype(element)
        parts = [a for a in (address, mask, other) if a is not None]
        shape = np.broadcast_shapes(*(a.shape for a in parts))
        where = np.broadcast_to(address, shape).reshape(-1)
        if mask is None:
            values = self._gather(where, dtype, reach, _Lanes("load", shape, None)).reshape(shape)
            return values != 0 if storage_dtype(element) == np.bool_ else values
        out = np.zeros(shape, storage_dtype(element))
        if other is not None:
            out[...] = other
        lanes = np.flatnonzero(np.broadcast_to(mask, shape))
        values = self._gather(where[lanes], dtype, reach, _Lanes("load", shape, lanes))
        out.reshape(-1)[lanes] = values != 0 if out.dtype == np.bool_ else values
        return out

    def store(self, address: Array, value: Array, mask: Array | None, element: Element,
              foreign: bool = False, pointers: frozenset[int] | None = None) -> None:
        """Write `value` at `address` where the mask is true; nothing is written when an address is bad."""
        reach = self._reach(foreign, pointers)
        dtype = _memory_dtype(element)
        parts = [a for a in (address, value, mask) if a is not None]
        shape = np.broadcast_shapes(*(a.shape for a in parts))
        where = np.broadcast_to(address, shape).reshape(-1)
        data = np.broadcast_to(value.view(dtype), shape).reshape(-1)
        lanes = None
        if mask is not None:
            lanes = np.flatnonzero(np.broadcast_to(mask, shape))
            where, data = where[lanes], data[lanes]
        self._scatter(where, data, reach, _Lanes("store", shape, lanes))

    def atomic(self, address: Array, values: Sequence[Array], mask: Array | None, element: Element,
               update: Callable[..., Array], foreign: bool = False, pointers: frozenset[int] | None = None) -> Array:
        """Put `update(old, *values)` in the place of each element, in row-major order; gives the old elements.

        Elements of one address are done one after the other, in rounds of distinct addresses.
        """
        reach = self._reach(foreign, pointers)
        dtype = _memory_dtype(element)
        shape = np.broadcast_shapes(address.shape, *(v.shape for v in values), *(() if mask is None else (mask.shape,)))
        lanes = None if mask is None else np.flatnonzero(np.broadcast_to(mask, shape))
        chosen = slice(None) if lanes is None else lanes
        where, *data = (np.broadcast_to(a, shape).reshape(-1)[chosen] for a in (address, *values))
        found = np.empty(where.shape, dtype)
        for part in _rounds(where):
            active = _Lanes("atomic access", shape, part if lanes is None else lanes[part])
            found[part] = self._gather(where[part], dtype, reach, active)
            self._scatter(where[part], update(found[part], *(d[part] for d in data)), reach, active)
        out = np.zeros(shape, dtype)
        out.reshape(-1)[chosen] = found
        return out

    def _gather(self, address: Array, dtype: np.dtype[Any], reach: _Reach, lanes: _Lanes) -> Array:
        if address.size == 0:
            return np.empty(0, dtype)
        region = self._single(address, dtype.itemsize, reach.regions)
        if region is not None:
            return region.gather(address, dtype)
        out, left = np.empty(address.shape, dtype), np.ones(address.shape, np.bool_)
        for region in reach.regions:
            inside = left & region.holds(address, dtype.itemsize)
            out[inside] = region.gather(address[inside], dtype)
            left &= ~inside
        if left.any():
            self._refuse_unless(reach, address, left, dtype, lanes)
            outside = np.flatnonzero(left)
            out[outside] = self._guarded(foreign_memory.read, address, outside, reach, lanes, dtype)
        return out

    def _scatter(self, address: Array, value: Array, reach: _Reach, lanes: _Lanes) -> None:
        if address.size == 0:
            return
        region = self._single(address, value.dtype.itemsize, reach.writable)
        if region is not None:
            region.scatter(address, value)
            return
        inside = [region.holds(address, value.dtype.itemsize) for region in reach.writable]
        left = ~np.logical_or.reduce(inside) if inside else np.ones(address.shape, np.bool_)
        if left.any():
            self._refuse_read_only(reach, address, left, value.dtype, lanes)
            self._refuse_unless(reach, address, left, value.dtype, lanes)
        for region, held in zip(reach.writable, inside, strict=True):
            region.scatter(address[held], value[held])
        if left.any():
            self._guarded(foreign_memory.write, address, np.flatnonzero(left), reach, lanes, value[left])

    @staticmethod
    def _single(address: Array, size: int, regions: Sequence[_Region]) -> _Region | None:
        """The region that holds every address, if there is one."""
        low, high = int(address.min()), int(address.max())
        return next((r for r in regions if r.extent.address <= low and high + size <= r.extent.end), None)

    @staticmethod
    def _guarded(access: Callable[[Array, Any], Array], address: Array, outside: Array, reach: _Reach, lanes: _Lanes,
                 rest: Any) -> Array:
        """A foreign access, its failure told as that of a lane."""
        try:
            return access(address[outside], rest)
        except foreign_memory.BadAddressError as error:
            lane = int(outside[error.index])
            row, index = lanes.place(lane)
            origin = ("which came out of memory" if reach.foreign else
                      f"by way of {reach.extents[0].name!r}" if len(reach.extents) == 1 else "outside every tensor")
            raise MemoryAccessError(f"{lanes.what} at address {int(address[lane]):#x}, {origin}: {error.reason}", row,
                                    index) from None

    @staticmethod
    def _refuse_read_only(reach: _Reach, address: Array, bad: Array, dtype: np.dtype[Any], lanes: _Lanes) -> None:
        for region in reach.regions:
            hit = np.flatnonzero(bad & region.holds(address, dtype.itemsize))
            if hit.size:
                element = (int(address[hit[0]]) - region.extent.address) // dtype.itemsize
                raise MemoryAccessError(f"{lanes.what} to element {element} of {region.extent.name!r}, which is "
                                        "read-only", *lanes.place(int(hit[0])))

    def _refuse_unless(self, reach: _Reach, address: Array, bad: Array, dtype: np.dtype[Any], lanes: _Lanes) -> None:
        if reach.foreign or reach.untold:
            return
        lane = int(np.flatnonzero(bad)[0])
        row, index = lanes.place(lane)
        where = int(address[lane])
        if not reach.extents:
            raise MemoryAccessError(f"{lanes.what} out of bounds: address {where:#x}, and no argument is a pointer",
                                    row, index)
        found = self._nearest(reach, lanes.what, where, dtype.itemsize, index)
        raise MemoryAccessError(str(found), row, index, found)

    @staticmethod
    def _nearest(reach: _Reach, what: str, address: int, size: int, index: tuple[int, ...]) -> BadAccess:
        """An access out of bounds, told of the argument that `address` is nearest to."""

        def distance(extent: Extent) -> int:
            return max(extent.address - address, address + size - extent.end, 0)

        extent = min(reach.extents, key=distance)
        pointer = extent.address if extent.pointer is None else extent.pointer
        return BadAccess(what, extent.name, size, address, pointer, extent.address, extent.end, index)


@dataclass(frozen=True, slots=True)
class _Lanes:
    """Where the flat list of active addresses came from: what access, the batch's shape, which lanes (None: all)."""

    what: str
    shape: tuple[int, ...]
    active: Array | None

    def place(self, position: int) -> tuple[int, tuple[int, ...]]:
        """(row of the program, index in the tile) of an entry of the list."""
        flat = position if self.active is None else int(self.active[position])
        row, *index = (int(i) for i in np.unravel_index(flat, self.shape))
        return row, tuple(index)


def _memory_dtype(element: Element) -> np.dtype[Any]:
    dtype = storage_dtype(element)
    return np.dtype(np.uint8) if dtype == np.bool_ else dtype


def extent_of(name: str, array: Array) -> Extent:
    """The bytes that a NumPy array reaches with its shape and strides (which may be negative)."""
    if not array.size:
        return Extent(name, array.ctypes.data, 0, bool(array.flags.writeable), array.ctypes.data)
    reach = [(n - 1) * stride for n, stride in zip(array.shape, array.strides, strict=True)]
    low, high = sum(r for r in reach if r < 0), sum(r for r in reach if r > 0)
    return Extent(name, array.ctypes.data + low, high - low + array.itemsize, bool(array.flags.writeable),
                  array.ctypes.data)
