"""The facts of the axis analysis (`analysis.axis`): contiguity, divisibility and constancy a dimension.

Along dimension d of a value, counting indices from 0:

* `constancy[d]` = k: every run of k indices that starts at a multiple of k holds one value.
* `contiguity[d]` = c: every such run of c indices holds v, v+1, v+2, ... (pointers: consecutive elements).
* `divisibility[d]` = g: the *first* value of each run of c is a multiple of g (pointers: in bytes); 0 means that it is
  zero, which every number divides.

Runs may be cut off by the end of the tile; sizes are any integers, so facts meet by greatest common divisors, for
which 0 is just right.  A scalar has one entry.
Tests: tests/analysis/.
"""

from __future__ import annotations

from math import gcd, lcm
from typing import NamedTuple

from tilewright.ir.types import Pointer, Type, element_of, shape_of


class AxisInfo(NamedTuple):
    """Facts of one value, an entry a dimension.

    `constant` is the value, if it is known and the same everywhere.  `stride` is by how much a value grows along a
    contiguous run: the bytes of an element for pointers, else 1.
    """

    contiguity: tuple[int, ...]
    divisibility: tuple[int, ...]
    constancy: tuple[int, ...]
    constant: int | None = None
    stride: int = 1

    @property
    def rank(self) -> int:
        return len(self.contiguity)

    def first_divisor(self, dim: int, run: int) -> int:
        """What divides the value at every index along `dim` that is a multiple of `run`."""
        have, g = self.contiguity[dim], self.divisibility[dim]
        # Such an index lies gcd(run, have) steps, or a multiple of it, behind the first one of a contiguous run.
        return g if run % have == 0 else gcd(g, gcd(run, have) * self.stride)

    @property
    def divisor(self) -> int:
        """What divides every element."""
        return lcm(*(self.first_divisor(d, 1) for d in range(self.rank)))

    def is_uniform(self, t: Type) -> bool:
        """Whether all elements of the value, of type `t`, are known to be equal."""
        return all(k >= n for k, n in zip(self.constancy, shape_of(t) or (1,), strict=True))

    def with_runs(self, runs: tuple[int, ...]) -> AxisInfo:
        """The same value, seen in runs of other lengths, each of which is known to be contiguous."""
        divisors = tuple(self.first_divisor(d, r) for d, r in enumerate(runs))
        return AxisInfo(runs, divisors, self.constancy, self.constant, self.stride)

    def __str__(self) -> str:
        def sizes(values: tuple[int, ...]) -> str:
            return "x".join(map(str, values))

        constant = "" if self.constant is None else f", is {self.constant}"
        return (f"contiguous {sizes(self.contiguity)}, divisible {sizes(self.divisibility)}, "
                f"constant {sizes(self.constancy)}{constant}")


def stride_of(t: Type) -> int:
    """By how much a value of type `t` grows from one element to the next of a contiguous run."""
    element = element_of(t)
    return element.element.bytes if isinstance(element, Pointer) else 1


def nothing_known(t: Type) -> AxisInfo:
    """The facts that hold of any value of type `t`."""
    ones = (1,) * max(1, len(shape_of(t)))
    return AxisInfo(ones, ones, ones, None, stride_of(t))


def of_scalar(divisor: int, t: Type, constant: int | None = None) -> AxisInfo:
    """A scalar of type `t` that `divisor` divides."""
    return AxisInfo((1,), (divisor,), (1,), constant, stride_of(t))


def join(a: AxisInfo, b: AxisInfo) -> AxisInfo:
    """What holds of a value that is one or the other."""
    runs = tuple(map(gcd, a.contiguity, b.contiguity))
    divisors = tuple(gcd(a.first_divisor(d, r), b.first_divisor(d, r)) for d, r in enumerate(runs))
    constant = a.constant if a.constant == b.constant else None
    return AxisInfo(runs, divisors, tuple(map(gcd, a.constancy, b.constancy)), constant, a.stride)


def power_of_two_in(n: int) -> int:
    """The largest power of two that divides `n`; 0 for 0."""
    return n & -n
