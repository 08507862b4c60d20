"""What the warps of a scan have together, through shared memory: one use of it for all rounds and rows.

An *entry* is what one warp has in one round, in the order of the scan.  Every warp's last lane writes its entries, and
every warp then makes of them what comes before its own.  Where the lanes all lie along the axis and there are more than
a few entries, the lanes take one each, scan them by doubling steps, and hand them out; else each thread combines them
one after the other.
Tests: tests/targets/nvidia/test_scan.py, and those of `scan`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod

from tilewright.ir.node import Op
from tilewright.ir.types import I1 as IR_I1
from tilewright.ir.types import element_of
from tilewright.layout import Layout, views
from tilewright.layout.linear import LANE, WARP
from tilewright.targets.llvm.types import I32, constant
from tilewright.targets.llvm.types import Value as LlvmValue
from tilewright.targets.nvidia.access import shared_address, shared_read, shared_run, shared_write
from tilewright.targets.nvidia.emit.code import LANE_BITS, WARP_LANES
from tilewright.targets.nvidia.lane_scan import LaneScan
from tilewright.targets.nvidia.partial import (
    NOTHING,
    Part,
    as_value,
    choose,
    is_idempotent,
    merge,
    only_where,
    shuffled,
)
from tilewright.targets.nvidia.picks import Region
from tilewright.targets.nvidia.scratch import scan_may_lack_elements
from tilewright.targets.nvidia.state import Kernel

_FEW = 4        # entries that a thread combines by itself: three steps, where lanes would take two and a shuffle


@dataclass(frozen=True)
class Along:
    """How a scan runs along its axis: the registers that begin its rows (`beside`) and, added to those, its `rounds`,
    in their order; the warps' bits; its lanes, if some lie along the axis; the number that changes nothing."""

    op: Op
    region: Region
    layout: Layout
    warp_bits: Sequence[int]
    beside: Sequence[int]
    rounds: Sequence[int]
    lanes: LaneScan | None
    neutral: LlvmValue | None


class Totals:
    """The entries of one scan; `totals` are what each warp's lanes have up to each of them, by round and row."""

    def __init__(self, kernel: Kernel, along: Along, totals: Mapping[int, Part]) -> None:
        self._kernel, self._along, self._totals = kernel, along, totals
        self._region, self._reverse = along.region, bool(along.op.attrs["reverse"])
        self._warps = 1 << len(along.warp_bits)
        self._entries = self._warps * len(along.rounds)
        self._beside = views.sliced(along.layout, along.op.attrs["axis"])
        self._rows = prod(self._beside.shape)
        self._flagged = scan_may_lack_elements(along.op)
        self._elements = [*(element_of(v.type) for v in along.op.operands), *([IR_I1] if self._flagged else [])]
        self._scratch = kernel.shared.begin(along.op)
        assert self._scratch.arrays == len(self._elements)

    def before(self) -> dict[int, Part]:
        """What comes before this warp's part of each round, in each row."""
        self._write()
        by_lanes = self._entries > _FEW and not self._flagged and self._lies_in_lanes()
        found: dict[int, Part] = {}
        for number, r in enumerate(self._along.beside):
            parts = self._by_lanes(number) if by_lanes else self._one_by_one(number)
            found.update({r | h: part for h, part in zip(self._along.rounds, parts, strict=True)})
        return found

    # -- shared memory

    def _address(self, operand: int, index: LlvmValue) -> LlvmValue:
        return shared_address(self._kernel, self._scratch.array(operand), index, self._elements[operand].bytes)

    def _write(self) -> None:
        """Every warp's last lane, of those that replicate one another the first."""
        kernel, along, code = self._kernel, self._along, self._kernel.code
        place = code.op("mul", self._place(), constant(I32, self._rows))
        owner = code.thread_flag(self._replicating())
        if along.lanes is not None:
            owner = code.both(along.lanes.is_last(), owner)
        for number, r in enumerate(along.beside):
            index = code.op("add", code.index(self._beside, number), place)
            for k, h in enumerate(along.rounds):
                at = code.op("add", index, constant(I32, k * self._warps * self._rows))
                part = self._totals[r | h]
                values = part.values or [kernel.registers(v)[r | h] for v in along.op.operands]
                for operand, v in enumerate([*values, *([as_value(part.flag)] if self._flagged else [])]):
                    shared_write(kernel, self._address(operand, at), [v], self._elements[operand], owner)
        kernel.shared.meet()

    def _replicating(self) -> dict[str, int]:
        """The bits of lanes and warps that move neither along the axis nor beside it."""
        return {name: self._along.layout.free()[name] for name in (LANE, WARP)}

    def _place(self) -> LlvmValue:
        """This warp's number along the axis, in the order of the scan."""
        bases = [0] * (LANE_BITS + len(self._beside.bases(WARP)))
        for k, bit in enumerate(self._along.warp_bits):
            bases[LANE_BITS + bit] = 1 << k
        place = self._kernel.code.of_thread(tuple(bases))
        return self._kernel.code.op("xor", place, constant(I32, self._warps - 1)) if self._reverse else place
    def _read(self, entry: LlvmValue, number: int) -> Part:
        kernel = self._kernel
        code = kernel.code
        index = code.op("add", code.index(self._beside, number), code.op("mul", entry, constant(I32, self._rows)))
        found = [shared_read(kernel, self._address(k, index), e) for k, e in enumerate(self._elements)]
        return Part(tuple(found[:-1]), found[-1]) if self._flagged else Part(tuple(found))

    def _read_all(self, number: int) -> list[Part]:
        """The entries of a row; many in one instruction where they are neighbours."""
        if self._rows > 1 or self._flagged:
            return [self._read(constant(I32, e), number) for e in range(self._entries)]
        found = [shared_run(self._kernel, self._address(k, constant(I32, 0)), e, self._entries)
                 for k, e in enumerate(self._elements)]
        return [Part(values) for values in zip(*found, strict=True)]

    # -- one after the other

    def _one_by_one(self, number: int) -> list[Part]:
        code, place = self._kernel.code, self._place()
        so_far, found = NOTHING, list[Part]()
        for e, part in enumerate(self._read_all(number)):
            k, w = divmod(e, self._warps)
            if not w:
                found.append(so_far)
            else:
                reached = code.icmp("uge", place, constant(I32, w))
                found[k] = (choose(self._kernel, reached, so_far, found[k]) if found[k].values else
                            only_where(self._kernel, reached, so_far))
            if e + 1 < self._entries:
                so_far = merge(self._kernel, self._region, so_far, part)
        return found

    # -- by lanes

    def _lies_in_lanes(self) -> bool:
        """Whether a warp's lanes have nothing to do but one row after the other."""
        return not any(self._beside.bases(LANE)) and not any(self._beside.bases(WARP))

    def _by_lanes(self, number: int) -> list[Part]:
        """Lane i takes the entry before number i, so that a scan gives what comes before each."""
        kernel, code, place = self._kernel, self._kernel.code, self._place()
        group = min(self._entries, WARP_LANES)
        lanes = LaneScan(kernel, self._region, range(group.bit_length() - 1), False)
        scanned: list[Part] = []
        for start in range(0, self._entries, WARP_LANES):
            part = lanes.scanned(self._entry_before(start, number))
            if scanned:
                last = shuffled(kernel, "shuffle_from", scanned[-1], constant(I32, WARP_LANES - 1))
                part = merge(kernel, self._region, last, part)
            scanned.append(part)
        found = []
        for k in range(len(self._along.rounds)):
            chunk, first = divmod(k * self._warps, WARP_LANES)
            part = shuffled(kernel, "shuffle_from", scanned[chunk], code.op("add", place, constant(I32, first)))
            part = Part(part.values)
            found.append(part if k else only_where(kernel, code.icmp("ne", place, constant(I32, 0)), part))
        return found

    def _entry_before(self, start: int, number: int) -> Part:
        """The entry before number `start` + lane.  The first one has none: it gets the number that changes nothing, or
        what it may be combined with any number of times, the first entry, or nothing at all."""
        code = self._kernel.code
        lane = code.op("and", code.tid, constant(I32, WARP_LANES - 1))
        before = code.op("and", code.op("add", lane, constant(I32, start - 1)), constant(I32, self._entries - 1))
        if start:
            return self._read(before, number)
        has_one = code.icmp("ne", lane, constant(I32, 0))
        if self._along.neutral is None and is_idempotent(self._region):
            return self._read(code.select(has_one, before, constant(I32, 0)), number)
        part = self._read(before, number)
        if self._along.neutral is not None:
            return Part((code.select(has_one, part.values[0], self._along.neutral),))
        return only_where(self._kernel, has_one, part)
