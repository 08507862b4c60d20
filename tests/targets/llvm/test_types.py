"""LLVM types and constants: exact texts, and refusal of what a type cannot hold."""

import math

import pytest

from tilewright.diagnostics import InternalError
from tilewright.targets.llvm import types
from tilewright.targets.llvm.types import Type, constant


@pytest.mark.parametrize(("t", "text", "mangled", "bits"), [
    (Type("i32"), "i32", "i32", 32), (Type("float", 16), "<16 x float>", "v16f32", 32), (Type("ptr"), "ptr", "p0", 64),
    (Type("bfloat", 4), "<4 x bfloat>", "v4bf16", 16), (Type("i1", 8), "<8 x i1>", "v8i1", 1)])
def test_type(t, text, mangled, bits):
    assert (str(t), t.mangled, t.bits) == (text, mangled, bits)


@pytest.mark.parametrize(("t", "value", "text"), [
    (Type("i8"), 255, "-1"), (Type("i8"), -128, "-128"), (Type("i1"), 1, "true"), (Type("i1"), -1, "true"),
    (Type("i64"), 1 << 63, str(-(1 << 63))), (Type("i32", 4), 7, "splat (i32 7)"),
    (Type("float"), 0.1 - 0.1, "0x0000000000000000"), (Type("float"), 1.5, "0x3FF8000000000000"),
    (Type("double"), 0.1, "0x3FB999999999999A"), (Type("half"), 1.5, "0xH3E00"), (Type("bfloat"), 1.5, "0xR3FC0"),
    (Type("float"), -0.0, "0x8000000000000000"), (Type("float"), math.inf, "0x7FF0000000000000"),
    (Type("float", 2), math.nan, "splat (float 0x7FF8000000000000)"), (Type("ptr"), 0, "null")])
def test_constant(t, value, text):
    assert constant(t, value).name == text


@pytest.mark.parametrize(("t", "value"), [
    (Type("float"), 0.1), (Type("half"), 65504.5), (Type("half"), 1e9), (Type("float"), 1e39), (Type("bfloat"), 1.001),
    (Type("ptr"), 8)])
def test_constant_that_does_not_fit(t, value):
    with pytest.raises(InternalError):
        constant(t, value)


def test_reading_constants_back():
    for t in (Type("i16"), Type("i16", 8)):
        assert types.integer_value(constant(t, -5)) == -5
        assert types.integer_value(types.zero(t)) == 0
        assert types.integer_value(types.Value(t, "%x")) is None
    for t in (Type("float"), Type("double", 4)):
        assert types.float_value(constant(t, -2.5)) == -2.5
        assert types.float_value(types.zero(t)) == 0
        assert types.float_value(types.Value(t, "%x")) is None
    assert types.integer_value(constant(Type("float"), 1.0)) is None
    assert types.float_value(constant(Type("i32"), 1)) is None
    assert types.integer_value(types.constant_lanes("i32", [1, 2])) is None
