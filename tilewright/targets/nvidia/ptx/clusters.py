"""The barrier of a cluster's CTAs (PTX ISA 9.7.13.3).

Tests: tests/targets/nvidia/ptx/test_clusters.py.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from tilewright.targets.nvidia.ptx.strands import Strand

if TYPE_CHECKING:
    from tilewright.targets.nvidia.ptx.cta import Cta

Array = np.ndarray[Any, Any]


class ClusterBarrier:
    """Arrivals of all threads of a cluster; every thread waits after it arrived."""

    def __init__(self, ctas: int) -> None:
        self.ctas = ctas
        self.clear()

    def clear(self) -> None:
        self.phase = 0
        self.arrived: dict[int, Array] = {}
        self.entered: dict[int, Array] = {}         # of each thread: the phase in which it arrived
        self.waiting: list[tuple[Cta, Strand]] = []

    def arrive(self, cta: Cta, lanes: Array) -> None:
        """Lanes come; the last ones end the phase."""
        arrived = self.arrived.setdefault(cta.rank, np.zeros(cta.threads, bool))
        entered = self.entered.setdefault(cta.rank, np.full(cta.threads, -1))
        arrived |= lanes
        entered[lanes] = self.phase
        warps = np.flatnonzero(lanes.reshape(-1, 32).any(1))
        cta.clocks.hand_on(warps)
        peers = cta.peers
        if len(self.arrived) < self.ctas or not all((self.arrived[p.rank] | ~p.alive).all() for p in peers):
            return
        self.phase += 1
        self.arrived.clear()
        for peer in peers:      # everything before is ordered before everything after
            everyone = np.arange(peer.warps)
            peer.clocks.take_over(everyone, peer.clocks.hand_on(everyone))
        for peer in peers:
            cta.launch.memory.orders.setdefault(peer.number, set()).update(p.number for p in peers)
        waiting, self.waiting = self.waiting, []
        for owner, strand in waiting:
            strand.pc += 1
            owner.put(strand)

    def passed(self, cta: Cta, lanes: Array) -> bool:
        """Is the phase over in which these lanes arrived?"""
        entered = self.entered.get(cta.rank)
        return entered is not None and bool((entered[lanes] < self.phase).all())

    def wait(self, cta: Cta, strand: Strand) -> None:
        self.waiting.append((cta, strand))

    def describe(self) -> list[str]:
        return [f"{len(self.waiting)} strands wait at barrier.cluster"] if self.waiting else []
