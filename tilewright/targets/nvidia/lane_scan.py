"""Scans of the lanes of a warp, by doubling steps: what the lane 1, 2, 4, ... places before has is put in front.

Lanes without others before them in a step get their own value from a shuffle.  A region that gives one of two equal
sides may combine the two; one that is a single instruction runs under the shuffle's predicate; else a select follows.
Tests: tests/targets/nvidia/test_scan.py, and those of `scan`.
"""

from __future__ import annotations

from collections.abc import Sequence

from tilewright.ir.types import F32
from tilewright.ir.types import I32 as IR_I32
from tilewright.targets.llvm.types import I32, constant
from tilewright.targets.llvm.types import Value as LlvmValue
from tilewright.targets.nvidia.emit.code import WARP_LANES
from tilewright.targets.nvidia.partial import Part, choose, commutes, is_idempotent, merge, shuffled
from tilewright.targets.nvidia.picks import Region
from tilewright.targets.nvidia.state import Kernel

# Regions that are one instruction, which has a row of the table behind a shuffle.
_INSTRUCTIONS = frozenset({("add_f", F32), ("max_f", F32), ("min_f", F32), ("max_nan_f", F32), ("min_nan_f", F32),
                           ("add", IR_I32)})


class LaneScan:
    """Scans with `region` over the lanes whose number differs in `bits`, which follow one another, upwards or, with
    `reverse`, downwards."""

    def __init__(self, kernel: Kernel, region: Region, bits: Sequence[int], reverse: bool) -> None:
        assert list(bits) == list(range(bits[0], bits[-1] + 1))
        self._kernel, self._region, self._reverse = kernel, region, reverse
        self._low, self._lanes = bits[0], 1 << len(bits)
        name = region.block.ops[0].name
        self._instruction = name if commutes(region) and (name, region.block.args[0].type) in _INSTRUCTIONS else None
        self._way = "down" if reverse else "up"
        # the other lanes are other rows': c of `shfl` has their bits, and the lane at which to stop
        self._end = WARP_LANES - (self._lanes << self._low) << 8 | (WARP_LANES - 1 if reverse else 0)

    def scanned(self, part: Part) -> Part:
        """What the lanes have together up to each of them."""
        distance = 1
        while distance < self._lanes:
            part = self._step(part, distance)
            distance *= 2
        return part

    def _step(self, part: Part, distance: int) -> Part:
        if part.flag is False:
            return part
        if part.flag is True and self._instruction is not None:
            value = part.values[0]
            return Part(tuple(self._kernel.code.machine(
                f"shuffle_{self._instruction}", [value.type], [value], way=self._way, lane=str(distance << self._low),
                end=str(self._end))))
        merged = merge(self._kernel, self._region, self.neighbour(part, distance), part)
        if part.flag is True and is_idempotent(self._region):
            return merged
        return choose(self._kernel, self.is_behind(distance), merged, part)

    def neighbour(self, part: Part, distance: int) -> Part:
        """What the lane `distance` places before has; its own in lanes that have none."""
        return shuffled(self._kernel, f"shuffle_{self._way}", part, constant(I32, distance << self._low), self._end)

    def is_behind(self, distance: int) -> LlvmValue:
        """Whether there is a lane `distance` places before."""
        code = self._kernel.code
        if self._reverse:
            return code.icmp("ult", self._place(), constant(I32, self._lanes - distance << self._low))
        return code.icmp("uge", self._place(), constant(I32, distance << self._low))

    def is_last(self) -> LlvmValue:
        """Whether no lane comes behind this one."""
        return self._kernel.code.icmp("eq", self._place(), constant(I32, 0 if self._reverse else self._mask))

    def of_last(self, part: Part) -> Part:
        """What the last lane has, in all of them."""
        code, others = self._kernel.code, WARP_LANES - 1 & ~self._mask
        last = constant(I32, 0 if self._reverse else self._mask)
        if others:
            last = code.op("or", code.op("and", code.tid, constant(I32, others)), last)
        return shuffled(self._kernel, "shuffle_from", part, last)

    @property
    def _mask(self) -> int:
        return self._lanes - 1 << self._low

    def _place(self) -> LlvmValue:
        """The number of the lane, with the other bits 0."""
        return self._kernel.code.op("and", self._kernel.code.tid, constant(I32, self._mask))
