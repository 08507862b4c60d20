"""Semantics §5: load and store: operands, broadcasting, hints, errors, int1 in memory."""

import numpy as np
import pytest

from tests.departures import differs
from tests.lang.recorder import call, evaluate, trace
from tilewright import language as tl
from tilewright.ir.ops.attributes import Cache, Eviction
from tilewright.language.types import pointer_type


def load(**kwargs):
    return lambda b, pointer: call(b, tl.load, pointer, **kwargs)


def from_address(element, *args):
    """A load of tiles of `element` from addresses given as int64."""
    return lambda b, x: call(b, tl.load, x.to(tl.int64).to(pointer_type(element)), x == 1, *args)


def test_plain_loads():
    assert trace(load(), "*fp32").result.type == tl.float32
    done = trace(load(), "*uint8[4, 8]")
    assert done.names == ["load"] and str(done.result.type) == "<[4, 8], uint8>"
    assert done.ops[0].attrs["has_mask"] is False and done.ops[0].attrs["has_other"] is False


def test_mask_and_other():
    done = trace(lambda b, p, m: call(b, tl.load, p, m, 0.0), "*fp16[8]", "int1[8]")
    assert done.names == ["constant", "splat", "load"] and done.op("load").attrs["has_other"]
    assert str(done.op("constant").attrs["type"]) == "f16"
    assert trace(lambda b, p: call(b, tl.load, p, mask=True), "*fp16").op("load").attrs["has_mask"]


def test_other_is_converted_to_the_element_type():
    got = evaluate(from_address(tl.int8, 3.9), ([0, 0], "int64"))
    assert got.tolist() == [3, 3]
    done = trace(lambda b, p, m, o: call(b, tl.load, p, m, o), "*int8[4]", "int1[4]", "fp32[4]")
    assert "fp_to_int_s" in done.names and done.result.dtype == tl.int8


def test_masked_lanes_without_other_are_zero():
    got = evaluate(from_address(tl.float32), ([0, 0], "int64"))
    assert got.tolist() == [0.0, 0.0]


def test_other_without_mask_is_an_error():
    with pytest.raises(ValueError, match="`other` cannot be provided without `mask`"):
        trace(lambda b, p: call(b, tl.load, p, other=0.0), "*fp32")


@differs("Operands of memory operations broadcast to one another", topic="Memory",
         peer="A load broadcasts its pointer to mask and `other`; stores and atomics want a pointer of the full "
              "shape.",
         ours="Pointer, mask, value and `other` broadcast as in NumPy, in loads, stores and atomics.")
def test_all_operands_of_a_load_broadcast():
    done = trace(lambda b, p, m: call(b, tl.load, p, m, 0), "*int32[1, 8]", "int1[4, 1]")
    assert done.result.type == tl.block_type(tl.int32, (4, 8))
    done = trace(lambda b, p, o: call(b, tl.load, p, mask=True, other=o), "*int32[8]", "int32[4, 1]")
    assert done.result.type == tl.block_type(tl.int32, (4, 8))
    with pytest.raises(ValueError, match=r"pointer \[8\], mask \[4\]"):
        trace(lambda b, p, m: call(b, tl.load, p, m), "*int32[8]", "int1[4]")


@differs("Operands of memory operations broadcast to one another")
def test_all_operands_of_a_store_broadcast():
    done = trace(lambda b, p, v, m: call(b, tl.store, p, v, m), "*int32[1, 8]", "int32[4, 8]", "int1[4, 1]")
    assert [str(v.type) for v in done.op("store").operands] == ["tile<4x8xptr<i32>>", "tile<4x8xi32>", "tile<4x8xi1>"]
    assert done.result is None


@pytest.mark.parametrize("operand, message", [
    ("mask", "Mask argument cannot be block type if pointer argument is not a block"),
    ("other", "Other argument cannot be block type if pointer argument is not a block"),
])
def test_a_scalar_pointer_takes_scalars(operand, message):
    with pytest.raises(ValueError, match=message):
        trace(lambda b, p, m, o: call(b, tl.load, p, **{"mask": True, operand: m if operand == "mask" else o}),
              "*fp32", "int1[4]", "fp32[4]")
    with pytest.raises(ValueError, match="Value argument cannot be block type"):
        trace(lambda b, p, v: call(b, tl.store, p, v), "*fp32", "fp32[4]")


def test_masks_are_int1():
    for kind in ("int32[4]", "fp32[4]"):
        with pytest.raises(ValueError, match="Mask must have boolean scalar type"):
            trace(lambda b, p, m: call(b, tl.load, p, m), "*fp32[4]", kind)
        with pytest.raises(ValueError, match="Mask must have boolean scalar type"):
            trace(lambda b, p, m: call(b, tl.store, p, 0.0, m), "*fp32[4]", kind)


def test_a_stored_value_is_converted():
    done = trace(lambda b, p, v: call(b, tl.store, p, v), "*bf16[4]", "fp32[4]")
    assert done.names == ["fp_trunc", "store"]
    done = trace(lambda b, p: call(b, tl.store, p, 1.5), "*fp16[4]")
    assert done.names == ["constant", "splat", "store"]
    done = trace(lambda b, p, v: call(b, tl.store, p, v), "*int8[4]", "fp32[4]")
    assert done.names == ["fp_to_int_s", "store"]
    done = trace(lambda b, p: call(b, tl.store, p, 300), "*int8")
    assert done.names == ["constant", "trunc", "store"]


def test_no_pointer_where_one_is_due():
    for value, words in (("fp32[4]", "Unsupported ptr type fp32"), ("int64", "Unsupported ptr type int64")):
        with pytest.raises(TypeError, match=words):
            trace(load(), value)
        with pytest.raises(TypeError, match=words):
            trace(lambda b, p: call(b, tl.store, p, 0), value)
    with pytest.raises(TypeError, match="Unsupported ptr type"):
        trace(lambda b: call(b, tl.load, 5))
    with pytest.raises(TypeError, match="`value` must be a number or a tensor, not None"):
        trace(lambda b, p: call(b, tl.store, p, None), "*fp32")


def test_a_const_pointer_is_not_stored_to():
    const = pointer_type(tl.float32, const=True)
    assert trace(load(), const).result.type == tl.float32
    with pytest.raises(ValueError, match="Cannot store to a constant pointer"):
        trace(lambda b, p: call(b, tl.store, p, 0.0), const)


@pytest.mark.parametrize("name, want", [("", Cache.NONE), (None, Cache.NONE), (".ca", Cache.CA), ("cg", Cache.CG),
                                        (".cs", Cache.CS), (".cv", Cache.CV)])
def test_cache_modifiers_of_loads(name, want):
    assert trace(load(cache_modifier=name), "*fp32").op("load").attrs["cache"] is want


@pytest.mark.parametrize("name, want", [("", Cache.NONE), (".wb", Cache.WB), ("wt", Cache.WT), (".cg", Cache.CG)])
def test_cache_modifiers_of_stores(name, want):
    done = trace(lambda b, p: call(b, tl.store, p, 0.0, cache_modifier=name), "*fp32")
    assert done.op("store").attrs["cache"] is want


def test_wrong_hints():
    for name in (".wb", ".xx", "ca.", 1):
        with pytest.raises(ValueError, match="Cache modifier .* not supported by tl.load"):
            trace(load(cache_modifier=name), "*fp32")
    with pytest.raises(ValueError, match="Cache modifier '.ca' not supported by tl.store"):
        trace(lambda b, p: call(b, tl.store, p, 0.0, cache_modifier=".ca"), "*fp32")
    with pytest.raises(ValueError, match="Eviction policy 'never' not supported"):
        trace(load(eviction_policy="never"), "*fp32")


def test_eviction_and_volatile():
    for name, want in (("evict_first", Eviction.FIRST), ("evict_last", Eviction.LAST), ("", Eviction.NORMAL),
                       ("evict_normal", Eviction.NORMAL)):
        assert trace(load(eviction_policy=name), "*fp32").op("load").attrs["eviction"] is want
    assert trace(load(volatile=True), "*fp32").op("load").attrs["volatile"] is True


@differs("Positional arguments of both releases", topic="Names and signatures",
         peer="In 3.9 only pointer, mask and `other` of a load (pointer, value and mask of a store) may be "
              "positional.",
         ours="The order of 3.6 is accepted, with all keywords of 3.9.")
def test_block_pointer_arguments_are_refused_and_positions_are_those_of_both_releases():
    with pytest.raises(ValueError, match="`padding_option` or `boundary_check`"):
        trace(load(boundary_check=(0,)), "*fp32[4]")
    done = trace(lambda b, p: call(b, tl.load, p, None, None, (), "", ".ca", "evict_last", True), "*fp32")
    assert (done.op("load").attrs["cache"], done.op("load").attrs["volatile"]) == (Cache.CA, True)
    done = trace(lambda b, p: call(b, tl.store, p, 0.0, None, (), ".wt", "evict_first"), "*fp32")
    assert done.op("store").attrs["eviction"] is Eviction.FIRST


def test_store_is_a_method():
    assert trace(lambda b, p: p.store(1.0), "*fp32").names == ["constant", "store"]


@differs("A bool in memory is a byte, 0 or 1", topic="Memory",
         peer="3.6 stores the low byte of the value, so that 2 is written as 2.",
         ours="As in 3.9: a load compares with 0, a store writes 0 or 1.")
def test_int1_is_a_byte_in_memory():
    written = trace(lambda b, p, v: call(b, tl.store, p, v), "*int1[4]", "int32[4]")
    assert written.names == ["constant", "splat", "cmp_ne", "store"]
    got = evaluate(from_address(tl.int1, True), ([0, 0], "int64"))
    assert got.tolist() == [True, True]
    assert evaluate(lambda b, x: x, ([True, False], "int1")).tolist() == [True, False]


def test_a_tile_sees_its_values():
    x = np.arange(12).reshape(3, 4)
    assert evaluate(lambda b, x: x, (x, "int32")).tolist() == x.tolist()
