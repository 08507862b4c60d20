"""Launches whose tensors are in a device's memory, brought to the CPU's: here a device that is memory elsewhere."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest

from tilewright.runtime.arguments import Pointer
from tilewright.runtime.mirror import on_host
from tilewright.runtime.specialize import Split
from tilewright.targets.nvidia.ptx.buffers import byte_bounds


class Elsewhere:
    """A device: what it reads and writes is counted."""

    def __init__(self) -> None:
        self.reads: list[tuple[int, int]] = []
        self.writes: list[int] = []

    def read(self, address: int, size: int) -> bytes:
        self.reads.append((address, size))
        return ctypes.string_at(address, size)

    def write(self, address: int, data: bytes) -> None:
        self.writes.append(address)
        ctypes.memmove(address, data, len(data))


def split(*arrays: np.ndarray) -> Split:
    def pointer(a: np.ndarray) -> Pointer:
        low, high = byte_bounds(a)
        return Pointer("fp32", a.ctypes.data, low, high if a.size else low, True, "cuda:0")

    pointers = [(2 * k, pointer(a)) for k, a in enumerate(arrays)]
    slots = [word for _, p in pointers for word in (p.address, 7)]
    return Split(("*fp32", "i32") * len(arrays), slots, pointers, False)


def seen(address: int, count: int) -> np.ndarray:
    return np.frombuffer((ctypes.c_float * count).from_address(address), np.float32)


def test_changes_go_back_and_only_they() -> None:
    a, b, device = np.arange(8, dtype=np.float32), np.ones(8, np.float32), Elsewhere()
    with on_host(split(a, b), device) as host:
        assert [p.device for _, p in host.pointers] == ["cpu", "cpu"] and host.slots[1::2] == [7, 7]
        assert host.slots[0] != a.ctypes.data and host.slots[0] % 512 == a.ctypes.data % 512
        assert (seen(host.slots[0], 8) == a).all()
        seen(host.slots[2], 8)[3] = 5
        assert b[3] == 1
    assert b[3] == 5 and device.writes == [b.ctypes.data]


def test_tensors_that_share_memory_share_the_copy() -> None:
    a, device = np.zeros(16, np.float32), Elsewhere()
    with on_host(split(a[:10], a[4:], a[::-1]), device) as host:
        seen(host.slots[0], 10)[5] = 9
        assert seen(host.slots[2], 1 + 1)[1] == 9 and host.slots[4] - host.slots[0] == 60
    assert a[5] == 9 and len(device.reads) == 1


def test_neighbours_are_copied_apart_and_empty_tensors_not_at_all() -> None:
    a, device = np.zeros(16, np.float32), Elsewhere()
    with on_host(split(a[:8], a[8:], a[:0]), device) as host:
        assert host.slots[4] == a.ctypes.data
    assert sorted(device.reads) == [(a.ctypes.data, 32), (a.ctypes.data + 32, 32)] and not device.writes


def test_an_error_leaves_the_device_alone() -> None:
    a, device = np.zeros(4, np.float32), Elsewhere()
    with pytest.raises(ZeroDivisionError), on_host(split(a), device) as host:
        seen(host.slots[0], 4)[0] = 1
        raise ZeroDivisionError
    assert a[0] == 0 and not device.writes
