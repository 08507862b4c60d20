"""Which registers hold the result of an op that moves nothing: those of its operands, in another order.

Tests: tests/targets/nvidia/.
"""

from __future__ import annotations

from collections.abc import Sequence

from tilewright.ir.layout_rules import grown_dims, layout_of, moves_nothing
from tilewright.ir.node import Op
from tilewright.ir.types import Tile
from tilewright.layout import Layout, views
from tilewright.layout.linear import LANE, REGISTER, WARP
from tilewright.targets.nvidia.lazy import Picked
from tilewright.targets.nvidia.state import Registers

_RENAMES = frozenset({"splat", "expand_dims", "permute", "hint", "broadcast", "reshape", "convert"})


def moved(op: Op, sources: Sequence[Registers]) -> Registers | None:
    """The registers of a result that only renames those of the operands; None if data has to move.

    It serves values and their 64-bit twins alike.
    """
    if op.name not in _RENAMES:
        return None
    source = sources[0]
    result = op.results[0].type
    if op.name == "splat" or not isinstance(op.operands[0].type, Tile):
        return [source[0]] * (layout_of(op.results[0]).size(REGISTER) if isinstance(result, Tile) else 1)
    if op.name in ("expand_dims", "permute", "hint"):
        return source
    if op.name == "broadcast":
        kept = views.squashed(layout_of(op.results[0]), grown_dims(op), keep_registers=True)
        return renamed(source, layout_of(op.operands[0]), kept)
    if op.name == "reshape" and isinstance(result, Tile) and moves_nothing(op):
        return source
    if op.name == "convert":
        return renamed(source, layout_of(op.operands[0]), layout_of(op.results[0]))
    return None


def renamed(source: Registers, have: Layout, want: Layout) -> Registers | None:
    """Registers of `want` taken from those of `have` in the same thread; None if some element is elsewhere."""
    if have.bases(LANE) != want.bases(LANE) or have.bases(WARP) != want.bases(WARP):
        return None
    places = {index: r for r, index in reversed(list(enumerate(have.held)))}
    return Picked(source, [places[i] for i in want.held]) if all(i in places for i in want.held) else None
