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

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import NamedTuple

from tilewright.targets.cpu.product import Matrix, Product
from tilewright.targets.cpu.rounds import Slots, left_of
from tilewright.targets.cpu.schemes import GROUPED_LANES, Scheme
from tilewright.targets.cpu.state import Kernel
from tilewright.targets.llvm import amx
from tilewright.targets.llvm.types import I64, Type, constant, integer_value
from tilewright.targets.llvm.types import Value as LlvmValue

_BYTE = Type("i8")
_GROUP = 4                              # bytes of a group, and of a sum
_SUM_ROW = GROUPED_LANES * _GROUP       # of a tile of sums or of the right operand
_UNROLLS = (4, 2, 1)                    # steps of the depth in one iteration


class _Operands(NamedTuple):
    """Where the tiles of one step of the depth are: left ones, with bytes from row to row, and the first right one.

    The right ones lie side by side; `below`: bytes from there to that of the next step.
    """

    lefts: Sequence[LlvmValue]
    stride: LlvmValue
    right: LlvmValue
    below: LlvmValue


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
        code, slots, width = self.code, self.slots, self.shape.bytes
        right = self._at(self.b, constant(I64, 0), self._columns_at(column, _GROUP))
        below = code.fold("mul", constant(I64, width // _GROUP), self.b.stride)
        count = self.depth * self.scheme.left.bytes // width

        def operands(a: Matrix, right: LlvmValue) -> _Operands:
            return _Operands(self._starts(a, row, constant(I64, 0), down), a.stride, right, below)

        if slots is not None:
            self._in_turn(slots.steps, count, down, across, lambda step: operands(
                left_of(self.kernel, slots, step),
                code.gep(right, code.fold("mul", step, constant(I64, slots.right_bytes)), _BYTE)))
            return
        whole, together = operands(self.a, right), next(u for u in _UNROLLS if count % u == 0)
        self._in_turn(constant(I64, count // together), together, down, across, lambda n: self._further(
            whole, code.fold("mul", n, constant(I64, together))))

    def _in_turn(self, count: LlvmValue, together: int, down: int, across: int,
                 at: Callable[[LlvmValue], _Operands]) -> None:
        """All products of a block: `count` (i64) times `together` tiles of the depth, the n-th of these at `at(n)`.

        A register is loaded for the next tile as soon as it has been read for the last time: products wait less for
        operands from the second cache (512^3 in tiles of 64: 0.88 of the time; Emerald Rapids, 2026-11-30).
        """
        code, one = self.code, constant(I64, 1)
        step = partial(self._step, down=down, across=across)

        def inner(first: _Operands) -> _Operands:
            """The products of all tiles but the last one, which is returned."""
            here = first
            for n in range(1, together):
                following = self._further(first, constant(I64, n))
                step(here, following)
                here = following
            return here

        def run(n: LlvmValue, _: tuple[LlvmValue, ...]) -> tuple[LlvmValue, ...]:
            step(inner(at(n)), at(code.fold("add", n, one)))
            return ()

        self._begin(at(constant(I64, 0)), down, across)
        last = code.fold("sub", count, one)
        if integer_value(last) != 0:
            code.loop(constant(I64, 0), last, one, run)
        step(inner(at(last)), None)

    def _further(self, operands: _Operands, tiles: LlvmValue) -> _Operands:
        """So many tiles of the depth after these."""
        code = self.code
        along = code.fold("mul", tiles, constant(I64, self.shape.bytes))
        return operands._replace(
            lefts=[code.gep(left, along, _BYTE) for left in operands.lefts],
            right=code.gep(operands.right, code.fold("mul", tiles, operands.below), _BYTE))

    def _begin(self, operands: _Operands, down: int, across: int) -> None:
        """Load what the first products of a step read."""
        for n in range(len(amx.LEFT)):
            if n < across:
                self._load_right(operands, n)
            if n < down:
                self._load_left(operands, n)

    def _step(self, here: _Operands, following: _Operands | None, down: int, across: int) -> None:
        """The products of one tile of the depth; registers that are done with take tiles of the following one.

        Of an operand with more tiles than registers each tile is used once.
        """
        code, is_float, spare = self.code, self.scheme.total.is_float, len(amx.LEFT)
        for d in range(down):
            for v in range(across):
                amx.multiply(code, amx.SUMS[d * across + v], amx.LEFT[d % spare], amx.RIGHT[v % spare], is_float)
                if d == down - 1:
                    self._load_right(*((here, v + spare) if v + spare < across else (following, v % spare)))
            self._load_left(*((here, d + spare) if d + spare < down else (following, d % spare)))

    def _load_left(self, operands: _Operands | None, number: int) -> None:
        if operands is not None:
            amx.load(self.code, amx.LEFT[number % len(amx.LEFT)], operands.lefts[number], operands.stride)

    def _load_right(self, operands: _Operands | None, number: int) -> None:
        if operands is not None:
            amx.load(self.code, amx.RIGHT[number % len(amx.RIGHT)],
                     self.code.gep(operands.right, number * _SUM_ROW, _BYTE), self.b.stride, self.slots is not None)

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
