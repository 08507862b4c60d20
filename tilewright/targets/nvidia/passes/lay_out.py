"""From tile IR to laid-out IR: every tile type gets a layout, and `convert` stands where two disagree.

`assign` says where tiles live, `asked` in which layouts they are asked for.  A flexible tile is computed in each of
those, any other is converted right behind its definition.  Scalars, and the regions of `reduce`, `scan` and `map`,
which work on elements, stay as they are.

Before: the standard passes, no calls.  After: stage LAID_OUT.  Tests: tests/targets/nvidia/test_passes.py.
"""

from __future__ import annotations

from dataclasses import replace

from tilewright.ir.build import make_op
from tilewright.ir.node import Block, Module, Op, Value
from tilewright.ir.types import Tile, Type
from tilewright.layout import Layout
from tilewright.targets.nvidia.capability import Capability
from tilewright.targets.nvidia.passes.asked import Asked
from tilewright.targets.nvidia.passes.assign import assigned
from tilewright.targets.nvidia.passes.assignment import CONTROL, is_tile, operand_layout


def lay_out(module: Module, num_warps: int, capability: Capability) -> Module:
    """`module` with layouts for programs of `num_warps` warps on a GPU of `capability`."""
    entry = module.entry
    rebuild = _Rebuild(assigned(module, num_warps, capability))
    return replace(module, functions={entry.name: entry.with_body(rebuild.block(entry.body))})


class _Rebuild:
    """The new body of the entry of one module."""

    def __init__(self, asked: Asked) -> None:
        self._homes, self._asked, self._wanted = asked.assignment, asked.by_op, asked.wanted
        self._made: dict[tuple[Value, Layout], Value] = {}

    def block(self, block: Block) -> Block:
        ops: list[Op] = []
        args = [self._retyped(arg, ops) for arg in block.args]
        for op in block.ops:
            if op.results and op.results[0] in self._homes.flexible:
                for layout in self._wanted.get(op.results[0], ()):
                    ops.append(self._flexible(op, layout))
            else:
                ops.append(self._fixed(op))
                for old, new in zip(op.results, ops[-1].results, strict=True):
                    self._convert(old, new, ops)
        return Block(tuple(args), tuple(ops))

    def _retyped(self, value: Value, ops: list[Op]) -> Value:
        """A tile in its home, and behind it its conversions; a scalar as it is."""
        if not is_tile(value):
            return value
        new = Value(_with(value.type, self._homes.of(value)), value.hint)
        self._convert(value, new, ops)
        return new

    def _convert(self, old: Value, new: Value, ops: list[Op]) -> None:
        """Note `new` as what stands for `old`, and convert it to the other layouts that are wanted."""
        if not is_tile(old):
            return
        assert isinstance(new.type, Tile)
        self._made[old, new.type.layout] = new
        for layout in self._wanted.get(old, ()):
            if layout != new.type.layout:
                ops.append(make_op("convert", [new], {"to": _with(new.type, layout)}, hint=old.hint))
                self._made[old, layout] = ops[-1].result

    def _flexible(self, op: Op, layout: Layout) -> Op:
        operands = [self._made[v, operand_layout(op, k, layout)] if is_tile(v) else v
                    for k, v in enumerate(op.operands)]
        result = Value(_with(op.result.type, layout), op.result.hint)
        self._made[op.result, layout] = result
        return Op(op.row, operands, [result], op.attrs, op.regions, op.loc)

    def _fixed(self, op: Op) -> Op:
        operands = [v if layout is None else self._made[v, layout]
                    for v, layout in zip(op.operands, self._asked[op], strict=True)]
        regions = [self.block(r) for r in op.regions] if op.name in CONTROL else op.regions
        results = [Value(_with(r.type, self._homes.of(r)), r.hint) if is_tile(r) else r for r in op.results]
        return Op(op.row, operands, results, op.attrs, regions, op.loc)


def _with(t: Type, layout: Layout) -> Tile:
    """The tile type `t` in another layout."""
    assert isinstance(t, Tile)
    return Tile(t.shape, t.element, layout)
