"""Copies to a GPU and back, against a device whose memory is the CPU's."""

from __future__ import annotations

import ctypes
import os
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tilewright.runtime.arguments import Pointer
from tilewright.testing import on_gpu


class Memory:
    def __init__(self, size: int) -> None:
        self.data = ctypes.create_string_buffer(size + 256)
        self.address = -(-ctypes.addressof(self.data) // 256) * 256


class Device:
    """Keeps what it allocates; a kernel adds the first array to the second, and prints."""

    def __init__(self) -> None:
        self.memory: list[Memory] = []
        self.launched: list[list[int]] = []

    def allocate(self, size: int) -> Memory:
        self.memory.append(Memory(size))
        return self.memory[-1]

    def read(self, address: int, size: int) -> bytes:
        return ctypes.string_at(address, size)

    def write(self, address: int, data: bytes) -> None:
        ctypes.memmove(address, data, len(data))

    def synchronize(self) -> None:
        os.write(1, b"printed by a kernel\n")

    def launch(self, grid: Any, slots: list[int]) -> None:
        self.launched.append(slots)
        x, y = ((ctypes.c_int32 * 4).from_address(a) for a in slots[:2])
        y[:] = [a + b for a, b in zip(x, y)]


def pointer(array: np.ndarray) -> Pointer:
    return Pointer("i32", array.ctypes.data, array.ctypes.data, array.ctypes.data + array.nbytes)


def launch(device: Device, grid: tuple[int, int, int], *arrays: np.ndarray) -> None:
    gpu = SimpleNamespace(device=device, load=lambda code: device)
    on_gpu.launch(gpu, None, grid, [*(a.ctypes.data for a in arrays), 7],      # type: ignore[arg-type]
                  list(enumerate(map(pointer, arrays))))


def test_arrays_go_there_and_come_back(capsys: pytest.CaptureFixture[str]) -> None:
    device, x, y = Device(), np.arange(4, dtype=np.int32), np.full(4, 10, np.int32)
    launch(device, (1, 1, 1), x, y)
    assert y.tolist() == [10, 11, 12, 13] and x.tolist() == [0, 1, 2, 3]
    (slots,) = device.launched
    assert slots[0] != x.ctypes.data and slots[2] == 7
    assert [s % 16 for s in slots[:2]] == [a.ctypes.data % 16 for a in (x, y)]
    assert capsys.readouterr().out == "printed by a kernel\n"


def test_arrays_that_share_memory_share_it_there() -> None:
    device, x = Device(), np.arange(6, dtype=np.int32)
    launch(device, (1, 1, 1), x[:4], x[2:])
    assert x.tolist() == [0, 1, 2, 4, 6, 8] or x.tolist() == [0, 1, 2, 4, 6, 9]
    (slots,) = device.launched
    assert slots[1] - slots[0] == 8 and len(device.memory) == 1


def test_an_empty_grid_and_an_empty_array() -> None:
    device, x, y = Device(), np.arange(4, dtype=np.int32), np.zeros(0, np.int32)
    launch(device, (0, 1, 1), x, y)
    assert not device.launched and x.tolist() == [0, 1, 2, 3]
