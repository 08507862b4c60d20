"""Type promotion of binary operations: pure functions on types (semantics §2, by its numbers).

A *weak* operand is a Python number or a constexpr used directly; its type here is the one a literal would get alone.
Tests: tests/lang/test_promotion.py holds the full tables.
"""

from __future__ import annotations

import math
from typing import Any

from tilewright.language.errors import IncompatibleTypeErrorImpl, LanguageTypeError, LanguageValueError
from tilewright.language.types import (
    bfloat16,
    dtype,
    float16,
    float32,
    float64,
    int1,
    int32,
    int64,
    uint32,
    uint64,
)

_SMALLEST_NORMAL = 2.0**-126
_LARGEST_FLOAT32 = (2.0 - 2.0**-23) * 2.0**127


def literal_type(value: bool | int | float) -> dtype:
    """The type of a literal that stands alone (semantics §1)."""
    if isinstance(value, bool):
        return int1
    if isinstance(value, int):
        for candidate in (int32, uint32, int64, uint64):
            if candidate.get_int_min_value() <= value <= candidate.get_int_max_value():
                return candidate
        raise LanguageValueError(f"Nonrepresentable integer {value}: the widest types are int64 and uint64")
    size = abs(value)
    if size == 0.0 or not math.isfinite(value) or _SMALLEST_NORMAL <= size <= _LARGEST_FLOAT32:
        return float32
    return float64


def check_literal_fits(value: Any, target: dtype) -> None:
    """An integer literal that takes an integer tensor's type must fit it (rule 1)."""
    if not target.is_int() or not isinstance(value, int):
        return
    low, high = target.get_int_min_value(), target.get_int_max_value()
    if value < 0 and target.is_int_unsigned():
        raise LanguageValueError(f"Scalar {value} is out of range for type {target}: an unsigned tensor takes no "
                                 "negative literal; cast the tensor to a signed type first")
    if not low <= value <= high:
        raise LanguageValueError(f"Scalar {value} is out of range for type {target} ({low} to {high}); cast the tensor "
                                 "to a wider type first")


def promote(left: dtype, left_weak: bool, right: dtype, right_weak: bool, division: bool = False) -> dtype:
    """The type in which `left op right` is computed; `division` for `/`, `//` and `%` (rules 3 and 9)."""
    if left_weak != right_weak:
        weak, strong = (left, right) if left_weak else (right, left)
        if weak.kind().value <= strong.kind().value:                                    # rule 1
            # rule 3 comes first: a division of a narrow float is computed in fp32 with a literal as well
            return float32 if division and strong.is_floating() and strong.primitive_bitwidth < 32 else strong
    if left.is_floating() or right.is_floating():
        return _promote_floats(left, right, division)
    return promote_ints(left, right, division)


def _promote_floats(left: dtype, right: dtype, division: bool) -> dtype:
    pair = (left, right)
    if float64 in pair:                                                                 # rule 2
        return float64
    if (left.is_fp8() and right.is_int()) or (right.is_fp8() and left.is_int()):        # rule 7
        raise IncompatibleTypeErrorImpl(left, right, "an fp8 tensor does not mix with an integer tensor; cast one")
    if division:                                                                        # rule 3
        return float32
    if float32 in pair:                                                                 # rule 4
        return float32
    if float16 in pair:                                                                 # rules 5 and 6
        return float16
    if bfloat16 in pair:                                                                # rule 6
        return bfloat16 if left == right else float32
    return left if left == right else float16                                           # rule 7


def promote_ints(left: dtype, right: dtype, division: bool = False) -> dtype:
    """Rules 8 and 9.  int1 counts as unsigned of width 1."""
    if not (left.is_int() and right.is_int()):
        raise IncompatibleTypeErrorImpl(left, right)
    if left.int_signedness == right.int_signedness:
        return left if left.int_bitwidth >= right.int_bitwidth else right
    if division:                                                                        # rule 9
        raise LanguageTypeError(
            f"Cannot use /, //, or % with {left} and {right} because they have different signedness; this is unlikely "
            "to result in a useful answer. Cast them to the same signedness.")
    unsigned, signed = (left, right) if left.is_int_unsigned() else (right, left)
    return unsigned if unsigned.int_bitwidth >= signed.int_bitwidth else signed         # rule 8
