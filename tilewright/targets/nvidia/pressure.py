"""How many programs an SM should hold at once: from the registers that a thread's tiles need at most.

Left to itself ptxas spends registers as if one program had the SM for itself, and a kernel that waits for memory then
runs at a fraction of the threads (affine + relu: 89 registers, 0.79 of the speed that 64 give; H200, ptxas 13.0,
2026-11-30).  So the least number of programs is set where the tiles leave plenty of room; index arithmetic and
addresses, which ptxas computes again at will, do not count.

Programs that reduce what they load wait for themselves, and others have to keep the memory busy meanwhile.  What such
a program holds while it waits is all that it needs for long; so as many are asked for as that leaves room for, up to
64 KiB of loads on an SM.  On an H200, 2026-11-30, GB/s: softmax of rows of 16384 fp32, 32 warps, 3453 -> 3962 with two
programs instead of one; layer norm of those 3345 -> 3920; softmax of 8192 bf16, 16 warps, 3389 -> 3762 with four
instead of three; no gain beyond 64 KiB, such as five programs instead of four for softmax of 8192 bf16, 8 warps.

Programs whose products of warpgroups take rows that are made in registers wait for each other's tensor cores, and so
many are asked for as their buffers and tiles leave room for (rows scaled, 128 x 128 x 64, 8 warps: two need 128 of 144
registers, without a spill; ptxas 13.0, 2026-12-01).  While a product of warpgroups is under way a thread needs
registers that no tile explains; no number of programs is asked for that leaves it fewer (`_multiplying`).
Tests: tests/targets/nvidia/test_pressure.py.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from math import ceil
from typing import NamedTuple

from tilewright.ir.layout_rules import layout_of
from tilewright.ir.node import Block, Module, Op, Value
from tilewright.ir.types import BF16, F16, I1, I8, I16, Pointer, Tile, element_of
from tilewright.ir.walk import ops_in
from tilewright.layout.linear import OFFSET, REGISTER
from tilewright.targets.nvidia import wgmma
from tilewright.targets.nvidia.capability import Capability
from tilewright.targets.nvidia.indices import index_values
from tilewright.targets.nvidia.passes.staging import buffer_bytes_of
from tilewright.targets.nvidia.registers import most_registers, programs_with

_LEAST = 40                 # registers of a thread, whatever its tiles need
_LEAST_WAITING = 32         # the same of a program that waits for itself: then two of 32 warps fit
_STEPS = 3                  # how many numbers of programs are tried above the usual one
_IN_FLIGHT = 64 << 10       # bytes of loads on an SM beyond which more programs gain nothing (`_busy`)
WAITS = frozenset({"reduce", "scan", "sort"})       # where a program's threads wait for one another
_KEEPS = frozenset({"scan", "sort"})                # of these, those whose threads keep their elements meanwhile
HOLDS = WAITS | {"dot", "warpgroup_dot"}            # where tiles cannot be made piece by piece
_SHARED, _SHARED_BESIDE = 228 << 10, 1 << 10    # bytes of an SM that has wgmma, and what each program takes besides
BESIDE_PRODUCTS = 15        # registers beside the tiles of a program that multiplies by warpgroups
# And beside what lives while a product of warpgroups is under way, at least: with one less ptxas serialises products
# (C7511, C7512) or spills, and with fewer than one instruction needs it refuses (C7602).  It is the same for all types
# and sides, steps and blocks, and whether sums are added to or not; A in registers is 4 more for each step and block
# (ptxas 13.0.88 for sm_90a, m64n8 to m64n256, 2026-12-01).
_BESIDE_MULTIPLYING = 26
_BESIDE = 16                # for addresses and what is in between, where a program has an SM for itself
_WORD = 4                   # bytes of a register
_WIDENING, _CHEAP = frozenset({"fp_ext", "ext_s", "ext_u"}), frozenset({BF16, F16, I8, I16})
_NAMES = frozenset({"iota", "splat", "expand_dims", "broadcast"})      # what they give are other values' registers


def programs_per_sm(module: Module, num_warps: int, capability: Capability) -> int:
    """How many programs of a laid-out module shall fit on an SM, at least."""
    return counts_of_programs(module, num_warps, capability)[0]


def counts_of_programs(module: Module, num_warps: int, capability: Capability,
                       indices: Set[Value] | None = None) -> list[int]:
    """The same, and behind it what to be content with, one after the other, where registers then do not suffice.

    `indices` are the module's `index_values`, where they are known.
    """
    pressure = _Pressure(module, indices)
    need, busy = pressure.most(), _busy(module)
    multiplying = _multiplying(module, pressure, num_warps, capability)

    def room(registers: int, least: int = _LEAST) -> int:
        return programs_with(max(registers, least, multiplying), num_warps, capability)

    usual = room(need + need // 2 + _BESIDE)        # with addresses and what is in between
    if busy == 1 and any(_takes_rows(op) for op in ops_in(module.entry.body)):
        more = min(room(need + BESIDE_PRODUCTS), _by_buffers(module))
        return sorted({max(usual, more), usual, 1}, reverse=True)
    crowded = busy if busy == 1 else min(room(pressure.most_waiting() + _BESIDE, _LEAST_WAITING), busy)
    if any(map(_reads_shared, ops_in(module.entry.body))):
        crowded = min(crowded, _by_buffers(module))
    between = range(max(usual, crowded - _STEPS) + 1, crowded)
    return sorted({max(usual, crowded), *between, usual, 1}, reverse=True)


def programs_of_products(module: Module, num_warps: int, capability: Capability, beside: int) -> int:
    """How many programs of a laid-out module, which multiplies by warpgroups in loops, have room on an SM: its tiles'
    registers and `beside` of them, and its buffers."""
    pressure = _Pressure(module)
    multiplying = _multiplying(module, pressure, num_warps, capability)
    registers = max(pressure.most() + beside, _LEAST, multiplying)
    return min(programs_with(registers, num_warps, capability), _by_buffers(module))


def _multiplying(module: Module, pressure: _Pressure, num_warps: int, capability: Capability) -> int:
    """The registers that a thread needs while products of warpgroups are under way; 0 without such."""
    products: dict[Op, Value | None] = {}
    for op in ops_in(module.entry.body) if capability.wgmma else ():
        product = wgmma.of(op, capability, num_warps) if op.name in ("dot", "warpgroup_dot") else None
        if product is not None:
            left = op.operands[0]
            layout = layout_of(left)
            products[op] = left if not wgmma.is_shared(layout) and product.takes(layout, capability) else None
    return pressure.most_multiplying(products) + _BESIDE_MULTIPLYING if products else 0


def _reads_shared(op: Op) -> bool:
    """Whether `op` is a product that reads shared memory: one of warpgroups."""
    return op.name in ("dot", "warpgroup_dot") and layout_of(op.operands[1]).names == (OFFSET,)


def _takes_rows(op: Op) -> bool:
    """Whether `op` is such a product whose left operand is in registers."""
    return _reads_shared(op) and layout_of(op.operands[0]).names != (OFFSET,)


def _by_buffers(module: Module) -> int:
    """How many programs have room for their buffers in the shared memory of an SM, at least 1."""
    return max(1, _SHARED // (buffer_bytes_of(module) + _SHARED_BESIDE))


def fits(module: Module, num_warps: int) -> bool:
    """Whether a thread can hold its tiles while it waits, if an SM runs one program of a laid-out module."""
    return _Pressure(module).most_waiting() + _BESIDE <= most_registers(num_warps)


def registers_held(module: Module) -> int:
    """The most registers of a thread that tiles of a laid-out module take where they have to exist as a whole.

    A tile between elementwise ops does not count: it is made piece by piece (1,048,576 elements in 4 warps, stored as
    they are loaded: 8192 a thread, and none of them spilled).
    """
    return _Pressure(module).most_held()


def _busy(module: Module) -> int:
    """How many programs keep memory busy while some of them wait in their reductions; 1 if a program never waits, or
    has loops that do not wait: their iterations overlap by themselves."""
    ops = module.entry.body.ops
    loops = [op for op in ops if op.name in ("for", "while")]
    if not loops:
        return _beside(ops) if any(op.name in WAITS for op in ops) else 1
    bodies = [loop.regions[-1] for loop in loops]
    if not all(any(op.name in WAITS for op in body.ops) for body in bodies):
        return 1
    return max(_beside(body.ops) for body in bodies)


def _beside(ops: Sequence[Op]) -> int:
    """How many programs at `ops` have enough loads on their way while they wait."""
    loaded = 0
    for op in ops:
        if op.name in WAITS:
            break
        if op.name == "load" and isinstance(op.result.type, Tile):
            loaded += op.result.type.numel * op.result.type.element.bytes
    return max(2, -(-_IN_FLIGHT // max(loaded, 1)))


def widens(op: Op) -> bool:
    """Whether `op` only makes the elements of a tile wider, in an instruction for each: then every op that takes its
    result does so anew (`elementwise`), and nothing holds it."""
    if op.name not in _WIDENING or not isinstance(op.result.type, Tile):
        return False
    source, target = element_of(op.operands[0].type), element_of(op.result.type)
    return source in _CHEAP and target.bytes == _WORD


class _Moment(NamedTuple):
    """An op, and the registers of what lives behind, across and before it; `live` are the values across it, until the
    next moment is asked for."""

    op: Op
    behind: int
    across: int
    before: int
    live: Set[Value]


class _Pressure:
    """Live tiles, in registers."""

    def __init__(self, module: Module, indices: Set[Value] | None = None) -> None:
        body = self._body = module.entry.body
        free = {r for op in ops_in(body) if op.name in _NAMES for r in op.results}
        for op in ops_in(body):
            if op.row.elementwise and op.row.is_pure and len(op.operands) == 1 and op.operands[0] in free:
                free.update(op.results)         # one number for all that a broadcast repeats
        self._free = free | (index_values(module) if indices is None else indices)
        self._sizes: dict[Value, int] = {}
        self._source = {op.result: op.operands[0] for op in ops_in(body) if widens(op) and op.result not in self._free}
        self._packed: set[Value] = set()
        self._find_packed(body)

    def _find_packed(self, block: Block) -> None:
        """The tiles that are several elements to a register: as they were loaded."""
        for op in block.ops:
            if op.name == "load":
                self._packed.update(op.results)
            if _takes_rows(op):     # they come in pairs
                self._packed.add(op.operands[0])
            if op.name == "for":
                self._pass_on(op.operands[3:], op.regions[0].args[1:])
            for region in op.regions:
                self._find_packed(region)
            if op.name == "if":
                self._pass_on(op.regions[0].terminator.operands, op.results)

    def _pass_on(self, sources: Iterable[Value], values: Iterable[Value]) -> None:
        self._packed.update(v for s, v in zip(sources, values, strict=True) if s in self._packed)

    def most(self) -> int:
        """The most registers that tiles take at once."""
        return max((max(m.behind, m.across, m.before) for m in self._moments(self._body, ())), default=0)

    def most_waiting(self) -> int:
        """The same across an op in which a program's threads wait for one another, one of `WAITS`; of scans and sorts
        with their tiles, of which a thread has scanned or sorted its own while it waits."""
        return max((max(m.behind, m.across, m.before) if m.op.name in _KEEPS else m.across
                    for m in self._moments(self._body, ()) if m.op.name in WAITS), default=0)

    def most_held(self) -> int:
        """The same before or behind one of `HOLDS`."""
        return max((max(m.behind, m.across, m.before) for m in self._moments(self._body, ()) if m.op.name in HOLDS),
                   default=0)

    def most_multiplying(self, products: Mapping[Op, Value | None]) -> int:
        """The same while one of `products` is under way, which also holds the operand that it has in registers."""
        return max((m.behind + (0 if (operand := products[m.op]) is None or operand in m.live else
                                self._size([operand]))
                    for m in self._moments(self._body, ()) if m.op in products), default=0)

    def _moments(self, block: Block, behind: Iterable[Value]) -> Iterator[_Moment]:
        """What each op of `block` has around it, the last one first, if the values `behind` are needed after it."""
        live = {*behind, *self._held(block.terminator.operands)} if block.ops else set(behind)
        size = self._size(live)
        for op in reversed(block.ops):
            size_behind = size
            for result in op.results:
                if result in live:
                    live.remove(result)
                    size -= self._sizes[result]
            for region in op.regions:
                yield from self._moments(region, live)
            needed = {*self._held(op.operands), *(v for r in op.regions for v in self._held(_outer(r)))} - live
            before = size + self._size(needed)
            yield _Moment(op, size_behind, size, before, live)
            live |= needed
            size = before

    def _held(self, values: Iterable[Value]) -> Iterator[Value]:
        """What is kept for these: the narrow tile for a widened one."""
        return (self._source.get(v, v) for v in values)

    def _size(self, live: Iterable[Value]) -> int:
        sizes = self._sizes
        total = 0
        for value in live:
            size = sizes.get(value)
            if size is None:
                size = sizes[value] = self._registers(value)
            total += size
        return total

    def _registers(self, value: Value) -> int:
        t = value.type
        if not isinstance(t, Tile) or t.layout is None or isinstance(t.element, Pointer) or t.element == I1 or (
                value in self._free):
            return 0
        count = layout_of(value).size(REGISTER)
        return ceil(count * t.element.bytes / _WORD) if value in self._packed else count * ceil(t.element.bytes / _WORD)


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
