"""Moments between which time is taken: on the host for kernels of the CPU, in the GPU's stream for those of a GPU.

A launch on the CPU is done when it returns.  On a GPU a moment is an event of torch's current stream, so an interval
is what passes in the stream between two events: the kernel, and a gap before it where the GPU waits for the host.
Tests: tests/profiler/, tests/gpu/test_profiles.py.
"""

from __future__ import annotations

import importlib
import time
from typing import Any

from tilewright.runtime.driver import driver

_NS_PER_MS = 1e6


def now(on_gpu: bool) -> Any:
    """This moment."""
    if not on_gpu:
        return time.perf_counter_ns()
    event = importlib.import_module("torch").cuda.Event(enable_timing=True)
    event.record()
    return event


def nanoseconds(start: Any, end: Any) -> float:
    """From one moment to another of the same kind; waits until the second has come."""
    if isinstance(start, int):
        return float(end - start)
    end.synchronize()
    return float(start.elapsed_time(end) * _NS_PER_MS)


def works_on_gpu() -> bool:
    """Whether the program works on a GPU, as far as can be told without a kernel."""
    if driver.active.get_current_target().backend != "cuda":
        return False
    torch = importlib.import_module("torch")
    return bool(torch.version.cuda and torch.cuda.is_available())
