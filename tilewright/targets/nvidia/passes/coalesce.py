"""Layouts that memory accesses want, from the facts of the axis analysis.

Along the dimension in which addresses are contiguous, neighbouring elements go to one thread as far as one access can
take them: 16 bytes, the contiguous run, and the alignment that is known.  Then come the lanes, so that a warp touches
as few sectors of 32 bytes as it can; then the warps.  Tests: tests/targets/nvidia/test_passes.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import gcd

from tilewright.analysis.axis_info import AxisInfo, power_of_two_in
from tilewright.ir.types import Pointer, Type, element_of, shape_of
from tilewright.layout import Layout, coalesced

VECTOR_BYTES = 16       # of one access by one thread (PTX ISA ld, .v4.b32)


def element_bytes(pointer: Type) -> int:
    """Bytes of what a pointer, or a tile of pointers, points to."""
    element = element_of(pointer)
    assert isinstance(element, Pointer)
    return element.element.bytes


def order_of(fact: AxisInfo) -> list[int]:
    """The dimensions, the most contiguous first; of equal ones the last."""
    return sorted(range(fact.rank), key=lambda d: (-fact.contiguity[d], -d))


def vector_length(fact: AxisInfo, dim: int, size: int, bytes_per_element: int) -> int:
    """How many elements along `dim`, of `size`, one access may take: a power of two."""
    run = fact.contiguity[dim]
    limit = max(1, VECTOR_BYTES // bytes_per_element)
    aligned = fact.first_divisor(dim, run)      # what divides the first address of each run; 0: all numbers
    known = power_of_two_in(aligned) // bytes_per_element if aligned else limit
    length = gcd(limit, power_of_two_in(run) or limit)
    length = min(length, max(1, known))
    return gcd(length, power_of_two_in(size))       # so that no vector is cut by the end of the tile


def run_of(pointer: Type, fact: AxisInfo) -> tuple[int, int]:
    """The dimension along which an access through the tile `pointer`, with facts `fact`, takes runs; their length."""
    dim = order_of(fact)[0]
    return dim, vector_length(fact, dim, shape_of(pointer)[dim], element_bytes(pointer))


def memory_layout(pointer: Type, fact: AxisInfo, num_warps: int, run: int | None = None,
                  order: Sequence[int] | None = None) -> Layout:
    """The layout in which such an access is best done; a thread takes `run` neighbours if that is given, and lanes go
    along dimensions in `order`, else by the facts."""
    length = run_of(pointer, fact)[1] if run is None else run
    return coalesced(shape_of(pointer), length, num_warps, order_of(fact) if order is None else order)
