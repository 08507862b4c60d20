"""Arithmetic rounded down, up and toward zero: `libdevice.add_rd`, `div_ru`, `fma_rz`, ...

Each operation gives a float next to the exact result and a number with the sign of what it lacks; a result on the
wrong side is moved by one unit in the last place.  fp32 is computed in fp64, where products of two fp32 are exact.  In
fp64 the rest is one fma (quotient, root, product), Fast2Sum, or for fma an exact sum of four terms (Shewchuk,
"Adaptive precision floating-point arithmetic", 1997); operands are scaled where the rest would underflow.
No target needs rounding modes.  Tests: tests/lang/test_libdevice_exact.py, against rational arithmetic.
"""

from __future__ import annotations

from collections.abc import Callable

from tilewright.language.extra.float_bits import (
    bits_of,
    clamped,
    constant_like,
    converted,
    equals,
    fma,
    from_bits,
    has_sign,
    is_finite,
    is_infinite,
    kind_of,
    minus,
    negated,
    next_down,
    next_up,
    op,
    plus,
    scaled,
    size_of,
    split,
    two_sum,
    where,
)
from tilewright.language.tensor import tensor
from tilewright.language.types import dtype, float32, float64, int64

# a float next to the exact result, and a number with the sign of the rest (a NaN: there is nothing to move)
Nearby = tuple[tensor, tensor]


def moved(nearby: Nearby, mode: str) -> tensor:
    """The result in rounding mode `mode`: rd, ru or rz."""
    value, rest = nearby
    if mode == "rd":
        return where(rest < 0.0, next_down(value), value)
    if mode == "ru":
        return where(rest > 0.0, next_up(value), value)
    outside = ((value > 0.0) & (rest < 0.0)) | ((value < 0.0) & (rest > 0.0))
    return from_bits(where(outside, minus(bits_of(value), 1), bits_of(value)), kind_of(value))


def _narrowed(total: tensor, rest: tensor | None = None) -> Nearby:
    """The fp64 number total + rest (|rest| at most half a unit of total) as fp32."""
    value = converted(total, float32)
    lacking = total - converted(value, float64)
    return value, lacking if rest is None else lacking + rest


def _wide(*values: tensor) -> list[tensor]:
    return [converted(x, float64) for x in values]


def _zero_sum(result: tensor, nearby: Nearby, mode: str, x: tensor, y: tensor) -> tensor:
    """An exact zero sum is -0 when rounding down, unless both addends are +0 (IEEE 754-2019 6.3)."""
    if mode != "rd":
        return result
    zero = equals(nearby[0], 0.0) & equals(nearby[1], 0.0)
    return where(zero & (has_sign(x) | has_sign(y)), constant_like(result, -0.0), result)


def added(x: tensor, y: tensor, mode: str) -> tensor:
    """x + y."""
    nearby = _narrowed(*two_sum(*_wide(x, y))) if kind_of(x) == float32 else two_sum(x, y)
    return _zero_sum(moved(nearby, mode), nearby, mode, x, y)


def subtracted(x: tensor, y: tensor, mode: str) -> tensor:
    """x - y."""
    return added(x, negated(y), mode)


def multiplied(x: tensor, y: tensor, mode: str) -> tensor:
    """x * y."""
    return moved(_product(x, y), mode)


def _product(x: tensor, y: tensor) -> Nearby:
    if kind_of(x) == float32:
        return _narrowed(op("mul_f", *_wide(x, y)))
    value = op("mul_f", x, y)
    tiny = size_of(value) < 2.0**-500
    up_x, up_y = (where(tiny & (size_of(v) < 1.0), constant_like(v, 2.0**600), 1.0) for v in (x, y))
    return value, fma(x * up_x, y * up_y, negated(value * up_x * up_y))


def divided(x: tensor, y: tensor, mode: str) -> tensor:
    """x / y."""
    value = op("div_rn", x, y)
    if kind_of(x) == float32:
        q, d, n = _wide(value, y, x)
    else:
        up = where(size_of(x) < 2.0**-900, constant_like(x, 2.0**600), 1.0)
        q, d, n = value * up, y, x * up
    rest = fma(negated(q), d, n)
    return moved((value, where(has_sign(y), negated(rest), rest)), mode)


def root(x: tensor, mode: str) -> tensor:
    """The square root of x."""
    value = op("sqrt_rn", x)
    if kind_of(x) == float32:
        r, n = _wide(value, x)
    else:
        small = size_of(x) < 2.0**-500
        r, n = value * where(small, constant_like(x, 2.0**300), 1.0), x * where(small, constant_like(x, 2.0**600), 1.0)
    return moved((value, fma(negated(r), r, n)), mode)


def fused(x: tensor, y: tensor, z: tensor, mode: str) -> tensor:
    """x * y + z."""
    if kind_of(x) == float32:
        a, b, c = _wide(x, y, z)
        product = op("mul_f", a, b)
        nearby = _narrowed(*two_sum(product, c))
    else:
        nearby = _fused_wide(x, y, z)
    # the sign that the product has, even where it underflows
    sign = op("mul_f", *(where(has_sign(v), constant_like(v, -1.0), 1.0) for v in (x, y)))
    return _zero_sum(moved(nearby, mode), nearby, mode, sign, z)


_FAR = 300      # binary digits by which the smaller term may lie below the larger one before only its sign counts


def _fused_wide(x: tensor, y: tensor, z: tensor) -> Nearby:
    """fp64: the exact sign of x*y + z - fma(x, y, z), all scaled so that the larger term is near 1."""
    value = fma(x, y, z)
    (mx, ex), (my, ey), (mz, ez) = split(x), split(y), split(z)
    no_product, no_sum = equals(x, 0.0) | equals(y, 0.0), equals(z, 0.0)
    ep = where(no_product, -5000, plus(ex, ey))
    ez = where(no_sum, -5000, ez)
    top = where(ep > ez, ep, ez)
    a = where(no_product, constant_like(x, 0.0), mx)
    b = scaled(my, clamped(minus(ep, top), -_FAR, 0))
    c = where(no_sum, constant_like(z, 0.0), scaled(mz, clamped(minus(ez, top), -_FAR, 0)))
    product = op("mul_f", a, b)
    rest = _sign_of_sum(product, fma(a, b, negated(product)), c, negated(scaled(value, minus(0, top))))
    overflows = is_infinite(value) & is_finite(x) & is_finite(y) & is_finite(z)
    defined = is_finite(value) & is_finite(x) & is_finite(y)
    return value, where(overflows, negated(value), where(defined, rest, 0.0))


def _sign_of_sum(high: tensor, low: tensor, c: tensor, d: tensor) -> tensor:
    """A number with the sign of high + low + c + d, exactly; high and low do not overlap."""
    s, t = two_sum(c, d)
    q, first = two_sum(low, t)
    q, second = two_sum(q, s)
    third = q
    q, first = two_sum(high, first)
    q, second = two_sum(q, second)
    q, third = two_sum(q, third)
    result = first
    for part in (second, third, q):
        result = where(equals(part, 0.0), result, part)
    return result


def narrowed(x: tensor, mode: str) -> tensor:
    """An fp64 as fp32."""
    return moved(_narrowed(x), mode)


def from_integer(kind: dtype, mode: str) -> Callable[[tensor], tensor]:
    """An integer as `kind`."""
    def convert(x: tensor) -> tensor:
        if kind_of(x).int_bitwidth == 32:
            return narrowed(converted(x, float64), mode)    # exact in fp64
        high = converted(x >> 32, float64) * 2.0**32
        low = converted(converted(x, int64) & 0xFFFFFFFF, float64)
        total, rest = two_sum(high, low)
        return moved(_narrowed(total, rest) if kind == float32 else (total, rest), mode)

    return convert


def reciprocal_root(x: tensor) -> tensor:
    """1 / sqrt(x) of an fp32, correctly rounded.

    The quotient in fp64 is right but for a few units of fp64, so the fp32 is right unless the exact result lies on the
    other side of a midpoint m to a neighbour: x * m**2 tells, whose m**2 is exact in fp64.
    """
    (n,) = _wide(x)
    one = constant_like(n, 1.0)
    value = converted(op("div_rn", one, op("sqrt_rn", n)), float32)
    here, above, below = _wide(value, next_up(value), next_down(value))
    middle = (here + above) * 0.5
    too_small = fma(n, middle * middle, negated(one)) < 0.0
    middle = (here + below) * 0.5
    too_large = fma(n, middle * middle, negated(one)) > 0.0
    usual = is_finite(value) & (value > 0.0)
    moved_up = where(usual & too_small, next_up(value), value)
    return where(usual & too_large, next_down(value), moved_up)
