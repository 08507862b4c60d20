"""A launch whose tensors are in a device's memory, made one in the CPU's: copied in, and back when it has ended.

For the interpreters.  Tensors that share memory share it in the copy, too.  Addresses that lie in memory themselves
(tables of pointers) are not followed.  Tests: tests/runtime/test_mirror.py.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import numpy as np

from tilewright.runtime.arguments import CPU, Pointer
from tilewright.runtime.specialize import Split
from tilewright.targets.base import Target

_ALIGN = 512        # at least what allocators of GPUs promise, so that what is a multiple of 16 stays one


class _Region:
    """Bytes low .. high - 1 of the device, and their copy."""

    def __init__(self, low: int, high: int, target: Target) -> None:
        self.low, self.high = low, high
        self.data = target.read(low, high - low)
        room = np.zeros(high - low + 2 * _ALIGN, np.uint8)
        start = (low - room.ctypes.data) % _ALIGN
        self.copy = room[start:start + high - low]
        self.copy[:] = np.frombuffer(self.data, np.uint8)

    @property
    def moved_by(self) -> int:
        return int(self.copy.ctypes.data) - self.low

    def write_back(self, target: Target) -> None:
        """What has changed goes back."""
        now = self.copy.tobytes()
        if now != self.data:
            target.write(self.low, now)


@contextmanager
def on_host(split: Split, target: Target) -> Iterator[Split]:
    """The same arguments with all pointers into copies; after a normal end the copies are written back."""
    regions = [_Region(low, high, target) for low, high in merged([p for _, p in split.pointers])]
    slots, pointers = list(split.slots), []
    for slot, pointer in split.pointers:
        region = next((r for r in regions if r.low <= pointer.low and pointer.high <= r.high), None)
        by = region.moved_by if region is not None and pointer.high > pointer.low else 0
        slots[slot] += by
        pointers.append((slot, pointer._replace(address=pointer.address + by, low=pointer.low + by,
                                                high=pointer.high + by, device=CPU)))
    yield split._replace(slots=slots, pointers=pointers)
    for region in regions:
        region.write_back(target)


def merged(pointers: Sequence[Pointer]) -> list[tuple[int, int]]:
    """The byte ranges that pointers reach, those that meet made one."""
    merged: list[tuple[int, int]] = []
    for low, high in sorted((p.low, p.high) for p in pointers if p.high > p.low):
        if merged and low < merged[-1][1]:
            merged[-1] = (merged[-1][0], max(high, merged[-1][1]))
        else:
            merged.append((low, high))
    return merged
