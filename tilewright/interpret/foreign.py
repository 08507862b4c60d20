"""Memory of this process that belongs to no argument, read and written without the danger of a crash.

A pointer that a kernel loaded from memory may lead anywhere.  On Linux the kernel copies for us
(`process_vm_readv(2)`, `process_vm_writev(2)` on our own process), so a bad address is an error and no SIGSEGV.
Elsewhere, and where a sandbox forbids the calls, such an access is refused.  Tests: tests/interpret/test_memory.py.
"""

from __future__ import annotations

import ctypes
import os
import sys
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]

_MOST_VECTORS = 1024        # IOV_MAX, limits.h
_VECTOR = np.dtype([("base", np.uint64), ("length", np.uint64)])    # struct iovec on a 64-bit Linux


class BadAddressError(Exception):
    """Entry `index` of the list of addresses cannot be accessed."""

    def __init__(self, index: int, reason: str) -> None:
        self.index, self.reason = index, reason
        super().__init__(reason)


def read(address: Array, dtype: np.dtype[Any]) -> Array:
    """The elements of `dtype` at a flat int64 array of byte addresses."""
    out = np.empty(address.size, dtype)
    _transfer("process_vm_readv", address, out, "it is no readable memory")
    return out


def write(address: Array, value: Array) -> Array:
    """Store `value` at a flat array of byte addresses, in order; returns the value."""
    data = np.ascontiguousarray(value)
    _transfer("process_vm_writev", address, data, "it is no writable memory")
    return data


def _transfer(name: str, address: Array, data: Array, fault: str) -> None:
    function = _system_call(name)
    if function is None:
        raise BadAddressError(0, "it belongs to no argument, and this system has no safe way to access it")
    for first in range(0, address.size, _MOST_VECTORS):
        part = data[first:first + _MOST_VECTORS]
        remote = np.zeros(part.size, _VECTOR)
        remote["base"] = address[first:first + _MOST_VECTORS].view(np.uint64)
        remote["length"] = data.itemsize
        local = np.array([(part.ctypes.data, part.nbytes)], _VECTOR)
        done = function(os.getpid(), local.ctypes.data, 1, remote.ctypes.data, part.size, 0)
        if done != part.nbytes:
            error = ctypes.get_errno() if done < 0 else 0
            moved = max(done, 0) // data.itemsize       # a partial transfer ends between two vectors
            reason = fault if error in (0, 14) else f"the system refused the access: {os.strerror(error)}"
            raise BadAddressError(first + moved, reason)


def _system_call(name: str) -> Any:
    """The C library's wrapper of the call, or None where there is none."""
    if not sys.platform.startswith("linux") or ctypes.sizeof(ctypes.c_void_p) != 8:
        return None
    function = getattr(ctypes.CDLL(None, use_errno=True), name, None)
    if function is not None:
        function.restype = ctypes.c_ssize_t
        function.argtypes = [ctypes.c_int, ctypes.c_void_p, ctypes.c_ulong, ctypes.c_void_p, ctypes.c_ulong,
                             ctypes.c_ulong]
    return function
