"""Tensor maps: what the driver is asked for, which launches have none, what a launch passes."""

from __future__ import annotations

import ctypes
import sys
from types import SimpleNamespace
from typing import Any

import pytest

from tests.targets.nvidia.driver.test_driver import FakeDriver, Names, Result, code
from tests.targets.nvidia.driver.test_launch_code import Driver as NativeDriver
from tilewright.runtime import knobs
from tilewright.runtime.devices import DEVICES
from tilewright.targets.base import LoadedKernel
from tilewright.targets.nvidia.driver.cuda import CUDA
from tilewright.targets.nvidia.driver.device import Device
from tilewright.targets.nvidia.driver.kernel import CudaKernel
from tilewright.targets.nvidia.driver.launch_record import Record
from tilewright.targets.nvidia.driver.tensor_maps import TensorMaps

MATRIX = {"base": 0, "element": "f16", "sizes": [["param", 1, 32], 64], "strides": [["param", 2, 32]],
          "box": [16, 64], "swizzle": 128, "nan": False}
LINE = {"base": 0, "element": "f32", "sizes": [["param", 1, 32]], "strides": [], "box": [256], "swizzle": 0,
        "nan": True}
ENCODE = "cuTensorMapEncodeTiled"


class FakeMaps(FakeDriver):
    """A driver whose maps are numbered, at address 1000 and the number."""

    CUtensorMapDataType = CUtensorMapInterleave = CUtensorMapSwizzle = CUtensorMapL2promotion = Names()
    CUtensorMapFloatOOBfill = Names()
    parameters = 5

    def cuTensorMapEncodeTiled(self, *args: Any) -> tuple[Any, ...]:
        self.calls.append((ENCODE, *args))
        number = len(self.encoded)
        return self.fails.get(ENCODE, Result.CUDA_SUCCESS), SimpleNamespace(address=1000 + number)

    def cuLaunchKernel(self, function: Any, *args: Any) -> tuple[Result]:
        self.launched.append((list((ctypes.c_void_p * self.parameters).from_address(args[-2])), args[-1]))
        return (Result.CUDA_SUCCESS,)

    @property
    def encoded(self) -> list[tuple[Any, ...]]:
        return [args for name, *args in self.calls if name == ENCODE]


@pytest.fixture
def driver(monkeypatch: pytest.MonkeyPatch) -> FakeMaps:
    fake = FakeMaps()
    monkeypatch.setitem(CUDA.__dict__, "api", fake)
    monkeypatch.setitem(sys.modules, "torch", None)
    return fake


def test_the_fastest_dimension_comes_first(driver: FakeMaps) -> None:
    maps = TensorMaps([MATRIX, LINE]).of((4096, 50, 72))
    assert maps is not None and maps.addresses == [1001, 1002]
    assert driver.encoded[0] == [
        "CU_TENSOR_MAP_DATA_TYPE_UINT16", 2, 4096, [64, 50], [144], [64, 16], [1, 1], "CU_TENSOR_MAP_INTERLEAVE_NONE",
        "CU_TENSOR_MAP_SWIZZLE_128B", "CU_TENSOR_MAP_L2_PROMOTION_L2_128B", "CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE"]
    assert driver.encoded[1] == [
        "CU_TENSOR_MAP_DATA_TYPE_FLOAT32", 1, 4096, [50], [16], [256], [1], "CU_TENSOR_MAP_INTERLEAVE_NONE",
        "CU_TENSOR_MAP_SWIZZLE_NONE", "CU_TENSOR_MAP_L2_PROMOTION_L2_128B",
        "CU_TENSOR_MAP_FLOAT_OOB_FILL_NAN_REQUEST_ZERO_FMA"]


def test_a_map_is_made_once(driver: FakeMaps) -> None:
    maps = TensorMaps([MATRIX])
    first = maps.of((4096, 50, 72))
    assert maps.of((8192, 50, 72)) != first
    assert maps.of((4096, 50, 72)) == first and len(driver.encoded) == 2


def test_numbers_without_a_map(driver: FakeMaps) -> None:
    maps = TensorMaps([MATRIX])
    assert maps.of((4096, 0, 72)) is None and not driver.encoded
    driver.fails[ENCODE] = Result.CUDA_ERROR_INVALID_VALUE
    assert maps.of((4096, 50, 72)) is None and maps.of((4096, 50, 72)) is None
    assert len(driver.encoded) == 1


class Plain(LoadedKernel):
    def __init__(self) -> None:
        self.launches: list[tuple[Any, ...]] = []

    def launch(self, grid: tuple[int, int, int], slots: Any) -> None:
        self.launches.append((grid, list(slots)))


def test_maps_follow_the_parameters(driver: FakeMaps) -> None:
    kernel = CudaKernel(code(tensor_maps=[MATRIX, LINE]), Device(0))
    kernel.launch((5, 2, 1), [4096, 50, 72, 111, 222])
    (pointers, _), = driver.launched
    assert [b - a for a, b in zip(pointers[:3], pointers[1:3])] == [8, 8] and pointers[3:] == [1001, 1002]


def test_without_a_map_the_plain_kernel_is_launched(driver: FakeMaps) -> None:
    made: list[Plain] = []

    def make() -> Plain:
        made.append(Plain())
        return made[-1]

    kernel = CudaKernel(code(tensor_maps=[MATRIX]), Device(0), make)
    for rows in (0, -3):
        kernel.launch((5, 2, 1), [4096, rows, 72])
    assert [plain.launches for plain in made] == [[((5, 2, 1), [4096, 0, 72]), ((5, 2, 1), [4096, -3, 72])]]
    assert not driver.launched


def test_a_native_launch_asks_for_the_maps_of_other_slots(driver: FakeMaps) -> None:
    plain = Plain()
    kernel = CudaKernel(code(tensor_maps=[MATRIX, LINE]), Device(0), lambda: plain)
    assert kernel.record

    def fill(*slots: int) -> int:
        given = (ctypes.c_uint64 * 3)(*slots)
        return int(kernel._fill(ctypes.addressof(given), 5, 2, 1))

    assert fill(4096, 50, 72) == 1 and list(kernel._table) == [4096, 50, 72, 1001, 1002]
    assert fill(4096, 0, 72) == 0 and plain.launches == [((5, 2, 1), [4096, 0, 72])]
    driver.calls.clear()
    kernel._make_plain = None
    del kernel.__dict__["_plain"]
    assert fill(4096, 0, 72) == -1
    assert isinstance(kernel.failure((5, 2, 1), 0), AssertionError)


@pytest.mark.parametrize("hidden", [[], ["programs"]])
def test_native_launches(driver: FakeMaps, monkeypatch: pytest.MonkeyPatch, hidden: list[str]) -> None:
    launchers = DEVICES.cpu(knobs.snapshot()).launchers()
    if launchers is None:
        pytest.skip("this Python has no native launchers")
    native, plain = NativeDriver(), Plain()
    driver.results |= {"cuDevicePrimaryCtxRetain": 0x1000, "cuKernelGetFunction": 0x77,
                       "cuOccupancyMaxActiveBlocksPerMultiprocessor": 2}
    kernel = CudaKernel(code(tensor_maps=[MATRIX, LINE], hidden=hidden), Device(0), lambda: plain)
    with monkeypatch.context() as patch:
        patch.setattr(ctypes, "CDLL", lambda name: SimpleNamespace(**native.callbacks))
        patch.setattr("tilewright.targets.nvidia.driver.kernel.KEY", f"maps {hidden}")
        kernel.make_launchable(launchers)
    types = (ctypes.c_void_p, ctypes.c_void_p, *(ctypes.c_int64,) * 3, ctypes.c_void_p)
    address = (ctypes.c_uint64 * (Record.SIZE // 8)).from_address(kernel.record)[Record.LAUNCH // 8]
    function = ctypes.PYFUNCTYPE(ctypes.c_int64, *types)(address)

    def launch(*slots: int) -> Any:
        given, frame = (ctypes.c_uint64 * 5)(*slots, 111, 222), (ctypes.c_uint64 * 32)()
        return function(kernel.record, ctypes.addressof(given), 5, 2, 1, ctypes.addressof(frame))

    native.first_map = 3 + len(hidden)
    for slots, maps in (((4096, 50, 72), [1001, 1002]), ((8192, 50, 72), [1003, 1004]), ((4096, 50, 72), [1001, 1002])):
        for _ in range(2):
            assert launch(*slots) == 0
            assert native.calls[-1][-2] == list(slots) and native.maps == maps
    launched = len(native.calls)
    assert launch(4096, 0, 72) == 0 and plain.launches == [((5, 2, 1), [4096, 0, 72])]
    assert len(native.calls) == launched and len(driver.encoded) == 4
