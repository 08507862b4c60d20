"""Types: validation, interning by value, storage."""

import numpy as np
import pytest

from tilewright.ir.types import (
    ALL_SCALARS,
    BF16,
    F8E4M3,
    F32,
    I1,
    I8,
    I64,
    Pointer,
    Scalar,
    Tile,
    element_of,
    make_type,
    shape_of,
    storage_dtype,
    with_element,
)


def test_scalars_are_values_of_a_closed_set():
    assert Scalar("i32") == Scalar("i32") and hash(Scalar("i32")) == hash(Scalar("i32")) and str(BF16) == "bf16"
    with pytest.raises(ValueError, match="no scalar type 'u32'; there are i1"):
        Scalar("u32")
    for t in ALL_SCALARS:
        assert t.is_int != t.is_float and t.bytes == max(1, t.bits // 8)


@pytest.mark.parametrize("shape", [(), (0,), (4, -1), (2.0,), ("4",)])
def test_tiles_have_sizes(shape):
    with pytest.raises(ValueError, match="one or more sizes >= 1"):
        Tile(shape, F32)


def test_tiles_of_any_size():
    tile = Tile((3, 7), Pointer(F32))
    assert (tile.rank, tile.numel, str(tile)) == (2, 21, "tile<3x7xptr<f32>>")
    assert tile == Tile((3, 7), Pointer(F32)) and tile != Tile((3, 7), Pointer(F32, const=True))
    assert str(Pointer(Pointer(I8), const=True)) == "ptr<const ptr<i8>>"


def test_elements_and_shapes():
    assert element_of(Tile((2,), I8)) == element_of(I8) == I8
    assert shape_of(Tile((2, 3), I8)) == (2, 3) and shape_of(Pointer(I8)) == ()
    assert with_element(Tile((2,), I8, layout="L"), F32) == Tile((2,), F32, layout="L") and with_element(I8, F32) == F32
    assert make_type((), I8) == I8 and make_type((4,), I8) == Tile((4,), I8)


def test_storage():
    assert storage_dtype(I1) == np.bool_ and storage_dtype(BF16) == np.uint16 and storage_dtype(F8E4M3) == np.uint8
    assert storage_dtype(Tile((2,), Pointer(F32))) == storage_dtype(I64) == np.int64
    for t in ALL_SCALARS:
        assert storage_dtype(t).itemsize == t.bytes
