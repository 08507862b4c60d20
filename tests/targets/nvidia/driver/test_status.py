"""Failed assertions: the words that a kernel leaves become an exception where the program waits next."""

from __future__ import annotations

import ctypes
import gc
import sys
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import pytest

from tilewright.diagnostics import KernelAssertionError
from tilewright.targets.base import CodeObject
from tilewright.targets.nvidia.driver import status
from tilewright.targets.nvidia.driver.cuda import CUDA
from tilewright.targets.nvidia.driver.device import Device
from tilewright.targets.nvidia.driver.status import Loaded, Status, raise_failures

PLACE = {"file": "user.py", "line": 7, "column": 4, "end_line": 7, "end_column": 9, "function": "k", "caller": None}
CODE = CodeObject("nvidia", "k", b"", {}, {"asserts": [{"message": "first", "location": PLACE},
                                                       {"message": "x > 0", "location": PLACE}]})
DEVICE: Any = SimpleNamespace(current=nullcontext)


@pytest.fixture
def words(monkeypatch: pytest.MonkeyPatch) -> ctypes.Array[ctypes.c_uint64]:
    memory = (ctypes.c_uint64 * 4)(9, 9, 9, 9)

    def host_alloc(size: int, flags: int) -> tuple[int, int]:
        assert (size, flags) == (32, 3)
        return 0, ctypes.addressof(memory)

    monkeypatch.setitem(CUDA.__dict__, "api", SimpleNamespace(cuMemHostAlloc=host_alloc))
    monkeypatch.setattr(status, "LOADED", Loaded())
    return memory


def test_a_failure_is_raised_once(words: ctypes.Array[ctypes.c_uint64], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    kernel = Status(CODE, DEVICE)
    assert kernel.address == ctypes.addressof(words) and list(words) == [0, 0, 0, 0]
    raise_failures()
    words[:] = (2, 5, 6, 7)
    with pytest.raises(KernelAssertionError, match=r"user.py:7:5(.|\n)*failed in program \(5, 6, 7\): x > 0"):
        raise_failures()
    raise_failures()


def test_torch_raises_when_it_has_waited(words: ctypes.Array[ctypes.c_uint64], monkeypatch: pytest.MonkeyPatch) -> None:
    waited: list[str] = []

    class Stream:
        def synchronize(self) -> None:
            waited.append("stream")

    class Event:
        def synchronize(self) -> None:
            waited.append("event")

    cuda = SimpleNamespace(synchronize=lambda device=None: waited.append("all"), Stream=Stream, Event=Event)
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(cuda=cuda))
    kernels = [Status(CODE, DEVICE), Status(CODE, DEVICE)]
    for wait, name in ((lambda: cuda.synchronize(0), "all"), (Stream().synchronize, "stream"),
                       (Event().synchronize, "event")):
        wait()
        words[:] = (1, 0, 0, 0)
        with pytest.raises(KernelAssertionError, match="first"):
            wait()
        assert waited == [name, name]
        waited.clear()
    assert len(kernels) == 2


def test_the_drivers_own_wait_raises_it(words: ctypes.Array[ctypes.c_uint64], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    kernel = Status(CODE, DEVICE)
    assert kernel.address
    waited: list[str] = []
    monkeypatch.setattr(Device, "current", lambda self: nullcontext())
    monkeypatch.setattr(CUDA, "call", waited.append)
    words[:] = (1, 0, 0, 3)
    with pytest.raises(KernelAssertionError, match=r"in program \(0, 0, 3\): first"):
        Device(0).synchronize()
    assert waited == ["cuCtxSynchronize"]


def listed(loaded: Loaded) -> list[int]:
    """The addresses that native code looks at."""
    at = ctypes.c_uint64.from_address(loaded.head).value
    count = ctypes.c_uint64.from_address(at).value
    return list((ctypes.c_uint64 * count).from_address(at + 8))


def test_native_code_finds_the_words_of_what_was_loaded(words: ctypes.Array[ctypes.c_uint64],
                                                        monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    assert listed(status.LOADED) == []
    kernels = [Status(CODE, DEVICE) for _ in range(3)]
    assert listed(kernels[0].loaded) == [ctypes.addressof(words)] * 3 and listed(status.NONE) == []
    assert list(status.LOADED) == kernels


def test_a_failure_is_raised_where_nobody_has_the_kernel_any_more(words: ctypes.Array[ctypes.c_uint64],
                                                                  monkeypatch: pytest.MonkeyPatch) -> None:
    """A function that launches a kernel of its own and returns, before the kernel has run."""
    monkeypatch.setitem(sys.modules, "torch", None)
    kernel = Status(CODE, DEVICE)
    del kernel
    gc.collect()
    words[:] = (1, 2, 0, 0)
    with pytest.raises(KernelAssertionError, match=r"in program \(2, 0, 0\): first"):
        raise_failures()
