"""Which tiles are computed where they are used, and which once into scratch.

A *virtual* op (elementwise, rearrangement, load) makes a tile that nests evaluate element by element.  Every other op
that takes tiles is a *root*: stores, reductions, dots, loops, terminators.  `Plan` finds for each virtual tile the
roots that need it, in one walk from the last op to the first, and decides on the way which tiles are worth a place in
scratch: dear ones that several roots need, or that a broadcast or a loop would compute again and again.
A planned tile is computed in the nest of the first root that needs it, where that nest has its shape.

Before: a function without calls.  Nothing is changed.  Tests: tests/targets/cpu/test_plan.py.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from tilewright.ir.node import Block, Op, Value
from tilewright.ir.types import Scalar, Tile, element_of, shape_of
from tilewright.ir.walk import is_isolated
from tilewright.targets.cpu.evaluate import VIRTUAL_SHAPES
from tilewright.targets.cpu.nest import WORTH_TURNING, vector_axis
from tilewright.targets.llvm import mathlib

_DEAR = 8            # cost from which a tile is kept rather than computed twice
_LOAD = 2            # cost of a load; what a loop would repeat is kept from here on
_GATHER = 10
_CHAIN = 40          # longest chain of virtual ops; bounds the depth of recursion in the evaluator
_COSTS = {**dict.fromkeys(("exp", "exp2", "log", "log2", "sin", "cos", "tanh", "erf", "rem_f"), 12),
          **dict.fromkeys(("div_s", "div_u", "rem_s", "rem_u", "div_f", "div_rn", "sqrt", "sqrt_rn", "rsqrt"), 5)}
# Dear as well; but of the others four vectors at once are faster than two (expm1 1.4 times, atan and log10 1.2; Zen 3,
# 2026-12-01), so that `unrolling` does not count them.
_FUNCTIONS = frozenset({*mathlib.FUNCTIONS, *mathlib.BINARY}) - {"floor", "ceil"}
_MOST = 1 << 20
# Loop nests from which each becomes a function of its own: LLVM takes more than linear time for a function (a kernel of
# 100 unrolled stores 2.8 s, of 200 9.2 s), and a call takes nanoseconds.
_LARGE = 32


def unrolling(ops: Iterable[Op]) -> int:
    """How many vectors a nest that computes `ops` takes at once.

    Four hide the latency of loads; long computations, and those with many loads, have parallelism enough and would
    only grow the code.
    """
    ops = list(ops)
    total, loads = work(ops), sum(op.name == "load" for op in ops)
    return 4 if total < 5 and loads < 12 else 2 if total < 20 and loads < 24 else 1


def work(ops: Iterable[Op]) -> int:
    """What the dear ones among `ops` cost an element."""
    return sum(_COSTS.get(op.name, 0) for op in ops)


@dataclass(slots=True)
class Place:
    """Where an op stands: its number in program order, its block and index there, and the op around the block."""

    number: int
    block: Block
    index: int
    around: Op | None


@dataclass(slots=True)
class Need:
    """The roots that need a tile, and whether a broadcast lies between."""

    roots: set[Op] = field(default_factory=set)
    repeated: bool = False


def is_virtual(op: Op) -> bool:
    """Whether the tiles that `op` makes can be computed where they are used."""
    if not op.results or not all(isinstance(r.type, Tile) for r in op.results):
        return False
    if op.name == "load":
        return not op.attrs.get("volatile", False)
    return op.row.elementwise or op.name in VIRTUAL_SHAPES


class Plan:
    """Decisions for one function's body (see the module's docstring)."""

    def __init__(self, body: Block, other_axis: Callable[[Value], int | None] = lambda pointer: None) -> None:
        """`other_axis`: along which other dimension than the last a tile of pointers is contiguous, or None."""
        self._other_axis = other_axis
        self.turned: dict[Value, int] = {}      # tiles to be transposed, with the dimension that they are read along
        self.places: dict[Op, Place] = {}
        self._order: list[Op] = []
        self._number(body, None)
        self._users: dict[Value, list[Op]] = {}
        self._home: dict[Value, Block] = {}
        for op in self._order:
            for operand in dict.fromkeys(op.operands):
                self._users.setdefault(operand, []).append(op)
        self.needs: dict[Value, Need] = {}
        self.kept: set[Value] = set()
        self._cost: dict[Value, int] = {}
        self._chain: dict[Value, int] = {}
        self._makers = {value: op for op in self._order for value in op.results}
        for op in self._order:
            self._weigh(op)
        for op in reversed(self._order):
            for value in op.results:
                self._decide(op, value)
        nests = sum(not is_virtual(op) and any(isinstance(v.type, Tile) for v in op.operands) for op in self._order)
        self.is_large = nests + len(self.kept) > _LARGE

    def _number(self, block: Block, around: Op | None) -> None:
        for index, op in enumerate(block.ops):
            self.places[op] = Place(len(self._order), block, index, around)
            self._order.append(op)
            if not is_isolated(op):
                for region in op.regions:
                    self._number(region, op)

    def _weigh(self, op: Op) -> None:
        """Cost and chain length of the tiles that `op` makes, if it is virtual."""
        if not is_virtual(op):
            return
        parts = [self._cost.get(v, 1 if isinstance(v.type, Tile) else 0) for v in op.operands]
        own = _COSTS.get(op.name, _DEAR if op.name in _FUNCTIONS else 1)
        if op.name == "load":
            own = _LOAD if parts[0] == 0 else _GATHER
            axis = self._other_axis(op.operands[0])
            if axis is not None:
                self._turn(op.result, axis)
                return
        elif op.name == "permute" and (axis := self._permuted_axis(op)) is not None:
            self._turn(op.result, axis)
            return
        elif op.name in VIRTUAL_SHAPES or op.name == "ptr_add" or (sum(parts) == 0 and _is_index(op)):
            own = 0
        for value in op.results:
            self._cost[value] = min(_MOST, sum(parts) + own)
            self._chain[value] = 1 + max((self._chain.get(v, 0) for v in op.operands), default=0)
            if self._chain[value] > _CHAIN:
                self.kept.add(value)
                self._chain[value], self._cost[value] = 0, 1

    def _turn(self, value: Value, axis: int) -> None:
        """Keep `value`, and read it along `axis`."""
        self.turned[value] = axis
        self.kept.add(value)
        self._cost[value], self._chain[value] = 1, 0

    def _permuted_axis(self, op: Op) -> int | None:
        """The dimension of a permutation's result that neighbours in memory go to, if vectors would gather them."""
        shape, order = shape_of(op.result.type), op.attrs["order"]
        last, axis = vector_axis(shape), order.index(vector_axis(shape_of(op.operands[0].type)))
        if axis == last or min(shape[axis], shape[last]) < WORTH_TURNING:
            return None
        return axis if self._is_from_memory(op.operands[0]) else None

    def _is_from_memory(self, value: Value) -> bool:
        """Whether reading `value` at an index reads memory there: a load, scratch, or elementwise from such."""
        work, seen = [value], set[Value]()
        while work:
            value = work.pop()
            op = self._makers.get(value)
            if value in seen or not isinstance(value.type, Tile):
                continue
            seen.add(value)
            if op is None or op.name == "load" or not is_virtual(op) or value in self.kept:
                return True
            if op.row.elementwise:
                work += op.operands
        return False

    def _decide(self, op: Op, value: Value) -> None:
        need = self.needs[value] = Need()
        for user in self._users.get(value, ()):
            self._follow(value, user, need)
        if not is_virtual(op) or value in self.kept or not need.roots:
            return
        cost = self._cost[value]
        again = cost >= _DEAR and (len(need.roots) > 1 or need.repeated)
        if again or (cost >= _LOAD and any(self._in_loop_of(op, root) for root in need.roots)):
            self.kept.add(value)

    def _follow(self, value: Value, user: Op, need: Need) -> None:
        if not is_virtual(user):
            need.roots.add(user)
            return
        for result in user.results:
            inner = self.needs[result]
            if not inner.roots:
                continue
            grows = isinstance(value.type, Tile) and isinstance(result.type, Tile) and (
                result.type.numel > value.type.numel)
            need.repeated |= grows
            if result in self.kept:
                need.roots.add(min(inner.roots, key=lambda o: self.places[o].number))
            else:
                need.roots |= inner.roots
                need.repeated |= inner.repeated

    def _in_loop_of(self, op: Op, root: Op) -> bool:
        """Whether a loop lies around `root` but not around `op`."""
        return any(outer.name in ("for", "while") for outer in self._path(op, root))

    def _path(self, op: Op, root: Op) -> Iterator[Op]:
        """The ops around `root`, from within, up to the block of `op`."""
        place, home = self.places[root], self.places[op].block
        while place.block is not home and place.around is not None:
            yield place.around
            place = self.places[place.around]

    def ancestor(self, op: Op, block: Block) -> Op | None:
        """`op`, or the op around it, that stands in `block`; None if `op` is not within it."""
        place = self.places[op]
        while place.block is not block:
            if place.around is None:
                return None
            op, place = place.around, self.places[place.around]
        return op

    def maker(self, value: Value) -> Op | None:
        """The op whose result `value` is; None for an argument of a block."""
        return self._makers.get(value)

    def users(self, value: Value) -> Sequence[Op]:
        """The ops that have `value` as an operand, in order."""
        return self._users.get(value, ())

    def is_zero(self, value: Value) -> bool:
        """Whether every element of `value` is known to be 0, or +0.0."""
        op = self._makers.get(value)
        while op is not None and op.name in ("splat", "broadcast", "expand_dims", "reshape"):
            op = self._makers.get(op.operands[0])
        if op is None or op.name != "constant":
            return False
        number = op.attrs["value"]
        return isinstance(number, (int, float)) and number == 0 and math.copysign(1.0, number) > 0

    def last_use(self, value: Value, block: Block) -> int:
        """Index in `block` of the last op that needs `value` (-1: none)."""
        need = self.needs.get(value)
        last = -1
        for root in need.roots if need is not None else self.roots_of_argument(value):
            outer = self.ancestor(root, block)
            if outer is not None:
                last = max(last, self.places[outer].index)
        return last

    def roots_of_argument(self, value: Value) -> set[Op]:
        """The roots that need a block argument."""
        need = self.needs[value] = Need()
        for user in self._users.get(value, ()):
            self._follow(value, user, need)
        return need.roots

    def roots(self, value: Value) -> set[Op]:
        """The roots that need `value`."""
        need = self.needs.get(value)
        return need.roots if need is not None else self.roots_of_argument(value)


def _is_index(op: Op) -> bool:
    """Integer arithmetic that stays affine on affine operands."""
    element = element_of(op.results[0].type)
    return isinstance(element, Scalar) and element.is_int and element.bits > 1
