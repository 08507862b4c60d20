"""Passes over tile IR, and the standard list that every target starts with."""

from __future__ import annotations

from tilewright.passes.accumulate import ACCUMULATE
from tilewright.passes.boxes import FORGET_BOXES
from tilewright.passes.contract import CONTRACT
from tilewright.passes.cse import CSE
from tilewright.passes.dce import DCE
from tilewright.passes.fold import FOLD
from tilewright.passes.inline import INLINE
from tilewright.passes.licm import LICM
from tilewright.passes.manager import Pass, Timing, run_passes
from tilewright.passes.promise import PROMISE
from tilewright.passes.uniform_carry import UNIFORM_CARRY
from tilewright.passes.widen import WIDEN

# Every pass by its name.
PASSES: dict[str, Pass] = {p.name: p for p in (INLINE, PROMISE, FOLD, CSE, WIDEN, UNIFORM_CARRY, LICM, ACCUMULATE,
                                               CONTRACT, DCE, FORGET_BOXES)}

_SCALARS_AND_TILES = (INLINE, PROMISE, FOLD, CSE, WIDEN, UNIFORM_CARRY, LICM, FOLD, CSE, ACCUMULATE)

# The list that every target starts with.  The second fold and cse work on what uniform_carry and licm have brought
# together; dce comes last.
STANDARD: tuple[Pass, ...] = (FORGET_BOXES, *_SCALARS_AND_TILES, DCE)


def standard(enable_fp_fusion: bool = False, keep_boxes: bool = False) -> tuple[Pass, ...]:
    """`STANDARD`, with contraction under `enable_fp_fusion`; with `keep_boxes` it stays known which pointers are those
    of a block."""
    forgotten = () if keep_boxes else (FORGET_BOXES,)
    contracted = (CONTRACT,) if enable_fp_fusion else ()
    return (*forgotten, *_SCALARS_AND_TILES, *contracted, DCE)


__all__ = ["FORGET_BOXES", "PASSES", "STANDARD", "Pass", "Timing", "run_passes", "standard"]
