"""Nodes: changed copies keep results, unchanged parts stay the same object."""

from tilewright.ir.build import Builder, make_op
from tilewright.ir.node import Function, Module, ParamFacts, Value
from tilewright.ir.types import F32, I1, I32, Pointer


def test_changed_ops_keep_their_results():
    op = make_op("add", [Value(I32), Value(I32)])
    other = Value(I32)
    changed = op.updated(operands=[other, other])
    assert changed.results == op.results and changed.operands == (other, other) and op.operands != changed.operands
    assert op.operand("rhs") is op.operands[1]
    load = make_op("load", [Value(Pointer(I32)), Value(I1)], {"has_mask": True})
    assert load.operand("mask") is load.operands[1] and load.operand("other") is None


def test_modules_are_the_same_object_when_nothing_changed():
    b = Builder()
    body = b.region([F32], lambda x: [], "return")
    f = Function("f", ("x",), body, param_facts=(ParamFacts(16),))
    m = Module("f", {"f": f})
    assert m.entry is f and f.params == body.args and f.with_body(body) is f
    assert m.with_functions({"f": f}) is m
    moved = f.with_body(b.region([F32], lambda x: [], "return"))
    assert moved.param_facts == f.param_facts and m.with_functions({"f": moved}).entry is moved
