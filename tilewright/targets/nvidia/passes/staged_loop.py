"""A loop whose operands are copied ahead, rebuilt in stages: first copies, iterations that copy for later ones.

`pipeline` says which loads are copied, and which product runs while the next copies begin.
Before: a `for` of laid-out IR.  After: what stands for it.  Tests: tests/targets/nvidia/test_pipeline.py,
test_warpgroup.py.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from tilewright.ir.build import Builder
from tilewright.ir.layout_rules import layout_of
from tilewright.ir.node import Block, Op, Value
from tilewright.ir.types import I32, Tile, Type
from tilewright.ir.walk import ops_in
from tilewright.layout import views
from tilewright.targets.nvidia.passes.staging import Buffer
from tilewright.targets.nvidia.wgmma import is_shared


@dataclass(frozen=True)
class Copied:
    """A load that is made ahead: what it becomes in shared memory, and the type in which the dots take it."""

    load: Op
    buffer: Buffer
    to: Tile
    now: bool = False       # others take it, in registers


@dataclass(frozen=True)
class Product:
    """A dot that a loop begins and waits for later; `carried` is the place of its sums among the carried values if it
    is waited for in the next iteration."""

    dot: Op
    carried: int | None


def slice_of(load: Op, body: Block, ops: Mapping[Value, Op]) -> list[Op]:
    """The ops of `body` that the address and mask of `load` are made of, also in earlier iterations, in order."""
    carried = dict(zip(body.args[1:], body.terminator.operands, strict=True))
    inside = set(body.ops)
    found: set[Op] = set()
    work = [v for v in (load.operands[0], load.operand("mask")) if v is not None]
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


class StagedLoop:
    """One loop being rebuilt."""

    def __init__(self, op: Op, copies: Sequence[Copied], stages: int, ops: Mapping[Value, Op],
                 product: Product | None) -> None:
        self._op, self._copies, self._stages, self._product = op, copies, stages, product
        (self._body,) = op.regions
        self._index_type = op.operands[0].type
        ahead: set[Op] = set()
        for c in copies:
            ahead.update(slice_of(c.load, self._body, ops))
        self._ahead = [o for o in self._body.ops if o in ahead]
        used = {v for o in self._ahead for v in o.operands} | {v for c in copies for v in c.load.operands}
        self._places = [k for k, arg in enumerate(self._body.args[1:]) if arg in used]     # carried values made ahead
        self._build = Builder()
        self._build.location = op.loc
        self._by_groups = any(is_shared(c.to.layout) for c in copies)

    def rebuilt(self) -> list[Op]:
        """What stands for the loop."""
        build, op = self._build, self._op
        lower, upper, step = op.operands[:3]
        with build.block() as ops:
            buffers = [build.create("shared_alloc", (), {"memory": c.buffer.memory, "count": self._stages,
                                                          "align": c.buffer.align})[0] for c in self._copies]
            build.create("barrier")     # others may still read what lay there before
            state = self._first_copies(buffers)
            last = self._constant(I32, self._stages - 1)
            inits = [*op.operands[3:], *state, self._constant(I32, 0), last]
            types = [self._index_type, *(v.type for v in inits)]
            hints = [a.hint for a in self._body.args]
            region = build.region(types, lambda *args: self._iteration(args, buffers), hints=hints)
            results = list(build.create("for", (lower, upper, step, *inits), {"unsigned": False, "stages": 1},
                                        [region]))
            if self._product is not None and self._product.carried is not None:
                at = self._product.carried
                results[at] = build.create("warpgroup_wait", (results[at],), {"pending": 0})[0]
            for buffer in reversed(buffers):
                build.create("shared_free", (buffer,))
        renamed = dict(zip(results, op.results, strict=False))
        return [_with_results(o, renamed) for o in ops]

    def _first_copies(self, buffers: Sequence[Value]) -> Sequence[Value]:
        """Begin the copies of the iterations before the first; the carried values of the next one.

        They are begun in a loop of their own: the code of one is long where a run may turn out to be none.
        """
        build = self._build
        lower, upper, step = self._op.operands[:3]

        def begun(number: Value, index: Value, *state: Value) -> Sequence[Value]:
            slots = [self._slot(b, c, number) for b, c in zip(buffers, self._copies, strict=True)]
            return [self._sum(index, step), *self._begin(index, state, self._is_before(index, upper, lower), slots)]

        state = [self._op.operands[3 + k] for k in self._places]
        first, count, one = (self._constant(I32, n) for n in (0, self._stages - 1, 1))
        if self._stages == 2:
            return begun(first, lower, *state)[1:]
        region = build.region([I32, self._index_type, *(v.type for v in state)], begun)
        attrs = {"unsigned": False, "stages": 1}
        return build.create("for", (first, count, one, lower, *state), attrs, [region])[1:]

    def _iteration(self, args: tuple[Value, ...], buffers: Sequence[Value]) -> Sequence[Value]:
        build = self._build
        count = len(self._body.args)
        index, own, ahead = args[0], args[1:count], list(args[count:-2])
        now, next_slot = args[-2], args[-1]
        lower, upper, step = self._op.operands[:3]
        build.create("async_wait", (), {"pending": self._stages - 2})
        if self._by_groups:     # what is copied is read by another proxy
            build.create("proxy_fence", (), {"everywhere": False})
        build.create("barrier")

        def begin_next(state: list[Value]) -> list[Value]:
            distance = self._constant(self._index_type, self._stages - 1)
            further = self._sum(index, build.create("mul", (step, distance))[0])
            slots = [self._slot(b, c, next_slot) for b, c in zip(buffers, self._copies, strict=True)]
            return self._begin(further, state, self._is_before(further, upper, index), slots)

        if self._product is None:
            ahead = begin_next(ahead)
        values = dict(zip(self._body.args, (index, *own), strict=True))
        loads = {c.load: (c, self._slot(b, c, now)) for b, c in zip(buffers, self._copies, strict=True)}
        needed = _needed(self._body, loads.keys())
        for op in self._body.ops[:-1]:
            if op not in needed:
                continue
            if op in loads:
                copied, address = loads[op]
                attrs = {"memory": copied.buffer.memory, "to": copied.to, "now": copied.now}
                values[op.result] = build.create("shared_load", (address,), attrs, hint=op.result.hint)[0]
            elif self._product is not None and op is self._product.dot:
                sums = self._begun(op, values)
                ahead = begin_next(ahead)
                values[op.result] = self._waited(sums, op)
            else:
                self._clone(op, values)
        following = [values.get(v, v) for v in self._body.terminator.operands]
        return [*following, *ahead, self._after(now), self._after(next_slot)]

    # -- parts

    @property
    def _is_late(self) -> bool:
        return self._product is not None and self._product.carried is not None

    def _begun(self, op: Op, values: Mapping[Value, Value]) -> Value:
        """A product of warpgroups that runs from here on.

        If it is waited for late, the one before may still read the tile that the next copies write over.
        """
        build = self._build
        build.location = op.loc
        (sums,) = build.create("warpgroup_dot", [values.get(v, v) for v in op.operands], op.attrs)
        if self._is_late:
            (sums,) = build.create("warpgroup_wait", (sums,), {"pending": 1})
            build.create("barrier")
        build.location = self._op.loc
        return sums

    def _waited(self, sums: Value, op: Op) -> Value:
        build = self._build
        if self._is_late:
            return sums
        build.location = op.loc
        (done,) = build.create("warpgroup_wait", (sums,), {"pending": 0}, hint=op.result.hint)
        build.location = self._op.loc
        return done

    def _begin(self, index: Value, state: Sequence[Value], guard: Value, slots: Sequence[Value]) -> list[Value]:
        """Begin the copies of the iteration of `index`, with the carried values `state`; the next ones."""
        values: dict[Value, Value] = {self._body.args[0]: index}
        values.update(zip((self._body.args[1 + k] for k in self._places), state, strict=True))
        for op in self._ahead:
            self._clone(op, values)
        for copied, slot in zip(self._copies, slots, strict=True):
            load, mask = copied.load, copied.load.operand("mask")
            operands = [values.get(load.operands[0], load.operands[0]), slot, guard]
            if mask is not None:
                operands.append(values.get(mask, mask))
            attrs = {"memory": copied.buffer.memory, "has_mask": mask is not None}
            self._build.location = load.loc
            self._build.create("async_copy", operands, attrs)
        self._build.location = self._op.loc
        self._build.create("async_commit")
        yielded = self._body.terminator.operands
        return [values.get(yielded[k], yielded[k]) for k in self._places]

    def _clone(self, op: Op, values: dict[Value, Value]) -> None:
        """A copy of `op` with `values` in place of its operands (and within its regions); its results join them."""
        new = _copied_op(op, values)
        self._build.append(new)

    def _constant(self, t: object, value: int) -> Value:
        return self._build.create("constant", (), {"type": t, "value": value})[0]

    def _sum(self, a: Value, b: Value) -> Value:
        return self._build.create("add", (a, b))[0]

    def _is_before(self, index: Value, upper: Value, start: Value) -> Value:
        """Whether an index is in the loop: below the bound, and not wrapped."""
        build = self._build
        below = build.create("cmp_lt_s", (index, upper))[0]
        if index is start:
            return below
        forward = build.create("cmp_le_s", (start, index))[0]
        return build.create("and", (below, forward))[0]

    def _slot(self, buffer: Value, copied: Copied, number: Value) -> Value:
        """The address of tile `number` of a buffer."""
        size = self._constant(I32, copied.buffer.bytes)
        return self._sum(buffer, self._build.create("mul", (number, size))[0])

    def _after(self, slot: Value) -> Value:
        """The next slot, round the buffer."""
        build = self._build
        following = self._sum(slot, self._constant(I32, 1))
        at_end = build.create("cmp_eq", (following, self._constant(I32, self._stages)))[0]
        return build.create("select", (at_end, self._constant(I32, 0), following))[0]


def _copied_op(op: Op, values: dict[Value, Value]) -> Op:
    """`op` anew, its results new values that `values` learns."""
    operands = [values.get(v, v) for v in op.operands]
    regions = [_copied_block(r, values) for r in op.regions]
    results = [Value(_type_of(op, r, operands), r.hint) for r in op.results]
    values.update(zip(op.results, results, strict=True))
    return Op(op.row, operands, results, op.attrs, regions, op.loc)


def _type_of(op: Op, result: Value, operands: Sequence[Value]) -> Type:
    """The type of a result for these operands: a transposed tile follows what is read from shared memory."""
    t = result.type
    if op.name != "permute" or operands[0].type == op.operands[0].type:
        return t
    assert isinstance(t, Tile)
    return Tile(t.shape, t.element, views.transposed(layout_of(operands[0]), op.attrs["order"]))


def _copied_block(block: Block, values: dict[Value, Value]) -> Block:
    args = tuple(Value(a.type, a.hint) for a in block.args)
    values.update(zip(block.args, args, strict=True))
    return Block(args, tuple(_copied_op(o, values) for o in block.ops))


def _needed(body: Block, copied: Collection[Op]) -> set[Op]:
    """The ops of an iteration without those that only the addresses and masks of the copied loads are made of."""
    needed: set[Op] = set()
    values = set(body.terminator.operands)
    for op in reversed(body.ops[:-1]):
        if op in copied:
            needed.add(op)
        elif not op.row.is_pure or op.regions or not values.isdisjoint(op.results):
            needed.add(op)
            values.update(op.operands)
            values.update(v for region in op.regions for o in ops_in(region) for v in o.operands)
    return needed


def _with_results(op: Op, renamed: Mapping[Value, Value]) -> Op:
    """`op` with the old values for those of its results that have one."""
    if not any(r in renamed for r in op.results):
        return op
    results = [renamed.get(r, r) for r in op.results]
    return Op(op.row, op.operands, results, op.attrs, op.regions, op.loc)
