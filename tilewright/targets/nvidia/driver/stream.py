"""The stream on which a launch goes: torch's current one for the device, else CuPy's, else the default stream.

A library is asked only if the program has imported it.  Tests: tests/targets/nvidia/driver/test_driver.py.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable

from tilewright.imported import imported

_C_FUNCTION = "aoti_torch_get_current_cuda_stream"      # aoti_torch/c/shim.h


def current_stream(device: int) -> int:
    """The handle of the stream; 0 is the default stream."""
    raw = raw_stream_function()
    if raw is not None:
        return raw(device)
    cupy = imported("cupy")
    return int(cupy.cuda.get_current_stream().ptr) if cupy is not None else 0


def native_stream_function(device: int) -> int:
    """The address of torch's C function `(device, where the handle is put) -> 0`, a few nanoseconds a call; 0 without
    one that says what `current_stream` does."""
    raw, file = raw_stream_function(), getattr(getattr(sys.modules.get("torch"), "_C", None), "__file__", None)
    if raw is None or file is None:
        return 0
    function = getattr(ctypes.CDLL(file), _C_FUNCTION, None)      # of what the module links, too
    handle = ctypes.c_void_p()
    if function is None or function(ctypes.c_int32(device), ctypes.byref(handle)):
        return 0
    return ctypes.cast(function, ctypes.c_void_p).value or 0 if (handle.value or 0) == raw(device) else 0


def stream_is_told_by_python() -> bool:
    """Whether `current_stream` asks a library that native code does not know."""
    return raw_stream_function() is None and imported("cupy") is not None


def raw_stream_function() -> Callable[[int], int] | None:
    """torch's function from device to stream handle, 0.1 µs a call (its Stream object takes 4); None without torch."""
    torch = sys.modules.get("torch")
    found: Callable[[int], int] | None = getattr(getattr(torch, "_C", None), "_cuda_getCurrentRawStream", None)
    return found
