"""Left operands of products of warpgroups are made in the registers from which these take them.

    before                                      after
    for i:                                      for i:
        x = load ...    [vectors]                   x = load ...            [vectors]
        y = x * s       [vectors]                   z = convert x           [fragments]
        acc = dot y, b, acc                         y = z * s               [fragments]
                                                    acc = dot y, b, acc

Else what is made goes to shared memory once more, before a fence and a barrier.  `pipeline` copies x ahead, and
threads load it as fragments right away.  Where warpgroups lie along the columns, too, each would make all of it.
TFLOP/s on an H200, 2026-12-01: rows of fp16 scaled, 4096, 128 x 128 x 64: 395 and 474; 64 x 64 x 32: 193 and 286; int8
to fp16, 64 x 64 x 32: 160 and 295.

Before: laid-out IR, loops not pipelined.  After: the same stage.  Tests: tests/targets/nvidia/test_left_operands.py.
"""

from __future__ import annotations

from dataclasses import replace

from tilewright.diagnostics import UNKNOWN
from tilewright.ir.build import make_op
from tilewright.ir.layout_rules import layout_of
from tilewright.ir.node import Block, Module, Op, Value
from tilewright.ir.types import Tile
from tilewright.ir.walk import defining_ops, ops_in
from tilewright.layout import Layout
from tilewright.layout.plan import Kind, plan
from tilewright.passes.dce import DCE
from tilewright.targets.nvidia import wgmma
from tilewright.targets.nvidia.capability import Capability
from tilewright.targets.nvidia.passes.assignment import operand_layout

_FOLLOWS = frozenset({"splat", "iota", "broadcast", "expand_dims"})


def make_left_operands(module: Module, num_warps: int, capability: Capability) -> Module:
    """`module` with such operands in the layout of their products."""
    if not capability.wgmma or not {"for", "dot"} <= {op.name for op in ops_in(module.entry.body)}:
        return module
    entry = module.entry
    body = _Maker(entry.body, num_warps, capability).block(entry.body, in_loop=False)
    if body is entry.body:
        return module
    return DCE.run(replace(module, functions={entry.name: entry.with_body(body)}))


class _Maker:
    def __init__(self, body: Block, num_warps: int, capability: Capability) -> None:
        self._ops, self._num_warps, self._capability = defining_ops(body), num_warps, capability
        self._before: list[Op] = []     # what goes in front of the loop at hand

    def block(self, block: Block, in_loop: bool) -> Block:
        ops: list[Op] = []
        for op in block.ops:
            if op.name == "dot" and in_loop:
                before, made = self._dot(op, block)
                self._before += before
                ops += made
            elif op.name == "for":
                ops += self._loop(op)
            else:
                ops.append(op)
        same = len(ops) == len(block.ops) and all(a is b for a, b in zip(ops, block.ops, strict=True))
        return block if same else Block(block.args, tuple(ops))

    def _loop(self, op: Op) -> list[Op]:
        """A loop, and before it what it does not change of what is made in it."""
        (region,), kept = op.regions, self._before
        self._before = []
        body = self.block(region, in_loop=True)
        before, self._before = self._before, kept
        return [*before, op if body is region else op.updated(regions=[body])]

    def _dot(self, dot: Op, block: Block) -> tuple[list[Op], list[Op]]:
        """A dot, and before it what makes its left operand anew: outside of the loop, and in it."""
        product, left = wgmma.of(dot, self._capability, self._num_warps), dot.operands[0]
        if product is None or product.groups[1] > 1:
            return [], [dot]
        if self._is_free(layout_of(left), product.left, product.element.bytes):
            return [], [dot]
        if not self._is_made(left, block):
            return [], [dot]
        fragments = _Fragments(self._ops, block)
        made = fragments.of(left, product.left)
        return fragments.before, [*fragments.inside, dot.updated(operands=[made, *dot.operands[1:]])]

    def _is_free(self, have: Layout, want: Layout, element_bytes: int) -> bool:
        """Whether every element stays in its thread."""
        way = plan(have, want, element_bytes, stores=self._capability.stmatrix,
                   scratch_limit=self._capability.shared_bytes)
        return way.kind in (Kind.NOTHING, Kind.REGISTERS)

    def _is_made(self, value: Value, block: Block) -> bool:
        """Whether all that a tile is made of, element by element, is loaded in this block, and it is no load itself."""
        shape = value.type.shape if isinstance(value.type, Tile) else ()
        work, inside, loads = [value], set(block.ops), 0
        while work:
            v = work.pop()
            op = self._ops.get(v)
            if not isinstance(v.type, Tile) or v.type.shape != shape or (op is not None and op.name in _FOLLOWS):
                continue
            if op is None or op not in inside:
                return False
            if op.name == "load":
                loads += 1
            elif (op.row.elementwise and op.row.is_pure) or op.name == "convert":
                work += op.operands
            else:
                return False
        return loads > 0 and self._ops[value].name != "load"


class _Fragments:
    """The ops that make tiles in other layouts, from loads on: `inside` of the block, and `before` its loop."""

    def __init__(self, ops: dict[Value, Op], block: Block) -> None:
        self._ops, self._block, self._own = ops, block, set(block.ops)
        self._made: dict[tuple[Value, Layout], Value] = {}
        self.inside: list[Op] = []
        self.before: list[Op] = []

    def of(self, value: Value, layout: Layout) -> Value:
        """What stands for a value in a layout; a scalar stays."""
        if not isinstance(value.type, Tile) or layout_of(value) == layout:
            return value
        known = self._made.get((value, layout))
        if known is None:
            known = self._made[value, layout] = self._make(value, layout)
        return known

    def _make(self, value: Value, layout: Layout) -> Value:
        op = self._ops.get(value)
        assert isinstance(value.type, Tile)
        t = Tile(value.type.shape, value.type.element, layout)
        mine = value in self._block.args or op in self._own
        if op is not None and op.name == "convert":
            return self.of(op.operands[0], layout)
        if op is None or not (op.name in _FOLLOWS or (mine and op.row.elementwise and op.row.is_pure)):
            made = make_op("convert", (value,), {"to": t}, loc=UNKNOWN if op is None else op.loc, hint=value.hint)
        else:
            operands = [self.of(v, operand_layout(op, k, layout)) for k, v in enumerate(op.operands)]
            made = Op(op.row, operands, [Value(t, value.hint)], op.attrs, op.regions, op.loc)
        (self.inside if mine else self.before).append(made)
        return made.result
