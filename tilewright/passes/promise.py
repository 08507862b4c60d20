"""Promises that stand alone, such as the statement `tl.multiple_of(pointers, [16, 16])`, speak of the value itself.

A `hint` whose result nobody takes becomes the operand of what follows and used the promised value: the rest of its
block, and the regions there.  Elsewhere the statement may not have been executed.
Tests: tests/passes/golden/promise.
"""

from __future__ import annotations

from tilewright.ir.node import Block, Module, Op, Value
from tilewright.ir.rewrite import Rewriter, map_bodies
from tilewright.ir.walk import ops_in, use_counts
from tilewright.passes.manager import Pass


class _Promising(Rewriter):
    def __init__(self, alone: frozenset[Value]) -> None:
        super().__init__()
        self._alone = alone
        self._outer: list[dict[Value, Value]] = []

    def enter_region(self, op: Op, region: Block) -> None:
        self._outer.append(dict(self._values))

    def leave_region(self, op: Op, region: Block) -> None:
        self._values = self._outer.pop()

    def visit(self, op: Op) -> None:
        if op.name == "hint" and op.result in self._alone:
            (promised,) = op.operands       # perhaps an earlier hint's result, which stands for a value already
            for value in [v for v, stands in self._values.items() if stands is promised]:
                self.replace_value(value, op.result)
            self.replace_value(promised, op.result)


def _promised(body: Block) -> Block:
    hints = [op.result for op in ops_in(body) if op.name == "hint"]
    if not hints:
        return body
    counts = use_counts(body)
    alone = frozenset(h for h in hints if h not in counts)
    return _Promising(alone).block(body) if alone else body


def run(module: Module) -> Module:
    """`module` with promises that stand alone in the way of what they promise of."""
    return map_bodies(module, _promised)


PROMISE = Pass("promise", run, after=("inline",), why="a callee's promise about a parameter is one about the argument")
