"""Run a kernel of PTX text on the machine: buffers, parameters, the grid CTA by CTA.

Before: PTX text and NumPy arrays.  After: the arrays hold what the kernel wrote; a `Result` has what it printed and the
counters; a `Fault` was raised if it did something that is not defined.  CTAs run one after another, in ascending order
(those of a cluster together), so a CTA may wait for lower ones only.
Tests: tests/targets/nvidia/ptx/test_launch.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tilewright.targets.nvidia.ptx.bound import Code
from tilewright.targets.nvidia.ptx.buffers import Buffers, Pointer, Uninitialised
from tilewright.targets.nvidia.ptx.clusters import ClusterBarrier
from tilewright.targets.nvidia.ptx.cta import Cta
from tilewright.targets.nvidia.ptx.memory import GlobalMemory
from tilewright.targets.nvidia.ptx.ordering import Released
from tilewright.targets.nvidia.ptx.program import Program, decode
from tilewright.targets.nvidia.ptx.regions import Checks
from tilewright.targets.nvidia.ptx.report import Counters, Fault

Array = np.ndarray[Any, Any]
__all__ = ["Checks", "Pointer", "Result", "Uninitialised", "run"]

DEFAULT_LIMIT = 5_000_000      # instructions of a CTA


@dataclass(frozen=True, slots=True)
class Result:
    """What a launch left beside the arrays."""

    printed: str
    counters: Counters


def run(ptx_text: str, kernel: str, grid: Sequence[int], block: int | Sequence[int], args: Sequence[object], *,
        shared_bytes: int = 0, seed: int = 0, checks: Checks | None = None, limit: int = DEFAULT_LIMIT,
        cluster: Sequence[int] | None = None) -> Result:
    """Execute `kernel` of `ptx_text` ("" for the only one) over `grid` CTAs of `block` threads.

    args: one a parameter.  An array is a pointer to its first element, all bytes that its shape and strides reach are
    in bounds; `Pointer(array, offset)` points elsewhere in it, `Uninitialised(array)` must be written before it is
    read; arrays that overlap on the host overlap here.  A number or NumPy scalar is stored as the parameter's type,
    None is a null pointer, bytes fill a parameter of an array type, a `TensorMap` too. seed: 0 runs warps together
    where it can; others interleave them and let asynchronous copies land by chance. limit: instructions after which a
    CTA is taken to be in an endless loop. Raises `PtxSyntaxError` for text that has no meaning here, `Fault` with the
    PTX line and the user's line.
    """
    program = decode(ptx_text, kernel)
    launch = Launch(program, grid, block, args, shared_bytes, seed, checks or Checks(), limit, cluster)
    with np.errstate(all="ignore"):
        try:
            launch.execute()
        except Fault as fault:
            fault.kernel = program.function.name
            raise
        finally:
            launch.buffers.copy_back()
    return Result("".join(launch.printed), launch.counters)


class Launch:
    """One launch: what its CTAs share."""

    def __init__(self, program: Program, grid: Sequence[int], block: int | Sequence[int], args: Sequence[object],
                 shared_bytes: int, seed: int, checks: Checks, limit: int, cluster: Sequence[int] | None) -> None:
        self.program, self.seed, self.checks, self.limit = program, seed, checks, limit
        self.grid = _three(grid)
        self.block = _three((block,) if isinstance(block, int) else block)
        self.cluster = _three(cluster or program.function.directives.get("reqnctapercluster") or (1,))
        self.shared_bytes = shared_bytes
        self._check_shape()
        self.counters, self.printed = Counters(), list[str]()
        self.memory = GlobalMemory(checks, program.smallest_access("global"))
        self.memory.ctas = self.grid[0] * self.grid[1] * self.grid[2]
        self.released: dict[int, Released] = {}
        self.latest = 0
        self.addresses: dict[str, int] = {}
        self.buffers = Buffers(self.memory)
        self.parameters = self.buffers.place_parameters(program, args, self.addresses)
        self.buffers.place_variables(program, self.addresses)
        self.cluster_barrier = ClusterBarrier(self.cluster[0] * self.cluster[1] * self.cluster[2])

    def _check_shape(self) -> None:
        threads = self.block[0] * self.block[1] * self.block[2]
        wanted = self.program.function.directives
        if not 1 <= threads <= 1024:
            raise ValueError(f"a block of {threads} threads; 1 to 1024 are possible")
        if "reqntid" in wanted and _three(wanted["reqntid"]) != self.block:
            raise ValueError(f"{self.program.function.name} wants blocks of {wanted['reqntid']}, got {self.block}")
        if "maxntid" in wanted and threads > int(np.prod(wanted["maxntid"])):
            raise ValueError(f"{self.program.function.name} allows blocks of at most {wanted['maxntid']} threads, got "
                             f"{threads}")
        if any(g % c for g, c in zip(self.grid, self.cluster)):
            raise ValueError(f"a grid of {self.grid} is not made of clusters of {self.cluster}")

    def execute(self) -> None:
        """All CTAs, in ascending order; a cluster's together."""
        size = self.cluster[0] * self.cluster[1] * self.cluster[2]
        if 0 in self.grid:
            return
        ctas = [Cta(self.program, self, rank) for rank in range(size)]
        for cta in ctas:
            cta.peers = ctas
            cta.code = Code(cta)
        number = 0
        for corner in np.ndindex(*(g // c for g, c in zip(reversed(self.grid), reversed(self.cluster)))):
            for cta, inside in zip(ctas, np.ndindex(*reversed(self.cluster))):
                index = tuple(corner[2 - d] * self.cluster[d] + inside[2 - d] for d in range(3))
                cta.enter((index[0], index[1], index[2]), number)
                number += 1
            self._run_cluster(ctas)

    def _run_cluster(self, ctas: list[Cta]) -> None:
        self.cluster_barrier.clear()
        self.memory.orders.clear()
        if len(ctas) == 1:
            self.memory.enter(ctas[0].number, ctas[0].clocks)
            if not ctas[0].run():
                raise self._deadlock(ctas)
        else:
            self._run_together(ctas)
        for cta in ctas:
            self.memory.enter(cta.number, cta.clocks, cta.rank)
            cta.copies.finish()
            self.latest = max(self.latest, cta.clocks.latest)
            self.counters.add("instructions", cta.executed)
            self.counters.add("ctas", 1)

    def _run_together(self, ctas: list[Cta]) -> None:
        left = list(ctas)
        while left:
            before = sum(c.executed for c in ctas)
            for cta in list(left):
                self.memory.enter(cta.number, cta.clocks, cta.rank)
                if cta.run():
                    left.remove(cta)
            if left and sum(c.executed for c in ctas) == before and not any(c.ready for c in ctas):
                raise self._deadlock(left)

    def _deadlock(self, ctas: list[Cta]) -> Fault:
        state = "; ".join([*(c.fault_state() for c in ctas), *self.cluster_barrier.describe()])
        fault = Fault("deadlock", f"no thread can go on: {state}")
        fault.cta = ctas[0].index
        place = ctas[0].blocked_at()
        if place is not None:
            instruction = self.program.code[place]
            fault.at(instruction.line, self.program.text(instruction.line), instruction.location)
        return fault


def _three(numbers: Sequence[int]) -> tuple[int, int, int]:
    x, y, z = (*(int(n) for n in numbers), 1, 1, 1)[:3]
    return x, y, z
