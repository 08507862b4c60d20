"""What `tl.device_print` shows: one line an element, as the reference compiler's device code prints it.

`pid (x, y, z) idx (i, j) name: (operand k) value`; the index only for tiles, the operand's number only when there are
several (semantics of tl.device_print).  Tests: tests/targets/cpu_host/test_printing.py.
"""

from __future__ import annotations

import ctypes
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from tilewright.ir import fp
from tilewright.ir.types import Scalar, storage_dtype

Array = np.ndarray[Any, Any]

_TILE = re.compile(r"tile<((?:\d+x)+)([^,]+?)(?:,.*)?>$")


def parse_type(text: str) -> tuple[tuple[int, ...], Scalar | None]:
    """(shape, element) of a type as tile IR prints it; the element is None for a pointer."""
    match = _TILE.match(text)
    shape = tuple(int(s) for s in match[1].split("x") if s) if match else ()
    element = match[2] if match else text
    return shape, None if element.startswith("ptr<") else Scalar(element)


class PrintSite:
    """One `device_print` of a kernel, from the record that the code generator left in the metadata."""

    def __init__(self, record: Mapping[str, Any]) -> None:
        self.hex = bool(record["hex"])
        self.signed = tuple(record["signed"])
        self.types = tuple(parse_type(t) for t in record["types"])
        self.prefix = _prefix(record["prefix"], bool(self.types))

    def lines(self, program: tuple[int, int, int], operands: Sequence[Array]) -> Iterator[str]:
        """The lines for arrays in storage form (`ir.types.storage_dtype`), one per operand."""
        pid = "pid ({}, {}, {})".format(*program)
        if not self.types:
            yield f"{pid}{self.prefix}"
        for k, ((shape, element), values) in enumerate(zip(self.types, operands)):
            show = _formatter(element, self.hex, self.signed[k])
            number = f"(operand {k}) " if len(self.types) > 1 else ""
            plain = values if element is None or not element.is_float else fp.decode(values, element)
            for index in np.ndindex(*shape):
                place = f" idx ({', '.join(map(str, index))})" if shape else ""
                yield f"{pid}{place}{self.prefix}{number}{show(plain[index])}"

    def read(self, addresses: int) -> list[Array]:
        """Copies of the operands whose addresses lie at `addresses`, row-major."""
        pointers = (ctypes.c_uint64 * len(self.types)).from_address(addresses) if self.types else ()
        return [_read(address, shape, element) for address, (shape, element) in zip(pointers, self.types)]


def _read(address: int, shape: tuple[int, ...], element: Scalar | None) -> Array:
    dtype = np.dtype(np.int64) if element is None else storage_dtype(element)
    count = int(np.prod(shape, dtype=np.int64))
    return np.frombuffer(ctypes.string_at(address, count * dtype.itemsize), dtype).reshape(shape)


def _prefix(prefix: str, has_operands: bool) -> str:
    """A leading blank always; `: ` before a value."""
    text = prefix if prefix.startswith(" ") else " " + prefix
    return text.rstrip().removesuffix(":") + ": " if has_operands else text


def _formatter(element: Scalar | None, as_hex: bool, signed: bool) -> Callable[[Any], str]:
    if element is None:
        return lambda v: f"0x{int(v) & (2**64 - 1):x}"
    if element.is_float:
        return (lambda v: float(v).hex()) if as_hex else (lambda v: f"{float(v):f}")
    mask = (1 << element.bits) - 1
    if as_hex:
        digits = max(1, element.bits // 4)
        return lambda v: f"0x{int(v) & mask:0{digits}x}"
    return (lambda v: str(int(v))) if signed else (lambda v: str(int(v) & mask))
