"""Reductions: in registers, then between the lanes of a warp by shuffles, then between warps through shared memory.

The result is in every thread that the slice of the operand's layout names, the same bits in all of them: where the
region is not known to be commutative, the lower lane's value is the left one.  Padding takes no part.
Before: a layout as `passes.special.reduce_layout` makes it.  Tests: tests/lang and tests/conform, on the engine ptx.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from tilewright.ir.layout_rules import layout_of
from tilewright.ir.node import Op
from tilewright.ir.types import I1 as IR_I1
from tilewright.ir.types import Tile, element_of, shape_of
from tilewright.layout import Layout, views
from tilewright.layout.linear import LANE, WARP
from tilewright.targets.llvm.identities import identity_constant
from tilewright.targets.llvm.types import I32, constant
from tilewright.targets.llvm.types import Value as LlvmValue
from tilewright.targets.nvidia.access import shared_address, shared_read, shared_run, shared_write
from tilewright.targets.nvidia.packed import Narrow
from tilewright.targets.nvidia.partial import (
    Part,
    across_lanes,
    as_value,
    choose,
    commutes,
    instruction_of,
    merge,
    merge_all,
    shuffled,
)
from tilewright.targets.nvidia.picks import Region
from tilewright.targets.nvidia.scratch import rows_of
from tilewright.targets.nvidia.state import Kernel

_MANY_WARPS = 16        # reading 8 totals takes less time than one and three shuffles, if one instruction combines two
_MANY_MERGES = 8        # the same where it takes several


def reduce(kernel: Kernel, op: Op) -> None:
    """A `reduce` of one or more tiles along an axis."""
    layout, axis = layout_of(op.operands[0]), op.attrs["axis"]
    region = Region(kernel, op)
    totals = [_of_registers(kernel, op, layout, row) for row in rows_of(layout, axis)]
    lanes = [i for i, b in enumerate(layout.coordinate(axis).bases(LANE)) if b]
    totals = [_across_lanes(kernel, region, total, lanes) for total in totals]
    totals = _across_warps(kernel, op, region, totals, views.sliced(layout, axis))
    for k, value in enumerate(op.results):
        kernel.bind(value, [total.values[k] for total in totals])


def _of_registers(kernel: Kernel, op: Op, layout: Layout, row: Sequence[int]) -> Part:
    """The total of some registers of each thread."""
    neutral, axis = identity_constant(op), op.attrs["axis"]
    whole = all(flag_of(kernel, op, layout, register) is True for register in row)
    narrow = Narrow.of(kernel, op) if len(row) > 2 and whole else None
    if narrow is not None:
        return Part((narrow.extremum(row),))
    region, along = Region(kernel, op, ordered=True), layout.coordinate(axis)
    if region.rises:
        row = sorted(row, key=lambda register: along(register=register))
    parts = [part_of(kernel, op, layout, register) for register in row]
    return merge_all(kernel, region, [_filled(kernel, part, neutral) for part in parts])


def part_of(kernel: Kernel, op: Op, layout: Layout, register: int) -> Part:
    """The operands' elements in `register`; absent where it lies past the end of the axis."""
    flag = flag_of(kernel, op, layout, register)
    return Part((), False) if flag is False else Part(tuple(kernel.registers(v)[register] for v in op.operands), flag)


def flag_of(kernel: Kernel, op: Op, layout: Layout, register: int) -> LlvmValue | bool:
    """Whether `register` lies before the end of the axis."""
    axis, shape = op.attrs["axis"], shape_of(op.operands[0].type)
    flag: LlvmValue | bool = True
    for bound in layout.padding(shape):
        if bound.dim == axis:
            known = bound.test(register)
            place = kernel.code.index(bound.coordinate, register)
            flag = known if known is not None else kernel.code.icmp("ult", place, constant(I32, bound.limit))
    return flag


def _filled(kernel: Kernel, part: Part, neutral: LlvmValue | None) -> Part:
    """A part that always counts: `neutral`, if there is such a number, in the place of what does not."""
    if neutral is None or isinstance(part.flag, bool):
        return part
    return Part(tuple(kernel.code.select(part.flag, v, neutral) for v in part.values))


def lane_flag(kernel: Kernel, bit: int) -> LlvmValue:
    """Whether bit `bit` of the thread's number is set."""
    code = kernel.code
    return code.icmp("ne", code.op("and", code.tid, constant(I32, 1 << bit)), constant(I32, 0))


def _across_lanes(kernel: Kernel, region: Region, total: Part, bits: Sequence[int]) -> Part:
    name = instruction_of(region)
    if name is not None and bits and total.flag is True:
        return Part((across_lanes(kernel, name, total.values[0], bits),))
    for bit in bits:
        other = shuffled(kernel, "shuffle_xor", total, constant(I32, 1 << bit))
        if commutes(region) or region.is_symmetric:
            total = merge(kernel, region, total, other)
        else:
            upper = lane_flag(kernel, bit)
            total = merge(kernel, region, choose(kernel, upper, other, total), choose(kernel, upper, total, other))
    return total


def _across_warps(kernel: Kernel, op: Op, region: Region, totals: list[Part], result: Layout) -> list[Part]:
    """Every warp's totals to scratch; every thread combines those that it needs.

    Of many warps each lane takes one total, and the lanes of a warp combine them, in the same order: where these lanes
    all want the same result.
    """
    axis = op.attrs["axis"]
    along = layout_of(op.operands[0]).coordinate(axis).bases(WARP)
    bits = [i for i, b in enumerate(along) if b]
    if not bits:
        return totals
    exchange = Exchange(kernel, op, result, bits, any(not isinstance(t.flag, bool) for t in totals))
    exchange.write(totals)
    many = _MANY_MERGES if instruction_of(region) is None else _MANY_WARPS
    if 1 << len(bits) >= many and not any(result.bases(LANE)[:len(bits)]):
        lane = kernel.code.op("and", kernel.code.tid, constant(I32, (1 << len(bits)) - 1))
        return [_across_lanes(kernel, region, exchange.read(lane, r), range(len(bits)))
                for r in range(len(totals))]
    return [merge_all(kernel, region, exchange.read_all(r)) for r in range(len(totals))]


class Exchange:
    """Partial results of warps in scratch of `op`: for each operand an array [warp along the axis, index beside it].

    `beside` is the layout of the results; warp bits `bits` tell the warps along the axis apart, in order.
    """

    def __init__(self, kernel: Kernel, op: Op, beside: Layout, bits: Sequence[int], flagged: bool) -> None:
        self._kernel, self._beside = kernel, beside
        self._elements = [*(element_of(v.type) for v in op.operands), *([IR_I1] if flagged else [])]
        self._flagged = flagged
        self._rows = prod(beside.shape)
        warps = list(beside.bases(WARP))
        for k, bit in enumerate(bits):
            warps[bit] = self._rows << k
        self._layout = Layout((1 << len(bits), *beside.shape), tuple(
            (name, tuple(warps) if name == WARP else bases) for name, bases in beside.inputs))
        self._scratch = kernel.shared.begin(op)
        assert self._scratch.arrays == len(self._elements)

    def _address(self, operand: int, index: LlvmValue) -> LlvmValue:
        return shared_address(self._kernel, self._scratch.array(operand), index, self._elements[operand].bytes)

    def write(self, parts: Sequence[Part]) -> None:
        """All registers' parts, each once; then they are there for all threads."""
        kernel, free = self._kernel, self._layout.free()
        owner = kernel.code.thread_flag(dict(free))
        for register, part in enumerate(parts):
            index = kernel.code.index(self._layout, register)
            values = [*part.values, *([as_value(part.flag)] if self._flagged else [])]
            for k, v in enumerate(values):
                shared_write(kernel, self._address(k, index), [v], self._elements[k], owner)
        kernel.shared.meet()

    def read_all(self, register: int) -> list[Part]:
        """The parts of `register` from all warps along the axis; many in one instruction where they are neighbours."""
        warps = self._layout.shape[0]
        if self._rows > 1 or self._flagged:
            return [self.read(j, register) for j in range(warps)]
        found = [shared_run(self._kernel, self._address(k, constant(I32, 0)), e, warps)
                 for k, e in enumerate(self._elements)]
        return [Part(values) for values in zip(*found, strict=True)]

    def read(self, warp: int | LlvmValue, register: int) -> Part:
        """The part of `register` from warp number `warp` along the axis."""
        kernel = self._kernel
        code, rows = kernel.code, constant(I32, self._rows)
        start = constant(I32, warp * self._rows) if isinstance(warp, int) else code.op("mul", warp, rows)
        index = code.op("add", code.index(self._beside, register), start)
        found = [shared_read(kernel, self._address(k, index), e) for k, e in enumerate(self._elements)]
        return Part(tuple(found[:-1]), found[-1]) if self._flagged else Part(tuple(found))


def map_elements(kernel: Kernel, op: Op) -> None:
    """The region's results for each element."""
    rows = [kernel.combine(op.regions[0], args)
            for args in zip(*(kernel.registers(v) for v in op.operands), strict=True)]
    for k, value in enumerate(op.results):
        kernel.bind(value, [row[k] for row in rows])
    assert all(isinstance(v.type, Tile) for v in op.results)
