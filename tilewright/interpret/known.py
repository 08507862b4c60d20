"""What the interpreters find out about a module before they run it, once for all launches of it.

Before: a module without layouts, verified; it does not change.  After: each answer is worked out when it is first asked
for, and kept.  Tests: tests/interpret/test_dataflow.py (the answers), tests/check/test_launch.py (that they are kept).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tilewright.analysis.alias import Alias, is_pointer
from tilewright.computed import computed
from tilewright.interpret import dataflow
from tilewright.ir.node import Module, Op, Value
from tilewright.ir.types import shape_of, storage_dtype
from tilewright.ir.walk import ops_in


@dataclass(frozen=True, slots=True)
class Shape:
    """What arrays of a value must look like: dtype and the sizes behind the program axis."""

    dtype: np.dtype[Any]
    sizes: tuple[int, ...]


def result_shapes(op: Op) -> tuple[Shape, ...]:
    """What the results of an op look like."""
    return tuple(Shape(storage_dtype(v.type), shape_of(v.type)) for v in op.results)


class Known:
    """The answers about one module."""

    def __init__(self, module: Module) -> None:
        self.module = module
        self._shapes: dict[int, tuple[Shape, ...]] = {}

    @computed
    def ops(self) -> Sequence[Op]:
        """All ops, of all functions."""
        return [op for function in self.module.functions.values() for op in ops_in(function.body)]

    @computed
    def foreign(self) -> frozenset[int]:
        """By `id` the accesses whose pointer may have come out of memory."""
        return dataflow.foreign_accesses(self.module)

    @computed
    def bases(self) -> Mapping[int, frozenset[Value]]:
        """By `id` of an op with a pointer the parameters that its address may be derived from, where that is known."""
        alias, found = Alias(self.module), {}
        for op in ops_in(self.module.entry.body):
            bases = alias.bases(op.operands[0]) if op.operands and is_pointer(op.operands[0]) else None
            if bases is not None:
                found[id(op)] = frozenset(bases)
        return found

    @computed
    def spins(self) -> bool:
        """Whether programs may wait for each other, and so must run one at a time."""
        return dataflow.spins(self.module)

    @computed
    def bytes_per_program(self) -> int:
        """About how much memory the values of one program take."""
        return dataflow.bytes_per_program(self.module)

    def batch(self, budget: int) -> int:
        """How many programs run together within `budget` bytes."""
        return 1 if self.spins else max(1, budget // self.bytes_per_program)

    def shapes(self, op: Op) -> tuple[Shape, ...]:
        """`result_shapes` of an op of the module, kept since loops come back to it."""
        shapes = self._shapes.get(id(op))
        if shapes is None:
            shapes = self._shapes[id(op)] = result_shapes(op)
        return shapes
