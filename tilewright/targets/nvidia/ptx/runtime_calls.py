"""vprintf and __assertfail, which the CUDA runtime provides (CUDA C++ Programming Guide: formatted output, assertion).

Arguments lie in `.param` variables, which are thread-local here.
Tests: tests/targets/nvidia/ptx/test_calls.py.
"""

from __future__ import annotations

import re
import struct
from typing import TYPE_CHECKING, Any

import numpy as np

from tilewright.diagnostics import Location
from tilewright.targets.nvidia.ptx.memory import LOCAL_WINDOW
from tilewright.targets.nvidia.ptx.report import Fault

if TYPE_CHECKING:
    from tilewright.targets.nvidia.ptx.binding import Binding, Mask, Step

Array = np.ndarray[Any, Any]
_CONVERSION = re.compile(r"%([-+ #0]*)(\d*)(?:\.(\d+))?(hh|h|ll|l|z|t|j)?([diouxXcsfFeEgGaAp%])")


def _argument(bind: Binding, address: int, item: int, threads: Array) -> Array:
    return bind.cta.local.read(np.full(len(threads), address, np.int64), threads, item, 1)[:, 0]


def text_at(bind: Binding, address: int) -> str:
    """The C string at a global address."""
    region = bind.cta.launch.memory.region_at(address)
    if region is None or not region.low <= address < region.high:
        raise Fault("out of bounds", f"a string at address {address:#x}, where nothing is")
    raw = region.data[address - region.base:region.high - region.base].tobytes()
    return raw.split(b"\0")[0].decode("utf-8", "replace")


def print_formatted(bind: Binding, arguments: list[int], result: int | None) -> Step:
    """vprintf(format, buffer): a text a thread, in the order of threads; gives the number of arguments."""
    cta = bind.cta

    def step(on: Mask) -> None:
        threads = np.flatnonzero(cta.lanes(on))
        formats = _argument(bind, arguments[0], 8, threads)
        buffers = _argument(bind, arguments[1], 8, threads).astype(np.int64)
        for thread, format, buffer in zip(threads, formats, buffers):
            cta.launch.printed.append(_format(bind, text_at(bind, int(format)), int(buffer), int(thread)))
        if result is not None:
            cta.local.write(np.full(len(threads), result, np.int64), threads, np.ones((len(threads), 1), np.uint32))

    return step


def _bytes_at(bind: Binding, address: int, size: int, thread: int) -> bytes:
    """Bytes of the argument buffer, which is generic: local memory, most often."""
    cta = bind.cta
    memory: Any = cta.launch.memory
    if address >= LOCAL_WINDOW:
        memory, address = cta.local, address - LOCAL_WINDOW
    row = memory.read(np.array([address]), np.array([thread]), size, 1)
    return bytes(np.ascontiguousarray(row).tobytes())


def _format(bind: Binding, format: str, buffer: int, thread: int) -> str:
    """C's printf for the conversions that have a meaning on a GPU."""
    at = 0

    def one(match: re.Match[str]) -> str:
        nonlocal at
        flags, width, precision, length, kind = match.groups()
        if kind == "%":
            return "%"
        wide = kind in "fFeEgGaAsp" or (length or "") in ("ll", "l", "z", "t", "j")
        size = 8 if wide else 4
        at = -(-at // size) * size
        raw = _bytes_at(bind, buffer + at, size, thread)
        at += size
        spec = f"%{flags}{width}" + (f".{precision}" if precision is not None else "")
        if kind in "fFeEgGaA":
            return (spec + ("f" if kind in "aA" else kind)) % float(struct.unpack("<d", raw)[0])
        number = int.from_bytes(raw, "little", signed=kind in "di")
        if kind == "s":
            return (spec + "s") % text_at(bind, number)
        if kind == "p":
            return (spec + "s") % hex(number)
        if kind == "c":
            return chr(number & 0xFF)
        return (spec + ("d" if kind in "diu" else kind)) % number

    return _CONVERSION.sub(one, format)


def assert_fail(bind: Binding, arguments: list[int]) -> Step:
    """__assertfail(message, file, line, function, size of a character)."""
    cta = bind.cta

    def step(on: Mask) -> None:
        threads = np.flatnonzero(cta.lanes(on))
        pointers = [int(_argument(bind, arguments[i], 8, threads[:1])[0]) for i in (0, 1, 3)]
        message, file, function = (text_at(bind, pointer) for pointer in pointers)
        line = int(_argument(bind, arguments[2], 4, threads[:1])[0])
        fault = Fault("assertion", message, tuple(int(t) for t in threads[:3]))
        fault.location = Location(file, line, function=function) if line else None
        raise fault

    return step
