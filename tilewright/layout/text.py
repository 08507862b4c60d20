"""Layouts from IR text: the inverse of `str(layout)`, and short forms for text written by hand.

    #linear(16x8, register b0 a3, lane b1 b2 a0 a1 a2, warp)
    #blocked(128x64, 1x4, 4x8, 4x1, 1x0)        size per thread, threads per warp, warps, order
    #coalesced(1024, 4, 4)                      vector, warps

No layout's text contains `>`, which ends a tile type.  Tests: tests/layout/test_text.py.
"""

from __future__ import annotations

import re

from tilewright.layout.families import blocked, coalesced
from tilewright.layout.linear import DIM_LETTERS, Layout, log2, pack

_FORM = re.compile(r"\s*#(\w+)\((.*)\)\s*", re.DOTALL)
_BIT = re.compile(r"([a-z])(\d+)")


def parse(text: str) -> Layout:
    """The layout that `text` describes; ValueError with what was expected if it describes none."""
    found = _FORM.fullmatch(text)
    if found is None:
        raise ValueError(f"a layout is written as #linear(...), #blocked(...) or #coalesced(...), not {text.strip()!r}")
    family, fields = found[1], [part.strip() for part in found[2].split(",")]
    shape = _shape(fields[0])
    if family == "linear":
        return Layout(shape, tuple(_input(shape, field) for field in fields[1:]))
    if family == "blocked" and len(fields) == 5:
        return blocked(shape, *map(_sizes, fields[1:]))
    if family == "coalesced" and len(fields) == 3:
        return coalesced(shape, _number(fields[1]), _number(fields[2]))
    raise ValueError(f"no layout family #{family} with {len(fields)} fields: {text.strip()!r}")


def _number(text: str) -> int:
    if not re.fullmatch(r"\d+", text):
        raise ValueError(f"expected a number, found {text!r}")
    return int(text)


def _sizes(text: str) -> tuple[int, ...]:
    return tuple(_number(part) for part in text.split("x"))


def _shape(text: str) -> tuple[int, ...]:
    return () if text == "scalar" else _sizes(text)


def _input(shape: tuple[int, ...], field: str) -> tuple[str, tuple[int, ...]]:
    name, *bases = field.split() or [""]
    if not name.isidentifier():
        raise ValueError(f"expected an input such as `lane a0 a1`, found {field!r}")
    return name, tuple(_basis(shape, b) for b in bases)


def _basis(shape: tuple[int, ...], text: str) -> int:
    coordinates = [0] * len(shape)
    for part in () if text == "0" else text.split("+"):
        bit = _BIT.fullmatch(part)
        if bit is None or (dim := DIM_LETTERS.index(bit[1])) >= len(shape) or int(bit[2]) >= log2(shape[dim]):
            raise ValueError(f"{text!r} is no basis of a tile of shape {'x'.join(map(str, shape)) or 'scalar'}: "
                             f"write 0, or bits such as a0+b3 (dim a, b, ...; bit of its coordinate)")
        coordinates[dim] ^= 1 << int(bit[2])
    return pack(shape, coordinates)
