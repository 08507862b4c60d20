"""Contraction: a product that is used once, by a sum or difference of the same block, becomes one `fma`.

    a*b + c -> fma(a, b, c)        a*b - c -> fma(a, b, -c)        c - a*b -> fma(-a, b, c)

One rounding in place of two, so results change: the pass runs under `enable_fp_fusion` only (docs/design.md, Numbers).
Changing a sign is exact.  A product with a second use stays, and so does its sum: x*s - max(x*s) must give 0 at the
maximum.  It is a pass on tile IR so that all engines run one program; code generators never contract.
Tests: tests/passes/golden/contract.
"""

from __future__ import annotations

from tilewright.ir.build import make_op
from tilewright.ir.node import Block, Module, Op, Value
from tilewright.ir.rewrite import Replacement, Rewriter, map_bodies
from tilewright.ir.walk import use_counts
from tilewright.passes.manager import Pass


class _Contractor(Rewriter):
    def __init__(self, body: Block) -> None:
        super().__init__()
        self._uses = use_counts(body)
        self._products: list[dict[Value, Op]] = [{}]       # products of the open blocks, innermost last

    def enter_region(self, op: Op, region: Block) -> None:
        self._products.append({})

    def leave_region(self, op: Op, region: Block) -> None:
        self._products.pop()

    def visit(self, op: Op) -> Replacement | None:
        if op.name == "mul_f":
            self._products[-1][op.result] = op
        if op.name not in ("add_f", "sub_f"):
            return None
        lhs, rhs = (self._product(v) for v in op.operands)
        ops: list[Op] = []
        if lhs is not None:
            a, b = lhs.operands
            c = op.operands[1] if op.name == "add_f" else _negated(op.operands[1], op, ops)
        elif rhs is not None:
            a, b = rhs.operands
            c = op.operands[0]
            if op.name == "sub_f":
                a = _negated(a, op, ops)
        else:
            return None
        ops.append(make_op("fma", (a, b, c), {}, (), op.loc, op.result.hint))
        return Replacement((ops[-1].result,), tuple(ops))

    def _product(self, value: Value) -> Op | None:
        return self._products[-1].get(value) if self._uses.get(value) == 1 else None


def _negated(value: Value, like: Op, ops: list[Op]) -> Value:
    ops.append(make_op("neg_f", (value,), {}, (), like.loc))
    return ops[-1].result


def run(module: Module) -> Module:
    """`module` with products and sums contracted; the products are left for `dce`."""
    return map_bodies(module, lambda body: _Contractor(body).block(body))


CONTRACT = Pass("contract", run, after=("fold", "cse", "accumulate"),
                why="x*1 is no product, equal products are one with two uses, and a sum of `dot` is no sum")
