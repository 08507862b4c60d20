"""Ops of later stages: what a GPU's threads do to hold tiles together.  None of them stands in fresh tile IR.

`convert` gives a tile another layout: the same elements, in other registers, lanes or warps.  `barrier` is where all
threads of a program meet: what any of them did to memory before it is seen by all of them after it.

The rows of shared memory (buffers, asynchronous copies, tokens, barriers in memory) belong here as well; software
pipelining brings them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tilewright.ir.ops.rules import require
from tilewright.ir.ops.table import TABLE, Attribute, Call, Effect, Operand, OpRow, Stage
from tilewright.ir.types import Tile, Type

if TYPE_CHECKING:
    from tilewright.ir.node import Block

_GPU = Stage.LAID_OUT | Stage.STAGED


def _infer_convert(types: Sequence[Type], attrs: Mapping[str, Any], regions: Sequence[Block]) -> tuple[Type, ...]:
    (given,), wanted = types, attrs["to"]
    require(isinstance(given, Tile), f"converts a tile, not {given}")
    assert isinstance(given, Tile)
    require((given.shape, given.element) == (wanted.shape, wanted.element), f"{given} and {wanted} differ in more than "
                                                                            "their layout")
    return (wanted,)


TABLE.add(OpRow("convert", (Operand("x"),), _infer_convert, lambda call: (call.args[0],),
                "x in the layout of the type `to`", "docs/design.md, Stages", attributes=(Attribute("to", Tile),),
                stages=_GPU))


def _infer_barrier(types: Sequence[Type], attrs: Mapping[str, Any], regions: Sequence[Block]) -> tuple[Type, ...]:
    return ()


def _barrier(call: Call) -> tuple[()]:
    return ()


TABLE.add(OpRow("barrier", (), _infer_barrier, _barrier,
                "all threads of the program arrive; memory accesses before it come before those behind it",
                "PTX ISA bar.sync", effects=Effect.ORDERS, stages=_GPU))
