"""mbarriers: objects in shared memory whose phase ends when all arrivals and all announced bytes have come (PTX ISA
9.7.13.15).

Before: `init` at an address.  After a phase: what its arrivals had seen is ordered before what its waiters do.
Tests: tests/targets/nvidia/ptx/test_asynchronous.py.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from tilewright.targets.nvidia.ptx.clocks import FIRST_AGENT_CODE, FIRST_BARRIER_AGENT, merge
from tilewright.targets.nvidia.ptx.report import Fault
from tilewright.targets.nvidia.ptx.strands import Strand

if TYPE_CHECKING:
    from tilewright.targets.nvidia.ptx.cta import Cta

Array = np.ndarray[Any, Any]
MOST_ARRIVALS = (1 << 20) - 1


class Mbarrier:
    """One object: `phase` counts completed phases; `pending` arrivals and `bytes` are missing in this one."""

    def __init__(self, agent: int, count: int, time: int) -> None:
        self.agent, self.count, self.time = agent, count, time
        self.phase, self.pending, self.bytes = 0, count, 0
        self.gathered: Array | None = None
        self.released: Array | None = None

    @property
    def code(self) -> int:
        """Who writes on its behalf, in records of accesses."""
        return FIRST_AGENT_CODE + self.agent - 32

    def tick(self) -> int:
        """The time of an asynchronous write that this barrier orders."""
        time, self.time = self.time, self.time + 1
        clock = np.zeros(self.agent + 1, np.int64)
        clock[self.agent] = time
        self.gathered = merge(self.gathered, clock)
        return time


class Mbarriers:
    """Those of a CTA, by address, and the strands that wait for them."""

    def __init__(self, cta: Cta) -> None:
        self.cta = cta
        self.clear()

    def clear(self) -> None:
        self.at: dict[int, Mbarrier] = {}
        self.waiting: list[tuple[Strand, list[tuple[Mbarrier, int]]]] = []
        self.made = 0

    # ---- objects
    def init(self, address: int, count: int, thread: int) -> None:
        if not 1 <= count <= MOST_ARRIVALS:
            raise Fault("barrier", f"mbarrier.init with count {count}; 1 to {MOST_ARRIVALS} are possible", (thread,))
        agent = FIRST_BARRIER_AGENT + self.made
        self.made += 1
        if FIRST_AGENT_CODE + agent - 32 >= 4096:
            raise Fault("barrier", "more mbarriers than the machine can tell apart")
        for peer in self.cta.peers:
            peer.clocks.add_agent(agent)
        self.at[address] = Mbarrier(agent, count, self.cta.clocks.first)

    def get(self, address: int, thread: int = 0) -> Mbarrier:
        barrier = self.at.get(address)
        if barrier is None:
            raise Fault("barrier", f"no mbarrier was initialised at byte {address} of shared memory", (thread,))
        return barrier

    # ---- phases
    def arrive(self, barrier: Mbarrier, count: int, warps: Array, clocks: Any, released: bool = True) -> int:
        """`count` arrivals by threads of `warps`; gives the phase that they arrived in."""
        phase = barrier.phase
        if count > barrier.pending:
            raise Fault("barrier", f"{count} arrivals at an mbarrier that awaits {barrier.pending} more in this phase "
                        f"(of {barrier.count})")
        if released:
            barrier.gathered = merge(barrier.gathered, clocks.hand_on(warps))
        barrier.pending -= count
        self.settle(barrier)
        return phase

    def expect(self, barrier: Mbarrier, size: int) -> None:
        barrier.bytes += size
        self.settle(barrier)

    def complete(self, barrier: Mbarrier, size: int) -> None:
        """Bytes of an asynchronous copy have come."""
        barrier.bytes -= size
        self.settle(barrier)

    def settle(self, barrier: Mbarrier) -> None:
        if barrier.pending or barrier.bytes:
            return
        barrier.phase += 1
        barrier.pending = barrier.count
        if barrier.gathered is not None:
            barrier.released = merge(barrier.released, barrier.gathered)
        still = []
        for strand, conditions in self.waiting:
            if any(b.phase != phase for b, phase in conditions):
                self.cta.put(strand)
            else:
                still.append((strand, conditions))
        self.waiting = still

    def observe(self, barrier: Mbarrier, warps: Array) -> None:
        """A successful wait: what the phase gathered is ordered before."""
        if barrier.released is not None:
            self.cta.clocks.take_over(warps, barrier.released)

    # ---- for a deadlock
    def blocked_at(self) -> list[int]:
        return [strand.pc for strand, _ in self.waiting]

    def describe(self) -> list[str]:
        parts = []
        for address, barrier in sorted(self.at.items()):
            waiters = [s for s, conditions in self.waiting if any(b is barrier for b, _ in conditions)]
            if waiters:
                lines = sorted({self.cta.program.code[s.pc].line for s in waiters})
                parts.append(f"mbarrier at byte {address}: phase {barrier.phase} lacks {barrier.pending} of "
                             f"{barrier.count} arrivals and {barrier.bytes} bytes (waited for at PTX lines {lines})")
        return parts
