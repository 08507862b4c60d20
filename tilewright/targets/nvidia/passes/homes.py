"""Which layout each tile lives in: a first assignment, by propagation from anchors.

Every tile gets one *home* layout, or none: tiles that are cheap to make anywhere (`iota`, `splat`, arithmetic on such,
broadcasts) are *flexible*, computed in whatever layout their users ask for.  Anchors are memory accesses
(`coalesce`), and ops whose code wants a special layout (`scan`, `sort`, `split`).  From there homes spread forward
through elementwise ops and shape changes; a value that goes round a loop takes what the loop's body gives it, then what
it starts with, then what its users want.

It is where the exact assignment (`assign.py`) begins, which takes over where conversions are left that cost something.
Tests: tests/targets/nvidia/test_passes.py.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from tilewright.ir.layout_rules import grown_dims
from tilewright.ir.node import Block, Module, Op, Value
from tilewright.ir.ops.table import Effect
from tilewright.ir.types import element_of, shape_of
from tilewright.ir.walk import defining_ops, ops_in
from tilewright.layout import Layout, padded_shape, views
from tilewright.targets.nvidia import wgmma
from tilewright.targets.nvidia.capability import Capability
from tilewright.targets.nvidia.mma import accumulator_layout, choose, warp_grid
from tilewright.targets.nvidia.passes.accesses import Accesses
from tilewright.targets.nvidia.passes.assignment import (
    ACCESSES,
    ASKING,
    CONTROL,
    Assignment,
    carried,
    is_tile,
    plain,
    result_layout,
    stays_in_place,
)
from tilewright.targets.nvidia.passes.chains import chained_dots, loads_above
from tilewright.targets.nvidia.passes.coalesce import element_bytes
from tilewright.targets.nvidia.passes.joint_runs import joint_runs
from tilewright.targets.nvidia.passes.special import layout_for

_WORD_BYTES = 4
_SHAPES = frozenset({"expand_dims", "permute", "reshape", "hint", "box"})
_LEAVES = frozenset({"splat", "iota"})
# Ops whose results are put into a layout of their own by their code, whatever their operands have.
_MOVING = frozenset({"cat", "gather", "histogram", "slice"})


def propagated(module: Module, accesses: Accesses, num_warps: int, capability: Capability,
               settled: frozenset[Value] = frozenset()) -> Assignment:
    """Homes for the tiles of the entry of `module`, those of `settled` among them, however they are made."""
    homes = _Homes(module, accesses, num_warps, capability, settled)
    runs = {op: homes.runs_in(op) for op in ops_in(module.entry.body)
            if op.name in ACCESSES | ASKING and any(is_tile(v) for v in op.operands)}
    return Assignment(num_warps, homes.home, homes.flexible, runs)


class _Homes:
    """The homes of one function's tiles, while they are found."""

    def __init__(self, module: Module, accesses: Accesses, num_warps: int, capability: Capability,
                 settled: frozenset[Value]) -> None:
        self._settled = settled
        self._num_warps, self._capability, self._accesses = num_warps, capability, accesses
        self._body = module.entry.body
        self._chained = chained_dots(self._body)
        self._ops = defining_ops(self._body)
        self.home: dict[Value, Layout] = {}
        self.flexible: set[Value] = set()
        self._find_flexible(self._body)
        self._runs = joint_runs(self._body, self.flexible, accesses.run_of)
        self._settle()

    def runs_in(self, op: Op) -> Layout:
        """The layout in which an access or an op of `ASKING` takes its tile operands."""
        if op.name in ACCESSES:
            return self._accesses.coalesced(op, self._runs.get(op))
        home = self._first_home(op)
        given = self.plain(op.operands[0]) if home is None else home
        return layout_for(op, given, self._num_warps)

    def plain(self, value: Value) -> Layout:
        return plain(value.type, self._num_warps)

    def product(self, op: Op) -> Layout:
        """The layout of a dot's accumulator: that of the tensor cores, if they make it."""
        product = wgmma.choose(op, self._capability, self._num_warps)
        if product is not None and not any(map(self._comes_by_elements, op.operands[:2])):
            return product.accumulator
        if choose(op, self._capability) is None:
            return self.plain(op.result)
        rows, columns = padded_shape(shape_of(op.result.type))[-2:]
        return accumulator_layout(op, warp_grid(rows, columns, self._num_warps, op in self._chained))

    def _comes_by_elements(self, value: Value) -> bool:
        """Whether an operand is made of what is loaded in less than words.

        No copy moves such elements, and threads would write them one by one to where a product of warpgroups reads
        them: 0.76 and 0.90 of the speed of mma.sync for 1001 and 1000 columns (bf16, H200, 2026-11-30).
        """
        return any(self._accesses.run_of(load)[1] * element_bytes(load.operands[0].type) < _WORD_BYTES
                   for load in loads_above(value, self._ops))

    # -- which tiles are flexible

    def _find_flexible(self, block: Block) -> None:
        for op in block.ops:
            if self._is_flexible(op):
                self.flexible.update(op.results)
            elif op.row.effects & Effect.NESTED:
                for region in op.regions:
                    self._find_flexible(region)

    def _is_flexible(self, op: Op) -> bool:
        if op.results and op.results[0] in self._settled:
            return False
        if op.name in _LEAVES or (op.name == "broadcast" and grown_dims(op)):
            return True
        if not (op.row.elementwise or op.name in _SHAPES or op.name == "broadcast") or not op.row.is_pure:
            return False
        if op.name == "reshape" and not stays_in_place(op):
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
            if op.name in CONTROL:
                self._control(op)
            elif op.results and any(is_tile(r) and r not in self.home and r not in self.flexible for r in op.results):
                rule = _FORWARD.get(op.name, _Homes._like_operands)
                for result in op.results:
                    self._set(result, rule(self, op, result))

    def _control(self, op: Op) -> None:
        for region in op.regions:
            self._forward(region)
        into, same = carried(op)
        for each in into:
            # what comes round decides before what a loop starts with
            self._set(each.to, self._known(*reversed(each.sources) if op.name != "if" else each.sources))
        for result, arg in same:
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
                if op.name in CONTROL:
                    self._backward(region)
            if op.name in ACCESSES:
                for v in op.operands:
                    if is_tile(v):
                        self._set(v, self.runs_in(op))
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
            if op.name in CONTROL:
                found += [a for region in op.regions for a in region.args if is_tile(a)]
            found += [r for r in op.results if is_tile(r)]
        return found


Rule = Callable[[_Homes, Op, Value], "Layout | None"]


def _follows(homes: _Homes, op: Op, result: Value) -> Layout | None:
    """The home of a shape op's result, from its operand's."""
    if not stays_in_place(op):
        return homes.plain(result)
    home = homes.home.get(op.operands[0])
    return None if home is None else result_layout(op, home)


def _reduce(homes: _Homes, op: Op, result: Value) -> Layout | None:
    return None if homes._waits(op) else views.sliced(homes.runs_in(op), op.attrs["axis"])


def _join(homes: _Homes, op: Op, result: Value) -> Layout | None:
    return None if homes._waits(op) else views.joined(homes.runs_in(op))


def _special(homes: _Homes, op: Op, result: Value) -> Layout | None:
    if homes._waits(op):
        return None
    layout = homes.runs_in(op)
    return views.halved(layout) if op.name == "split" else layout


_FORWARD: Mapping[str, Rule] = {
    **dict.fromkeys(("load", "atomic_rmw", "atomic_cas"), lambda homes, op, result: homes.runs_in(op)),
    **dict.fromkeys(_MOVING, lambda homes, op, result: homes.plain(result)),
    **dict.fromkeys(("scan", "sort", "split", "map", "inline_asm", "inline_asm_ordered"), _special),
    "dot": lambda homes, op, result: homes.product(op),
    "reduce": _reduce, "join": _join,
    **dict.fromkeys(("expand_dims", "permute", "reshape", "broadcast", "hint", "box"), _follows),
}
