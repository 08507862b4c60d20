"""Layouts that some ops need for their code, made from the one that their operand has.

* `scan`: each bit of the scanned dimension belongs to one input alone, and upwards come registers, lanes, warps, then
  registers again; so a thread combines its run, the lanes combine runs, the warps combine those.
* `sort`: each bit of the last dimension belongs to one input alone.
* `split`: one register bit is the last dimension.
* `reduce`: lanes and warps either lie along the axis or beside it.

A layout that fits already is kept.  Tests: tests/targets/nvidia/test_passes.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from tilewright.ir.node import Op
from tilewright.ir.types import shape_of
from tilewright.layout import Layout, blocked, coalesced, views
from tilewright.layout.families import WARP_SIZE
from tilewright.layout.linear import LANE, REGISTER, WARP, log2, padded_shape

THREADS = (LANE, WARP)
_RANK = {REGISTER: 0, LANE: 1, WARP: 2}


def owners_of(layout: Layout, axis: int) -> list[tuple[str, int]] | None:
    """Which input's bit moves each bit of the coordinate along `axis`, lowest first.

    None if some basis moves more than one bit, or two bits that are not free move the same.
    """
    along = layout.coordinate(axis)
    found: dict[int, tuple[str, int]] = {}
    for name, bases in layout.inputs:
        for i, (whole, part) in enumerate(zip(bases, along.bases(name), strict=True)):
            if not part:
                continue
            if whole & whole - 1 or part in found:
                return None
            found[part] = (name, i)
    bits = [1 << k for k in range(log2(layout.shape[axis]))]
    return [found[b] for b in bits] if all(b in found for b in bits) else None


def beside_is_single(layout: Layout) -> bool:
    """Whether each lane and warp bit moves at most one bit, and no two move the same."""
    moved = [b for name in THREADS for b in layout.bases(name) if b]
    return all(b & b - 1 == 0 for b in moved) and len(set(moved)) == len(moved)


def _is_scannable(layout: Layout, axis: int) -> bool:
    owners = owners_of(layout, axis)
    if owners is None or not beside_is_single(layout):
        return False
    names = [name for name, _ in owners]
    while names and names[0] == REGISTER:
        names.pop(0)
    while names and names[-1] == REGISTER:
        names.pop()
    ranks = [_RANK[name] for name in names]
    lanes = [bit for name, bit in owners if name == LANE]
    return REGISTER not in names and ranks == sorted(ranks) and all(b == a + 1 for a, b in pairwise(lanes))


def scan_layout(given: Layout, shape: Sequence[int], axis: int, num_warps: int) -> Layout:
    """A layout for a scan along `axis`; `given` if it will do."""
    if _is_scannable(given, axis):
        return given
    sides = padded_shape(shape)
    rank = len(sides)
    order = [axis, *(d for d in reversed(range(rank)) if d != axis)]
    run = max(1, min(4, sides[axis] // 32))
    return coalesced(shape, run, num_warps, order)


def in_one_run(given: Layout, shape: Sequence[int], axis: int, num_warps: int) -> Layout | None:
    """A layout for a scan in which a thread's elements follow one another; None if they do so in `given`."""
    owners = owners_of(given, axis)
    if owners is None or REGISTER not in [name for name, _ in owners][1:] or owners[-1][0] != REGISTER:
        return None
    sides = padded_shape(shape)
    order = [axis, *(d for d in reversed(range(len(sides))) if d != axis)]
    found = coalesced(shape, min(sides[axis], given.size(REGISTER)), num_warps, order)
    return found if found != given else None


def sort_layout(given: Layout, shape: Sequence[int], num_warps: int) -> Layout:
    """A layout for sorting rows of the last dimension."""
    axis = len(shape) - 1
    if owners_of(given, axis) is not None and beside_is_single(given):
        return given
    return coalesced(shape, 1, num_warps)


def reduce_layout(given: Layout, shape: Sequence[int], axis: int, num_warps: int) -> Layout:
    """A layout for a reduction along `axis`; `given` if it will do."""
    return given if _is_reducible(given, axis) else coalesced(shape, 1, num_warps)


def _is_reducible(layout: Layout, axis: int) -> bool:
    return owners_of(layout, axis) is not None and beside_is_single(layout)


def split_layout(given: Layout, num_warps: int) -> Layout:
    """A layout in which a thread has both halves of the last dimension, of size 2."""
    if views.split_register(given) is not None:
        return given
    if len(given.shape) == 1:
        return blocked(given.shape, (2,), (WARP_SIZE,), (num_warps,), (0,))
    return views.joined(coalesced(given.shape[:-1], 1, num_warps))


def layout_for(op: Op, given: Layout, num_warps: int) -> Layout:
    """The layout in which `op` takes its operands, if they come in `given`; any will do for most ops."""
    shape = shape_of(op.operands[0].type)
    if op.name == "scan":
        return scan_layout(given, shape, op.attrs["axis"], num_warps)
    if op.name == "sort":
        return sort_layout(given, shape, num_warps)
    if op.name == "reduce":
        return reduce_layout(given, shape, op.attrs["axis"], num_warps)
    if op.name == "split":
        return split_layout(given, num_warps)
    return given


def within_warps(layout: Layout, axis: int) -> Layout | None:
    """A layout for a reduction in which fewer warps lie along the axis than in `layout`; None if there is none.

    Warps change places with registers that lie beside the axis, the highest first: those of vectors stay if they can.
    """
    along = layout.coordinate(axis)
    crossing = [i for i, b in enumerate(along.bases(WARP)) if b]
    beside = [i for i, b in enumerate(layout.bases(REGISTER)) if b and not along.bases(REGISTER)[i]]
    free = layout.free()
    if not crossing or not beside or free[WARP] or free[REGISTER]:
        return None
    registers, warps = list(layout.bases(REGISTER)), list(layout.bases(WARP))
    for i, j in zip(reversed(crossing), reversed(beside), strict=False):
        warps[i], registers[j] = registers[j], warps[i]
    found = layout.with_bases(register=registers, warp=warps)
    return found if _is_reducible(found, axis) else None
