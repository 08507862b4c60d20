"""Elementary and special functions to 250 bits (mpmath), and the arguments at which engines are measured.

`EXACT[name]` takes Python floats and gives the exact value: a Fraction, or a float that is infinite, NaN or a zero with
its sign.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Callable, Mapping
from fractions import Fraction
from statistics import NormalDist

import mpmath
import numpy as np

from tests.conform.expected import elementary

MP = mpmath.mp.clone()
MP.prec = 250
INF, NAN = math.inf, math.nan
FORMAT = {np.float32: "f32", np.float64: "f64"}
# Where a function does something: both ends of an interval for most of its arguments.
INTERVALS = {
    "exp": (-104, 89), "exp2": (-150, 128), "exp10": (-46, 39), "expm1": (-20, 89), "sin": (-1000, 1000),
    "cos": (-1000, 1000), "tan": (-1000, 1000), "tanh": (-10, 10), "erf": (-4, 4), "asin": (-1, 1), "acos": (-1, 1),
    "atan": (-9, 9), "sinh": (-89, 89), "cosh": (-89, 89), "asinh": (-9, 9), "acosh": (1, 9), "atanh": (-1, 1),
    "log": (0, 4), "log2": (0, 4), "log10": (0, 4), "log1p": (-1, 3), "cbrt": (-9, 9), "rsqrt": (0, 4), "sqrt": (0, 4),
    "sigmoid": (-87, 20), "rcbrt": (-9, 9), "sinpi": (-9, 9), "cospi": (-9, 9), "erfc": (-5, 10), "erfcx": (-9, 30),
    "erfinv": (-1, 1), "erfcinv": (0, 2), "normcdf": (-13, 6), "normcdfinv": (0, 1), "tgamma": (-34, 36),
    "lgamma": (-20, 40), "j0": (-8, 8), "j1": (-8, 8), "y0": (0, 8), "y1": (0, 8), "cyl_bessel_i0": (-88, 88),
    "cyl_bessel_i1": (-88, 88),
}
IN_DOUBLE = {"exp": (-746, 710), "exp2": (-1076, 1025), "exp10": (-324, 309), "expm1": (-40, 710), "sinh": (-711, 711),
             "cosh": (-711, 711), "erf": (-6, 6), "sigmoid": (-708, 40), "erfc": (-6, 27), "normcdf": (-38, 9),
             "tgamma": (-170, 172), "cyl_bessel_i0": (-700, 700), "cyl_bessel_i1": (-700, 700)}
PERIODIC = frozenset({"sin", "cos", "tan", "j0", "j1", "y0", "y1"})
HUGE = 2.0**20          # beyond, these have no bound


def fraction(y: mpmath.mpf) -> Fraction | float:
    """A number of mpmath as a fraction; beyond every format it is as good as 2**5000 or 2**-5000."""
    if not mpmath.isfinite(y):
        return float(y)
    sign, mantissa, exponent, bits = y._mpf_
    if abs(exponent + bits) > 5000:
        mantissa, exponent = 1, 5000 if exponent > 0 else -5000
    return (-1 if sign else 1) * Fraction(int(mantissa)) * Fraction(2) ** exponent


def on(function: Callable, special: Callable[..., object] = lambda *x: None) -> Callable:
    """`function` of mpmath on floats; `special` gives values at points where it is no number, None elsewhere."""
    def apply(*operands: float) -> Fraction | float:
        found = NAN if len(operands) == 1 and math.isnan(operands[0]) else special(*operands)
        return fraction(function(*map(MP.mpf, operands))) if found is None else found

    return apply


def at(**values: object) -> Callable[[float], object]:
    """Special values by the names `zero` (with x's sign if it is "odd"), `inf`, `minus` (of -inf), `below` 0."""
    def special(x: float) -> object:
        key = "zero" if x == 0 else "inf" if x == INF else "minus" if x == -INF else "below" if x < 0 else ""
        found = values.get(key)
        return math.copysign(abs(x) if key == "zero" else INF, x) if found == "odd" else (
            math.copysign(INF, x) if found == "pole" else found)

    return special


def root_of(function: Callable, derivative: Callable, start: float) -> mpmath.mpf:
    """A zero close to `start`, which is right to some 40 bits, by Newton's method."""
    y = MP.mpf(start)
    for _ in range(4):
        y -= function(y) / derivative(y)
    return y


def erfc_inverse(q: mpmath.mpf) -> mpmath.mpf:
    if q > 1:
        return -erfc_inverse(2 - q)
    start = -NormalDist().inv_cdf(float(q) / 2) / math.sqrt(2) if q > 1e-300 else math.sqrt(-math.log(q))
    return root_of(lambda y: MP.log(MP.erfc(y) / q), lambda y: -2 * MP.exp(-y * y) / MP.sqrt(MP.pi) / MP.erfc(y), start)


def erf_inverse(p: mpmath.mpf) -> mpmath.mpf:
    """erf(y) = p, without loss for small p."""
    if abs(p) > 0.5:
        return MP.sign(p) * erfc_inverse(1 - abs(p))
    return root_of(lambda y: MP.erf(y) - p, lambda y: 2 * MP.exp(-y * y) / MP.sqrt(MP.pi), float(p) * 0.886)


def scaled_erfc(x: mpmath.mpf) -> mpmath.mpf:
    return MP.exp(x * x) * MP.erfc(x) if x < 1e8 else (1 - 1 / (2 * x * x)) / (x * MP.sqrt(MP.pi))


def log_gamma(x: float) -> object:
    return INF if math.isinf(x) or (x <= 0 and x == math.floor(x)) else Fraction(0) if x in (1, 2) else None


def length(*x: float) -> object:
    return INF if any(map(math.isinf, x)) else NAN if any(map(math.isnan, x)) else 0.0 if not any(x) else None


def reciprocal(value: object) -> object:
    return {INF: 0.0, 0.0: INF}.get(value, value) if isinstance(value, float) else value


def norm(*x: mpmath.mpf) -> mpmath.mpf:
    return MP.sqrt(sum(v * v for v in x))


def within(low: float, high: float, at_low: float, at_high: float) -> Callable[[float], object]:
    """Inverse functions: NaN outside of [low, high], and these values at its ends."""
    return lambda x: (at_low if x == low else at_high if x == high else NAN if not low <= x <= high else None)


EXACT: Mapping[str, Callable[..., Fraction | float]] = {
    **elementary(),
    "sqrt": on(MP.sqrt, at(zero="odd", inf=INF, minus=NAN, below=NAN)),
    "sigmoid": on(lambda x: 1 / (1 + MP.exp(-x)) if abs(x) < 2000 else MP.mpf(2) ** (0 if x > 0 else -5000),
                  at(inf=Fraction(1), minus=0.0)),
    "rcbrt": on(lambda x: MP.sign(x) / MP.cbrt(abs(x)), at(zero="pole", inf=0.0, minus=-0.0)),
    "sinpi": on(MP.sinpi, lambda x: NAN if math.isinf(x) else x if x == 0 else Fraction(0) if x == int(x) else None),
    "cospi": on(MP.cospi, lambda x: NAN if math.isinf(x) else None),
    "erfc": on(lambda x: MP.erfc(x) if x < 100 else MP.mpf(2) ** -5000, at(inf=0.0, minus=Fraction(2))),
    "erfcx": on(lambda x: scaled_erfc(x) if x > -100 else MP.mpf(2) ** 5000, at(inf=0.0, minus=INF)),
    "erfinv": on(erf_inverse, lambda x: x if x == 0 else within(-1, 1, -INF, INF)(x)),
    "erfcinv": on(erfc_inverse, lambda x: INF if x == 0 else Fraction(0) if x == 1 else within(0, 2, INF, -INF)(x)),
    "normcdf": on(lambda x: MP.erfc(-x / MP.sqrt(2)) / 2 if x > -150 else MP.mpf(2) ** -5000,
                  at(inf=Fraction(1), minus=0.0)),
    "normcdfinv": on(lambda p: -erfc_inverse(2 * p) * MP.sqrt(2),
                     lambda p: Fraction(0) if p == 0.5 else within(0, 1, -INF, INF)(p)),
    "tgamma": on(lambda x: MP.mpf(2) ** 5000 if x > 200 else MP.mpf(2) ** -5000 if x < -200 else MP.gamma(x),
                 lambda x: math.copysign(INF, x) if x == 0 else INF if x == INF else
                 NAN if x < 0 and (x == -INF or x == math.floor(x)) else None),
    "lgamma": on(lambda x: MP.loggamma(x).real if x > 0 else MP.log(abs(MP.pi / MP.sinpi(x))) - MP.loggamma(1 - x).real,
                 log_gamma),
    "j0": on(lambda x: MP.besselj(0, x), lambda x: Fraction(0) if math.isinf(x) else None),
    "j1": on(lambda x: MP.besselj(1, x), lambda x: x if x == 0 else Fraction(0) if math.isinf(x) else None),
    "y0": on(lambda x: MP.bessely(0, x), at(zero=-INF, inf=Fraction(0), minus=NAN, below=NAN)),
    "y1": on(lambda x: MP.bessely(1, x), at(zero=-INF, inf=Fraction(0), minus=NAN, below=NAN)),
    "cyl_bessel_i0": on(lambda x: MP.besseli(0, x) if abs(x) < 1000 else MP.mpf(2) ** 5000,
                        lambda x: INF if math.isinf(x) else None),
    "cyl_bessel_i1": on(lambda x: MP.besseli(1, x) if abs(x) < 1000 else MP.sign(x) * MP.mpf(2) ** 5000,
                        at(zero="odd", inf="odd", minus="odd")),
    "norm3d": on(norm, length), "norm4d": on(norm, length),
    "rnorm3d": on(lambda *x: 1 / norm(*x), lambda *x: reciprocal(length(*x))),
    "rnorm4d": on(lambda *x: 1 / norm(*x), lambda *x: reciprocal(length(*x))),
    "rhypot": on(lambda *x: 1 / norm(*x), lambda *x: reciprocal(length(*x))),
}
OPERANDS = {"pow": 2, "atan2": 2, "hypot": 2, "rhypot": 2, "norm3d": 3, "rnorm3d": 3, "norm4d": 4, "rnorm4d": 4}


def arguments(name: str, dtype: type, count: int) -> list[np.ndarray]:
    """Some `count` arguments: special ones, all exponents, the interval of the function, and results near ties."""
    rng = np.random.default_rng(zlib.crc32(f"{name} {FORMAT[dtype]}".encode()))
    operands = OPERANDS.get(name, 1)
    if operands > 1:
        return _lists_of_arguments(rng, operands, dtype, count)
    low, high = INTERVALS[name] if dtype is np.float32 else IN_DOUBLE.get(name, INTERVALS[name])
    every = _of_every_size(rng, dtype, count // 4)
    inside = rng.uniform(low, high, 20 * count).astype(dtype)
    small = (rng.uniform(-1, 1, count // 8) * 2.0 ** -rng.integers(0, 30, count // 8)).astype(dtype)
    x = np.concatenate([special(dtype), every, inside[:count // 3], small, near_ties(name, inside, count // 4)])
    return [np.where((np.abs(x) > HUGE) & np.isfinite(x), dtype(0.75), x) if name in PERIODIC else x]


def special(dtype: type) -> np.ndarray:
    """Zeros, ones, ends of the format, and their neighbours."""
    ends = np.finfo(dtype)
    plain = np.array([0, ends.smallest_subnormal, ends.tiny - ends.smallest_subnormal, ends.tiny, 0.5, 1,
                      np.nextafter(dtype(1), dtype(0)), np.nextafter(dtype(1), dtype(2)), 2, 3, 1.5, 100, 2.0**24 - 1,
                      2.0**24 + 2, ends.max, np.inf], dtype)
    return np.concatenate([plain, -plain, np.array([np.nan], dtype)])


def _of_every_size(rng: np.random.Generator, dtype: type, count: int) -> np.ndarray:
    """Random bits: every exponent, denormals among them; no NaN."""
    size = np.dtype(dtype).itemsize
    x = rng.integers(0, 256, count * size, dtype=np.uint8).view(dtype)
    small = (rng.integers(1, 1 << 20, count // 8) * np.finfo(dtype).smallest_subnormal).astype(dtype)
    return np.concatenate([x[np.isfinite(x)], small, -small])


def near_ties(name: str, x: np.ndarray, count: int) -> np.ndarray:
    """Those of `x` whose results lie closest to the middle of two numbers, by the next wider format of NumPy."""
    function = {"rsqrt": lambda v: 1 / np.sqrt(v), "exp10": lambda v: np.power(v.dtype.type(10), v)}.get(
        name, getattr(np, {"asin": "arcsin", "acos": "arccos", "atan": "arctan", "asinh": "arcsinh",
                           "acosh": "arccosh", "atanh": "arctanh"}.get(name, name), None))
    if function is None:
        return x[:count]
    wide = np.float64 if x.dtype == np.float32 else np.longdouble
    with np.errstate(all="ignore"):
        value = function(x.astype(wide))
        unit = np.spacing(np.abs(value.astype(x.dtype))).astype(wide)
        part = np.abs(value) / unit
        apart = np.abs(part - np.floor(part) - wide(0.5))
    return x[np.argsort(np.where(np.isnan(apart), 1, apart), kind="stable")[:count]]


def _lists_of_arguments(rng: np.random.Generator, operands: int, dtype: type, count: int) -> list[np.ndarray]:
    ends = special(dtype)
    pairs = rng.integers(0, len(ends), (operands, count // 4))
    few, others = count // 8, range(operands - 1)
    whole = [rng.uniform(0.1, 9, few), *(rng.integers(-30, 30, few) for _ in others)]
    close = [1 + rng.uniform(-1, 1, few) * 2.0 ** -rng.integers(1, 22, few),
             *(rng.uniform(-1, 1, few) * 2.0 ** rng.integers(1, 12, few) for _ in others)]
    sizes = [_of_every_size(rng, dtype, count // 2)[:count // 4] for _ in range(operands)]
    inside = rng.uniform(-9, 9, (operands, count // 3))
    parts = [[ends[p] for p in pairs], sizes, list(inside), whole, close]
    return [np.concatenate([np.asarray(part[i], dtype)[:min(map(len, part))] for part in parts])
            for i in range(operands)]
