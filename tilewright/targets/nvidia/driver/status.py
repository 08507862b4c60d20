"""Failed assertions of kernels on a GPU, raised as exceptions in Python.

A kernel with `device_assert` gets the address of four words that host and device see.  The first program to fail fills
them, and its kernel ends early; nothing traps, so the context lives on.  Launches do not wait, so a failure is
raised by what waits or comes next: `torch.cuda.synchronize`, `Stream.synchronize`, `Event.synchronize` (which are
wrapped when the first such kernel is loaded and torch is there), the driver's own `synchronize`, the next launch of
any kernel with assertions, which is native code that looks at the words and calls Python if one is set
(`launch_code`).  Tests: tests/targets/nvidia/driver/test_status.py.
"""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable, Iterator
from typing import Any

from tilewright.diagnostics import KernelAssertionError, recorded_location, render
from tilewright.imported import imported
from tilewright.locks import ForkSafeLock
from tilewright.targets.base import CodeObject
from tilewright.targets.nvidia.driver.cuda import CUDA

_WORDS = 4                      # number of the assertion from 1 on, program along x, y, z: targets.nvidia.target
_PORTABLE_AND_MAPPED = 1 | 2    # CU_MEMHOSTALLOC_PORTABLE, CU_MEMHOSTALLOC_DEVICEMAP


class Loaded:
    """The statuses of kernels that have been loaded, and where native code finds their words.

    They stay for good: when a kernel is collected its last launch may not have ended, which then writes its words, and
    somebody is still to be told.  At `head` stands the address of a list: how many there are, then the address of the
    words of each.
    """

    def __init__(self) -> None:
        self._lock = ForkSafeLock()
        self._statuses: list[Status] = []
        self._head = (ctypes.c_uint64 * 1)()
        self.head = ctypes.addressof(self._head)
        self._write()

    def _write(self) -> None:
        with self._lock:
            addresses = [status.address for status in self]
            written = (ctypes.c_uint64 * (1 + len(addresses)))(len(addresses), *addresses)
            self._head[0] = ctypes.addressof(written)   # one store: native code, under Python's lock, sees one of both
            self._list = written        # not before: it keeps the list in memory

    def add(self, status: Status) -> None:
        """Watch these words from now on."""
        with self._lock:
            self._statuses.append(status)
            self._write()

    def __iter__(self) -> Iterator[Status]:
        return iter(list(self._statuses))


LOADED = Loaded()       # of this process
NONE = Loaded()         # for kernels without assertions


class Status:
    """The words of one loaded kernel."""

    def __init__(self, code: CodeObject, device: Any) -> None:
        self._asserts = code.metadata["asserts"]
        with device.current():
            self.address = int(CUDA.call("cuMemHostAlloc", 8 * _WORDS, _PORTABLE_AND_MAPPED))
        self._words = (ctypes.c_uint64 * _WORDS).from_address(self.address)
        ctypes.memset(self.address, 0, 8 * _WORDS)
        self.loaded = LOADED
        LOADED.add(self)
        _watch_torch()

    def failure(self) -> KernelAssertionError | None:
        """The failure that the words tell of, which they then forget."""
        number, *program = self._words
        if not number:
            return None
        ctypes.memset(self.address, 0, 8 * _WORDS)
        failed = self._asserts[number - 1]
        message = f"device assertion failed in program {tuple(program)}: {failed['message']}"
        return KernelAssertionError(render(message, recorded_location(failed["location"])))


def raise_failures() -> None:
    """Raise what a kernel that has ended failed with, if one has."""
    for status in LOADED:
        failure = status.failure()
        if failure is not None:
            raise failure


def _watch_torch() -> None:
    """Let torch's functions that wait raise failures when they have waited."""
    torch = imported("torch")
    if torch is None or hasattr(torch.cuda.synchronize, "raises_failures"):
        return
    for owner in (torch.cuda, torch.cuda.Stream, torch.cuda.Event):
        owner.synchronize = _raising(owner.synchronize)


def _raising(wait: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(wait)
    def synchronize(*args: Any, **kwargs: Any) -> Any:
        result = wait(*args, **kwargs)
        raise_failures()
        return result

    synchronize.raises_failures = True      # type: ignore[attr-defined]
    return synchronize
