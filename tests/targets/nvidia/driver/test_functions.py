"""The driver's functions through ctypes: against callbacks of C types, and the numbers against NVIDIA's bindings."""

from __future__ import annotations

import ctypes
from types import SimpleNamespace
from typing import Any

import pytest

from tilewright.targets.nvidia.driver import functions
from tilewright.targets.nvidia.driver.cuda import Cuda, CudaError
from tilewright.targets.nvidia.driver.functions import Functions

I, P, U = ctypes.c_int, ctypes.c_void_p, ctypes.c_uint
NUMBERS = ("CUdevice_attribute", "CUfunction_attribute", "CUtensorMapDataType", "CUtensorMapInterleave",
           "CUtensorMapSwizzle", "CUtensorMapL2promotion", "CUtensorMapFloatOOBfill")


def callback(action: Any, *types: Any) -> Any:
    return ctypes.CFUNCTYPE(I, *types)(action)


def test_results_follow_the_code() -> None:
    def allocate(place: int, size: int) -> int:
        ctypes.c_uint64.from_address(place).value = 2**63 + size
        return 2 if size > 100 else 0

    api = Functions(SimpleNamespace(cuMemAlloc_v2=callback(allocate, P, ctypes.c_size_t)))
    assert api.cuMemAlloc(64) == (0, 2**63 + 64) and api.cuMemAlloc(101)[0] == 2
    with pytest.raises(AttributeError, match="cuMemGrow"):
        _ = api.cuMemGrow


def test_arguments_arrive_as_they_are_declared() -> None:
    seen: list[tuple[Any, ...]] = []

    def load(place: int, code: int, *rest: Any) -> int:
        seen.append((ctypes.string_at(code, 5), *rest))
        P.from_address(place).value = 77
        return 0

    api = Functions(SimpleNamespace(cuLibraryLoadData=callback(load, P, P, P, P, U, P, P, U)))
    assert api.cuLibraryLoadData(b"\x7fE\0LF", None, None, 0, None, None, 0) == (0, 77)
    assert seen == [(b"\x7fE\0LF", None, None, 0, None, None, 0)]


def test_a_map_is_at_a_multiple_of_64_and_gets_its_numbers() -> None:
    seen: list[tuple[Any, ...]] = []

    def encode(place: int, data_type: int, rank: int, address: int, sizes: int, strides: int, box: int, steps: int,
               *choices: int) -> int:
        wide, narrow = ctypes.c_uint64 * rank, U * rank
        seen.append((place, data_type, address, [*wide.from_address(sizes)], [*wide.from_address(strides)][:1],
                     [*narrow.from_address(box)], [*narrow.from_address(steps)], choices))
        ctypes.memset(place, 0xAB, 128)
        return 0

    api = Functions(SimpleNamespace(cuTensorMapEncodeTiled=callback(encode, P, I, U, P, P, P, P, P, I, I, I, I)))
    code, made = api.cuTensorMapEncodeTiled(1, 2, 4096, [64, 50], [144], [64, 16], [1, 1], 0, 3, 2, 0)
    assert code == 0 and made.address % 64 == 0
    assert ctypes.string_at(made.address, 128) == b"\xab" * 128
    assert seen == [(made.address, 1, 4096, [64, 50], [144], [64, 16], [1, 1], (0, 3, 2, 0))]


def test_errors_have_the_drivers_name(monkeypatch: pytest.MonkeyPatch) -> None:
    texts = [ctypes.create_string_buffer(text) for text in (b"CUDA_ERROR_NO_DEVICE", b"no CUDA-capable device")]

    def telling(text: Any) -> Any:
        def tell(code: int, place: int) -> int:
            P.from_address(place).value = ctypes.addressof(text) if code == 100 else None
            return 0

        return callback(tell, I, P)

    library = SimpleNamespace(cuInit=callback(lambda flags: 100, U), cuGetErrorName=telling(texts[0]),
                              cuGetErrorString=telling(texts[1]))
    monkeypatch.setattr(functions.ctypes, "CDLL", lambda name: library)
    with pytest.raises(CudaError, match="cuInit: CUDA_ERROR_NO_DEVICE: no CUDA-capable device"):
        Cuda().call("cuDeviceGetCount")
    assert Cuda().count() == 0


def test_numbers_are_those_of_nvidias_bindings() -> None:
    bindings = pytest.importorskip("cuda.bindings.driver")
    for name in NUMBERS:
        for member, number in vars(getattr(Functions, name)).items():
            assert int(getattr(getattr(bindings, name), member)) == number, member
