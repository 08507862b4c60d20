"""What shape operations do to layouts when no data moves: slice, expand, transpose, reshape, join, split, broadcast.

Each takes the layout of one side and gives the layout of the other in which every thread already holds what it needs.
A value whose layout has fewer registers than the operation's other side (a slice, a broadcast) is read through
`keep_registers=True`: the same map with every register of the larger side, which `route.own_registers` turns into
register numbers.  Tests: tests/layout/test_views.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from math import prod

from tilewright.layout.linear import REGISTER, Layout, log2, padded_shape


def _without_idle_registers(layout: Layout, keep: bool) -> Layout:
    return layout if keep else layout.with_bases(register=[b for b in layout.bases(REGISTER) if b])


def _axis(layout: Layout, axis: int) -> int:
    rank = len(layout.shape)
    if not -rank <= axis < rank:
        raise ValueError(f"axis {axis} of a layout with {rank} dims")
    return axis % rank


def sliced(parent: Layout, axis: int, keep_registers: bool = False) -> Layout:
    """The layout of a reduction of `parent` along `axis`, which is also what `expand_dims` at `axis` and a broadcast
    turn into `parent`.  Lanes and warps along the axis replicate; registers along it fall away."""
    return _sliced(parent, _axis(parent, axis), keep_registers)


@lru_cache(maxsize=4096)
def _sliced(parent: Layout, axis: int, keep_registers: bool) -> Layout:
    shape = [s for d, s in enumerate(parent.shape) if d != axis]
    out = parent.relabel(shape, lambda c: [x for d, x in enumerate(c) if d != axis])
    return _without_idle_registers(out, keep_registers)


def squashed(layout: Layout, dims: Sequence[int], keep_registers: bool = False) -> Layout:
    """The layout of a value whose `dims` have size 1 and that is broadcast to `layout`."""
    return _squashed(layout, frozenset(_axis(layout, d) for d in dims), keep_registers)


@lru_cache(maxsize=4096)
def _squashed(layout: Layout, gone: frozenset[int], keep_registers: bool) -> Layout:
    shape = [1 if d in gone else s for d, s in enumerate(layout.shape)]
    out = layout.relabel(shape, lambda c: [0 if d in gone else x for d, x in enumerate(c)])
    return _without_idle_registers(out, keep_registers)


def broadcasted(layout: Layout, shape: Sequence[int]) -> Layout:
    """The layout of a value of `layout` after a broadcast to `shape` in place: each thread gets all the copies of
    what it holds, in new registers."""
    shape = padded_shape(shape)
    grown = [d for d, (a, b) in enumerate(zip(layout.shape, shape)) if a != b]
    if len(shape) != len(layout.shape) or any(layout.shape[d] != 1 for d in grown):
        raise ValueError(f"no broadcast from {layout.shape} to {shape}")
    wide = layout.relabel(shape, lambda c: c)
    new: list[int] = []
    for d in reversed(grown):
        low = sum(log2(s) for s in shape[d + 1:])
        new += [1 << low + i for i in range(log2(shape[d]))]
    return wide.with_bases(register=[*wide.bases(REGISTER), *new])


def expanded(layout: Layout, axis: int) -> Layout:
    """The layout after `expand_dims` at `axis`: a new dim of size 1, the same bases."""
    rank = len(layout.shape) + 1
    if not -rank <= axis < rank:
        raise ValueError(f"axis {axis} of a layout with {rank} dims")
    axis %= rank
    return Layout((*layout.shape[:axis], 1, *layout.shape[axis:]), layout.inputs)


def transposed(layout: Layout, order: Sequence[int]) -> Layout:
    """The layout after `permute(value, order)`: dim i of the result is dim order[i] of `layout`."""
    if sorted(order) != list(range(len(layout.shape))):
        raise ValueError(f"{tuple(order)} is no order of {len(layout.shape)} dims")
    return layout.relabel([layout.shape[d] for d in order], lambda c: [c[d] for d in order])


def inverse_order(order: Sequence[int]) -> tuple[int, ...]:
    """The order that undoes `order`."""
    return tuple(sorted(range(len(order)), key=lambda i: order[i]))


def reshapes_in_place(old: Sequence[int], new: Sequence[int]) -> bool:
    """Whether a reshape between two logical shapes keeps the padded row-major index of every element.

    It does if the two shapes split into groups of equal products in which all sides but the first are powers of two:
    then an index past the first side's size is past the tile's on both.
    """
    a, b = ([s for s in shape if s != 1] for shape in (old, new))
    while a and b:
        left, right = [a.pop(0)], [b.pop(0)]
        while prod(left) != prod(right):
            side, rest = (left, a) if prod(left) < prod(right) else (right, b)
            if not rest:
                return False
            side.append(rest.pop(0))
        if left != right and any(s & s - 1 for s in (*left[1:], *right[1:])):
            return False
    return not a and not b


def reshaped(layout: Layout, old: Sequence[int], new: Sequence[int]) -> Layout:
    """The layout after a reshape of a tile of logical shape `old` to `new`: the same bases.

    ValueError where padding moves elements (`reshapes_in_place`): such a value has to go through memory.
    """
    if padded_shape(old) != layout.shape:
        raise ValueError(f"a tile of shape {tuple(old)} has no layout of shape {layout.shape}")
    if not reshapes_in_place(old, new):
        raise ValueError(f"a reshape of {tuple(old)} to {tuple(new)} moves elements in the padded tile")
    return Layout(padded_shape(new), layout.inputs)


def joined(layout: Layout) -> Layout:
    """The layout of `join(x, y)` for x and y in `layout`: register bit 0 tells which of the two, along a last dim."""
    out = layout.map_bases((*layout.shape, 2), [b << 1 for b in layout.columns])
    return out.with_bases(register=(1, *out.bases(REGISTER)))


def split_register(layout: Layout) -> int | None:
    """The register bit that tells the halves of a last dim of size 2 apart; None if other bits take part in it."""
    if not layout.shape or layout.shape[-1] != 2 or sum(b & 1 for b in layout.columns) != 1:
        return None
    registers = layout.bases(REGISTER)
    return registers.index(1) if 1 in registers else None


def halved(layout: Layout) -> Layout:
    """The layout of both results of `split`; ValueError unless a register bit tells the halves apart."""
    bit = split_register(layout)
    if bit is None:
        raise ValueError(f"no register bit of {layout} is the last dim, of size 2")
    registers = layout.bases(REGISTER)
    rest = layout.with_bases(register=registers[:bit] + registers[bit + 1:])
    return rest.map_bases(layout.shape[:-1], [b >> 1 for b in rest.columns])
