"""How many programs an SM should hold at once: from the registers that a thread's tiles need at most.

Left to itself ptxas spends registers as if one program had the SM for itself, and a kernel that waits for memory then
runs at a fraction of the threads (affine + relu: 89 registers, 0.79 of the speed that 64 give; H200, ptxas 13.0,
2026-11-30).  So the least number of programs is set where the tiles leave plenty of room; index arithmetic and
addresses, which ptxas computes again at will, do not count.  Tests: tests/targets/nvidia/test_pressure.py.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import ceil

from tilewright.ir.layout_rules import layout_of
from tilewright.ir.node import Block, Module, Op, Value
from tilewright.ir.types import I1, Pointer, Tile
from tilewright.ir.walk import ops_in
from tilewright.layout.linear import REGISTER
from tilewright.targets.nvidia.indices import index_values

_FILE = 1 << 16         # 32-bit registers of an SM (CUDA C++ Programming Guide, technical specifications)
_MOST_PROGRAMS = 32     # that an SM holds
_LEAST, _MOST = 40, 255     # registers of a thread, whatever its tiles need; an instruction names at most 255
_GRANULE = 8                # they are given out in eights
_NAMES = frozenset({"iota", "splat", "expand_dims", "broadcast"})      # what they give are other values' registers


def programs_per_sm(module: Module, num_warps: int) -> int:
    """How many programs of a laid-out module shall fit on an SM, at least."""
    need = _Pressure(module).of(module.entry.body)
    wanted = need + need // 2 + 16      # with addresses and what is in between
    limit = min(max(_LEAST, -(-wanted // _GRANULE) * _GRANULE), _MOST)
    return min(max(1, _FILE // (limit * 32 * num_warps)), _MOST_PROGRAMS)


def most_registers(num_warps: int) -> int:
    """What a thread can have if its program is alone on an SM."""
    return min(_FILE // (32 * num_warps), _MOST)


class _Pressure:
    def __init__(self, module: Module) -> None:
        self._free = index_values(module) | {
            r for op in ops_in(module.entry.body) if op.name in _NAMES for r in op.results}

    def of(self, block: Block, behind: Iterable[Value] = ()) -> int:
        """The most registers that tiles take at once in `block`, if the values `behind` are needed after it."""
        live = {*behind, *block.terminator.operands} if block.ops else set(behind)
        most = self._size(live)
        for op in reversed(block.ops):
            live.difference_update(op.results)
            for region in op.regions:
                most = max(most, self.of(region, live))
            live.update(op.operands)
            for region in op.regions:
                live.update(_outer(region))
            most = max(most, self._size(live))
        return most

    def _size(self, live: Iterable[Value]) -> int:
        return sum(self._registers(v) for v in live)

    def _registers(self, value: Value) -> int:
        t = value.type
        if not isinstance(t, Tile) or t.layout is None or isinstance(t.element, Pointer) or t.element == I1 or (
                value in self._free):
            return 0
        return layout_of(value).size(REGISTER) * ceil(t.element.bytes / 4)


def _outer(block: Block) -> set[Value]:
    """What a region uses from outside of it."""
    own, used = set(block.args), set[Value]()

    def visit(op: Op) -> None:
        used.update(op.operands)
        own.update(op.results)
        for region in op.regions:
            used.update(_outer(region))

    for op in block.ops:
        visit(op)
    return used - own
