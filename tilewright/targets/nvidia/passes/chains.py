"""Products whose rows stay together: the result of one is, some steps later, the left operand of another.

Attention is the example: the scores are a product, and after a softmax the left operand of the next one.  Where all
warps lie along the rows, an accumulator's fragment is nearly the operand's, and nothing goes through shared memory.
Tests: tests/targets/nvidia/test_matrix.py.
"""

from __future__ import annotations

from tilewright.ir.node import Block, Op, Value
from tilewright.ir.walk import defining_ops, ops_in

_PASSES_ON = frozenset({"hint", "broadcast"})


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
    found: set[Op] = set()
    seen: set[Value] = set()
    work = [value]
    while work:
        v = work.pop()
        op = ops.get(v)
        if op is None or v in seen:
            continue
        seen.add(v)
        if op.name == "dot":
            found.add(op)
        elif op.row.elementwise or op.name in _PASSES_ON:
            work += op.operands
    return found
