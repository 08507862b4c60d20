"""Stores that bypass the caches, where a run-time test says that this pays.

A plain store to memory that is not in a cache reads it first; a non-temporal one does not.  From DRAM that makes
kernels up to 1.4 times as fast, within the caches up to twice as slow.  So a store streams only if all of this holds:
the launch writes more than the caches keep (programs of the grid times bytes of the tile), every row of the tile is
contiguous and starts at a cache line (or is written from one on: `heads`), no lane is masked, it stands in no loop
(what is written again is wanted in the cache), nothing of the same argument is loaded, and the kernel is not so long
that its code should not be doubled.  Only whole lines stream (`Nest.vectors_of`): half of one, and an ordinary store to
the other half, would have to be merged in memory.  The host fences after a range of programs (metadata `nontemporal`),
since such stores are not ordered among others.
Tests: tests/targets/cpu/test_streaming.py.
"""

from __future__ import annotations

import math

from tilewright.ir.node import Module, Op
from tilewright.ir.ops.table import Effect
from tilewright.ir.types import Pointer, element_of, shape_of
from tilewright.ir.walk import ops_in
from tilewright.targets.cpu.aliasing import Aliases
from tilewright.targets.cpu.evaluate import Evaluator, Facts
from tilewright.targets.cpu.nest import LINE, fixed
from tilewright.targets.cpu.plan import Plan
from tilewright.targets.cpu.state import Kernel
from tilewright.targets.llvm.types import I64, Value, constant

# Bytes from which a launch's output does not stay in a cache: half of a last-level cache of 32 MiB, less what else
# is in it.  Measured with 32 MiB: at 16 MiB a gain of 4 to 50 %, at 4 MiB a loss.
LEAST_BYTES = 12 << 20


class Streaming:
    """Decides for the stores of one kernel."""

    def __init__(self, kernel: Kernel, module: Module, plan: Plan, aliases: Aliases) -> None:
        self.kernel = kernel
        self.code = kernel.code
        self.plan = plan
        self.aliases = aliases
        self.used = False           # whether the kernel has streaming stores
        self._loaded = {aliases.base(op.operands[0]) for op in ops_in(module.entry.body)
                        if op.row.effects & Effect.READS and isinstance(element_of(op.operands[0].type), Pointer)}

    def condition(self, op: Op, facts: Facts, by_heads: Value | None = None) -> Value | None:
        """When the store `op`, whose lanes are all on where `facts` hold, is to stream; None: never.

        Where `by_heads` holds its vectors begin at lines, wherever the rows do, if elements lie at multiples of their
        size, which arrays need not.
        """
        pointer = op.operands[0]
        shape, element = shape_of(pointer.type), element_of(op.operands[1].type)
        if self.plan.is_large or self.kernel.vector_bits < 256 or element.bytes < 4 or self._is_wanted(op):
            return None
        if not shape or shape[-1] * element.bytes < LINE:
            return None
        steps = self.aliases.steps(pointer, remainders=True)
        if steps is None or steps[-1] != 1:
            return None
        self.used = True
        code = self.code
        misplaced = self._misplaced(op, facts)
        aligned = self._is_multiple(misplaced, LINE)
        if by_heads is not None:
            lines_hold_elements = self._is_multiple(misplaced, element.bytes)       # else no vector begins at a line
            aligned = code.op("or", aligned, code.op("and", by_heads, lines_hold_elements))
        return code.op("and", self.leaves_caches(math.prod(shape) * element.bytes), aligned)

    def leaves_caches(self, size: int) -> Value:
        """Whether a launch whose programs write `size` bytes each writes more than caches keep (i1)."""
        return self.code.icmp("sge", self.written(size), constant(I64, LEAST_BYTES))

    def written(self, size: int) -> Value:
        """Bytes that a launch writes whose programs write `size` bytes each."""
        total = constant(I64, size)
        for axis in range(3):
            total = self.code.fold("mul", total, self.kernel.context_word(axis, I64))
        return total

    def _is_multiple(self, number: Value, of: int) -> Value:
        """Whether `of`, a power of two, divides `number` (i1)."""
        return self.code.icmp("eq", self.code.op("and", number, constant(I64, of - 1)), constant(I64, 0))

    def _is_wanted(self, op: Op) -> bool:
        """Whether what `op` writes may be used again before long."""
        base = self.aliases.base(op.operands[0])
        place = self.plan.places[op]
        while place.around is not None:
            if place.around.name in ("for", "while"):
                return True
            place = self.plan.places[place.around]
        return base is None or base in self._loaded

    def _misplaced(self, op: Op, facts: Facts) -> Value:
        """A number whose low bits are 0 if every row starts at a line."""
        code, pointer = self.code, op.operands[0]
        shape = shape_of(pointer.type)
        e = Evaluator(self.kernel, 1, code.depth, facts)

        def address(moved: int) -> Value:
            index = tuple(fixed(int(d == moved)) for d in range(len(shape)))
            return code.cast("ptrtoint", e.scalar(e.at(pointer, index)), I64)

        first = address(-1)
        total = first
        for dimension, size in enumerate(shape[:-1]):
            if size > 1:
                total = code.op("or", total, code.op("sub", address(dimension), first))
        return total
