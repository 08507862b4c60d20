"""Scans: a thread scans its run, lanes and warps combine what comes before, higher registers carry on.

Along the scanned axis the layout has, upwards: register bits (a run), lane bits, warp bits, register bits (rounds).  A
run's total goes up the lanes in doubling steps; what warps and rounds have together goes through shared memory, all of
it behind one barrier (`scan_totals`); each thread then puts what comes before its run in front of it.  Sides keep their
order: the region need not be commutative.  `reverse` is the same with every bit of the coordinate turned round.
Padding lies at the upper end.  In a forward scan nothing that counts comes behind it, so it is scanned like the rest.
Before: a layout as `passes.special.scan_layout` makes it.
Tests: tests/lang, tests/conform and tests/targets/nvidia/test_scan.py, on the engine ptx.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tilewright.ir.layout_rules import layout_of
from tilewright.ir.node import Op
from tilewright.layout.linear import LANE, REGISTER, WARP
from tilewright.targets.llvm.identities import identity_constant
from tilewright.targets.nvidia.lane_scan import LaneScan
from tilewright.targets.nvidia.partial import NOTHING, Part, choose, is_idempotent, merge
from tilewright.targets.nvidia.passes.special import owners_of
from tilewright.targets.nvidia.picks import Region
from tilewright.targets.nvidia.reduce import part_of
from tilewright.targets.nvidia.scan_totals import Along, Totals
from tilewright.targets.nvidia.state import Kernel


def scan(kernel: Kernel, op: Op) -> None:
    """A `scan` of one or more tiles."""
    results = _Scan(kernel, op).run()
    for k, value in enumerate(op.results):
        kernel.bind(value, [part.values[k] for part in results])


class _Scan:
    def __init__(self, kernel: Kernel, op: Op) -> None:
        self._kernel, self._op = kernel, op
        self._layout, axis = layout_of(op.operands[0]), op.attrs["axis"]
        self._reverse = bool(op.attrs["reverse"])
        self._region = Region(kernel, op, ordered=True, reverse=self._reverse)
        owners = owners_of(self._layout, axis)
        assert owners is not None
        names = [name for name, _ in owners]
        first = next((k for k, name in enumerate(names) if name != REGISTER), len(names))
        run_bits = [bit for _, bit in owners[:first]]
        round_bits = [bit for name, bit in owners[first:] if name == REGISTER]
        lane_bits = [bit for name, bit in owners if name == LANE]
        self._warp_bits = [bit for name, bit in owners if name == WARP]
        taken = sum(1 << b for b in (*run_bits, *round_bits))
        self._beside = [r for r in range(self._layout.size(REGISTER)) if not r & taken]
        self._run_numbers, self._rounds = self._numbers(run_bits), self._numbers(round_bits)
        self._lanes = LaneScan(kernel, self._region, lane_bits, self._reverse) if lane_bits else None
        self._neutral = identity_constant(op)
        self._found: dict[int, Part] = {}

    def _numbers(self, bits: Sequence[int]) -> list[int]:
        """The register numbers that `bits` count through, in the order of the scan."""
        numbers = [sum(1 << b for k, b in enumerate(bits) if n >> k & 1) for n in range(1 << len(bits))]
        return numbers[::-1] if self._reverse else numbers

    def _merge(self, before: Part, after: Part) -> Part:
        return merge(self._kernel, self._region, before, after)

    def run(self) -> list[Part]:
        """The result's part of each register."""
        heads = [r | h for r in self._beside for h in self._rounds]
        totals = {head: self._run(head) for head in heads}
        if self._lanes is not None:
            totals = {head: self._lanes.scanned(total) for head, total in totals.items()}
        before = self._before(totals)
        for head, total in totals.items():
            self._extend(head, self._filled(before[head], NOTHING), total)
        return [self._found[r] for r in range(self._layout.size(REGISTER))]

    # -- a thread's run

    def _run(self, head: int) -> Part:
        """Scan the run of `head`; its total."""
        total = NOTHING
        for n in self._run_numbers:
            total = self._merge(total, self._part(head | n))
            self._found[head | n] = total if total.values else self._anything(head | n)
        return total

    def _part(self, register: int) -> Part:
        if not self._reverse:
            return self._anything(register)
        part = part_of(self._kernel, self._op, self._layout, register)
        return Part((self._neutral,)) if part.flag is False and self._neutral else self._filled(part, NOTHING)

    def _anything(self, register: int) -> Part:
        """What stands in a register, be it padding or not."""
        return Part(tuple(self._kernel.registers(v)[register] for v in self._op.operands))

    def _extend(self, head: int, before: Part, total: Part) -> None:
        """Put what comes before the warp in this round in front of the run of `head`.

        `total` is what the warp's lanes have up to this one.  The sum of both is the result at the run's end; the lane
        behind puts it in front of what it has, but for the end.
        """
        *inner, last = self._run_numbers
        up_to_here = self._merge(before, total)
        if up_to_here.values:
            self._found[head | last] = up_to_here
        if not inner:
            return
        if self._lanes is not None and up_to_here.values:
            before = choose(self._kernel, self._lanes.is_behind(1), self._lanes.neighbour(up_to_here, 1), before)
        before = self._filled(before, self._found[head | inner[0]])
        for n in inner:
            if self._found[head | n].flag is not False:
                self._found[head | n] = self._merge(before, self._found[head | n])

    def _filled(self, part: Part, first: Part) -> Part:
        """`part` with something that changes nothing where it does not count, if there is such a thing: a number, or
        `first`, the value in front of which it goes, where the region gives one of two equal sides."""
        if isinstance(part.flag, bool):
            return part
        if self._neutral is not None:
            return Part((self._kernel.code.select(part.flag, part.values[0], self._neutral),))
        if first.values and first.flag is True and is_idempotent(self._region):
            return choose(self._kernel, part.flag, Part(part.values), first)
        return part

    # -- warps and rounds

    def _before(self, totals: Mapping[int, Part]) -> dict[int, Part]:
        """What comes before a warp in each round."""
        if self._warp_bits:
            along = Along(self._op, self._region, self._layout, self._warp_bits, self._beside, self._rounds,
                          self._lanes, self._neutral)
            return Totals(self._kernel, along, totals).before()
        before: dict[int, Part] = {}
        for r in self._beside:
            carry = NOTHING
            for h in self._rounds:
                before[r | h] = carry
                if h != self._rounds[-1]:
                    total = totals[r | h]
                    carry = self._merge(carry, total if self._lanes is None else self._lanes.of_last(total))
        return before
