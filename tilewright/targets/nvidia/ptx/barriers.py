"""CTA barriers (bar, barrier) and cluster barriers: arrivals, waiting strands, what they hand on (PTX ISA 9.7.13).

Before: a strand whose warps are whole.  After: waiting strands are ready again once all have come.
Tests: tests/targets/nvidia/ptx/test_control.py, test_faults.py.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from tilewright.targets.nvidia.ptx.clocks import merge
from tilewright.targets.nvidia.ptx.report import Fault
from tilewright.targets.nvidia.ptx.strands import Strand

if TYPE_CHECKING:
    from collections.abc import Callable

    from tilewright.targets.nvidia.ptx.cta import Cta

Array = np.ndarray[Any, Any]


@dataclass
class Barrier:
    """One barrier in one phase."""

    expected: int | None            # threads; None: all of the CTA
    arrived: int = 0
    clock: Array | None = None
    waiting: list[Strand] = field(default_factory=list)
    warps: set[int] = field(default_factory=set)
    finish: list[Callable[[], None]] = field(default_factory=list)     # bar.red: give results


class Barriers:
    """The sixteen barriers of a CTA."""

    def __init__(self, cta: Cta) -> None:
        self.cta = cta
        self.clear()

    def clear(self) -> None:
        self.open: dict[int, Barrier] = {}

    def arrive(self, ident: int, expected: int | None, strand: Strand, waits: bool,
               finish: Callable[[], None] | None = None) -> None:
        """The strand's warps come to barrier `ident`; a waiting strand goes on behind it."""
        cta = self.cta
        if not 0 <= ident < 16:
            raise Fault("barrier", f"barrier {ident}; there are barriers 0 to 15")
        if expected is not None and (expected <= 0 or expected % 32):
            raise Fault("barrier", f"barrier {ident} with {expected} threads, which is no multiple of the warp size")
        warps = np.flatnonzero(cta.lanes(strand.on).reshape(-1, 32).any(1))
        barrier = self.open.setdefault(ident, Barrier(expected))
        if barrier.expected != expected:
            raise Fault("barrier", f"barrier {ident} awaits {barrier.expected or 'all'} threads, and one comes that "
                        f"awaits {expected or 'all'}")
        if waits and barrier.warps.intersection(warps.tolist()):
            raise Fault("barrier", f"a warp comes twice to barrier {ident} in one phase")
        barrier.warps.update(warps.tolist())
        barrier.arrived += 32 * len(warps)
        barrier.clock = merge(barrier.clock, cta.clocks.hand_on(warps))
        if waits:
            strand.pc += 1
            barrier.waiting.append(strand)
        if finish is not None:
            barrier.finish.append(finish)
        self.settle(ident)

    def settle(self, ident: int) -> None:
        """Let those go on whose barrier is complete."""
        cta, barrier = self.cta, self.open[ident]
        expected = barrier.expected
        if expected is None:
            expected = 32 * int(cta.alive.reshape(-1, 32).any(1).sum())
        if barrier.arrived > expected:
            raise Fault("barrier", f"{barrier.arrived} threads came to barrier {ident}, which awaits {expected}")
        if barrier.arrived < expected:
            return
        del self.open[ident]
        for finish in barrier.finish:
            finish()
        cta.launch.counters.add("barriers", 1)
        for strand in barrier.waiting:
            warps = np.flatnonzero(cta.lanes(strand.on).reshape(-1, 32).any(1))
            assert barrier.clock is not None
            cta.clocks.take_over(warps, barrier.clock)
            cta.put(strand)

    def settle_all(self) -> None:
        """After threads have left."""
        for ident in list(self.open):
            if self.open[ident].expected is None and self.open[ident].waiting:
                self.settle(ident)

    def blocked_at(self) -> list[int]:
        return [strand.pc - 1 for barrier in self.open.values() for strand in barrier.waiting]

    def describe(self) -> list[str]:
        parts = []
        for ident, barrier in self.open.items():
            lines = sorted({self.cta.program.code[s.pc - 1].line for s in barrier.waiting})
            expected = barrier.expected or 32 * int(self.cta.alive.reshape(-1, 32).any(1).sum())
            parts.append(f"barrier {ident} has {barrier.arrived} of {expected} threads (warps "
                         f"{sorted(barrier.warps)}; waiting at PTX lines {lines})")
        return parts
