"""Which layout each tile lives in: a first assignment, by propagation from anchors.

Every tile gets one *home* layout, or none: tiles that are cheap to make anywhere (`iota`, `splat`, arithmetic on such,
broadcasts) are *flexible*, computed in whatever layout their users ask for.  Anchors are memory accesses
(`coalesce`), and ops whose code wants a special layout (`scan`, `sort`, `split`).  From there homes spread forward
through elementwise ops and shape changes; a value that goes round a loop takes what the loop's body gives it, then what
it starts with, then what its users want.

This is the place of the exact assignment (docs/design.md: each op chooses among the layouts that anchors offer, solved
by elimination): it would give the same `Homes` to `layouts.lay_out`, which inserts conversions, and nothing else would
change.  Tests: tests/targets/nvidia/test_passes.py.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from tilewright.analysis.axis import Axis
from tilewright.ir.layout_rules import grown_dims
from tilewright.ir.node import Block, Module, Op, Value
from tilewright.ir.ops.table import Effect
from tilewright.ir.types import Tile, element_of, shape_of
from tilewright.ir.walk import defining_ops, ops_in
from tilewright.layout import Layout, coalesced, padded_shape, views
from tilewright.targets.nvidia.capability import Capability
from tilewright.targets.nvidia.mma import accumulator_layout, choose, warp_grid
from tilewright.targets.nvidia.passes.chains import chained_dots
from tilewright.targets.nvidia.passes.coalesce import VECTOR_BYTES, memory_layout, run_of
from tilewright.targets.nvidia.passes.joint_runs import joint_runs
from tilewright.targets.nvidia.passes.special import reduce_layout, scan_layout, sort_layout, split_layout

ANCHORED = frozenset({"load", "store", "atomic_rmw", "atomic_cas"})
_TESTED = frozenset({"load", "store"})      # whose code tests what is only likely
_SHAPES = frozenset({"expand_dims", "permute", "reshape", "hint", "box"})
_LEAVES = frozenset({"splat", "iota"})
# Ops whose results are put into a layout of their own by their code, whatever their operands have.
_MOVING = frozenset({"cat", "gather", "histogram", "slice"})


def is_tile(value: Value) -> bool:
    return isinstance(value.type, Tile)


class Homes:
    """The homes of one function's tiles, and the layout in which each anchored op runs."""

    def __init__(self, module: Module, num_warps: int, capability: Capability) -> None:
        self.num_warps = num_warps
        self.capability = capability
        self._body = module.entry.body
        self._chained = chained_dots(self._body)
        self._axis = Axis(module)
        self._likely = Axis(module, ranges=self._axis.ranges, optimistic=True)
        self._ops = defining_ops(self._body)
        self.home: dict[Value, Layout] = {}
        self.flexible: set[Value] = set()
        self._find_flexible(self._body)
        self._runs = joint_runs(self._body, self.flexible, lambda load: run_of(
            load.operands[0].type, self._likely.fact(load.operands[0])))
        self._settle()

    # -- what others ask

    def of(self, value: Value) -> Layout:
        """The home of a tile; for a flexible one the layout it gets when nobody asks for another."""
        home = self.home.get(value)
        return self.plain(value) if home is None else home

    def plain(self, value: Value) -> Layout:
        """A layout for a tile that nothing else decides."""
        shape = shape_of(value.type)
        threads = 32 * self.num_warps
        elements = 1
        for size in shape:
            elements *= size
        vector = VECTOR_BYTES // min(element_of(value.type).bytes, VECTOR_BYTES)
        while vector > 1 and vector * threads > elements:
            vector //= 2
        return coalesced(shape, vector, self.num_warps)

    def anchor(self, op: Op) -> Layout:
        """The layout in which a memory access on tiles runs."""
        pointer = op.operands[0]
        axis = self._likely if op.name in _TESTED else self._axis
        return memory_layout(pointer.type, axis.fact(pointer), self.num_warps, self._runs.get(op))

    def op_layout(self, op: Op) -> Layout:
        """The layout that `scan`, `sort`, `split`, `reduce` and `map` ask of their tile operands."""
        home = self._first_home(op)
        given = self.plain(op.operands[0]) if home is None else home
        if op.name == "scan":
            return scan_layout(given, shape_of(op.operands[0].type), op.attrs["axis"], self.num_warps)
        if op.name == "sort":
            return sort_layout(given, shape_of(op.operands[0].type), self.num_warps)
        if op.name == "reduce":
            return reduce_layout(given, shape_of(op.operands[0].type), op.attrs["axis"], self.num_warps)
        if op.name == "split":
            return split_layout(given, self.num_warps)
        return given

    def product(self, op: Op) -> Layout:
        """The layout of a dot's accumulator: that of the tensor cores, if they make it."""
        if choose(op, self.capability) is None:
            return self.plain(op.result)
        rows, columns = padded_shape(shape_of(op.result.type))[-2:]
        return accumulator_layout(op, warp_grid(rows, columns, self.num_warps, op in self._chained))

    def joined_operands(self, op: Op) -> Layout:
        """The layout in which a `join` takes its operands."""
        home = self._first_home(op)
        return self.plain(op.operands[0]) if home is None else home

    # -- which tiles are flexible

    def _find_flexible(self, block: Block) -> None:
        for op in block.ops:
            if self._is_flexible(op):
                self.flexible.update(op.results)
            elif op.row.effects & Effect.NESTED:
                for region in op.regions:
                    self._find_flexible(region)

    def _is_flexible(self, op: Op) -> bool:
        if op.name in _LEAVES or (op.name == "broadcast" and grown_dims(op)):
            return True
        if not (op.row.elementwise or op.name in _SHAPES or op.name == "broadcast") or not op.row.is_pure:
            return False
        if op.name == "reshape" and not (is_tile(op.result) and is_tile(op.operands[0]) and _in_place(op)):
            return False
        return is_tile(op.results[0]) and all(not is_tile(v) or v in self.flexible for v in op.operands)

    # -- homes of the others

    def _settle(self) -> None:
        pending = True
        while pending:
            before = len(self.home)
            self._forward(self._body)
            if len(self.home) != before:
                continue
            self._backward(self._body)
            if len(self.home) == before:
                pending = self._give_up()

    def _set(self, value: Value, layout: Layout | None) -> None:
        if layout is not None and is_tile(value) and value not in self.flexible:
            self.home.setdefault(value, layout)

    def _forward(self, block: Block) -> None:
        for op in block.ops:
            if op.name in ("for", "while", "if"):
                self._control(op)
            elif op.results and any(is_tile(r) and r not in self.home and r not in self.flexible for r in op.results):
                rule = _FORWARD.get(op.name, Homes._like_operands)
                for result in op.results:
                    self._set(result, rule(self, op, result))

    def _control(self, op: Op) -> None:
        for region in op.regions:
            self._forward(region)
        if op.name == "if":
            for result, *ways in zip(op.results, *(r.terminator.operands for r in op.regions), strict=True):
                self._set(result, self._known(*ways))
            return
        before, body = (None, op.regions[0]) if op.name == "for" else op.regions
        inits = op.operands[3:] if before is None else op.operands
        args = body.args[1:] if before is None else before.args
        for arg, init, following in zip(args, inits, body.terminator.operands, strict=True):
            self._set(arg, self._known(following, init))
        if before is None:
            for result, arg in zip(op.results, args, strict=True):
                self._agree(result, arg)
        else:
            passed = before.terminator.operands[1:]
            for result, arg, value in zip(op.results, body.args, passed, strict=True):
                self._set(arg, self._known(value))
                self._agree(result, arg)

    def _agree(self, result: Value, arg: Value) -> None:
        """What a loop gives is what went round in it: whichever of the two has a home, both do."""
        self._set(result, self.home.get(arg))
        self._set(arg, self.home.get(result))

    def _known(self, *values: Value) -> Layout | None:
        return next((self.home[v] for v in values if v in self.home), None)

    def _first_home(self, op: Op) -> Layout | None:
        """The home of the operand with the most bytes."""
        homed = [v for v in op.operands if v in self.home]
        if not homed:
            return None
        return self.home[max(homed, key=lambda v: element_of(v.type).bytes)]

    def _like_operands(self, op: Op, result: Value) -> Layout | None:
        return self._first_home(op)

    def _waits(self, op: Op) -> bool:
        """Whether an operand's home is still to come."""
        return any(is_tile(v) and v not in self.home and v not in self.flexible for v in op.operands)

    # -- from users, when nothing else says

    def _backward(self, block: Block) -> None:
        for op in reversed(block.ops):
            for region in op.regions:
                if op.name in ("for", "while", "if"):
                    self._backward(region)
            if op.name in ANCHORED:
                for v in op.operands:
                    if is_tile(v):
                        self._set(v, self.anchor(op))
            elif op.row.elementwise and op.results[0] in self.home:
                for v in op.operands:
                    self._set(v, self.home[op.results[0]])

    def _give_up(self) -> bool:
        """Give the first tile without a home a plain layout; False when there is none."""
        for block_value in self._all_tiles():
            if block_value not in self.home and block_value not in self.flexible:
                self.home[block_value] = self.plain(block_value)
                return True
        return False

    def _all_tiles(self) -> list[Value]:
        found = []
        for op in ops_in(self._body):
            if op.name in ("for", "while", "if"):
                found += [a for region in op.regions for a in region.args if is_tile(a)]
            found += [r for r in op.results if is_tile(r)]
        return found


Rule = Callable[[Homes, Op, Value], "Layout | None"]


def _in_place(op: Op) -> bool:
    return views.reshapes_in_place(shape_of(op.operands[0].type), shape_of(op.results[0].type))


def _mapped(image: Callable[[Op, Layout], Layout]) -> Rule:
    """The home of a shape op's result, from its operand's."""
    def rule(homes: Homes, op: Op, result: Value) -> Layout | None:
        source = op.operands[0]
        if not is_tile(source):
            return homes.plain(result)
        home = homes.home.get(source)
        return None if home is None else image(op, home)

    return rule


def _reshape(homes: Homes, op: Op, result: Value) -> Layout | None:
    if is_tile(op.operands[0]) and _in_place(op):
        home = homes.home.get(op.operands[0])
        return None if home is None else views.reshaped(home, shape_of(op.operands[0].type), shape_of(result.type))
    return homes.plain(result)


def _reduce(homes: Homes, op: Op, result: Value) -> Layout | None:
    if homes._waits(op):
        return None
    return views.sliced(homes.op_layout(op), op.attrs["axis"])


def _join(homes: Homes, op: Op, result: Value) -> Layout | None:
    if homes._waits(op):
        return None
    return views.joined(homes.joined_operands(op))


def _special(homes: Homes, op: Op, result: Value) -> Layout | None:
    if homes._waits(op):
        return None
    layout = homes.op_layout(op)
    return views.halved(layout) if op.name == "split" else layout


_FORWARD: Mapping[str, Rule] = {
    **dict.fromkeys(("load", "atomic_rmw", "atomic_cas"), lambda homes, op, result: homes.anchor(op)),
    **dict.fromkeys(_MOVING, lambda homes, op, result: homes.plain(result)),
    **dict.fromkeys(("scan", "sort", "split", "map", "inline_asm", "inline_asm_ordered"), _special),
    "dot": lambda homes, op, result: homes.product(op),
    "reduce": _reduce, "join": _join, "reshape": _reshape,
    "expand_dims": _mapped(lambda op, a: views.expanded(a, op.attrs["axis"])),
    "permute": _mapped(lambda op, a: views.transposed(a, op.attrs["order"])),
    "broadcast": _mapped(lambda op, a: a),
    "hint": _mapped(lambda op, a: a), "box": _mapped(lambda op, a: a),
}
