"""Calls of CUDA's driver, against a driver of Python that writes down what it is asked."""

from __future__ import annotations

import ctypes
import sys
from enum import IntEnum
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import tilewright as tw
import tilewright.language as tl
from tilewright.diagnostics import OutOfResources
from tilewright.targets.base import CodeObject
from tilewright.targets.nvidia.driver import functions
from tilewright.targets.nvidia.driver.cuda import CUDA, Cuda, CudaError
from tilewright.targets.nvidia.driver.device import Device
from tilewright.targets.nvidia.driver.kernel import CudaKernel
from tilewright.targets.nvidia.driver.stream import current_stream, native_stream_function


class Result(IntEnum):
    CUDA_SUCCESS = 0
    CUDA_ERROR_INVALID_VALUE = 1
    CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES = 701


class Names:
    """Attributes that are their own names."""

    def __getattr__(self, name: str) -> str:
        return name


class FakeDriver:
    """Any function succeeds with `results` of its name, and is written down; `fails` names a result."""

    CUdevice_attribute = Names()
    CUfunction_attribute = Names()

    def __init__(self) -> None:
        self.calls: list[tuple[Any, ...]] = []
        self.results: dict[str, Any] = {"cuDevicePrimaryCtxRetain": "context", "cuLibraryLoadData": "library",
                                        "cuLibraryGetKernel": "kernel", "cuKernelGetFunction": "function"}
        self.fails: dict[str, Result] = {}
        self.attributes = {"COMPUTE_CAPABILITY_MAJOR": 9, "COMPUTE_CAPABILITY_MINOR": 0,
                           "MAX_SHARED_MEMORY_PER_BLOCK_OPTIN": 232448}
        self.launched: list[tuple[list[int], Any]] = []

    def cuGetErrorName(self, code: Result) -> tuple[Result, bytes]:
        return Result.CUDA_SUCCESS, Result(code).name.encode()

    def cuGetErrorString(self, code: Result) -> tuple[Result, bytes]:
        return Result.CUDA_SUCCESS, b"what it means"

    def cuDeviceGetAttribute(self, name: str, device: int) -> tuple[Result, int]:
        return Result.CUDA_SUCCESS, self.attributes.get(name.removeprefix("CU_DEVICE_ATTRIBUTE_"), 1)

    def cuFuncGetAttribute(self, name: str, function: Any) -> tuple[Result, int]:
        return Result.CUDA_SUCCESS, 200

    def cuLaunchKernel(self, function: Any, *args: Any) -> tuple[Result]:
        self.calls.append(("cuLaunchKernel", function, *args[:-2]))
        if "cuLaunchKernel" in self.fails:
            return (self.fails["cuLaunchKernel"],)
        pointers = (ctypes.c_void_p * 3).from_address(args[-2])
        self.launched.append(([ctypes.c_uint64.from_address(p or 0).value for p in pointers], args[-1]))
        return (Result.CUDA_SUCCESS,)

    def __getattr__(self, name: str) -> Any:
        def call(*args: Any) -> tuple[Any, ...]:
            self.calls.append((name, *args))
            code = self.fails.get(name, Result.CUDA_SUCCESS)
            return (code, self.results[name]) if name in self.results else (code,)

        return call


@pytest.fixture
def driver(monkeypatch: pytest.MonkeyPatch) -> FakeDriver:
    fake = FakeDriver()
    monkeypatch.setitem(CUDA.__dict__, "api", fake)
    monkeypatch.setitem(sys.modules, "torch", None)
    return fake


def code(**metadata: Any) -> CodeObject:
    return CodeObject("nvidia", "kernel", b"cubin", {},
                      {"entry": "kernel_entry", "threads": 128, "shared": 1024, "params": [{}, {}, {}], "hidden": [],
                       "tensor_maps": [], **metadata})


def test_an_error_has_the_drivers_name_and_text(driver: FakeDriver) -> None:
    driver.fails["cuMemFree"] = Result.CUDA_ERROR_INVALID_VALUE
    with pytest.raises(CudaError, match="cuMemFree: CUDA_ERROR_INVALID_VALUE: what it means"):
        CUDA.call("cuMemFree", 0)


def test_a_machine_without_a_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(functions, "LIBRARY", "libno-such-driver.so.1")
    with pytest.raises(RuntimeError, match="no driver for NVIDIA GPUs on this machine"):
        Cuda().call("cuDeviceGet", 0)
    assert Cuda().count() == 0


def test_capability_and_limits(driver: FakeDriver) -> None:
    device = Device(0)
    assert device.capability == 90 and device.limits.shared_bytes == 232448


def test_a_launch_passes_the_slots_of_the_parameters_alone(driver: FakeDriver) -> None:
    kernel = CudaKernel(code(), Device(0))
    kernel.launch((5, 2, 1), [2**63 + 1, 7, 0x3F800000, 111, 222])      # two extents behind
    assert driver.launched == [([2**63 + 1, 7, 0x3F800000], 0)]
    assert driver.calls[-2] == ("cuLaunchKernel", "function", 5, 2, 1, 128, 1, 1, 1024, 0)
    assert driver.calls[-3:] == [("cuCtxPushCurrent", "context"), driver.calls[-2], ("cuCtxPopCurrent",)]


class Launched:
    """A kernel that writes down its launches."""

    def __init__(self) -> None:
        self.launches: list[Any] = []

    def launch(self, grid: tuple[int, int, int], slots: Any) -> None:
        self.launches.append((grid, list(slots)))


@pytest.mark.parametrize(("grid", "elsewhere"), [((8, 1, 1), False), ((9, 1, 1), True), ((1, 9, 1), True)])
def test_a_grid_with_many_programs_is_for_the_general_kernel(driver: FakeDriver, grid: tuple[int, int, int],
                                                             elsewhere: bool) -> None:
    general: Any = Launched()
    kernel = CudaKernel(code(most_programs=8), Device(0), general=lambda: general)
    kernel.launch(grid, [1, 2, 3])
    assert general.launches == [(grid, [1, 2, 3])] * elsewhere and len(driver.launched) == (not elsewhere)
    slots = (ctypes.c_uint64 * 3)(4, 5, 6)
    assert kernel._by_python(ctypes.addressof(slots), *grid) == 0
    assert general.launches[elsewhere:] == [(grid, [4, 5, 6])] * elsewhere


def test_an_error_of_the_general_kernel_is_kept(driver: FakeDriver) -> None:
    def fails() -> Any:
        raise OutOfResources(1, 0, "shared memory")

    kernel = CudaKernel(code(most_programs=8), Device(0), general=fails)
    slots = (ctypes.c_uint64 * 3)(4, 5, 6)
    assert kernel._by_python(ctypes.addressof(slots), 9, 1, 1) == -1
    assert isinstance(kernel.failure((9, 1, 1), 0), OutOfResources)


class CudaArray:
    """An array as CuPy's, whose memory is the CPU's here."""

    def __init__(self, array: np.ndarray) -> None:
        self.array, self.dtype = array, array.dtype

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        return {**self.array.__array_interface__, "version": 3}


@tw.jit
def double(x, out, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + offsets, 2 * tl.load(x + offsets, mask=offsets < n), mask=offsets < n)


def test_a_launch_from_the_arguments_to_the_driver(driver: FakeDriver) -> None:
    x, out = np.arange(10, dtype=np.float32), np.zeros(10, np.float32)
    kernel = double[(2,)](CudaArray(x), CudaArray(out), 10, BLOCK=8)
    assert driver.launched == [([x.ctypes.data, out.ctypes.data, 10], 0)]
    assert kernel.metadata.backend_name == "cuda" and kernel.metadata.arch == 90
    assert kernel.metadata.num_warps == 4 and "ptx" in kernel.asm and kernel.n_max_threads == 128
    double[(2,)](CudaArray(x), CudaArray(out), 10, BLOCK=8)
    assert len(driver.launched) == 2
    double[(2,)](x, out, 10, BLOCK=8)
    assert (out == 2 * x).all() and len(driver.launched) == 2


def test_tensors_on_two_devices(driver: FakeDriver) -> None:
    x = np.arange(10, dtype=np.float32)
    with pytest.raises(ValueError, match="'x' is on cuda:0, 'out' is on cpu"):
        double[(2,)](CudaArray(x), x, 10, BLOCK=8)


def test_a_grid_with_too_many_rows(driver: FakeDriver) -> None:
    with pytest.raises(ValueError, match="at most 65535 on a GPU"):
        CudaKernel(code(), Device(0)).launch((1, 65536, 1), [0, 0, 0])
    assert not driver.launched


def test_shared_memory_has_to_be_allowed_and_to_fit(driver: FakeDriver) -> None:
    CudaKernel(code(shared=100_000), Device(0))
    attribute = "CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES"
    assert ("cuFuncSetAttribute", "function", attribute, 100_000) in driver.calls
    with pytest.raises(OutOfResources, match="shared memory, Required: 240000, Hardware limit: 232448"):
        CudaKernel(code(shared=240_000), Device(0))


def test_too_many_registers(driver: FakeDriver) -> None:
    driver.fails["cuLaunchKernel"] = Result.CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES
    driver.attributes["MAX_REGISTERS_PER_BLOCK"] = 20_000
    with pytest.raises(OutOfResources, match="registers, Required: 25600, Hardware limit: 20000"):
        CudaKernel(code(), Device(0)).launch((1, 1, 1), [0, 0, 0])


def test_the_stream_is_torchs_or_cupys(monkeypatch: pytest.MonkeyPatch) -> None:
    torch = SimpleNamespace(_C=SimpleNamespace(_cuda_getCurrentRawStream=lambda device: 70 + device))
    monkeypatch.setitem(sys.modules, "torch", torch)
    assert current_stream(3) == 73
    monkeypatch.setitem(sys.modules, "torch", None)
    stream = SimpleNamespace(ptr=99)
    monkeypatch.setitem(sys.modules, "cupy", SimpleNamespace(cuda=SimpleNamespace(get_current_stream=lambda: stream)))
    assert current_stream(0) == 99


@pytest.mark.parametrize(("said", "code", "known"), [(73, 0, True), (0, 0, False), (73, 1, False), (None, 0, False)],
                         ids=["the same", "another", "fails", "absent"])
def test_torchs_c_function_is_used_if_it_says_the_same(monkeypatch: pytest.MonkeyPatch, said: int | None, code: int,
                                                       known: bool) -> None:
    def say(device: int, where: int) -> int:
        ctypes.c_uint64.from_address(where).value = (said or 0) + 3 - device
        return code

    function = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int32, ctypes.c_void_p)(say)
    library = SimpleNamespace() if said is None else SimpleNamespace(aoti_torch_get_current_cuda_stream=function)
    monkeypatch.setattr(ctypes, "CDLL", {"torch/_C.so": library}.__getitem__)
    private = SimpleNamespace(_cuda_getCurrentRawStream=lambda device: 70 + device, __file__="torch/_C.so")
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(_C=private))
    assert native_stream_function(3) == (ctypes.cast(function, ctypes.c_void_p).value if known else 0)


def test_no_c_function_without_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    assert native_stream_function(0) == 0
