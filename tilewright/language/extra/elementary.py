"""The rest of `libdevice`'s functions of floats: exponents, neighbours, remainders, norms, roots.

Tests: tests/lang/test_libdevice.py, test_libdevice_exact.py, test_libdevice_special.py.
"""

from __future__ import annotations

import math

from tilewright.language.extra.float_bits import (
    bits_of,
    clamped,
    constant_like,
    converted,
    equals,
    from_bits,
    has_sign,
    is_finite,
    is_infinite,
    is_nan,
    kind_of,
    minus,
    negated,
    next_down,
    next_up,
    op,
    scaled,
    size_of,
    split,
    where,
    with_sign,
)
from tilewright.language.tensor import tensor
from tilewright.language.types import float32, float64, int32

INFINITY = math.inf


def positive_difference(x: tensor, y: tensor) -> tensor:
    """x - y where x > y, NaN where one is, else +0."""
    return where(x <= y, 0.0, op("sub_f", x, y))


def reciprocal(x: tensor) -> tensor:
    return op("div_rn", constant_like(x, 1.0), x)


def coarse_reciprocal(x: tensor) -> tensor:
    """1 / x of an fp64 with the low 32 bits cleared."""
    return from_bits(bits_of(reciprocal(x)) & -(1 << 32), float64)


def saturated(x: tensor) -> tensor:
    """Limited to 0 .. 1; a NaN gives 0."""
    return op("min_f", op("max_f", x, constant_like(x, 0.0)), constant_like(x, 1.0))


def exponent(x: tensor) -> tensor:
    """The exponent of x as int32: of 0 and NaN the least int32, of infinities the greatest."""
    _, e = split(x)
    e = where(is_infinite(x), 2**31 - 1, e)
    return converted(where(is_nan(x) | equals(x, 0.0), -(2**31), e), int32)


def float_exponent(x: tensor) -> tensor:
    """The exponent of x as a float: of 0 -inf, of infinities inf."""
    _, e = split(x)
    e = where(is_infinite(x), INFINITY, converted(e, kind_of(x)))
    return where(is_nan(x), x, where(equals(x, 0.0), -INFINITY, e))


def neighbour(x: tensor, y: tensor) -> tensor:
    """The next float after x toward y."""
    beside = where(x < y, next_up(x), next_down(x))
    return where(equals(x, y) | is_nan(y), y, where(is_nan(x), x, beside))


def remainder(x: tensor, y: tensor) -> tensor:
    """x - n * y exactly, n the integer nearest to x / y, even of two; the sign of x if it is 0."""
    size, step = size_of(x), size_of(y)
    twice = step * 2.0
    rest = where(is_infinite(twice) & is_finite(x) & ~equals(step, 0.0), size, op("rem_f", size, twice))
    # compared in a scale in which twice the rest does not overflow
    scale = where(step > 1.0, constant_like(x, 0.25), 2.0)
    over = rest * scale * 2.0 > step * scale
    rest = where(over, rest - step, rest)
    rest = where(over & (rest * scale * 2.0 >= step * scale), rest - step, rest)
    result = where(has_sign(x), negated(rest), rest)
    return where(equals(result, 0.0), with_sign(result, x), where(is_nan(y), y, result))


def cube_root_reciprocal(x: tensor) -> tensor:
    """1 / cbrt(x), in fp64, rounded once for fp32."""
    wide = converted(x, float64)
    return converted(op("div_rn", constant_like(wide, 1.0), op("cbrt", wide)), kind_of(x))


def norm(*values: tensor) -> tensor:
    """The root of the sum of the squares; infinite where a value is, even beside a NaN."""
    root, e = _norm(*values)
    return converted(scaled(root, e), kind_of(values[0]))


def norm_reciprocal(*values: tensor) -> tensor:
    """1 / norm."""
    root, e = _norm(*values)
    inverse = op("div_rn", constant_like(root, 1.0), root)
    return converted(scaled(inverse, minus(0, e)), kind_of(values[0]))


def _norm(*values: tensor) -> tuple[tensor, tensor]:
    """(r, e) in fp64 with norm = r * 2**e: the values are scaled by the exponent of the largest."""
    wide = [converted(v, float64) for v in values]
    largest = size_of(wide[0])
    for v in wide[1:]:
        largest = op("max_f", largest, size_of(v))
    infinite = is_infinite(largest)
    _, e = split(largest)
    e = where(equals(largest, 0.0) | infinite, 0, clamped(e, -1100, 1100))
    total = None
    for v in wide:
        part = scaled(v, minus(0, e))
        total = part * part if total is None else op("fma", part, part, total)
    assert total is not None
    return where(infinite, INFINITY, op("sqrt_rn", total)), e


def to_fp32_first(x: tensor) -> tensor:
    """An fp64 rounded to fp32, to the nearest."""
    return converted(x, float32)
