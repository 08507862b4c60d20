"""The types of tile IR: scalars, pointers, tiles.  Frozen, interned by value, validated on construction.

Integers are signless here: signedness is in the op (`div_s`, `div_u`).  A tile has a *logical* shape of any sizes
(no power of two is asked for), an element that is a scalar or a pointer, and a layout, opaque here, which is None
before the layout pass of a GPU target.

`storage_dtype` fixes how the interpreters hold an element in NumPy: i1 as bool, integers as *signed* integers,
f16/f32/f64 as such, bf16 and fp8 as their bits (uint16, uint8), pointers as int64 byte addresses.
Tests: tests/ir/test_types.py.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np

_SCALARS: dict[str, tuple[str, int, str]] = {
    # name: (kind, bits, NumPy storage)
    "i1": ("int", 1, "bool"),
    "i8": ("int", 8, "int8"),
    "i16": ("int", 16, "int16"),
    "i32": ("int", 32, "int32"),
    "i64": ("int", 64, "int64"),
    "f8e4m3": ("float", 8, "uint8"),
    "f8e5m2": ("float", 8, "uint8"),
    "f8e4m3fnuz": ("float", 8, "uint8"),
    "f8e5m2fnuz": ("float", 8, "uint8"),
    "f8e4m3b15": ("float", 8, "uint8"),
    "f16": ("float", 16, "float16"),
    "bf16": ("float", 16, "uint16"),
    "f32": ("float", 32, "float32"),
    "f64": ("float", 64, "float64"),
}


@dataclass(frozen=True, slots=True)
class Scalar:
    """A scalar type by its IR name, e.g. `i32`, `bf16`.

    `bytes` is what one element takes in memory (i1 takes one).
    """

    name: str
    is_int: bool = field(init=False, repr=False, compare=False)
    is_float: bool = field(init=False, repr=False, compare=False)
    bits: int = field(init=False, repr=False, compare=False)
    bytes: int = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if self.name not in _SCALARS:
            raise ValueError(f"no scalar type {self.name!r}; there are {', '.join(_SCALARS)}")
        kind, bits, _ = _SCALARS[self.name]
        for name, value in (("is_int", kind == "int"), ("is_float", kind == "float"), ("bits", bits),
                            ("bytes", max(1, bits // 8))):
            object.__setattr__(self, name, value)

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class Pointer:
    """A pointer to elements of `element`; arithmetic on it counts elements.  `const` forbids stores."""

    element: Scalar | Pointer
    const: bool = False

    is_int = False
    is_float = False
    bits = 64
    bytes = 8

    def __str__(self) -> str:
        return f"ptr<{'const ' if self.const else ''}{self.element}>"


@dataclass(frozen=True, slots=True)
class Tile:
    """A tile: shape (rank >= 1, each size >= 1), element type, layout (None until assigned)."""

    shape: tuple[int, ...]
    element: Scalar | Pointer
    layout: Any = None

    def __post_init__(self) -> None:
        if not self.shape or any(not isinstance(s, int) or s < 1 for s in self.shape):
            raise ValueError(f"a tile's shape is one or more sizes >= 1, not {self.shape}")

    @property
    def rank(self) -> int:
        return len(self.shape)

    @property
    def numel(self) -> int:
        return math.prod(self.shape)

    def __str__(self) -> str:
        sizes = "x".join(map(str, self.shape))
        return f"tile<{sizes}x{self.element}{'' if self.layout is None else f', {self.layout}'}>"


Element = Scalar | Pointer
Type = Scalar | Pointer | Tile

I1, I8, I16, I32, I64 = (Scalar(n) for n in ("i1", "i8", "i16", "i32", "i64"))
F16, BF16, F32, F64 = (Scalar(n) for n in ("f16", "bf16", "f32", "f64"))
F8E4M3, F8E5M2 = Scalar("f8e4m3"), Scalar("f8e5m2")
# Formats that are only stored, moved and converted: rows of arithmetic do not take them (`ops.rules.is_kind`).
F8E4M3FNUZ, F8E5M2FNUZ, F8E4M3B15 = Scalar("f8e4m3fnuz"), Scalar("f8e5m2fnuz"), Scalar("f8e4m3b15")
STORED_ONLY = frozenset({F8E4M3FNUZ, F8E5M2FNUZ, F8E4M3B15})
ALL_SCALARS: tuple[Scalar, ...] = tuple(Scalar(n) for n in _SCALARS)


def element_of(t: Type) -> Element:
    """The element type of a tile, or the type itself."""
    return t.element if t.__class__ is Tile else t      # type: ignore[return-value]


def shape_of(t: Type) -> tuple[int, ...]:
    """The shape of a tile, or () for a scalar or pointer."""
    return t.shape if isinstance(t, Tile) else ()


def with_element(t: Type, element: Element) -> Type:
    """`t` with another element type and the same shape and layout."""
    return Tile(t.shape, element, t.layout) if isinstance(t, Tile) else element


def make_type(shape: tuple[int, ...], element: Element) -> Type:
    """A tile of `shape`, or the bare element when the shape is ()."""
    return Tile(tuple(shape), element) if shape else element


def storage_dtype(t: Type) -> np.dtype[Any]:
    """The NumPy dtype in which the interpreters hold an element of `t` (see the module's docstring)."""
    e = element_of(t)
    return np.dtype("int64") if isinstance(e, Pointer) else np.dtype(_SCALARS[e.name][2])
