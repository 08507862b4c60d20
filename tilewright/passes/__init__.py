"""Passes over tile IR, and the standard list that every target starts with."""

from __future__ import annotations

from tilewright.passes.inline import INLINE
from tilewright.passes.manager import Pass, Timing, run_passes

STANDARD: tuple[Pass, ...] = (INLINE,)


def standard(enable_fp_fusion: bool = False) -> tuple[Pass, ...]:
    """The list that every target starts with."""
    return STANDARD


__all__ = ["STANDARD", "Pass", "Timing", "run_passes", "standard"]
