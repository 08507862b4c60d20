"""Boxes forgotten: pointers are what they are made of, and no longer known as those of a block of an array.

For targets (and accesses) that have no use for it: with nothing behind it, no later pass needs to know of `box`.
Tests: tests/passes/golden/forget_boxes.
"""

from __future__ import annotations

from tilewright.ir.node import Module, Op
from tilewright.ir.rewrite import Replacement, Rewriter, map_bodies
from tilewright.passes.manager import Pass


class _Forgetting(Rewriter):
    def visit(self, op: Op) -> Replacement | None:
        return Replacement((op.operands[0],)) if op.name == "box" else None


def run(module: Module) -> Module:
    """`module` without `box`."""
    return map_bodies(module, lambda body: _Forgetting().block(body))


FORGET_BOXES = Pass("forget_boxes", run, why="only some GPUs copy blocks by hardware")
