"""Tiles whose neighbours in memory lie along another dimension than the last one.

Such a load is contiguous along `axis`, but scratch is row-major.  Blocks of `width` by `width` elements are read as
vectors along `axis`, transposed in registers, and written as vectors along the last dimension, so nothing gathers.
Edges that fill no block are written element by element.
Before: a nest whose vector dimension is `axis`.  After: `body` has put every element into the buffer.
Tests: tests/targets/cpu/test_transpose.py.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tilewright.targets.cpu import access
from tilewright.targets.cpu.code import Code
from tilewright.targets.cpu.evaluate import Evaluator, Index
from tilewright.targets.cpu.lanes import Lane, vector
from tilewright.targets.cpu.nest import Nest, fixed, moving, tail_pieces, vector_axis
from tilewright.targets.cpu.state import Buffer
from tilewright.targets.llvm.types import Value

Read = Callable[[Evaluator, Index], Lane]


def square(code: Code, rows: Sequence[Value]) -> list[Value]:
    """The columns of a square of vectors: log2(n) rounds of exchanges between rows whose numbers differ in one bit."""
    rows, count, bit = list(rows), len(rows), 1
    while bit < count:
        lanes = range(count)
        upper = [k if not k & bit else count + k - bit for k in lanes]
        lower = [k + bit if not k & bit else count + k for k in lanes]
        for i in range(count):
            if not i & bit:
                a, b = rows[i], rows[i | bit]
                rows[i], rows[i | bit] = code.shuffle(a, b, upper), code.shuffle(a, b, lower)
        bit *= 2
    return rows


class Transposing:
    """Copies what `read` gives into `buffer`, in one version of a nest."""

    def __init__(self, nest: Nest, buffer: Buffer, read: Read) -> None:
        self.nest, self.buffer, self.read = nest, buffer, read
        self.code = nest.kernel.code
        self.last = vector_axis(nest.shape)

    def emit(self) -> None:
        """The whole tile."""
        outer = [d for d, n in enumerate(self.nest.shape) if n > 1 and d not in (self.last, self.nest.axis)]
        self._outer(outer, [fixed(0)] * len(self.nest.shape))

    def _outer(self, dimensions: Sequence[int], index: list[Lane]) -> None:
        if not dimensions:
            self._plane(index)
            return
        dimension, *rest = dimensions
        size = self.nest.shape[dimension]

        def run(i: Value, _: tuple[Value, ...]) -> tuple[Value, ...]:
            index[dimension] = moving(i, 0, 1, size)
            self._outer(rest, index)
            return ()

        self.code.counted(size, 1, run)

    def _plane(self, index: list[Lane]) -> None:
        """One matrix: blocks, then the rest of the rows, then the rest of the columns."""
        width, shape = self.nest.width, self.nest.shape
        across, down = shape[self.last], shape[self.nest.axis]
        blocks, whole = across // width * width, down // width * width
        if blocks and whole:
            def run(j: Value, _: tuple[Value, ...]) -> tuple[Value, ...]:
                def block(i: Value, _: tuple[Value, ...]) -> tuple[Value, ...]:
                    self._block(index, i, whole, j, blocks)
                    return ()

                self.code.counted(whole, width, block)
                return ()

            self.code.counted(blocks, width, run)
        pieces = [*((start, width) for start in range(0, whole, width)), *tail_pieces(down, width)]
        for start, piece in pieces:
            self._edge(index, start, piece, blocks if piece == width else 0, across)

    def _at(self, index: list[Lane], place: Lane, column: Lane) -> Index:
        at = list(index)
        at[self.nest.axis], at[self.last] = place, column
        return tuple(at)

    def _block(self, index: list[Lane], i: Value, rows: int, j: Value, columns: int) -> None:
        width = self.nest.width
        e = self.nest.evaluator(width)
        place = moving(i, 0, width, rows, width)
        lanes = [self.read(e, self._at(index, place, moving(j, k, width, columns))) for k in range(width)]
        turned = square(self.code, [e.full(lane) for lane in lanes])
        for k, value in enumerate(turned):
            at = self._at(index, moving(i, k, width, rows), moving(j, 0, width, columns, width))
            access.store_lane(e, e.buffer_pointer(self.buffer, at), vector(lanes[0].element, value), None)

    def _edge(self, index: list[Lane], start: int, width: int, first: int, stop: int) -> None:
        """Columns `first` to `stop` of the rows `start` to `start + width`."""
        if first >= stop:
            return
        e = self.nest.evaluator(width)

        def run(j: Value, _: tuple[Value, ...]) -> tuple[Value, ...]:
            at = self._at(index, fixed(start, width), moving(j, first, 1, stop))
            access.store_lane(e, e.buffer_pointer(self.buffer, at), self.read(e, at), None)
            return ()

        self.code.counted(stop - first, 1, run)
