"""Sums of products: `acc + dot(a, b)` is a product that begins with `acc`.

    d + dot(a, b, 0) -> dot(a, b, d)        d + (dot(a, b, 0) + dot(x, y, 0)) -> dot(x, y, dot(a, b, d))

For the statement `acc += tl.dot(a, b)` that is one tile of sums in registers instead of two.  The terms are the same
and a `dot` adds them in any order, so the bound of its row holds.  A product with a second use stays.  It is a pass on
tile IR so that all engines run one program.
Tests: tests/passes/golden/accumulate.
"""

from __future__ import annotations

from tilewright.ir.build import make_op
from tilewright.ir.node import Block, Module, Op, Value
from tilewright.ir.rewrite import Replacement, Rewriter, map_bodies
from tilewright.ir.walk import ops_in, use_counts
from tilewright.passes.manager import Pass

_SUMS = frozenset({"add", "add_f"})
_REPEATS = frozenset({"splat", "broadcast"})


class _Accumulator(Rewriter):
    def __init__(self, body: Block) -> None:
        super().__init__()
        self._uses = use_counts(body)
        self._zeros: set[Value] = set()
        self._products: list[dict[Value, Op]] = [{}]       # of the open blocks, innermost last

    def enter_region(self, op: Op, region: Block) -> None:
        self._products.append({})

    def leave_region(self, op: Op, region: Block) -> None:
        self._products.pop()

    def visit(self, op: Op) -> Replacement | None:
        if op.name == "dot":
            self._products[-1][op.result] = op
        elif (op.name == "constant" and op.attrs["value"] == 0) or (
                op.name in _REPEATS and op.operands[0] in self._zeros):
            self._zeros.add(op.result)
        elif op.name in _SUMS:
            left, right = op.operands
            for start, value in ((left, right), (right, left)):
                products = self._from_zero(value)
                if products:
                    return self._begun_with(start, products, op)
        return None

    def _from_zero(self, value: Value) -> list[Op]:
        """The products, the last first, of which `value` is the sum; none if it is more, or has other uses."""
        found: list[Op] = []
        while value not in self._zeros:
            product = self._products[-1].get(value)
            if product is None or self._uses.get(value) != 1:
                return []
            found.append(product)
            value = product.operands[2]
        return found

    def _begun_with(self, start: Value, products: list[Op], total: Op) -> Replacement:
        ops: list[Op] = []
        for product in reversed(products):
            a, b, _ = product.operands
            made = make_op("dot", (a, b, start), product.attrs, (), product.loc, product.result.hint)
            ops.append(made)
            start = made.result
            self._products[-1][start] = made
            self._uses[start] = 1
        self._uses[start] = self._uses.get(total.result, 0)
        return Replacement((start,), tuple(ops))


def _accumulated(body: Block) -> Block:
    return _Accumulator(body).block(body) if any(op.name == "dot" for op in ops_in(body)) else body


def run(module: Module) -> Module:
    """`module` with sums of products; the products are left for `dce`."""
    return map_bodies(module, _accumulated)


ACCUMULATE = Pass("accumulate", run, after=("fold", "cse"),
                  why="folding makes zeros known, and equal products are one with two uses")
