"""In which layouts each tile is asked for, given where tiles live.

Each use asks for its operand in a layout; a flexible tile hands the question on to its operands.
Before: an `Assignment`.  After: what `lay_out` makes, and what `costs` counts.
Tests: tests/targets/nvidia/test_passes.py.
"""

from __future__ import annotations

from collections.abc import Sequence

from tilewright.ir.node import Block, Op, Value
from tilewright.ir.types import shape_of
from tilewright.ir.walk import defining_ops
from tilewright.layout import Layout, coalesced
from tilewright.targets.nvidia.passes.assignment import (
    ACCESSES,
    ASKING,
    CONTROL,
    Assignment,
    is_tile,
    operand_layout,
    stays_in_place,
)


class Asked:
    """`by_op`: the layout of each operand of ops that are not flexible, None for scalars; `wanted`: of each tile."""

    def __init__(self, body: Block, assignment: Assignment) -> None:
        self.assignment, self.body, self._ops = assignment, body, defining_ops(body)
        self.by_op: dict[Op, list[Layout | None]] = {}
        self.wanted: dict[Value, list[Layout]] = {}
        self._block(body, ())

    def _block(self, block: Block, owed: Sequence[Value]) -> None:
        """`owed`: the values whose homes the terminator's last operands take."""
        for op in block.ops:
            if op.results and op.results[0] in self.assignment.flexible:
                continue
            if op.row.terminator:
                first = len(op.operands) - len(owed)
                layouts = [self._home(owed[k - first]) if k >= first else None for k in range(len(op.operands))]
            else:
                layouts = [self._operand(op, k) if is_tile(v) else None for k, v in enumerate(op.operands)]
            self.by_op[op] = layouts
            for value, layout in zip(op.operands, layouts, strict=True):
                self._want(value, layout)
            for region, values in zip(op.regions, _owed(op), strict=False):
                self._block(region, values)

    def _home(self, value: Value) -> Layout | None:
        return self.assignment.of(value) if is_tile(value) else None

    def _operand(self, op: Op, index: int) -> Layout:
        """The layout in which an op that is not flexible takes a tile operand."""
        homes, value = self.assignment, op.operands[index]
        if op.name in ACCESSES or op.name in ASKING:
            return homes.runs[op]
        if op.name in CONTROL:
            return homes.of(op.regions[0].args[index - 2 if op.name == "for" else index])
        if op.row.elementwise or stays_in_place(op):
            return operand_layout(op, index, homes.of(op.result))
        if op.name == "device_print":      # neighbours in neighbouring threads: lines come in order as far as they can
            return coalesced(shape_of(value.type), 1, homes.num_warps)
        if (op.name, index) in (("dot", 2), ("gather", 1)):
            return homes.of(op.result)
        return homes.of(value)

    def _want(self, value: Value, layout: Layout | None) -> None:
        if layout is None or layout in self.wanted.setdefault(value, []):
            return
        self.wanted[value].append(layout)
        if value in self.assignment.flexible:
            op = self._ops[value]
            for index, source in enumerate(op.operands):
                if is_tile(source):
                    self._want(source, operand_layout(op, index, layout))


def _owed(op: Op) -> Sequence[Sequence[Value]]:
    """For each region of a control op the values that its terminator feeds."""
    if op.name == "for":
        return [op.regions[0].args[1:]]
    if op.name == "if":
        return [op.results, op.results]
    if op.name == "while":
        return [op.regions[1].args, op.regions[0].args]
    return ()
