"""Memory that will be wanted is asked for by the blocks of a product, each a few lines, so that nobody waits for them.

Many at once would keep the loads of the product itself waiting.  Before: where the memory is.  After: prefetches.
Tests: tests/targets/cpu/test_dot.py, test_wanted.py.
"""

from __future__ import annotations

from dataclasses import dataclass

from tilewright.targets.cpu.code import Code
from tilewright.targets.cpu.nest import LINE
from tilewright.targets.llvm.types import I8, I64, Value, constant, integer_value

_SECOND = 2         # the second cache, as LLVM counts (see `access.level_for`)
_MOST = 16          # lines at once


@dataclass(frozen=True, slots=True)
class Lines:
    """Memory that will be wanted, if `condition` (i1) holds: `count` rows of `bytes` bytes, `stride` (i64) apart.

    One product asks for part number `part` (i64) of `parts`; None: there is but one.
    """

    condition: Value
    address: Value
    stride: Value
    count: int
    bytes: int
    part: Value | None = None
    parts: int = 1

    def ask(self, code: Code, number: Value, blocks: int) -> None:
        """What block `number` (i64) of `blocks` does: nothing where few blocks would ask for much each.

        Into the second cache: a line that comes from further away occupies, on its way into the first one, what loads
        need there (affine + ReLU of 1M in C that asks for its input 2 and 4 KiB ahead takes 1.7 and 1.4 times as long
        with the first one, as long as without with the second; Emerald Rapids, 2026-12-01).
        """
        lines = -(-self.bytes // LINE)
        each = lines_each(self.count, lines, blocks * self.parts)
        if each > _MOST:
            return
        if self.part is not None:
            number = code.fold("add", number, code.fold("mul", self.part, constant(I64, blocks)))

        def some() -> tuple[Value, ...]:
            row, start = share(code, number, each, lines)
            first = code.gep(self.address, code.fold("add", code.fold("mul", row, self.stride), start), I8)
            prefetch_rows(code, first, self.stride, each, lines, _SECOND)
            return ()

        code.branch(self.condition, some)


def lines_each(height: int, lines: int, blocks: int) -> int:
    """How many of `height` rows of `lines` lines each of `blocks` blocks asks for: whole rows or a part of one."""
    least = -(-height * lines // blocks)
    return -(-least // lines) * lines if least >= lines else next(n for n in range(least, lines + 1) if lines % n == 0)


def share(code: Code, number: Value, each: int, lines: int) -> tuple[Value, Value]:
    """Row and byte at which the share of block `number` begins, if each has `each` lines of rows of `lines`."""
    if each >= lines:
        return code.fold("mul", number, constant(I64, each // lines)), constant(I64, 0)
    row = divided(code, number, lines // each)
    part = code.fold("sub", number, code.fold("mul", row, constant(I64, lines // each)))
    return row, code.fold("mul", part, constant(I64, each * LINE))


def prefetch_rows(code: Code, first: Value, stride: Value, each: int, lines: int, level: int) -> None:
    """Ask for `each` lines from `first` on, of rows of `lines` lines that are `stride` bytes apart."""
    for n in range(each):
        row = code.gep(first, code.fold("mul", constant(I64, n // lines), stride), I8) if n >= lines else first
        code.prefetch(code.gep(row, n % lines * LINE, I8), level)


def divided(code: Code, a: Value, b: int) -> Value:
    """a / b for numbers that are not negative, decided now for a constant."""
    known = integer_value(a)
    if known is not None:
        return constant(I64, known // b)
    return a if b == 1 else code.op("udiv", a, constant(I64, b))
