"""The matrix product with multiply-adds: both operands in shared memory, a loop over K, an element a register.

It serves every type and shape, and computes as the row says (IEEE, whatever precision is allowed); tensor cores have
their own instructions and layouts, chosen before layouts are assigned.  An f16 accumulator adds up in f32.
Tests: tests/lang/test_values_dot.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from math import gcd

from tilewright.ir.layout_rules import layout_of
from tilewright.ir.node import Op, Value
from tilewright.ir.types import Scalar, Tile, shape_of
from tilewright.layout.linear import REGISTER, unpack
from tilewright.targets.llvm import convert
from tilewright.targets.llvm.types import I32 as LLVM_I32
from tilewright.targets.llvm.types import Value as LlvmValue
from tilewright.targets.llvm.types import constant
from tilewright.targets.nvidia.access import shared_address, shared_run
from tilewright.targets.nvidia.rearrange import coordinates, index_in, limited, row_major, write_owned
from tilewright.targets.nvidia.state import Kernel

_RUN_BYTES = 16         # that a thread reads at once
_MOST_TERMS = 512       # multiply-adds in a turn: more code gains nothing

def dot(kernel: Kernel, op: Op) -> None:
    """a @ b + acc."""
    a, b, acc = op.operands
    code = kernel.code
    bases = _to_shared(kernel, op, (a, b))
    element = _scalar(acc)
    depth, columns_of_b = shape_of(a.type)[-1], shape_of(b.type)[-1]
    rows, columns = _starts(kernel, op)
    start = tuple(convert.widen(code, v, element) for v in kernel.registers(acc))
    at_once = _at_once(_scalar(a), depth, len(rows))

    def body(k: LlvmValue, sums: tuple[LlvmValue, ...]) -> Sequence[LlvmValue]:
        left = _runs(kernel, a, bases[0], rows, k, at_once)
        for number, xs in enumerate(left):
            row = code.op("mul", code.op("add", k, constant(LLVM_I32, number)), constant(LLVM_I32, columns_of_b))
            (ys,) = _runs(kernel, b, bases[1], columns, row, 1)
            sums = tuple(_multiply_add(kernel, x, y, s) for x, y, s in zip(xs, ys, sums, strict=True))
        return sums

    zero, step = constant(LLVM_I32, 0), constant(LLVM_I32, at_once)
    sums = code.loop(zero, constant(LLVM_I32, depth), step, body, start, compare="ult")
    kernel.bind(op.result, [convert.narrow(code, s, element) if element.is_float else s for s in sums])


def _at_once(element: Scalar, depth: int, sums: int) -> int:
    """How many neighbours along K a turn takes: rows of a are read so many elements at a time.

    A word at a time, lanes that read different rows wait for one another at the banks: 64 x 64 x 64 f32 in 4 warps, 9
    reads of 18 wavefronts a turn for 32 multiply-adds, which four at a time make 3 of 6.
    """
    run = max(1, min(_RUN_BYTES // element.bytes, _MOST_TERMS // sums))
    return 1 << gcd(1 << run.bit_length() - 1, depth).bit_length() - 1


def _scalar(value: Value) -> Scalar:
    assert isinstance(value.type, Tile) and isinstance(value.type.element, Scalar)
    return value.type.element


def _to_shared(kernel: Kernel, op: Op, values: Sequence[Value]) -> list[LlvmValue]:
    """Tiles in scratch, row-major; the address of each."""
    scratch = kernel.shared.begin(op)
    bases = [scratch.array(k) for k in range(len(values))]
    for v, place in zip(values, bases, strict=True):
        write_owned(kernel, v, place, partial(index_in, kernel, shape_of(v.type), layout_of(v)))
    kernel.shared.meet()
    return bases


def _starts(kernel: Kernel, op: Op) -> tuple[list[LlvmValue], list[LlvmValue]]:
    """Where the row of a and the column of b begin, for the accumulator's element in each register.

    Registers in one row, or one column, share the value, so that what they need is read once.
    """
    a, b, acc = op.operands
    layout, shape = layout_of(acc), shape_of(acc.type)
    zero = constant(LLVM_I32, 0)
    row_of: dict[tuple[int, ...], LlvmValue] = {}
    column_of: dict[tuple[int, ...], LlvmValue] = {}
    rows, columns = [], []
    for register in range(layout.size(REGISTER)):
        at = unpack(layout.shape, layout(register=register))
        row, column = at[:-1], (*at[:-2], at[-1])
        if row not in row_of or column not in column_of:
            place = [limited(kernel, c, n) for c, n in zip(coordinates(kernel, layout, register), shape, strict=True)]
            row_of.setdefault(row, row_major(kernel, shape_of(a.type), [*place[:-1], zero]))
            column_of.setdefault(column, row_major(kernel, shape_of(b.type), [*place[:-2], zero, place[-1]]))
        rows.append(row_of[row])
        columns.append(column_of[column])
    return rows, columns


def _runs(kernel: Kernel, value: Value, base: LlvmValue, starts: Sequence[LlvmValue], offset: LlvmValue,
          count: int) -> list[list[LlvmValue]]:
    """The elements of a tile in scratch at `offset` from each start, then those next to them, `count` in all; in the
    type that products are made in, equal places once."""
    code, element = kernel.code, _scalar(value)
    known: dict[LlvmValue, list[LlvmValue]] = {}
    for start in starts:
        if start not in known:
            place = shared_address(kernel, base, code.op("add", start, offset), element.bytes)
            known[start] = [convert.widen(code, read, element) if element.is_float else
                            code.cast("sext", read, LLVM_I32) for read in shared_run(kernel, place, element, count)]
    return [[known[start][k] for start in starts] for k in range(count)]


def _multiply_add(kernel: Kernel, x: LlvmValue, y: LlvmValue, total: LlvmValue) -> LlvmValue:
    code = kernel.code
    if x.type.is_float:
        return code.fma(x, y, total)
    return code.op("add", code.op("mul", x, y), total)

