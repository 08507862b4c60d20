"""Rows that begin within a line of memory.

Where masks end a row (`columns < n`) and n elements are no whole number of lines, most rows begin within one.  Vectors
from there on lie across lines: each store is two, and one that bypasses the caches leaves lines half written, which
the memory has to merge.  So where such a row is split (`prefix`), its store writes the *head* first, the elements
before the next line, in one masked vector, and then lines.  Sums keep their vectors: their order must not depend on
where the memory lies.
Measured (Emerald Rapids, 2026-11-30): copies of rows of 1000 from memory with all lines streamed 1.5 times as fast as
with those of every second row, which begins at a line; softmax of rows of 781 1.03 times as fast.
Before: the nest's ops are bound.  After: a `Line` for `nest.Split`.  Tests: tests/targets/cpu/test_heads.py.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tilewright.ir.node import Module, Op, Value
from tilewright.ir.types import I1, Pointer, element_of, shape_of
from tilewright.targets.cpu.aliasing import Aliases
from tilewright.targets.cpu.nest import LINE, Line, vector_axis
from tilewright.targets.cpu.state import Kernel, Virtual

_KEEPS_NEIGHBOURS = ("load", "splat", "broadcast", "expand_dims", "iota", "constant", "hint", "ptr_add")
_DIVIDES = ("div_s", "div_u", "rem_s", "rem_u", "and", "shr_s", "shr_u")


def line_of(kernel: Kernel, aliases: Aliases, ops: Iterable[Op], roots: Sequence[Op],
            shape: Sequence[int]) -> Line | None:
    """The addresses that decide where lines begin in a nest for the store `roots`; None: it has no heads.

    It has none where its index is divided or taken apart, which whole vectors from 0 on make simple.
    """
    if len(roots) != 1 or roots[0].name != "store":
        return None
    pointer, size = roots[0].operands[0], element_of(roots[0].operands[1].type).bytes
    steps = aliases.steps(pointer)
    if steps is None or tuple(shape_of(pointer.type)) != tuple(shape) or steps[vector_axis(shape)] != 1:
        return None
    return Line(pointer, size) if size >= 2 and all(map(_keeps_neighbours, ops)) else None


def _keeps_neighbours(op: Op) -> bool:
    element = element_of(op.results[0].type)
    if op.name in _DIVIDES and not isinstance(element, Pointer) and element.is_int:
        return element == I1
    return op.row.elementwise or op.name in _KEEPS_NEIGHBOURS


def is_ragged(kernel: Kernel, bound: Value) -> bool:
    """Whether a row of `bound` elements may end within a line: no launch promise says that it does not."""
    binding = kernel.bindings[bound]
    while isinstance(binding, Virtual) and binding.op.name in ("splat", "broadcast", "expand_dims", "ext_s"):
        bound = binding.op.operands[0]
        binding = kernel.bindings[bound]
    return _promise(kernel.module, bound) % (LINE // 4) != 0


def _promise(module: Module, value: Value) -> int:
    """What divides an integer parameter; 1 of any other value."""
    entry = module.entry
    for param, facts in zip(entry.params, entry.param_facts, strict=False):
        if param is value:
            return facts.divisible_by
    return 1
