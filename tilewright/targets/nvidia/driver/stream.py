"""The stream on which a launch goes: torch's current one for the device, else CuPy's, else the default stream.

A library is asked only if the program has imported it.  Tests: tests/targets/nvidia/driver/test_driver.py.
"""

from __future__ import annotations

import sys
from collections.abc import Callable

from tilewright.imported import imported


def current_stream(device: int) -> int:
    """The handle of the stream; 0 is the default stream."""
    raw = raw_stream_function()
    if raw is not None:
        return raw(device)
    cupy = imported("cupy")
    return int(cupy.cuda.get_current_stream().ptr) if cupy is not None else 0


def raw_stream_function() -> Callable[[int], int] | None:
    """torch's function from device to stream handle, 0.1 µs a call (its Stream object takes 4); None without torch."""
    torch = sys.modules.get("torch")
    found: Callable[[int], int] | None = getattr(getattr(torch, "_C", None), "_cuda_getCurrentRawStream", None)
    return found
