"""The text of `tl.device_print`, the same on every engine: a line for each element, each element once.

    pid (0, 1, 0) idx (3, 4) val: (operand 1) 2.500000

The operand is named when there are several; a scalar has the index `()`; without operands only the prefix is printed.
Numbers look as C's printf shows them: `%f` floats, decimal integers, `0x` and as many digits as the type has when
`hex` is set, pointers always so (semantics of tl.device_print).  Tests: tests/interpret/test_printing.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tilewright.ir import fp
from tilewright.ir.types import Element, Pointer, Type, element_of

Array = np.ndarray[Any, Any]


def print_lines(program: tuple[int, int, int], prefix: str, hex: bool, signed: Sequence[bool],
                values: Sequence[Array], types: Sequence[Type]) -> list[str]:
    """What one program prints: `values` are its operands in storage form, without a program axis."""
    place = f"pid ({', '.join(map(str, program))})"
    head = prefix.strip()
    if not values:
        return [f"{place} {head}"]
    if not head.endswith(":"):
        head += ":"
    lines = []
    for number, (value, t, is_signed) in enumerate(zip(values, types, signed, strict=True)):
        operand = f"(operand {number}) " if len(values) > 1 else ""
        element = element_of(t)
        shown = _decoded(np.asarray(value), element)
        for index in np.ndindex(shown.shape):
            text = _element_text(shown[index].item(), element, hex, is_signed)
            lines.append(f"{place} idx ({', '.join(map(str, index))}) {head} {operand}{text}")
    return lines


def _decoded(value: Array, element: Element) -> Array:
    return fp.decode(value, element) if not isinstance(element, Pointer) and element.is_float else value


def _element_text(value: Any, element: Element, hex: bool, signed: bool) -> str:
    if element.is_float:
        return float(value).hex() if hex else f"{value:f}"
    digits = max(1, element.bits // 4)
    if hex or isinstance(element, Pointer):
        return f"0x{int(value) & ((1 << element.bits) - 1):0{digits}x}"
    return str(int(value) if signed or element.bits == 1 else int(value) & ((1 << element.bits) - 1))
