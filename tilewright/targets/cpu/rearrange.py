"""Rearrangements that are not a change of index: `cat`.  Tests: tests/targets/cpu/test_shapes.py."""

from __future__ import annotations

from collections.abc import Sequence

from tilewright.ir.node import Op, Value
from tilewright.ir.types import I64, shape_of
from tilewright.targets.cpu import access
from tilewright.targets.cpu.evaluate import Evaluator, Index
from tilewright.targets.cpu.fuse import Walker
from tilewright.targets.cpu.lanes import integer
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
