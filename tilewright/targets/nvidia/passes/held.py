"""Operands of products of warpgroups that a loop does not change lie in shared memory while it runs.

    before                          after
    q = load ...                    q = load ...
    for i:                          h = shared_alloc; barrier; shared_store q -> h; proxy_fence; barrier
        s = dot q, k, ...           v = shared_load h
                                    for i:
                                        s = dot v, k, ...
                                    shared_free h

Else each iteration would write them to scratch, with a barrier.  What its threads can bring where a product takes it,
without shared memory, stays in registers.

Before: laid-out IR, loops not pipelined yet.  After: the same stage.  Tests: tests/targets/nvidia/test_warpgroup.py.
"""

from __future__ import annotations

from dataclasses import replace

from tilewright.ir.build import make_op
from tilewright.ir.layout_rules import layout_of
from tilewright.ir.node import Block, Module, Op, Value
from tilewright.ir.types import Tile
from tilewright.ir.walk import ops_in
from tilewright.layout import Layout
from tilewright.targets.nvidia import wgmma
from tilewright.targets.nvidia.capability import Capability

Held = dict[tuple[Value, Layout], Value]        # an operand, and how it lies -> what stands for it


def hold(module: Module, num_warps: int, capability: Capability) -> Module:
    """`module` with such operands held."""
    if not capability.wgmma:
        return module
    entry = module.entry
    body = _Holder(num_warps, capability).block(entry.body, {})
    return module if body is entry.body else replace(module, functions={entry.name: entry.with_body(body)})


class _Holder:
    def __init__(self, num_warps: int, capability: Capability) -> None:
        self._num_warps, self._capability = num_warps, capability

    def block(self, block: Block, held: Held) -> Block:
        """`block`, in which what is `held` already stands for operands."""
        ops: list[Op] = []
        for op in block.ops:
            if op.name == "dot":
                ops.append(self._dot(op, held))
            elif op.name in ("for", "while"):
                ops += self._loop(op, held)
            elif op.name == "if":
                ops.append(self._inside(op, held))
            else:
                ops.append(op)
        same = len(ops) == len(block.ops) and all(a is b for a, b in zip(ops, block.ops, strict=True))
        return block if same else Block(block.args, tuple(ops))

    def _inside(self, op: Op, held: Held) -> Op:
        regions = [self.block(r, held) for r in op.regions]
        return op if all(a is b for a, b in zip(regions, op.regions, strict=True)) else op.updated(regions=regions)

    def _dot(self, op: Op, held: Held) -> Op:
        operands = [held.get((v, layout), v) if layout is not None else v
                    for v, layout in zip(op.operands, (*self._wanted(op), None), strict=True)]
        return op if operands == list(op.operands) else op.updated(operands=operands)

    def _wanted(self, dot: Op) -> list[Layout | None]:
        """In which layouts of shared memory a dot takes its operands; None for what it takes otherwise."""
        product = wgmma.of(dot, self._capability, self._num_warps)
        if product is None:
            return [None, None]
        found: list[Layout | None] = []
        for which, value in enumerate(dot.operands[:2]):
            have = layout_of(value)
            if wgmma.is_shared(have) or (which == 0 and product.takes(have, self._capability)):
                found.append(None)
            else:
                found.append(product.in_scratch(which, have).layout)
        return found

    def _loop(self, op: Op, held: Held) -> list[Op]:
        """A loop, what it holds stored before it."""
        inside = {r for o in ops_in(op.regions[0]) for r in o.results}
        for region in op.regions:
            inside.update(region.args)
            inside.update(r for o in ops_in(region) for r in (*o.results, *(a for x in o.regions for a in x.args)))
        wanted: dict[tuple[Value, Layout], None] = {}
        for dot in (o for region in op.regions for o in ops_in(region) if o.name == "dot"):
            for value, layout in zip(dot.operands, self._wanted(dot), strict=False):
                if layout is not None and value not in inside and (value, layout) not in held:
                    wanted[value, layout] = None
        if not wanted:
            return [self._inside(op, held)]
        before, views, buffers = _stored(list(wanted), op)
        after = [make_op("shared_free", (b,), loc=op.loc) for b in reversed(buffers)]
        return [*before, self._inside(op, {**held, **views}), *after]


def _stored(wanted: list[tuple[Value, Layout]], loop: Op) -> tuple[list[Op], Held, list[Value]]:
    """The ops that bring operands to shared memory, what stands for each, and the buffers."""
    loc = loop.loc
    memories = []
    for value, layout in wanted:
        assert isinstance(value.type, Tile)
        memories.append(Tile(value.type.shape, value.type.element, layout))
    allocated = [make_op("shared_alloc", (), {"memory": m, "count": 1, "align": wgmma.ALIGNMENT}, loc=loc)
                 for m in memories]
    stores = [make_op("shared_store", (v, a.result), {"memory": m}, loc=loc)
              for (v, _), a, m in zip(wanted, allocated, memories, strict=True)]
    loads = [make_op("shared_load", (a.result,), {"memory": m, "to": m}, loc=loc)
             for a, m in zip(allocated, memories, strict=True)]
    barrier = [make_op("barrier", (), loc=loc)]     # others may still read what lay there before
    fence = [make_op("proxy_fence", (), {"everywhere": False}, loc=loc), make_op("barrier", (), loc=loc)]
    views = {key: load.result for key, load in zip(wanted, loads, strict=True)}
    return [*allocated, *barrier, *stores, *fence, *loads], views, [a.result for a in allocated]
