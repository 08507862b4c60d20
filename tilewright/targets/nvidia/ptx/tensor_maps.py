"""Tensor maps: what a bulk tensor copy knows of a tensor (PTX ISA 5.5, 9.7.9.28).

The hardware's 128 bytes are opaque; these have a layout of their own, which tensormap.replace and the copies share.  A
`TensorMap` makes one on the host.
Tests: tests/targets/nvidia/ptx/test_asynchronous.py.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tilewright.targets.nvidia.ptx.report import Fault

Array = np.ndarray[Any, Any]

SIZE = 128
_LAYOUT = struct.Struct("<Q5I5I4Q5I5I8x")
# element type of tensormap.replace -> (bytes, is it a float, for which filling with NaN has a meaning)
ELEMENT_TYPES = {0: (1, False), 1: (2, False), 2: (4, False), 3: (4, False), 4: (8, False), 5: (8, False), 6: (2, True),
                 7: (4, True), 8: (4, True), 9: (8, True), 10: (2, True), 11: (4, True), 12: (4, True)}
_NAMES = {"u1": 0, "i1": 0, "u2": 1, "u4": 2, "i4": 3, "u8": 4, "i8": 5, "f2": 6, "f4": 7, "f8": 9, "i2": 1}
SWIZZLE_BYTES = {0: 16, 1: 32, 2: 64, 3: 128}
_NAN = {2: b"\xff\x7f", 4: b"\xff\xff\xff\x7f", 8: b"\xff\xff\xff\xff\xff\xff\xff\x7f"}


@dataclass(eq=False)
class TensorMap:
    """A map of `array` for boxes of shape `box`; row-major, so the last dimension is the innermost one of the copy.

    swizzle: 0, 32, 64 or 128 bytes; element_type: the number of tensormap.replace, from the array's dtype if None;
    nan_fill: elements out of bounds are NaN and not 0.  Where `shape` and `strides` (in bytes) are given, they stand
    in place of the array's, whose bytes then are just memory; the map begins `offset` bytes behind its first one.
    """

    array: Array
    box: Sequence[int]
    swizzle: int = 0
    element_type: int | None = None
    nan_fill: bool = False
    shape: Sequence[int] | None = None
    strides: Sequence[int] | None = None
    offset: int = 0

    def packed(self, address: int) -> bytes:
        """The 128 bytes, with the array's address on the machine."""
        array = self.array
        shape = array.shape if self.shape is None else self.shape
        strides = array.strides if self.strides is None else self.strides
        kind = self.element_type if self.element_type is not None else _NAMES[array.dtype.str[1:]]
        if strides[-1] != ELEMENT_TYPES[kind][0]:
            raise ValueError("the last dimension of a tensor map is contiguous")
        fields = Fields(address + self.offset, len(shape), kind, 0,
                        {0: 0, 32: 1, 64: 2, 128: 3}[self.swizzle], int(self.nan_fill),
                        list(shape[::-1]), list(strides[::-1][1:]), list(self.box)[::-1], [1] * len(shape))
        return fields.pack()


@dataclass
class Fields:
    """A map, taken apart.  Dimensions go from the innermost one; strides, in bytes, leave that out."""

    address: int
    rank: int
    element: int
    interleave: int
    swizzle: int
    fill: int
    dims: list[int]
    strides: list[int]
    box: list[int]
    steps: list[int]

    def pack(self) -> bytes:
        def padded(values: list[int], count: int) -> list[int]:
            return [*values, *([0] * (count - len(values)))]

        return _LAYOUT.pack(self.address, self.rank, self.element, self.interleave, self.swizzle, self.fill,
                            *padded(self.dims, 5), *padded(self.strides, 4), *padded(self.box, 5),
                            *padded(self.steps, 5))

    @property
    def item(self) -> int:
        return ELEMENT_TYPES[self.element][0]


def unpack(raw: bytes) -> Fields:
    """The fields of 128 bytes.  Raises `Fault` for what no copy can use."""
    values = _LAYOUT.unpack(raw)
    address, rank, element, interleave, swizzle, fill = values[:6]
    if not 1 <= rank <= 5 or element not in ELEMENT_TYPES or swizzle not in SWIZZLE_BYTES:
        raise Fault("operand", "no tensor map lies at the address, or one that lacks fields")
    if interleave:
        raise Fault("operand", "interleaved tensor maps have no meaning here")
    fields = Fields(address, rank, element, interleave, swizzle, fill, list(values[6:6 + rank]),
                    list(values[11:11 + rank - 1]), list(values[15:15 + rank]), list(values[20:20 + rank]))
    _check(fields)
    return fields


def _check(fields: Fields) -> None:
    """What the hardware asks of a map (CUDA driver API, cuTensorMapEncodeTiled)."""
    if fields.address % 16:
        raise Fault("misaligned", f"a tensor map of address {fields.address:#x}, which is no multiple of 16")
    if any(s % 16 for s in fields.strides):
        raise Fault("misaligned", f"a tensor map with strides {fields.strides}, not all of them multiples of 16 bytes")
    if any(not 1 <= b <= 256 for b in fields.box) or any(not 1 <= s <= 8 for s in fields.steps):
        raise Fault("operand", f"a tensor map with box {fields.box} and element strides {fields.steps}")
    inner = fields.box[0] * fields.item
    if inner % 16:
        raise Fault("operand", f"a tensor map whose box has {inner} bytes in a row, which is no multiple of 16")
    if fields.swizzle and inner > SWIZZLE_BYTES[fields.swizzle]:
        raise Fault("operand", f"a tensor map whose box has {inner} bytes in a row, more than the swizzle of "
                    f"{SWIZZLE_BYTES[fields.swizzle]}")


def fill_bytes(fields: Fields) -> bytes:
    """What an element out of bounds becomes."""
    size, is_float = ELEMENT_TYPES[fields.element]
    return _NAN[size] if fields.fill and is_float else bytes(size)


def swizzled(byte: Array, mode: int) -> Array:
    """Where a byte of shared memory goes: address bits 4 to 6 are xor-ed with bits 7 to 9 (as many as the mode has)."""
    if mode == 0:
        return byte
    return np.asarray(byte ^ (byte >> 7 & SWIZZLE_BYTES[mode] // 16 - 1) << 4)


# field of tensormap.replace -> (attribute, is it a list, what is added to the operand)
REPLACED: dict[str, tuple[str, bool, int]] = {
    "global_address": ("address", False, 0), "rank": ("rank", False, 1), "box_dim": ("box", True, 0),
    "global_dim": ("dims", True, 0), "global_stride": ("strides", True, 0), "element_stride": ("steps", True, 0),
    "elemtype": ("element", False, 0), "interleave_layout": ("interleave", False, 0),
    "swizzle_mode": ("swizzle", False, 0), "fill_mode": ("fill", False, 0),
}
_POSITIONS = {"address": (0, 8), "rank": (8, 4), "element": (12, 4), "interleave": (16, 4), "swizzle": (20, 4),
              "fill": (24, 4), "dims": (28, 4), "strides": (48, 8), "box": (80, 4), "steps": (100, 4)}


def position(attribute: str, index: int) -> tuple[int, int]:
    """(first byte, bytes) of a field in the 128."""
    start, size = _POSITIONS[attribute]
    return start + index * size, size
