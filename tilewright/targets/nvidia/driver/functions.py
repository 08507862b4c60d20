"""The functions of CUDA's driver that a launch needs, called through ctypes, with the names and numbers of cuda.h.

`Functions().cuDeviceGet(0)` gives the code of an error (0: none) and then the results, as NVIDIA's cuda-bindings do.
Those were used before: importing them is 30 ms and more of every process (10 MB of bindings, and a search for
libraries), of the 45 that the first launch of a kernel from the disk cache took (2026-11-30).
Only the calls at a kernel's first launch and for memory come here; launches are native (`launch_code`).
Tests: tests/targets/nvidia/driver/test_functions.py.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

LIBRARY = "nvcuda.dll" if os.name == "nt" else "libcuda.so.1"

_I, _U, _P, _SIZE, _TEXT = ctypes.c_int, ctypes.c_uint, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_char_p
_DEVICE_POINTER = ctypes.c_uint64
# The name in cuda.h that is compiled against, what the function gives, and what it takes.  Results are the first
# parameters in C, except where `_LAST` names the function.
_ROWS: dict[str, tuple[str, tuple[Any, ...], tuple[Any, ...]]] = {
    "cuInit": ("cuInit", (), (_U,)),
    "cuGetErrorName": ("cuGetErrorName", (_TEXT,), (_I,)),
    "cuGetErrorString": ("cuGetErrorString", (_TEXT,), (_I,)),
    "cuDeviceGet": ("cuDeviceGet", (_I,), (_I,)),
    "cuDeviceGetCount": ("cuDeviceGetCount", (_I,), ()),
    "cuDeviceGetAttribute": ("cuDeviceGetAttribute", (_I,), (_I, _I)),
    "cuDevicePrimaryCtxRetain": ("cuDevicePrimaryCtxRetain", (_P,), (_I,)),
    "cuCtxPushCurrent": ("cuCtxPushCurrent_v2", (), (_P,)),
    "cuCtxPopCurrent": ("cuCtxPopCurrent_v2", (_P,), ()),
    "cuCtxSynchronize": ("cuCtxSynchronize", (), ()),
    "cuMemAlloc": ("cuMemAlloc_v2", (_DEVICE_POINTER,), (_SIZE,)),
    "cuMemFree": ("cuMemFree_v2", (), (_DEVICE_POINTER,)),
    "cuMemHostAlloc": ("cuMemHostAlloc", (_P,), (_SIZE, _U)),
    "cuMemcpyDtoH": ("cuMemcpyDtoH_v2", (), (_P, _DEVICE_POINTER, _SIZE)),
    "cuMemcpyHtoD": ("cuMemcpyHtoD_v2", (), (_DEVICE_POINTER, _TEXT, _SIZE)),
    "cuMemcpyDtoDAsync": ("cuMemcpyDtoDAsync_v2", (), (_DEVICE_POINTER, _DEVICE_POINTER, _SIZE, _P)),
    "cuLibraryLoadData": ("cuLibraryLoadData", (_P,), (_TEXT, _P, _P, _U, _P, _P, _U)),
    "cuLibraryGetKernel": ("cuLibraryGetKernel", (_P,), (_P, _TEXT)),
    "cuKernelGetFunction": ("cuKernelGetFunction", (_P,), (_P,)),
    "cuFuncGetAttribute": ("cuFuncGetAttribute", (_I,), (_I, _P)),
    "cuFuncSetAttribute": ("cuFuncSetAttribute", (), (_P, _I, _I)),
    "cuOccupancyMaxActiveBlocksPerMultiprocessor": (
        "cuOccupancyMaxActiveBlocksPerMultiprocessor", (_I,), (_P, _I, _SIZE)),
    "cuLaunchKernel": ("cuLaunchKernel", (), (_P, _U, _U, _U, _U, _U, _U, _U, _P, _P, _P)),
}
_LAST = ("cuGetErrorName", "cuGetErrorString")
_MAP_BYTES, _MAP_ALIGNMENT = 128, 64        # CUtensorMap


class TensorMap:
    """The 128 bytes of a CUtensorMap, at a multiple of 64."""

    def __init__(self) -> None:
        self._memory = ctypes.create_string_buffer(_MAP_BYTES + _MAP_ALIGNMENT)
        self.address = -(-ctypes.addressof(self._memory) // _MAP_ALIGNMENT) * _MAP_ALIGNMENT


class Functions:
    """The driver's functions.  OSError without a driver on this machine."""

    CUdevice_attribute = SimpleNamespace(
        CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK=1, CU_DEVICE_ATTRIBUTE_WARP_SIZE=10,
        CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK=12, CU_DEVICE_ATTRIBUTE_CLOCK_RATE=13,
        CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT=16, CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE=36,
        CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH=37, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR=75,
        CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR=76, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN=97)
    CUfunction_attribute = SimpleNamespace(
        CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK=0, CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES=1,
        CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES=3, CU_FUNC_ATTRIBUTE_NUM_REGS=4,
        CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES=8)
    CUtensorMapDataType = SimpleNamespace(**{f"CU_TENSOR_MAP_DATA_TYPE_{name}": k for k, name in enumerate((
        "UINT8", "UINT16", "UINT32", "INT32", "UINT64", "INT64", "FLOAT16", "FLOAT32", "FLOAT64", "BFLOAT16"))})
    CUtensorMapInterleave = SimpleNamespace(CU_TENSOR_MAP_INTERLEAVE_NONE=0)
    CUtensorMapSwizzle = SimpleNamespace(**{f"CU_TENSOR_MAP_SWIZZLE_{name}": k for k, name in enumerate((
        "NONE", "32B", "64B", "128B"))})
    CUtensorMapL2promotion = SimpleNamespace(CU_TENSOR_MAP_L2_PROMOTION_L2_128B=2)
    CUtensorMapFloatOOBfill = SimpleNamespace(CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE=0,
                                              CU_TENSOR_MAP_FLOAT_OOB_FILL_NAN_REQUEST_ZERO_FMA=1)

    def __init__(self, library: Any = None) -> None:
        self._library = ctypes.CDLL(LIBRARY) if library is None else library

    def __getattr__(self, name: str) -> Any:
        row = _ROWS.get(name)
        if row is None:
            raise AttributeError(name)
        symbol, results, params = row
        function = getattr(self._library, symbol)
        pointers = tuple(ctypes.POINTER(t) for t in results)
        function.argtypes = params + pointers if name in _LAST else pointers + params
        function.restype = ctypes.c_int

        def call(*args: Any) -> tuple[Any, ...]:
            made = [t() for t in results]
            places = [ctypes.byref(m) for m in made]
            code = function(*args, *places) if name in _LAST else function(*places, *args)
            return (code, *(m.value for m in made))

        self.__dict__[name] = call      # asked for once
        return call

    def cuTensorMapEncodeTiled(self, data_type: int, rank: int, address: int,  # noqa: N802
                               sizes: Sequence[int], strides: Sequence[int], box: Sequence[int],
                               steps: Sequence[int], *choices: int) -> tuple[int, TensorMap]:
        """`choices` are interleave, swizzle, promotion in the cache, and what out of bounds reads as."""
        made = TensorMap()
        wide, narrow = ctypes.c_uint64, ctypes.c_uint32
        arrays = [(t * len(values))(*values) for t, values in (
            (wide, sizes), (wide, strides), (narrow, box), (narrow, steps))]
        code = self._library.cuTensorMapEncodeTiled(
            _P(made.address), _I(data_type), narrow(rank), _P(address), *arrays, *map(_I, choices))
        return int(code), made
