"""Which loads and stores the hardware can do as copies of blocks (cp.async.bulk.tensor), and how their tiles lie in
shared memory then.

An access counts if the host can make a map of its array (`tensor_maps`), its addresses and strides are multiples of 16
bytes whatever the launch, and it asks for nothing that a copy does not do.  Rows of an array that is written end at a
multiple of 16 bytes: the hardware writes the whole 16 bytes in which a row ends (H200, 2026-11-30).
Tests: tests/targets/nvidia/test_boxes.py.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import isnan

from tilewright.analysis.axis import Axis
from tilewright.analysis.effects import is_volatile
from tilewright.analysis.uniform import Uniform
from tilewright.ir.node import Module, Op, Value
from tilewright.ir.ops.attributes import Cache
from tilewright.ir.ops.boxes import Places
from tilewright.ir.types import Tile
from tilewright.ir.walk import defining_ops
from tilewright.layout import Layout
from tilewright.layout.access import access_cost
from tilewright.layout.shared import SWIZZLE_WIDTHS, nvmma, row_major
from tilewright.targets.nvidia.shared import alignment
from tilewright.targets.nvidia.tensor_maps import ALIGNMENT, Numbers, box_bytes, can_hold, fills_with_nan

MOST_TOGETHER = 32 << 10        # bytes of blocks that are loaded together; more would cost programs on the SM
_LEAST, _MOST = 1 << 10, 16 << 10       # bytes of a block; its threads move a smaller one sooner, and a larger one


@dataclass(frozen=True)
class Kept:
    """How a block lies in shared memory: the tile with its layout, and the hardware's swizzle in bytes, 0 for none."""

    memory: Tile
    swizzle: int

    @property
    def align(self) -> int:
        """Of its place in shared memory, in bytes."""
        return alignment(self.swizzle)


class Described:
    """The accesses of one laid-out kernel to blocks of described arrays."""

    def __init__(self, module: Module) -> None:
        body = module.entry.body
        self._ops, self._uniform, self._axis = defining_ops(body), Uniform.of(body), Axis(module)
        self._numbers = Numbers(module.entry, self._ops)

    def box(self, op: Op) -> Op | None:
        """The box of a `load` or `store` that the hardware can do; None for any other op."""
        if op.name not in ("load", "store"):
            return None
        box = self._ops.get(op.operands[0])
        if box is None or box.name != "box" or not self._is_ordinary(op):
            return None
        tile = tile_of(op.result if op.name == "load" else op.operands[1])
        if not can_hold(tile) or not _LEAST <= box_bytes(tile) <= _MOST:
            return None
        base, places = box.operands[1], Places.of(box.operands[2:])
        known = self._numbers.param(base) is not None and all(
            self._numbers.expression(v) is not None for v in (*places.sizes, *places.strides))
        if not known or self._uniform.integer_of(places.strides[-1]) != 1:
            return None
        rows = places.sizes[-1:] if op.name == "store" else ()
        divisors = [self._axis.fact(v).divisor * tile.element.bytes for v in (*places.strides[:-1], *rows)]
        return box if all(n % ALIGNMENT == 0 for n in (self._axis.fact(base).divisor, *divisors)) else None

    def divisor(self, value: Value) -> int:
        """Divides the integer `value`; 0 if that is 0."""
        return self._axis.fact(value).divisor

    def _is_ordinary(self, op: Op) -> bool:
        """Whether an access asks for nothing that a copy of a block cannot do."""
        if is_volatile(op) or op.attrs["cache"] in (Cache.CV, Cache.WT):
            return False
        other = op.operand("other") if op.name == "load" else None
        number = None if other is None else self._uniform.constant_of(other)
        return other is None or number == 0 or (self.has_nan(op) and fills_with_nan(other.type))

    def has_nan(self, load: Op) -> bool:
        """Whether a load gives NaN outside of the array."""
        other = load.operand("other")
        number = None if other is None else self._uniform.constant_of(other)
        return isinstance(number, float) and isnan(number)


def tile_of(value: Value) -> Tile:
    """The type of a tile."""
    assert isinstance(value.type, Tile)
    return value.type


def kept(tile: Tile, store: bool = False) -> Kept:
    """How a tile's block should lie: so that its threads reach it soonest."""
    item = tile.element.bytes
    ways: list[tuple[Layout, int]] = [(row_major(tile.shape), 0)]
    if len(tile.shape) > 1 and tile.shape[-1] * item in SWIZZLE_WIDTHS:
        width = tile.shape[-1] * item
        ways.append((nvmma(tile.shape, item, width), width))
    assert tile.layout is not None

    def cost(way: tuple[Layout, int]) -> float:
        return access_cost(tile.layout, way[0], item, store=store) or 0.0

    layout, swizzle = min(ways, key=cost)
    return Kept(Tile(tile.shape, tile.element, layout), swizzle)
