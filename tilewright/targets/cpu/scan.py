"""Scans (running combinations along one dimension) with any combine region, on vectors.

Where the scanned dimension is the vector dimension, a vector is scanned in registers in log2(width) rounds, each of
which combines the lanes 1, 2, 4, ... places before with every lane; then the total so far is combined from the left.
Else groups of lanes beside it go over the scanned dimension one place after the other.  The left operand of the
region is always what comes first, so it need not be commutative.  A reverse scan visits the places from the last to
the first.  The order depends on the shape and on the nest's version alone.
Before: see `fuse`.  After: a tile in scratch for each input.  Tests: tests/conform/test_scan.py.
"""

from __future__ import annotations

from collections.abc import Sequence

from tilewright.ir.node import Op
from tilewright.ir.types import I64, element_of, shape_of
from tilewright.targets.cpu import access
from tilewright.targets.cpu.elements import Lanes, combine
from tilewright.targets.cpu.elementwise import Elementwise
from tilewright.targets.cpu.fuse import Walker
from tilewright.targets.cpu.lanes import Lane, integer, uniform, vector
from tilewright.targets.cpu.nest import Nest, fixed, moving, tail_pieces
from tilewright.targets.cpu.state import Buffer
from tilewright.targets.llvm.types import Value as LlvmValue
from tilewright.targets.llvm.types import constant_lanes


def lower(walker: Walker, op: Op) -> None:
    """A `scan` op."""
    shape = shape_of(op.operands[0].type)
    fused = walker.prepare(op.operands, shape)
    buffers = [walker.kernel.new_buffer(r.type) for r in op.results]

    def emit(nest: Nest) -> Sequence[LlvmValue]:
        _Scan(walker, op, nest, buffers).emit()
        return ()

    walker.nest(op.operands, shape, fused, emit)
    for value, buffer in zip(op.results, buffers, strict=True):
        walker.own(value, buffer)


class _Scan:
    """One scan in one version of its nest."""

    def __init__(self, walker: Walker, op: Op, nest: Nest, buffers: Sequence[Buffer]) -> None:
        self.walker, self.op, self.nest, self.buffers = walker, op, nest, buffers
        self.code = walker.code
        self.region = op.regions[0]
        self.axis: int = op.attrs["axis"]
        self.size = nest.shape[self.axis]
        self.elements = [element_of(v.type) for v in op.operands]
        if all(size == 1 for size in nest.shape[self.axis + 1:]):
            nest.axis = self.axis       # also where the scanned dimension has size one

    def emit(self) -> None:
        """Write every place of the results."""
        shape = self.nest.shape
        body = self._along if self.nest.axis == self.axis else self._beside
        outer = [d for d, size in enumerate(shape) if d not in (self.axis, self.nest.axis) and size > 1]
        self.nest.rows(outer, [fixed(0)] * len(shape), body)

    def _place(self, index: list[Lane], along: Lane, beside: Lane | None, width: int) -> tuple[Lane, ...]:
        """The index for a place of the scan's own order, and lanes beside it."""
        at = list(index)
        if beside is not None:
            at[self.nest.axis] = beside
        if self.op.attrs["reverse"]:
            turned = self.nest.evaluator(width).add(integer(I64, self.size - 1), along, subtract=True)
            assert turned is not None
            along = turned
        at[self.axis] = along
        return tuple(at)

    def _read(self, at: tuple[Lane, ...], width: int) -> list[LlvmValue]:
        e = self.nest.evaluator(width)
        self.walker.visit(e, at)
        return [e.full(e.at(v, at)) for v in self.op.operands]

    def _write(self, at: tuple[Lane, ...], values: Sequence[LlvmValue], width: int) -> None:
        e = self.nest.evaluator(width)
        for value, buffer in zip(values, self.buffers, strict=True):
            access.store_lane(e, e.buffer_pointer(buffer, at), vector(buffer.element, value), None)

    def _combine(self, width: int, left: Lanes, right: Sequence[LlvmValue]) -> list[LlvmValue]:
        e = Elementwise(self.code, width)
        lanes = [vector(t, v) for t, v in zip(self.elements, right, strict=True)]
        return [e.full(lane) for lane in combine(self.walker, e, self.region, [*left, *lanes])]

    # --- along the vector dimension

    def _along(self, index: list[Lane]) -> None:
        """One row: its first vector, a loop over the other whole ones, the narrower ones that are left."""
        width = self.nest.width
        vectors = self.size // width
        total: list[LlvmValue] | None = None
        if vectors:
            total = self._step(index, fixed(0, width), width, None)
        if vectors > 1:
            def run(i: LlvmValue, carried: tuple[LlvmValue, ...]) -> Sequence[LlvmValue]:
                return self._step(index, moving(i, width, width, vectors * width, width), width, carried)

            assert total is not None
            total = list(self.code.counted((vectors - 1) * width, width, run, total))
        for start, piece in tail_pieces(self.size, width):
            total = self._step(index, fixed(start, piece), piece, total)

    def _step(self, index: list[Lane], along: Lane, width: int,
              total: Sequence[LlvmValue] | None) -> list[LlvmValue]:
        """Scan one vector behind `total`; returns the next total."""
        at = self._place(index, along, None, width)
        values = self._within(self._read(at, width), width)
        if total is not None:
            values = self._combine(width, [uniform(t, v) for t, v in zip(self.elements, total, strict=True)], values)
        self._write(at, values, width)
        return [self.code.extract(v, width - 1) for v in values] if width > 1 else values

    def _within(self, values: list[LlvmValue], width: int) -> list[LlvmValue]:
        """The lanes of one vector, scanned."""
        apart = 1
        while apart < width:
            shifted = [self.code.shuffle(v, v, [max(0, k - apart) for k in range(width)]) for v in values]
            left = [vector(t, v) for t, v in zip(self.elements, shifted, strict=True)]
            combined = self._combine(width, left, values)
            inside = constant_lanes("i1", [int(k >= apart) for k in range(width)])
            values = [self.code.select(inside, new, old) for new, old in zip(combined, values, strict=True)]
            apart *= 2
        return values

    # --- beside it

    def _beside(self, index: list[Lane]) -> None:
        """Groups of lanes along the vector dimension, each going over the scanned one."""
        size, width = self.nest.shape[self.nest.axis], self.nest.width
        vectors = size // width
        if vectors > 1:
            def run(i: LlvmValue, _: tuple[LlvmValue, ...]) -> tuple[LlvmValue, ...]:
                self._column(index, moving(i, 0, width, vectors * width, width), width)
                return ()

            self.code.counted(vectors * width, width, run)
        elif vectors:
            self._column(index, fixed(0, width), width)
        for start, piece in tail_pieces(size, width):
            self._column(index, fixed(start, piece), piece)

    def _column(self, index: list[Lane], beside: Lane, width: int) -> None:
        at = self._place(index, fixed(0), beside, width)
        first = self._read(at, width)
        self._write(at, first, width)
        if self.size == 1:
            return

        def run(i: LlvmValue, carried: tuple[LlvmValue, ...]) -> Sequence[LlvmValue]:
            place = self._place(index, moving(i, 1, 1, self.size), beside, width)
            left = [vector(t, v) for t, v in zip(self.elements, carried, strict=True)]
            values = self._combine(width, left, self._read(place, width))
            self._write(place, values, width)
            return values

        self.code.counted(self.size - 1, 1, run, first)
