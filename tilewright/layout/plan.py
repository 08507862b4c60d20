"""How to bring a value from one distributed layout to another: nothing, register moves, shuffles, or shared memory.

`plan` decides by algebra and returns data; nothing is emitted here.  Costs are in issue slots of the load/store unit
per warp: a shuffle or a wavefront of shared memory (128 bytes) is 1, a register select a half, a trip's barrier 20.

    plan(src, dst, 4).kind                  how
    plan(src, dst, 4).scratch_bytes         what to allocate
    print(plan(src, dst, 4))                the same for people

How a plan is carried out (tests/layout/machine.py does it, in some lines each; `^` with the images of a lane or warp
number means: xored with the image of each bit that is 1 in it):

    registers   result[r] = value[take[r] ^ by_lane(lane) ^ by_warp(warp)].  Where all images are 0 that renames; else
                every register bit that depends on the thread is one round of selects over all registers.
    shuffle     turn the value by take_by_lane, take_by_warp as above; for each round: the elements `take`, packed into
                32 bits, from the lane `round.lane ^ from_by_lane(lane) ^ from_by_warp(warp)` (a butterfly if
                `butterfly`; nothing if not `moves`), become the elements `put`; at last turn the result by
                put_by_lane, and let register r be copies[r].
    shared      for each piece: the registers `take`; spread them, if there is a spread; store; barrier; load; the
                registers `put`; a barrier before the scratch is used again.  A step moves `registers` at the element
                offset `step.offset ^ by_lane(lane) ^ by_warp(warp)`; threads with a bit of idle_lanes or idle_warps do
                not store; after a load register r is copies[r].

`estimate` is the same question answered by ranks alone, for whoever has to ask it a thousand times.
Tests: tests/layout/test_plan.py, and tests/layout/fuzz.py, which carries out random plans.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from tilewright.layout import f2
from tilewright.layout.access import WORD_BYTES, Access, Form
from tilewright.layout.exchange import BARRIER, Trip, exchange
from tilewright.layout.linear import BLOCK, REGISTER, Layout
from tilewright.layout.route import Reach, live_registers, reach
from tilewright.layout.shuffle import Moves, Shuffles, register_moves, warp_shuffles

SHUFFLE_ESTIMATE = 1.5      # wavefronts of a shuffle with its selects, where no plan is made


class Kind(enum.Enum):
    """What a conversion takes."""

    NOTHING = "nothing"
    REGISTERS = "registers"
    SHUFFLE = "shuffle"
    SHARED = "shared"


@dataclass(frozen=True)
class Piece:
    """A part of a conversion that makes the same trip as the others, after a barrier."""

    take: tuple[int, ...]       # the source's register for each register of the trip's value
    put: tuple[int, ...]        # the destination's register for each register of the trip's result


@dataclass(frozen=True)
class Plan:
    """One conversion.  `moves`, `shuffles` or `trip` is there as `kind` says; a trip is made once for each piece."""

    kind: Kind
    src: Layout
    dst: Layout
    item_bytes: int
    moves: Moves | None = None
    shuffles: Shuffles | None = None
    trip: Trip | None = None
    pieces: tuple[Piece, ...] = ()

    @property
    def cost(self) -> float:
        """In wavefronts per warp."""
        if self.trip is not None:
            return self.trip.cost * len(self.pieces) + BARRIER * (len(self.pieces) - 1)
        way = self.shuffles or self.moves
        return way.cost if way is not None else 0.0

    @property
    def scratch_bytes(self) -> int:
        """Bytes of shared memory, aligned to 16, from the store to the last thread's last load."""
        return self.trip.scratch_bytes if self.trip is not None else 0

    def __str__(self) -> str:
        if self.shuffles is not None:
            return f"{self.shuffles.instructions} shuffles in {len(self.shuffles.rounds)} rounds, cost {self.cost:g}"
        if self.trip is None:
            return self.kind.value
        times = f", {len(self.pieces)} times" if len(self.pieces) > 1 else ""
        return (f"shared memory, {self.scratch_bytes} bytes{times}: store {_access_text(self.trip.store)}, "
                f"load {_access_text(self.trip.load)}, cost {self.cost:g}")


def _access_text(a: Access) -> str:
    count = f"{len(a.steps)} x {a.width}" if a.form is Form.VECTOR else f"{len(a.steps)} x {a.form.value}.x{a.width}"
    return f"{count} ({a.wavefronts} wavefronts, {a.ideal} at least)"


def plan(src: Layout, dst: Layout, item_bytes: int, *, matrix: bool = True, stores: bool = True,
         scratch_limit: int | None = None) -> Plan:
    """The cheapest conversion of elements of 1, 2, 4 or 8 bytes between two layouts of one tile.

    `matrix`: whether ldmatrix and stmatrix exist; `stores` False: only the former (before capability 9.0).  A trip
    that needs more than `scratch_limit` bytes is made in pieces, as far as registers that both sides have in common
    allow (look at `scratch_bytes`).  ValueError for layouts of different tiles or launches, and where elements go from
    one block of a cluster to another.
    """
    return _plan(src, dst, item_bytes, matrix, matrix and stores, scratch_limit)


@lru_cache(maxsize=2048)
def _plan(src: Layout, dst: Layout, item_bytes: int, matrix: bool, stores: bool,
          scratch_limit: int | None) -> Plan:
    if item_bytes not in (1, 2, 4, 8):
        raise ValueError(f"elements of {item_bytes} bytes; a register holds 1, 2, 4 or 8")
    how = reach(src, dst)
    if how is Reach.PLACE:
        return Plan(Kind.NOTHING, src, dst, item_bytes)
    if how is Reach.CLUSTER or src.bases(BLOCK) != dst.bases(BLOCK):
        raise ValueError(f"elements go between blocks from {src} to {dst}: shared memory is each block's own")
    moves = register_moves(src, dst)
    if moves is not None:
        return Plan(Kind.REGISTERS, src, dst, item_bytes, moves=moves)
    shared = _shared(src, dst, item_bytes, matrix, stores, scratch_limit)
    shuffles = warp_shuffles(src, dst, item_bytes)
    if shuffles is not None and shuffles.cost <= shared.cost:
        return Plan(Kind.SHUFFLE, src, dst, item_bytes, shuffles=shuffles)
    return shared


def _shared(src: Layout, dst: Layout, item_bytes: int, matrix: bool, stores: bool,
          scratch_limit: int | None) -> Plan:
    """A trip through shared memory, in as few pieces as the limit allows."""
    blocks = [b for b in src.bases(BLOCK) if b]
    if not _apart(src, dst, blocks):
        raise ValueError(f"the blocks' parts of the tile overlap in {src} or {dst}")
    common = [b for b in dict.fromkeys(reversed(src.bases(REGISTER))) if b and b in dst.bases(REGISTER)]
    cut: list[int] = []
    while scratch_limit is not None and (src.numel * item_bytes >> len(blocks) + len(cut)) > scratch_limit:
        further = next((b for b in common if b not in cut and _apart(src, dst, [*blocks, *cut, b])), None)
        if further is None:
            break
        cut.append(further)
    a, b = (_quotient(side, other, blocks, cut) for side, other in ((src, dst), (dst, src)))
    pieces = zip(_numbers(src, cut), _numbers(dst, cut))
    return Plan(Kind.SHARED, src, dst, item_bytes, trip=exchange(a, b, item_bytes, matrix, stores),
                pieces=tuple(Piece(take, put) for take, put in pieces))


def _other_columns(layout: Layout, cut: Sequence[int]) -> dict[str, list[int]]:
    """The bases without blocks and without the first register bit of each vector of `cut`."""
    places = {layout.bases(REGISTER).index(v) for v in cut}
    return {name: [b for i, b in enumerate(bases) if name != REGISTER or i not in places]
            for name, bases in layout.inputs if name != BLOCK}


def _apart(src: Layout, dst: Layout, vectors: Sequence[int]) -> bool:
    """Whether no sum of other bases is a sum of `vectors`: then the tile falls apart into what they number."""
    cut = [v for v in vectors if v not in src.bases(BLOCK)]
    rest = [b for side in (src, dst) for bases in _other_columns(side, cut).values() for b in bases]
    return f2.rank([*rest, *vectors]) == f2.rank(rest) + len(vectors)


def _quotient(layout: Layout, other: Layout, blocks: Sequence[int], cut: Sequence[int]) -> Layout:
    """The layout of one piece of a block's part: the tile modulo the vectors that number blocks and pieces."""
    if not blocks and not cut:
        return layout if BLOCK not in layout.names else Layout.of(layout.shape, **_other_columns(layout, ()))
    vectors = [*blocks, *cut]
    # the same complement for both sides, whichever comes first: it holds all their other bases
    rest = sorted(b for side in (layout, other) for bases in _other_columns(side, cut).values() for b in bases)
    units = [1 << i for i in range(layout.bits)]
    span = f2.Span([*vectors, *f2.extend([*vectors], [*rest, *units])])
    inside = {name: [span.coordinates(b) >> len(vectors) for b in bases]
              for name, bases in _other_columns(layout, cut).items()}
    return Layout.of((1 << layout.bits - len(vectors),), **inside)


def _numbers(layout: Layout, cut: Sequence[int]) -> list[tuple[int, ...]]:
    """For each piece, the registers of the whole value that are the registers of the piece."""
    registers = layout.bases(REGISTER)
    places = [registers.index(v) for v in cut]
    others = [i for i in range(len(registers)) if i not in places]
    return [tuple(f2.scatter(p, places) | f2.scatter(r, others) for r in range(1 << len(others)))
            for p in range(1 << len(cut))]


@lru_cache(maxsize=65536)
def estimate(src: Layout, dst: Layout, item_bytes: int) -> float:
    """About what `plan(...).cost` will be, by how far data travels and how many words a thread holds (0.2 ms)."""
    how = reach(src, dst)
    if how <= Reach.THREAD:
        moves = register_moves(src, dst)
        return moves.cost if moves is not None else 0.0
    words = [max(1.0, live_registers(side).layout.size(REGISTER) * item_bytes / WORD_BYTES) for side in (src, dst)]
    through_memory = sum(words) + BARRIER
    return min(SHUFFLE_ESTIMATE * words[1], through_memory) if how is Reach.WARP else through_memory
