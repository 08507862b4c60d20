"""The targets of this process, made when they are first needed.

Loading a target imports LLVM, so neither import nor decoration may do it; the first compilation does.
Tests: tests/runtime/test_import.py.
"""

from __future__ import annotations

import threading

from tilewright.targets.base import Target


class Devices:
    """One target object a kind of device and number of threads, so that they share what they load."""

    def __init__(self) -> None:
        self._targets: dict[tuple[str, int], Target] = {}
        self._lock = threading.Lock()

    def cpu(self, num_threads: int = 0) -> Target:
        """The CPU target; `num_threads` 0 means all cores of this process."""
        key = ("cpu", num_threads)
        target = self._targets.get(key)
        if target is None:
            with self._lock:
                target = self._targets.get(key)
                if target is None:
                    from tilewright.targets.cpu.target import CpuTarget
                    target = self._targets[key] = CpuTarget(threads=num_threads or None)
        return target


DEVICES = Devices()     # the machine is one for the whole process
