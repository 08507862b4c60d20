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
these come to registers again, in the layout to which they are converted.  The arithmetic of addresses is done ahead
(`ahead`), in carried values of its own.  One barrier an iteration is enough: a tile is written again by the copy that
begins behind the barrier of the next iteration, when all threads have read it.  Behind the loop the buffers are free
for others, which begin with a barrier as these do.

Before: laid-out IR.  After: the same stage, with ops on shared memory.  Tests: tests/targets/nvidia/test_pipeline.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import gcd

from tilewright.analysis.alias import Alias, written_bases
from tilewright.analysis.axis import Axis
from tilewright.analysis.axis_info import power_of_two_in
from tilewright.analysis.effects import is_volatile
from tilewright.analysis.uniform import Uniform
from tilewright.ir.layout_rules import layout_of
from tilewright.ir.node import Block, Module, Op, Value
from tilewright.ir.ops.table import Effect
from tilewright.ir.types import Scalar, Tile, element_of, shape_of
from tilewright.ir.walk import defining_ops, ops_in, uses
from tilewright.layout import Layout, padded_shape, views
from tilewright.layout.linear import REGISTER
from tilewright.targets.nvidia import wgmma
from tilewright.targets.nvidia.capability import Capability
from tilewright.targets.nvidia.mma import choose, operand_layout, warps_of
from tilewright.targets.nvidia.passes.ahead import Copied, slice_of
from tilewright.targets.nvidia.passes.chains import loads_above
from tilewright.targets.nvidia.passes.coalesce import element_bytes, order_of, vector_length
from tilewright.targets.nvidia.passes.delayed import LEAST_COLUMNS, Delayed, delayed_of
from tilewright.targets.nvidia.passes.staged_loop import Product, StagedLoop
from tilewright.targets.nvidia.passes.staging import Buffer, buffer_for, contiguous_dim
from tilewright.targets.nvidia.pressure import BESIDE_PRODUCTS, programs_of_products
from tilewright.targets.nvidia.registers import most_registers
from tilewright.targets.nvidia.wgmma import ALIGNMENT, BESIDE, is_shared

MOST_STAGES = 8
_CHANGES = Effect.WRITES | Effect.ORDERS    # what no load moves across
_BESIDE_DELAYED = 24    # registers beside the tiles where a product is delayed
_LEAST_BYTES = 4        # of a cp.async (PTX ISA 9.7.9.25.3.1)
_GROWING = frozenset({"expand_dims", "broadcast", "convert"})


def pipeline(module: Module, num_stages: int, num_warps: int, capability: Capability,
             most: int = MOST_STAGES) -> Module:
    """`module` with its loops over dots in `num_stages` stages, or as many as a loop asks for, but at most `most`.

    Whether the buffers fit is for the caller to see (`staging.buffer_bytes_of`).
    """
    entry = module.entry
    if not capability.cp_async or not {"for", "dot"} <= {o.name for o in ops_in(entry.body)}:
        return module

    pipeliner = _Pipeliner(module, num_stages, num_warps, capability, most)
    body = pipeliner.block(entry.body)
    if body is entry.body:
        return module
    found = replace(module, functions={entry.name: entry.with_body(body)})
    if pipeliner.can_delay:
        delayed = replace(module, functions={entry.name: entry.with_body(pipeliner.delaying().block(entry.body))})
        usual = programs_of_products(found, num_warps, capability, BESIDE_PRODUCTS)
        late = programs_of_products(delayed, num_warps, capability, _BESIDE_DELAYED)
        return delayed if late >= usual else found
    return found


def most_stages(module: Module, num_stages: int) -> int:
    """The largest number of stages that `pipeline` gives a loop of `module`."""
    asked = [op.attrs["stages"] or 0 for op in ops_in(module.entry.body) if op.name == "for"]
    return min(MOST_STAGES, max([num_stages, *asked]))


class _Pipeliner:
    def __init__(self, module: Module, num_stages: int, num_warps: int, capability: Capability, most: int) -> None:
        self._most = most
        self.can_delay = self._delays = False       # products (`delayed`)
        self._stages, self._warps, self._capability = num_stages, num_warps, capability
        self._beside: set[Op] = set()       # loads that are copied ahead for others than dots
        body = module.entry.body
        self._uses, self._ops, self._uniform = uses(body), defining_ops(body), Uniform.of(body)
        self._alias, self._axis = Alias(module), Axis(module, signs=True)
        self._written = written_bases(module, self._alias) if module.disjoint else None

    def delaying(self) -> _Pipeliner:
        """This one, which from now on has products begun late where that can be."""
        self._delays = True
        return self

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
        product = self._product_of(op, copies, stages)
        return StagedLoop(op, copies, stages, self._ops, product, self._delayed_of(op, copies, product)).rebuilt()

    # -- which loads

    def _copied(self, loop: Op) -> list[Copied]:
        (body,) = loop.regions
        step, index = self._uniform.integer_of(loop.operands[2]), body.args[0].type
        assert isinstance(index, Scalar)
        # an index some iterations ahead may wrap, but must not come round to where it was
        if step is None or not 0 < step < (1 << index.bits) // MOST_STAGES or loop.attrs["unsigned"]:
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
            to = self._converted(load)
            return Copied(load, buffer_for(load, to), to, now=True) if load in self._beside else None
        return Copied(load, Buffer(to, ALIGNMENT) if is_shared(to.layout) else buffer_for(load, to), to)

    def _converted(self, load: Op) -> Tile:
        """The type in which a load's only user takes it, or its own."""
        users = self._uses.get(load.result, ())
        found = users[0].op.result.type if len(users) == 1 and users[0].op.name == "convert" else load.result.type
        assert isinstance(found, Tile)
        return found

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

    def _delayed_of(self, loop: Op, copies: Sequence[Copied], product: Product | None) -> Delayed | None:
        """The product that is begun an iteration late: the only one, or the one behind `product`."""
        body = loop.regions[0]
        dots = [op for op in ops_in(body) if op.name == "dot"]
        late, have = wgmma.of(dots[-1], self._capability, self._warps), layout_of(dots[-1].operands[0])
        if dots[:-1] != ([] if product is None else [product.dot]) or late is None:
            return None
        if is_shared(have) or not late.takes(have, self._capability) or late.width < LEAST_COLUMNS:
            return None
        there = {c.load for c in copies if is_shared(c.to.layout)}
        found = delayed_of(body, dots, self._ops, self._uses, there, self._warps)
        self.can_delay |= found is not None
        return found if self._delays else None

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
        return all(op.row.is_pure and not op.regions for op in slice_of([load], body, self._ops))
