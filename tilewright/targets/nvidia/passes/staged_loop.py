"""A loop whose operands are copied ahead, rebuilt in stages: first copies, iterations that copy for later ones.

`pipeline` says which loads are copied, and which product runs while the next copies begin; `delayed`, which one is
begun an iteration late.
Before: a `for` of laid-out IR.  After: what stands for it.  Tests: tests/targets/nvidia/test_pipeline.py,
test_warpgroup.py, test_delayed.py.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from tilewright.ir.build import Builder, make_op
from tilewright.ir.node import Block, Op, Value
from tilewright.ir.types import I32, Tile
from tilewright.ir.walk import ops_in
from tilewright.targets.nvidia.passes.ahead import Ahead, Copied
from tilewright.targets.nvidia.passes.copied_ops import copied_op, with_results
from tilewright.targets.nvidia.passes.delayed import Delayed
from tilewright.targets.nvidia.wgmma import is_shared


@dataclass(frozen=True)
class Product:
    """A dot that a loop begins and waits for later; `carried` is the place of its sums among the carried values if it
    is waited for in the next iteration."""

    dot: Op
    carried: int | None


class StagedLoop:
    """One loop being rebuilt."""

    def __init__(self, op: Op, copies: Sequence[Copied], stages: int, ops: Mapping[Value, Op],
                 product: Product | None, delayed: Delayed | None = None) -> None:
        self._op, self._copies, self._stages, self._product, self._delayed = op, copies, stages, product, delayed
        (self._body,) = op.regions
        self._build = Builder()
        self._build.location = op.loc
        self._ahead = Ahead(op, copies, stages, ops, None if delayed is None else delayed.load, self._build)
        self._by_groups = any(is_shared(c.to.layout) for c in copies)

    def rebuilt(self) -> list[Op]:
        """What stands for the loop."""
        build, op = self._build, self._op
        with build.block() as ops:
            self._ahead.allocate()
            build.create("barrier")     # others may still read what lay there before
            own = [*op.operands[3:], *self._nothing()]
            state = self._ahead.first()
            inits = [*own, *state, self._constant(0), self._constant(self._stages - 1)]
            types = [op.operands[0].type, *(v.type for v in inits)]
            hints = [a.hint for a in self._body.args]
            region = build.region(types, lambda *args: self._iteration(args), hints=hints)
            results = list(build.create("for", (*op.operands[:3], *inits), {"unsigned": False, "stages": 1}, [region]))
            if self._product is not None and self._product.carried is not None:
                at = self._product.carried
                results[at] = build.create("warpgroup_wait", (results[at],), {"pending": 0})[0]
            if self._delayed is not None:
                results[self._delayed.carried] = self._last(results)
            self._ahead.free()
        renamed = dict(zip(results, op.results, strict=False))
        return [with_results(o, renamed) for o in ops]

    def _iteration(self, args: tuple[Value, ...]) -> Sequence[Value]:
        count = len(self._body.args)
        extra = count + (self._delayed is not None)
        index, ahead, (now, next_slot) = args[0], args[extra:-2], args[-2:]
        self._meet(self._stages - 2)
        values = dict(zip(self._body.args, args[:count], strict=True))
        late: Value | None = None

        def begin_next() -> Sequence[Value]:
            return self._ahead.next(index, ahead, next_slot)

        if self._delayed is not None and self._product is None:
            late = self._begun_late(args[1 + self._delayed.carried], args[count], now)
        following = begin_next() if self._product is None else ()
        for op in self._own_ops():
            copied = next((k for k, c in enumerate(self._copies) if c.load is op), None)
            if copied is not None:
                values[op.result] = self._view(copied, now, op)
            elif self._product is not None and op is self._product.dot:
                sums = self._begun(op, values)
                if self._delayed is not None:
                    late = self._begun_late(args[1 + self._delayed.carried], args[count], now)
                following = begin_next()
                values[op.result] = self._waited(sums, op)
            elif op.name == "convert" and values.get(op.operands[0], op.operands[0]).type == op.result.type:
                values[op.result] = values[op.operands[0]]      # it was copied to be read so
            else:
                self._build.append(copied_op(op, values))
        made = self._with_late_sums(late, values) if self._delayed is not None and late is not None else []
        yielded = [values.get(v, v) for v in self._body.terminator.operands]
        if self._delayed is not None:
            sums = self._delayed.dot.operands[2]
            yielded[self._delayed.carried] = values.get(sums, sums)
        return [*yielded, *made, *following, self._after(now), self._after(next_slot)]

    def _own_ops(self) -> list[Op]:
        """The ops of an iteration but for those that only copies are made of, and what belongs to the product that is
        delayed."""
        needed = _needed(self._body, [c.load for c in self._copies])
        if self._delayed is not None:
            needed -= {self._delayed.dot, self._delayed.load, *self._delayed.turns, *self._delayed.between}
        return [op for op in self._body.ops[:-1] if op in needed]

    # -- parts

    def _meet(self, pending: int) -> None:
        """All threads are here, with all copies but so many groups."""
        self._build.create("async_wait", (), {"pending": pending})
        if self._by_groups:     # what is copied is read by another proxy
            self._build.create("proxy_fence", (), {"everywhere": False})
        self._build.create("barrier")

    def _view(self, which: int, slot: Value, load: Op) -> Value:
        """The tile that was copied instead of a load."""
        copied = self._copies[which]
        attrs = {"memory": copied.buffer.memory, "to": copied.to, "now": copied.now}
        address = self._ahead.slot(which, slot)
        return self._build.create("shared_load", (address,), attrs, hint=load.result.hint)[0]

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
            (sums,) = build.create("warpgroup_wait", (sums,), {"pending": 1, "done": False})
            build.create("barrier")
        build.location = self._op.loc
        return sums

    def _waited(self, sums: Value, op: Op) -> Value:
        """The sums of the product, while the delayed one still runs."""
        if self._is_late:
            return sums
        self._build.location = op.loc
        pending = 0 if self._delayed is None else 1
        (done,) = self._build.create("warpgroup_wait", (sums,), {"pending": pending}, hint=op.result.hint)
        self._build.location = self._op.loc
        return done

    def _constant(self, value: int) -> Value:
        return self._ahead.constant(I32, value)

    def _after(self, slot: Value) -> Value:
        """The next slot, round the buffer."""
        following = self._ahead.sum(slot, self._constant(1))
        at_end = self._build.create("cmp_eq", (following, self._constant(self._stages)))[0]
        return self._build.create("select", (at_end, self._constant(0), following))[0]

    # -- the product that is delayed

    def _nothing(self) -> list[Value]:
        """Zeros as its first left operand, and where its first right operand is looked for."""
        if self._delayed is None:
            return []
        left, load = self._delayed.dot.operands[0].type, self._delayed.load.result.type
        assert isinstance(left, Tile) and isinstance(load, Tile)
        memory = self._copies[self._place_of_late].buffer.memory
        address = self._ahead.slot(self._place_of_late, self._constant(0))
        self._build.create("shared_store", (self._zeros(load), address), {"memory": memory})
        return [self._zeros(left)]

    def _zeros(self, tile: Tile) -> Value:
        (zero,) = self._build.create("constant", (), {"type": tile.element, "value": 0.0})
        op = make_op("splat", (zero,), {"shape": tile.shape}, loc=self._op.loc)
        return self._build.append(Op(op.row, op.operands, [Value(tile)], op.attrs, (), op.loc))[0]

    @property
    def _place_of_late(self) -> int:
        assert self._delayed is not None
        return [c.load for c in self._copies].index(self._delayed.load)

    def _begun_late(self, sums: Value, left: Value, slot: Value) -> Value:
        """The product of the iteration before, which runs from here on."""
        delayed = self._delayed
        assert delayed is not None
        self._build.location = delayed.dot.loc
        values = {delayed.load.result: self._view(self._place_of_late, slot, delayed.load)}
        for op in delayed.turns:
            self._build.append(copied_op(op, values))
        operands = (left, values[delayed.dot.operands[1]], sums)
        (begun,) = self._build.create("warpgroup_dot", operands, delayed.dot.attrs)
        self._build.location = self._op.loc
        return begun

    def _with_late_sums(self, begun: Value, values: dict[Value, Value]) -> list[Value]:
        """What is made of the sums, when they are there; the left operand of the next iteration."""
        delayed = self._delayed
        assert delayed is not None
        self._build.location = delayed.dot.loc
        (values[self._body.args[1 + delayed.carried]],) = self._build.create("warpgroup_wait", (begun,), {"pending": 0})
        self._build.location = self._op.loc
        for op in delayed.between:
            self._build.append(copied_op(op, values))
        left = delayed.dot.operands[0]
        return [values.get(left, left)]

    def _last(self, results: Sequence[Value]) -> Value:
        """The sums with the product of the last iteration."""
        assert self._delayed is not None
        self._meet(0)
        carried = len(self._body.args) - 1
        begun = self._begun_late(results[self._delayed.carried], results[carried], results[-2])
        return self._build.create("warpgroup_wait", (begun,), {"pending": 0})[0]


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
