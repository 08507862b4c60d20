"""Ops written again with other operands.

A copy has results of its own, of types that follow its operands: a transposed tile lies as what it is a view of.
Tests: tests/targets/nvidia/test_pipeline.py.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tilewright.ir.layout_rules import layout_of
from tilewright.ir.node import Block, Op, Value
from tilewright.ir.types import Tile, Type
from tilewright.layout import views


def copied_op(op: Op, values: dict[Value, Value]) -> Op:
    """`op` anew, its results new values that `values` learns."""
    operands = [values.get(v, v) for v in op.operands]
    regions = [_copied_block(r, values) for r in op.regions]
    results = [Value(_type_of(op, r, operands), r.hint) for r in op.results]
    values.update(zip(op.results, results, strict=True))
    return Op(op.row, operands, results, op.attrs, regions, op.loc)


def _type_of(op: Op, result: Value, operands: Sequence[Value]) -> Type:
    """The type of a result for these operands: a transposed tile follows what is read from shared memory."""
    t = result.type
    if op.name != "permute" or operands[0].type == op.operands[0].type:
        return t
    assert isinstance(t, Tile)
    return Tile(t.shape, t.element, views.transposed(layout_of(operands[0]), op.attrs["order"]))


def _copied_block(block: Block, values: dict[Value, Value]) -> Block:
    args = tuple(Value(a.type, a.hint) for a in block.args)
    values.update(zip(block.args, args, strict=True))
    return Block(args, tuple(copied_op(o, values) for o in block.ops))


def with_results(op: Op, renamed: Mapping[Value, Value]) -> Op:
    """`op` with the old values for those of its results that have one."""
    if not any(r in renamed for r in op.results):
        return op
    results = [renamed.get(r, r) for r in op.results]
    return Op(op.row, op.operands, results, op.attrs, op.regions, op.loc)
