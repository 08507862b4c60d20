"""The register-blocked product of a round: sums stay in registers over the depth of several steps of a K loop.

Loading and storing the sums of a block takes as long as a few steps of the depth, and longer where a large tile's sums
lie in the second cache.  Each element is summed in the same order as step by step, so that results have the same bits.
Before: a table of left matrices, and right ones at equal distances (`rounds`).  After: total += all a @ b.
Tests: tests/targets/cpu/test_rounds.py.
"""

from __future__ import annotations

from collections.abc import Sequence

from tilewright.targets.cpu.product import LINE, Matrix, Product, Steps, unrolled
from tilewright.targets.cpu.rounds import Slots, left_of
from tilewright.targets.cpu.schemes import Scheme
from tilewright.targets.cpu.state import Kernel
from tilewright.targets.llvm.types import I8, I64, constant
from tilewright.targets.llvm.types import Value as LlvmValue

import os
_MOST_LINES = int(os.environ.get('XPF', 4))       # of a row that are asked for at once


class DeepProduct(Product):
    """total += the sum of a @ b over the steps of a round."""

    def __init__(self, kernel: Kernel, scheme: Scheme, sizes: tuple[int, int, int], slots: Slots, total: Matrix,
                 unset: LlvmValue | None = None) -> None:
        """As `Product`; `slots` are the operands, of `sizes` each."""
        super().__init__(kernel, scheme, sizes, slots.right, slots.right, total, unset)
        self.slots = slots

    def _offsets(self, column: LlvmValue, vectors: int, width: int) -> list[LlvmValue] | None:
        """Each step has its own."""
        return None

    def _tile(self, row: LlvmValue, height: int, column: LlvmValue, vectors: int, width: int,
              offsets: Sequence[LlvmValue] | None) -> None:
        """A block of `height` rows by `vectors` vectors, over all steps."""
        code, slots, count = self.code, self.slots, self.depth // self.scheme.group
        cells = [cell for line in self._cells(row, height, column, vectors, width) for cell in line]
        unroll = unrolled(count)

        def one(step: LlvmValue, sums: tuple[LlvmValue, ...]) -> Sequence[LlvmValue]:
            a = left_of(self.kernel, slots, step)
            b = Matrix(code.gep(slots.right.address, code.op("mul", step, constant(I64, slots.right_bytes)), I8),
                       slots.right.stride)
            self._ask_for_rows_below(a, row, height)
            steps = Steps(self, self._rows(a, row, constant(I64, 0), height), self._right(b, column, vectors, width),
                          vectors, width)

            def run(k: LlvmValue, sums: tuple[LlvmValue, ...]) -> Sequence[LlvmValue]:
                following = list(sums)
                steps.at(k).together(0, unroll, following)
                return following

            if self.scheme.bias:
                lost = self._bias(b, column, vectors, width)
                sums = tuple(code.op("sub", s, lost[n % vectors]) for n, s in enumerate(sums))
            return code.counted(count, unroll, run, sums) if count > unroll else run(constant(I64, 0), sums)

        start = self._start(cells, width, None)
        for cell, value in zip(cells, code.loop(constant(I64, 0), slots.steps, constant(I64, 1), one, start),
                               strict=True):
            code.store(value, cell, self.scheme.total.bytes)

    def _ask_for_rows_below(self, a: Matrix, row: LlvmValue, height: int) -> None:
        """Ask for what the block below reads of a left matrix; the processor does that itself along long rows."""
        lines = -(-self.depth * self.scheme.left.bytes // LINE)
        if lines > _MOST_LINES:
            return
        for start in self._rows(a, self.code.fold("add", row, constant(I64, height)), constant(I64, 0), height):
            for n in range(lines):
                self.code.prefetch(self.code.gep(start, n * LINE, I8), 3)
