"""How far a tile moves from one iteration of a loop to the next, and how far apart its elements are.

    for j in range(0, n, 128):
        store x + row * stride + (j + iota 128)      moves by 128 an iteration, its elements are up to 127 apart

What moves farther than its elements are apart touches other elements in every iteration.  What no loop changes counts
for nothing, whatever number it is; elements that a run-time factor spreads are known to nobody.  Offsets are taken not
to wrap, as those of an address within an array do not.
Before: no calls.  After: nothing changes.  Tests: tests/analysis/test_advance.py.
"""

from __future__ import annotations

from typing import NamedTuple

from tilewright.analysis.uniform import Uniform
from tilewright.ir.node import Block, Op, Value
from tilewright.ir.types import Tile
from tilewright.ir.walk import Definition, definitions, ops_in

_MOVES = frozenset({"splat", "broadcast", "expand_dims", "permute", "reshape", "convert", "hint", "ext_s"})
_SUMS = frozenset({"add", "ptr_add"})


class Advance(NamedTuple):
    """By how much every element grows in each iteration, and how far the farthest two elements are apart; elements."""

    step: int
    spread: int

_STILL = Advance(0, 0)


class Advances:
    """The advances of integers and pointers in the loops of one function's body."""

    def __init__(self, body: Block) -> None:
        self._definitions, self._uniform = definitions(body), Uniform.of(body)
        self._inside: dict[Op, frozenset[Value]] = {}

    def changes(self, value: Value, loop: Op) -> bool:
        """Whether `value` is made inside of `loop`, so that each iteration has its own."""
        if loop not in self._inside:
            made = {v for region in loop.regions for v in region.args}
            for op in (o for region in loop.regions for o in ops_in(region)):
                made.update(op.results, (v for region in op.regions for v in region.args))
            self._inside[loop] = frozenset(made)
        return value in self._inside[loop]

    def of(self, value: Value, loop: Op) -> Advance | None:
        """The advance of `value` in the `for` loop `loop`; None where it is not known."""
        if not isinstance(value.type, Tile) and not self.changes(value, loop):
            return _STILL
        definition = self._definitions.get(value)
        if definition is None or definition.op is None:
            return None
        if definition.is_argument:
            return self._carried(definition, loop)
        op = definition.op
        if op.name == "iota":
            return Advance(0, op.attrs["end"] - op.attrs["start"] - 1)
        if self._uniform.integer_of(value) is not None:
            return _STILL
        if op.name in _MOVES:
            return self.of(op.operands[0], loop)
        if op.name in _SUMS or op.name == "sub":
            return self._sum(op, loop)
        return self._product(op, loop) if op.name in ("mul", "shl") else None

    def is_apart(self, pointer: Value, loop: Op) -> bool:
        """Whether no iteration of `loop` touches through `pointer` what another one does."""
        advance = self.of(pointer, loop) if loop.name == "for" else None
        return advance is not None and abs(advance.step) > advance.spread

    def _sum(self, op: Op, loop: Op) -> Advance | None:
        a, b = (self.of(v, loop) for v in op.operands)
        if a is None or b is None:
            return None
        return Advance(a.step - b.step if op.name == "sub" else a.step + b.step, a.spread + b.spread)

    def _product(self, op: Op, loop: Op) -> Advance | None:
        """By a constant."""
        for value, factor in (op.operands, reversed(op.operands)):
            number = self._uniform.integer_of(factor)
            if number is not None and not (op.name == "shl" and (factor is op.operands[0] or not 0 <= number < 32)):
                given, times = self.of(value, loop), 1 << number if op.name == "shl" else number
                return given and Advance(given.step * times, given.spread * abs(times))
        return None

    def _carried(self, definition: Definition, loop: Op) -> Advance | None:
        """A loop's index, and what its body passes on with a constant added; outer loops stand still meanwhile."""
        owner = definition.op
        if owner is None or owner.name != "for":
            return None
        position = definition.index - 1
        if position < 0:
            step = self._uniform.integer_of(owner.operands[2])
            return None if owner is not loop or step is None else Advance(step, 0)
        start = self.of(owner.operands[3 + position], loop)
        if owner is not loop or start is None or start.step:
            return None
        grown = self._grown(definition, owner.regions[0].terminator.operands[position])
        return None if grown is None else Advance(grown, start.spread)

    def _grown(self, definition: Definition, passed: Value) -> int | None:
        """What is added to an argument of a loop's body before it is passed on."""
        assert definition.block is not None
        argument, total = definition.block.args[definition.index], 0
        while passed is not argument:
            made = self._definitions.get(passed)
            if made is None or made.op is None or made.is_argument or made.op.name not in _SUMS:
                return None
            passed, added = made.op.operands
            number = self._uniform.integer_of(added)
            if number is None:
                return None
            total += number
        return total
