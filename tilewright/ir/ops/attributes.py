"""The closed sets of values that attributes take.  The text form prints a member's value."""

from __future__ import annotations

import enum


class Rounding(enum.Enum):
    """Rounding of a narrowing float conversion."""

    RTNE = "rtne"
    RTZ = "rtz"


class Cache(enum.Enum):
    """Cache hint of a load or store; checked, and a hint only (PTX ISA, cache operators)."""

    NONE = "none"
    CA = "ca"
    CG = "cg"
    CS = "cs"
    CV = "cv"
    WB = "wb"
    WT = "wt"


class Eviction(enum.Enum):
    """Eviction hint of a load or store (PTX ISA, cache eviction priority hints)."""

    NORMAL = "normal"
    FIRST = "first"
    LAST = "last"


class Precision(enum.Enum):
    """How a float32 dot may be computed; engines without such units compute IEEE for all."""

    IEEE = "ieee"
    TF32 = "tf32"
    TF32X3 = "tf32x3"
    BF16X3 = "bf16x3"
    BF16X6 = "bf16x6"
