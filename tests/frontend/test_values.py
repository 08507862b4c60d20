"""The structure of values: leaves, rebuilding, keys."""

import collections
import math

import pytest

import tilewright.language as tl
from tilewright.frontend import values
from tilewright.ir.node import Value
from tilewright.ir.types import F32, I32
from tilewright.language.core import block_type, constexpr, tensor

Pair = collections.namedtuple("Pair", "a b")


def scalar(t=I32, language=tl.int32):
    return tensor(Value(t), language, None)


def test_leaves_and_rebuilding_keep_structure_and_names():
    x, y = scalar(), scalar(F32, tl.float32)
    value = values.as_tuple([x, values.as_tuple([constexpr(3), y], Pair(0, 0)), None])
    assert list(values.leaves(value)) == [x, y]
    new = [Value(I32), Value(F32)]
    again = values.with_handles(value, new)
    assert values.handles(again) == new
    assert again[1].fields == ("a", "b") and again[1].a.value == 3 and again[2] is None
    assert again[1].b.type == tl.float32
    assert not values.is_static(value) and values.is_static(value[2])


def test_python_values_and_back():
    value = values.from_python((1, [2.5, "a"], None, tl.int8))
    assert isinstance(value[0], constexpr) and value[3] == tl.int8
    assert values.to_python(value) == (1, (2.5, "a"), None, tl.int8)
    assert values.from_python(constexpr(None)) is None
    assert [v.value for v in values.from_python(constexpr((1, 2)))] == [1, 2]
    with pytest.raises(ValueError, match="known only at run time"):
        values.to_python((1, scalar()))


@pytest.mark.parametrize(("a", "b"), [
    (1, True), (1, 1.0), (0.0, -0.0), ("1", 1), ((1,), 1), (None, 0), (tl.int32, tl.int64), (Pair(1, 2), (1, 2)),
])
def test_different_keys(a, b):
    assert values.static_key(values.from_python(a)) != values.static_key(values.from_python(b))


def test_equal_keys():
    nan = constexpr(math.nan)
    assert values.same_static(nan, constexpr(float("nan")))
    assert values.static_key(scalar()) == values.static_key(scalar())
    unhashable = []
    assert values.static_key(constexpr({1: unhashable})) != values.static_key(constexpr({1: unhashable}))


def test_names_for_messages():
    tile = tensor(Value(I32), block_type(tl.float16, (4, 8)), None)
    value = values.as_tuple([scalar(), None, constexpr(4), tile])
    assert values.type_name(value) == "(int32, None, constexpr 4, fp16[4, 8])"
    assert values.type_name(values.as_tuple([tile])) == "(fp16[4, 8],)"
    assert values.spelled(tl.bfloat16) == "tl.bfloat16"
