"""Tiles that are made in one pass: `cat`, `gather`, `map`.

Tests: tests/targets/cpu/test_shapes.py, tests/conform/test_order.py.
"""

from __future__ import annotations

from collections.abc import Sequence

from tilewright.ir.node import Op, Value
from tilewright.ir.types import I64, shape_of
from tilewright.targets.cpu import access
from tilewright.targets.cpu.elements import combine
from tilewright.targets.cpu.evaluate import Evaluator, Index
from tilewright.targets.cpu.fuse import Walker
from tilewright.targets.cpu.lanes import Lane, integer, vector
from tilewright.targets.cpu.nest import Nest
from tilewright.targets.cpu.state import Buffer
from tilewright.targets.llvm.types import Value as LlvmValue


def cat(walker: Walker, op: Op) -> None:
    """Each part is written to its place in one buffer."""
    axis = op.attrs["axis"]
    result = walker.kernel.new_buffer(op.results[0].type)
    start = 0
    for part in op.operands:
        shape = shape_of(part.type)
        _write(walker, part, start, axis, result)
        start += shape[axis]
    walker.own(op.results[0], result)


def gather(walker: Walker, op: Op) -> None:
    """Elements of a tile in scratch at places that are computed; zero out of its range."""
    source, index = op.operands
    axis, shape = op.attrs["axis"], shape_of(index.type)
    size = shape_of(source.type)[axis]
    if not isinstance(walker.kernel.bindings[source], Buffer):
        walker.keep([source])
    result = walker.kernel.new_buffer(op.result.type)

    def body(e: Evaluator, at: Index) -> None:
        buffer = walker.kernel.bindings[source]
        assert isinstance(buffer, Buffer)
        place = as_index(e, e.at(index, at))
        inside = e.compare("ult", place, integer(I64, size))
        pointer = e.buffer_pointer(buffer, (*at[:axis], place, *at[axis + 1:]))
        lane = access.load_lane(e, pointer, buffer.element, inside, None)
        access.store_lane(e, e.buffer_pointer(result, at), lane, None)

    def emit(nest: Nest) -> Sequence[LlvmValue]:
        walker.iterate(nest, body)
        return ()

    walker.nest([index], shape, walker.prepare([index], shape), emit)
    walker.own(op.result, result)


def as_index(e: Evaluator, lane: Lane) -> Lane:
    """An i32 or i64 lane as i64."""
    if lane.element == I64:
        return lane
    wide = e.widen(lane, I64)
    return wide if wide is not None else vector(I64, e.code.cast("sext", e.full(lane), e.full(lane).type.of("i64")))


def _write(walker: Walker, part: Value, start: int, axis: int, target: Buffer) -> None:
    shape = shape_of(part.type)

    def emit(nest: Nest) -> Sequence[LlvmValue]:
        def body(e: Evaluator, index: Index) -> None:
            place = list(index)
            place[axis] = e.plus(index[axis], integer(I64, start))
            access.store_lane(e, e.buffer_pointer(target, tuple(place)), e.at(part, index), None)

        walker.iterate(nest, body)
        return ()

    walker.nest([part], shape, walker.prepare([part], shape), emit)


def map_elements(walker: Walker, op: Op) -> None:
    """A region on each element."""
    shape = shape_of(op.operands[0].type)
    fused = walker.prepare(op.operands, shape)
    results = [walker.kernel.new_buffer(r.type) for r in op.results]

    def body(e: Evaluator, at: Index) -> None:
        lanes = combine(walker, e, op.regions[0], [e.at(v, at) for v in op.operands])
        for lane, buffer in zip(lanes, results, strict=True):
            access.store_lane(e, e.buffer_pointer(buffer, at), lane, None)

    def emit(nest: Nest) -> Sequence[LlvmValue]:
        walker.iterate(nest, body)
        return ()

    walker.nest(op.operands, shape, fused, emit)
    for value, buffer in zip(op.results, results, strict=True):
        walker.own(value, buffer)
