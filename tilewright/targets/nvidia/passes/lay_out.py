"""From tile IR to laid-out IR: every tile type gets a layout, and `convert` stands where two disagree.

`homes.Homes` says where tiles live.  Here each use asks for its operand in a layout; a flexible tile is then computed
in that layout (once for each layout that is asked for), any other is converted right behind its definition.  Scalars,
and the regions of `reduce`, `scan` and `map`, which work on elements, stay as they are.

Before: the standard passes, no calls.  After: stage LAID_OUT.  Tests: tests/targets/nvidia/test_passes.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tilewright.ir.build import make_op
from tilewright.ir.layout_rules import grown_dims, moves_nothing
from tilewright.ir.node import Block, Module, Op, Value
from tilewright.ir.types import Tile, Type, shape_of
from tilewright.ir.walk import defining_ops
from tilewright.layout import Layout, coalesced, views
from tilewright.targets.nvidia.capability import Capability
from tilewright.targets.nvidia.passes.homes import ANCHORED, Homes, is_tile

_CONTROL = frozenset({"for", "while", "if"})
_ASKING = frozenset({"scan", "sort", "split", "map", "reduce", "inline_asm", "inline_asm_ordered"})
_IN_PLACE = frozenset({"expand_dims", "permute", "reshape", "broadcast", "hint", "box"})


def lay_out(module: Module, num_warps: int, capability: Capability) -> Module:
    """`module` with layouts for programs of `num_warps` warps on a GPU of `capability`."""
    entry = module.entry
    return replace(module, functions={entry.name: entry.with_body(_Rebuild(module, num_warps, capability).body())})


def operand_layout(op: Op, index: int, result: Layout) -> Layout:
    """In which layout a flexible op needs operand `index` to give its result in `result`."""
    source = op.operands[index]
    if op.name == "expand_dims":
        axis = op.attrs["axis"]
        return Layout((*result.shape[:axis], *result.shape[axis + 1:]), result.inputs)
    if op.name == "broadcast":
        return views.squashed(result, grown_dims(op)) if grown_dims(op) else result
    if op.name == "permute":
        return views.transposed(result, views.inverse_order(op.attrs["order"]))
    if op.name == "reshape":
        return views.reshaped(result, shape_of(op.result.type), shape_of(source.type))
    return result


class _Rebuild:
    """The new body of the entry of one module."""

    def __init__(self, module: Module, num_warps: int, capability: Capability) -> None:
        self._body = module.entry.body
        self._homes = Homes(module, num_warps, capability)
        self._ops = defining_ops(self._body)
        self._asked: dict[Op, list[Layout | None]] = {}     # of each operand of the ops that are not flexible
        self._wanted: dict[Value, list[Layout]] = {}
        self._made: dict[tuple[Value, Layout], Value] = {}
        self._ask_block(self._body, ())

    def body(self) -> Block:
        return self._block(self._body)

    # -- what is asked for

    def _ask_block(self, block: Block, owed: Sequence[Value]) -> None:
        """`owed`: the values whose homes the terminator's last operands take."""
        for op in block.ops:
            if op.results and op.results[0] in self._homes.flexible:
                continue
            if op.row.terminator:
                first = len(op.operands) - len(owed)
                layouts = [self._home(owed[k - first]) if k >= first else None for k in range(len(op.operands))]
            else:
                layouts = [self._operand(op, k) if is_tile(v) else None for k, v in enumerate(op.operands)]
            self._asked[op] = layouts
            for value, layout in zip(op.operands, layouts, strict=True):
                self._want(value, layout)
            for region, values in zip(op.regions, self._owed(op), strict=False):
                self._ask_block(region, values)

    def _home(self, value: Value) -> Layout | None:
        return self._homes.of(value) if is_tile(value) else None

    @staticmethod
    def _owed(op: Op) -> Sequence[Sequence[Value]]:
        """For each region of a control op the values that its terminator feeds."""
        if op.name == "for":
            return [op.regions[0].args[1:]]
        if op.name == "if":
            return [op.results, op.results]
        if op.name == "while":
            return [op.regions[1].args, op.regions[0].args]
        return ()

    def _operand(self, op: Op, index: int) -> Layout:
        """The layout in which an op that is not flexible takes a tile operand."""
        homes, value = self._homes, op.operands[index]
        if op.name in ANCHORED:
            return homes.anchor(op)
        if op.name in _ASKING:
            return homes.op_layout(op)
        if op.name == "join":
            return homes.joined_operands(op)
        if op.name == "for":
            return homes.of(op.regions[0].args[index - 2])
        if op.name == "while":
            return homes.of(op.regions[0].args[index])
        if op.name in _IN_PLACE and is_tile(op.result) and not (op.name == "reshape" and not moves_nothing(op)):
            return operand_layout(op, index, homes.of(op.result))
        if op.row.elementwise:
            return homes.of(op.result)
        if op.name == "device_print":      # neighbours in neighbouring threads: lines come in order as far as they can
            return coalesced(shape_of(value.type), 1, homes.num_warps)
        if op.name == "histogram":
            return homes.of(op.operands[0])
        if (op.name, index) in (("dot", 2), ("gather", 1)):
            return homes.of(op.result)
        return homes.of(value)

    def _want(self, value: Value, layout: Layout | None) -> None:
        if layout is None or layout in self._wanted.setdefault(value, []):
            return
        self._wanted[value].append(layout)
        if value in self._homes.flexible:
            op = self._ops[value]
            for index, source in enumerate(op.operands):
                if is_tile(source):
                    self._want(source, operand_layout(op, index, layout))

    # -- what is made

    def _block(self, block: Block) -> Block:
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
        regions = [self._block(r) for r in op.regions] if op.name in _CONTROL else op.regions
        results = [Value(_with(r.type, self._homes.of(r)), r.hint) if is_tile(r) else r for r in op.results]
        return Op(op.row, operands, results, op.attrs, regions, op.loc)


def _with(t: Type, layout: Layout) -> Tile:
    """The tile type `t` in another layout."""
    assert isinstance(t, Tile)
    return Tile(t.shape, t.element, layout)
