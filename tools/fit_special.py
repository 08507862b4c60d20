"""Fit the polynomials of `tilewright/language/extra/coefficients.py` (needs mpmath; run by hand, some minutes).

Each is the interpolant at Chebyshev nodes in u in [-1, 1], u = (v - centre) * scale, written in powers of u and
rounded to float64.  Prints the module; errors go to stderr.  Usage: python tools/fit_special.py > ...coefficients.py
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import mpmath as mp

mp.mp.dps = 40
Real = Any

HEADER = '''\
"""Coefficients of the special functions: polynomials in u = (v - centre) * scale, -1 <= u <= 1, lowest power first.

What each stands for says tools/fit_special.py, which wrote this file (2026-11-30).
"""

from __future__ import annotations

from typing import NamedTuple


class Polynomial(NamedTuple):
    """A polynomial of (v - centre) * scale."""

    centre: float
    scale: float
    powers: tuple[float, ...]

'''


class Fit(NamedTuple):
    """`function(v)` on [low, high] by a polynomial of `degree`; errors are relative."""

    function: Callable[[Real], Real]
    low: Real
    high: Real
    degree: int


def chebyshev(function: Callable[[Real], Real], degree: int) -> list[Real]:
    """The interpolant's coefficients in powers of u."""
    count = degree + 1
    nodes = [mp.cos(mp.pi * (k + mp.mpf(1) / 2) / count) for k in range(count)]
    values = [function(u) for u in nodes]
    sums = [sum(y * mp.cos(j * mp.pi * (k + mp.mpf(1) / 2) / count) for k, y in enumerate(values)) * 2 / count
            for j in range(count)]
    sums[0] /= 2
    powers = [mp.mpf(0)] * count
    before, now = [mp.mpf(1)], [mp.mpf(0), mp.mpf(1)]
    for j, c in enumerate(sums):
        row = before if j == 0 else now
        for power, a in enumerate(row):
            powers[power] += c * a
        if j >= 1:
            after = [mp.mpf(0)] + [2 * a for a in now]
            for power, a in enumerate(before):
                after[power] -= a
            before, now = now, after
    return powers


def fitted(entry: Fit) -> tuple[float, float, list[float], Real]:
    """(centre, scale, powers, largest relative error)."""
    centre, half = (mp.mpf(entry.low) + entry.high) / 2, (mp.mpf(entry.high) - entry.low) / 2
    centre, scale = float(centre), float(1 / half)
    at = lambda u: entry.function(u / mp.mpf(scale) + mp.mpf(centre))  # noqa: E731
    powers = [float(a) for a in chebyshev(at, entry.degree)]
    grid = [mp.mpf(k) / 60 * (1 - mp.mpf("1e-9")) for k in range(-60, 61)]
    error = max(abs(mp.polyval(powers[::-1], u) / at(u) - 1) for u in grid)
    return centre, scale, powers, error


def limit(function: Callable[[Real], Real], at: Sequence[Real]) -> Callable[[Real], Real]:
    """`function`, moved off the points `at`, where it is 0/0."""
    def moved(v: Real) -> Real:
        near = [p for p in at if abs(v - p) < mp.mpf("1e-18")]
        return function(near[0] + mp.mpf("1e-18")) if near else function(v)

    return moved


def scaled_erfc(t: Real) -> Real:
    """(1 + 2x) erfcx(x), t = (x - 4) / (x + 4)."""
    if t > 1 - mp.mpf("1e-12"):
        return 2 / mp.sqrt(mp.pi)
    x = 4 * (1 + t) / (1 - t)
    if x > 50:      # the asymptotic series
        series = sum((-1) ** k * mp.fac2(2 * k - 1) / (2 * x * x) ** k for k in range(25))
        return (1 + 2 * x) / (x * mp.sqrt(mp.pi)) * series
    return (1 + 2 * x) * mp.exp(x * x) * mp.erfc(x)


def inverse_tail(t: Real) -> Real:
    """erfcinv(q) / s, s = sqrt(-log q), t = (s - 4) / (s + 4)."""
    s = 4 * (1 + t) / (1 - t)
    y = s if s < 1.2 else mp.sqrt(s * s - mp.log(s * mp.sqrt(mp.pi)))
    y = mp.mpf("0.5") if s < 1.2 else y
    for _ in range(60):
        step = (mp.log(mp.erfc(y)) + s * s) / (2 * mp.exp(-y * y) / mp.sqrt(mp.pi) / mp.erfc(y))
        y += step
        if abs(step) < mp.mpf("1e-30"):
            break
    return y / s


def inverse_centre(z: Real) -> Real:
    """erfinv(x) / x, z = x * x."""
    x = mp.sqrt(z)
    return mp.erfinv(x) / x


def stirling(w: Real) -> Real:
    """(gamma(x) / (sqrt(2 pi) x**(x - 1/2) exp(-x)) - 1) * x, w = 1 / x."""
    x = 1 / w
    return (mp.exp(mp.loggamma(x) - (x - mp.mpf(1) / 2) * mp.log(x) + x - mp.log(2 * mp.pi) / 2) - 1) * x


def log_stirling(z: Real) -> Real:
    """(log gamma(x) - (x - 1/2) log x + x - log(2 pi) / 2) * x, z = 1 / x**2."""
    x = 1 / mp.sqrt(z)
    return (mp.loggamma(x) - (x - mp.mpf(1) / 2) * mp.log(x) + x - mp.log(2 * mp.pi) / 2) * x


def log_gamma_rest(x: Real) -> Real:
    """log gamma(x) / ((x - 1) (x - 2))."""
    near = next((p for p in (1, 2) if abs(x - p) < mp.mpf("1e-18")), None)
    x = x if near is None else near + mp.mpf("1e-18")
    return mp.loggamma(x).real / ((x - 1) * (x - 2))


def without_zeros(function: Callable[[Real], Real], zeros: Sequence[Real]) -> Callable[[Real], Real]:
    def quotient(x: Real) -> Real:
        product = mp.mpf(1)
        for z in zeros:
            product *= x - z
        return function(x) / product

    return limit(quotient, zeros)


def small_j(order: int, zero: Real) -> Callable[[Real], Real]:
    """J(x) / (x**order (x**2 - zero**2)), as a function of x**2."""
    return limit(lambda v: mp.besselj(order, mp.sqrt(v)) / (mp.sqrt(v) ** order * (v - zero * zero)),
                 (mp.mpf(0), zero * zero))


def small_y(order: int) -> Callable[[Real], Real]:
    """(Y(x) - 2/pi (log(x) J(x) - [order 1] 1/x)) / x**order, as a function of x**2."""
    def rest(v: Real) -> Real:
        x = mp.sqrt(v)
        pole = 1 / x if order else 0
        return (mp.bessely(order, x) - 2 / mp.pi * (mp.log(x) * mp.besselj(order, x) - pole)) / x**order

    return limit(rest, (mp.mpf(0),))


def amplitude(order: int, sine: bool) -> Callable[[Real], Real]:
    """P, or x Q, of Hankel's expansion (DLMF 10.17), as functions of w = (8 / x)**2."""
    def part(w: Real) -> Real:
        x = 8 / mp.sqrt(w)
        chi = x - mp.pi / 4 - order * mp.pi / 2
        j, y = mp.besselj(order, x), mp.bessely(order, x)
        root = mp.sqrt(mp.pi * x / 2)
        return x * root * (y * mp.cos(chi) - j * mp.sin(chi)) if sine else root * (j * mp.cos(chi) + y * mp.sin(chi))

    return limit(part, ())


def large_i(order: int) -> Callable[[Real], Real]:
    """sqrt(x) exp(-x) I(x), as a function of 8 / x."""
    return lambda w: mp.sqrt(8 / w) * mp.exp(-8 / w) * mp.besseli(order, 8 / w)


J0, J1 = ([mp.besseljzero(n, k) for k in (1, 2)] for n in (0, 1))
Y0, Y1 = [mp.besselyzero(0, k) for k in (1, 2, 3)], [mp.besselyzero(1, k) for k in (1, 2)]
TINY = mp.mpf("1e-6")


def table() -> dict[str, Fit]:
    """All polynomials by name."""
    fits = {
        "ERFCX": Fit(scaled_erfc, -1, 1, 24),
        "ERFINV": Fit(limit(inverse_centre, (mp.mpf(0),)), 0, mp.mpf("0.25"), 14),
        "ERFCINV": Fit(inverse_tail, mp.mpf("-0.66"), mp.mpf("0.745"), 14),
        "RECIPROCAL_GAMMA": Fit(lambda f: 1 / mp.gamma(1 + f), 0, 1, 17),
        "STIRLING": Fit(stirling, mp.mpf(1) / 180, mp.mpf(1) / 12, 9),
        "LOG_STIRLING": Fit(log_stirling, TINY, mp.mpf(1) / 64, 8),
        "LOG_GAMMA_1": Fit(log_gamma_rest, 1, 2, 22),
        "LOG_GAMMA_2": Fit(log_gamma_rest, 2, 3, 17),
        "J0_4": Fit(small_j(0, J0[0]), 0, 16, 14), "J1_4": Fit(small_j(1, J1[0]), 0, 16, 14),
        "J0_8": Fit(without_zeros(lambda x: mp.besselj(0, x), J0[1:]), 4, 8, 20),
        "J1_8": Fit(without_zeros(lambda x: mp.besselj(1, x), J1), 4, 8, 20),
        "Y0_0": Fit(small_y(0), 0, mp.mpf("0.25"), 7), "Y1_0": Fit(small_y(1), 0, mp.mpf("0.25"), 7),
    }
    for name, order, zeros in (("Y0", 0, (Y0[:1], Y0[:1], Y0[1:2], Y0[1:])), ("Y1", 1, ([], Y1[:1], Y1[:1], Y1[1:]))):
        for (low, high), inside in zip(((0.5, 1), (1, 2), (2, 4), (4, 8)), zeros, strict=True):
            value = lambda x, order=order: mp.bessely(order, x)  # noqa: E731
            fits[f"{name}_{high}"] = Fit(without_zeros(value, inside), mp.mpf(low), mp.mpf(high), 22)
    for order in (0, 1):
        fits[f"P{order}"] = Fit(amplitude(order, False), TINY, 1, 18)
        fits[f"Q{order}"] = Fit(amplitude(order, True), TINY, 1, 18)
        fits[f"I{order}"] = Fit(large_i(order), mp.mpf("0.005"), 1, 26)
    return fits


def wrapped(numbers: Sequence[float]) -> str:
    """The numbers of a tuple in lines of at most 120 characters."""
    lines, line = [], "   "
    for text in (f" {a!r}," for a in numbers):
        if len(line) + len(text) > 116:
            lines.append(line)
            line = "   "
        line += text
    return "\n".join([*lines, line])


def zero_pairs() -> str:
    """The zeros as sums of two doubles."""
    rows = []
    for name, zeros in (("J0_ZEROS", J0), ("J1_ZEROS", J1), ("Y0_ZEROS", Y0), ("Y1_ZEROS", Y1)):
        pairs = "".join(f"    ({float(z)!r}, {float(z - mp.mpf(float(z)))!r}),\n" for z in zeros)
        rows.append(f"{name} = (\n{pairs})")
    return "\n".join(rows)


if __name__ == "__main__":
    print(HEADER)
    for name, entry in table().items():
        centre, scale, powers, error = fitted(entry)
        print(f"{name}: relative error {mp.nstr(error, 3)}", file=sys.stderr, flush=True)
        print(f"{name} = Polynomial({centre!r}, {scale!r}, (\n{wrapped(powers)}\n))")
    print("\n# zeros, each as the sum of two numbers\n" + zero_pairs())
