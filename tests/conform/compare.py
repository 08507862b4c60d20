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
    """|got - value| in units of the last place at the exact value (Fraction, or a float that is inf, nan, zero).

    The correctly rounded result is at distance 0, also where the format ends; an infinity that is not it counts as
    the first number beyond the largest.
    """
    rounded = exact.nearest(value, name)
    if got == rounded or (math.isnan(got) and math.isnan(rounded)):
        return 0.0
    if math.isnan(got) or isinstance(value, float):
        return math.inf
    _, _, largest, _ = exact.FORMATS[name]
    beyond = largest + exact.unit(largest, name)
    shown = Fraction(got) if math.isfinite(got) else (beyond if got > 0 else -beyond)
    apart = abs(shown - value) / exact.unit(min(abs(value), largest), name)
    return float(apart) if apart < 2**1000 else math.inf
