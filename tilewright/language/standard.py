"""`tl.standard`: what is made of the other names, with the names of `reduction` and `shape_ops` that triton has here.

Tests: tests/lang/test_standard.py.
"""

from __future__ import annotations

from typing import Any

from tilewright.language import math, operators
from tilewright.language.builder import Builder
from tilewright.language.builtin import builtin, tensor_member
from tilewright.language.constexpr import constexpr, unwrap
from tilewright.language.creation import zeros, zeros_like
from tilewright.language.elementwise import maximum_of
from tilewright.language.errors import LanguageTypeError
from tilewright.language.function import ConstexprFunction
from tilewright.language.ordering import bitonic_merge, flip, sort, topk
from tilewright.language.reduction import argmax, argmin, max, min, reduce_or, sum, xor_sum
from tilewright.language.scans import cumprod, cumsum
from tilewright.language.semantic import binary
from tilewright.language.shape_ops import interleave, ravel, squeeze, unsqueeze
from tilewright.language.tensor import tensor
from tilewright.language.values import describe, known_axis, known_bool, need_tile, shape, to_tensor


@builtin
def cdiv(x: Any, div: Any, *, _builder: Builder) -> Any:
    """The quotient of two integers, rounded up, also of negative ones: cdiv(-36, 5) is -7.

    Compile-time arguments give a compile-time result.  Floats are refused.
    """
    a, b = unwrap(x), unwrap(div)
    if not isinstance(a, tensor) and not isinstance(b, tensor):
        if not isinstance(a, int) or not isinstance(b, int):
            raise LanguageTypeError(f"tl.cdiv takes integers, not {describe(a)} and {describe(b)}")
        folded = -unwrap(binary(_builder, "FloorDiv", -a, b))
        return constexpr(folded) if isinstance(x, constexpr) or isinstance(div, constexpr) else folded
    return _ceiling_quotient(_builder, a, b)


def _ceiling_quotient(builder: Builder, x: Any, div: Any) -> tensor:
    """Truncated quotient, plus one where the remainder is not zero and the exact quotient is positive.

    Unlike (x + div - 1) // div it does not overflow, and it is right for negative numbers.
    """
    quotient = operators.divide(builder, "FloorDiv", x, div)
    remainder = operators.divide(builder, "Mod", x, div)
    if quotient.dtype.is_floating():
        raise LanguageTypeError(f"tl.cdiv takes integers, not {quotient.dtype}")
    rounds_up = remainder != 0
    if quotient.dtype.is_int_signed():
        rounds_up = rounds_up & ((to_tensor(builder, x) < 0) == (to_tensor(builder, div) < 0))
    return quotient + rounds_up.to(quotient.dtype)  # type: ignore[no-any-return]


@builtin
def sigmoid(x: Any, *, _builder: Builder) -> tensor:
    """1 / (1 + exp(-x)), of fp32 or fp64, within 4 ulp of fp32, 4 of fp64 where it is normal.

    Other types are refused.
    """
    return math.sigmoid_of(_builder, to_tensor(_builder, x))


@builtin
def softmax(x: Any, dim: Any = None, keep_dims: Any = None, ieee_rounding: Any = False, *, _builder: Builder) -> tensor:
    """exp(x - max) / sum(exp(x - max)) along `dim`, 0 if it is not given; the shape is kept.

    fp16 and bf16 give fp32.  `ieee_rounding` rounds the quotient correctly.  `keep_dims` warns and has no effect.
    """
    value = to_tensor(_builder, x)
    need_tile(value, "tl.softmax")
    if unwrap(keep_dims) is not None:
        _builder.warn("keep_dims of tl.softmax has no effect: the shape is always kept")
    axis = 0 if unwrap(dim) is None else known_axis(dim, len(shape(value)), "dim of tl.softmax")
    shifted = value - max.call(_builder, (value, axis), {"keep_dims": True})
    powers = math.exp.call(_builder, (shifted,))
    total = sum.call(_builder, (powers, axis), {"keep_dims": True})
    exact = known_bool(ieee_rounding, "ieee_rounding")
    return operators.true_divide(_builder, powers, total, "div_rn" if exact else "div_f")


@builtin
def swizzle2d(i: Any, j: Any, size_i: Any, size_j: Any, size_g: Any, *, _builder: Builder) -> tuple[Any, Any]:
    """The place of (i, j), a pair, when a size_i x size_j grid in row-major order is walked in groups of size_g rows.

    Within a group the order is column-major, so that neighbours in time share rows and columns.  Ints or int scalars.
    """
    b = _builder
    linear = binary(b, "Add", binary(b, "Mult", i, size_j), j)
    per_group = binary(b, "Mult", size_g, size_j)
    group = binary(b, "FloorDiv", linear, per_group)
    first = binary(b, "Mult", group, size_g)
    rows = _minimum(b, binary(b, "Sub", size_i, first), size_g)
    within = binary(b, "Mod", linear, per_group)
    return binary(b, "Add", first, binary(b, "Mod", within, rows)), binary(b, "FloorDiv", within, rows)


def _minimum(builder: Builder, a: Any, b: Any) -> Any:
    left, right = unwrap(a), unwrap(b)
    if isinstance(left, tensor) or isinstance(right, tensor):
        return maximum_of(builder, "min", left, right)
    return left if left < right else right


tensor_member(cdiv)
tensor_member(sigmoid)
tensor_member(softmax)

__all__ = ["argmax", "argmin", "bitonic_merge", "cdiv", "cumprod", "cumsum", "flip", "interleave", "max", "min",
           "ravel", "reduce_or", "sigmoid", "softmax", "sort", "squeeze", "sum", "swizzle2d", "topk", "unsqueeze",
           "xor_sum", "zeros", "zeros_like"]


@ConstexprFunction
def _log2(i: int) -> int:
    """The exponent of the greatest power of two up to `i`: libraries with sorts of their own take it from here."""
    return i.bit_length() - 1
