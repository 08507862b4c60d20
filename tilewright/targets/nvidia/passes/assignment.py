"""What layout assignment decides: the home of each tile, and the layout in which ops run that ask for one.

Before: tile IR.  After: an `Assignment`, from which `lay_out` makes laid-out IR.
Tests: tests/targets/nvidia/test_passes.py, test_assign.py.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass

from tilewright.ir.layout_rules import grown_dims, moves_nothing
from tilewright.ir.node import Op, Value
from tilewright.ir.types import Tile, Type, element_of, shape_of
from tilewright.layout import Layout, coalesced, views
from tilewright.targets.nvidia.passes.coalesce import VECTOR_BYTES

ACCESSES = frozenset({"load", "store", "atomic_rmw", "atomic_cas"})
# Ops that take all tile operands in one layout, and give their results in it or in what follows from it.
ASKING = frozenset({"scan", "sort", "split", "map", "reduce", "inline_asm", "inline_asm_ordered", "join", "histogram"})
IN_PLACE = frozenset({"expand_dims", "permute", "reshape", "broadcast", "hint", "box"})
CONTROL = frozenset({"for", "while", "if"})


def is_tile(value: Value) -> bool:
    return isinstance(value.type, Tile)


def plain(t: Type, num_warps: int) -> Layout:
    """A layout for a tile that nothing else decides."""
    shape = shape_of(t)
    elements = 1
    for size in shape:
        elements *= size
    vector = VECTOR_BYTES // min(element_of(t).bytes, VECTOR_BYTES)
    while vector > 1 and vector * 32 * num_warps > elements:
        vector //= 2
    return coalesced(shape, vector, num_warps)


@dataclass(frozen=True)
class Assignment:
    """`home`: where the tiles live that are not `flexible`; those are computed in each layout that is asked for.
    `runs`: in which layout accesses and the ops of `ASKING` take their tile operands."""

    num_warps: int
    home: Mapping[Value, Layout]
    flexible: Set[Value]
    runs: Mapping[Op, Layout]

    def of(self, value: Value) -> Layout:
        """The home of a tile; for a flexible one the layout it gets when nobody asks for another."""
        found = self.home.get(value)
        return plain(value.type, self.num_warps) if found is None else found


def stays_in_place(op: Op) -> bool:
    """Whether a shape op leaves every element in its thread, if its result has the layout that follows."""
    return op.name in IN_PLACE and is_tile(op.result) and is_tile(op.operands[0]) and (
        op.name != "reshape" or moves_nothing(op))


def result_layout(op: Op, operand: Layout) -> Layout:
    """The layout of the result of an op that `stays_in_place` and repeats nothing."""
    if op.name == "expand_dims":
        return views.expanded(operand, op.attrs["axis"])
    if op.name == "permute":
        return views.transposed(operand, op.attrs["order"])
    if op.name == "reshape":
        return views.reshaped(operand, shape_of(op.operands[0].type), shape_of(op.result.type))
    return operand


def operand_layout(op: Op, index: int, result: Layout) -> Layout:
    """In which layout an elementwise or shape op needs operand `index` to give its result in `result`."""
    source = op.operands[index]
    if op.name == "expand_dims":
        axis = op.attrs["axis"]
        return Layout((*result.shape[:axis], *result.shape[axis + 1:]), result.inputs)
    if op.name == "broadcast":
        return views.squashed(result, grown_dims(op)) if grown_dims(op) else result
    if op.name == "permute":
        return views.transposed(result, views.inverse_order(op.attrs["order"]))
    if op.name == "reshape":
        return views.reshaped(result, shape_of(op.result.type), shape_of(source.type))
    return result


@dataclass(frozen=True)
class Carried:
    """How tiles go through a control op: the value `to` takes what `sources` give."""

    to: Value
    sources: Sequence[Value]


def carried(op: Op) -> tuple[Sequence[Carried], Sequence[tuple[Value, Value]]]:
    """What goes through a control op, and the pairs (result, argument) that are one value."""
    if op.name == "if":
        ways = zip(op.results, *(r.terminator.operands for r in op.regions), strict=True)
        return [Carried(result, sources) for result, *sources in ways], ()
    if op.name == "for":
        (body,) = op.regions
        into = zip(body.args[1:], op.operands[3:], body.terminator.operands, strict=True)
        return [Carried(arg, sources) for arg, *sources in into], list(zip(op.results, body.args[1:], strict=True))
    before, body = op.regions
    into = zip(before.args, op.operands, body.terminator.operands, strict=True)
    on = zip(body.args, before.terminator.operands[1:], strict=True)
    return ([Carried(arg, sources) for arg, *sources in into] + [Carried(arg, sources) for arg, *sources in on],
            list(zip(op.results, body.args, strict=True)))
