"""Sorting and counting.

`sort` is a bitonic network on one row at a time in scratch, in which every comparison puts the smaller number at the
lower place.  Blocks of one vector are sorted in registers; then runs of twice the length are merged: the first round
compares each place with its mirror image in the run, the others with the place half, a quarter, ... of it further,
down to a vector, whose rounds happen in registers.  A row is filled up to a power of two with the greatest number.
Before: see `fuse`.  After: the result in scratch.  Tests: tests/conform/test_order.py.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tilewright.ir.node import Op
from tilewright.ir.types import I1, Scalar, Tile, element_of, shape_of
from tilewright.targets.cpu import access
from tilewright.targets.cpu.code import Code
from tilewright.targets.cpu.evaluate import Evaluator, Index
from tilewright.targets.cpu.fuse import Walker
from tilewright.targets.cpu.lanes import Lane, integer, vector
from tilewright.targets.cpu.nest import Nest, fixed, moving, tail_pieces
from tilewright.targets.cpu.rearrange import as_index
from tilewright.targets.cpu.state import Buffer
from tilewright.targets.llvm import convert
from tilewright.targets.llvm.types import I64 as LLVM_I64
from tilewright.targets.llvm.types import Type, constant
from tilewright.targets.llvm.types import Value as LlvmValue


def sort(walker: Walker, op: Op) -> None:
    """A `sort` op."""
    (x,), shape = op.operands, shape_of(op.result.type)
    fused = walker.prepare([x], shape)
    result = walker.kernel.new_buffer(op.result.type)
    padded = 1 << (shape[-1] - 1).bit_length()
    work = walker.kernel.new_buffer(Tile((padded,), element_of(x.type)))

    def emit(nest: Nest) -> Sequence[LlvmValue]:
        nest.axis = len(shape) - 1
        _Rows(walker, op, nest, work, result).emit()
        return ()

    walker.nest([x], shape, fused, emit)
    walker.kernel.free(work)
    walker.own(op.result, result)


class _Rows:
    """The rows of one tile, in one version of its nest."""

    def __init__(self, walker: Walker, op: Op, nest: Nest, work: Buffer, result: Buffer) -> None:
        self.walker, self.nest, self.work, self.result = walker, nest, work, result
        self.x = op.operands[0]
        self.size = nest.shape[-1]

    def emit(self) -> None:
        """Fill up the working row once (what was put there comes out at the end again), then sort each row."""
        element = self.work.element
        assert isinstance(element, Scalar)
        greatest = integer(element, (1 << (element.bits - 1)) - 1)
        filling = self.work.shape[0] - self.size
        if filling:
            self._along(filling, lambda e, place: self._put(e, e.plus(place, fixed(self.size)), greatest))
        outer = [d for d in range(len(self.nest.shape) - 1) if self.nest.shape[d] > 1]
        self._rows(outer, [fixed(0)] * len(self.nest.shape))

    def _put(self, e: Evaluator, place: Lane, lane: Lane) -> None:
        access.store_lane(e, e.buffer_pointer(self.work, (place,)), lane, None)

    def _along(self, size: int, body: Callable[[Evaluator, Lane], None]) -> None:
        """`body` at each group of `size` places."""
        width, vectors = self.nest.width, size // self.nest.width
        if vectors:
            def run(i: LlvmValue, _: tuple[LlvmValue, ...]) -> tuple[LlvmValue, ...]:
                body(self.nest.evaluator(width), moving(i, 0, width, vectors * width, width))
                return ()

            self.walker.code.counted(vectors * width, width, run)
        for start, piece in tail_pieces(size, width):
            body(self.nest.evaluator(piece), fixed(start, piece))

    def _rows(self, dimensions: Sequence[int], index: list[Lane]) -> None:
        if not dimensions:
            self._row(index)
            return
        dimension, *rest = dimensions
        size = self.nest.shape[dimension]

        def run(i: LlvmValue, _: tuple[LlvmValue, ...]) -> tuple[LlvmValue, ...]:
            index[dimension] = moving(i, 0, 1, size)
            self._rows(rest, index)
            return ()

        self.walker.code.counted(size, 1, run)

    def _row(self, index: Sequence[Lane]) -> None:
        def read(e: Evaluator, place: Lane) -> None:
            at = (*index[:-1], place)
            self.walker.visit(e, at)
            self._put(e, place, e.at(self.x, at))

        def write(e: Evaluator, place: Lane) -> None:
            lane = access.load_lane(e, e.buffer_pointer(self.work, (place,)), self.work.element, None, None)
            access.store_lane(e, e.buffer_pointer(self.result, (*index[:-1], place)), lane, None)

        self._along(self.size, read)
        _Network(self.walker.code, self.walker.kernel.scratch_base, self.work, self.nest.width).emit()
        with self.walker.code.scope() as floor:         # loads of the sorted row, none of which was done before
            inner = Nest(self.walker.kernel, self.nest.shape, self.nest.width, floor, self.nest.facts)
            inner.axis = self.nest.axis
            outer, self.nest = self.nest, inner
            self._along(self.size, write)
            self.nest = outer


class _Network:
    """Sorts a buffer of 2**k integers in place."""

    def __init__(self, code: Code, base: LlvmValue, work: Buffer, width: int) -> None:
        self.code, self.count = code, work.shape[0]
        self.base = code.gep(base, work.offset, Type("i8"))
        self.width = min(width, self.count)
        self.element = convert.register_type(work.element)
        self.align = work.element.bytes

    def emit(self) -> None:
        """The whole network."""
        if self.count == 1:
            return
        self._in_vectors(self._sorted)
        if self.count == self.width:
            return

        def merge(values: tuple[LlvmValue, ...]) -> Sequence[LlvmValue]:
            (run,) = values
            self._compare(self.code.op("lshr", run, constant(LLVM_I64, 1)), run)
            self._halve(run)
            self._in_vectors(self._merged)
            return (self.code.op("shl", run, constant(LLVM_I64, 1)),)

        first = constant(LLVM_I64, 2 * self.width)
        self.code.while_loop((first,), lambda v: self.code.icmp("ule", v[0], constant(LLVM_I64, self.count)), merge)

    def _halve(self, run: LlvmValue) -> None:
        """The rounds of a merge that compare places a quarter of the run apart, an eighth, ... down to a vector."""
        code, least = self.code, constant(LLVM_I64, self.width)

        def body(values: tuple[LlvmValue, ...]) -> Sequence[LlvmValue]:
            self._compare(values[0], None)
            return (code.op("lshr", values[0], constant(LLVM_I64, 1)),)

        quarter = code.op("lshr", run, constant(LLVM_I64, 2))
        code.while_loop((quarter,), lambda v: code.icmp("uge", v[0], least), body)

    def _compare(self, apart: LlvmValue, mirrored: LlvmValue | None) -> None:
        """Each place of the lower half of a block of 2*apart with the one `apart` further, or with its mirror image."""
        code, width = self.code, self.width

        def body(t: LlvmValue, _: tuple[LlvmValue, ...]) -> tuple[LlvmValue, ...]:
            inside = code.op("and", t, code.op("sub", apart, constant(LLVM_I64, 1)))
            block = code.op("shl", code.op("sub", t, inside), constant(LLVM_I64, 1))
            low = code.op("add", block, inside)
            if mirrored is None:
                high = code.op("add", low, apart)
            else:
                last = code.op("sub", code.op("add", block, mirrored), constant(LLVM_I64, width))
                high = code.op("sub", last, inside)
            a, b = self._load(low), self._load(high)
            if mirrored is not None:
                b = self._reversed(b)
            less, more = code.binary_intrinsic("smin", a, b), code.binary_intrinsic("smax", a, b)
            self._store(less, low)
            self._store(self._reversed(more) if mirrored is not None else more, high)
            return ()

        code.counted(self.count // 2, width, body)

    def _reversed(self, v: LlvmValue) -> LlvmValue:
        return self.code.shuffle(v, v, range(self.width - 1, -1, -1)) if self.width > 1 else v

    def _in_vectors(self, change: Callable[[LlvmValue], LlvmValue]) -> None:
        if self.width == 1:
            return

        def body(t: LlvmValue, _: tuple[LlvmValue, ...]) -> tuple[LlvmValue, ...]:
            self._store(change(self._load(t)), t)
            return ()

        self.code.counted(self.count, self.width, body)

    def _sorted(self, v: LlvmValue) -> LlvmValue:
        """The lanes of one vector in order."""
        run = 2
        while run <= self.width:
            v = self._round(v, run - 1, run // 2)
            v = self._rounds(v, run // 4)
            run *= 2
        return v

    def _merged(self, v: LlvmValue) -> LlvmValue:
        return self._rounds(v, self.width // 2)

    def _rounds(self, v: LlvmValue, apart: int) -> LlvmValue:
        while apart:
            v = self._round(v, apart, apart)
            apart //= 2
        return v

    def _round(self, v: LlvmValue, partner: int, upper: int) -> LlvmValue:
        """Lane k meets lane k ^ partner; the one with the bit `upper` gets the greater number."""
        other = self.code.shuffle(v, v, [k ^ partner for k in range(self.width)])
        less, more = self.code.binary_intrinsic("smin", v, other), self.code.binary_intrinsic("smax", v, other)
        return self.code.shuffle(less, more, [k + self.width if k & upper else k for k in range(self.width)])

    def _load(self, place: LlvmValue) -> LlvmValue:
        t = Type(self.element.element, self.width if self.width > 1 else 0)
        return self.code.load(self.code.gep(self.base, place, self.element), t, self.align)

    def _store(self, value: LlvmValue, place: LlvmValue) -> None:
        self.code.store(value, self.code.gep(self.base, place, self.element), self.align)


def histogram(walker: Walker, op: Op) -> None:
    """A `histogram` op: counts in scratch, raised lane by lane."""
    x, mask, bins = op.operands[0], op.operand("mask"), op.attrs["bins"]
    sources, shape = list(op.operands), shape_of(op.operands[0].type)
    result = walker.kernel.new_buffer(op.result.type)
    _clear(walker, result)
    fused = walker.prepare(sources, shape)
    code, base = walker.code, walker.kernel.scratch_base
    start = code.gep(base, result.offset, Type("i8"))
    count = Type("i32")

    def body(e: Evaluator, index: Index) -> None:
        place = as_index(e, e.at(x, index))
        inside = e.compare("ult", place, fixed(bins))
        if mask is not None:
            inside = e.both(inside, e.at(mask, index))
        places, flags = e.full(place), e.full(inside if inside.is_uniform else vector(I1, e.full(inside)))

        def one(k: LlvmValue, _: tuple[LlvmValue, ...]) -> tuple[LlvmValue, ...]:
            def add() -> tuple[LlvmValue, ...]:
                at = code.gep(start, code.extract(places, k) if e.width > 1 else places, count)
                code.store(code.op("add", code.load(at, count, 4), constant(count, 1)), at, 4)
                return ()

            code.branch(code.extract(flags, k) if e.width > 1 else flags, add)
            return ()

        code.counted(e.width, 1, one)

    def emit(nest: Nest) -> Sequence[LlvmValue]:
        nest.unroll = 1
        walker.iterate(nest, body)
        return ()

    walker.nest(sources, shape, fused, emit)
    walker.own(op.result, result)


def _clear(walker: Walker, buffer: Buffer) -> None:
    def emit(nest: Nest) -> Sequence[LlvmValue]:
        def body(e: Evaluator, index: Index) -> None:
            access.store_lane(e, e.buffer_pointer(buffer, index), integer(buffer.element, 0), None)

        walker.iterate(nest, body)
        return ()

    walker.nest((), buffer.shape, (), emit)
