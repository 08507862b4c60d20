"""The register-blocked matrix product on matrices in memory.

A block of rows by vectors of columns stays in registers over the whole depth; edges use smaller blocks.  Nothing is
packed here: `dot` brings the operands into a good form.  Before: three matrices.  After: total += a @ b.
Tests: tests/targets/cpu/test_dot.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from tilewright.ir.types import F64, I64
from tilewright.targets.cpu.nest import tail_pieces
from tilewright.targets.cpu.schemes import Scheme
from tilewright.targets.cpu.state import Kernel
from tilewright.targets.llvm import convert
from tilewright.targets.llvm.types import I64 as LLVM_I64
from tilewright.targets.llvm.types import Type, constant
from tilewright.targets.llvm.types import Value as LlvmValue

# vector bits: (rows, vectors of columns) of the block in registers.  Measured on AVX-512: 8x2 97-98 % of the peak,
# with 8 or more independent accumulators needed; AVX2 has 16 registers, where 8x2 spills.  Instructions that sum
# groups take longer, and 4x4 has more accumulators for each left element that is read.
_BLOCKS = {512: (8, 2), 256: (6, 2), 128: (8, 2)}
_GROUPED_BLOCK = (4, 4)
# Steps of the depth in one iteration.  Four let the processor look further ahead (8 % where the left operand comes from
# the second cache; measured on a Xeon, 2026-11-30).
_UNROLLS = (4, 2, 1)


@dataclass(frozen=True, slots=True)
class Matrix:
    """A matrix in memory: address of its first element, bytes from row to row; columns are neighbours."""

    address: LlvmValue
    stride: LlvmValue


class Product:
    """total += a @ b for one pair of matrices."""

    def __init__(self, kernel: Kernel, scheme: Scheme, sizes: tuple[int, int, int], a: Matrix, b: Matrix,
                 total: Matrix) -> None:
        """`sizes` are rows, columns and depth; the matrices are as `scheme` says."""
        self.code = kernel.code
        self.scheme = scheme
        self.rows, self.columns, self.depth = sizes
        self.a, self.b, self.total = a, b, total
        self.element = convert.register_type(scheme.total)
        self.width = kernel.lanes_for(scheme.total in (F64, I64))
        self.block = _BLOCKS[kernel.vector_bits] if scheme.group == 1 else _GROUPED_BLOCK

    def emit(self) -> None:
        """All blocks: columns outside, so that a block of b stays in the nearest cache."""
        for start, stop, vectors, width in self._column_blocks():
            step = vectors * width
            if stop - start > step:
                self._over(start, stop, step, partial(self._down, vectors=vectors, width=width))
            else:
                self._down(constant(LLVM_I64, start), vectors, width)

    def _column_blocks(self) -> Iterator[tuple[int, int, int, int]]:
        """(start, stop, vectors, width) of the column blocks of one kind."""
        width, vectors, start = self.width, self.block[1], 0
        while vectors:
            step = vectors * width
            whole = start + (self.columns - start) // step * step
            if whole > start:
                yield start, whole, vectors, width
            start, vectors = whole, vectors // 2
        for piece_start, piece in tail_pieces(self.columns, width):
            yield piece_start, piece_start + piece, 1, piece

    def _down(self, column: LlvmValue, vectors: int, width: int) -> None:
        """All rows of a block of columns."""
        offsets = self._bias(column, vectors, width) if self.scheme.bias else None
        height = self.block[0] * (self.block[1] // vectors)
        whole = self.rows // height * height
        tile = partial(self._tile, column=column, vectors=vectors, width=width, offsets=offsets)
        if whole > height:
            self._over(0, whole, height, lambda i: tile(i, height))
        elif whole:
            tile(constant(LLVM_I64, 0), height)
        left = whole
        while left < self.rows:
            part = min(height, 1 << ((self.rows - left).bit_length() - 1))
            tile(constant(LLVM_I64, left), part)
            left += part

    def _over(self, start: int, stop: int, step: int, body: Callable[[LlvmValue], None]) -> None:
        """`body` at start, start + step, ... below stop."""
        def run(i: LlvmValue, _: tuple[LlvmValue, ...]) -> tuple[LlvmValue, ...]:
            body(self.code.fold("add", i, constant(LLVM_I64, start)))
            return ()

        self.code.counted(stop - start, step, run)

    def _at(self, matrix: Matrix, row: LlvmValue, offset: LlvmValue) -> LlvmValue:
        """Address of the byte at `offset` in a row."""
        return self.code.gep(matrix.address, self.code.fold(
            "add", self.code.fold("mul", row, matrix.stride), offset), Type("i8"))

    def _rows(self, matrix: Matrix, row: LlvmValue, offset: LlvmValue, count: int) -> list[LlvmValue]:
        """Addresses of the bytes at `offset` in a row and those below it."""
        first = self._at(matrix, row, offset)
        return [first, *(self.code.gep(first, self.code.fold("mul", constant(LLVM_I64, r), matrix.stride), Type("i8"))
                         for r in range(1, count))]

    def _columns_at(self, column: LlvmValue, size: int) -> LlvmValue:
        return self.code.fold("mul", column, constant(LLVM_I64, size))

    def _right(self, column: LlvmValue, vectors: int, width: int) -> Callable[[LlvmValue, int], list[LlvmValue]]:
        """Reads the vectors of a block of columns at a step of the depth, or so many after it."""
        code, scheme = self.code, self.scheme
        size = scheme.group * scheme.right.bytes
        first = self._at(self.b, constant(LLVM_I64, 0), self._columns_at(column, size))
        t = scheme.right_vector(width)

        def read(k: LlvmValue, after: int = 0) -> list[LlvmValue]:
            line = code.gep(first, code.fold("mul", k, self.b.stride), Type("i8"))
            if after:
                line = code.gep(line, code.fold("mul", constant(LLVM_I64, after), self.b.stride), Type("i8"))
            return [code.load(code.gep(line, v * width * size, Type("i8")), t, size) for v in range(vectors)]

        return read

    def _bias(self, column: LlvmValue, vectors: int, width: int) -> list[LlvmValue]:
        """What the left operand's bias adds to each column of the result."""
        read, bias = self._right(column, vectors, width), self.scheme.biased(width)

        def run(k: LlvmValue, sums: tuple[LlvmValue, ...]) -> Sequence[LlvmValue]:
            return [self.scheme.step(self.code, bias, b, s) for b, s in zip(read(k, 0), sums, strict=True)]

        none = constant(Type(self.element.element, width), 0)
        return list(self.code.counted(self.depth // self.scheme.group, 1, run, [none] * vectors))

    def _tile(self, row: LlvmValue, height: int, column: LlvmValue, vectors: int, width: int,
              offsets: Sequence[LlvmValue] | None) -> None:
        """A block of `height` rows by `vectors` vectors, over the whole depth; `offsets` are subtracted."""
        code, scheme, size = self.code, self.scheme, self.scheme.total.bytes
        t = Type(self.element.element, width if width > 1 else 0)
        lines = self._rows(self.total, row, self._columns_at(column, size), height)
        cells = [code.gep(line, v * width * size, Type("i8")) for line in lines for v in range(vectors)]
        left = self._rows(self.a, row, constant(LLVM_I64, 0), height)
        read = self._right(column, vectors, width)

        def run(k: LlvmValue, sums: tuple[LlvmValue, ...]) -> Sequence[LlvmValue]:
            following = list(sums)
            at = [code.gep(first, k, scheme.left_step) for first in left]
            for u in range(unroll):
                right = read(k, u)
                for r in range(height):
                    step = code.load(code.gep(at[r], u, scheme.left_step) if u else at[r], scheme.left_step,
                                     scheme.left.bytes)
                    spread = code.splat(step, width) if width > 1 else step
                    for v, b in enumerate(right):
                        cell = r * vectors + v
                        following[cell] = scheme.step(code, spread, b, following[cell])
            return following

        steps = self.depth // scheme.group
        unroll = next(u for u in _UNROLLS if steps % u == 0)
        start = [code.load(cell, t, size) for cell in cells]
        if offsets is not None:
            start = [code.op("sub", s, offsets[n % vectors]) for n, s in enumerate(start)]
        for cell, value in zip(cells, code.counted(steps, unroll, run, start), strict=True):
            code.store(value, cell, size)
