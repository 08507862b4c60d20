"""Fold rules of ops that rearrange tiles: of a uniform tile, of no change, and two in a row as one.

Tests: tests/passes/golden/fold.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from tilewright.ir.node import Op
from tilewright.ir.types import shape_of
from tilewright.passes.folding import Folding, Outcome


def fold_rearrangement(fold: Folding, op: Op) -> Outcome:
    """Rules of broadcast, expand_dims, reshape, permute."""
    scalar = fold.facts.scalar_of(op.operands[0])
    if scalar is not None:
        return (fold.splat(scalar, op.result.type, op.loc),)
    if op.operands[0].type == op.result.type and op.name != "permute":
        return op.operands
    rule = _RULES.get(op.name)
    return None if rule is None else rule(fold, op)


def _broadcast(fold: Folding, op: Op) -> Outcome:
    inner = fold.operand_op(op, "broadcast")
    return None if inner is None else (fold.emit("broadcast", inner.operands, op.attrs, like=op),)


def _reshape(fold: Folding, op: Op) -> Outcome:
    """`expand_dims` and `reshape` both keep the row-major order of elements."""
    inner = fold.operand_op(op, "reshape") or fold.operand_op(op, "expand_dims")
    return None if inner is None else (fold.emit("reshape", inner.operands, op.attrs, like=op),)


def _permute(fold: Folding, op: Op) -> Outcome:
    order = op.attrs["order"]
    if order == tuple(range(len(order))):
        return op.operands
    inner = fold.operand_op(op, "permute")
    if inner is None:
        return None
    first = inner.attrs["order"]
    return (fold.emit("permute", inner.operands, {"order": tuple(first[i] for i in order)}, like=op),)


_RULES: Mapping[str, Callable[[Folding, Op], Outcome]] = {
    "broadcast": _broadcast, "reshape": _reshape, "permute": _permute}


def fold_split(fold: Folding, op: Op) -> Outcome:
    """The halves of a join are its operands; those of a uniform tile are uniform."""
    inner = fold.operand_op(op, "join")
    if inner is not None:
        return inner.operands
    scalar = fold.facts.scalar_of(op.operands[0])
    if scalar is None:
        return None
    half = fold.splat(scalar, op.results[0].type, op.loc)
    return (half, half)


def fold_join(fold: Folding, op: Op) -> Outcome:
    """Two halves of one split, in order, are what was split."""
    split = fold.operand_op(op, "split")
    if split is not None and op.operands == split.results and shape_of(split.operands[0].type):
        return split.operands
    return None
