"""Which bytes of an argument's extent belong to elements of it, and the cells in which checked mode counts memory.

A strided tensor reaches from its lowest to its highest byte, and need not own all bytes between.  `Footprints` says of
addresses whether an element of the tensor that they are derived from is there.  `Cells` numbers all memory of the
arguments in units in which no access of the kernel divides, so that tensors which overlap share cells.
Tests: tests/check/test_bounds.py.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tilewright.interpret.memory import Extent

Array = np.ndarray[Any, Any]

# Beyond this an argument's extent is not its own: an object that does not tell its shape "reaches" all memory.
LARGEST = 1 << 40


@dataclass(frozen=True, slots=True)
class View:
    """An argument's extent with the shape and the strides (in bytes) of its tensor; None where these are unknown."""

    extent: Extent
    shape: tuple[int, ...] | None
    strides: tuple[int, ...]
    item_bytes: int

    @property
    def is_dense(self) -> bool:
        """Whether every byte of the extent belongs to an element, by a test that may say no too often."""
        if self.shape is None or not self.extent.size:
            return True
        reach = self.item_bytes
        for stride, count in sorted((abs(s), n) for s, n in zip(self.strides, self.shape, strict=True) if n > 1):
            if stride > reach:
                return False
            reach += stride * (count - 1)
        return True

    def owned(self) -> Array:
        """For each byte of the extent, whether it belongs to an element."""
        assert self.shape is not None and self.extent.pointer is not None
        owned = np.zeros(self.extent.size, np.bool_)
        first = owned[self.extent.pointer - self.extent.address:]
        np.lib.stride_tricks.as_strided(first, (*self.shape, self.item_bytes), (*self.strides, 1))[...] = True
        return owned


class Footprints:
    """The footprints of a launch's arguments."""

    def __init__(self, views: Sequence[View]) -> None:
        self._parts = [(v.extent, None if v.is_dense else v.owned()) for v in views if v.extent.size]

    def reachable(self, foreign: bool, pointers: frozenset[int] | None) -> list[tuple[Extent, Array | None]]:
        """The extents that an address derived from `pointers` may lie in, as `interpret.memory` chooses them."""
        of = [p for p in self._parts if pointers is not None and not foreign and p[0].pointer in pointers]
        return of or self._parts

    def judge(self, address: Array, size: int, foreign: bool, pointers: frozenset[int] | None) -> tuple[Array, Array]:
        """(inside of an extent, on elements only) for each of the accesses of `size` bytes."""
        inside, owned = np.zeros(address.shape, np.bool_), np.zeros(address.shape, np.bool_)
        for extent, bytes_owned in self.reachable(foreign, pointers):
            here = (address >= extent.address) & (address <= extent.end - size)
            inside |= here
            if bytes_owned is None:
                owned |= here
            else:
                offset = np.where(here, address - extent.address, 0)
                owned |= here & bytes_owned[offset] & bytes_owned[offset + (size - 1)]
        return inside, owned


class Cells:
    """Numbers for the memory of all extents, `unit` bytes each; overlapping extents share them."""

    def __init__(self, extents: Iterable[Extent], unit: int) -> None:
        self.unit = unit
        merged: list[list[int]] = []
        for extent in sorted((e for e in extents if 0 < e.size < LARGEST), key=lambda e: e.address):
            if merged and extent.address <= merged[-1][1]:
                merged[-1][1] = max(merged[-1][1], extent.end)
            else:
                merged.append([extent.address, extent.end])
        self._starts = np.array([low for low, _ in merged], np.int64)
        self._ends = np.array([high for _, high in merged], np.int64)
        sizes = [-(-(high - low) // unit) + 1 for low, high in merged]
        self._first = np.cumsum([0, *sizes])[:-1].astype(np.int64)
        self.count = sum(sizes)

    def of(self, address: Array, size: int) -> tuple[Array, Array]:
        """(lanes whose access lies in known memory, the cells of each of these: an array of two dimensions).

        An access that is not aligned to the unit also has the cell that it ends in.
        """
        if not self._starts.size:
            return np.zeros(0, np.int64), np.zeros((0, 1), np.int64)
        segment = np.clip(np.searchsorted(self._starts, address, "right") - 1, 0, None)
        lanes = np.flatnonzero((address >= self._starts[segment]) & (address + size <= self._ends[segment]))
        segment, offset = segment[lanes], address[lanes] - self._starts[segment[lanes]]
        across = size // self.unit + bool((offset % self.unit).any())
        return lanes, (self._first[segment] + offset // self.unit)[:, None] + np.arange(max(1, across))


def common_unit(sizes: Iterable[int], views: Sequence[View]) -> int:
    """The largest unit that divides every access size, and the distances between the arguments' elements."""
    unit = math.gcd(*sizes) or 1
    for view in views:
        if view.extent.pointer is not None:
            unit = math.gcd(unit, view.extent.pointer, *map(abs, view.strides))
    return unit
