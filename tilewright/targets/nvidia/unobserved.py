"""Masked loads of which nobody sees what stands where the mask is false.

    x = load p, mask                each lane of x goes to the lane of the store that has the same mask, so
    y = exp(x * w)                  x needs no zeros where nothing is loaded, nor another value that was given
    store q, y, mask

A register needs an instruction to be set, of which LLVM and the assembler have one for each element: vector add has 53
instead of 85 lines with instructions.  Before: laid-out IR.  Tests: tests/targets/nvidia/test_unobserved.py.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tilewright.ir.node import Block, Op, Value
from tilewright.ir.types import Tile
from tilewright.ir.walk import Use, defining_ops, ops_in, uses


def unobserved(body: Block) -> frozenset[Op]:
    """The loads of tiles in `body` and below whose masked lanes end in masked lanes."""
    loads = [op for op in ops_in(body)
             if op.name == "load" and op.attrs["has_mask"] and isinstance(op.result.type, Tile)]
    if not loads:
        return frozenset()
    used, ops = uses(body), defining_ops(body)
    return frozenset(load for load in loads if _ends_in_masks(load, used, ops))


def _ends_in_masks(load: Op, used: Mapping[Value, Sequence[Use]], ops: Mapping[Value, Op]) -> bool:
    mask = load.operand("mask")
    assert mask is not None
    work, seen = [load.result], {load.result}
    while work:
        for use in used.get(work.pop(), ()):
            op = use.op
            if _hides(op, use.index, mask, ops):
                continue
            if not (op.row.elementwise and op.row.is_pure):
                return False
            if op.result not in seen:
                seen.add(op.result)
                work.append(op.result)
    return True


def _hides(op: Op, index: int, mask: Value, ops: Mapping[Value, Op]) -> bool:
    """Whether operand `index` of `op` counts for nothing where `mask` is false."""
    if op.name == "store" and index == 1:
        wanted = op.operand("mask")
        return wanted is not None and _within(wanted, mask, ops)
    return op.name == "select" and index == 1 and _within(op.operands[0], mask, ops)


def _within(flag: Value, mask: Value, ops: Mapping[Value, Op]) -> bool:
    """Whether `flag` is false wherever `mask` is."""
    if flag is mask:
        return True
    op = ops.get(flag)
    return op is not None and op.name == "and" and any(_within(v, mask, ops) for v in op.operands)
