"""Tiles that stand at several places of another one: `r[:, None] * stride + r[None, :]` reads `r` along two dimensions.

What a mask says of such a tile along one dimension (`r[:, None] < m`) does not hold along the other one.
Equal ops become one, so that two tiles of a program that count alike are such a tile, too.
Before: all tiles in question are bound.  Tests: tests/targets/cpu/test_extents.py.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable

from tilewright.ir.node import Op, Value
from tilewright.ir.types import Tile, shape_of
from tilewright.targets.cpu.state import Kernel, Virtual

Placement = tuple[Hashable, ...]        # for each dimension of a tile, which one of the roots it is

_IN_PLACE = ("broadcast", "load", "hint", "bitcast", "ptr_add")


def in_several_places(kernel: Kernel, roots: Iterable[Value]) -> set[Value]:
    """The virtual tiles below `roots`, tiles of one shape, that are read along different dimensions of them."""
    first: dict[Value, Placement] = {}
    seen: set[tuple[Value, Placement]] = set()
    work: list[tuple[Value, Placement]] = [(r, tuple(range(len(shape_of(r.type))))) for r in roots]
    while work:
        value, at = work.pop()
        if not isinstance(value.type, Tile) or (value, at) in seen:
            continue
        seen.add((value, at))
        first.setdefault(value, at)
        binding = kernel.bindings[value]
        if isinstance(binding, Virtual):
            work += [(v, _below(binding.op, v, at)) for v in binding.op.operands]
    return {value for value, at in seen if first[value] != at}


def _below(op: Op, operand: Value, at: Placement) -> Placement:
    """Where an operand of `op` stands if the result stands at `at`."""
    if op.row.elementwise or op.name in _IN_PLACE:
        return at
    if op.name == "expand_dims":
        axis = op.attrs["axis"]
        return at[:axis] + at[axis + 1:]
    if op.name == "permute":
        moved = dict(zip(op.attrs["order"], at, strict=True))
        return tuple(moved[d] for d in range(len(at)))
    return tuple((op, at, d) for d in range(len(shape_of(operand.type))))
