"""Bessel functions of `libdevice`: j0 j1 jn y0 y1 yn, cyl_bessel_i0 and _i1, computed in fp64.

Below 8 each is a fitted polynomial times its zeros there, so that results near a zero keep their digits; above, the
amplitudes of Hankel's expansion (DLMF 10.17) are fitted.  Higher orders by recurrence (DLMF 10.6.1): forward where it
is stable, else Miller's backward one (DLMF 3.6).  Fits: tools/fit_special.py.
Tests: tests/lang/test_libdevice_special.py.
"""

from __future__ import annotations

import math
from typing import Any

from tilewright.language import reduction
from tilewright.language.elementwise import where as choose
from tilewright.language.extra import coefficients as fitted
from tilewright.language.extra.float_bits import (
    converted,
    equals,
    has_sign,
    is_infinite,
    is_nan,
    negated,
    op,
    plus,
    size_of,
    where,
)
from tilewright.language.extra.special_functions import INFINITY, NAN, horner, polynomial
from tilewright.language.function import SourceFunction
from tilewright.language.tensor import tensor
from tilewright.language.types import float64, int32
from tilewright.language.values import shape

Zeros = tuple[tuple[float, float], ...]


def _times_zeros(x: tensor, value: tensor, zeros: Zeros) -> tensor:
    """value * (x - zero) * ..., each zero being the sum of two numbers."""
    for high, low in zeros:
        value = value * ((x - high) - low)
    return value


def _hankel(order: int, x: tensor) -> tuple[tensor, tensor]:
    """(J, Y) of x >= 8."""
    far = where(x < 8.0, 8.0, where(x < 1e300, x, 1e300))
    inverse = 8.0 / far
    w = inverse * inverse
    p = polynomial(w, (fitted.P0, fitted.P1)[order])
    q = polynomial(w, (fitted.Q0, fitted.Q1)[order]) * (inverse * 0.125)
    s, c = op("sin", far), op("cos", far)
    cosine, sine = (c + s, s - c) if order == 0 else (s - c, negated(s + c))      # of x - pi/4 - order pi/2, times √2
    root = math.sqrt(1 / math.pi) / op("sqrt_rn", far)
    gone = is_infinite(x)
    j, y = (p * cosine - q * sine) * root, (p * sine + q * cosine) * root
    return where(gone, 0.0, j), where(gone, 0.0, y)


def _first_kind(order: int, x: tensor) -> tensor:
    """J of x >= 0."""
    zeros: Zeros = (fitted.J0_ZEROS, fitted.J1_ZEROS)[order]
    (high, _), *_ = zeros
    near = polynomial(x * x, (fitted.J0_4, fitted.J1_4)[order]) * (x + high)
    near = _times_zeros(x, near * x if order else near, zeros[:1])
    middle = _times_zeros(x, polynomial(x, (fitted.J0_8, fitted.J1_8)[order]), zeros[1:] if order == 0 else zeros)
    return where(x <= 4.0, near, where(x <= 8.0, middle, _hankel(order, x)[0]))


def j0(x: tensor) -> tensor:
    return where(is_nan(x), x, _first_kind(0, size_of(x)))


def j1(x: tensor) -> tensor:
    value = _first_kind(1, size_of(x))
    return where(is_nan(x), x, where(has_sign(x), negated(value), value))


def _second_kind(order: int, x: tensor) -> tensor:
    """Y of x > 0."""
    z: Any = (fitted.Y0_ZEROS, fitted.Y1_ZEROS)[order]
    pieces = (((1.0, fitted.Y0_1, z[:1]), (2.0, fitted.Y0_2, z[:1]), (4.0, fitted.Y0_4, z[1:2]),
               (8.0, fitted.Y0_8, z[1:])) if order == 0 else
              ((1.0, fitted.Y1_1, ()), (2.0, fitted.Y1_2, z[:1]), (4.0, fitted.Y1_4, z[:1]),
               (8.0, fitted.Y1_8, z[1:])))
    value = _hankel(order, x)[1]
    for end, fit, zeros in reversed(pieces):
        value = where(x <= end, _times_zeros(x, polynomial(x, fit), zeros), value)
    small = where(x < 0.5, x, 0.5)
    series = op("log", small) * _first_kind(order, small)
    rest = polynomial(small * small, (fitted.Y0_0, fitted.Y1_0)[order])
    if order:
        series, rest = series - 1.0 / small, rest * small
    return where(x <= 0.5, series * (2 / math.pi) + rest, value)


def _of_positive(order: int, x: tensor) -> tensor:
    value = _second_kind(order, where(x > 0.0, x, 1.0))
    return where(is_nan(x), x, where(equals(x, 0.0), -INFINITY, where(x < 0.0, NAN, value)))


def y0(x: tensor) -> tensor:
    return _of_positive(0, x)


def y1(x: tensor) -> tensor:
    return _of_positive(1, x)


# -- modified ---------------------------------------------------------------------------------------------------------


def _taylor(order: int) -> tuple[float, ...]:
    """I(x) / x**order in powers of x**2 (DLMF 10.25.2), enough of them for x <= 8."""
    return tuple(0.25**k / (math.factorial(k) * math.factorial(k + order)) / 2**order for k in range(27))


def _modified(order: int, x: tensor) -> tensor:
    """I of x >= 0."""
    low = where(x < 8.0, x, 8.0)
    near = horner(low * low, _taylor(order))
    far = where(x < 8.0, 8.0, where(x < 1000.0, x, 1000.0))
    half = op("exp", far * 0.5)
    large = half * (polynomial(8.0 / far, (fitted.I0, fitted.I1)[order]) / op("sqrt_rn", far)) * half
    return where(x <= 8.0, near * low if order else near, large)


def i0(x: tensor) -> tensor:
    return where(is_nan(x), x, _modified(0, size_of(x)))


def i1(x: tensor) -> tensor:
    value = _modified(1, size_of(x))
    return where(is_nan(x), x, where(has_sign(x), negated(value), value))


# -- any order --------------------------------------------------------------------------------------------------------


@SourceFunction
def _forward(n: Any, x: Any, before: Any, now: Any, last: Any) -> Any:
    """The function of order n from those of orders 0 and 1."""
    for k in range(1, last):
        after = now * (2 * k / x) - before
        before = choose(k < n, now, before)
        now = choose(k < n, after, now)
    return now


@SourceFunction
def _backward(n: Any, x: Any, first: Any) -> Any:
    """J of order n, x <= n: from order `first` down, in a scale of its own, which J0 + 2 J2 + 2 J4 + ... = 1 tells."""
    above = x * 0.0
    now = above + 1e-30
    found = above
    total = above
    for k in range(first, 0, -1):
        below = now * (2 * k / x) - above
        above = now
        now = below
        found = choose(n == k - 1, now, found)
        if k == 1:
            total += now
        elif k % 2 == 1:
            total += now * 2.0
        large = (now > 1e100) | (now < -1e100)
        above = choose(large, above * 1e-200, above)
        now = choose(large, now * 1e-200, now)
        found = choose(large, found * 1e-200, found)
        total = choose(large, total * 1e-200, total)
    return found / total


def _largest(n: tensor) -> tensor:
    return reduction.max.call(n.builder, (n,)) if shape(n) else n


def jn(n: tensor, x: tensor) -> tensor:
    """J of order n, an int32; NaN for negative n."""
    size = size_of(x)
    zero, one = _first_kind(0, size), _first_kind(1, size)
    order = where((n > 0) & (n < 1 << 24), n, 1)
    usable = where((size > 1e-150) & (size < 1e300), size, 1.0)
    last = _largest(order)
    ahead = n.builder.call_function(_forward, (order, usable, zero, one, last), {})
    margin = converted(op("cbrt", converted(last, float64)) * 12.0, int32)
    first = plus(plus(last, margin), 30)
    low = where(usable <= converted(order, float64), usable, 1.0)
    back = n.builder.call_function(_backward, (order, low, first), {})
    higher = where(usable <= converted(order, float64), back, ahead)
    higher = where(equals(order, 1), one, where(size > 1e-150, higher, 0.0))
    higher = where(is_infinite(size), 0.0, higher)
    value = where(equals(n, 0), zero, higher)
    value = where(has_sign(x) & equals(n & 1, 1), negated(value), value)
    return where(is_nan(x), x, where(n < 0, NAN, value))


def yn(n: tensor, x: tensor) -> tensor:
    """Y of order n, an int32, by the forward recurrence; NaN for negative n or x."""
    zero, one = _of_positive(0, x), _of_positive(1, x)
    order = where(n > 0, n, 1)
    usable = where((x > 0.0) & (x < 1e300), x, 1.0)
    higher = n.builder.call_function(_forward, (order, usable, zero, one, _largest(order)), {})
    higher = where(is_nan(higher), -INFINITY, higher)       # infinities of both orders meet
    higher = where(equals(x, INFINITY), 0.0, where(equals(order, 1), one, higher))
    value = where(equals(n, 0), zero, higher)
    bad = (n < 0) | (x < 0.0)
    return where(is_nan(x), x, where(bad, NAN, where(equals(x, 0.0), -INFINITY, value)))
