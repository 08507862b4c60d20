"""Operands of matrix products brought into scratch, in the type and order that a scheme wants.

Before: what the operand is made from and has to be in scratch is there (`Walker.prepare`).  After: a buffer; a right
operand of groups has rows of `group` times as many elements, the group of each column side by side, and where the
scheme has a bias a last row with what the bias adds to each column.
Tests: tests/targets/cpu/test_dot.py.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from tilewright.ir.node import Value
from tilewright.ir.types import I16, I32, I64, Scalar, Tile, element_of, shape_of
from tilewright.targets.cpu import access
from tilewright.targets.cpu.code import Code
from tilewright.targets.cpu.evaluate import Evaluator, Index
from tilewright.targets.cpu.fuse import Walker
from tilewright.targets.cpu.lanes import Lane, integer, uniform, vector
from tilewright.targets.cpu.nest import LINE, Nest, iterate
from tilewright.targets.cpu.schemes import GROUPED_LANES, Scheme
from tilewright.targets.cpu.state import Buffer
from tilewright.targets.llvm import avx512, convert
from tilewright.targets.llvm.types import I8, constant, zero
from tilewright.targets.llvm.types import I64 as LLVM_I64
from tilewright.targets.llvm.types import Value as LlvmValue

_SUMS = 4       # vectors of columns that are summed at once
_SETS = 64      # of the first cache
_CROWDED = 4    # ways of a set


def packed_type(value: Value, inner: Scalar) -> Tile:
    """The shape and type that `value` has when it is packed."""
    return Tile(shape_of(value.type), inner)


def spread_type(packed: Tile, vector_bits: int) -> Tile:
    """The type of a packed right operand, its rows a line longer where a block of columns would crowd the first cache.

    A block reads one line of each row.  32 KiB of 8 ways, as processors without AVX-512 have them, keep lines that are
    4 KiB apart in one set: of 64 rows of 512 bytes the lines fill all ways of an eighth of the sets, and what else is
    read drives them out.  (1024^3 in tiles of 128x128x64: 1.05 times as fast; Zen 3, 2026-11-30.)
    """
    *outer, rows, columns = packed.shape
    size = packed.element.bytes
    lines, rest = divmod(columns * size, LINE)
    if vector_bits > 256 or rest or rows * (lines & -lines) < _CROWDED * _SETS:
        return packed
    return Tile((*outer, rows, columns + LINE // size), packed.element)


def grouped_type(value: Value, scheme: Scheme) -> Tile:
    """The same for a right operand of groups: rows of a group become one."""
    *outer, rows, columns = shape_of(value.type)
    return Tile((*outer, rows // scheme.group + (scheme.bias != 0), columns * scheme.group), scheme.right)


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

    walker.nest([value], shape, fused, emit, narrow=element if element == inner else None, splits=True, packs=True)
    return buffer


def _widen(e: Evaluator, lane: Lane, element: Scalar, inner: Scalar) -> Lane:
    if element == inner:
        return lane
    value = e.scalar(lane) if lane.is_uniform else e.full(lane)
    if inner in (I16, I32):
        wide = e.code.cast("sext", value, value.type.of(f"i{inner.bits}"))
    else:
        wide = convert.widen(e.code, value, element)
    return uniform(inner, wide) if lane.is_uniform else vector(inner, wide)


def pack_groups(walker: Walker, value: Value, scheme: Scheme, target: Buffer | None = None) -> Buffer:
    """A right operand: `scheme.group` rows become one, their elements of a column side by side."""
    *batch, depth, columns = shape_of(value.type)
    group, element, inner = scheme.group, scheme.right, element_of(value.type)
    assert isinstance(inner, Scalar)
    shape = (*batch, depth // group, columns)
    buffer = target if target is not None else walker.kernel.new_buffer(grouped_type(value, scheme))
    walker.prepare([value], None)

    def emit(nest: Nest) -> Sequence[LlvmValue]:
        def body(e: Evaluator, index: Index) -> None:
            *outer, row, column = index
            first = e.multiply(row, integer(I64, group))
            rows = [e.full(_widen(e, e.at(value, (*outer, e.plus(first, integer(I64, r)), column)), inner, element))
                    for r in range(group)]
            at = e.buffer_pointer(buffer, (*outer, row, e.multiply(column, integer(I64, group))))
            e.code.store(side_by_side(e.code, rows), e.scalar(at), element.bytes)

        iterate(nest, body)
        return ()

    walker.nest([value], shape, (), emit, splits=True, packs=True)
    if scheme.bias:
        _add_biases(walker, buffer, scheme)
    return buffer


def _add_biases(walker: Walker, buffer: Buffer, scheme: Scheme) -> None:
    """Fill the last row of each matrix: the product of a left row of nothing but the bias with each column."""
    code = walker.code
    *batch, rows, width = buffer.shape
    columns = width // scheme.group
    vectors = math.gcd(columns // GROUPED_LANES, _SUMS)
    line = width * buffer.element.bytes
    t, size = scheme.right_vector(GROUPED_LANES), GROUPED_LANES * line // columns
    first, bias = walker.kernel.start_of(buffer), scheme.biased(GROUPED_LANES)

    def block(number: LlvmValue, column: LlvmValue) -> None:
        offset = code.fold("add", code.fold("mul", number, constant(LLVM_I64, rows * line)),
                           code.fold("mul", column, constant(LLVM_I64, line // columns)))
        top = code.gep(first, offset, I8)

        def cells(row: LlvmValue) -> list[LlvmValue]:
            start = code.gep(top, code.fold("mul", row, constant(LLVM_I64, line)), I8)
            return [code.gep(start, v * size, I8) for v in range(vectors)]

        def run(row: LlvmValue, sums: tuple[LlvmValue, ...]) -> Sequence[LlvmValue]:
            return [scheme.step(code, bias, code.load(cell, t, element.bytes), s)
                    for cell, s in zip(cells(row), sums, strict=True)]

        element = buffer.element
        sums = code.counted(rows - 1, 1, run, [zero(t)] * vectors)
        for cell, value in zip(cells(constant(LLVM_I64, rows - 1)), sums, strict=True):
            code.store(value, cell, element.bytes)

    def matrix(number: LlvmValue, _: tuple[LlvmValue, ...]) -> tuple[LlvmValue, ...]:
        def some(column: LlvmValue, _: tuple[LlvmValue, ...]) -> tuple[LlvmValue, ...]:
            block(number, column)
            return ()

        code.counted(columns, vectors * GROUPED_LANES, some)
        return ()

    with code.scope():
        code.counted(math.prod(batch), 1, matrix)


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
