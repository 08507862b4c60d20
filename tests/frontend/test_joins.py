"""Where two paths meet: what may meet, what is yielded, what is refused."""

import pytest

import tilewright.language as tl
from tilewright.frontend.graph import GraphBuilder
from tilewright.frontend.joins import ABSENT, Disagreement, Phis, merge
from tilewright.frontend.values import as_tuple, from_python
from tilewright.ir.node import Value
from tilewright.ir.types import F32, I32
from tilewright.language.core import constexpr, tensor
from tilewright.language.options import Options


def make():
    builder = GraphBuilder(Options(), None)
    return builder, Phis(builder)


def scalar(builder, t=I32, language=tl.int32):
    return tensor(Value(t), language, builder)


def test_the_same_value_needs_no_result():
    builder, phis = make()
    x = scalar(builder)
    assert merge(x, x, phis)([]) is x
    assert merge(from_python(3), from_python(3), phis)([]).value == 3
    assert merge(None, None, phis)([]) is None
    assert len(phis) == 0


def test_tensors_of_one_type_become_a_result():
    builder, phis = make()
    recipe = merge(scalar(builder), scalar(builder), phis)
    result = Value(I32)
    merged = recipe([result])
    assert merged.handle is result and merged.type == tl.int32 and len(phis) == 1


def test_tuples_meet_element_by_element():
    builder, phis = make()
    shared = scalar(builder)
    a = as_tuple([shared, scalar(builder), None])
    b = as_tuple([shared, scalar(builder), None])
    merged = merge(a, b, phis)([Value(I32)])
    assert merged[0] is shared and merged[2] is None and len(phis) == 1


def test_a_number_meets_a_scalar_and_is_made_in_its_own_block():
    builder, phis = make()
    merge(scalar(builder), constexpr(5), phis)
    with builder.collect() as left:
        phis.handles(0)
    with builder.collect() as right:
        phis.handles(1)
    assert [op.name for op in left] == [] and [op.attrs["value"] for op in right] == [5]


def test_an_absent_value_is_a_zero():
    builder, phis = make()
    merge(ABSENT, as_tuple([scalar(builder, F32, tl.float32), None]), phis)
    with builder.collect() as left:
        phis.handles(0)
    assert [(op.name, op.attrs["value"]) for op in left] == [("constant", 0.0)]


@pytest.mark.parametrize("pair", [
    lambda b: (scalar(b), scalar(b, F32, tl.float32)), lambda b: (scalar(b), None),
    lambda b: (scalar(b), constexpr(2.5)), lambda b: (constexpr(1), constexpr(2)),
    lambda b: (as_tuple([1]), as_tuple([1, 2])), lambda b: (None, constexpr(1)),
    lambda b: (tl.int32, tl.int64), lambda b: (scalar(b), constexpr(1 << 40)),
])
def test_what_cannot_meet(pair):
    builder, phis = make()
    with pytest.raises(Disagreement):
        merge(*pair(builder), phis)


def test_two_literals_meet_where_that_is_asked_for():
    builder, phis = make()
    assert merge(constexpr(1), constexpr(2), phis, literals=True)([Value(I32)]).type == tl.int32
    with pytest.raises(Disagreement):
        merge(constexpr(1), constexpr(2.0), phis, literals=True)
