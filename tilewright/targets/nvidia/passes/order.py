"""Barriers that keep the order of a program's own accesses to global memory.

A program sees its own stores, and all of a load happens before a later store (docs/design.md, Safer rules).  Its
threads are not in step, so where two accesses may touch the same bytes, one of them writes, and different threads may
do them, a `barrier` goes between.  The same thread does both if both use the same pointers and are stores, or in one
layout in which no lane or warp replicates.  Runs of neighbours that begin a whole run or more apart touch other bytes
(the four parts of a block for which one call of `philox` makes numbers).  Atomic ops keep their place among all.

A pointer that is made in a loop is another one in the next iteration, so there the same pointers say nothing, and a
barrier goes to the loop's end unless the pointers advance past all that they have reached (`analysis.advance`).  A
loop over programs needs none: these have no order.

Before: laid-out IR.  After: `barrier` ops; placed anew by an optimal pass later, this one is only careful.
Tests: tests/targets/nvidia/test_order.py.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from tilewright.analysis.advance import Advances
from tilewright.analysis.alias import Alias
from tilewright.analysis.axis import Axis
from tilewright.analysis.uniform import Uniform
from tilewright.computed import computed
from tilewright.ir.build import make_op
from tilewright.ir.layout_rules import layout_of
from tilewright.ir.node import Block, Module, Op, Value
from tilewright.ir.ops.table import Effect
from tilewright.ir.types import Tile, element_of, shape_of
from tilewright.layout.linear import LANE, WARP

_MEMORY = Effect.READS | Effect.WRITES
Pending = frozenset[tuple[Op, Op | None]]   # accesses that some thread may not have done yet; see `_Orderer`


def order(module: Module) -> Module:
    """`module` with barriers between accesses that must stay in order."""
    orderer = _Orderer(module)
    orderer.block(module.entry.body, frozenset())
    if not orderer.behind and not orderer.ends:
        return module
    entry = module.entry
    body = _insert(entry.body, orderer.behind, orderer.ends)
    return replace(module, functions={entry.name: entry.with_body(body)})


class _Orderer:
    """One walk; `behind` collects the ops in front of which a barrier is needed, `ends` the loops whose iterations end
    with one.  A pending access has the loop of which it is in an earlier iteration, if its pointer was another then."""

    def __init__(self, module: Module) -> None:
        self._alias, self._runs = Alias(module), _Runs(module)
        self._advances = Advances(module.entry.body)
        self._blocks = {op.result for op in module.entry.body.ops if op.name == "block_id"}
        self.behind: set[Op] = set()
        self.ends: set[Op] = set()

    def block(self, block: Block, pending: Pending) -> Pending:
        for op in block.ops:
            if op.name in ("for", "while"):
                pending = self._loop(op, pending)
            elif op.name == "if":
                pending = self.block(op.regions[0], pending) | self.block(op.regions[1], pending)
            elif op.row.effects & _MEMORY:
                waiting = [loop for earlier, loop in pending if self._conflict(earlier, loop, op)]
                self.ends.update(loop for loop in waiting if loop is not None)
                if None in waiting:
                    self.behind.add(op)
                    pending = frozenset()
                pending = pending | {(op, None)}
        return pending

    def _loop(self, op: Op, pending: Pending) -> Pending:
        """What may be pending at the loop's head grows with what its body leaves, until it does not."""
        over_programs = op.name == "for" and op.operands[0] in self._blocks
        while True:
            after = head = self.block(op.regions[0], pending)
            if op.name == "while":
                after = self.block(op.regions[1], head)
            around = frozenset() if op in self.ends or over_programs else self._around(after, op)
            if around <= pending:
                left = head if op.name == "while" else pending | after
                return frozenset((access, None if loop is op else loop) for access, loop in left)
            pending = pending | around

    def _around(self, after: Pending, loop: Op) -> Pending:
        """What is left of an iteration, as the next one sees it."""
        return frozenset((access, loop if self._advances.changes(access.operands[0], loop) else before)
                         for access, before in after)

    def _conflict(self, a: Op, loop: Op | None, b: Op) -> bool:
        if (a.row.effects | b.row.effects) & Effect.ORDERS:
            return True
        if not (a.row.effects | b.row.effects) & Effect.WRITES or not self._alias.may_overlap(a, b):
            return False
        if loop is not None and a.operands[0] is b.operands[0] and isinstance(a.operands[0].type, Tile):
            return not self._advances.is_apart(a.operands[0], loop)
        return not (_same_thread(a, b) or self._runs.apart(a.operands[0], b.operands[0]))


class _Runs:
    """Tiles of pointers to neighbours: which are the same but for a constant."""

    def __init__(self, module: Module) -> None:
        self._module = module
        # what a loop makes is another number in each iteration, and both accesses may not be of one
        self._ops = {v: op for op in module.entry.body.ops if not op.regions for v in op.results}

    @computed
    def _axis(self) -> Axis:
        return Axis(self._module)

    @computed
    def _uniform(self) -> Uniform:
        return Uniform.of(self._module.entry.body)

    def apart(self, a: Value, b: Value) -> bool:
        """Whether no address is in both, as far as constants tell: of runs from one base, by offsets that differ by a
        constant of at least their length (modulo a power of two, as they wrap)."""
        first, second = self._ops.get(a), self._ops.get(b)
        if first is None or second is None or a.type != b.type or not first.name == second.name == "ptr_add":
            return False
        (x, m), (y, n) = self._parts(first.operands[1]), self._parts(second.operands[1])
        if first.operands[0] is not second.operands[0] or x is not y or x not in self._ops:
            return False
        shape = shape_of(x.type)
        if len(shape) != 1 or abs(m - n) < shape[0] or abs(m - n) >= 1 << element_of(x.type).bits - 1:
            return False
        return self._axis.fact(x).contiguity[0] >= shape[0]

    def _parts(self, offset: Value) -> tuple[Value, int]:
        """An offset as another one plus a constant."""
        op = self._ops.get(offset)
        if op is not None and op.name == "add":
            for one, other in (op.operands, reversed(op.operands)):
                number = self._uniform.integer_of(other)
                if number is not None:
                    return one, number
        return offset, 0


def _same_thread(a: Op, b: Op) -> bool:
    """Whether each element that both accesses touch is touched by one thread."""
    first, second = a.operands[0], b.operands[0]
    if not isinstance(first.type, Tile):
        # a scalar is stored by the first thread, and loaded by all
        return not isinstance(second.type, Tile) and a.name == b.name == "store"
    if first is not second:
        return False
    if a.name == b.name == "store":
        return True         # of several threads that hold an element one stores it, always the same
    free = layout_of(first).free()
    return not free[LANE] and not free[WARP]


def _insert(block: Block, behind: Iterable[Op], ends: Iterable[Op]) -> Block:
    marked, loops = set(behind), set(ends)

    def visit(block: Block, ends_with_one: bool = False) -> Block:
        ops: list[Op] = []
        for op in block.ops:
            if op in marked or (ends_with_one and op is block.terminator):
                ops.append(make_op("barrier", (), loc=op.loc))
            if op.regions:
                *others, last = op.regions
                op = op.updated(regions=[*map(visit, others), visit(last, op in loops)])
            ops.append(op)
        return Block(block.args, tuple(ops))

    return visit(block)
