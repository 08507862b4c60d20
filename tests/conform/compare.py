"""How far two results are apart, in units in the last place of a format."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np

from tests.conform import exact
from tests.conform.rows import bits_of
from tilewright.ir import fp
from tilewright.ir.types import Pointer, element_of


def is_float(t) -> bool:
    return not isinstance(element_of(t), Pointer) and element_of(t).is_float


def same(got, want, t, keeps_nan=False) -> np.ndarray:
    """Where two storage arrays agree bit for bit; a NaN with any NaN, unless the row keeps its bits."""
    equal = bits_of(got) == bits_of(want)
    if is_float(t) and not keeps_nan:
        equal |= np.isnan(fp.decode(got, element_of(t))) & np.isnan(fp.decode(want, element_of(t)))
    return equal


def ulps_from_exact(got: float, value, name: str) -> float:
    """|got - value| in units of the last place at the exact value (Fraction, or a float that is inf, nan, zero)."""
    rounded = exact.nearest(value, name)
    if math.isnan(rounded) or math.isinf(rounded) or math.isnan(got) or math.isinf(got):
        alike = got == rounded or (math.isnan(got) and math.isnan(rounded))
        return 0.0 if alike else _from_infinity(got, value, name)
    if got == rounded and abs(value) > exact.FORMATS[name][2]:      # a format that saturates
        return 0.0
    return float(abs(Fraction(got) - Fraction(value)) / exact.unit(Fraction(value), name))


def _from_infinity(got: float, value, name: str) -> float:
    """An infinity counts as the first number beyond the largest."""
    _, _, largest, _ = exact.FORMATS[name]
    if isinstance(value, float) or math.isnan(got):
        return math.inf
    beyond = largest + exact.unit(largest, name)
    shown = Fraction(got) if math.isfinite(got) else (beyond if got > 0 else -beyond)
    return float(abs(shown - value) / exact.unit(largest, name))
