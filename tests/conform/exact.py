"""Exact arithmetic, an element at a time: what every row should give, stated again without NumPy.

Integers are Python integers, floats are Python floats or Fractions, one rounding is done by `nearest` in integers.
Nothing here is shared with the rows' own meanings.
"""

from __future__ import annotations

import math
from fractions import Fraction

# significant bits, exponent of the smallest normal, largest finite value, saturates (no infinity results)
FORMATS = {
    "f64": (53, -1022, Fraction(2**53 - 1) * 2**971, False),
    "f32": (24, -126, Fraction(2**24 - 1) * 2**104, False),
    "f16": (11, -14, Fraction(65504), False),
    "bf16": (8, -126, Fraction(255) * 2**120, False),
    "f8e5m2": (3, -14, Fraction(57344), True),
    "f8e4m3": (4, -6, Fraction(448), True),
    "f8e4m3fnuz": (4, -7, Fraction(240), True),
    "f8e5m2fnuz": (3, -15, Fraction(57344), True),
    "f8e4m3b15": (4, -14, Fraction(15, 8), True),
}


def floor_log2(x: Fraction) -> int:
    """The largest e with 2**e <= x, for x > 0."""
    e = x.numerator.bit_length() - x.denominator.bit_length()
    return e if Fraction(2) ** e <= x else e - 1


def unit(x: Fraction, name: str) -> Fraction:
    """One unit in the last place of the format around |x|."""
    bits, smallest, _, _ = FORMATS[name]
    exponent = smallest if x == 0 else max(floor_log2(abs(x)), smallest)
    return Fraction(2) ** (exponent - bits + 1)


def nearest(x, name: str, toward_zero: bool = False, negative: bool = False) -> float:
    """`x` (Fraction, or a float that may be inf, nan or a signed zero) rounded to the format, as a float.

    `negative` is the sign that an exact zero of type Fraction gets.
    """
    largest = FORMATS[name][2]
    rounded = _nearest(x, name, toward_zero, negative)
    if name.endswith("fnuz") and rounded == 0:
        return 0.0
    return float(largest) if name == "f8e4m3b15" and math.isnan(rounded) else rounded


def _nearest(x, name, toward_zero, negative):
    _, _, largest, saturates = FORMATS[name]
    if isinstance(x, float):
        if math.isnan(x) or x == 0 or (math.isinf(x) and not saturates):
            return x
        if math.isinf(x):
            return math.copysign(float(largest), x)
        x = Fraction(x)
    sign = -1.0 if x < 0 or (x == 0 and negative) else 1.0
    quantum = unit(x, name)
    whole, rest = divmod(abs(x) / quantum, 1)
    if not toward_zero and (rest > Fraction(1, 2) or (rest == Fraction(1, 2) and whole % 2)):
        whole += 1
    rounded = whole * quantum
    if rounded > largest:
        return sign * (float(largest) if saturates or toward_zero else math.inf)
    return sign * float(rounded)


def wrap(x: int, bits: int) -> int:
    """An integer in the signed range of so many bits."""
    return (x + (1 << (bits - 1))) % (1 << bits) - (1 << (bits - 1))


def unsigned(x: int, bits: int) -> int:
    return x % (1 << bits)


def truncated_division(a: int, b: int) -> tuple[int, int]:
    """Quotient toward zero, remainder with the sign of the dividend."""
    q = abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)
    return q, a - q * b


def exact_sum(x: float, y: float):
    """x + y as a Fraction, or as a float where that says it all (not finite, or zero with its sign)."""
    if math.isfinite(x) and math.isfinite(y) and Fraction(x) + Fraction(y) != 0:
        return Fraction(x) + Fraction(y)
    return x + y


def exact_product(x: float, y: float):
    if math.isfinite(x) and math.isfinite(y) and x and y:
        return Fraction(x) * Fraction(y)
    return x * y


def exact_quotient(x: float, y: float):
    if math.isfinite(x) and math.isfinite(y) and x and y:
        return Fraction(x) / Fraction(y)
    if math.isnan(x) or math.isnan(y):
        return math.nan
    sign = math.copysign(1.0, x) * math.copysign(1.0, y)
    if y == 0 or math.isinf(x):
        return math.nan if (x == 0 and y == 0) or (math.isinf(x) and math.isinf(y)) else sign * math.inf
    return sign * 0.0


def exact_fma(x: float, y: float, z: float):
    if math.isfinite(x) and math.isfinite(y):
        if not math.isfinite(z):
            return z
        total = Fraction(x) * Fraction(y) + Fraction(z)
        if total != 0:
            return total
        negative = math.copysign(1.0, x) * math.copysign(1.0, y) < 0
        product_zero = -0.0 if negative else 0.0
        return product_zero + z if z == 0 else 0.0
    return x * y + z


def fmod(x: float, y: float) -> float:
    if math.isnan(x) or math.isnan(y) or math.isinf(x) or y == 0:
        return math.nan
    return math.fmod(x, y)


def square_root(x: float):
    """sqrt(x) to far more digits than any format has, never on a tie unless exact."""
    if math.isnan(x) or x == 0 or x == math.inf:
        return x
    if x < 0:
        return math.nan
    scale = 600
    value = Fraction(x) * (1 << (2 * scale))
    root = math.isqrt(value.numerator // value.denominator)
    exact = root * root == value
    return (Fraction(root) if exact else Fraction(2 * root + 1, 2)) / (1 << scale)


def maximum(x: float, y: float, propagate: bool) -> float:
    if math.isnan(x) or math.isnan(y):
        return math.nan if propagate or (math.isnan(x) and math.isnan(y)) else (y if math.isnan(x) else x)
    if x == y == 0:
        return 0.0 if math.copysign(1, x) > 0 or math.copysign(1, y) > 0 else -0.0
    return max(x, y)


def saturated_int(x: float, bits: int, signed: bool) -> int:
    """x truncated to an integer type, its limits beyond them, 0 for NaN."""
    if math.isnan(x):
        return 0
    low, high = (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if signed else (0, (1 << bits) - 1)
    whole = (high if x > 0 else low) if math.isinf(x) else min(max(math.trunc(x), low), high)
    return wrap(whole, bits)
