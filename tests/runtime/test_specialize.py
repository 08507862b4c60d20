"""Specialisation: atoms, slots, typed keys, and the signature that they stand for (semantics §12)."""

import collections
import dataclasses
import math
import struct

import numpy as np
import pytest

import tilewright.language.types as tl
from tests.departures import differs
from tilewright.language.constexpr import constexpr
from tilewright.language.function import SourceFunction
from tilewright.language.options import ConstantArg, RuntimeArg, TupleArg
from tilewright.runtime.arguments import MockTensor
from tilewright.runtime.specialize import Specializer, pattern, typed


def specializer(fn, **marks):
    return Specializer(fn.__name__, SourceFunction(fn, **marks).params)


def k(x):
    pass


def one(value, fn=k, **marks):
    return specializer(fn, **marks).split([value])


@pytest.mark.parametrize("value, atom", [
    (2, "i32"), (32, "i32D"), (0, "i32D"), (-16, "i32D"), (-1, "i32"), (2**31 - 1, "i32"), (2**31, "i64D"),
    (2**31 + 1, "i64"), (-(2**31), "i32D"), (-(2**31) - 1, "i64"), (2**63 - 1, "i64"), (2**63, "u64D"),
    (2**64 - 1, "u64"), (True, "i1"), (False, "i1"), (1.0, "fp32"), (16.0, "fp32"), (math.inf, "fp32"),
    (1, ("=", int, 1)), (None, ("=", type(None), None)),
])
def test_python_values(value, atom):
    assert one(value).atoms == (atom,)


@differs("Arguments are arrays of any library")
@pytest.mark.parametrize("value, atom", [
    (np.int8(1), "i8"), (np.int64(1), "i64"), (np.int64(32), "i64D"), (np.uint8(200), "u8"), (np.float16(1), "fp16"),
    (np.float32(2), "fp32"), (np.float64(2), "fp32"), (np.bool_(True), "i1"),
])
def test_numpy_scalars_keep_their_dtype(value, atom):
    assert one(value).atoms == (atom,)


@pytest.mark.parametrize("value", [2**64, -(2**63) - 1])
def test_an_int_beyond_64_bits(value):
    with pytest.raises(OverflowError, match=r"k: parameter 'x': .* does not fit in 64 bits"):
        one(value)


@pytest.mark.parametrize("value, words", [
    ([1, 2], "failed to specialize argument of type: list"), ({}, "argument of type: dict"),
    ("relu", "argument of type: str; a text can only be a compile-time value"),
    (np.dtype("float32"), "a dtype can only be a compile-time value"),
    (tl.float32, "argument of type: dtype; a dtype can only"), (1j, "argument of type: complex"),
    (object(), "argument of type: object; a run-time argument is a number"),
    (np.str_("a"), "argument of type: str_"), (np.complex64(1), "argument of type: complex64"),
])
def test_what_is_no_run_time_value(value, words):
    with pytest.raises(TypeError, match="k: parameter 'x': ") as caught:
        one(value)
    assert words in str(caught.value)


def test_pointers_are_specialised_on_alignment():
    array = np.zeros(64, np.float32)
    offset = (-array.ctypes.data % 16) // 4
    aligned, odd = array[offset:], array[offset + 1:]
    assert one(aligned).atoms == ("*fp32D",) and one(odd).atoms == ("*fp32",)
    split = one(odd)
    assert split.slots == [odd.ctypes.data] and split.pointers[0][0] == 0


def test_do_not_specialize_drops_value_and_alignment():
    assert one(1, do_not_specialize=["x"]).atoms == ("i32",)
    assert one(32, do_not_specialize=[0]).atoms == ("i32",)
    assert one(1, do_not_specialize_on_alignment=["x"]).atoms == (("=", int, 1),)
    assert one(32, do_not_specialize_on_alignment=["x"]).atoms == ("i32",)


def annotated(a: int, b: float, c: tl.int64, d: "u8", e: tl.float16, f: tl.pointer_type(tl.int8),  # noqa: F821
              g: "tl.const", h: bool, i: "*fp16"):  # noqa: F722
    pass


def values(**changed):
    array = np.zeros(32, np.uint8)
    array = array[-array.ctypes.data % 16:]
    given = {"a": 1, "b": 1, "c": 16, "d": 255, "e": 0.5, "f": array, "g": array, "h": 1, "i": array, **changed}
    return list(given.values())


def test_annotations_fix_the_type():
    split = specializer(annotated).split(values())
    assert split.atoms == ("i32", "fp32", "i64D", "u8", "fp16", "*i8D", "*ku8D", "i1", "*fp16D")
    assert split.slots[1] == struct.unpack("<I", struct.pack("<f", 1.0))[0]
    assert split.slots[4] == 0x3800


@pytest.mark.parametrize("changed, error, words", [
    ({"a": 2**31}, OverflowError, "'a': 2147483648 does not fit in i32"),
    ({"d": -1}, OverflowError, "'d': -1 does not fit in u8"),
    ({"a": 1.5}, TypeError, "'a': annotated as i32, so it takes an integer, not 1.5 of type float"),
    ({"a": np.zeros(2)}, TypeError, "'a': annotated as i32, so it takes a number, not a ndarray"),
    ({"b": "x"}, TypeError, "'b': annotated as fp32, so it takes a number, not a str"),
    ({"f": 3}, TypeError, r"'f': annotated as the pointer \*i8, so it takes a tensor, not 3"),
])
def test_annotations_refuse(changed, error, words):
    with pytest.raises(error, match=words):
        specializer(annotated).split(values(**changed))


def meta(x, C: constexpr):
    pass


def test_keys_are_typed():
    keys = {specializer(meta).split([2, c]).atoms for c in (1, True, 1.0, "1", (1,), (True,), (1.0,), None, 0.0, -0.0)}
    assert len(keys) == 10
    assert typed(float("nan")) == typed(float("nan"))
    assert typed(constexpr(3)) == typed(3)


METRES = type("Metres", (float,), {})


@dataclasses.dataclass(frozen=True)
class Settings:
    scale: object
    names: object = ()


@pytest.mark.parametrize("values", [
    [kind(value) for kind in (np.float16, np.float32, np.float64) for value in (0.0, -0.0)] + [0.0, -0.0],
    [METRES(0.0), METRES(-0.0)],
    [np.complex64(complex(0.0, -0.0)), np.complex64(0), complex(0.0, -0.0), 0j, complex(-0.0, 0.0)],
    [frozenset([1]), frozenset([True]), frozenset([1.0])],
    [Settings(0.0), Settings(-0.0), Settings(0), Settings(False), Settings((0,)), Settings((False,))],
], ids=["numpy", "float", "complex", "set", "dataclass"])
def test_equal_values_that_a_kernel_can_tell_apart_have_keys_of_their_own(values):
    keys = [specializer(meta).split([2, value]).atoms for value in values]
    assert len(set(keys)) == len(values)
    assert keys == [specializer(meta).split([2, value]).atoms for value in values]


def test_equal_values_have_equal_keys():
    assert typed(np.float32("nan")) == typed(np.float32("nan"))
    assert typed(np.array(["a"])[0]) == typed(np.str_("a"))
    assert typed(Settings(1.0)) == typed(Settings(1.0))


def test_a_constexpr_has_to_be_hashable():
    with pytest.raises(TypeError, match=r"meta: parameter 'C': a constexpr has to be hashable, and a list is not"):
        specializer(meta).split([2, [1]])


def test_a_constexpr_value_for_a_run_time_parameter_is_compiled_in():
    assert one(constexpr(7)).atoms == (("=", int, 7),)


Point = collections.namedtuple("Point", "x y")


def test_tuples_element_by_element():
    array = np.zeros(4, np.float32)
    split = one(Point((1, 5), array), do_not_specialize=["x"])
    assert split.atoms == (("tuple", Point, ("tuple", tuple, ("=", int, 1), "i32"), "*fp32"),)
    assert split.slots == [5, array.ctypes.data] and split.pointers[0][0] == 1
    signature = specializer(k).signature(split.atoms, [Point((1, 5), array)], False, False)
    assert signature.args["x"] == TupleArg(
        (TupleArg((ConstantArg(1), RuntimeArg(tl.int32))), RuntimeArg(tl.pointer_type(tl.float32))), Point)


def test_signature():
    special = specializer(meta)
    split = special.split([32, constexpr("fast")])
    signature = special.signature(split.atoms, [32, constexpr("fast")], True, False)
    assert signature.args == {"x": RuntimeArg(tl.int32, 16), "C": ConstantArg("fast")}
    assert signature.disjoint and not signature.wide


def test_mock_values_for_warmup():
    special = specializer(k)
    for value in (np.dtype("float32"), np.float32, tl.float32, MockTensor(np.dtype("float32"))):
        split = special.split([value], mock=True)
        assert split.atoms == ("*fp32D",)


@pytest.mark.parametrize("text, value, bits", [
    ("i32", -1, 2**64 - 1), ("u8", 255, 255), ("i1", True, 1), ("fp32", 1.0, 0x3F800000),
    ("fp32", 1e39, 0x7F800000), ("fp32", -1e39, 0xFF800000), ("fp64", 1.0, 0x3FF0000000000000),
    ("fp16", 1.0, 0x3C00), ("bf16", 1.0, 0x3F80), ("fp32", np.float32(2), 0x40000000), ("i64", np.int64(-2), 2**64 - 2),
])
def test_patterns(text, value, bits):
    assert pattern(text, value) == bits
