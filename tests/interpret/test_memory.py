"""Checked host memory: every element type, alignment, masks, order of stores, bounds, foreign addresses."""

import sys

import numpy as np
import pytest

from tilewright.diagnostics import OutOfBoundsError
from tilewright.interpret import foreign
from tilewright.interpret.memory import Extent, Memory, MemoryAccessError, extent_of
from tilewright.ir.types import ALL_SCALARS, F32, I1, I8, I16, I32, I64, Pointer, storage_dtype

linux = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="foreign addresses need process_vm_readv")


def addresses(array, *index):
    """Byte addresses of elements of a 1-d array, with a program axis of 1."""
    return (array.ctypes.data + np.asarray(index, np.int64) * array.itemsize)[None]


@pytest.mark.parametrize("t", [*ALL_SCALARS, Pointer(F32)], ids=str)
@pytest.mark.parametrize("shift", [0, 1])
def test_every_type_at_every_alignment(t, shift):
    size, count = t.bytes, 9
    raw = np.random.default_rng(0).integers(0, 2 if t == I1 else 256, count * size + shift, dtype=np.uint8)
    memory = Memory([Extent("x", raw.ctypes.data, raw.size)])
    at = (raw.ctypes.data + shift + size * np.array([3, 0, 8, 3], np.int64))[None]
    want = raw[shift:].reshape(count, size)[[3, 0, 8, 3]].copy().view(np.uint8 if t == I1 else storage_dtype(t))[:, 0]
    got = memory.load(at, None, None, t)
    assert got.dtype == storage_dtype(t)
    np.testing.assert_array_equal(got[0].view(f"u{size}"), want.view(f"u{size}"))
    memory.store(at[:, :3], got[:, [1, 2, 0]], None, t)
    np.testing.assert_array_equal(memory.load(at[:, :3], None, None, t).view(f"u{size}"),
                                  got[:, [1, 2, 0]].view(f"u{size}"))


def test_i1_is_any_nonzero_byte_when_read_and_one_when_written():
    x = np.array([0, 1, 2, 255], np.uint8)
    memory = Memory.of_arrays({"x": x})
    at = addresses(x, 0, 1, 2, 3)
    assert memory.load(at, None, None, I1).tolist() == [[False, True, True, True]]
    assert memory.load(at, np.array([[True, True, False, True]]), None, I1).tolist() == [[False, True, False, True]]
    memory.store(at, np.array([[True, False, True, False]]), None, I1)
    assert x.tolist() == [1, 0, 1, 0]


def test_masked_lanes_touch_nothing_and_get_other_or_zero():
    x = np.arange(4, dtype=np.int32)
    memory = Memory.of_arrays({"x": x})
    at = np.array([[x.ctypes.data, 0, -8, x.ctypes.data + 12]])
    mask = np.array([[True, False, False, True]])
    assert memory.load(at, mask, None, I32).tolist() == [[0, 0, 0, 3]]
    assert memory.load(at, mask, np.array([[7]], np.int32), I32).tolist() == [[0, 7, 7, 3]]
    memory.store(at, np.full((1, 4), 9, np.int32), mask, I32)
    assert x.tolist() == [9, 1, 2, 9]
    assert Memory([]).load(at, np.zeros((1, 4), bool), None, I32).tolist() == [[0, 0, 0, 0]]


def test_program_axes_of_one_are_shared():
    x = np.arange(4, dtype=np.int32)
    memory = Memory.of_arrays({"x": x})
    mask = np.array([[True, False], [False, True], [False, False]])
    assert memory.load(addresses(x, 1, 2), mask, None, I32).tolist() == [[1, 0], [0, 2], [0, 0]]
    memory.store(addresses(x, 0, 1), np.array([[10, 11], [20, 21], [30, 31]], np.int32), mask, I32)
    assert x.tolist() == [10, 21, 2, 3]


@pytest.mark.parametrize("count", [5, 1000])
def test_of_equal_addresses_the_last_in_row_major_order_wins(count):
    x = np.zeros(8, np.int64)
    memory = Memory.of_arrays({"x": x})
    index = np.random.default_rng(1).integers(0, 8, (2, count))
    memory.store(x.ctypes.data + 8 * index, np.arange(2 * count).reshape(2, count), None, I64)
    want = np.zeros(8, np.int64)
    for value, i in enumerate(index.reshape(-1)):
        want[i] = value
    np.testing.assert_array_equal(x, want)


def test_overlapping_unaligned_stores_keep_byte_order():
    x = np.zeros(8, np.uint8)
    memory = Memory.of_arrays({"x": x})
    memory.store(x.ctypes.data + np.array([[0, 1, 3]]), np.array([[-1, 0x0202, 0x0303]], np.int16), None, I16)
    assert x.tolist() == [255, 2, 2, 3, 3, 0, 0, 0]


def test_overlapping_arguments_share_memory_and_the_writable_one_counts():
    x = np.arange(6, dtype=np.int32)
    memory = Memory([Extent("read", x.ctypes.data, 16, writable=False), Extent("write", x.ctypes.data + 8, 16)])
    memory.store(addresses(x, 2, 5), np.array([[20, 50]], np.int32), None, I32)
    assert memory.load(addresses(x, 0, 2, 5), None, None, I32).tolist() == [[0, 20, 50]]
    with pytest.raises(MemoryAccessError, match="store to element 1 of 'read', which is read-only"):
        memory.store(addresses(x, 2, 1), np.array([[1, 1]], np.int32), None, I32)
    assert x[2] == 20, "nothing is written when one address is bad"


def test_read_only_arrays_are_read_only():
    x = np.zeros(3, np.float32)
    x.flags.writeable = False
    with pytest.raises(MemoryAccessError, match="element 2 of 'x', which is read-only"):
        Memory.of_arrays({"x": x}).store(addresses(x, 2), np.ones((1, 1), np.float32), None, F32)


def test_an_access_must_lie_inside_whole():
    x = np.zeros(10, np.uint8)
    memory = Memory.of_arrays({"x": x})
    memory.load(np.array([[x.ctypes.data + 6]]), None, None, I32)
    for offset, text in ((7, r"element 1 \+ 3 bytes of 'x', whose elements 0 to 1"), (-1, r"element -1 \+ 3 bytes")):
        with pytest.raises(MemoryAccessError, match=text):
            memory.load(np.array([[x.ctypes.data + offset]]), None, None, I32)
        with pytest.raises(MemoryAccessError, match="store out of bounds"):
            memory.store(np.array([[x.ctypes.data + offset]]), np.zeros((1, 1), np.int32), None, I32)


def test_the_error_names_the_nearest_argument_and_the_lane():
    x, y = np.zeros(4, np.int32), np.zeros(400, np.int32)
    memory = Memory.of_arrays({"x": x, "y": y})
    at = addresses(y, *range(6)).reshape(2, 3).copy()
    at[1, 2] = y.ctypes.data + 1600 + 40
    with pytest.raises(MemoryAccessError, match="element 410 of 'y', whose elements 0 to 399") as caught:
        memory.load(at, None, None, I32)
    assert (caught.value.row, caught.value.index) == (1, (2,))
    mask = np.array([[True, False, True], [False, False, True]])
    with pytest.raises(MemoryAccessError) as caught:
        memory.load(at, mask, None, I32)
    assert (caught.value.row, caught.value.index) == (1, (2,))
    error = caught.value.located("k", (4, 5, 6), None)
    assert "tile element [2] of program (4, 5, 6)" in str(error) and isinstance(error, OutOfBoundsError)
    assert (error.kernel, error.argument, error.index, error.elements) == ("k", "y", 410, range(400))
    with pytest.raises(MemoryAccessError, match="no argument is a pointer"):
        Memory([]).load(at, None, None, I32)


def test_empty_arguments_have_no_element():
    x = np.zeros(0, np.int32)
    with pytest.raises(MemoryAccessError, match="of 'x', which has no element"):
        Memory.of_arrays({"x": x}).load(np.array([[x.ctypes.data]]), None, None, I32)


@pytest.mark.parametrize("view", [np.s_[::2], np.s_[::-1], np.s_[3:1:-1], np.s_[1:1]])
def test_extents_of_strided_arrays(view):
    x = np.arange(8, dtype=np.int16)
    part = x[view]
    extent = extent_of("x", part)
    reached = [x.ctypes.data + 2 * int(i) for i in part]
    assert extent.size == (max(reached) + 2 - min(reached) if reached else 0)
    assert not reached or extent.address == min(reached)


@linux
def test_foreign_memory_reads_and_writes_in_order():
    x, y = np.zeros(2, np.float32), np.arange(3000, dtype=np.int32)
    memory = Memory.of_arrays({"x": x})
    at = addresses(y, *range(3000))
    np.testing.assert_array_equal(memory.load(at, None, None, I32, foreign=True)[0], y)
    memory.store(addresses(y, 5, 5, 6), np.array([[1, 2, 3]], np.int32), None, I32, foreign=True)
    assert y[4:8].tolist() == [4, 2, 3, 7]
    with pytest.raises(MemoryAccessError, match="out of bounds"):
        memory.load(at, None, None, I32)


@linux
@pytest.mark.parametrize("bad", [0, 8, 2**47, -8])
def test_bad_foreign_addresses_are_errors(bad):
    y = np.arange(2000, dtype=np.int8)
    at = addresses(y, *range(2000)).copy()
    at[0, 1500] = bad
    memory = Memory.of_arrays({"x": np.zeros(1)})
    with pytest.raises(MemoryAccessError, match="came out of memory: it is no readable memory") as caught:
        memory.load(at, None, None, I8, foreign=True)
    assert caught.value.index == (1500,)
    with pytest.raises(MemoryAccessError, match="came out of memory: it is no writable memory"):
        memory.store(at, np.zeros((1, 2000), np.int8), None, I8, foreign=True)


def test_without_a_safe_way_foreign_addresses_are_refused(monkeypatch):
    monkeypatch.setattr(foreign, "_system_call", lambda name: None)
    y = np.zeros(1, np.int32)
    with pytest.raises(MemoryAccessError, match="this system has no safe way"):
        Memory([]).load(addresses(y, 0), None, None, I32, foreign=True)
