"""Reductions with any combine region, on vectors.

The region is taken to be associative and commutative, so partial results live in vector accumulators: several along
the reduced dimension when that is the vector dimension, then a tree over the accumulators and a tree of half vectors;
else one for each group of lanes beside it, over the reduced dimension.  Accumulators start with the region's identity
where it is a single op that has one, else with the first elements.  The order depends on the shape and on the nest's
version alone, so the result is the same for every run and thread count.
Before: see `fuse`.  After: a scalar, or a tile in scratch, for each input.  Tests: tests/targets/cpu/test_reduce.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from tilewright.ir.node import Op
from tilewright.ir.types import Tile, element_of, shape_of
from tilewright.targets.cpu import access
from tilewright.targets.cpu.elements import Lanes, combine
from tilewright.targets.cpu.elementwise import Elementwise
from tilewright.targets.cpu.evaluate import Evaluator, Facts, Index
from tilewright.targets.cpu.fuse import Walker
from tilewright.targets.cpu.lanes import Lane, vector
from tilewright.targets.cpu.nest import Nest, Split, down_to, fixed, moving, tail_pieces, vector_axis
from tilewright.targets.cpu.state import Buffer
from tilewright.targets.llvm.identities import identity_constant, identity_of
from tilewright.targets.llvm.types import I1, I64, constant
from tilewright.targets.llvm.types import Value as LlvmValue

# Regions whose result is no signalling NaN if one operand is none.
_QUIET = ("max_f", "min_f")

_LEAST_BITS = 128       # of the smallest vector registers



def lower(walker: Walker, op: Op) -> None:
    """A `reduce` op."""
    shape = shape_of(op.operands[0].type)
    fused = walker.prepare(op.operands, shape)
    whole = not isinstance(op.results[0].type, Tile)
    buffers = [] if whole else [walker.kernel.new_buffer(r.type) for r in op.results]

    def emit(nest: Nest) -> Sequence[LlvmValue]:
        return _Reduction(walker, op, nest, buffers).emit()

    results = walker.nest(op.operands, shape, fused, emit, splits=_may_split(op))
    if whole:
        for value, result in zip(op.results, results, strict=True):
            walker.kernel.bind_scalar(value, result)
    else:
        for value, buffer in zip(op.results, buffers, strict=True):
            walker.own(value, buffer)


def _is_along(op: Op) -> bool:
    """Whether vectors run along the reduced dimension."""
    return all(size == 1 for size in shape_of(op.operands[0].type)[op.attrs["axis"] + 1:])


def _may_split(op: Op) -> bool:
    shape = shape_of(op.operands[0].type)
    return _is_along(op) and vector_axis(shape) == op.attrs["axis"] and identity_of(op) is not None


class _Reduction:
    """One reduction in one version of its nest."""

    def __init__(self, walker: Walker, op: Op, nest: Nest, buffers: Sequence[Buffer]) -> None:
        self.walker, self.op, self.nest, self.buffers = walker, op, nest, buffers
        self.code = walker.code
        self.region = op.regions[0]
        self.axis: int = op.attrs["axis"]
        self.elements = [element_of(v.type) for v in op.operands]
        if _is_along(op):
            nest.axis = self.axis       # also where the reduced dimension has size one

    def emit(self) -> Sequence[LlvmValue]:
        """All results; the scalars of a whole reduction are returned."""
        shape = self.nest.shape
        along = self.nest.axis == self.axis
        self.returned: list[LlvmValue] = []
        outer = [d for d, size in enumerate(shape) if d not in (self.axis, self.nest.axis) and size > 1]
        self.nest.rows(outer, [fixed(0)] * len(shape), self._along if along else self._beside)
        return self.returned

    def _read(self, index: list[Lane], place: Lane, dimension: int, width: int, facts: Facts | None = None,
              visits: bool = True) -> Lanes:
        """The inputs at `index` with `place` along `dimension`; `visits`: fused tiles are stored there."""
        at = (*index[:dimension], place, *index[dimension + 1:])
        e = self.nest.evaluator(width, facts)
        if visits:
            self.walker.visit(e, at)
        return [e.at(v, at) for v in self.op.operands]

    def _combine(self, width: int, left: Lanes, right: Lanes) -> Lanes:
        return combine(self.walker, Elementwise(self.code, width), self.region, [*left, *right])

    # --- along the vector dimension

    def _along(self, index: list[Lane]) -> None:
        size, width, axis = self.nest.shape[self.axis], self.nest.width, self.axis
        total: Lanes | None = None
        vectors = size // width
        if self.nest.split is not None:
            self._finish(index, self._horizontal(width, self._split(index, self.nest.split)), self.nest.evaluator(1))
            return
        if vectors:
            total = self._horizontal(width, self._vectors(index, vectors, width))
        for start, piece in tail_pieces(size, width):
            part = self._horizontal(piece, self._read(index, fixed(start, piece), axis, piece))
            total = part if total is None else self._combine(1, total, part)
        assert total is not None
        self._finish(index, total, self.nest.evaluator(1))

    def _vectors(self, index: list[Lane], vectors: int, width: int) -> Lanes:
        """The whole vectors of a row, combined into one."""
        axis = self.axis
        count = min(2 * self.nest.unroll, vectors)
        start = self._identity(width)
        first = 0 if start is not None and vectors >= 2 * count else 1
        parts = [list(start) if start is not None and not first else
                 self._full(width, self._read(index, fixed(u * width, width), axis, width)) for u in range(count)]
        step, rounds = count * width, vectors // count
        if rounds > first:
            def run(i: LlvmValue, carried: tuple[LlvmValue, ...]) -> Sequence[LlvmValue]:
                following: list[LlvmValue] = []
                self._note_quiet(carried, not first)

                def part(u: int) -> None:
                    place = moving(i, first * step + u * width, step, rounds * step, width)
                    old = self._lanes(carried[u * len(self.elements):(u + 1) * len(self.elements)])
                    new = self._combine(width, old, self._read(index, place, axis, width))
                    following.extend(self._full(width, new))

                self.code.interleaved(partial(part, u) for u in range(count))
                return following

            flat = self.code.counted((rounds - first) * step, step, run, [v for part in parts for v in part],
                                     hidden=self.nest.minor)
            n = len(self.elements)
            parts = [list(flat[u * n:(u + 1) * n]) for u in range(count)]
        lanes = [self._lanes(part) for part in parts]
        for u, v in enumerate(range(rounds * count, vectors)):
            lanes[u] = self._combine(width, lanes[u], self._read(index, fixed(v * width, width), axis, width))
        return self._tree(width, lanes)

    def _tree(self, width: int, lanes: list[Lanes]) -> Lanes:
        while len(lanes) > 1:
            pairs = [self._combine(width, a, b) for a, b in zip(lanes[::2], lanes[1::2])]
            lanes = [*pairs, lanes[-1]] if len(lanes) % 2 else pairs
        return lanes[0]

    def _split(self, index: list[Lane], split: Split) -> Lanes:
        """A row whose masks end somewhere, combined into one vector (see `nest`); one input with an identity."""
        code, width, size = self.code, self.nest.width, self.nest.shape[self.axis]
        none = self._identity(width)
        assert none is not None

        def add(old: LlvmValue, place: Lane, facts: Facts) -> LlvmValue:
            (new,) = self._full(width, self._combine(width, self._lanes([old]), self._read(
                index, place, self.axis, width, facts)))
            return new

        def over(start: LlvmValue, stop: LlvmValue, values: Sequence[LlvmValue], facts: Facts) -> list[LlvmValue]:
            step = len(values) * width

            def run(i: LlvmValue, carried: tuple[LlvmValue, ...]) -> Sequence[LlvmValue]:
                self._note_quiet(carried)
                return code.interleaved(partial(add, v, moving(i, u * width, step, size, width), facts)
                                        for u, v in enumerate(carried))

            return self._note_quiet(code.loop(start, stop, constant(I64, step), run, values,
                                              hidden=len(values) == 1 or self.nest.minor))

        def whole() -> Sequence[LlvmValue]:
            count = min(2 * self.nest.unroll, size // width)
            first = down_to(code, split.limit, count * width)
            with self.nest.apart():
                parts = over(constant(I64, 0), first, none * count, split.inside)
                total = self._full(width, self._tree(width, [self._lanes([p]) for p in parts]))
                return over(first, edge, total, split.inside)

        def last() -> Sequence[LlvmValue]:
            with self.nest.apart():
                return [add(total[0], moving(edge, 0, width, size, width), self.nest.facts)]

        edge = down_to(code, split.limit, width)
        total: Sequence[LlvmValue] = none
        total = self._note_quiet(code.branch(code.icmp("sge", split.limit, constant(I64, width)), whole, lambda: none))
        total = self._note_quiet(code.branch(code.icmp("slt", edge, split.limit), last, lambda: total))
        after = down_to(code, code.fold("add", split.limit, constant(I64, width - 1)), width)

        def behind() -> Sequence[LlvmValue]:
            if self._is_alike(index, split.outside):
                return self._behind_alike(index, after, total, split.outside)
            with self.nest.apart():
                return over(after, constant(I64, size), total, split.outside)

        # in a branch, so that what only masked lanes need is not computed for full rows
        return self._lanes(self._note_quiet(
            code.branch(code.icmp("slt", after, constant(I64, size)), behind, lambda: total)))

    def _is_alike(self, index: list[Lane], facts: Facts) -> bool:
        """Whether the inputs are the same at every place of the row where `facts` hold."""
        width, size = self.nest.width, self.nest.shape[self.axis]
        with self.nest.apart(), self.code.trial() as i:
            inputs = self._full(width, self._read(index, moving(i, 0, width, size, width), self.axis, width, facts,
                                                  visits=False))
            return not any(map(self.code.is_within, inputs))

    def _behind_alike(self, index: list[Lane], after: LlvmValue, total: Sequence[LlvmValue],
                      facts: Facts) -> Sequence[LlvmValue]:
        """The rest of a row, where each vector is like the others: combined until one changes nothing any more.

        That is at once for what masks hide, mostly: 0 is added, or the maximum of infinitely small numbers taken.
        """
        code, width, size = self.code, self.nest.width, self.nest.shape[self.axis]
        end, step = constant(I64, size), constant(I64, width)

        def goes_on(values: tuple[LlvmValue, ...]) -> LlvmValue:
            return code.op("and", code.icmp("slt", values[0], end), values[1])

        def run(values: tuple[LlvmValue, ...]) -> Sequence[LlvmValue]:
            i, _, old = values
            self._note_quiet([old])
            (new,) = self._full(width, self._combine(width, self._lanes([old]), self._read(
                index, moving(i, 0, width, size, width), self.axis, width, facts, visits=False)))
            a, b = (code.bitcast(v, v.type.as_int) for v in (old, new))
            return code.op("add", i, step), code.any_lane(code.icmp("ne", a, b)), new

        def visit(i: LlvmValue, _: tuple[LlvmValue, ...]) -> Sequence[LlvmValue]:
            e = self.nest.evaluator(width, facts)
            self.walker.visit(e, (*index[:self.axis], moving(i, 0, width, size, width), *index[self.axis + 1:]))
            return ()

        with self.nest.apart():
            result = code.while_loop((after, constant(I1, 1), *total), goes_on, run)[2:]
        if self.walker.fuses:
            with self.nest.apart():
                code.loop(after, end, step, visit, hidden=True)
        return self._note_quiet(result)

    def _horizontal(self, width: int, lanes: Lanes) -> Lanes:
        """The lanes of a vector combined: halves, then quarters, down to a scalar.

        From the smallest register on it is rotated instead of cut: combining it is one instruction, scalars may not be.
        """
        values = self._full(width, lanes)
        if width == 1:
            return lanes
        least = min(width, max(_LEAST_BITS // v.type.bits if v.type.bits > 1 else 2 for v in values))
        left = width
        while left > 1:
            left //= 2
            if left >= least:
                parts = [(self.code.shuffle(v, v, range(left)), self.code.shuffle(v, v, range(left, 2 * left)))
                         for v in values]
            else:
                parts = [(v, self.code.shuffle(v, v, [(k + left) % least for k in range(least)])) for v in values]
            now = max(left, least)
            values = self._full(now, self._combine(now, *(self._lanes(side) for side in zip(*parts))))
        return self._lanes([self.code.extract(v, 0) for v in values])

    # --- beside it

    def _beside(self, index: list[Lane]) -> None:
        """Groups of lanes along the vector dimension, each reduced over the other one."""
        nest = self.nest
        size, width = nest.shape[nest.axis], nest.width
        vectors = size // width
        group = self.nest.unroll
        rounds = vectors // group if vectors > group else 0

        def run(i: LlvmValue, _: tuple[LlvmValue, ...]) -> tuple[LlvmValue, ...]:
            places = [moving(i, u * width, group * width, rounds * group * width, width) for u in range(group)]
            self._columns(index, places, width)
            return ()

        if rounds:
            self.code.counted(rounds * group * width, group * width, run)
        left = [fixed(v * width, width) for v in range(rounds * group, vectors)]
        if left:
            self._columns(index, left, width)
        for start, piece in tail_pieces(size, width):
            self._columns(index, [fixed(start, piece)], piece)

    def _columns(self, index: list[Lane], places: Sequence[Lane], width: int) -> None:
        size, axis, vector_dimension, n = self.nest.shape[self.axis], self.axis, self.nest.axis, len(self.elements)

        def read(row: Lane, place: Lane) -> Lanes:
            return self._read([*index[:axis], row, *index[axis + 1:]], place, vector_dimension, width)

        start = self._identity(width)
        first = 0 if start is not None and size > 1 else 1
        values = [v for place in places for v in (
            start if start is not None and not first else self._full(width, read(fixed(0), place)))]
        if size > first:
            def run(i: LlvmValue, carried: tuple[LlvmValue, ...]) -> Sequence[LlvmValue]:
                following: list[LlvmValue] = []
                self._note_quiet(carried, not first)
                for k, place in enumerate(places):
                    old = self._lanes(carried[k * n:(k + 1) * n])
                    following += self._full(width, self._combine(width, old, read(moving(i, first, 1, size), place)))
                return following

            values = list(self.code.counted(size - first, 1, run, values))
        for k, place in enumerate(places):
            at = [*index[:vector_dimension], place, *index[vector_dimension + 1:]]
            self._finish(at, self._lanes(values[k * n:(k + 1) * n]), self.nest.evaluator(width))

    # --- both

    def _identity(self, width: int) -> list[LlvmValue] | None:
        """Accumulators that change nothing."""
        number = identity_constant(self.op, width if width > 1 else 0)
        return None if number is None else [number]

    def _note_quiet(self, values: Sequence[LlvmValue], from_identity: bool = True) -> list[LlvmValue]:
        """Accumulators that started with the identity, as a list; what is known of their NaNs is noted."""
        if from_identity and self.region.ops[0].name in _QUIET:
            for value in values:
                self.code.note_quiet(value)
        return list(values)

    def _full(self, width: int, lanes: Lanes) -> list[LlvmValue]:
        e = Elementwise(self.code, width)
        return [e.full(lane) for lane in lanes]

    def _lanes(self, values: Sequence[LlvmValue]) -> Lanes:
        return [vector(t, v) for t, v in zip(self.elements, values, strict=True)]

    def _finish(self, index: list[Lane], lanes: Lanes, e: Evaluator) -> None:
        """Put the result for `index` (which has a place for the reduced dimension, unused) where it belongs."""
        if not self.buffers:
            self.returned = [e.full(lane) for lane in lanes]
            return
        at: Index = (*index[:self.axis], *index[self.axis + 1:])
        for lane, buffer in zip(lanes, self.buffers, strict=True):
            access.store_lane(e, e.buffer_pointer(buffer, at), lane, None)
