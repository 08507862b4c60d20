"""Kernels launched by native code, from the arguments to a driver of callbacks; failed assertions among them."""

from __future__ import annotations

import ctypes
import sys
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import tilewright as tw
import tilewright.language as tl
from tests.targets.nvidia.driver.test_driver import FakeDriver
from tilewright.diagnostics import KernelAssertionError
from tilewright.runtime import knobs
from tilewright.runtime.devices import DEVICES
from tilewright.runtime.hooks import HOOKS
from tilewright.targets.nvidia.driver import kernel as kernel_module
from tilewright.targets.nvidia.driver import status
from tilewright.targets.nvidia.driver import stream as stream_module
from tilewright.targets.nvidia.driver.cuda import CUDA, CudaError
from tilewright.targets.nvidia.driver.launch_record import KEY
from tilewright.targets.nvidia.driver.status import Loaded

pytestmark = pytest.mark.unchecked("native code launches nothing there")

CONTEXT, FUNCTION = 0x1000, 0x77
P, I = ctypes.c_void_p, ctypes.c_uint32


class Library:
    """The driver's functions that native code calls; `launched` has the parameters of each launch."""

    def __init__(self) -> None:
        self.launched: list[list[int]] = []
        self.streams: list[int | None] = []
        self.result = 0
        made = {"cuCtxGetCurrent": ((P,), self._current), "cuCtxPushCurrent_v2": ((P,), lambda _: 0),
                "cuCtxPopCurrent_v2": ((P,), lambda _: 0),
                "cuLaunchKernel": ((P, *(I,) * 7, P, P, P), self._launch)}
        for name, (types, function) in made.items():
            setattr(self, name, ctypes.CFUNCTYPE(ctypes.c_int32, *types)(function))

    @staticmethod
    def _current(where: int) -> int:
        P.from_address(where).value = CONTEXT
        return 0

    def _launch(self, *args: Any) -> int:
        self.streams.append(args[8])
        self.launched.append([ctypes.c_uint64.from_address(p or 0).value for p in (P * 3).from_address(args[9])])
        return self.result


LIBRARY = Library()         # for good, as the native code that is linked with it


class OnGpu:
    """A tensor as native code reads it by its methods, whose memory is the CPU's here."""

    device = "cuda:0"

    def __init__(self, array: np.ndarray) -> None:
        self.array, self.dtype, self.shape = array, array.dtype, array.shape

    def data_ptr(self) -> int:
        return int(self.array.ctypes.data)

    def stride(self) -> tuple[int, ...]:
        return tuple(s // self.array.itemsize for s in self.array.strides)


@pytest.fixture
def words(monkeypatch: pytest.MonkeyPatch) -> ctypes.Array[ctypes.c_uint64]:
    """The status words of the kernels that a test loads."""
    if DEVICES.cpu(knobs.snapshot()).launchers() is None:
        pytest.skip("this Python has no native launchers")
    memory, fake = (ctypes.c_uint64 * 4)(), FakeDriver()
    fake.results |= {"cuMemHostAlloc": ctypes.addressof(memory), "cuDevicePrimaryCtxRetain": CONTEXT,
                     "cuKernelGetFunction": FUNCTION}
    fake.attributes["MAX_REGISTERS_PER_BLOCK"] = 65536
    monkeypatch.setitem(CUDA.__dict__, "api", fake)
    monkeypatch.setitem(sys.modules, "torch", None)
    monkeypatch.setattr(status, "LOADED", Loaded())
    monkeypatch.setattr(kernel_module, "ctypes", SimpleNamespace(**{**vars(ctypes), "CDLL": lambda _: LIBRARY}))
    monkeypatch.setattr(kernel_module, "KEY", f"{KEY} of {__name__}")
    monkeypatch.setattr(DEVICES, "_made", {key: made for key, made in DEVICES._made.items() if key[0] != "cuda"})
    LIBRARY.launched.clear()
    LIBRARY.streams.clear()
    memory.fake = fake      # type: ignore[attr-defined]
    return memory


def asserting(x, n):
    tl.device_assert(n > 3, "small")
    tl.store(x, n)


def unasserting(x, n, m):
    tl.store(x, n + m)


def test_the_fourth_launch_is_native_and_has_the_status(words: ctypes.Array[ctypes.c_uint64]) -> None:
    kernel, x = tw.jit(debug=True)(asserting), OnGpu(np.zeros(4, np.int32))
    for count in range(6):
        kernel[(1,)](x, 5)
        assert len(LIBRARY.launched) == max(0, count - 2)
    assert LIBRARY.launched == [[x.data_ptr(), 5, ctypes.addressof(words)]] * 3
    assert len(words.fake.launched) == 3        # type: ignore[attr-defined]


def test_a_failure_is_raised_by_the_next_launch(words: ctypes.Array[ctypes.c_uint64]) -> None:
    kernel, x = tw.jit(debug=True)(asserting), OnGpu(np.zeros(4, np.int32))
    for _ in range(4):
        kernel[(1,)](x, 5)
    for program in range(2):
        words[:] = (1, program, 0, 0)
        with pytest.raises(KernelAssertionError, match=rf"failed in program \({program}, 0, 0\): small") as caught:
            kernel[(1,)](x, 5)
        assert len(caught.traceback) == 1 and not any(words)        # of this file
        assert len(LIBRARY.launched) == 1 + program
        kernel[(1,)](x, 5)
        assert len(LIBRARY.launched) == 2 + program


def test_a_failure_of_another_kernel(words: ctypes.Array[ctypes.c_uint64]) -> None:
    first, second = (tw.jit(debug=True)(asserting) for _ in range(2))
    x, plain = OnGpu(np.zeros(4, np.int32)), tw.jit(unasserting)
    for _ in range(4):
        first[(1,)](x, 5)
        second[(1,)](x, 5)
        plain[(1,)](x, 5, 6)
    words[:] = (1, 0, 0, 0)
    plain[(1,)](x, 5, 6)        # does not look
    with pytest.raises(KernelAssertionError, match="small"):
        second[(1,)](x, 5)
    first[(1,)](x, 5)


def by_python(kernel: Any, *args: Any) -> None:
    """A launch that native code is not asked for."""
    HOOKS.judge_arguments(lambda *_: None)
    try:
        kernel[(1,)](*args)
    finally:
        HOOKS.judge_arguments(None)


def test_launches_by_python_are_done_by_native_code(words: ctypes.Array[ctypes.c_uint64]) -> None:
    """From the fourth on."""
    kernel, x = tw.jit(debug=True)(asserting), OnGpu(np.zeros(4, np.int32))
    for count in range(5):
        by_python(kernel, x, 5 + 2 * count)
        assert len(LIBRARY.launched) == max(0, count - 2)
    assert LIBRARY.launched == [[x.data_ptr(), n, ctypes.addressof(words)] for n in (11, 13)]
    words[:] = (1, 2, 0, 0)
    with pytest.raises(KernelAssertionError, match=r"failed in program \(2, 0, 0\): small") as caught:
        by_python(kernel, x, 5)
    assert [frame.name for frame in caught.traceback] == ["test_launches_by_python_are_done_by_native_code",
                                                          "by_python"]
    assert len(LIBRARY.launched) == 2
    by_python(kernel, x, 5)
    assert len(LIBRARY.launched) == 3


def test_launches_that_hooks_hear_of(words: ctypes.Array[ctypes.c_uint64]) -> None:
    kernel, x, heard = tw.jit(debug=True)(asserting), OnGpu(np.zeros(4, np.int32)), []
    with HOOKS.scope():
        HOOKS.set("launch_enter_hook", heard.append)
        for _ in range(6):
            kernel[(1,)](x, 5)
    assert len(heard) == 6 and len(LIBRARY.launched) == 3


def test_an_error_of_the_driver(words: ctypes.Array[ctypes.c_uint64], monkeypatch: pytest.MonkeyPatch) -> None:
    kernel, x = tw.jit(debug=True)(asserting), OnGpu(np.zeros(4, np.int32))
    for _ in range(4):
        by_python(kernel, x, 5)
    monkeypatch.setattr(LIBRARY, "result", 1)
    with pytest.raises(CudaError, match="cuLaunchKernel: CUDA_ERROR_INVALID_VALUE"):
        by_python(kernel, x, 5)


def test_a_library_whose_streams_python_knows(words: ctypes.Array[ctypes.c_uint64],
                                              monkeypatch: pytest.MonkeyPatch) -> None:
    """One that is imported when native code launches already: from then on launches by Python ask it."""
    fake = words.fake       # type: ignore[attr-defined]
    kernel, x = tw.jit(debug=True)(asserting), OnGpu(np.zeros(4, np.int32))
    for _ in range(4):
        by_python(kernel, x, 5)
    stream = SimpleNamespace(ptr=99)
    monkeypatch.setitem(sys.modules, "cupy", SimpleNamespace(cuda=SimpleNamespace(get_current_stream=lambda: stream)))
    by_python(kernel, x, 5)
    assert len(LIBRARY.launched) == 1 and fake.calls[-2][-1] == 99


def test_torchs_stream(words: ctypes.Array[ctypes.c_uint64], monkeypatch: pytest.MonkeyPatch) -> None:
    """Also of a torch that is imported late."""
    fake = words.fake       # type: ignore[attr-defined]
    kernel, x = tw.jit(debug=True)(asserting), OnGpu(np.zeros(4, np.int32))
    for _ in range(4):
        by_python(kernel, x, 5)
    for module in (kernel_module, stream_module):
        monkeypatch.setattr(module, "raw_stream_function", lambda: raw_stream)
    by_python(kernel, x, 5)
    assert LIBRARY.streams == [None] and fake.calls[-2][-1] == 70
    by_python(kernel, x, 5)
    assert LIBRARY.streams == [None, 70]


def raw_stream(device: int) -> int:
    """As torch's function."""
    return 70 + device
