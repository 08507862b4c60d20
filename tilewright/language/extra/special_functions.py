"""Error functions, the normal distribution and gamma functions of `libdevice`, computed in fp64.

Compositions of elementary functions and fitted polynomials (tools/fit_special.py).  fp32 operands are converted, and
the result is rounded once.  Bounds: see the docstrings in libdevice.  Sources: DLMF 5, 7; Shepherd and Laframboise,
"Chebyshev approximation of (1 + 2x) exp(x**2) erfc x", 1981, for the variable (x - 4) / (x + 4).
Tests: tests/lang/test_libdevice_special.py.
"""

from __future__ import annotations

import math

from tilewright.language.extra import coefficients as fitted
from tilewright.language.extra.float_bits import (
    constant_like,
    equals,
    fma,
    has_sign,
    is_infinite,
    is_nan,
    negated,
    op,
    rounded,
    size_of,
    where,
    with_sign,
)
from tilewright.language.tensor import tensor

NAN, INFINITY = math.nan, math.inf
_ROOT_HALF, _ROOT_2_PI = math.sqrt(0.5), math.sqrt(2 * math.pi)


def polynomial(v: tensor, p: fitted.Polynomial) -> tensor:
    """A fitted polynomial of v."""
    return horner((v - p.centre) * p.scale, p.powers)


def horner(u: tensor, powers: tuple[float, ...]) -> tensor:
    """powers[0] + u * (powers[1] + ...)."""
    result = constant_like(u, powers[-1])
    for a in reversed(powers[:-1]):
        result = fma(result, u, constant_like(u, a))
    return result


def _square(x: tensor) -> tuple[tensor, tensor]:
    """x * x as the sum of two numbers."""
    high: tensor = x * x
    return high, fma(x, x, negated(high))


def _decay(high: tensor, low: tensor, factor: tensor) -> tensor:
    """exp(-(high + low)) * factor, for small low; in two halves, since exp(-high) may lose digits near 0."""
    half = op("exp", high * -0.5)
    near = op("exp", negated(high)) * (1.0 - low)
    return where(high < 690.0, near * factor, half * (1.0 - low) * factor * half)


# -- the error function -----------------------------------------------------------------------------------------------


def _scaled_erfc(x: tensor) -> tensor:
    """exp(x**2) erfc(x) of x >= 0."""
    t = where(x < 1e30, (x - 4.0) / (x + 4.0), 1.0)
    ratio = polynomial(t, fitted.ERFCX)
    result: tensor = ratio / where(x < 1e300, x * 2.0 + 1.0, x) * where(x < 1e300, constant_like(x, 1.0), 0.5)
    return result


def erfc(x: tensor) -> tensor:
    """1 - erf(x), without cancellation."""
    size = size_of(x)
    capped = where(size < 30.0, size, 30.0)
    tail = _decay(*_square(capped), _scaled_erfc(capped))
    return where(is_nan(x), x, where(has_sign(x), 2.0 - tail, tail))


def erfcx(x: tensor) -> tensor:
    """exp(x**2) erfc(x)."""
    size = size_of(x)
    positive = _scaled_erfc(size)
    high, low = _square(where(size < 30.0, size, 30.0))
    power = op("exp", high)
    negative = fma(power * 2.0, low, power * 2.0) - positive
    overflows = x < -26.7
    return where(is_nan(x), x, where(overflows, INFINITY, where(has_sign(x), negative, positive)))


def _inverse_near_zero(x: tensor) -> tensor:
    """erfinv(x), |x| <= 1/2."""
    return op("mul_f", x, polynomial(x * x, fitted.ERFINV))


def _inverse_of_tail(q: tensor) -> tensor:
    """The y with erfc(y) = q, 0 < q <= 1/2: a fit in sqrt(-log q), then one step of Halley on log erfc(y) - log q."""
    log_q = op("log", q)
    s = op("sqrt_rn", negated(log_q))
    y = s * polynomial((s - 4.0) / (s + 4.0), fitted.ERFCINV)
    scaled = _scaled_erfc(y)
    rest = fma(negated(y), y, negated(log_q)) + op("log", scaled)
    slope = 2.0 / math.sqrt(math.pi) / scaled
    step = rest / slope
    return op("add_f", y, step / (1.0 - step * (y * 2.0 - slope) * 0.5))


def erfinv(x: tensor) -> tensor:
    """The y with erf(y) = x."""
    size = size_of(x)
    rest = 1.0 - size
    tail = with_sign(_inverse_of_tail(where(rest > 0.0, rest, 0.5)), x)
    value = where(size <= 0.5, _inverse_near_zero(x), tail)
    at_ends = where(equals(size, 1.0), with_sign(constant_like(x, INFINITY), x), NAN)
    return where(size < 1.0, value, at_ends)


def _inverse_of_two_tails(q: tensor, centre: tensor) -> tensor:
    """erfcinv(q) of 0 <= q <= 2; `centre` is 1 - q where q is in 1/2 .. 3/2."""
    upper = q > 1.0
    tail = where(upper, 2.0 - q, q)
    far = _inverse_of_tail(where((tail > 0.0) & (tail < 0.5), tail, 0.5))
    far = where(equals(tail, 0.0), INFINITY, far)
    value = where(tail < 0.5, where(upper, negated(far), far), _inverse_near_zero(centre))
    return where((q >= 0.0) & (q <= 2.0), value, NAN)


def erfcinv(x: tensor) -> tensor:
    """The y with erfc(y) = x."""
    return _inverse_of_two_tails(x, 1.0 - x)


def normcdf(x: tensor) -> tensor:
    """The normal distribution: erfc(-x / sqrt(2)) / 2; x**2 / 2 in the exponent is exact."""
    size = size_of(x)
    capped = where(size < 40.0, size, 40.0)
    high, low = _square(capped)
    tail = _decay(high * 0.5, low * 0.5, _scaled_erfc(capped * _ROOT_HALF) * 0.5)
    return where(is_nan(x), x, where(has_sign(x), tail, 1.0 - tail))


def normcdfinv(x: tensor) -> tensor:
    """The y with normcdf(y) = x."""
    y = _inverse_of_two_tails(x * 2.0, 1.0 - x * 2.0)
    return op("mul_f", y, constant_like(y, -math.sqrt(2.0)))


# -- sine and cosine of multiples of pi -------------------------------------------------------------------------------


_PI_LOW = 1.2246467991473532e-16    # pi less its float64


def sine_and_cosine_of_pi(x: tensor) -> tuple[tensor, tensor]:
    """sin(pi x), cos(pi x); the argument is reduced exactly."""
    x = where(is_infinite(x), NAN, x)
    turn = x - rounded(x * 0.5) * 2.0                   # -1 .. 1
    quarter = rounded(turn * 2.0)                       # -2 .. 2
    r = turn - quarter * 0.5
    angle = r * math.pi
    rest = fma(r, constant_like(r, math.pi), negated(angle)) + r * _PI_LOW
    s, c = op("sin", angle), op("cos", angle)
    s, c = fma(c, rest, s), fma(negated(s), rest, c)
    swapped = equals(size_of(quarter), 1.0)
    half_turn = equals(size_of(quarter), 2.0)
    a, b = where(swapped, c, s), where(swapped, s, c)
    sine = where(half_turn | (quarter < 0.0) & swapped, negated(a), a)
    cosine = where(half_turn | (quarter > 0.0) & swapped, negated(b), b)
    # zeros: a whole number has the sine 0 of its own sign, a half the cosine +0
    return where(equals(sine, 0.0), with_sign(sine, x), sine), where(equals(cosine, 0.0), size_of(cosine), cosine)


# -- gamma ------------------------------------------------------------------------------------------------------------


_STIRLING_FROM = 12.0


def _gamma_of_small(z: tensor) -> tensor:
    """gamma(z), 0 < z < 12: (z - 1)(z - 2)...f * gamma(f), and 1 / gamma(1 + f) is a polynomial on 0 <= f < 1."""
    whole = op("floor", z)
    f = z - whole
    product, factor = constant_like(z, 1.0), z
    for _ in range(int(_STIRLING_FROM) - 1):
        factor = factor - 1.0
        product = where(factor >= 1.0, product * factor, product)
    value = product / polynomial(f, fitted.RECIPROCAL_GAMMA)
    return where(z < 1.0, value / z, value)


def _gamma_in_two(z: tensor) -> tuple[tensor, tensor]:
    """Two numbers whose product is gamma(z), z > 0; it may overflow, they do not below 300."""
    near = where(z < _STIRLING_FROM, z, 2.0)
    far = where(z < _STIRLING_FROM, _STIRLING_FROM, where(z < 300.0, z, 300.0))
    power = op("pow", far, far * 0.5 - 0.25)
    inverse = 1.0 / far
    series = fma(polynomial(inverse, fitted.STIRLING), inverse, constant_like(z, 1.0))
    large = power * op("exp", negated(far)) * (series * _ROOT_2_PI)
    small = z < _STIRLING_FROM
    return where(small, _gamma_of_small(near), large), where(small, 1.0, power)


def tgamma(x: tensor) -> tensor:
    """The gamma function; of negative x by reflection, -pi / (x sin(pi x) gamma(-x))."""
    size = size_of(x)
    one, other = _gamma_in_two(size)
    positive = one * other
    sine, _ = sine_and_cosine_of_pi(size)
    negative = math.pi / (sine * size) / one / other
    negative = where(equals(sine, 0.0), NAN, negated(negative))
    ends = where(equals(x, 0.0), with_sign(constant_like(x, INFINITY), x), where(has_sign(x), negative, positive))
    ends = where(equals(x, INFINITY), INFINITY, ends)
    near_pole = (size < 2.0**-60) & (size > 0.0)        # where x * sin(pi x) may underflow
    return where(is_nan(x), x, where(near_pole, 1.0 / x, ends))


def _log_gamma(x: tensor) -> tensor:
    """log gamma(x) of finite x > 0."""
    below = x < 1.0
    y = where(below, x + 1.0, x)
    near_1, near_2 = polynomial(y, fitted.LOG_GAMMA_1), polynomial(y, fitted.LOG_GAMMA_2)
    first = where(below, x, y - 1.0)
    second = where(below, x - 1.0, y - 2.0)
    small = first * second * where(y < 2.0, near_1, near_2)
    small = small - where(below, op("log", x), 0.0)
    middle = op("log", _gamma_of_small(where(x < 8.0, x, 2.0)))
    far = where(x < 8.0, 8.0, x)
    inverse = 1.0 / far
    tail = fma(polynomial(inverse * inverse, fitted.LOG_STIRLING), inverse,
               constant_like(x, 0.5 * math.log(2 * math.pi) - 0.5))
    large = fma(far - 0.5, op("log", far) - 1.0, tail)
    return where(x < 3.0, small, where(x < 8.0, middle, large))


def lgamma(x: tensor) -> tensor:
    """log |gamma(x)|; of negative x by reflection."""
    size = size_of(x)
    value = _log_gamma(where((size > 0.0) & (size < INFINITY), size, 1.0))
    sine, _ = sine_and_cosine_of_pi(size)
    sine = size_of(sine)
    pole = equals(sine, 0.0) | is_infinite(x)
    # pi / (x sin(pi x)) is 1 / x**2 near 0, so its logarithm is that of the quotient less log x
    reflected = op("log", math.pi / where(pole, 1.0, sine)) - op("log", where(size > 0.0, size, 1.0)) - value
    tiny = negated(op("log", where(size > 0.0, size, 1.0)))
    result = where(has_sign(x), where(pole, INFINITY, reflected), value)
    result = where(size < 2.0**-60, tiny, result)
    result = where(equals(size, 0.0) | is_infinite(x), INFINITY, result)
    return where(is_nan(x), x, result)


