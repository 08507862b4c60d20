"""Pointer arithmetic, loads and stores.

An i1 is a byte in memory: a load compares it with 0, a store writes 0 or 1.  A masked load without `other` gives zero
in masked lanes (docs/design.md, Safer rules).  All lanes of a load are read before any later store of the same program
is done, and a program sees its own stores.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from tilewright.ir.ops.attributes import Cache, Eviction
from tilewright.ir.ops.rules import require
from tilewright.ir.ops.table import TABLE, Array, Attribute, Call, Effect, Operand, OpRow
from tilewright.ir.types import I1, I32, I64, Pointer, Type, element_of, shape_of, with_element

if TYPE_CHECKING:
    from tilewright.ir.node import Block

Attrs = Mapping[str, Any]


def _pointee(t: Type) -> Pointer:
    e = element_of(t)
    require(isinstance(e, Pointer), f"{t} is no pointer")
    assert isinstance(e, Pointer)
    return e


def _infer_ptr_add(types: Sequence[Type], attrs: Attrs, regions: Sequence[Block]) -> tuple[Type, ...]:
    pointer, offset = types
    _pointee(pointer)
    require(element_of(offset) in (I32, I64), f"the offset is i32 or i64, not {offset}")
    require(shape_of(pointer) == shape_of(offset), f"shapes of {pointer} and {offset} differ")
    return (pointer,)


def _ptr_add(call: Call) -> tuple[Array, ...]:
    pointer, offset = call.args
    return (pointer + offset.astype(np.int64) * np.int64(_pointee(call.types[0]).element.bytes),)


TABLE.add(OpRow("ptr_add", (Operand("pointer"), Operand("offset", "in elements, signed")), _infer_ptr_add, _ptr_add,
                "pointer + offset elements", "semantics of tl pointer arithmetic", elementwise=True))


def _infer_load(types: Sequence[Type], attrs: Attrs, regions: Sequence[Block]) -> tuple[Type, ...]:
    pointer = _pointee(types[0])
    rest = list(types[1:])
    if attrs["has_mask"]:
        mask = rest.pop(0)
        require(mask == with_element(types[0], I1), f"the mask {mask} is not i1 of the pointer's shape")
    result = with_element(types[0], pointer.element)
    if attrs["has_other"]:
        other = rest.pop(0)
        require(attrs["has_mask"], "`other` needs a mask")
        require(other == result, f"`other` is {other}, not {result}")
    require(not rest, "too many operands")
    return (result,)


def _load(call: Call) -> tuple[Array, ...]:
    rest = list(call.args[1:])
    mask = rest.pop(0) if call.attrs["has_mask"] else None
    other = rest.pop(0) if call.attrs["has_other"] else None
    return (call.machine.load(call.args[0], mask, other, element_of(call.result_types[0])),)


# `padded` says that zero is what the program wants where the mask is false: a block beyond the end of its array
_HINTS = (Attribute("cache", Cache, Cache.NONE, required=False),
          Attribute("eviction", Eviction, Eviction.NORMAL, required=False),
          Attribute("volatile", bool, False, required=False),
          Attribute("padded", bool, False, required=False))
TABLE.add(OpRow("load", (Operand("pointer"), Operand("mask", optional=True), Operand("other", optional=True)),
                _infer_load, _load, "elements at `pointer`; where the mask is false `other`, else zero",
                "semantics of tl.load", attributes=_HINTS, effects=Effect.READS))


def _infer_store(types: Sequence[Type], attrs: Attrs, regions: Sequence[Block]) -> tuple[Type, ...]:
    pointer = _pointee(types[0])
    require(not pointer.const, "cannot store through a const pointer")
    require(types[1] == with_element(types[0], pointer.element), f"the value {types[1]} does not fit {types[0]}")
    require(len(types) == 2 + bool(attrs["has_mask"]), "wrong number of operands")
    if attrs["has_mask"]:
        require(types[2] == with_element(types[0], I1), f"the mask {types[2]} is not i1 of the pointer's shape")
    return ()


def _store(call: Call) -> tuple[Array, ...]:
    mask = call.args[2] if call.attrs["has_mask"] else None
    call.machine.store(call.args[0], call.args[1], mask, element_of(call.types[1]))
    return ()


TABLE.add(OpRow("store", (Operand("pointer"), Operand("value"), Operand("mask", optional=True)), _infer_store, _store,
                "writes value where the mask is true; of equal addresses the last in row-major order wins",
                "semantics of tl.store", attributes=_HINTS[:2], effects=Effect.WRITES))
