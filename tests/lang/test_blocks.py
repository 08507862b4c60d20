"""Block pointers and tensor descriptors: what they are made of, what is refused."""

import pytest

from tests.lang.recorder import call, trace
from tilewright import language as tl
from tilewright.language.structures import structure


def block(b, p, shape=(8, 8), strides=(8, 1), offsets=(0, 0), block_shape=(4, 4), order=(1, 0)):
    return call(b, tl.make_block_ptr, p, shape, strides, offsets, block_shape, order)


def descriptor(b, p, shape=(8, 8), strides=(8, 1), block_shape=(4, 4), **options):
    return call(b, tl.make_tensor_descriptor, p, shape, strides, block_shape, **options)


def test_a_load_is_one_load():
    found = trace(lambda b, p: call(b, tl.load, block(b, p)), "*fp16")
    assert str(found.result) == "fp16[constexpr[4], constexpr[4]]" and found.names.count("load") == 1
    assert not found.op("load").attrs["has_mask"]
    checked = trace(lambda b, p: call(b, tl.load, block(b, p), boundary_check=(0,)), "*fp16").op("load")
    assert checked.attrs["has_mask"] and not checked.attrs["has_other"]
    checked = trace(lambda b, p: call(b, tl.load, block(b, p), boundary_check=1, padding_option="nan"), "*fp16")
    assert checked.op("load").attrs["has_other"]


def test_advance_makes_a_new_one():
    def meaning(b, p):
        first = block(b, p)
        second = first.advance.call(b, ((4, 0),))
        assert isinstance(second, tl.block_pointer) and second is not first and second[:3] is not first[3]
        assert second[3][1].type == tl.int64 and first.type == tl.pointer_type(tl.float32)
        assert type(structure.rebuilt.__func__(tl.block_pointer, list(first))) is tl.block_pointer

    trace(meaning, "*fp32")


def test_parts_of_a_descriptor():
    def meaning(b, p, n):
        desc = descriptor(b, p, (n, 8))
        assert [s.value for s in desc.block_shape] == [4, 4] and desc.dtype == tl.float32
        assert [s.dtype for s in desc.shape] == [tl.int32] * 2 and [s.dtype for s in desc.strides] == [tl.int64] * 2
        assert desc.load.call(b, ((0, n),)).type == desc.block_type == desc.type
        with pytest.raises(AttributeError, match="a tensor_descriptor has no attribute 'lod'; it has atomic_add"):
            desc.lod

    trace(meaning, "*fp32", "int64")


@pytest.mark.parametrize("options, message", [
    ({"order": (0, 0)}, "order of tl.make_block_ptr must be a permutation of 0..1"),
    ({"strides": (1,)}, "must have one length, at least 1, but strides has 1 and shape has 2"),
    ({"block_shape": (4,)}, "block_shape of tl.make_block_ptr must be 2 sizes"),
    ({"block_shape": (4, 0)}, "must be 2 sizes of 1 or more"),
    ({"offsets": (0.5, 0)}, "an element of offsets of tl.make_block_ptr must be an integer scalar"),
])
def test_wrong_block_pointers(options, message):
    with pytest.raises((TypeError, ValueError), match=message):
        trace(lambda b, p: block(b, p, **options), "*fp32")


@pytest.mark.parametrize("use, message", [
    (lambda b, p, v: call(b, tl.load, p, mask=v), "`mask` and `other` arguments cannot be specified"),
    (lambda b, p, v: call(b, tl.load, p, boundary_check=(2,)), r"boundary_check must name dimensions in 0..1"),
    (lambda b, p, v: call(b, tl.load, p, boundary_check=(0, 0)), "each once"),
    (lambda b, p, v: call(b, tl.load, p, boundary_check=(0,), padding_option="nan"),
     "not supported for integer blocks"),
    (lambda b, p, v: call(b, tl.load, p, boundary_check=(0,), padding_option="one"), "Padding option 'one'"),
    (lambda b, p, v: call(b, tl.store, p, v), "element type mismatch: the block pointer stores"),
    (lambda b, p, v: call(b, tl.advance, p, (1,)), "needs as many offsets, but got 1"),
    (lambda b, p, v: call(b, tl.advance, v, (1,)), "tl.advance moves a block pointer"),
])
def test_wrong_uses_of_block_pointers(use, message):
    with pytest.raises((TypeError, ValueError), match=message):
        trace(lambda b, p, v: use(b, block(b, p), v), "*int32", "int8[4, 4]")


@pytest.mark.parametrize("options, message", [
    ({"strides": (8, 2)}, "Tensor descriptor last dim must be 1 but got 2"),
    ({"strides": (8,)}, "Expected 2 strides but got 1"),
    ({"shape": (2,) * 6, "strides": (1,) * 6, "block_shape": (2,) * 6}, "describes 1 to 5 dimensions, not 6"),
    ({"padding_option": "nan"}, "not supported for integer blocks"),
])
def test_wrong_descriptors(options, message):
    with pytest.raises((TypeError, ValueError), match=message):
        trace(lambda b, p: descriptor(b, p, **options), "*int32")


@pytest.mark.parametrize("use, message", [
    (lambda b, d, v: d.store.call(b, ((0, 0), v)), "must have the shape"),
    (lambda b, d, v: d.load.call(b, ((0,),)), "needs as many offsets, but got 1"),
    (lambda b, d, v: d.gather.call(b, (v, 0)), r"needs a descriptor of blocks of one row"),
    (lambda b, d, v: call(b, tl.load_tensor_descriptor, v, (0, 0)), "takes a tensor descriptor"),
])
def test_wrong_uses_of_descriptors(use, message):
    with pytest.raises((TypeError, ValueError), match=message):
        trace(lambda b, p, v: use(b, descriptor(b, p), v), "*int32", "int32[4, 2]")
