"""Floats taken apart and put together: exact building blocks of `libdevice`, on fp32 and fp64 tensors.

All of it is made of exact ops of the IR, so every engine and target gives the same bits.
Tests: tests/lang/test_libdevice.py, test_libdevice_exact.py.
"""

from __future__ import annotations

from typing import Any

from tilewright.language import comparison, operators
from tilewright.language.builder import Builder
from tilewright.language.casting import bitcast, cast
from tilewright.language.tensor import tensor
from tilewright.language.types import dtype, float64, get_int_dtype, int32
from tilewright.language.values import emit, full_of, shape


def kind_of(x: tensor) -> dtype:
    """The element type of a tensor of numbers."""
    assert isinstance(x.dtype, dtype)
    return x.dtype


def op(name: str, *operands: tensor) -> tensor:
    """An op of the IR whose result has the type of its first operand."""
    return emit(operands[0].builder, name, operands, operands[0].type)


def where(condition: tensor, on_true: Any, on_false: Any) -> tensor:
    return comparison.where(condition.builder, condition, on_true, on_false)


def constant_like(x: tensor, value: float, kind: dtype | None = None) -> tensor:
    return full_of(x.builder, value, kind or kind_of(x), shape(x))


def converted(x: tensor, kind: dtype) -> tensor:
    """The values of x in another type."""
    return cast(x.builder, x, kind)


def bits_of(x: tensor) -> tensor:
    """The bits as a signed integer."""
    return bitcast(x.builder, x, get_int_dtype(kind_of(x).primitive_bitwidth, signed=True))


def from_bits(bits: tensor, kind: dtype) -> tensor:
    return bitcast(bits.builder, bits, kind)


def plus(x: Any, y: Any) -> tensor:
    """x + y of integers, wrapping, also where the user's own sums are tested for overflow."""
    return operators.add_sub_mul(_builder_of(x, y), "Add", x, y, sanitize=False)


def minus(x: Any, y: Any) -> tensor:
    """x - y of integers, wrapping."""
    return operators.add_sub_mul(_builder_of(x, y), "Sub", x, y, sanitize=False)


def times(x: Any, y: Any) -> tensor:
    """x * y of integers, wrapping."""
    return operators.add_sub_mul(_builder_of(x, y), "Mult", x, y, sanitize=False)


def _builder_of(x: Any, y: Any) -> Builder:
    return next(v.builder for v in (x, y) if isinstance(v, tensor))


def negated(x: tensor) -> tensor:
    return operators.negate(x.builder, x)


def size_of(x: tensor) -> tensor:
    """|x|, also of NaN and -0."""
    return op("abs_f", x)


def has_sign(x: tensor) -> tensor:
    """Whether the sign bit is set, as int1."""
    return comparison.compare(x.builder, "Lt", bits_of(x), 0)


def with_sign(x: tensor, y: tensor) -> tensor:
    """The size of x with the sign of y."""
    size = size_of(x)
    return where(has_sign(y), negated(size), size)


def is_nan(x: tensor) -> tensor:
    return comparison.compare(x.builder, "NotEq", x, x)


def is_infinite(x: tensor) -> tensor:
    return comparison.compare(x.builder, "Eq", size_of(x), float("inf"))


def is_finite(x: tensor) -> tensor:
    return comparison.compare(x.builder, "Lt", size_of(x), float("inf"))


def equals(x: tensor, y: Any) -> tensor:
    return comparison.compare(x.builder, "Eq", x, y)


def fma(x: tensor, y: tensor, z: tensor) -> tensor:
    return op("fma", x, y, z)


def two_sum(x: tensor, y: tensor) -> tuple[tensor, tensor]:
    """x + y rounded, and what it lacks, exactly.

    By Dekker's Fast2Sum on the operands in order of size, which, unlike Knuth's, has no intermediate overflow.
    """
    ordered = size_of(x) >= size_of(y)
    large, small = where(ordered, x, y), where(ordered, y, x)
    total: tensor = large + small
    return total, small - (total - large)


def _layout(kind: dtype) -> tuple[int, int]:
    """(explicit bits of the significand, exponent bias)."""
    return kind.fp_mantissa_width, kind.exponent_bias


def power_of_two(exponent: tensor, kind: dtype) -> tensor:
    """2**exponent, an int32 within the normal exponents of `kind`."""
    width, bias = _layout(kind)
    whole = converted(plus(exponent, bias), get_int_dtype(kind.primitive_bitwidth, signed=True))
    return from_bits(whole << width, kind)


def split(x: tensor) -> tuple[tensor, tensor]:
    """(m, e), e an int32, with x = m * 2**e and 1 <= |m| < 2; of finite x other than 0."""
    kind = kind_of(x)
    width, bias = _layout(kind)
    small = size_of(x) < 2.0 ** (1 - bias)
    bits = bits_of(where(small, x * 2.0 ** (width + 1), x))
    field = ((1 << (kind.primitive_bitwidth - 1 - width)) - 1) << width
    exponent = minus(converted((bits & field) >> width, int32), where(small, bias + width + 1, bias))
    return from_bits((bits & ~field) | (bias << width), kind), exponent


def scaled(x: tensor, exponent: tensor) -> tensor:
    """x * 2**exponent with one rounding, also into subnormals; `exponent` is an int32 of any size."""
    kind = kind_of(x)
    reach = 200 if kind != float64 else 1200
    significand, own = split(x)
    total = plus(own, clamped(exponent, -4 * reach, 4 * reach))
    total = clamped(total, -reach, reach - 2)
    half = total >> 1
    # the first product is exact: |m| < 2 and 2**half is far from both ends
    value = significand * power_of_two(half, kind) * power_of_two(minus(total, half), kind)
    return where(is_finite(x) & comparison.compare(x.builder, "NotEq", x, 0.0), value, x)


def clamped(n: tensor, low: int, high: int) -> tensor:
    """An int32 limited to low .. high."""
    n = where(n < low, low, n)
    return where(n > high, high, n)


def next_up(x: tensor) -> tensor:
    """The least float above x, which is neither NaN nor +inf."""
    bits = bits_of(x)
    moved = plus(bits, where(has_sign(x), -1, 1))
    return from_bits(where(equals(x, 0.0), 1, moved), kind_of(x))


def next_down(x: tensor) -> tensor:
    """The greatest float below x, which is neither NaN nor -inf."""
    return negated(next_up(negated(x)))


def truncated(x: tensor) -> tensor:
    """x rounded toward zero."""
    return where(has_sign(x), op("ceil", x), op("floor", x))


def rounded(x: tensor) -> tensor:
    """To the nearest integer, ties to even: at 2**p, p the significant bits but one, a sum rounds like that."""
    large = constant_like(x, 2.0 ** kind_of(x).fp_mantissa_width)
    size = size_of(x)
    nearest = op("sub_f", op("add_f", size, large), large)
    return with_sign(where(size < large, nearest, size), x)


def rounded_away(x: tensor) -> tensor:
    """To the nearest integer, ties away from zero."""
    whole = truncated(x)
    up = size_of(x - whole) >= 0.5
    return where(up, whole + with_sign(constant_like(x, 1.0), x), whole)
