"""Matrix products by an instruction that multiplies whole tiles (AMX, `llvm.amx`).

Four tiles of sums stay in registers over the whole depth, two by two where the matrix allows it, so that each operand's
tile that is loaded is used twice.  Rows are outside.  A round is so deep that the nearest cache holds its left operand
for two rows of tiles, for all columns; right tiles pass by it (that takes 0.84 to 0.93 of the time; Emerald Rapids,
2026-11-30).  The operands lie in memory as for `product`; a right tile has a row of 16 groups for
each group of the depth.
Before: three matrices; the registers are configured as `tile_registers` says.  After: total += a @ b.
Tests: tests/targets/cpu/test_tiles.py.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

from tilewright.targets.cpu.product import Matrix, Product
from tilewright.targets.cpu.rounds import Slots, left_of
from tilewright.targets.cpu.schemes import GROUPED_LANES, Scheme
from tilewright.targets.cpu.state import Kernel
from tilewright.targets.llvm import amx
from tilewright.targets.llvm.types import I64, Type, constant
from tilewright.targets.llvm.types import Value as LlvmValue

_BYTE = Type("i8")
_GROUP = 4                              # bytes of a group, and of a sum
_SUM_ROW = GROUPED_LANES * _GROUP       # of a tile of sums or of the right operand
_UNROLLS = (4, 2, 1)                    # steps of the depth in one iteration


class TiledProduct(Product):
    """total += a @ b for one pair of matrices, or for those of a round."""

    def __init__(self, kernel: Kernel, scheme: Scheme, sizes: tuple[int, int, int], a: Matrix, b: Matrix,
                 total: Matrix, unset: LlvmValue | None = None, slots: Slots | None = None) -> None:
        """As `Product`; with `slots`, `a` and `b` are one pair of several."""
        super().__init__(kernel, scheme, sizes, a, b, total, unset)
        self.slots = slots

    def emit(self) -> None:
        """All blocks."""
        assert self.scheme.tiles is not None and self.kernel.tiles is not None
        self.shape = self.scheme.tiles
        self.kernel.tiles.require(self.code, self.shape)
        across = 4 if self.rows == self.shape.rows else 2
        self.widest = min(across * GROUPED_LANES, self.columns)
        down = 4 if self.columns == GROUPED_LANES else len(amx.SUMS) // across
        height = self.shape.rows
        for start, stop, count in _parts(self.rows // height, down):
            self._over(start * height, stop * height, count * height, partial(self._tiles_across, down=count))

    def _tiles_across(self, row: LlvmValue, down: int) -> None:
        """All columns of `down` rows of tiles."""
        for start, stop, count in _parts(self.columns // GROUPED_LANES, len(amx.SUMS) // down):
            self._over(start * GROUPED_LANES, stop * GROUPED_LANES, count * GROUPED_LANES,
                       partial(self._block, row, down=down, across=count))

    def _block(self, row: LlvmValue, column: LlvmValue, down: int, across: int) -> None:
        """`down` by `across` tiles of sums, over the whole depth."""
        code = self.code
        if self.slots is None:
            self._look_ahead(row, down * self.shape.rows, column, across * GROUPED_LANES)
        sums = self._starts(self.total, row, self._columns_at(column, _GROUP), down)
        cells = [(amx.SUMS[n], sums[n // across], n % across) for n in range(down * across)]

        def clear() -> tuple[LlvmValue, ...]:
            for tile, _, _ in cells:
                amx.clear(code, tile)
            return ()

        def read() -> tuple[LlvmValue, ...]:
            for tile, start, v in cells:
                amx.load(code, tile, code.gep(start, v * _SUM_ROW, _BYTE), self.total.stride)
            return ()

        if self.unset is None:
            read()
        else:
            code.branch(self.unset, clear, read)
        self._over_slots(row, column, down, across)
        for tile, start, v in cells:
            amx.store(code, tile, code.gep(start, v * _SUM_ROW, _BYTE), self.total.stride)

    def _over_slots(self, row: LlvmValue, column: LlvmValue, down: int, across: int) -> None:
        """The products of one block, for all steps of a round."""
        code, slots = self.code, self.slots
        right = self._at(self.b, constant(I64, 0), self._columns_at(column, _GROUP))
        if slots is None:
            self._over_depth(self.a, right, row, down, across)
            return

        def run(step: LlvmValue, _: tuple[LlvmValue, ...]) -> tuple[LlvmValue, ...]:
            offset = code.op("mul", step, constant(I64, slots.right_bytes))
            self._over_depth(left_of(self.kernel, slots, step), code.gep(right, offset, _BYTE), row, down, across)
            return ()

        code.loop(constant(I64, 0), slots.steps, constant(I64, 1), run)

    def _over_depth(self, a: Matrix, right: LlvmValue, row: LlvmValue, down: int, across: int) -> None:
        """The products of one block for a left matrix, and right tiles from `right` on."""
        code, width = self.code, self.shape.bytes
        lefts = self._starts(a, row, constant(I64, 0), down)
        step = code.fold("mul", constant(I64, width // _GROUP), self.b.stride)
        count = self.depth * self.scheme.left.bytes // width
        unroll = next(u for u in _UNROLLS if count % u == 0)

        def run(k: LlvmValue, _: tuple[LlvmValue, ...]) -> tuple[LlvmValue, ...]:
            for u in range(unroll):
                number = code.fold("add", k, constant(I64, u))
                along = code.fold("mul", number, constant(I64, width))
                below = code.gep(right, code.fold("mul", number, step), _BYTE)
                self._step([code.gep(left, along, _BYTE) for left in lefts], a.stride,
                           [code.gep(below, v * _SUM_ROW, _BYTE) for v in range(across)])
            return ()

        if count > unroll:
            code.counted(count, unroll, run)
        else:
            run(constant(I64, 0), ())

    def _step(self, lefts: Sequence[LlvmValue], stride: LlvmValue, rights: Sequence[LlvmValue]) -> None:
        """One tile of the depth.  Of the operand with more tiles than registers each one is used once."""
        code, is_float, passing = self.code, self.scheme.total.is_float, self.slots is not None
        few = len(rights) <= len(amx.RIGHT)
        if few:
            for register, right in zip(amx.RIGHT, rights, strict=False):
                amx.load(code, register, right, self.b.stride, passing)
        for d, left in enumerate(lefts):
            amx.load(code, amx.LEFT[d % len(amx.LEFT)], left, stride)
            for v, right in enumerate(rights):
                register = amx.RIGHT[v % len(amx.RIGHT)]
                if not few:
                    amx.load(code, register, right, self.b.stride, passing)
                amx.multiply(code, amx.SUMS[d * len(rights) + v], amx.LEFT[d % len(amx.LEFT)], register, is_float)

    def _starts(self, matrix: Matrix, row: LlvmValue, offset: LlvmValue, count: int) -> list[LlvmValue]:
        """The byte at `offset` of the first row of tiles that lie below each other."""
        first = self._at(matrix, row, offset)
        return [self.code.gep(first, self.code.fold("mul", constant(I64, d * self.shape.rows), matrix.stride), _BYTE)
                for d in range(count)]


def _parts(count: int, most: int) -> Iterator[tuple[int, int, int]]:
    """(start, stop, size) of runs of equal parts that cover `count`: of size `most`, then of smaller powers of two."""
    start = 0
    while most:
        stop = start + (count - start) // most * most
        if stop > start:
            yield start, stop, most
        start, most = stop, most // 2
