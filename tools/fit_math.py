"""Fit the polynomials of `tilewright/targets/llvm/mathlib` (needs mpmath; run by hand, a minute).

For each entry: least squares on the weighted error at Chebyshev nodes; the coefficients are rounded to the working
format from the lowest power up, the higher ones being fitted again after each rounding.  Prints the coefficients,
lowest power first, and the largest weighted error before and after.  Usage: python tools/fit_math.py [name ...]
"""

from __future__ import annotations

import struct
import sys
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import mpmath as mp

mp.mp.dps = 100
Real = Any


class Fit(NamedTuple):
    """`function(u)` is approximated by a polynomial of `degree` in u on [low, high], error times `weight(u)`."""

    function: Callable[[Real], Real]
    weight: Callable[[Real], Real]
    low: Real
    high: Real
    degree: int
    format: str


def least_squares(entry: Fit, fixed: Sequence[Real]) -> list[Real]:
    """Coefficients from power len(fixed) on, the lower ones being `fixed`, by weighted least squares.

    Nodes are Chebyshev's, so the largest error is near the least possible one (within a small factor).
    """
    powers = range(len(fixed), entry.degree + 1)
    count = 6 * (entry.degree + 2)
    rows, values = [], []
    for k in range(count):
        x = (entry.low + entry.high) / 2 - (entry.high - entry.low) / 2 * mp.cos(mp.pi * (k + mp.mpf(1) / 2) / count)
        w = entry.weight(x)
        rows.append([w * x**p for p in powers])
        values.append(w * (entry.function(x) - sum(a * x**p for p, a in enumerate(fixed))))
    matrix, target = mp.matrix(rows), mp.matrix(values)
    return list(mp.lu_solve(matrix.T * matrix, matrix.T * target))


def rounded(x: Real, form: str) -> Real:
    """`x` rounded to float (f32) or double (f64)."""
    return mp.mpf(struct.unpack("f", struct.pack("f", float(x)))[0]) if form == "f32" else mp.mpf(float(x))


def largest_error(entry: Fit, coefficients: Sequence[Real]) -> Real:
    grid = [entry.low + (entry.high - entry.low) * k / 1000 for k in range(1001)]
    return max(abs(entry.weight(x) * (sum(a * x**p for p, a in enumerate(coefficients)) - entry.function(x)))
               for x in grid)


def fit(entry: Fit) -> tuple[list[Real], Real, Real]:
    """(rounded coefficients, error before rounding, error after)."""
    done: list[Real] = []
    before = largest_error(entry, least_squares(entry, done))
    while len(done) <= entry.degree:
        done.append(rounded(least_squares(entry, done)[0], entry.format))
    return done, before, largest_error(entry, done)


def by_series(closed: Callable[[Real], Real], at_zero: Real) -> Callable[[Real], Real]:
    """`closed`, with its limit where it is 0/0."""
    return lambda u: at_zero if abs(u) < mp.mpf("1e-30") else closed(u)


def atanh_tail(z: Real) -> Real:
    """(log((1+s)/(1-s))/s - 2) / s**2 with s**2 = z."""
    s = mp.sqrt(z)
    return (mp.log((1 + s) / (1 - s)) / s - 2) / z


def asin_rest(z: Real) -> Real:
    """(asin(s)/s - 1) / s**2 with s**2 = z."""
    return odd(mp.asin, 1)(z)


def log_tail(z: Real) -> Real:
    """(log((1+s)/(1-s))/(2*s) - 1 - z/3) / z**2 with s**2 = z."""
    s = mp.sqrt(z)
    return (mp.atanh(s) / s - 1 - z / 3) / z**2


def log2_tail(z: Real) -> Real:
    """(log2((1+s)/(1-s))/s - 2/log(2)) / s**2 with s**2 = z."""
    return atanh_tail(z) / LN2


def odd(function: Callable[[Real], Real], lead: int) -> Callable[[Real], Real]:
    """(f(x) - lead*x) / x**3 as a function of x**2."""
    return lambda z: (function(mp.sqrt(z)) - lead * mp.sqrt(z)) / mp.sqrt(z) ** 3


LN2 = mp.log(2)
HALF_LN2 = LN2 / 2 * mp.mpf("1.0001")
HALF = mp.mpf("0.50001")
LOW_F, HIGH_F = 1 / mp.sqrt(2) - 1 - mp.mpf("1e-4"), mp.sqrt(2) - 1 + mp.mpf("1e-4")
QUARTER_PI_2 = (mp.pi / 4 * mp.mpf("1.001")) ** 2
ATANH_Z = ((mp.sqrt(2) - 1) / (mp.sqrt(2) + 1)) ** 2 * mp.mpf("1.001")


def erf_piece(centre: Real) -> Fit:
    """erf(a)/a, an even function, on an eighth to either side of `centre`."""
    ratio = by_series(lambda a: mp.erf(a) / a, 2 / mp.sqrt(mp.pi))
    width = mp.mpf("0.12501")
    return Fit(lambda t: ratio(abs(centre + t)), lambda t: 1 / ratio(centre), -width, width, 5, "f32")


def table() -> dict[str, Fit]:
    fits: dict[str, Fit] = {}
    exp_rest = by_series(lambda r: (mp.exp(r) - 1 - r) / r**2, mp.mpf(1) / 2)
    exp2_rest = by_series(lambda r: (mp.power(2, r) - 1 - r * LN2) / r**2, LN2**2 / 2)
    log_rest = by_series(lambda f: (mp.log(1 + f) - f + f * f / 2) / f**3, mp.mpf(1) / 3)
    cos_rest = by_series(lambda z: (mp.cos(mp.sqrt(z)) - 1 + z / 2) / z**2, mp.mpf(1) / 24)
    sin_rest = by_series(odd(mp.sin, 1), -mp.mpf(1) / 6)
    erf_rest = by_series(lambda z: mp.erf(mp.sqrt(z)) / mp.sqrt(z) - 1, 2 / mp.sqrt(mp.pi) - 1)
    tanh_rest = by_series(odd(mp.tanh, 1), -mp.mpf(1) / 3)
    for form, e, e2, lg, s, c, k, th, lt, top in (
            ("f32", 4, 4, 8, 2, 2, 6, 4, 0, mp.mpf("3.94")), ("f64", 9, 9, 0, 5, 5, 12, 10, 18, mp.mpf("5.94"))):
        fits[f"tanh_{form}"] = Fit(tanh_rest, lambda z: z, mp.mpf(0), mp.mpf("0.5625") ** 2, th, form)
        fits[f"exp_{form}"] = Fit(exp_rest, lambda r: r**2, -HALF_LN2, HALF_LN2, e, form)
        fits[f"exp2_{form}"] = Fit(exp2_rest, lambda r: r**2, -HALF, HALF, e2, form)
        if lg:
            fits[f"log_{form}"] = Fit(log_rest, lambda f: f**2, LOW_F, HIGH_F, lg, form)
        fits[f"sin_{form}"] = Fit(sin_rest, lambda z: z, mp.mpf(0), QUARTER_PI_2, s, form)
        fits[f"cos_{form}"] = Fit(cos_rest, lambda z: z**2, mp.mpf(0), QUARTER_PI_2, c, form)
        fits[f"erf_{form}"] = Fit(erf_rest, lambda z: mp.mpf(1), mp.mpf(0), mp.mpf(1), k, form)
        if lt:
            fits[f"log_erfc_{form}"] = Fit(lambda u: mp.log(mp.erfc(1 + u)), lambda u: mp.erfc(1 + u), mp.mpf(0),
                                           top - 1, lt, form)
    fits["log2_erfc_f32"] = Fit(lambda u: mp.log(mp.erfc(1 + u), 2), lambda u: mp.erfc(1 + u), mp.mpf(0),
                                mp.mpf("2.94"), 6, "f32")
    fits["exp2_short_f32"] = Fit(by_series(lambda r: (mp.power(2, r) - 1) / r, LN2), lambda r: r, -HALF, HALF, 4, "f32")
    width = mp.mpf("1.001") / 32            # half of a sixteenth, and what rounding adds
    fits["exp_parts_f32"] = Fit(exp_rest, lambda r: r**2, -width * LN2, width * LN2, 1, "f32")
    fits["exp2_parts_f32"] = Fit(by_series(lambda r: (mp.power(2, r) - 1) / r, LN2), lambda r: r, -width, width, 2,
                                 "f32")
    fits["atanh_f64"] = Fit(by_series(atanh_tail, mp.mpf(2) / 3), lambda z: z, mp.mpf(0), ATANH_Z, 6,
                            "f64")
    quarter, eighth = mp.mpf("0.2501"), (mp.sqrt(2) - 1) ** 2 * mp.mpf("1.001")
    fits["asin_f64"] = Fit(by_series(asin_rest, mp.mpf(1) / 6), lambda z: z, mp.mpf(0), quarter, 12, "f64")
    fits["atan_f64"] = Fit(by_series(odd(mp.atan, 1), -mp.mpf(1) / 3), lambda z: z, mp.mpf(0), eighth, 10, "f64")
    for k in range(16):
        fits[f"erf_piece_{k}"] = erf_piece(mp.mpf(k) / 4)
    fits["asin_f32"] = Fit(by_series(asin_rest, mp.mpf(1) / 6), lambda z: z, mp.mpf(0), quarter, 4, "f32")
    fits["atan_f32"] = Fit(by_series(odd(mp.atan, 1), -mp.mpf(1) / 3), lambda z: z, mp.mpf(0), mp.mpf("1.0001"), 8,
                           "f32")
    # 2/pi as a float makes remainders of angles up to 2**20 this much larger
    farthest = mp.pi / 4 + abs(rounded(2 / mp.pi, "f32") - 2 / mp.pi) * 2**20 * mp.pi / 2 + mp.mpf("1e-3")
    fits["tan_f32"] = Fit(by_series(odd(mp.tan, 1), mp.mpf(1) / 3), lambda z: z, mp.mpf(0), farthest**2, 6, "f32")
    fits["sinh_f32"] = Fit(by_series(odd(mp.sinh, 1), mp.mpf(1) / 6), lambda z: z, mp.mpf(0), HALF_LN2**2, 2, "f32")
    fits["cosh_f32"] = Fit(by_series(lambda z: (mp.cosh(mp.sqrt(z)) - 1) / z, mp.mpf(1) / 2), lambda z: z, mp.mpf(0),
                           HALF_LN2**2, 2, "f32")
    exp10_width = HALF / mp.log(10, 2)
    fits["exp10_f32"] = Fit(by_series(lambda r: (mp.power(10, r) - 1 - r * mp.log(10)) / r**2, mp.log(10) ** 2 / 2),
                            lambda r: r**2, -exp10_width, exp10_width, 4, "f32")
    fits["log2_tail_f32"] = Fit(by_series(log2_tail, 2 / (3 * LN2)), lambda z: z, mp.mpf(0), ATANH_Z, 3, "f32")
    fits["log_tail_f64"] = Fit(by_series(log_tail, mp.mpf(1) / 5), lambda z: z**2, mp.mpf(0), ATANH_Z, 6, "f64")
    return fits


# Constants that are written as sums of floats, each as near to what is left as a float can be.
SUMS: dict[str, tuple[Real, int]] = {
    "two_over_ln2": (2 / LN2, 2), "ln_10": (mp.log(10), 2), "log10_2": (mp.log(2, 10), 2), "pi": (mp.pi, 2),
    "half_pi": (mp.pi / 2, 2), "log2_10": (mp.log(10, 2), 1), "ln_2": (LN2, 2), "log10_e": (1 / mp.log(10), 2),
}


def cube_root_start() -> int:
    """The c for which r with the bits 256 * (c - bits(x) / 768) is nearest to x**(-1/3): 1 - x*r**3 is least."""
    def from_bits(bits: int) -> float:
        return float(struct.unpack("f", struct.pack("I", bits))[0])

    places = [0x3F800000 + 0x1800000 * k // 500 for k in range(501)]      # from 1 to 8

    def worst(c: int) -> float:
        return max(abs(1 - from_bits(b) * from_bits(256 * round(c - b / 768)) ** 3) for b in places)

    return min(range(5540000, 5554000, 50), key=worst)


def two_over_pi(bits: int) -> list[str]:
    """So many bits of 2/pi after the point, in words of 32."""
    with mp.workprec(bits + 100):
        whole = int(mp.floor(2 / mp.pi * mp.mpf(2) ** bits))
    return [f"0x{whole >> at & 0xFFFFFFFF:08X}" for at in range(bits - 32, -1, -32)]


def floats(value: Real, count: int) -> list[float]:
    """`value` as a sum of `count` floats, the largest first."""
    found: list[float] = []
    for _ in range(count):
        found.append(float(rounded(value - sum(found), "f32")))
    return found


OTHERS: dict[str, Callable[[], Any]] = {"cube_root_start": cube_root_start, "two_over_pi": lambda: two_over_pi(224)}


def main(names: Sequence[str]) -> None:
    fits = table()
    for name in names or (*fits, *SUMS, *OTHERS):
        if name in SUMS or name in OTHERS:
            print(f"{name}: {floats(*SUMS[name]) if name in SUMS else OTHERS[name]()}")
            continue
        coefficients, before, final = fit(fits[name])
        print(f"{name}: error {mp.nstr(before, 3)} before rounding, {mp.nstr(final, 3)} after "
              f"(2**{mp.nstr(mp.log(final, 2), 4)})")
        for a in coefficients:
            print(f"    {float(a)!r},")


if __name__ == "__main__":
    main(sys.argv[1:])
