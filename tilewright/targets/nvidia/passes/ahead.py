"""The copies that a loop begins ahead of the iterations that need them: addresses, slots of the buffers, guards.

The arithmetic of addresses is done ahead, in carried values of its own.  One copy may be *late*: the iteration that
needs it is the one behind its own (`delayed`), so its slots are those of the iteration before.

Before: the loads of a loop that are to be copied.  After: ops in the rebuilt loop.
Tests: tests/targets/nvidia/test_pipeline.py, test_delayed.py.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tilewright.ir.build import Builder
from tilewright.ir.node import Block, Op, Value
from tilewright.ir.types import I32, Tile, Type
from tilewright.targets.nvidia.passes.copied_ops import copied_op
from tilewright.targets.nvidia.passes.staging import Buffer


@dataclass(frozen=True)
class Copied:
    """A load that is made ahead: what it becomes in shared memory, and the type in which the dots take it."""

    load: Op
    buffer: Buffer
    to: Tile
    now: bool = False       # others take it, in registers


def slice_of(loads: Sequence[Op], body: Block, ops: Mapping[Value, Op]) -> list[Op]:
    """The ops of `body` that addresses and masks of `loads` are made of, also in earlier iterations, in order."""
    carried = dict(zip(body.args[1:], body.terminator.operands, strict=True))
    inside = set(body.ops)
    found: set[Op] = set()
    work = [v for load in loads for v in (load.operands[0], load.operand("mask")) if v is not None]
    seen: set[Value] = set()
    while work:
        value = work.pop()
        if value in seen:
            continue
        seen.add(value)
        op = ops.get(value)
        if value in carried:
            work.append(carried[value])
        elif op is not None and op in inside and op not in found:
            found.add(op)
            work += op.operands
    return [op for op in body.ops if op in found]


class Ahead:
    """What a loop copies ahead, in `stages` slots of each of the `buffers`.

    Its carried values are those of the iteration whose copies come next, by `places` among the loop's own, and behind
    them what `late` needs: those of the iteration before.
    """

    def __init__(self, loop: Op, copies: Sequence[Copied], stages: int, ops: Mapping[Value, Op], late: Op | None,
                 build: Builder) -> None:
        self._loop, self._copies, self._stages, self._build = loop, copies, stages, build
        (self._body,) = loop.regions
        self._late = late
        punctual = [c.load for c in copies if c.load is not late]
        places = self._places_of(slice_of([c.load for c in copies], self._body, ops), [c.load for c in copies])
        self._late_slice = slice_of([late], self._body, ops) if late is not None else []
        self._late_places = self._places_of(self._late_slice, [late]) if late is not None else []
        self._places = places
        self._slice = self._needed(slice_of([c.load for c in copies], self._body, ops), punctual)
        self.buffers: list[Value] = []

    def _places_of(self, ops: Sequence[Op], loads: Sequence[Op]) -> list[int]:
        used = {v for op in (*ops, *loads) for v in op.operands}
        return [k for k, arg in enumerate(self._body.args[1:]) if arg in used]

    def _needed(self, ops: Sequence[Op], loads: Sequence[Op]) -> list[Op]:
        """The ops of these that `loads` and the carried values take."""
        yielded = self._body.terminator.operands
        wanted = {v for load in loads for v in (load.operands[0], load.operand("mask")) if v is not None}
        wanted.update(yielded[k] for k in self._places)
        found: list[Op] = []
        for op in reversed(ops):
            if not wanted.isdisjoint(op.results):
                found.insert(0, op)
                wanted.update(op.operands)
        return found

    # -- buffers

    def allocate(self) -> None:
        self.buffers = [self._build.create("shared_alloc", (), {
            "memory": c.buffer.memory, "count": self._stages, "align": c.buffer.align})[0] for c in self._copies]

    def free(self) -> None:
        for buffer in reversed(self.buffers):
            self._build.create("shared_free", (buffer,))

    def slot(self, which: int, number: Value) -> Value:
        """The address of tile `number` of a buffer."""
        size = self.constant(I32, self._copies[which].buffer.bytes)
        return self.sum(self.buffers[which], self._build.create("mul", (number, size))[0])

    # -- copies

    @property
    def initial(self) -> list[Value]:
        """The carried values before any copy."""
        return [self._loop.operands[3 + k] for k in (*self._places, *self._late_places)]

    def first(self) -> Sequence[Value]:
        """Begin the copies of the iterations before the first; the carried values of the next one.

        They are begun in a loop of their own: the code of one is long where a run may turn out to be none.
        """
        build = self._build
        lower, upper, step = self._loop.operands[:3]

        def begun(number: Value, index: Value, *state: Value) -> Sequence[Value]:
            before = build.create("sub", (index, step))[0] if self._late is not None else index
            return [self.sum(index, step), *self._begin((index, before), (lower, lower), state, number)]

        first, count, one = (self.constant(I32, n) for n in (0, self._stages - 1, 1))
        if self._stages == 2:
            return begun(first, lower, *self.initial)[1:]
        region = build.region([I32, lower.type, *(v.type for v in self.initial)], begun)
        attrs = {"unsigned": False, "stages": 1}
        return build.create("for", (first, count, one, lower, *self.initial), attrs, [region])[1:]

    def next(self, index: Value, state: Sequence[Value], slot: Value) -> list[Value]:
        """Begin the copies that come next in the iteration of `index`."""
        before = self._further(index, self._stages - 2) if self._late is not None else index
        return self._begin((self._further(index, self._stages - 1), before), (index, index), state, slot)

    def _begin(self, indices: tuple[Value, Value], starts: tuple[Value, Value], state: Sequence[Value],
               slot: Value) -> list[Value]:
        """Begin the copies of the iteration of indices[0], and of the late one's, of indices[1]; both lie behind
        `starts`, if nothing wraps.  Gives the carried values of the next one."""
        count, yielded = len(self._places), self._body.terminator.operands
        now = dict(zip((self._body.args[1 + k] for k in self._places), state[:count], strict=True))
        before = dict(zip((self._body.args[1 + k] for k in self._late_places), state[count:], strict=True))
        following = [now[self._body.args[1 + k]] for k in self._late_places]
        made = [self._made(self._slice, {self._body.args[0]: indices[0], **now}),
                self._made(self._late_slice, {self._body.args[0]: indices[1], **before})]
        guards: dict[bool, Value] = {}
        for which, copied in enumerate(self._copies):
            is_late = copied.load is self._late
            if is_late not in guards:
                guards[is_late] = self._is_before(indices[is_late], self._loop.operands[1], starts[is_late])
            self._copy(copied, made[is_late], guards[is_late], self.slot(which, slot))
        self._build.create("async_commit")
        return [*(made[0].get(yielded[k], yielded[k]) for k in self._places), *following]

    def _made(self, ops: Sequence[Op], values: dict[Value, Value]) -> dict[Value, Value]:
        """What stands for the results of `ops`, written again with `values`, and for these."""
        for op in ops:
            self._build.append(copied_op(op, values))
        return values

    def _copy(self, copied: Copied, values: Mapping[Value, Value], guard: Value, slot: Value) -> None:
        load, mask = copied.load, copied.load.operand("mask")
        operands = [values.get(load.operands[0], load.operands[0]), slot, guard]
        if mask is not None:
            operands.append(values.get(mask, mask))
        attrs = {"memory": copied.buffer.memory, "has_mask": mask is not None}
        kept, self._build.location = self._build.location, load.loc
        self._build.create("async_copy", operands, attrs)
        self._build.location = kept

    def _further(self, index: Value, iterations: int) -> Value:
        """The index of a later iteration."""
        if not iterations:
            return index
        distance = self.constant(index.type, iterations)
        return self.sum(index, self._build.create("mul", (self._loop.operands[2], distance))[0])

    def _is_before(self, index: Value, upper: Value, start: Value) -> Value:
        """Whether an index is in the loop: below the bound, and not wrapped."""
        below = self._build.create("cmp_lt_s", (index, upper))[0]
        if index is start:
            return below
        forward = self._build.create("cmp_le_s", (start, index))[0]
        return self._build.create("and", (below, forward))[0]

    # -- scalars

    def constant(self, t: Type, value: int) -> Value:
        return self._build.create("constant", (), {"type": t, "value": value})[0]

    def sum(self, a: Value, b: Value) -> Value:
        return self._build.create("add", (a, b))[0]
