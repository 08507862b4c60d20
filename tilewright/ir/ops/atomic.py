"""Atomic read-modify-write and compare-and-swap.

Lanes act one after the other in row-major order, programs in any order; each gives the value that it found.  A lane
whose mask is false touches nothing and gives zero.  Both rows order memory accesses: what a program reads or writes
stays on its side of an atomic op, whatever `sem` says; `sem` is what other threads may rely on.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from tilewright.ir.ops.attributes import Rmw, Scope, Sem
from tilewright.ir.ops.rules import is_kind, require
from tilewright.ir.ops.table import TABLE, Array, Attribute, Call, Effect, Operand, OpRow
from tilewright.ir.types import I1, Pointer, Scalar, Type, element_of, with_element

if TYPE_CHECKING:
    from tilewright.ir.node import Block

Attrs = Mapping[str, Any]
_ORDERED = Effect.READS | Effect.WRITES | Effect.ORDERS
_HOW = (Attribute("sem", Sem, Sem.ACQ_REL, required=False), Attribute("scope", Scope, Scope.GPU, required=False))


def _check(types: Sequence[Type], values: int, attrs: Attrs) -> Scalar:
    """The element of an atomic access with so many value operands behind its pointer."""
    pointer = element_of(types[0])
    require(isinstance(pointer, Pointer), f"{types[0]} is no pointer")
    assert isinstance(pointer, Pointer)
    require(not pointer.const, "cannot write through a const pointer")
    element = pointer.element
    require(isinstance(element, Scalar) and element != I1, f"no atomic access to {element}")
    assert isinstance(element, Scalar)
    for value in types[1:1 + values]:
        require(value == with_element(types[0], element), f"the value {value} does not fit {types[0]}")
    for mask in types[1 + values:]:
        require(mask == with_element(types[0], I1), f"the mask {mask} is not i1 of the pointer's shape")
    return element


def _infer_rmw(types: Sequence[Type], attrs: Attrs, regions: Sequence[Block]) -> tuple[Type, ...]:
    element, kind = _check(types, 1, attrs), attrs["kind"]
    require(kind.on_floats is None or is_kind(element, "float" if kind.on_floats else "int"),
            f"no atomic {kind.value} of {element}")
    return (types[1],)


def _mask(call: Call) -> Array | None:
    return call.args[-1] if call.attrs["has_mask"] else None


def _rmw(call: Call) -> tuple[Array, ...]:
    element, kind = element_of(call.types[1]), call.attrs["kind"]

    def update(old: Array, value: Array) -> Array:
        if kind is Rmw.XCHG:
            return value
        ref = TABLE[kind.value].ref
        assert ref is not None
        return ref(Call([old, value], [element] * 2, [element], {}, (), call.machine))[0]

    return (call.machine.atomic(call.args[0], [call.args[1]], _mask(call), element, update),)


_MASK = Operand("mask", optional=True)
TABLE.add(OpRow("atomic_rmw", (Operand("pointer"), Operand("value"), _MASK), _infer_rmw, _rmw,
                "puts `kind` of the element and value in the element's place, atomically; gives the old element",
                "semantics of tl.atomic_add", attributes=(Attribute("kind", Rmw), *_HOW), effects=_ORDERED))


def _infer_cas(types: Sequence[Type], attrs: Attrs, regions: Sequence[Block]) -> tuple[Type, ...]:
    _check(types, 2, attrs)
    return (types[1],)


def _cas(call: Call) -> tuple[Array, ...]:
    def update(old: Array, expected: Array, value: Array) -> Array:
        bits = f"u{old.dtype.itemsize}"
        return np.where(old.view(bits) == expected.view(bits), value, old)

    element = element_of(call.types[1])
    return (call.machine.atomic(call.args[0], call.args[1:3], _mask(call), element, update),)


TABLE.add(OpRow("atomic_cas", (Operand("pointer"), Operand("expected"), Operand("value"), _MASK), _infer_cas, _cas,
                "writes value where the element has the bits of `expected`, atomically; gives the old element",
                "semantics of tl.atomic_cas", attributes=_HOW, effects=_ORDERED))
