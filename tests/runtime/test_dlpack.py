"""DLPack capsules: what each says of a tensor, from real libraries and as made by hand."""

from __future__ import annotations

import ctypes
import gc
import weakref

import numpy as np
import pytest

import tilewright as tw
import tilewright.language as tl
from tilewright.runtime import dlpack
from tilewright.runtime.arguments import read_dlpack

_new = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)(
    ("PyCapsule_New", ctypes.pythonapi))


class Handmade:
    """An object whose capsule holds these words; the memory is that of an array."""

    def __init__(self, array, code, bits, *, lanes=1, strides=None, offset=0, device=(1, 0), version=None, flags=0):
        self.array, self.device, self.asked = array, device, {}
        shape = (ctypes.c_int64 * array.ndim)(*array.shape)
        steps = None if strides is None else (ctypes.c_int64 * array.ndim)(*strides)
        tensor = dlpack._Tensor(array.ctypes.data - offset, *device, array.ndim, code, bits, lanes, shape,
                                steps, offset)
        self._kept = tensor if version is None else dlpack._Versioned(version, 0, None, None, flags, tensor)
        self._name = b"dltensor" if version is None else b"dltensor_versioned"

    def __dlpack__(self, **options):
        self.asked = options
        return _new(ctypes.addressof(self._kept), self._name, None)

    def __dlpack_device__(self):
        return self.device


@pytest.mark.parametrize("dtype, element, code", [
    ("int8", "i8", 0), ("int64", "i64", 0), ("uint16", "u16", 1), ("float16", "fp16", 2), ("float64", "fp64", 2),
    ("bool", "i1", 6)])
def test_elements(dtype, element, code):
    array = np.zeros(6, dtype)
    assert read_dlpack(array).element == element
    pointer = read_dlpack(Handmade(array, code, 8 * array.itemsize))
    assert (pointer.element, pointer.address) == (element, array.ctypes.data)
    assert pointer.high - pointer.low == array.nbytes


@pytest.mark.parametrize("code, bits, element", [(4, 16, "bf16"), (10, 8, "fp8e4nv"), (12, 8, "fp8e5")])
def test_elements_that_numpy_lacks(code, bits, element):
    pointer = read_dlpack(Handmade(np.zeros(6, f"u{bits // 8}"), code, bits, version=1))
    assert pointer.element == element and pointer.high - pointer.low == 6 * bits // 8


@pytest.mark.parametrize("view", [
    lambda a: a, lambda a: a[::2], lambda a: a[::-1], lambda a: a[2:5, ::-3], lambda a: a.T, lambda a: a[1:1],
    lambda a: np.broadcast_to(a[0], (5, 6))])
def test_views_reach_what_numpys_reader_says(view):
    from tilewright.runtime.arguments import numpy_reader
    array = view(np.zeros((7, 6), np.float32))
    assert read_dlpack(array)[:4] == numpy_reader()(array)[:4]


def test_no_strides_are_dense_ones_and_the_offset_counts():
    array = np.zeros((2, 3, 4), np.int16)
    pointer = read_dlpack(Handmade(array, 0, 16, offset=64))
    assert (pointer.address, pointer.high - pointer.low) == (array.ctypes.data, 48)
    assert pointer.owner.stride() == (12, 4, 1)


def test_a_number_without_dimensions():
    array = np.array(3, np.int32)
    pointer = read_dlpack(Handmade(array, 0, 32))
    assert pointer.high - pointer.low == 4 and pointer.owner.shape == ()


@pytest.mark.parametrize("kind, name", [(1, "cpu"), (3, "cpu"), (13, "cpu"), (2, "cuda:1")])
def test_devices(kind, name):
    thing = Handmade(np.zeros(4, np.float32), 2, 32, device=(kind, 1))
    assert read_dlpack(thing).device == name
    assert thing.asked.get("stream") == (-1 if kind == 2 else None)    # nothing waits: the caller orders its streams


def test_flags():
    array = np.zeros(4, np.float32)
    assert read_dlpack(Handmade(array, 2, 32, version=1)).writable
    assert not read_dlpack(Handmade(array, 2, 32, version=1, flags=1)).writable
    with pytest.raises(TypeError, match="Handmade gives a copy, to which stores would be lost"):
        read_dlpack(Handmade(array, 2, 32, version=1, flags=2))


@pytest.mark.parametrize("code, bits, lanes, words", [
    (5, 64, 1, "elements of complex, 64 bits"), (2, 32, 4, "float, 32 bits, 4 in a vector"),
    (99, 8, 1, "type code 99"), (17, 4, 1, "float4_e2m1fn"), (0, 128, 1, "int, 128 bits")])
def test_elements_that_no_kernel_can_load(code, bits, lanes, words):
    with pytest.raises(TypeError, match=words):
        read_dlpack(Handmade(np.zeros(4, np.int64), code, bits, lanes=lanes))


def test_another_version_and_no_capsule_at_all():
    with pytest.raises(TypeError, match="version 2 of DLPack"):
        read_dlpack(Handmade(np.zeros(4, np.float32), 2, 32, version=2))

    class Liar:
        def __dlpack__(self, **_):
            return 7

        def __dlpack_device__(self):
            return (1, 0)

    with pytest.raises(TypeError, match="gives no capsule of a tensor: 7"):
        read_dlpack(Liar())


def test_the_memory_lives_as_long_as_the_pointer_and_no_longer():
    class Array(np.ndarray):
        pass

    array = np.zeros(1000, np.float32).view(Array)
    gone = weakref.ref(array)
    pointer = read_dlpack(array)
    del array
    gc.collect()
    assert gone() is not None
    del pointer
    gc.collect()
    assert gone() is None


@pytest.mark.parametrize("check", [False, True])
def test_a_kernel_adds_bfloat16_of_another_library(check):
    @tw.jit
    def kernel(x, out, n, BLOCK: tl.constexpr):
        at = tl.arange(0, BLOCK)
        tl.store(out + at, tl.load(x + at, mask=at < n, other=0) + 1.0, mask=at < n)

    bits = np.array([0x3F80, 0x4000, 0xC040], np.uint16)        # 1, 2, -3
    out = np.zeros(3, np.float32)
    kernel[(1,)](Handmade(bits, 4, 16), out, 3, BLOCK=4, check=check)
    assert out.tolist() == [2, 3, -2]
