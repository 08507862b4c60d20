"""Stores of small integers that are made from integers of the same size: a register holds 32 or 64 of them.

Nests take as many lanes at once as a register has 4-byte elements, since most kernels compute in such, and their
indices and masks are.  Where all that a store writes is computed in bytes or 16-bit integers from contiguous memory,
that would leave most of each register empty; masks of full tiles cost nothing.
Before: the store's operands are bound.  Tests: tests/targets/cpu/test_narrow.py.
"""

from __future__ import annotations

from tilewright.ir.node import Op, Value
from tilewright.ir.types import I1, Element, Scalar, element_of, shape_of
from tilewright.targets.cpu.aliasing import Aliases
from tilewright.targets.cpu.nest import vector_axis
from tilewright.targets.cpu.plan import work
from tilewright.targets.cpu.state import Buffer, Kernel, Virtual

_MOST_BYTES = 2
_SAME_PLACE = ("broadcast", "hint")     # rearrangements that keep the dimension of neighbours


def narrow_element(kernel: Kernel, aliases: Aliases, store: Op) -> Element | None:
    """The type that the nest of `store` computes in, if it is a small integer; else None."""
    pointer, value = store.operands[0], store.operands[1]
    element, shape = element_of(value.type), shape_of(pointer.type)
    if not shape or not isinstance(element, Scalar) or not element.is_int or element == I1 or (
            element.bytes > _MOST_BYTES):
        return None
    axis = vector_axis(shape)
    if not _is_contiguous(aliases, pointer, axis):
        return None
    waiting, seen = [value], set[Value]()
    while waiting:
        value = waiting.pop()
        binding = kernel.bindings[value]
        if value in seen or not isinstance(binding, Buffer | Virtual):
            continue
        seen.add(value)
        if element_of(value.type) != I1 and not _is_alike(value, element):
            return None
        if isinstance(binding, Buffer) or binding.op.name == "splat":
            continue
        op = binding.op
        if op.name == "load":
            if not _is_contiguous(aliases, op.operands[0], axis):
                return None
        elif (op.row.elementwise and work([op]) == 0) or op.name in _SAME_PLACE:
            waiting += op.operands
        else:
            return None
    return element


def _is_alike(value: Value, element: Scalar) -> bool:
    own = element_of(value.type)
    return isinstance(own, Scalar) and own.is_int and own.bytes == element.bytes


def _is_contiguous(aliases: Aliases, pointer: Value, axis: int) -> bool:
    """Whether neighbours along `axis` are neighbours in memory, or one element serves all."""
    steps, shape = aliases.steps(pointer), shape_of(pointer.type)
    return steps is not None and len(steps) == len(shape) and axis < len(steps) and (
        steps[axis] == 1 or shape[axis] == 1)
