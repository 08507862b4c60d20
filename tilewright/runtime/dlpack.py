"""Tensors of other libraries, by DLPack: what a capsule says, read in place.

A capsule holds a `DLManagedTensor`, or a `DLManagedTensorVersioned`, which can say that it is read-only or a copy
(dlpack.h, versions 0.8 and 1.0).  It is never taken over: as long as it lives, so does the memory, and its own
destructor gives the tensor back.  NumPy's `from_dlpack` would do for memory of the host, but it takes neither bfloat16
nor memory of a GPU.
Tests: tests/runtime/test_dlpack.py.
"""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from typing import Any

# DLDeviceType: memory that a CPU reads (its own, pinned memory of CUDA and ROCm, managed memory), and a GPU's
HOST = frozenset({1, 3, 11, 13})
CUDA = 2

# DLDataTypeCode and bits -> NumPy's or ml_dtypes' name
_NAMES = {
    **{(0, bits): f"int{bits}" for bits in (8, 16, 32, 64)}, **{(1, bits): f"uint{bits}" for bits in (8, 16, 32, 64)},
    **{(2, bits): f"float{bits}" for bits in (16, 32, 64)}, (4, 16): "bfloat16", (6, 8): "bool",
    (10, 8): "float8_e4m3fn", (11, 8): "float8_e4m3fnuz", (12, 8): "float8_e5m2", (13, 8): "float8_e5m2fnuz",
}
_KINDS = ("int", "uint", "float", "opaque", "bfloat", "complex", "bool", "float8_e3m4", "float8_e4m3",
          "float8_e4m3b11fnuz", "float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz", "float8_e8m0fnu",
          "float6_e2m3fn", "float6_e3m2fn", "float4_e2m1fn")
_READ_ONLY, _COPIED = 1, 2      # flags of a versioned capsule
_NO_SYNCHRONIZATION = -1        # the value of `stream` that asks for none: launches are ordered by their stream


class _Tensor(ctypes.Structure):
    _fields_ = (("data", ctypes.c_void_p), ("device_type", ctypes.c_int32), ("device_id", ctypes.c_int32),
                ("ndim", ctypes.c_int32), ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8),
                ("lanes", ctypes.c_uint16), ("shape", ctypes.POINTER(ctypes.c_int64)),
                ("strides", ctypes.POINTER(ctypes.c_int64)), ("byte_offset", ctypes.c_uint64))


class _Versioned(ctypes.Structure):
    _fields_ = (("major", ctypes.c_uint32), ("minor", ctypes.c_uint32), ("context", ctypes.c_void_p),
                ("deleter", ctypes.c_void_p), ("flags", ctypes.c_uint64), ("tensor", _Tensor))


_is_capsule = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.c_char_p)(
    ("PyCapsule_IsValid", ctypes.pythonapi))
_content = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(
    ("PyCapsule_GetPointer", ctypes.pythonapi))


@dataclass(frozen=True)
class Exported:
    """A tensor as its capsule describes it; strides count elements.  The memory lives as long as this does."""

    dtype: str
    address: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    writable: bool
    device: tuple[int, int]
    capsule: Any

    def stride(self) -> tuple[int, ...]:
        """The strides, as torch's tensors tell them."""
        return self.strides


def export(thing: Any) -> Exported:
    """What `thing.__dlpack__()` says; TypeError for a copy, and for elements that no kernel can load."""
    capsule = _capsule(thing)
    tensor, flags = _tensor(thing, capsule)
    if flags & _COPIED:
        raise TypeError(f"__dlpack__ of a {type(thing).__name__} gives a copy, to which stores would be lost; pass an "
                        "array in memory of its own")
    dtype = _NAMES.get((tensor.code, tensor.bits)) if tensor.lanes == 1 else None
    if dtype is None:
        kind = _KINDS[tensor.code] if tensor.code < len(_KINDS) else f"type code {tensor.code}"
        vector = f", {tensor.lanes} in a vector" if tensor.lanes != 1 else ""
        raise TypeError(f"a {type(thing).__name__} with elements of {kind}, {tensor.bits} bits{vector} (DLPack), "
                        "cannot be loaded by a kernel")
    shape = tuple(tensor.shape[:tensor.ndim]) if tensor.ndim else ()
    strides = tuple(tensor.strides[:tensor.ndim]) if tensor.ndim and tensor.strides else _dense(shape)
    return Exported(dtype, (tensor.data or 0) + tensor.byte_offset, shape, strides, not flags & _READ_ONLY,
                    (tensor.device_type, tensor.device_id), capsule)


def _capsule(thing: Any) -> Any:
    """The capsule, of the newest kind that the library makes."""
    # The CPU has no streams; on a GPU the caller's streams order what it launches, as with torch's tensors.
    stream = {"stream": _NO_SYNCHRONIZATION} if int(thing.__dlpack_device__()[0]) == CUDA else {}
    try:
        return thing.__dlpack__(max_version=(1, 0), **stream)
    except TypeError:       # of before the standard's first version
        return thing.__dlpack__(**stream)


def _tensor(thing: Any, capsule: Any) -> tuple[_Tensor, int]:
    """The description in a capsule, and its flags; one without a version has none."""
    if _is_capsule(capsule, b"dltensor_versioned"):
        versioned = _Versioned.from_address(_content(capsule, b"dltensor_versioned"))
        if versioned.major == 1:        # others have another layout
            return versioned.tensor, versioned.flags
        raise TypeError(f"__dlpack__ of a {type(thing).__name__} gives version {versioned.major} of DLPack; 1 was "
                        "asked for")
    if _is_capsule(capsule, b"dltensor"):
        return _Tensor.from_address(_content(capsule, b"dltensor")), 0
    raise TypeError(f"__dlpack__ of a {type(thing).__name__} gives no capsule of a tensor: {capsule!r}")


def _dense(shape: tuple[int, ...]) -> tuple[int, ...]:
    """The strides of a row-major tensor."""
    strides: list[int] = []
    step = 1
    for count in reversed(shape):
        strides.append(step)
        step *= count
    return tuple(reversed(strides))
