"""A launch on a GPU whose tensors are in the CPU's memory: copied to the GPU, and back when it has ended.

For tests that run on every engine.  Tensors that share memory share it in the copy, too; what surrounds them is not
there, so compute-sanitizer sees an access that leaves them.  Tests: tests/gpu/ (on a machine with a GPU).
"""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from typing import Any

from tilewright.compile import finish, lower
from tilewright.runtime import knobs
from tilewright.runtime.devices import DEVICES
from tilewright.runtime.grid import normalise
from tilewright.runtime.jit import JITFunction
from tilewright.runtime.launch import check_on_host, check_writable, facts_of
from tilewright.runtime.mirror import merged

_ALIGN = 16     # the largest divisor of an address that a specialisation knows of


class _Region:
    """The bytes low .. high - 1 of the CPU's memory, on the GPU at the same place in a line of 16 bytes."""

    def __init__(self, low: int, high: int, device: Any) -> None:
        self.low, self.high, self._device = low, high, device
        self._memory = device.allocate(high - low + _ALIGN)
        start = self._memory.address
        self.moved_by = start + (low - start) % _ALIGN - low
        self._data = ctypes.string_at(low, high - low)
        device.write(low + self.moved_by, self._data)

    def write_back(self) -> None:
        """What has changed goes back."""
        now = self._device.read(self.low + self.moved_by, self.high - self.low)
        if now != self._data:
            ctypes.memmove(self.low, now, len(now))


def run(kernel: JITFunction, grid: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
    """Compile for GPU 0, and run every program of `grid` there."""
    values, given = kernel.bind(args, kwargs)
    split = kernel.specializer.split(values)
    sizes = normalise(kernel.__name__, grid, dict(zip(kernel.arg_names, values, strict=True)))
    names = kernel.slot_names(split)
    check_on_host(kernel.__name__, names, split.pointers)
    lowered = lower(kernel, kernel.specializer.signature(split.atoms, values, False, False), kernel.options(given))
    check_writable(kernel.__name__, names, split.pointers, lowered.written)
    target: Any = DEVICES.cuda(0, knobs.snapshot())
    loaded = target.load(finish(lowered.with_facts(*facts_of(split.pointers, lowered.written)), target))
    regions = [_Region(low, high, target.device) for low, high in merged([p for _, p in split.pointers])]
    slots = list(split.slots)
    for slot, pointer in split.pointers:
        for region in regions:
            if region.low <= pointer.low and pointer.high <= region.high and pointer.low < pointer.high:
                slots[slot] += region.moved_by
    if sizes[0] and sizes[1] and sizes[2]:
        loaded.launch(sizes, slots)
        target.device.synchronize()
    for region in regions:
        region.write_back()
