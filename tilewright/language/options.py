"""What a launch may say about the compilation of a kernel, and what is known of its arguments."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Options:
    """Options of a compilation; the names are the keyword arguments of a launch (semantics of triton 3.6).

    `debug` turns `tl.device_assert` on; `enable_fp_fusion` runs the contraction pass (off by default, docs/design.md).
    `check_bounds` tests memory accesses of CPU code against the extents of their arguments, `line_info` notes of which
    of the user's lines each instruction is; knobs set both.
    Options that a target has no use for (`num_warps` on a CPU) are checked and kept, so that they are in the key.
    """

    num_warps: int = 4
    num_stages: int = 3
    num_ctas: int = 1
    maxnreg: int | None = None
    debug: bool = False
    sanitize_overflow: bool = False
    enable_fp_fusion: bool = False
    default_dot_input_precision: str = "tf32"
    check_bounds: bool = True
    line_info: bool = False
    extra: tuple[tuple[str, Any], ...] = ()


@dataclass(frozen=True, slots=True)
class RuntimeArg:
    """A parameter whose value comes with the launch: its language type, and what divides it (16 or 1)."""

    type: Any                 # language.core.dtype or pointer_type
    divisible_by: int = 1


@dataclass(frozen=True, slots=True)
class ConstantArg:
    """A parameter with a compile-time value (a constexpr, None, an int equal to 1).

    Compared with the value's type, so that 1, True and 1.0 are different keys.
    """

    value: Any

    def __eq__(self, other: object) -> bool:
        return (isinstance(other, ConstantArg) and type(self.value) is type(other.value)
                and bool(self.value == other.value))

    def __hash__(self) -> int:
        return hash((type(self.value), self.value))


@dataclass(frozen=True, slots=True)
class TupleArg:
    """A tuple parameter, element by element; `rebuild` is the namedtuple class, if it is one."""

    items: tuple[Arg, ...]
    rebuild: Any = None


Arg = RuntimeArg | ConstantArg | TupleArg


@dataclass(frozen=True, slots=True)
class Signature:
    """One specialisation of a kernel: an `Arg` for each parameter in order, and the launch facts."""

    args: Mapping[str, Arg] = field(default_factory=dict)
    disjoint: bool = False
    wide: bool = False
