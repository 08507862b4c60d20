"""Tensor maps: what the hardware has to know of an array to copy blocks of it, computed from a launch's arguments.

A map is made by the host for each launch, so the array must be one that the host can know: based on a parameter of the
kernel, its sizes and strides computed from parameters and constants by sums and products.  `Numbers` finds these; as
plain data (the metadata) a number is an int, or a list: `["param", k]`, or a row's name, its bits and its operands.
`resolved` computes a map's numbers from the slots of a launch; None if no map has such numbers, and then the kernel has
to be launched without maps (`target`: `plain`).

What a map may be: CUDA Driver API, cuTensorMapEncodeTiled.  Tests: tests/targets/nvidia/test_boxes.py.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import Any, NamedTuple

from tilewright.ir.node import Function, Op, Value
from tilewright.ir.types import I1, Scalar, Tile, Type, element_of

MOST_DIMENSIONS, MOST_IN_BOX = 5, 256
MAP_BYTES = 128             # as a parameter
ALIGNMENT = 16              # bytes, of addresses, strides, and rows of a box
_MOST_SIZE, _MOST_STRIDE = (1 << 31) - MOST_IN_BOX, 1 << 40     # coordinates are signed, and go that far beyond the end
_FLOATS: Mapping[str, str] = {"f16": "FLOAT16", "bf16": "BFLOAT16", "f32": "FLOAT32", "f64": "FLOAT64"}
_MASK = (1 << 64) - 1

Expression = Any        # an int, or a list; see above
_ARITHMETIC: Mapping[str, Callable[[int, int], int]] = {
    "add": operator.add, "sub": operator.sub, "mul": operator.mul}


class Resolved(NamedTuple):
    """A map's numbers, slowest dimension first; `strides` in bytes, without the last dimension's."""

    address: int
    element: str        # as in IR
    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    box: tuple[int, ...]
    swizzle: int        # bytes of a row, 0 for none
    nan: bool

    @property
    def item_bytes(self) -> int:
        return Scalar(self.element).bytes

    @property
    def data_type(self) -> str:
        """The driver's name of the element type.  Bits are copied as they are, so floats matter to NaN alone."""
        return _FLOATS[self.element] if self.nan else f"UINT{8 * self.item_bytes}"


def can_hold(tile: Tile) -> bool:
    """Whether a map can have blocks like `tile`."""
    element, shape = tile.element, tile.shape
    return (isinstance(element, Scalar) and element != I1 and len(shape) <= MOST_DIMENSIONS
            and all(1 <= n <= MOST_IN_BOX and n & n - 1 == 0 for n in shape)
            and shape[-1] * element.bytes % ALIGNMENT == 0)


def fills_with_nan(element: Type) -> bool:
    """Whether the hardware can put NaN outside of an array of such elements."""
    return str(element_of(element)) in _FLOATS


class Numbers:
    """Which of a kernel's scalars the host can compute from the arguments."""

    def __init__(self, entry: Function, ops: Mapping[Value, Op]) -> None:
        self._params = {param: k for k, param in enumerate(entry.params)}
        self._ops = ops

    def param(self, value: Value) -> int | None:
        """The number of the parameter that `value` is."""
        return self._params.get(value)

    def expression(self, value: Value) -> Expression | None:
        """How an integer scalar is computed; None if the host cannot."""
        if value in self._params:
            return ["param", self._params[value], _bits(value)]
        op = self._ops.get(value)
        if op is None:
            return None
        if op.name == "constant":
            return int(op.attrs["value"])
        if op.name == "hint":
            return self.expression(op.operands[0])
        if op.name not in _ARITHMETIC and op.name not in ("ext_s", "ext_u", "trunc"):
            return None
        operands = [self.expression(v) for v in op.operands]
        if any(v is None for v in operands):
            return None
        return [op.name, _bits(op.operands[0] if op.name == "ext_u" else value), *operands]


def _bits(value: Value) -> int:
    element = element_of(value.type)
    assert isinstance(element, Scalar)
    return element.bits


def _signed(number: int, bits: int) -> int:
    number &= (1 << bits) - 1
    return number - (1 << bits) if number >> bits - 1 else number


def computed(expression: Expression, slots: Sequence[int]) -> int:
    """The number, from a launch's slots (patterns of 64 bits)."""
    if isinstance(expression, int):
        return expression
    what: int
    name, what, *rest = expression
    if name == "param":
        return _signed(slots[what], rest[0])
    operands = [computed(e, slots) for e in rest]
    if name == "ext_u":
        return operands[0] & (1 << what) - 1
    return _signed(_ARITHMETIC[name](*operands) if name in _ARITHMETIC else operands[0], what)


def resolved(described: Mapping[str, Any], slots: Sequence[int]) -> Resolved | None:
    """The numbers of a map as the metadata describe it; None if the hardware takes no such map."""
    item = Scalar(described["element"]).bytes
    address = slots[described["base"]] & _MASK
    sizes = tuple(computed(e, slots) for e in described["sizes"])
    strides = tuple(computed(e, slots) * item for e in described["strides"])
    if (address % ALIGNMENT or not all(1 <= n <= _MOST_SIZE for n in sizes)
            or not all(0 < s < _MOST_STRIDE and s % ALIGNMENT == 0 for s in strides)):
        return None
    return Resolved(address, described["element"], sizes, strides, tuple(described["box"]), described["swizzle"],
                    described["nan"])


def all_resolved(described: Sequence[Mapping[str, Any]], slots: Sequence[int]) -> list[Resolved] | None:
    """All maps of a launch; None if there is one that the hardware does not take."""
    found = [resolved(d, slots) for d in described]
    return None if None in found else [r for r in found if r is not None]


def box_bytes(tile: Tile) -> int:
    """What a block takes in shared memory."""
    return prod(tile.shape) * tile.element.bytes
