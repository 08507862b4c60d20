"""The choices of layouts that a program leaves, as a graph: variables, and the values that go from one to another.

A variable is a layout that is chosen once: an access, a reduction, a scan or a dot runs in one; elementwise ops that
work on each other's results share one, shape ops follow by algebra, and what goes round a loop is one with what it
becomes.  (A conversion among elementwise ops may as well stand before or behind them all, unless they widen or narrow:
there a new variable begins, so that the narrow side can be converted.)  A value's *spot* is a variable and the steps
that lead from its layout to the value's.  A *link* is a use: a value, and the spot in whose layout it is asked for.
Tests: tests/targets/nvidia/test_assign.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from tilewright.ir.layout_rules import grown_dims
from tilewright.ir.node import Block, Op, Value
from tilewright.ir.types import element_of
from tilewright.ir.walk import defining_ops
from tilewright.layout import Layout
from tilewright.targets.nvidia.passes.assignment import (
    ACCESSES,
    ASKING,
    CONTROL,
    Assignment,
    carried,
    is_tile,
    stays_in_place,
)
from tilewright.targets.nvidia.passes.spots import Chain, Step, Way, inverse, joined_chain

_LIKE_ELEMENTWISE = frozenset({"map", "inline_asm", "inline_asm_ordered"})
_MOVES_BITS = frozenset({"expand_dims", "permute", "reshape"})
_GIVES = {"reduce": Way.SLICED, "join": Way.JOINED, "split": Way.HALVED}

OperandsOfDot = Callable[[Op, Layout], Iterable[tuple[Value, Layout]]]


@dataclass(frozen=True)
class Spot:
    variable: int
    chain: Chain = ()


@dataclass(frozen=True)
class Link:
    value: Value
    spot: Spot


class Choices:
    """The graph of one function; `assignment` says what is flexible, and where dots give their results."""

    def __init__(self, body: Block, assignment: Assignment, operands_of_dot: OperandsOfDot) -> None:
        self._assignment, self._operands_of_dot = assignment, operands_of_dot
        self._ops = defining_ops(body)
        self._parent: dict[int, Spot] = {}
        self._soft: set[int] = set()            # variables of elementwise ops and loops, which may become one
        self._narrow: set[Value] = set()        # behind which a new variable begins
        self._count = 0
        self._spots: dict[Value, Spot] = {}
        self._runs: dict[Op, Spot] = {}
        self._links: dict[Link, None] = {}
        self.fixed: dict[int, Layout] = {}      # variables with one label
        self._block(body)
        self.spots = {v: self._root(s) for v, s in self._spots.items()}
        self.runs = {op: self._root(s) for op, s in self._runs.items()}
        self.links = list(dict.fromkeys(Link(k.value, self._root(k.spot)) for k in self._links))
        self.variables = [v for v in range(self._count) if v not in self._parent]

    # -- variables

    def _new(self, soft: bool = False) -> Spot:
        self._count += 1
        if soft:
            self._soft.add(self._count - 1)
        return Spot(self._count - 1)

    def _root(self, spot: Spot) -> Spot:
        while spot.variable in self._parent:
            up = self._parent[spot.variable]
            spot = Spot(up.variable, joined_chain(up.chain, spot.chain))
        return spot

    def _unite(self, source: Value, to: Spot) -> bool:
        """Make the variables of `source` and `to` one, if both may be; whether both have one layout then."""
        a, b = self._root(self._spots[source]), self._root(to)
        if source in self._narrow or not self._soft >= {a.variable, b.variable}:
            return False
        if a.variable != b.variable:
            self._parent[b.variable] = Spot(a.variable, joined_chain(a.chain, inverse(b.chain)))
        return self._root(to) == a

    # -- uses

    def _ask(self, value: Value, spot: Spot) -> None:
        """A use of `value` in the layout of `spot`; a flexible value asks for its operands."""
        seen: set[tuple[Value, Chain]] = set()
        work = [(value, spot.chain)]
        while work:
            v, chain = work.pop()
            if not is_tile(v) or (v, chain) in seen:
                continue
            seen.add((v, chain))
            if v in self._spots:
                self._links[Link(v, Spot(spot.variable, chain))] = None
            elif v in self._assignment.flexible:
                op = self._ops[v]
                if op.name in _MOVES_BITS or (op.name == "broadcast" and grown_dims(op)):
                    chain = joined_chain(chain, (Step(Way.OPERAND, op),))
                work += [(operand, chain) for operand in op.operands]

    def _together(self, value: Value, spot: Spot) -> None:
        """A use that costs nothing if both are in one variable."""
        if value not in self._spots or not self._unite(value, spot):
            self._ask(value, spot)

    # -- ops

    def _block(self, block: Block) -> None:
        for op in block.ops:
            if op.name in CONTROL:
                self._control(op)
            elif not (op.results and op.results[0] in self._assignment.flexible):
                self._op(op)

    def _control(self, op: Op) -> None:
        into, same = carried(op)
        tiles = [each for each in into if is_tile(each.to)]
        self._spots.update((each.to, self._new(soft=True)) for each in tiles)
        self._spots.update((result, self._spots[arg]) for result, arg in same if is_tile(arg))
        for region in op.regions:
            self._block(region)
        for each in tiles:
            begins = op.name != "if" and len(each.sources) > 1      # what a loop starts with is converted before it
            for k, source in enumerate(each.sources):
                (self._ask if begins and k == 0 else self._together)(source, self._spots[each.to])

    def _op(self, op: Op) -> None:
        if op.name in ACCESSES or (op.name in ASKING and op.name not in _LIKE_ELEMENTWISE):
            if any(is_tile(v) for v in op.operands):
                self._anchored(op)
        elif not any(is_tile(v) for v in op.results):
            return
        elif op.name == "dot":
            self._dot(op)
        elif stays_in_place(op):
            self._shape(op)
        elif op.row.elementwise or op.name in _LIKE_ELEMENTWISE:
            self._elementwise(op)
        else:
            self._free(op)

    def _shape(self, op: Op) -> None:
        source, step = op.operands[0], (Step(Way.RESULT, op),) if op.name in _MOVES_BITS else ()
        if source not in self._spots:       # it is flexible, though this op is not
            self._spots[op.result] = spot = self._new(soft=True)
            self._ask(source, Spot(spot.variable, inverse(step)))
            return
        spot = self._spots[source]
        self._spots[op.result] = Spot(spot.variable, joined_chain(spot.chain, step))
        if source in self._narrow:
            self._narrow.add(op.result)

    def _free(self, op: Op) -> None:
        """Ops whose code gives the results in any layout."""
        for result in op.results:
            if is_tile(result):
                self._spots[result] = self._new(soft=True)
        if op.name == "gather":
            self._ask(op.operands[1], self._spots[op.result])

    def _elementwise(self, op: Op) -> None:
        spot = self._new(soft=True)
        self._spots.update((result, spot) for result in op.results if is_tile(result))
        if op.name in _LIKE_ELEMENTWISE:
            self._runs[op] = spot
        size = element_of(op.results[0].type).bytes
        sizes = [element_of(v.type).bytes for v in op.operands if is_tile(v)]
        for v in op.operands:
            if is_tile(v):
                (self._ask if element_of(v.type).bytes < size else self._together)(v, spot)
        if sizes and max(sizes) > size:
            self._narrow.update(op.results)

    def _anchored(self, op: Op) -> None:
        spot = self._runs[op] = self._new()
        for v in op.operands:
            self._ask(v, spot)
        if op.name == "histogram":
            self._free(op)
            return
        chain = (Step(_GIVES[op.name], op),) if op.name in _GIVES else ()
        self._spots.update((result, Spot(spot.variable, chain)) for result in op.results if is_tile(result))

    def _dot(self, op: Op) -> None:
        spot, layout = self._new(), self._assignment.of(op.result)
        self._spots[op.result], self.fixed[spot.variable] = spot, layout
        self._ask(op.operands[2], spot)
        for v, wanted in self._operands_of_dot(op, layout):
            self._ask(v, Spot(spot.variable, (Step(Way.FIXED, op, wanted),)))
