"""Loads and stores of blocks of described arrays become copies by hardware, where it takes them.

    before                                  after
    x = load box(p, ...)                    a = shared_alloc; b = shared_alloc
    y = load box(q, ...)                    proxy_fence; barrier
    z = x + y                               box_copy p -> a; box_copy q -> b
    store box(r, ...), z                    box_wait
                                            x = shared_load a; y = shared_load b
                                            shared_free b; shared_free a
                                            z = x + y
                                            box_store r, z

Loads between which nothing else happens are begun together, so that they wait once.  The barrier in front lets the
hardware write where threads have read, and the fence shows it what they wrote, to shared memory as to global memory.

An access goes that way if the host can make a map of the array (`tensor_maps`), the block has between `_LEAST_BYTES`
and `_MOST_BYTES`, and no loop around it is pipelined, since its buffers are in the way.  All others forget their box.

Before: laid-out IR, behind `pipeline`.  After: the same stage, without `box`.
Tests: tests/targets/nvidia/test_boxes.py.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from math import isnan

from tilewright.analysis.alias import Alias
from tilewright.analysis.axis import Axis
from tilewright.analysis.effects import is_volatile
from tilewright.analysis.uniform import Uniform
from tilewright.ir.build import Builder, make_op
from tilewright.ir.node import Block, Module, Op, Value
from tilewright.ir.ops.attributes import Cache
from tilewright.ir.ops.boxes import Places
from tilewright.ir.ops.table import Effect
from tilewright.ir.types import Tile
from tilewright.ir.walk import defining_ops, ops_in, uses
from tilewright.layout import Layout
from tilewright.layout.access import access_cost
from tilewright.layout.shared import SWIZZLE_WIDTHS, nvmma, row_major
from tilewright.passes.boxes import FORGET_BOXES
from tilewright.targets.nvidia.tensor_maps import ALIGNMENT, Numbers, box_bytes, can_hold, fills_with_nan

_LEAST_BYTES = 1 << 10      # of a block; a smaller one is sooner moved by its threads
_ALIGN = 128
_MOST_BYTES = 32 << 10      # of the blocks that are loaded together; more would cost programs on the SM


def copy_boxes(module: Module) -> Module:
    """`module` with its blocks copied by hardware where that can be done."""
    entry = module.entry
    if not any(op.name == "box" for op in ops_in(entry.body)):
        return module
    body = _without_dead(_Copying(module).block(entry.body))
    return FORGET_BOXES.run(replace(module, functions={entry.name: entry.with_body(body)}))


@dataclass
class _Loads:
    """Loads that begin together, in order, and what takes the place of each one's result."""

    ops: list[Op] = field(default_factory=list)
    results: dict[Value, Value] = field(default_factory=dict)

    @property
    def bytes(self) -> int:
        return sum(box_bytes(_tile(op.result)) for op in self.ops)


class _Copying:
    def __init__(self, module: Module) -> None:
        body = module.entry.body
        self._ops, self._uses, self._uniform = defining_ops(body), uses(body), Uniform.of(body)
        self._axis, self._alias = Axis(module), Alias(module)
        self._numbers = Numbers(module.entry, self._ops)
        self._accesses = [op for op in ops_in(body) if op.row.effects & (Effect.READS | Effect.WRITES)]
        self._boxes: dict[Op, Op] = {}      # of the accesses that the hardware does
        self._in_loops = {inner for op in ops_in(body) if op.name in ("for", "while")
                          for region in op.regions for inner in ops_in(region)}
        self._waits_for_others = any(op.row.effects & Effect.ORDERS for op in self._accesses)
        self._absorbed: set[Op] = set()     # conversions of what is read in the layout wanted at once
        self._find(body, 0)
        self._build = Builder()

    def _find(self, block: Block, buffers: int) -> None:
        """Fill `_boxes`; `buffers`: how many of pipelined loops are taken."""
        for op in block.ops:
            buffers += (op.name == "shared_alloc") - (op.name == "shared_free")
            box = self._box(op) if not buffers and op.name in ("load", "store") else None
            if box is not None:
                self._boxes[op] = box
            for region in op.regions:
                self._find(region, buffers)

    def block(self, block: Block) -> Block:
        """`block` rewritten."""
        with self._build.block() as ops:
            waiting = _Loads()
            for op in block.ops:
                box = self._boxes.get(op)
                if self._ends(waiting, op, box):
                    self._begin(waiting)
                    waiting = _Loads()
                if op.name == "load" and box is not None:
                    waiting.ops.append(op)
                    waiting.results[op.result] = op.result
                elif op.name == "convert" and op.operands[0] in waiting.results:
                    waiting.results[op.operands[0]] = op.result
                    self._absorbed.add(op)
                elif box is not None:
                    self._store(op, box)
                elif op.regions:
                    regions = [self.block(r) for r in op.regions]
                    self._build.append(op.updated(regions=regions))
                else:
                    self._build.append(op)
        return Block(block.args, tuple(ops))

    def _ends(self, waiting: _Loads, op: Op, box: Op | None) -> bool:
        """Whether the loads that wait have to be done before `op`."""
        if not waiting.ops:
            return False
        if op.name == "load" and box is not None:
            return waiting.bytes + box_bytes(_tile(op.result)) > _MOST_BYTES
        if op.name == "convert" and op.operands[0] in waiting.results:
            return len(self._uses[op.operands[0]]) > 1      # a single one takes the place of the load's layout
        return not op.row.is_pure or bool(op.regions) or op.row.terminator or any(
            v in waiting.results or v in waiting.results.values() for v in op.operands)

    # -- what the hardware takes

    def _box(self, op: Op) -> Op | None:
        """The box of a load or store that the hardware can do."""
        box = self._ops.get(op.operands[0]) if op.operands else None
        if box is None or box.name != "box" or not self._is_ordinary(op):
            return None
        tile = _tile(op.result if op.name == "load" else op.operands[1])
        if not can_hold(tile) or not _LEAST_BYTES <= box_bytes(tile) <= _MOST_BYTES:
            return None
        base, places = box.operands[1], Places.of(box.operands[2:])
        known = self._numbers.param(base) is not None and all(
            self._numbers.expression(v) is not None for v in (*places.sizes, *places.strides))
        aligned = all(n % ALIGNMENT == 0 for n in (
            self._axis.fact(base).divisor, *(self._axis.fact(s).divisor * tile.element.bytes
                                             for s in places.strides[:-1])))
        return box if known and aligned and self._uniform.integer_of(places.strides[-1]) == 1 else None

    def _is_ordinary(self, op: Op) -> bool:
        """Whether an access asks for nothing that a copy of a block cannot do."""
        if is_volatile(op) or op.attrs["cache"] in (Cache.CV, Cache.WT):
            return False
        other = op.operand("other") if op.name == "load" else None
        return other is None or self._fill(other) is not None

    def _fill(self, other: Value) -> bool | None:
        """Whether a load's `other` is NaN or zero; None if it is neither, or the hardware has none."""
        number = self._uniform.constant_of(other)
        if number == 0:
            return False
        return True if isinstance(number, float) and isnan(number) and fills_with_nan(other.type) else None

    # -- what becomes of them

    def _begin(self, loads: _Loads) -> None:
        """All of `loads`, one after the other begun, and waited for."""
        build = self._build
        build.location = loads.ops[0].loc
        memories = [_memory(_tile(loads.results[op.result])) for op in loads.ops]
        buffers = [build.create("shared_alloc", (), {"memory": m, "count": 1, "align": max(_ALIGN, 8 * swizzle)})[0]
                   for m, swizzle in memories]
        build.create("proxy_fence", (), {"everywhere": any(map(self._may_be_written, loads.ops))})
        build.create("barrier")
        for op, (memory, swizzle), buffer in zip(loads.ops, memories, buffers, strict=True):
            base, *places = self._ops[op.operands[0]].operands[1:]
            other = op.operand("other")
            attrs = {"memory": memory, "swizzle": swizzle, "nan": other is not None and bool(self._fill(other))}
            build.location = op.loc
            build.create("box_copy", (base, buffer, *places), attrs)
        build.create("box_wait")
        for op, (memory, _), buffer in zip(loads.ops, memories, buffers, strict=True):
            result = loads.results[op.result]
            attrs = {"memory": memory, "to": result.type, "now": True}
            read = make_op("shared_load", (buffer,), attrs, loc=op.loc)
            build.append(Op(read.row, read.operands, [result], read.attrs, (), read.loc))   # users stay as they are
        for buffer in reversed(buffers):
            build.create("shared_free", (buffer,))

    def _store(self, op: Op, box: Op) -> None:
        value = op.operands[1]
        source = self._ops.get(value)
        if source is not None and source.name == "convert" and source not in self._absorbed:
            value = source.operands[0]      # shared memory takes any layout
        memory, swizzle = _memory(_tile(value), store=True)
        self._build.location = op.loc
        attrs = {"memory": memory, "swizzle": swizzle, "shared": self._is_shared(op), "again": self._is_again(op)}
        base, *places = box.operands[1:]
        self._build.create("box_store", (base, value, *places), attrs)

    # -- what else touches the same memory

    def _is_box_store(self, op: Op) -> bool:
        return op.name == "store" and op in self._boxes

    def _may_be_written(self, load: Op) -> bool:
        """Whether threads of this program or of others may write what `load` reads, while the kernel runs.

        What the hardware writes for this program, it has waited for.
        """
        return any(op.row.effects & Effect.WRITES and self._alias.may_overlap(load, op) for op in self._accesses
                   if self._waits_for_others or not self._is_box_store(op))

    def _is_shared(self, store: Op) -> bool:
        """Whether some other access of the kernel may touch what `store` writes, or tells others that it is there."""
        return self._waits_for_others or any(self._alias.may_overlap(store, op) for op in self._accesses
                                             if not self._is_box_store(op))

    def _is_again(self, store: Op) -> bool:
        """Whether a block that was stored before may be written again."""
        return store in self._in_loops or any(self._alias.may_overlap(store, op) for op in self._boxes
                                              if op is not store and op.name == "store")


def _tile(value: Value) -> Tile:
    assert isinstance(value.type, Tile)
    return value.type


def _memory(tile: Tile, store: bool = False) -> tuple[Tile, int]:
    """Where a tile's block lies in shared memory, and the hardware's swizzle: what its threads reach soonest."""
    item = tile.element.bytes
    ways: list[tuple[Layout, int]] = [(row_major(tile.shape), 0)]
    if len(tile.shape) > 1 and tile.shape[-1] * item in SWIZZLE_WIDTHS:
        width = tile.shape[-1] * item
        ways.append((nvmma(tile.shape, item, width), width))
    assert tile.layout is not None

    def cost(way: tuple[Layout, int]) -> float:
        return access_cost(tile.layout, way[0], item, store=store) or 0.0

    layout, swizzle = min(ways, key=cost)
    return Tile(tile.shape, tile.element, layout), swizzle


def _without_dead(block: Block) -> Block:
    """`block` without pure ops whose results nobody takes."""
    live: set[Value] = set()

    def swept(block: Block) -> Block:
        kept: list[Op] = []
        for op in reversed(block.ops):
            if op.row.is_pure and not op.row.terminator and not any(r in live for r in op.results):
                continue
            live.update(op.operands)
            kept.append(op.updated(regions=[swept(r) for r in op.regions]) if op.regions else op)
        return Block(block.args, tuple(reversed(kept)))

    return swept(block)
