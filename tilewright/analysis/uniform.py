"""Which tiles hold one scalar everywhere, and which values are compile-time constants.

Facts are read off the defining ops, so they may be asked while a pass is still rebuilding: it notes each op that it
emits.  A `hint` is looked through: it promises, and changes no value.
Tests: tests/analysis/test_uniform.py, and all of tests/passes/golden/fold.
"""

from __future__ import annotations

from collections.abc import Iterable

from tilewright.ir.node import Block, Op, Value
from tilewright.ir.types import Tile
from tilewright.ir.walk import ops_in

# Rows whose result holds the elements of x, some of them repeated, and no others.
REARRANGING = frozenset({"broadcast", "expand_dims", "reshape", "permute", "hint", "box"})

Number = int | float | bool


class Uniform:
    """Definitions seen so far, and what they say."""

    def __init__(self, ops: Iterable[Op] = ()) -> None:
        self._ops: dict[Value, Op] = {}
        for op in ops:
            self.note(op)

    @classmethod
    def of(cls, block: Block) -> Uniform:
        """Facts of all values in `block` and below."""
        return cls(ops_in(block))

    def note(self, op: Op) -> None:
        """Learn the definition of the results of `op`."""
        for result in op.results:
            self._ops[result] = op

    def op_of(self, value: Value, name: str | None = None) -> Op | None:
        """The op that defines `value` (only if it is called `name`, where one is given)."""
        op = self._ops.get(value)
        return op if op is not None and (name is None or op.name == name) else None

    def scalar_of(self, value: Value) -> Value | None:
        """The scalar that `value` holds everywhere, or None; a scalar holds itself."""
        while isinstance(value.type, Tile):
            op = self._ops.get(value)
            if op is None or not (op.name == "splat" or op.name in REARRANGING):
                return None
            value = op.operands[0]
        return value

    def constant_of(self, value: Value) -> Number | None:
        """The number that `value` holds everywhere, as the attribute of `constant` has it, or None."""
        scalar = self.scalar_of(value)
        while scalar is not None:
            op = self._ops.get(scalar)
            if op is None or op.name not in ("constant", "hint"):
                return None
            if op.name == "constant":
                number: Number = op.attrs["value"]
                return number
            scalar = op.operands[0]
        return None

    def integer_of(self, value: Value) -> int | None:
        """As `constant_of`, for integers alone; i1 gives 0 or 1."""
        number = self.constant_of(value)
        return int(number) if isinstance(number, int) else None
