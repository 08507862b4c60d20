"""The register-blocked matrix product on matrices in memory.

A block of rows by vectors of columns stays in registers over the whole depth; edges use smaller blocks.  Nothing is
packed here: `dot` brings the operands into a good form.  Before: three matrices.  After: total += a @ b.
Tests: tests/targets/cpu/test_dot.py.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from tilewright.ir.types import F64, I64
from tilewright.targets.cpu.access import level_for
from tilewright.targets.cpu.asking import Lines, divided, lines_each, prefetch_rows, share
from tilewright.targets.cpu.nest import LINE, tail_pieces
from tilewright.targets.cpu.schemes import Scheme
from tilewright.targets.cpu.state import Kernel
from tilewright.targets.llvm import convert
from tilewright.targets.llvm.types import I64 as LLVM_I64
from tilewright.targets.llvm.types import Type, constant, zero
from tilewright.targets.llvm.types import Value as LlvmValue

# vector bits: (rows, vectors of columns) of the block in registers.  4x4 reads 8 values for 16 multiplications, 8x2 10:
# as fast on Zen 5, 1.04 to 1.09 times as fast on Emerald Rapids (512^3 and 1024^3, 2026-11-30); 12x2, 14x2 and 6x4 are
# not faster.  8 or more independent accumulators are needed; AVX2 has 16 registers, where 8x2 spills.
_BLOCKS = {512: (4, 4), 256: (6, 2), 128: (8, 2)}
# Where no instruction multiplies and adds (integers, words in groups, processors without fma), products want registers
# of their own, and additions take less long, so that fewer sums are enough.
_BLOCKS_APART = {512: (4, 4), 256: (4, 2), 128: (4, 2)}
# Steps of the depth in one iteration.  Four let the processor look further ahead (8 % where the left operand comes from
# the second cache; measured on a Xeon, 2026-11-30).
_UNROLLS = (4, 2, 1)
_REGISTERS = {512: 32, 256: 16, 128: 16}    # by vector bits


@dataclass(frozen=True, slots=True)
class Matrix:
    """A matrix in memory: address of its first element, bytes from row to row; columns are neighbours.

    `ahead`: bytes to the matrix that will be wanted next, if that is known.
    """

    address: LlvmValue
    stride: LlvmValue
    ahead: LlvmValue | None = None


class Product:
    """total += a @ b for one pair of matrices."""

    def __init__(self, kernel: Kernel, scheme: Scheme, sizes: tuple[int, int, int], a: Matrix, b: Matrix,
                 total: Matrix, unset: LlvmValue | None = None, wanted: Sequence[Lines] = ()) -> None:
        """`sizes` are rows, columns and depth; the matrices are as `scheme` says.

        Where `unset` (i1), the total is taken to be zero, whatever its memory holds.  The whole blocks ask for what is
        `wanted`.
        """
        self.kernel, self.code = kernel, kernel.code
        self.scheme = scheme
        self.rows, self.columns, self.depth = sizes
        self.a, self.b, self.total, self.unset, self.wanted = a, b, total, unset, wanted
        self.element = convert.register_type(scheme.total)
        self.width = kernel.lanes_for(scheme.total in (F64, I64))
        fused = scheme.total.is_float and self.code.isa.fma
        self.block = (_BLOCKS if fused else _BLOCKS_APART)[kernel.vector_bits]
        self.registers = _REGISTERS[kernel.vector_bits]
        self.widest = min(self.block[1] * self.width, self.columns)
        self.tallest = self._height(max(1, self.widest // self.width))

    def emit(self) -> None:
        """All blocks: columns outside, so that a block of b stays in the nearest cache."""
        for start, stop, vectors, width in self._column_blocks():
            self._over(start, stop, vectors * width, partial(self._down, vectors=vectors, width=width))

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
        height = self._height(vectors)
        tile = partial(self._tile, column=column, vectors=vectors, width=width, offsets=offsets)
        for start, stop, part in row_blocks(self.rows, height):
            self._over(start, stop, part, partial(tile, height=part))

    def _height(self, vectors: int) -> int:
        """Rows of a whole block of so many vectors."""
        return self.block[0] * (self.block[1] // vectors)

    def _over(self, start: int, stop: int, step: int, body: Callable[[LlvmValue], None]) -> None:
        """`body` at start, start + step, ... below stop."""
        if stop - start == step:
            body(constant(LLVM_I64, start))
            return

        def run(i: LlvmValue, _: tuple[LlvmValue, ...]) -> tuple[LlvmValue, ...]:
            body(self.code.fold("add", i, constant(LLVM_I64, start)))
            return ()

        self.code.counted(stop - start, step, run, hidden=True)

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
        """What the left operand's bias adds to each column of the result: it lies below the right operand."""
        return self._right(column, vectors, width)(constant(LLVM_I64, self.depth // self.scheme.group), 0)

    def _tile(self, row: LlvmValue, height: int, column: LlvmValue, vectors: int, width: int,
              offsets: Sequence[LlvmValue] | None) -> None:
        """A block of `height` rows by `vectors` vectors, over the whole depth; `offsets` are subtracted."""
        code, size = self.code, self.scheme.total.bytes
        lines = self._rows(self.total, row, self._columns_at(column, size), height)
        cells = [[code.gep(line, v * width * size, Type("i8")) for v in range(vectors)] for line in lines]
        steps = _Steps(self, self._rows(self.a, row, constant(LLVM_I64, 0), height),
                       self._right(column, vectors, width), vectors, width)
        count = self.depth // self.scheme.group
        unroll = next(u for u in _UNROLLS if count % u == 0)

        def run(k: LlvmValue, sums: tuple[LlvmValue, ...]) -> Sequence[LlvmValue]:
            following = list(sums)
            steps.at(k).together(0, unroll, following)
            return following

        self._look_ahead(row, height, column, vectors * width)
        if (height, vectors * width) == (self.tallest, self.widest):
            self._ask(row, column)
        sums = self._start([cell for line in cells for cell in line], width, offsets)
        if count > unroll:
            sums = list(code.counted(count - unroll, unroll, run, sums))
        # The last steps are done row by row, and sums stored as soon as they are there: a store that reads a register
        # long after it was written costs as much as a multiplication (17 % of tiles of 64 steps; Xeon, 2026-11-30).
        apart = min(unroll, max(1, (self.registers - 2 - height * vectors) // vectors))
        last = steps.at(constant(LLVM_I64, count - unroll))
        last.together(0, unroll - apart, sums)
        for r in last.by_rows(unroll - apart, unroll, sums):
            for v, cell in enumerate(cells[r]):
                code.store(sums[r * vectors + v], cell, size)

    def _look_ahead(self, row: LlvmValue, height: int, column: LlvmValue, block: int) -> None:
        """Ask for a part of the left operand's next tile: all whole blocks of columns ask for each line of it once.

        Few at a time, so that the loads of this tile do not wait for those.  (1024^3 in tiles of 64x64x32, whose left
        operand comes from the third cache: 1.17 times as fast; Zen 4, 2026-11-30.)  Into the second cache if the tile
        would fill the first one (tiles of 128x128x64: 1.03 and 1.07 times as fast beside OpenBLAS; Emerald Rapids).
        """
        if self.a.ahead is None or block != self.widest:
            return
        code, lines = self.code, -(-self.depth * self.scheme.left.bytes // LINE)
        each = lines_each(height, lines, self.columns // block)
        first, start = share(code, divided(code, column, block), each, lines)
        at = self._at(self.a, code.fold("add", row, first), code.fold("add", start, self.a.ahead))
        prefetch_rows(code, at, self.a.stride, each, lines, level_for(self.rows * self.depth * self.scheme.left.bytes))

    def _ask(self, row: LlvmValue, column: LlvmValue) -> None:
        """Ask for the part of what is wanted that falls to a whole block."""
        code, down, across = self.code, self.rows // self.tallest, self.columns // self.widest
        number = code.fold("add", code.fold("mul", divided(code, column, self.widest), constant(LLVM_I64, down)),
                           divided(code, row, self.tallest))
        for lines in self.wanted:
            lines.ask(code, number, down * across)

    def _start(self, cells: Sequence[LlvmValue], width: int, offsets: Sequence[LlvmValue] | None) -> list[LlvmValue]:
        """The sums to begin with."""
        code, t = self.code, Type(self.element.element, width if width > 1 else 0)

        def read() -> list[LlvmValue]:
            return [code.load(cell, t, self.scheme.total.bytes) for cell in cells]

        start = read() if self.unset is None else list(code.branch(self.unset, lambda: [zero(t)] * len(cells), read))
        if offsets is None:
            return start
        return [code.op("sub", s, offsets[n % len(offsets)]) for n, s in enumerate(start)]


def row_blocks(rows: int, height: int) -> Iterator[tuple[int, int, int]]:
    """(start, stop, height) of the blocks of rows of one height, most of them of `height`.

    Where that is no power of two, what is left is one block; if it would be lower than half, two equal ones take its
    place and that of the block before: a block of two rows has too few sums to hide how long a multiplication takes.
    """
    whole = rows // height * height
    left = rows - whole
    if height & (height - 1) == 0:
        parts = [1 << bit for bit in reversed(range(left.bit_length())) if left >> bit & 1]
    elif whole and 0 < 2 * left < height and (height + left) % 2 == 0:
        whole, part = whole - height, (height + left) // 2
        parts = [part, part]
    else:
        parts = [left] if left else []
    if whole:
        yield 0, whole, height
    for part, group in itertools.groupby(parts):
        count = len(list(group))
        yield whole, whole + count * part, part
        whole += count * part


class _Steps:
    """Steps of the depth for one block in registers: `left` rows, and what reads the right operand's vectors."""

    def __init__(self, product: Product, left: Sequence[LlvmValue], right: Callable[[LlvmValue, int], list[LlvmValue]],
                 vectors: int, width: int) -> None:
        self.code, self.scheme = product.code, product.scheme
        self.left, self.right, self.vectors, self.width = left, right, vectors, width

    def at(self, k: LlvmValue) -> _Steps:
        """From step `k` on."""
        self.k = k
        self.rows = [self.code.gep(first, k, self.scheme.left_step) for first in self.left]
        return self

    def together(self, start: int, stop: int, sums: list[LlvmValue]) -> None:
        """Steps from `start` to `stop`, each for all rows."""
        for u in range(start, stop):
            right = self.right(self.k, u)
            for r in range(len(self.rows)):
                self._row(r, u, right, sums)

    def by_rows(self, start: int, stop: int, sums: list[LlvmValue]) -> Iterator[int]:
        """The same, one row after the other; yields the number of a row that is done."""
        right = [self.right(self.k, u) for u in range(start, stop)]
        for r in range(len(self.rows)):
            for u in range(start, stop):
                self._row(r, u, right[u - start], sums)
            yield r

    def _row(self, r: int, u: int, right: Sequence[LlvmValue], sums: list[LlvmValue]) -> None:
        """One step for one row."""
        code, t = self.code, self.scheme.left_step
        step = code.load(code.gep(self.rows[r], u, t) if u else self.rows[r], t, self.scheme.left.bytes)
        spread = code.splat(step, self.width) if self.width > 1 else step
        for cell, b in enumerate(right, r * self.vectors):
            sums[cell] = self.scheme.step(code, spread, b, sums[cell])
