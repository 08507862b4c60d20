"""A user's own assembly on elements: a row without a meaning in NumPy, for the target that the text is written for.

Two rows, for what has no effect but its results may be moved and left out, and the other may not.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tilewright.diagnostics import NotOnThisTargetError
from tilewright.ir.ops.rules import require
from tilewright.ir.ops.table import TABLE, Attribute, Call, Effect, Operand, OpRow
from tilewright.ir.types import Scalar, Type, make_type, shape_of

if TYPE_CHECKING:
    from tilewright.ir.node import Block

INLINE = "tl.inline_asm_elementwise"


def only_on_gpus(name: str) -> str:
    """Why an op of these rows, which the user wrote as `name`, cannot run here, and what to do."""
    if name == INLINE:
        return (f"{name} is PTX assembly, which runs on NVIDIA GPUs only; on the CPU and in the interpreters write "
                "the operation with names of tl, or choose by a tl.constexpr parameter")
    return (f"{name} is an instruction of NVIDIA GPUs; neither the CPU nor the interpreters have it: leave it out "
            "there, by a tl.constexpr parameter")


def _infer(types: Sequence[Type], attrs: Mapping[str, Any], regions: Sequence[Block]) -> tuple[Type, ...]:
    shapes = {shape_of(t) for t in types}
    require(len(shapes) <= 1, "the operands differ in shape")
    require(attrs["pack"] >= 1, f"packs of {attrs['pack']} elements")
    require(bool(attrs["results"]) and all(isinstance(e, Scalar) for e in attrs["results"]),
            "the results are one or more scalar types")
    shape = shapes.pop() if shapes else ()
    return tuple(make_type(shape, e) for e in attrs["results"])


def _ref(call: Call) -> tuple[Any, ...]:
    if call.attrs.get("nothing_elsewhere"):
        return (call.machine.program_id(0) * 0,)
    raise NotOnThisTargetError(only_on_gpus(call.attrs["name"]), call.machine.location)


_ATTRIBUTES = (Attribute("text", str), Attribute("constraints", str), Attribute("results", tuple),
               Attribute("pack", int, 1, required=False), Attribute("name", str),
               # whether a target without the instruction does its work by doing nothing; no result is used then
               Attribute("nothing_elsewhere", bool, False, required=False))
for _name, _effects, _doc in (
        ("inline_asm", Effect.NONE, "the results of assembly on each `pack` elements; it has no other effect"),
        ("inline_asm_ordered", Effect.PRINTS, "the same, executed once and in order, since it may do more")):
    TABLE.add(OpRow(_name, (Operand("args", variadic=True),), _infer, _ref, _doc,
                    "semantics of tl.inline_asm_elementwise; LLVM LangRef, inline assembler expressions",
                    attributes=_ATTRIBUTES, effects=_effects))
