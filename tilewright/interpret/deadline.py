"""The end of a launch that takes too long in an interpreter (the knob `timeout`): looked at in each turn of a loop.

Tests: tests/errors/test_interrupt.py.
"""

from __future__ import annotations

import math
import time

from tilewright.diagnostics import Location, render


class Deadline:
    """`seconds` from now; 0 is never."""

    def __init__(self, kernel: str = "", seconds: float = 0.0) -> None:
        self._kernel, self._seconds = kernel, seconds
        self._end = time.monotonic() + seconds if seconds else math.inf

    def check(self, program: tuple[int, int, int], loop: Location | None = None) -> None:
        """TimeoutError if it is over; `program` is in the loop at this place, or about to begin."""
        if time.monotonic() > self._end:
            where = f"program {program} was in this loop" if loop else "it was stopped between two programs"
            raise TimeoutError(render(f"{self._kernel} has not ended within {self._seconds:g} s (TILEWRIGHT_TIMEOUT); "
                                      f"{where}", loop))
