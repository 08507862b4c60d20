"""What the rules of the fold pass share: facts, emission of simplified ops, constants, evaluation by `ref`.

A rule gets a `Folding` and an op and returns what its results become, or None where it says nothing.
Tests: tests/passes/golden/fold.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

import numpy as np

from tilewright.analysis.uniform import Number, Uniform
from tilewright.diagnostics import Location
from tilewright.ir import fp
from tilewright.ir.build import make_op
from tilewright.ir.node import Op, Value
from tilewright.ir.ops import TABLE
from tilewright.ir.ops.table import Array, Call, Machine
from tilewright.ir.types import Element, Pointer, Tile, Type, element_of

# None: nothing to say.  Values: one for each result of the op.
Outcome = tuple[Value, ...] | None


class Folding:
    """An emission point in front of the op that is being folded."""

    def __init__(self, facts: Uniform, simplify: Callable[[Folding, Op], Outcome], hint: str = "") -> None:
        self.facts = facts
        self.ops: list[Op] = []
        self._hint = hint       # what the folded op's result is called: what stands for it is called so too
        self._simplify = simplify

    def emit(self, name: str, operands: Sequence[Value], attrs: Mapping[str, Any] | None = None, *,
             like: Op) -> Value:
        """The one result of an op, which is simplified itself first; `like` lends the location."""
        op = make_op(name, operands, attrs, (), like.loc, self._hint)
        simpler = self._simplify(self, op)
        if simpler is not None:
            return simpler[0]
        self.append(op)
        return op.result

    def append(self, op: Op) -> None:
        """Put an op in front, as it is."""
        self.ops.append(op)
        self.facts.note(op)

    def constant(self, value: Number, t: Type, loc: Location) -> Value:
        """`value` as a scalar, or as a tile that holds it everywhere."""
        op = make_op("constant", (), {"value": value, "type": element_of(t)}, (), loc, self._hint)
        self.append(op)
        return self.splat(op.result, t, loc)

    def splat(self, scalar: Value, t: Type, loc: Location) -> Value:
        """`scalar` itself, or a tile of it."""
        if not isinstance(t, Tile):
            return scalar
        op = make_op("splat", (scalar,), {"shape": t.shape}, (), loc, self._hint)
        self.append(op)
        return op.result

    def operand_op(self, op: Op, name: str, index: int = 0) -> Op | None:
        """The definition of an operand, if it is an op called `name`."""
        return self.facts.op_of(op.operands[index], name)


def same_bits(a: Number, b: Number) -> bool:
    """Equality of constants that tells -0.0 from 0.0; a NaN equals nothing here."""
    return a == b and (not isinstance(a, float) or math.copysign(1.0, a) == math.copysign(1.0, float(b)))


def constant_key(value: Number) -> Any:
    """A hashable that is equal for equal bits alone."""
    return struct.pack("<d", value) if isinstance(value, float) else value


def storage_of(value: Number, t: Element) -> Array:
    """A constant as the interpreters hold it, for one program."""
    return _call("constant", (), (), (t,), {"value": value, "type": t})[0]


def number_of(array: Array, t: Element) -> Number | None:
    """The constant whose storage is `array`; None if no constant has those bits (a NaN with a payload)."""
    if isinstance(t, Pointer) or t.is_int:
        return bool(array[0]) if t.bits == 1 else int(array[0])
    value = float(fp.decode(array, t)[0])
    return value if storage_of(value, t).tobytes() == np.ascontiguousarray(array).tobytes() else None


def _call(name: str, args: Sequence[Array], types: Sequence[Type], result_types: Sequence[Type],
          attrs: Mapping[str, Any]) -> tuple[Array, ...]:
    ref = TABLE[name].ref
    assert ref is not None
    return ref(_make_call(args, types, result_types, attrs))


def _make_call(args: Sequence[Array], types: Sequence[Type], result_types: Sequence[Type],
               attrs: Mapping[str, Any]) -> Call:
    # Elementwise rows compute from their operands alone, so no machine is there to be asked.
    return Call(args, types, result_types, attrs, (), cast("Machine", None))


def evaluate(op: Op, numbers: Sequence[Number]) -> Number | None:
    """The result of an elementwise op on constants by the row's own meaning.

    None where the row is not exact, so that engines may differ; where an input is outside of its domain, so that the
    result is any value; or where the result has bits that no constant has.
    """
    row = op.row
    if not row.elementwise or not row.is_pure or not row.bound.exact or row.ref is None:
        return None
    types = [element_of(v.type) for v in op.operands]
    result = element_of(op.result.type)
    call = _make_call([storage_of(n, t) for n, t in zip(numbers, types, strict=True)], types, (result,), op.attrs)
    if row.domain is not None and not bool(np.all(row.domain(call))):
        return None
    return number_of(row.ref(call)[0], result)
