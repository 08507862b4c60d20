"""The register-blocked matrix product on matrices in memory.

A block of rows by vectors of columns stays in registers over the whole depth; edges use smaller blocks.  Nothing is
packed here: `dot` brings the operands into a good form.  Before: three matrices.  After: total += a @ b.
Tests: tests/targets/cpu/test_dot.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from tilewright.ir.types import F64, I64, Scalar
from tilewright.targets.cpu.state import Kernel
from tilewright.targets.llvm import convert
from tilewright.targets.llvm.types import I64 as LLVM_I64
from tilewright.targets.llvm.types import Type, constant
from tilewright.targets.llvm.types import Value as LlvmValue

# vector bits: (rows, vectors of columns) of the block in registers.  Measured on AVX-512: 8x2 97-98 % of the peak,
# with 8 or more independent accumulators needed; AVX2 has 16 registers, where 8x2 spills.
_BLOCKS = {512: (8, 2), 256: (6, 2), 128: (8, 2)}


@dataclass(frozen=True, slots=True)
class Matrix:
    """A matrix in memory: address of its first element, bytes from row to row; columns are neighbours."""

    address: LlvmValue
    stride: LlvmValue


class Product:
    """total += a @ b for one pair of matrices."""

    def __init__(self, kernel: Kernel, inner: Scalar, sizes: tuple[int, int, int], a: Matrix, b: Matrix,
                 total: Matrix) -> None:
        """`sizes` are rows, columns and depth; all elements are of `inner`."""
        self.code = kernel.code
        self.inner = inner
        self.rows, self.columns, self.depth = sizes
        self.a, self.b, self.total = a, b, total
        self.element = convert.register_type(inner)
        self.width = kernel.lanes_for(inner in (F64, I64))
        self.block = _BLOCKS[kernel.vector_bits]

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
        width, vectors = self.width, self.block[1]
        step = vectors * width
        whole = self.columns // step * step
        if whole:
            yield 0, whole, vectors, width
        start = whole
        while start < self.columns:
            piece = min(width, 1 << ((self.columns - start).bit_length() - 1))
            yield start, start + piece, 1, piece
            start += piece

    def _down(self, column: LlvmValue, vectors: int, width: int) -> None:
        """All rows of a block of columns."""
        height = self.block[0] * (self.block[1] // vectors)
        whole = self.rows // height * height
        if whole > height:
            self._over(0, whole, height, lambda i: self._tile(i, column, height, vectors, width))
        elif whole:
            self._tile(constant(LLVM_I64, 0), column, height, vectors, width)
        left = whole
        while left < self.rows:
            part = min(height, 1 << ((self.rows - left).bit_length() - 1))
            self._tile(constant(LLVM_I64, left), column, part, vectors, width)
            left += part

    def _over(self, start: int, stop: int, step: int, body: Callable[[LlvmValue], None]) -> None:
        """`body` at start, start + step, ... below stop."""
        def run(i: LlvmValue, _: tuple[LlvmValue, ...]) -> tuple[LlvmValue, ...]:
            body(self.code.fold("add", i, constant(LLVM_I64, start)))
            return ()

        self.code.counted(stop - start, step, run)

    def _at(self, matrix: Matrix, row: LlvmValue, column: LlvmValue) -> LlvmValue:
        """Address of an element, by byte."""
        code = self.code
        offset = code.fold("add", code.fold("mul", row, matrix.stride),
                           code.fold("mul", column, constant(LLVM_I64, self.inner.bytes)))
        return code.gep(matrix.address, offset, Type("i8"))

    def _tile(self, row: LlvmValue, column: LlvmValue, height: int, vectors: int, width: int) -> None:
        """A block of `height` rows by `vectors` vectors, over the whole depth."""
        code, size = self.code, self.inner.bytes
        t = Type(self.element.element, width if width > 1 else 0)
        rows = [code.fold("add", row, constant(LLVM_I64, r)) for r in range(height)]
        zero = constant(LLVM_I64, 0)
        cells = [code.gep(self._at(self.total, r, column), v * width * size, Type("i8"))
                 for r in rows for v in range(vectors)]
        left = [self._at(self.a, r, zero) for r in rows]
        right = self._at(self.b, zero, column)

        def run(k: LlvmValue, sums: tuple[LlvmValue, ...]) -> Sequence[LlvmValue]:
            line = code.gep(right, code.fold("mul", k, self.b.stride), Type("i8"))
            bs = [code.load(code.gep(line, v * width * size, Type("i8")), t, size) for v in range(vectors)]
            following = []
            for r in range(height):
                number = code.load(code.gep(left[r], k, self.element), self.element, size)
                spread = code.splat(number, width) if width > 1 else number
                following += [self._step(spread, b, sums[r * vectors + v]) for v, b in enumerate(bs)]
            return following

        start = [code.load(cell, t, size) for cell in cells]
        for cell, value in zip(cells, code.counted(self.depth, 1, run, start), strict=True):
            code.store(value, cell, size)

    def _step(self, a: LlvmValue, b: LlvmValue, total: LlvmValue) -> LlvmValue:
        if self.element.is_float:
            return self.code.fma(a, b, total)
        return self.code.op("add", self.code.op("mul", a, b), total)
