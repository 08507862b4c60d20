"""Where each place of one layout finds its element in another: the linear map R with src after R = dst.

Where an element has several places in `src` the nearest is taken, basis by basis: the thread's own registers, else its
warp, else its block.  So replication needs no rule of its own anywhere.  Nothing is decided about instructions here.
Tests: tests/layout/test_route.py.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from functools import lru_cache

from tilewright.layout import f2
from tilewright.layout.linear import BLOCK, LANE, REGISTER, WARP, Bases, Layout

LEVELS = (REGISTER, LANE, WARP, BLOCK)      # from near to far


class Reach(enum.IntEnum):
    """How far data travels in a conversion."""

    PLACE = 0       # every element already is in the right register
    THREAD = 1      # from register to register
    WARP = 2
    BLOCK = 3       # between warps
    CLUSTER = 4     # between blocks


@dataclass(frozen=True)
class Source:
    """Where a destination's place finds its element: each field is the sum over the place's bits.

    `register`, `lane`, `warp`, `block` map the bits of the flattened destination index to those of the source's.
    """

    register: Bases
    lane: Bases
    warp: Bases
    block: Bases


@dataclass(frozen=True)
class LiveRegisters:
    """A layout without the register bits that only replicate.

    `numbers[i]` is the register, in the whole layout, of live register i; `index[r]` is the live register that holds
    what register r holds.  A register bit is replicated by registers before it, so this is the same in all threads.
    """

    layout: Layout
    numbers: Bases
    index: Bases


def route(src: Layout, dst: Layout) -> Layout:
    """The linear map from dst's flattened hardware index to src's; its shape is src's inputs, the last first.

    ValueError if the layouts are of different tiles, if `src` does not hold the whole tile, or if lanes, warps or
    blocks are not the same in number.
    """
    return _route(src, dst)


@lru_cache(maxsize=4096)
def _route(src: Layout, dst: Layout) -> Layout:
    if src.shape != dst.shape or not src.is_surjective():
        raise ValueError(f"no way from {src} to {dst}")
    for name in LEVELS[1:]:
        if src.size(name) != dst.size(name):
            raise ValueError(f"{src} and {dst} are of different launches: "
                             f"{src.size(name)} and {dst.size(name)} {name}s")
    start: dict[str, int] = {}
    spans = []
    at = 0
    for name, bases in src.inputs:
        start[name] = at
        at += len(bases)
    for k in range(len(LEVELS)):        # what levels 0..k reach, and by which bits
        columns = [(start[n] + i, b) for n in LEVELS[:k + 1] for i, b in enumerate(src.bases(n))]
        span, independent = f2.independent([b for _, b in columns])
        spans.append((span, [columns[i][0] for i in independent]))
    images = [_image(src, start, spans, name, i, b) for name, bases in dst.inputs for i, b in enumerate(bases)]
    return dst.map_bases(tuple(1 << len(b) for _, b in reversed(src.inputs)), images)


def _image(src: Layout, start: dict[str, int], spans: list[tuple[f2.Span, list[int]]], name: str, bit: int,
           basis: int) -> int:
    """The nearest place in `src` for one basis of dst: bit `bit` of input `name`."""
    own = LEVELS.index(name)
    for k, (span, place) in enumerate(spans):
        stays = k < own     # this input is not yet among those that the span moves, so its own bit goes along
        rest = basis ^ (src.bases(name)[bit] if stays else 0)
        if rest in span:
            return f2.scatter(span.coordinates(rest), place) | (1 << start[name] + bit if stays else 0)
    raise AssertionError(f"{src} holds the whole tile")


@lru_cache(maxsize=4096)
def source(src: Layout, dst: Layout) -> Source:
    """`route`, taken apart by the source's inputs."""
    columns, parts, at = route(src, dst).columns, {}, 0
    for name, bases in src.inputs:
        parts[name] = tuple(c >> at & (1 << len(bases)) - 1 for c in columns)
        at += len(bases)
    none = (0,) * len(columns)
    return Source(*(parts.get(name, none) for name in LEVELS))


@lru_cache(maxsize=4096)
def reach(src: Layout, dst: Layout) -> Reach:
    """How far the data of a conversion travels."""
    path, found, at = source(src, dst), Reach.PLACE, 0
    for name, bases in dst.inputs:
        for i in range(len(bases)):
            for level, images in ((Reach.CLUSTER, (BLOCK, path.block)), (Reach.BLOCK, (WARP, path.warp)),
                                  (Reach.WARP, (LANE, path.lane)), (Reach.THREAD, (REGISTER, path.register))):
                kind, columns = images
                if columns[at + i] != (1 << i if name == kind else 0):
                    found = max(found, level)
                    break
        at += len(bases)
    if found is Reach.PLACE and len(src.bases(REGISTER)) != len(dst.bases(REGISTER)):
        return Reach.THREAD
    return found


def own_registers(src: Layout, dst: Layout) -> tuple[int, ...] | None:
    """For each register of `dst` the register of the same thread in `src` that holds the same, if that is so in every
    thread; None otherwise.  This is how shape operations (`views`, `keep_registers=True`) read their operand."""
    if reach(src, dst) > Reach.THREAD:
        return None
    path, count = source(src, dst), len(dst.bases(REGISTER))
    at = 0
    for name, bases in dst.inputs:
        if name == REGISTER:
            first = at
        elif any(path.register[at:at + len(bases)]):
            return None
        at += len(bases)
    columns = path.register[first:first + count]
    return tuple(f2.apply(columns, r) for r in range(1 << count))


@lru_cache(maxsize=4096)
def live_registers(layout: Layout) -> LiveRegisters:
    """The layout without register bits that only replicate."""
    bases, dead = layout.bases(REGISTER), layout.free()[REGISTER]
    kept = [i for i in range(len(bases)) if not dead >> i & 1]
    live = layout.with_bases(register=[bases[i] for i in kept])
    span = f2.Span(bases[i] for i in kept)
    columns = [span.coordinates(b) for b in bases]
    return LiveRegisters(live, tuple(f2.scatter(i, kept) for i in range(1 << len(kept))),
                         tuple(f2.apply(columns, r) for r in range(1 << len(bases))))
