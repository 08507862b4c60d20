"""How far functions that are composed of several ops may be from the exact value: one table.

Ops have their bounds in their rows (`ir/ops/math.py`).  Docstrings are made from this table, and it is measured
against 250 bits.  Tests: tests/lang/test_accuracy.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple


class Bound(NamedTuple):
    """Units in the last place of fp32 and of fp64, and where that holds ("" : wherever the result is defined)."""

    single: int
    double: int
    where: str = ""

    def __str__(self) -> str:
        return f"within {self.single} ulp of fp32, {self.double} of fp64" + (f" {self.where}" if self.where else "")


_BESSEL = Bound(1, 7, "for |x| < 8; beyond to 5e-12 for |x| <= 2**20")

COMPOSED: Mapping[str, Bound] = {
    "sigmoid": Bound(4, 4, "where it is normal"),
    "rcbrt": Bound(1, 3), "norm3d": Bound(1, 3), "norm4d": Bound(1, 3), "rnorm3d": Bound(1, 3), "rnorm4d": Bound(1, 3),
    "rhypot": Bound(1, 3), "sinpi": Bound(1, 2), "cospi": Bound(1, 2), "erfc": Bound(1, 5), "erfcx": Bound(1, 5),
    "erfinv": Bound(1, 5), "erfcinv": Bound(1, 6), "normcdf": Bound(1, 5), "normcdfinv": Bound(1, 7),
    "tgamma": Bound(1, 10), "lgamma": Bound(1, 4, "and absolutely where it is below 1 for negative x"),
    "j0": _BESSEL, "j1": _BESSEL, "y0": _BESSEL, "y1": _BESSEL, "cyl_bessel_i0": Bound(1, 6),
    "cyl_bessel_i1": Bound(1, 6),
}
