"""What an assignment of layouts costs, in slots of the load/store unit for a warp (`layout.plan` has the same unit).

An op costs what its instructions take in the layout that it runs in, a conversion what `plan.estimate` says, both
times the trips of the loops around them; a conversion stands behind the definition of its value (`lay_out`).
Sources of the numbers: a request of a warp to memory, or a shuffle, takes a slot, and four instructions are issued in
that time (CUDA C++ Programming Guide, throughput of native arithmetic instructions).  A barrier is `exchange.BARRIER`.
Tests: tests/targets/nvidia/test_assign.py.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from tilewright.analysis.uniform import Uniform
from tilewright.ir.node import Block, Module, Op, Value
from tilewright.ir.types import element_of
from tilewright.layout import Layout, views
from tilewright.layout.exchange import BARRIER
from tilewright.layout.linear import LANE, REGISTER, WARP
from tilewright.layout.plan import estimate
from tilewright.targets.nvidia.capability import Capability
from tilewright.targets.nvidia.mma import choose, operand_layout, warps_of
from tilewright.targets.nvidia.passes.accesses import Accesses
from tilewright.targets.nvidia.passes.asked import Asked
from tilewright.targets.nvidia.passes.assignment import ACCESSES, CONTROL
from tilewright.targets.nvidia.passes.special import owners_of

UNKNOWN_TRIPS = 16.0    # of a loop whose bounds are not known
MOST_TRIPS = 1024.0
_ALU = 0.25             # slots of an instruction that moves no data
_EXCHANGE = 1.5         # of a shuffle with the instruction that takes its result


class Costs:
    """The costs of one module."""

    def __init__(self, module: Module, accesses: Accesses, num_warps: int, capability: Capability) -> None:
        self._accesses, self._num_warps, self._capability = accesses, num_warps, capability
        self._uniform = Uniform.of(module.entry.body)
        self._trips: dict[Value, float] = {}
        self.ops: dict[Op, float] = {}          # how often each op is done
        self._count(module.entry.body, 1.0)

    def _count(self, block: Block, trips: float) -> None:
        self._trips.update(dict.fromkeys(block.args, trips))
        for op in block.ops:
            self.ops[op] = trips
            self._trips.update(dict.fromkeys(op.results, trips))
            if op.name in CONTROL:
                inside = trips * self._rounds(op)
                for region in op.regions:
                    self._count(region, inside)

    def _rounds(self, op: Op) -> float:
        if op.name == "if":
            return 1.0
        if op.name == "while":
            return UNKNOWN_TRIPS
        start, end, step = (self._uniform.integer_of(v) for v in op.operands[:3])
        if start is None or end is None or not step:
            return UNKNOWN_TRIPS
        return min(max(1.0, (end - start) / step), MOST_TRIPS)

    def trips(self, value: Value) -> float:
        """How often a value is made, and its conversions with it."""
        return self._trips.get(value, 1.0)

    def conversion(self, value: Value, have: Layout, want: Layout) -> float:
        if have == want:
            return 0.0
        return estimate(have, want, element_of(value.type).bytes) * self.trips(value)

    def own(self, op: Op, layout: Layout) -> float:
        """What `op` costs in the layout in which it takes its tiles, or gives its result if it has a free choice."""
        if op.name in ACCESSES:
            cost = self._accesses.cost(op, layout)
        elif op.name == "reduce":
            cost = reduction_cost(op, layout)
        elif op.name == "scan":
            cost = _scan_cost(op, layout)
        elif op.row.elementwise or op.name in ("map", "inline_asm", "inline_asm_ordered"):
            cost = _ALU * layout.size(REGISTER)
        else:
            return 0.0
        return cost * self.ops[op]

    def operands_of_dot(self, op: Op, result: Layout) -> Iterable[tuple[Value, Layout]]:
        """The operands of a dot that tensor cores make, each with the layout of its fragments."""
        mma, warps = choose(op, self._capability), warps_of(result, self._num_warps)
        if mma is not None and warps is not None:
            yield from ((v, operand_layout(which, op, mma, warps)) for which, v in zip("AB", op.operands, strict=False))

    def gain(self, first: Asked, second: Asked) -> float:
        """How much less the second assignment costs; only what differs is counted."""
        return sum(self._parts(first, second)) - sum(self._parts(second, first))

    def _parts(self, asked: Asked, other: Asked) -> Iterator[float]:
        """The costs of an assignment, but those that it has in common with another."""
        homes, others = asked.assignment, other.assignment
        moved = {v for v, layout in homes.home.items() if layout != others.home[v]}
        for value, wanted in asked.wanted.items():
            if value not in homes.flexible and (value in moved or wanted != other.wanted.get(value)):
                yield from (self.conversion(value, homes.of(value), layout) for layout in wanted)
        for op in asked.by_op:
            if op in homes.runs:
                if homes.runs[op] != others.runs[op]:
                    yield self.own(op, homes.runs[op])
            elif op.name == "dot":
                yield from (self.conversion(v, homes.of(v), layout)
                            for v, layout in self.operands_of_dot(op, homes.of(op.result)) if v in moved)
            elif op.row.elementwise and op.results and op.results[0] in moved:
                yield self.own(op, homes.of(op.results[0]))


def _along(layout: Layout, axis: int, name: str) -> int:
    """How many bits of an input lie along an axis."""
    return sum(b != 0 for b in layout.coordinate(axis).bases(name))


def reduction_cost(op: Op, layout: Layout) -> float:
    """Of a `reduce` whose operands have `layout`."""
    axis, out = op.attrs["axis"], views.sliced(layout, op.attrs["axis"]).size(REGISTER)
    lanes, warps = (_along(layout, axis, name) for name in (LANE, WARP))
    cost = _ALU * layout.size(REGISTER) + _EXCHANGE * out * lanes
    if warps:
        cost += BARRIER / len(op.operands) + out * (1 + (1 << warps))
    return cost * len(op.operands)


def _scan_cost(op: Op, layout: Layout) -> float:
    """Of a `scan`: each step between lanes takes a shuffle and a merge, each element a merge or two, each round the way
    through shared memory."""
    axis, operands = op.attrs["axis"], len(op.operands)
    names = [name for name, _ in owners_of(layout, axis) or ()]
    run = 1 << next((k for k, name in enumerate(names) if name != REGISTER), len(names))
    heads, lanes = layout.size(REGISTER) // run, names.count(LANE)
    merges = heads * (2 * run - 1 + lanes)
    cost = _ALU * max(1, len(op.regions[0].ops) - 1) * merges + operands * heads * (lanes + (run > 1))
    if WARP in names:
        cost += BARRIER + operands * 2 * heads
    return cost
