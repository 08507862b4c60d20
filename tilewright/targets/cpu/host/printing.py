"""The print callback's side of `tl.device_print`: operands from memory, lines by `interpret.printing`.

Tests: tests/targets/cpu_host/.
"""

from __future__ import annotations

import ctypes
import re
from collections.abc import Mapping
from typing import Any

import numpy as np

from tilewright.interpret.printing import print_lines
from tilewright.ir.types import I8, Element, Pointer, Scalar, Type, make_type, shape_of, storage_dtype

Array = np.ndarray[Any, Any]

_TILE = r"tile<((?:\d+x)+)([^,]+?)(?:,.*)?>$"      # compiled by the first kernel that prints


def parse_type(text: str) -> Type:
    """A scalar, pointer or tile type from its IR text; what a pointer points to does not matter here."""
    match = re.match(_TILE, text)
    shape = tuple(int(s) for s in match[1].split("x") if s) if match else ()
    name = match[2] if match else text
    element: Element = Pointer(I8) if name.startswith("ptr<") else Scalar(name)
    return make_type(shape, element)


class PrintSite:
    """One `device_print` of a kernel, from the record that the code generator left in the metadata."""

    def __init__(self, record: Mapping[str, Any]) -> None:
        self._prefix = str(record["prefix"])
        self._hex = bool(record["hex"])
        self._signed = tuple(record["signed"])
        self._types = tuple(parse_type(t) for t in record["types"])

    def text(self, program: tuple[int, int, int], addresses: int) -> str:
        """What a program prints; its operands lie row-major where the words at `addresses` say."""
        pointers = (ctypes.c_uint64 * len(self._types)).from_address(addresses) if self._types else ()
        values = [_read(address, t) for address, t in zip(pointers, self._types)]
        return "\n".join(print_lines(program, self._prefix, self._hex, self._signed, values, self._types)) + "\n"


def _read(address: int, t: Type) -> Array:
    dtype, shape = storage_dtype(t), shape_of(t)
    count = int(np.prod(shape, dtype=np.int64))
    return np.frombuffer(ctypes.string_at(address, count * dtype.itemsize), dtype).reshape(shape)
