"""Products whose rows stay together: the result of one is, some steps later, the left operand of another.

Attention is the example: the scores are a product, and after a softmax the left operand of the next one.  Where all
warps lie along the rows, an accumulator's fragment is nearly the operand's, and nothing goes through shared memory.
Tests: tests/targets/nvidia/test_matrix.py.
"""

from __future__ import annotations

from collections.abc import Mapping

from tilewright.ir.node import Block, Op, Value
from tilewright.ir.walk import defining_ops, ops_in

_PASSES_ON, _TURNS = frozenset({"hint", "broadcast"}), frozenset({"hint", "permute"})


def chained_dots(body: Block) -> frozenset[Op]:
    """Every dot whose result becomes a left operand by elementwise ops, and every dot with such an operand."""
    ops = defining_ops(body)
    found: set[Op] = set()
    for op in ops_in(body):
        if op.name == "dot":
            sources = _dots_above(op.operands[0], ops)
            if sources:
                found.update(sources)
                found.add(op)
    return frozenset(found)


def _dots_above(value: Value, ops: dict[Value, Op]) -> set[Op]:
    """The dots that a value is made of, by ops that keep the place of every element."""
    return set(_above(value, ops, "dot", _PASSES_ON))


def loads_above(value: Value, ops: Mapping[Value, Op], also: frozenset[str] = frozenset()) -> list[Op]:
    """The loads that a value is made of, element by element, transposed or not, and by ops called as in `also`."""
    return _above(value, ops, "load", _TURNS | also)


def _above(value: Value, ops: Mapping[Value, Op], name: str, through: frozenset[str]) -> list[Op]:
    """The ops called `name` that a value is made of, by elementwise ops and those of `through`."""
    found: dict[Op, None] = {}
    seen: set[Value] = set()
    work = [value]
    while work:
        v = work.pop()
        op = ops.get(v)
        if op is None or v in seen:
            continue
        seen.add(v)
        if op.name == name:
            found[op] = None
        elif op.row.elementwise or op.name in through:
            work += op.operands
    return list(found)
