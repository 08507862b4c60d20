"""The targets of this process, made when they are first needed.

Loading a target imports LLVM, so neither import nor decoration may do it; the first compilation does.
Tests: tests/runtime/test_import.py.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Any

from tilewright.targets.base import Target


class Devices:
    """One target object for a kind of device and its settings, so that launches share what they load."""

    def __init__(self) -> None:
        self._targets: dict[tuple[Any, ...], Target] = {}
        self._lock = threading.Lock()

    def cpu(self, settings: Mapping[str, Any]) -> Target:
        """The CPU target for these knobs."""
        key = ("cpu", settings["num_threads"], settings["host"], settings["timeout"])
        target = self._targets.get(key)
        if target is None:
            with self._lock:
                target = self._targets.get(key)
                if target is None:
                    from tilewright.targets.cpu.target import CpuTarget
                    _, threads, host, timeout = key
                    target = self._targets[key] = CpuTarget(threads=threads or None, host=host, timeout_s=timeout)
        return target


DEVICES = Devices()     # the machine is one for the whole process
