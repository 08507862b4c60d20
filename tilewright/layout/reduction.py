"""How a reduction or a scan along one axis runs over registers, lanes and warps.

A layout may mix the axis with other dims in one basis (a swizzle) and may hold copies, so everything is asked of the
map pi that drops the axis: places with the same image under pi hold elements of one row.  A direction in which pi stays
the same leads to another part of the row, unless the place there holds what has been combined already; then it is left
out, so that every element counts once, copies or not.  Partners exchange in both directions, and all of them have the
result.  Tests: tests/layout/test_reduction.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from tilewright.layout import f2
from tilewright.layout.linear import BLOCK, LANE, REGISTER, WARP, Layout, log2, unpack
from tilewright.layout.route import LEVELS, live_registers
from tilewright.layout.views import sliced


@dataclass(frozen=True)
class Partner:
    """Where the other half of what is to be combined is: every number is an xor with the own one."""

    register: int       # of the partial results
    lane: int
    warp: int
    block: int


@dataclass(frozen=True)
class Reduction:
    """A reduction of `layout` along an axis, whose result has the layout `sliced(layout, axis)`."""

    registers: tuple[tuple[int, ...], ...]  # first: for each partial result, the value's registers that it combines
    lanes: tuple[Partner, ...]              # then: exchanges inside a warp, one after another (shuffles)
    warps: tuple[Partner, ...]              # then: between warps, all through shared memory at once
    blocks: tuple[Partner, ...]             # then: between blocks of a cluster
    copies: tuple[int, ...]                 # for each register of the result, the partial result that it is

    @property
    def partial_results(self) -> int:
        """How many each thread keeps."""
        return len(self.registers)

    @property
    def shuffles(self) -> int:
        """How many each lane makes, for elements of up to 32 bits."""
        return len(self.registers) * len(self.lanes)

    @property
    def crosses_warps(self) -> bool:
        """Whether it takes shared memory and a barrier."""
        return bool(self.warps or self.blocks)


def reduction(layout: Layout, axis: int) -> Reduction:
    """The steps of a reduction along `axis`.

    Partial results of lanes are combined pairwise: value[r] with what the lane ^ `lane` has in value[r ^ `register`].
    Those of warps: the warp ^ (any sum of `warp`s), likewise with sums of `lane` and `register`.
    """
    return _reduction(layout, axis % len(layout.shape))


@lru_cache(maxsize=2048)
def _reduction(layout: Layout, axis: int) -> Reduction:
    live = live_registers(layout)
    value, row = live.layout, sliced(live.layout, axis, keep_registers=True)     # row: the map pi
    registers = row.bases(REGISTER)
    inside = f2.kernel(registers)           # directions along the axis inside a thread
    span, kept = f2.independent(registers)      # the register bits that number the partial results
    combined = f2.Span(f2.apply(value.bases(REGISTER), v) for v in inside)
    partial = tuple(tuple(sorted((live.numbers[f2.scatter(j, kept) ^ f2.apply(inside, k)]
                                  for k in range(1 << len(inside))), key=lambda r: layout(register=r)))
                    for j in range(1 << len(kept)))
    steps: dict[str, list[Partner]] = {LANE: [], WARP: [], BLOCK: []}
    for step, partner, element in _partners(value, row, kept):
        if combined.add(element):
            steps[step].append(partner)
    result = sliced(layout, axis)
    copies = tuple(span.coordinates(result(register=r)) for r in range(result.size(REGISTER)))
    return Reduction(partial, tuple(steps[LANE]), tuple(steps[WARP]), tuple(steps[BLOCK]), copies)


def _partners(value: Layout, row: Layout, kept: Sequence[int]) -> list[tuple[str, Partner, int]]:
    """(farthest input, partner, how far along the axis it is) for a basis of the places that hold parts of one row,
    those in the own warp first, then those in the own block."""
    images, elements = [row.bases(REGISTER)[i] for i in kept], [value.bases(REGISTER)[i] for i in kept]
    start = {REGISTER: 0}
    for name in LEVELS[1:]:
        start[name] = len(images)
        images += row.bases(name)
        elements += value.bases(name)
    out = []
    for v in f2.kernel(images):
        parts = {name: v >> start[name] & (1 << (len(kept) if name == REGISTER else len(value.bases(name)))) - 1
                 for name in LEVELS}
        farthest = max((name for name in LEVELS if parts[name]), key=LEVELS.index)
        out.append((farthest, Partner(*(parts[name] for name in LEVELS)), f2.apply(elements, v)))
    return sorted(out, key=lambda found: LEVELS.index(found[0]))


@dataclass(frozen=True)
class Segment:
    """Consecutive bits of a coordinate that lie in one input: bit i of the segment is bit `bits[i]` of the input."""

    input: str
    bits: tuple[int, ...]


def axis_segments(layout: Layout, axis: int) -> tuple[Segment, ...] | None:
    """The bits of the coordinate along `axis` from the lowest up, as runs in registers, lanes and warps.

    A scan goes through them: within a run of registers one after another, over a run of lanes by shuffles of the
    runs' totals, over warps through memory.  None if some bit of the coordinate is no single bit of a place that tells
    nothing else: then the scan needs another layout (`scannable`).  Copies take part in nothing: they scan the same.
    """
    axis %= len(layout.shape)
    homes: dict[int, tuple[str, int]] = {}
    free = layout.free()
    for name, bases in layout.inputs:
        for i, b in enumerate(bases):
            coordinates = unpack(layout.shape, b)
            along = coordinates[axis]
            if not along:
                continue
            plain = along & along - 1 == 0 and not any(c for d, c in enumerate(coordinates) if d != axis)
            if not plain or free[name] >> i & 1 or along in homes:
                return None
            homes[along] = name, i
    runs: list[Segment] = []
    for k in range(log2(layout.shape[axis])):
        name, i = homes[1 << k]
        if runs and runs[-1].input == name:
            runs[-1] = Segment(name, (*runs[-1].bits, i))
        else:
            runs.append(Segment(name, (i,)))
    return tuple(runs)


def scannable(layout: Layout, axis: int, per_thread: int) -> Layout:
    """A layout of the same tile for a scan along `axis`: `per_thread` consecutive elements in registers, then lanes,
    then warps, the further ones in registers again; other dims get what lanes and warps are left.

    The number of lanes, warps and blocks stays.
    """
    axis %= len(layout.shape)
    stride = 1
    for s in layout.shape[axis + 1:]:
        stride *= s
    along = [stride << i for i in range(log2(layout.shape[axis]))]
    others = [1 << i for i in range(layout.bits) if 1 << i not in along]
    mine = min(log2(per_thread), len(along))
    registers, along = along[:mine], along[mine:]
    waiting = [*along, *others]
    bases: dict[str, list[int]] = {}
    for name in (LANE, WARP, BLOCK):
        if name in layout.names:
            count = len(layout.bases(name))
            bases[name] = [*waiting[:count], *([0] * (count - len(waiting)))]
            waiting = waiting[count:]
    return Layout.of(layout.shape, register=[*registers, *waiting], **bases)
