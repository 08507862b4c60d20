"""Operands of matrix products brought into scratch, in the type and order that a scheme wants.

Before: what the operand is made from and has to be in scratch is there (`Walker.prepare`).  After: a buffer; a right
operand of groups has rows of `group` times as many elements, the group of each column side by side.
Tests: tests/targets/cpu/test_dot.py.
"""

from __future__ import annotations

from collections.abc import Sequence

from tilewright.ir.node import Value
from tilewright.ir.types import I32, I64, Scalar, Tile, element_of, shape_of
from tilewright.targets.cpu import access
from tilewright.targets.cpu.code import Code
from tilewright.targets.cpu.evaluate import Evaluator, Index
from tilewright.targets.cpu.fuse import Walker
from tilewright.targets.cpu.lanes import Lane, integer, uniform, vector
from tilewright.targets.cpu.nest import Nest, iterate
from tilewright.targets.cpu.schemes import Scheme
from tilewright.targets.cpu.state import Buffer
from tilewright.targets.llvm import avx512, convert
from tilewright.targets.llvm.types import Value as LlvmValue
from tilewright.targets.llvm.types import constant


def packed_type(value: Value, inner: Scalar, group: int = 1) -> Tile:
    """The shape and type that `value` has when it is packed: rows of groups become one."""
    *outer, rows, columns = shape_of(value.type)
    return Tile((*outer, rows // group, columns * group), inner)


def pack(walker: Walker, value: Value, inner: Scalar, bias: int = 0, target: Buffer | None = None) -> Buffer:
    """`value` row-major in scratch (`target`), each element exactly as `inner`, plus `bias` in its own width."""
    shape, element = shape_of(value.type), element_of(value.type)
    assert isinstance(element, Scalar)
    buffer = target if target is not None else walker.kernel.new_buffer(Tile(shape, inner))
    fused = walker.prepare([value], shape)

    def emit(nest: Nest) -> Sequence[LlvmValue]:
        def body(e: Evaluator, index: Index) -> None:
            lane = _widen(e, e.at(value, index), element, inner)
            if bias:
                whole = e.full(lane)
                lane = vector(inner, e.code.op("add", whole, constant(whole.type, bias)))
            access.store_lane(e, e.buffer_pointer(buffer, index), lane, None)

        walker.iterate(nest, body)
        return ()

    walker.nest([value], shape, fused, emit, narrow=element if element == inner else None, splits=True)
    return buffer


def _widen(e: Evaluator, lane: Lane, element: Scalar, inner: Scalar) -> Lane:
    if element == inner:
        return lane
    value = e.scalar(lane) if lane.is_uniform else e.full(lane)
    if inner == I32:
        wide = e.code.cast("sext", value, value.type.of("i32"))
    else:
        wide = convert.widen(e.code, value, element)
    return uniform(inner, wide) if lane.is_uniform else vector(inner, wide)


def pack_groups(walker: Walker, value: Value, scheme: Scheme, target: Buffer | None = None) -> Buffer:
    """A right operand: `scheme.group` rows become one, their elements of a column side by side."""
    *batch, depth, columns = shape_of(value.type)
    group, element = scheme.group, scheme.right
    shape = (*batch, depth // group, columns)
    buffer = target if target is not None else walker.kernel.new_buffer(packed_type(value, element, group))
    walker.prepare([value], None)

    def emit(nest: Nest) -> Sequence[LlvmValue]:
        def body(e: Evaluator, index: Index) -> None:
            *outer, row, column = index
            first = e.multiply(row, integer(I64, group))
            rows = [e.full(e.at(value, (*outer, e.plus(first, integer(I64, r)), column))) for r in range(group)]
            at = e.buffer_pointer(buffer, (*outer, row, e.multiply(column, integer(I64, group))))
            e.code.store(side_by_side(e.code, rows), e.scalar(at), element.bytes)

        iterate(nest, body)
        return ()

    walker.nest([value], shape, (), emit, splits=True)
    return buffer


def side_by_side(code: Code, rows: Sequence[LlvmValue]) -> LlvmValue:
    """Lane 0 of every row, then lane 1 of every row, and so on."""
    lanes, count = rows[0].type.lanes, len(rows)
    joined = list(rows)
    while len(joined) > 1:
        width = joined[0].type.lanes
        joined = [code.shuffle(a, b, range(2 * width)) for a, b in zip(joined[::2], joined[1::2], strict=True)]
    order = [r * lanes + n for n in range(lanes) for r in range(count)]
    if avx512.can_permute(code, joined[0].type):
        return avx512.permute(code, joined[0], order)
    return code.shuffle(joined[0], joined[0], order)
