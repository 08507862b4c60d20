"""What a native launch on a GPU (`launch_code`) and Python share: a kernel's record, and how many blocks run programs.

Apart from the code's text, since a process that finds that in the disk cache does without what writes it (2 ms).
Tests: tests/targets/nvidia/driver/test_launch_code.py.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence

MOST_PARAMS = 64            # what a native launcher passes at most
KEY = "cuda launch 5"       # changes with the text, which is stored under it
DRIVER_SYMBOLS = ("cuCtxGetCurrent", "cuCtxPushCurrent_v2", "cuCtxPopCurrent_v2", "cuLaunchKernel")


class Record:
    """Offsets in a kernel's record.  `STREAM` is the address of torch's Python function or 0, `DEVICE` of its argument,
    `NATIVE_STREAM` that of the C function which says the same, or 0, and `DEVICE_NUMBER` its argument; `MAPS` is the
    number of tensor maps, `FILL` 0 without any; more than `MOST_PROGRAMS` along an axis of the grid, and any grid while
    a failed assertion waits to be raised, are launched by `BY_PYTHON`, a function like that.  `STATUS` is the address
    that follows the slots, or 0, and `FAILURES` that of the word where `status.Loaded` says which words tell of failed
    assertions."""

    (LAUNCH, FUNCTION, CONTEXT, STREAM, DEVICE, PARAMS, THREADS, SHARED, BLOCKS, TABLE, MAPS, FIRST_MAP, FILL,
     MOST_PROGRAMS, BY_PYTHON, NATIVE_STREAM, DEVICE_NUMBER, STATUS, FAILURES) = range(0, 152, 8)
    SIZE = 152


# Fill the table for the slots at an address, for a launch on the grid x, y, z: 1; 0 if the launch is done, in another
# way; -1 for an error, which is kept.
FILL = ctypes.PYFUNCTYPE(ctypes.c_int64, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64, ctypes.c_int64)


def blocks_along_x(at_once: int, grid: Sequence[int]) -> int:
    """How many blocks along x run the programs of `grid`, if the GPU runs `at_once` blocks at the same time; 0 of
    those: a block runs one program."""
    x, y, z = grid
    return min(x, max(1, at_once // max(1, y * z))) if at_once else x
