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


class Rmw(enum.Enum):
    """What an atomic read-modify-write does: the row that makes the new value of the old one and the operand.

    `XCHG` has no row: the operand itself is the new value.
    """

    ADD = "add"
    FADD = "add_f"
    MAX_S = "max_s"
    MIN_S = "min_s"
    MAX_U = "max_u"
    MIN_U = "min_u"
    FMAX = "max_f"
    FMIN = "min_f"
    AND = "and"
    OR = "or"
    XOR = "xor"
    XCHG = "xchg"

    @property
    def on_floats(self) -> bool | None:
        """Whether it works on floats; None: on floats and integers."""
        return None if self is Rmw.XCHG else self.value.endswith("_f")


class Sem(enum.Enum):
    """Memory ordering of an atomic op (C11 7.17.3)."""

    RELAXED = "relaxed"
    ACQUIRE = "acquire"
    RELEASE = "release"
    ACQ_REL = "acq_rel"


class Scope(enum.Enum):
    """The threads among which an atomic op is atomic; engines may take a larger set."""

    CTA = "cta"
    GPU = "gpu"
    SYS = "sys"
