"""A launch on a GPU whose tensors are in the CPU's memory: copied to the GPU, and back when it has ended.

For tests that run on every engine.  Tensors that share memory share it in the copy, too; what surrounds them is not
there, so compute-sanitizer sees an access that leaves them.  What a kernel prints goes to `sys.stdout`, a failed
assertion is raised.  Tests: `python -m tests.gpu` (on a machine with a GPU).
"""

from __future__ import annotations

import ctypes
import os
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from tilewright.lowering import finish, lower
from tilewright.runtime import knobs
from tilewright.runtime.arguments import Pointer
from tilewright.runtime.devices import DEVICES
from tilewright.runtime.grid import normalise
from tilewright.runtime.jit import JITFunction
from tilewright.runtime.launch import check_on_host, check_writable, facts_of
from tilewright.runtime.mirror import merged
from tilewright.targets.base import CodeObject

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


def target() -> Any:
    """GPU 0, with the knobs as they are now."""
    return DEVICES.cuda(0, knobs.current())


def run(kernel: JITFunction, grid: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
    """Compile for GPU 0, and run every program of `grid` there."""
    values, given = kernel.bind(args, kwargs)
    split = kernel.specializer.split(values)
    sizes = normalise(kernel.__name__, grid, dict(zip(kernel.arg_names, values, strict=True)))
    names = kernel.slot_names(split)
    check_on_host(kernel.__name__, names, split.pointers)
    lowered = lower(kernel, kernel.specializer.signature(split.atoms, values, False, False), kernel.options(given))
    check_writable(kernel.__name__, names, split.pointers, lowered.written)
    gpu = target()
    code = finish(lowered.with_facts(*facts_of(split.pointers, lowered.written)), gpu)
    launch(gpu, code, sizes, split.slots, split.pointers)


def launch(gpu: Any, code: CodeObject, grid: tuple[int, int, int], slots: Sequence[int],
           pointers: Sequence[tuple[int, Pointer]]) -> None:
    """Run compiled code: `slots` are the arguments as 64-bit patterns, `pointers` the tensors among them."""
    loaded = gpu.load(code)
    regions = [_Region(low, high, gpu.device) for low, high in merged([p for _, p in pointers])]
    moved = list(slots)
    for slot, pointer in pointers:
        for region in regions:
            if region.low <= pointer.low and pointer.high <= region.high and pointer.low < pointer.high:
                moved[slot] += region.moved_by
    if all(grid):
        with _printing():
            loaded.launch(grid, moved)
            gpu.device.synchronize()
    for region in regions:
        region.write_back()


@contextmanager
def _printing() -> Iterator[None]:
    """What CUDA's driver writes to file 1 of the process is written to `sys.stdout`, where pytest looks."""
    sys.stdout.flush()
    kept = os.dup(1)
    with tempfile.TemporaryFile() as file:
        os.dup2(file.fileno(), 1)
        try:
            yield
        finally:
            ctypes.CDLL(None).fflush(None)
            os.dup2(kept, 1)
            os.close(kept)
            file.seek(0)
            sys.stdout.write(file.read().decode(errors="replace"))
