"""Lines of a result are asked for, for writing, while the row is still being computed.

A store to a line that is in a far cache waits for it, and a processor holds few such stores; the exponentials of a
softmax, just before, leave the memory idle.  So a nest that computes much (`DEAR`) asks for the lines that the store
after it will write, if that is of the same shape.  What its address is made from is computed before the nest then.
Where the launch writes more than the caches keep, stores bypass them (`streaming`), and where it writes little the
second cache has the lines: then nothing is asked for.  Measured on Zen 3, in turns: softmax of 1024 rows of 4 KiB 1.19
to 1.28 times as fast, of 1024 x 781 1.05 to 1.11, of 4096 x 4096 the same (2026-12-01); on an Emerald Rapids nothing is
gained, so that this is for processors whose `Isa.fetches_results` is set.
Before: the op that the nest is for is next.  Tests: tests/targets/cpu/test_result_lines.py.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from tilewright.ir.node import Op, Value
from tilewright.ir.ops.table import Effect
from tilewright.ir.types import element_of, shape_of
from tilewright.targets.cpu.access import is_first_of_line, level_for
from tilewright.targets.cpu.ahead import DEAR
from tilewright.targets.cpu.evaluate import Evaluator, Index
from tilewright.targets.cpu.plan import Plan, is_virtual, work
from tilewright.targets.cpu.state import Kernel
from tilewright.targets.cpu.streaming import LEAST_BYTES, Streaming
from tilewright.targets.llvm.types import I64, constant
from tilewright.targets.llvm.types import Value as LlvmValue

_NOT_FOR = ("store", "for", "while", "if")      # nests of the last three may stand in their regions
_FAR_BYTES = 1 << 19        # of a result: with what it is made from more than the second cache
_MOST_BYTES = 1 << 14       # of a tile: it shares the first cache with what it is made from


@dataclass(frozen=True, slots=True)
class ResultLines:
    """The `store` that will write them, and when (i1) they are worth asking for."""

    store: Op
    is_worth: LlvmValue

    def ask(self, e: Evaluator, index: Index) -> None:
        """Ask for the line of the vector at `index`, if the vector is the first in it."""
        pointer = e.at(self.store.operands[0], index)
        size = element_of(self.store.operands[1].type).bytes
        if is_first_of_line(e, pointer, size):
            address = e.code.select(self.is_worth, e.scalar(pointer), e.kernel.scratch_base)
            e.code.prefetch(address, level_for(0), writes=True)


def find(kernel: Kernel, plan: Plan, root: Op, ops: Sequence[Op], shape: tuple[int, ...]) -> tuple[Op, list[Op]] | None:
    """The store of a tile of `shape` after `root`, and the ops between that make its addresses; None: there is none.

    `ops` are what the nest of `root` computes.
    """
    if not kernel.code.isa.fetches_results or plan.is_large or root.name in _NOT_FOR or work(ops) < DEAR:
        return None
    between: list[Op] = []
    place = plan.places[root]
    for op in place.block.ops[place.index + 1:-1]:
        if op.name == "store" and shape_of(op.operands[0].type) == shape:
            return _with_addresses(plan, root, op, between)
        is_scalar_store = op.name == "store" and not shape_of(op.operands[0].type)
        if op.regions or not (is_scalar_store or is_virtual(op) or not _has_tiles(op)):
            return None
        between.append(op)
    return None


def is_worth(streaming: Streaming, store: Op) -> LlvmValue:
    """Whether (i1) the launch writes by `store` more than is near, and less than streams."""
    code, total = streaming.code, streaming.written(_size(store))
    # total - _FAR_BYTES, as a number without sign, is large for what is below
    return code.icmp("ult", code.op("sub", total, constant(I64, _FAR_BYTES)), constant(I64, LEAST_BYTES - _FAR_BYTES))


def _size(store: Op) -> int:
    """Bytes that a program writes by `store`."""
    return math.prod(shape_of(store.operands[0].type)) * element_of(store.operands[1].type).bytes


def _has_tiles(op: Op) -> bool:
    return any(shape_of(v.type) for v in (*op.operands, *op.results))


def _with_addresses(plan: Plan, root: Op, store: Op, between: Sequence[Op]) -> tuple[Op, list[Op]] | None:
    if _size(store) > _MOST_BYTES:
        return None
    needed: list[Op] = []
    wanted: set[Value] = {store.operands[0]}
    for op in reversed(between):
        if wanted.isdisjoint(op.results):
            continue
        if op.row.effects != Effect.NONE or any(v in plan.kept for v in op.results):
            return None
        needed.append(op)
        wanted.update(op.operands)
    return (store, needed[::-1]) if wanted.isdisjoint(root.results) else None
