"""Software pipelining: the operands of a dot in a loop are copied to shared memory some iterations ahead.

    before                          after, for 3 stages (the first copies in a loop)
    for i:                          a = shared_alloc [count = 3]; barrier
        x = load p(i)               copy p(0) -> a[0]; commit; copy p(1) -> a[1]; commit
        y = dot x, ...              for i:
                                        wait [pending = 1]; barrier
                                        copy p(i + 2) -> a[(i + 2) % 3] where it exists; commit
                                        x = shared_load a[i % 3]
                                        y = dot x, ...

A load goes that way if only dots take it (as it is, or transposed), the loop writes nothing, or nothing in the kernel
writes what it reads (which needs `disjoint`), its `other` is zero, and its address depends on the loop only by
arithmetic.  Products of warpgroups are so fast that the loads, too, are copied ahead of which their operands are made;
these come to registers again.  The arithmetic of addresses is done
ahead, in carried values of its own.  One barrier an iteration is enough: a tile is written again by the copy that
begins behind the barrier of the next iteration, when all threads have read it.  Behind the loop the buffers are free
for others, which begin with a barrier as these do.

Before: laid-out IR.  After: the same stage, with ops on shared memory.  Tests: tests/targets/nvidia/test_pipeline.py.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from math import gcd

from tilewright.analysis.alias import Alias, written_bases
from tilewright.analysis.axis import Axis
from tilewright.analysis.axis_info import power_of_two_in
from tilewright.analysis.effects import is_volatile
from tilewright.analysis.uniform import Uniform
from tilewright.ir.build import Builder
from tilewright.ir.layout_rules import layout_of
from tilewright.ir.node import Block, Module, Op, Value
from tilewright.ir.ops.table import Effect
from tilewright.ir.types import I32, Tile, Type, element_of, shape_of
from tilewright.ir.walk import defining_ops, ops_in, uses
from tilewright.layout import Layout, padded_shape, views
from tilewright.layout.linear import REGISTER
from tilewright.targets.nvidia import wgmma
from tilewright.targets.nvidia.capability import Capability
from tilewright.targets.nvidia.mma import choose, operand_layout, warps_of
from tilewright.targets.nvidia.passes.chains import loads_above
from tilewright.targets.nvidia.passes.coalesce import element_bytes, order_of, vector_length
from tilewright.targets.nvidia.passes.staging import Buffer, buffer_for, contiguous_dim
from tilewright.targets.nvidia.pressure import most_registers
from tilewright.targets.nvidia.wgmma import ALIGNMENT, BESIDE, is_shared

MOST_STAGES = 8
_CHANGES = Effect.WRITES | Effect.ORDERS    # what no load moves across
_LEAST_BYTES = 4        # of a cp.async (PTX ISA 9.7.9.25.3.1)
_GROWING = frozenset({"expand_dims", "broadcast"})


def pipeline(module: Module, num_stages: int, num_warps: int, capability: Capability,
             most: int = MOST_STAGES) -> Module:
    """`module` with its loops over dots in `num_stages` stages, or as many as a loop asks for, but at most `most`.

    Whether the buffers fit is for the caller to see (`resources.buffer_bytes_of`).
    """
    entry = module.entry
    if not capability.cp_async or not {"for", "dot"} <= {o.name for o in ops_in(entry.body)}:
        return module
    body = _Pipeliner(module, num_stages, num_warps, capability, most).block(entry.body)
    return module if body is entry.body else replace(module, functions={entry.name: entry.with_body(body)})


def most_stages(module: Module, num_stages: int) -> int:
    """The largest number of stages that `pipeline` gives a loop of `module`."""
    asked = [op.attrs["stages"] or 0 for op in ops_in(module.entry.body) if op.name == "for"]
    return min(MOST_STAGES, max([num_stages, *asked]))


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


class _Pipeliner:
    def __init__(self, module: Module, num_stages: int, num_warps: int, capability: Capability, most: int) -> None:
        self._most = most
        self._stages, self._warps, self._capability = num_stages, num_warps, capability
        self._beside: set[Op] = set()       # loads that are copied ahead for others than dots
        body = module.entry.body
        self._uses, self._ops, self._uniform = uses(body), defining_ops(body), Uniform.of(body)
        self._alias, self._axis = Alias(module), Axis(module, signs=True)
        self._written = written_bases(module, self._alias) if module.disjoint else None

    def block(self, block: Block) -> Block:
        ops: list[Op] = []
        for op in block.ops:
            if op.name == "for":
                ops += self._loop(op)
            elif op.name in ("while", "if"):
                ops.append(self._inside(op))
            else:
                ops.append(op)
        same = len(ops) == len(block.ops) and all(a is b for a, b in zip(ops, block.ops, strict=True))
        return block if same else Block(block.args, tuple(ops))

    def _inside(self, op: Op) -> Op:
        regions = [self.block(r) for r in op.regions]
        return op if all(a is b for a, b in zip(regions, op.regions, strict=True)) else op.updated(regions=regions)

    def _loop(self, op: Op) -> list[Op]:
        stages = min(op.attrs["stages"] or self._stages, self._most, MOST_STAGES)
        copies = self._copied(op) if stages > 1 else []
        if not copies:
            return [self._inside(op)]
        return _Loop(op, copies, stages, self._ops, self._product_of(op, copies, stages)).rebuilt()

    # -- which loads

    def _copied(self, loop: Op) -> list[Copied]:
        (body,) = loop.regions
        step = self._uniform.integer_of(loop.operands[2])
        if step is None or step <= 0 or loop.attrs["unsigned"]:
            return []
        self._beside = self._above_products(body)
        is_quiet = not any(op.row.effects & _CHANGES for op in ops_in(body))
        found = [self._copy_of(op, body) for op in body.ops if op.name == "load" and isinstance(op.result.type, Tile)
                 and (is_quiet or self._is_never_written(op))]
        return [c for c in found if c is not None]

    def _is_never_written(self, load: Op) -> bool:
        bases = self._alias.bases(load.operands[0])
        return bases is not None and self._written is not None and bases.isdisjoint(self._written)

    def _above_products(self, body: Block) -> set[Op]:
        """The loads of which products of warpgroups take something that is made first: those would be waited for in
        each iteration, while no product runs."""
        found: set[Op] = set()
        for op in body.ops:
            if op.name == "dot" and wgmma.of(op, self._capability, self._warps) is not None:
                for value in op.operands[:2]:
                    found.update(loads_above(value, self._ops, _GROWING))
        return found

    def _copy_of(self, load: Op, body: Block) -> Copied | None:
        tile, other = load.result.type, load.operand("other")
        assert isinstance(tile, Tile)
        zero = other is None or self._uniform.constant_of(other) in (0, False)
        if is_volatile(load) or not zero or tile.shape != padded_shape(tile.shape) or element_of(tile).bytes > 8:
            return None
        if not self._is_arithmetic(load, body) or self._run_bytes(load) < _LEAST_BYTES:
            return None
        to = self._wanted_by_dots(load.result, contiguous_dim(layout_of(load.result)))
        if to is None:
            return Copied(load, buffer_for(load, tile), tile, now=True) if load in self._beside else None
        return Copied(load, Buffer(to, ALIGNMENT) if is_shared(to.layout) else buffer_for(load, to), to)

    def _run_bytes(self, load: Op) -> int:
        """How many bytes one copy would move, if what is likely is so.

        Elements with a mask bit each are not worth it: their addresses take twice the instructions, and no time passes
        between a load and its store (grouped products with masks along k, 128 x 128 x 32: 613 instructions a step and
        492 bytes of spills, instead of 314 and 12; ptxas 13.0, 2026-12-01).
        """
        pointer, mask = load.operands[0], load.operand("mask")
        fact, size = self._axis.fact(pointer), element_bytes(pointer.type)
        dim = order_of(fact)[0]
        length = vector_length(fact, dim, shape_of(pointer.type)[dim], size)
        if mask is not None:
            length = gcd(length, power_of_two_in(self._axis.fact(mask).constancy[dim]) or length)
        return size * length

    def _wanted_by_dots(self, value: Value, fast: int) -> Tile | None:
        """The type in which dots take `value`, transposed or not; None if anything else takes it, or several ways.

        Along its dimension `fast` global memory is contiguous.
        """
        found: set[Tile] = set()
        for use in self._uses.get(value, ()):
            user = use.op
            if user.name == "permute":
                inner = self._wanted_by_dots(user.result, list(user.attrs["order"]).index(fast))
                if inner is None:
                    return None
                back = views.transposed(inner.layout, views.inverse_order(user.attrs["order"]))
                found.add(Tile(shape_of(value.type), inner.element, back))
            elif user.name == "dot" and use.index < 2 and user.operands[1 - use.index] is not value:
                layout = self._operand_layout(user, use.index, fast)
                if layout is None:
                    return None
                found.add(Tile(shape_of(value.type), element_of(value.type), layout))
            else:
                return None
        return found.pop() if len(found) == 1 else None

    def _operand_layout(self, dot: Op, which: int, fast: int) -> Layout | None:
        """How a dot takes an operand: in shared memory, or in fragments; None if neither."""
        product = wgmma.of(dot, self._capability, self._warps)
        if product is not None:
            placed = product.placed(which, fast)
            return None if placed is None else placed.layout
        mma, warps = choose(dot, self._capability), warps_of(layout_of(dot.result), self._warps)
        return None if mma is None or warps is None else operand_layout("AB"[which], dot, mma, warps)

    def _product_of(self, loop: Op, copies: Sequence[Copied], stages: int) -> Product | None:
        """The product of warpgroups during which the next copies begin: the first dot of the body whose operands are in
        shared memory then.

        Sums that only go round the loop are better waited for in the next iteration, if no other program's products
        run meanwhile (H200, 2026-11-30, 8192 bf16: 128 x 256 x 64, 8 warps, 663 -> 756 TFLOP/s; 128 x 128 x 64, four
        stages, 570 -> 680).  If others' do, copies come first, since memory is what is waited for: 1024 bf16, 64 x 64
        x 64, 184 -> 194; 128 x 128 x 32, 124 -> 129; 8192, 128 x 128 x 64, 678 -> 690; but 64 x 128 x 64 501 -> 487.
        Where the sums are needed at once, as in attention, the product comes first: 435 -> 450 and 404 -> 414.
        """
        body = loop.regions[0]
        there = {c.load.result for c in copies if is_shared(c.to.layout)}
        for op in body.ops:
            if op.name == "permute" and op.operands[0] in there:
                there.add(op.result)
            elif op.name == "dot" and op.operands[1] in there and (
                    op.operands[0] in there or is_shared(layout_of(op.operands[0]))):
                carried = self._carried_by(op, body)
                if carried is None or self._is_alone(op, sum(c.buffer.bytes for c in copies) * stages):
                    return Product(op, carried)
                return None
        return None

    def _carried_by(self, dot: Op, body: Block) -> int | None:
        """Which carried value is only the sum of a dot's products."""
        acc, ends = dot.operands[2], self._uses.get(dot.result, ())
        if acc not in body.args[1:] or len(self._uses.get(acc, ())) != 1 or len(ends) != 1:
            return None
        place = body.args[1:].index(acc)
        return place if ends[0].op is body.terminator and ends[0].index == place else None

    def _is_alone(self, dot: Op, buffer_bytes: int) -> bool:
        """Whether an SM has room for one program only, so that no other's products run while it waits."""
        registers = layout_of(dot.result).size(REGISTER) + BESIDE
        return 2 * buffer_bytes > self._capability.shared_bytes or registers > most_registers(self._warps, 2)

    def _is_arithmetic(self, load: Op, body: Block) -> bool:
        """Whether the load's address and mask depend on the loop by pure ops alone."""
        return all(op.row.is_pure and not op.regions for op in _slice(load, body, self._ops))


def _slice(load: Op, body: Block, ops: Mapping[Value, Op]) -> list[Op]:
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


class _Loop:
    """One loop being rebuilt."""

    def __init__(self, op: Op, copies: Sequence[Copied], stages: int, ops: Mapping[Value, Op],
                 product: Product | None) -> None:
        self._op, self._copies, self._stages, self._product = op, copies, stages, product
        (self._body,) = op.regions
        self._index_type = op.operands[0].type
        ahead: set[Op] = set()
        for c in copies:
            ahead.update(_slice(c.load, self._body, ops))
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
