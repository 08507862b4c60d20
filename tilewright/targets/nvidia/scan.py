"""Scans: a thread scans its run, lanes and warps combine what comes before, higher registers carry on.

Along the scanned axis the layout has, upwards: register bits (a run), lane bits, warp bits, register bits (rounds).  A
run's total goes to the lanes above it bit by bit, so that each thread gets the combination of all runs before its own;
warps do the same through shared memory; rounds follow one another.  Sides keep their order: the region need not be
commutative.  `reverse` is the same with every bit of the coordinate turned round.
Before: a layout as `passes.special.scan_layout` makes it.  Tests: tests/lang and tests/conform, on the engine ptx.
"""

from __future__ import annotations

from collections.abc import Sequence

from tilewright.ir.layout_rules import layout_of
from tilewright.ir.node import Op
from tilewright.layout import views
from tilewright.layout.linear import LANE, REGISTER, WARP
from tilewright.targets.llvm.types import I32, constant
from tilewright.targets.llvm.types import Value as LlvmValue
from tilewright.targets.nvidia.emit.code import LANE_BITS
from tilewright.targets.nvidia.partial import NOTHING, Part, choose, merge, only_where, shuffled
from tilewright.targets.nvidia.passes.special import owners_of
from tilewright.targets.nvidia.reduce import Exchange, lane_flag, part_of
from tilewright.targets.nvidia.state import Kernel


def scan(kernel: Kernel, op: Op) -> None:
    """A `scan` of one or more tiles."""
    results = _Scan(kernel, op).run()
    for k, value in enumerate(op.results):
        kernel.bind(value, [part.values[k] for part in results])


class _Scan:
    def __init__(self, kernel: Kernel, op: Op) -> None:
        self.kernel, self.op, self.region = kernel, op, op.regions[0]
        self.layout, self.axis = layout_of(op.operands[0]), op.attrs["axis"]
        self.reverse = op.attrs["reverse"]
        owners = owners_of(self.layout, self.axis)
        assert owners is not None
        names = [name for name, _ in owners]
        first = next((k for k, name in enumerate(names) if name != REGISTER), len(names))
        self.run_bits = [bit for _, bit in owners[:first]]
        self.round_bits = [bit for name, bit in owners[first:] if name == REGISTER]
        self.lane_bits = [bit for name, bit in owners if name == LANE]
        self.warp_bits = [bit for name, bit in owners if name == WARP]
        taken = sum(1 << b for b in (*self.run_bits, *self.round_bits))
        self.beside = [r for r in range(self.layout.size(REGISTER)) if not r & taken]
        self.found: dict[int, Part] = {}

    def _numbers(self, bits: Sequence[int]) -> list[int]:
        """The register numbers that `bits` count through, in the order of the scan."""
        numbers = [sum(1 << b for k, b in enumerate(bits) if n >> k & 1) for n in range(1 << len(bits))]
        return numbers[::-1] if self.reverse else numbers

    def _merge(self, before: Part, after: Part) -> Part:
        return merge(self.kernel, self.region, before, after)

    def run(self) -> list[Part]:
        """The result's part of each register."""
        rounds = self._numbers(self.round_bits)
        totals = {r | h: self._run(r | h) for r in self.beside for h in rounds}
        before = dict.fromkeys(totals, NOTHING)
        for head in totals:
            before[head], totals[head] = self._across_lanes(totals[head])
        if self.warp_bits:
            for h in rounds:
                self._across_warps(h, before, totals)
        for r in self.beside:
            carry = NOTHING
            for h in rounds:
                prefix = self._merge(carry, before[r | h])
                self._extend(r | h, prefix)
                carry = self._merge(carry, totals[r | h])
        return [self.found[r] for r in range(self.layout.size(REGISTER))]

    def _run(self, head: int) -> Part:
        """Scan the run of `head`; its total."""
        total = NOTHING
        for n in self._numbers(self.run_bits):
            part = part_of(self.kernel, self.op, self.layout, head | n)
            total = self._merge(total, part)
            self.found[head | n] = total if total.values else self._anything(head | n)
        return total

    def _anything(self, register: int) -> Part:
        """What stands in padding before anything counts."""
        return Part(tuple(self.kernel.registers(v)[register] for v in self.op.operands), False)

    def _extend(self, head: int, prefix: Part) -> None:
        for n in self._numbers(self.run_bits):
            part = self.found[head | n]
            if part.flag is not False:
                self.found[head | n] = self._merge(prefix, part)

    def _across_lanes(self, total: Part) -> tuple[Part, Part]:
        """(what the lanes before this one have together, what the warp has)."""
        before = NOTHING
        for bit in self.lane_bits:
            later = self._is_later(bit)
            if total.flag is False:
                continue
            other = shuffled(self.kernel, "shuffle_xor", total, 1 << bit)
            before = self._choose(later, self._merge(other, before), before)
            total = self._merge(self._choose(later, other, total), self._choose(later, total, other))
        return before, total

    def _is_later(self, thread_bit: int) -> LlvmValue:
        flag = lane_flag(self.kernel, thread_bit)
        return self.kernel.code.not_(flag) if self.reverse else flag

    def _choose(self, condition: LlvmValue, a: Part, b: Part) -> Part:
        return choose(self.kernel, condition, a, b) if a.values or b.values else NOTHING

    def _across_warps(self, at: int, before: dict[int, Part], totals: dict[int, Part]) -> None:
        """Totals of the warps of round `at` through shared memory; `before`, `totals` then speak of the program."""
        kernel, code = self.kernel, self.kernel.code
        kept = views.sliced(self.layout, self.axis)
        exchange = Exchange(kernel, self.op, kept, self.warp_bits, flagged=True)
        exchange.write([self._written(totals[r | at], r | at) for r in self.beside])
        place = self._warp_place()
        warps = range(1 << len(self.warp_bits))
        for number, r in enumerate(self.beside):
            prefix = everything = NOTHING
            for w in reversed(warps) if self.reverse else warps:
                part = exchange.read(w, number)
                earlier = code.icmp("ugt" if self.reverse else "ult", constant(I32, w), place)
                prefix = self._merge(prefix, only_where(kernel, earlier, part))
                everything = self._merge(everything, part)
            before[r | at] = self._merge(prefix, before[r | at])
            totals[r | at] = everything

    def _written(self, part: Part, register: int) -> Part:
        return part if part.values else self._anything(register)

    def _warp_place(self) -> LlvmValue:
        """This warp's number along the axis."""
        bases = [0] * (LANE_BITS + len(self.layout.bases(WARP)))
        for k, bit in enumerate(self.warp_bits):
            bases[LANE_BITS + bit] = 1 << k
        return self.kernel.code.combine(self.kernel.code.tid, bases)

