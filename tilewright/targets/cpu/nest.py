"""Loop nests over the indices of a tile, innermost in explicit vectors.

`iterate(nest, body)` calls `body(evaluator, index)` for every group of lanes of the shape, each element once, in
row-major order of the groups.  One dimension is the vector dimension: whole vectors, unrolled, then narrower ones for
what is left, so every size works.  Dimensions of size one cost nothing.

Before: `Nest` names shape, width and facts.  Tests: tests/targets/cpu/test_nests.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial

from tilewright.ir.node import Op
from tilewright.ir.node import Value as TileValue
from tilewright.targets.cpu import lanes
from tilewright.targets.cpu.code import Code
from tilewright.targets.cpu.evaluate import Evaluator, Facts, Index
from tilewright.targets.cpu.lanes import Lane
from tilewright.targets.cpu.state import Kernel
from tilewright.targets.llvm.types import I64, Value, constant

WORTH_TURNING = 8   # tiles with smaller sides are not worth a transposition in registers
LINE = 64           # bytes of a line of the caches
LONG_ROW = 16       # vectors from which a row's own loops, and a head, cost nothing that counts

Body = Callable[[Evaluator, Index], None]


@dataclass(frozen=True, slots=True)
class Line:
    """The tile of addresses, each the next one of `bytes`, by which a nest looks where lines of memory begin."""

    pointer: TileValue
    bytes: int


@dataclass(frozen=True, slots=True)
class Split:
    """Where masks along the vector dimension end: how many indices come before (i64), and the facts before and after.

    Without `rest` nothing is done after it, and if there is a `line`, whole vectors begin where lines do (`heads`).
    """

    limit: Value
    inside: Facts
    outside: Facts
    rest: bool = True
    line: Line | None = None


@dataclass(slots=True)
class Nest:
    """A nest under construction: what its evaluators share."""

    kernel: Kernel
    shape: tuple[int, ...]
    width: int
    floor: int                                # level above which the nest's loads may not move
    facts: Facts
    axis: int = -1                            # the vector dimension; -1: the last one that is not of size one
    unroll: int = 1                           # vectors in an iteration of the innermost loop
    minor: bool = False                       # of little weight: its loops hide how they count (`Code.counted`)
    streams: int = 0                          # bytes of the elements whose stores bypass the caches; 0: of none
    split: Split | None = None
    ahead: Mapping[Op, Value] = field(default_factory=dict)    # loads that prefetch, and how many bytes ahead
    evaluators: dict[tuple[int, int], Evaluator] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.axis < 0:
            self.axis = vector_axis(self.shape)

    def rows(self, dimensions: Sequence[int], index: list[Lane], body: Callable[[list[Lane]], None]) -> None:
        """Loops over `dimensions`, the first one outermost, around `body(index)`, whose elements they set."""
        if not dimensions:
            body(index)
            return
        dimension, *rest = dimensions
        size = self.shape[dimension]

        def run(i: Value, _: tuple[Value, ...]) -> tuple[Value, ...]:
            index[dimension] = moving(i, 0, 1, size)
            self.rows(rest, index, body)
            return ()

        self.kernel.code.counted(size, 1, run, hidden=self.minor)

    def evaluator(self, width: int, facts: Facts | None = None) -> Evaluator:
        """The nest's evaluator for groups of `width` lanes, of a part of the nest where `facts` hold."""
        facts = self.facts if facts is None else facts
        key = width, id(facts)
        if key not in self.evaluators:
            self.evaluators[key] = Evaluator(self.kernel, width, self.floor, facts, self.ahead)
        return self.evaluators[key]

    @contextmanager
    def vectors_of(self, lanes: int) -> Iterator[None]:
        """Parts that write `lanes` at once, from where a line begins: they bypass the caches only in whole lines."""
        outer = self.streams
        self.streams = outer if lanes * outer % LINE == 0 else 0
        try:
            yield
        finally:
            self.streams = outer

    @contextmanager
    def apart(self) -> Iterator[None]:
        """Within a branch: what is evaluated there is not known outside, nor in another one."""
        outer, self.evaluators = self.evaluators, {}
        try:
            yield
        finally:
            self.evaluators = outer


def vector_axis(shape: Sequence[int]) -> int:
    """The last dimension that is not of size one (the last of all if every one is)."""
    return max((d for d, size in enumerate(shape) if size > 1), default=len(shape) - 1)


def fixed(position: int, width: int = 1) -> Lane:
    """`width` indices from a known position."""
    return lanes.index(constant(I64, 0), position, 1 if width > 1 else 0, 1 << 62, position, position + width - 1)


def moving(base: Value, offset: int, step: int, size: int, width: int = 1) -> Lane:
    """`width` indices from `base` + `offset`, where `base` is a loop's index in steps of `step`, below `size`."""
    return lanes.index(base, offset, 1 if width > 1 else 0, step & -step, offset, size - 1)


def tail_pieces(size: int, width: int) -> Iterator[tuple[int, int]]:
    """(start, width) of the narrower vectors that cover what whole vectors of `width` leave of `size`."""
    start = size // width * width
    while start < size:
        piece = 1 << ((size - start).bit_length() - 1)
        yield start, piece
        start += piece


def iterate(nest: Nest, body: Body) -> None:
    """Run `body` at every group of lanes (see the module's docstring)."""
    order = [d for d in range(len(nest.shape)) if d != nest.axis and nest.shape[d] > 1]
    index = [fixed(0)] * len(nest.shape)
    rows = max(1, nest.unroll // max(1, -(-nest.shape[nest.axis] // nest.width))) if order else 1
    _outer(nest, order, index, rows, body)


def _outer(nest: Nest, order: list[int], index: list[Lane], rows: int, body: Body) -> None:
    if not order:
        _inner(nest, index, body)
        return
    dimension, rest = order[0], order[1:]
    size = nest.shape[dimension]
    step = rows if not rest and size % rows == 0 and size > rows else 1
    if size <= rows and not rest:
        for k in range(size):
            index[dimension] = fixed(k)
            _outer(nest, rest, index, rows, body)
        return

    def run(i: Value, _: tuple[Value, ...]) -> tuple[Value, ...]:
        for k in range(step):
            index[dimension] = moving(i, k, step, size)
            _outer(nest, rest, index, rows, body)
        return ()

    nest.kernel.code.counted(size, step, run, hidden=nest.minor)


def _inner(nest: Nest, index: list[Lane], body: Body) -> None:
    """The vector dimension: a loop of unrolled vectors, the vectors that are left, the narrower ones."""
    if nest.split is not None:
        _split(nest, nest.split, index, body)
        return
    size, width, axis = nest.shape[nest.axis], nest.width, nest.axis
    vectors = size // width
    unroll = nest.unroll
    unrolled = vectors // unroll * unroll if vectors > unroll else 0
    step = unroll * width

    def run(i: Value, _: tuple[Value, ...]) -> tuple[Value, ...]:
        def part(u: int) -> None:
            index[axis] = moving(i, u * width, step, unrolled * width, width)
            body(nest.evaluator(width), tuple(index))

        nest.kernel.code.interleaved(partial(part, u) for u in range(unroll))
        return ()

    if unrolled:
        with nest.vectors_of(step):
            nest.kernel.code.counted(unrolled * width, step, run, hidden=nest.minor)
    for start, piece in ((v * width, width) for v in range(unrolled, vectors)):
        with nest.vectors_of((vectors - unrolled) * width):
            index[axis] = fixed(start, piece)
            body(nest.evaluator(piece), tuple(index))
    for start, piece in tail_pieces(size, width):
        with nest.vectors_of(1):
            index[axis] = fixed(start, piece)
            body(nest.evaluator(piece), tuple(index))


def down_to(code: Code, number: Value, step: int) -> Value:
    """The multiple of `step`, a power of two, at or below `number`."""
    return code.fold("and", number, constant(I64, -step))


def fits_head(code: Code, split: Split, size: int, width: int) -> Value:
    """i1: whether a row of `size` that ends at the limit is long enough for a head, and vectors behind it still fit."""
    least, most = 2 * width, size - width
    moved = code.fold("sub", split.limit, constant(I64, least))
    return code.icmp("ule", moved, constant(I64, max(0, most - least)))


def _head(nest: Nest, split: Split, index: Sequence[Lane]) -> Value | None:
    """How many indices of a row come before a line of memory begins (i64), fewer than a vector; None: not asked."""
    code, size, line = nest.kernel.code, nest.shape[nest.axis], split.line
    if line is None or split.rest or size < LONG_ROW * nest.width:
        return None
    e = nest.evaluator(1, split.inside)
    at = (*index[:nest.axis], fixed(0), *index[nest.axis + 1:])
    address = code.cast("ptrtoint", e.scalar(e.at(line.pointer, at)), I64)
    behind = code.op("lshr", code.op("sub", constant(I64, 0), address), constant(I64, line.bytes.bit_length() - 1))
    before = code.op("and", behind, constant(I64, min(nest.width, LINE // line.bytes) - 1))
    return code.select(fits_head(code, split, size, nest.width), before, constant(I64, 0))


def _split(nest: Nest, split: Split, index: list[Lane], body: Body) -> None:
    """The vector dimension, a power of two, in parts."""
    _Parts(nest, split, index, body).emit()


class _Parts:
    """The parts of a split row.  What is hoisted out of one stays within its branch."""

    def __init__(self, nest: Nest, split: Split, index: list[Lane], body: Body) -> None:
        self.nest, self.split, self.index, self.body = nest, split, index, body
        self.code, self.size, self.width = nest.kernel.code, nest.shape[nest.axis], nest.width
        self.unroll = nest.unroll if self.size > nest.unroll * self.width else 1    # one that is split is seldom full
        head = _head(nest, split, index)
        self.head = head
        self.begin = constant(I64, 0) if head is None else head
        self.left = self.code.fold("sub", split.limit, self.begin)
        self.edge = self.code.fold("add", self.begin, down_to(self.code, self.left, self.width))

    def emit(self) -> None:
        code, split, width = self.code, self.split, constant(I64, self.width)
        self._share()
        if self.head is not None:
            head = self.head
            code.branch(code.icmp("ne", head, constant(I64, 0)), lambda: self._before(head))
        code.branch(code.icmp("sge", split.limit, width), self._whole)
        code.branch(code.icmp("slt", self.edge, split.limit), self._last)
        if split.rest:
            after = down_to(code, code.fold("add", split.limit, constant(I64, self.width - 1)), self.width)
            code.branch(code.icmp("slt", after, constant(I64, self.size)), lambda: self._behind(after))

    def _run(self, place: Lane, facts: Facts | None) -> None:
        self.index[self.nest.axis] = place
        self.body(self.nest.evaluator(self.width, facts), tuple(self.index))

    def _place(self, base: Value, offset: int, step: int) -> Lane:
        return moving(base, offset, step if self.head is None else 1, self.size, self.width)

    def _over(self, start: Value, stop: Value, count: int, facts: Facts, hidden: bool) -> None:
        """A loop over `count` vectors at once."""
        step = count * self.width

        def run(i: Value, _: tuple[Value, ...]) -> tuple[Value, ...]:
            self.code.interleaved(
                partial(self._run, self._place(i, u * self.width, step), facts) for u in range(count))
            return ()

        with self.nest.vectors_of(step):
            self.code.loop(start, stop, constant(I64, step), run, hidden=hidden or self.nest.minor)

    def _share(self) -> None:
        """What all parts need is computed once, before the first one."""
        with self.nest.apart(), self.code.trial() as i:
            self._run(self._place(i, 0, self.width), self.split.inside)

    def _before(self, head: Value) -> tuple[Value, ...]:
        """The head: whole vectors can be read there, but not all of their lanes are to be written."""
        with self.nest.apart(), self.nest.vectors_of(1):
            e = self.nest.evaluator(self.width, self.split.inside)
            e.gate = e.lanes_below(head)
            self._run(fixed(0, self.width), self.split.inside)
        return ()

    def _whole(self) -> tuple[Value, ...]:
        first = self.code.fold("add", self.begin, down_to(self.code, self.left, self.unroll * self.width))
        with self.nest.apart():
            self._over(self.begin, first, self.unroll, self.split.inside, hidden=False)
            if self.unroll > 1:
                self._over(first, self.edge, 1, self.split.inside, hidden=True)
        return ()

    def _last(self) -> tuple[Value, ...]:
        with self.nest.apart(), self.nest.vectors_of(1):
            self._run(self._place(self.edge, 0, self.width), None)
        return ()

    def _behind(self, after: Value) -> tuple[Value, ...]:
        with self.nest.apart():
            self._over(after, constant(I64, self.size), 1, self.split.outside, hidden=True)
        return ()
