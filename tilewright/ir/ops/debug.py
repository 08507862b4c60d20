"""Printing and asserting while a kernel runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tilewright.ir.ops.rules import require
from tilewright.ir.ops.table import TABLE, Array, Attribute, Call, Effect, Operand, OpRow
from tilewright.ir.types import I1, Type, element_of

if TYPE_CHECKING:
    from tilewright.ir.node import Block

Attrs = Mapping[str, Any]


def _infer_print(types: Sequence[Type], attrs: Attrs, regions: Sequence[Block]) -> tuple[Type, ...]:
    require(len(attrs["signed"]) == len(types), "`signed` has one flag an operand")
    return ()


def _print(call: Call) -> tuple[Array, ...]:
    attrs = call.attrs
    call.machine.device_print(attrs["prefix"], attrs["hex"], attrs["signed"], call.args, call.types)
    return ()


TABLE.add(OpRow("device_print", (Operand("args", variadic=True),), _infer_print, _print,
                "prints each element once, in program order within a program", "semantics of tl.device_print",
                attributes=(Attribute("prefix", str), Attribute("hex", bool, False, required=False),
                            Attribute("signed", tuple)), effects=Effect.PRINTS))


def _infer_assert(types: Sequence[Type], attrs: Attrs, regions: Sequence[Block]) -> tuple[Type, ...]:
    require(element_of(types[0]) == I1, f"the condition is i1, not {types[0]}")
    return ()


def _assert(call: Call) -> tuple[Array, ...]:
    call.machine.device_assert(call.args[0], call.attrs["message"])
    return ()


TABLE.add(OpRow("device_assert", (Operand("condition"),), _infer_assert, _assert,
                "ends the launch with an error when an element is false", "semantics of tl.device_assert",
                attributes=(Attribute("message", str),), effects=Effect.ASSERTS))
TABLE.add(OpRow("assume", (Operand("condition"),), _infer_assert, lambda call: (),
                "the user's promise that a scalar holds", "semantics of tl.assume", effects=Effect.ASSERTS))
