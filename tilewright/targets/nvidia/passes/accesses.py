"""Accesses to memory on tiles: which layout is best for each, and what it costs in another.

Facts are those that the code of an access uses: loads and stores test what is only likely, atomics take what is sure.
Where they tell no dimension from another, lanes go along the one in which neighbours are likely to be near
(`analysis.steps`): the input of a convolution, whose rows are quotients and remainders by its sizes, had its lanes
along the channels, each in a sector of its own (conv2d of 16x64x56x56 fp16: 296 us, triton 49; H200, 2026-12-01).
Tests: tests/targets/nvidia/test_passes.py, test_assign.py.
"""

from __future__ import annotations

from math import gcd, prod

from tilewright.analysis.axis import Axis
from tilewright.analysis.axis_info import AxisInfo, power_of_two_in
from tilewright.analysis.steps import FAR, LikelySteps
from tilewright.computed import computed
from tilewright.ir.node import Module, Op
from tilewright.ir.types import shape_of
from tilewright.layout import Layout
from tilewright.layout.families import WARP_SIZE
from tilewright.layout.global_memory import global_access
from tilewright.layout.linear import LANE
from tilewright.targets.nvidia.passes.coalesce import element_bytes, memory_layout, run_of

_TESTED = frozenset({"load", "store"})      # whose code tests what is only likely
_ADDRESS = 0.5      # slots of the address and the predicate of a request
_NEAR, _APART = 4, 2.0      # a step that is not known may be small: then lanes with near elements share sectors


class Accesses:
    """The accesses of one module, in programs of `num_warps` warps."""

    def __init__(self, module: Module, num_warps: int) -> None:
        self._num_warps = num_warps
        self._axis = Axis(module)
        self._likely = Axis.likely(module, self._axis)
        self._best: dict[tuple[Op, int | None], Layout] = {}
        self._body = module.entry.body

    @computed
    def _steps(self) -> LikelySteps:
        return LikelySteps(self._body, lambda v: self._axis.fact(v).divisor)

    def run_of(self, op: Op) -> tuple[int, int]:
        """The dimension along which `op` takes runs, and how many elements one access of a thread is to take of them:
        of what it loads no more than leaves work for all threads (half of them repeated what the others did in layer
        norm of 4096 fp16 in four: 2068 GB/s of triton's 3068; H200, 2026-11-30)."""
        dim, length = run_of(op.operands[0].type, self._fact(op))
        if op.name != "load":
            return dim, length
        each = prod(shape_of(op.operands[0].type)) // (WARP_SIZE * self._num_warps)
        return dim, min(length, 1 << max(0, each.bit_length() - 1))

    def coalesced(self, op: Op, run: int | None = None) -> Layout:
        """The layout in which the access `op` takes the fewest requests and sectors; a thread takes `run` neighbours
        if that is given."""
        found = self._best.get((op, run))
        if found is None:
            length = self.run_of(op)[1] if run is None else run
            found = self._best[op, run] = memory_layout(op.operands[0].type, self._fact(op), self._num_warps, length,
                                                         self._nearest(op))
        return found

    def _nearest(self, op: Op) -> list[int] | None:
        """The dimensions, those first in which neighbours are likely to be near; None if facts tell, or nothing does.

        Equal addresses count for far ones: lanes are better used for others.
        """
        pointer = op.operands[0]
        shape = shape_of(pointer.type)
        if len(shape) < 2 or max(self._fact(op).contiguity) > 1:
            return None
        steps = [step if step and size > 1 else FAR
                 for step, size in zip(self._steps.of(pointer), shape, strict=True)]
        if min(steps) == FAR:
            return None
        return sorted(range(len(steps)), key=lambda d: (steps[d], -d))

    def cost(self, op: Op, layout: Layout) -> float:
        """Slots of the load/store unit for a warp, if `op` runs in `layout`."""
        pointer, mask = op.operands[0], op.operand("mask")
        fact, size = self._fact(op), element_bytes(pointer.type)
        dim, length = run_of(pointer.type, fact)
        if mask is not None:
            constancy = self._axis_of(op).fact(mask).constancy[dim]
            length = gcd(length, power_of_two_in(constancy) or length)
        run = power_of_two_in(fact.contiguity[dim]) or layout.shape[dim]
        nearest = self._nearest(op)
        if nearest is not None and self._steps.of(pointer)[nearest[0]] <= 1:
            dim = nearest[0]
            run = power_of_two_in(layout.shape[dim])
        access = global_access(layout, size, dim, run, vector=length if op.name in _TESTED else 1,
                               store=op.name != "load")
        apart = run == 1 and min((b for b in layout.coordinate(dim).bases(LANE) if b), default=0) > _NEAR
        return access.cost * (_APART if apart else 1.0) + _ADDRESS * access.requests

    def _axis_of(self, op: Op) -> Axis:
        return self._likely if op.name in _TESTED else self._axis

    def _fact(self, op: Op) -> AxisInfo:
        return self._axis_of(op).fact(op.operands[0])
