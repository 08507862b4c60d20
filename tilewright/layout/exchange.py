"""Conversions through shared memory, with a layout of it that is made for the two sides.

Offsets have three parts, [low | bank | row]: low is the chain of elements that vectors or matrix rows need side by
side, filled up to a 4-byte word; bank goes up to 128 bytes; row is the rest.  A side is free of conflicts exactly if
the span H of the row vectors meets the span of one wavefront of that side (the lanes served together and its part of
the chain) in 0 only.  So H is a common complement of two subspaces.  For a chain of registers common to both sides, in
which no sum of lanes and warps of the two lies, it always exists.  What there is to search for is the chain: some few
candidates, by cost.

Words matter: lanes that share a 4-byte word do not conflict, so the word is filled before H is chosen, with lanes.
Lanes and warps must have no bits inside a vector (else the order of its elements would depend on the thread), so bank
and row are chosen in a complement of the chain that holds their bases.
Tests: tests/layout/test_exchange.py.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

from tilewright.layout import f2
from tilewright.layout.access import (
    BANKS,
    LANE_BITS,
    SELECT,
    VECTOR_BYTES,
    WORD_BYTES,
    Access,
    Form,
    access,
    access_cost,
    matrix_rows,
    packed_bits,
)
from tilewright.layout.linear import LANE, OFFSET, REGISTER, WARP, Layout, log2
from tilewright.layout.route import live_registers
from tilewright.layout.shuffle import Moves, register_moves

BARRIER = 20.0      # cost of the barrier between store and load, in wavefronts


@dataclass(frozen=True)
class Trip:
    """Store, barrier, load.  A second barrier before the scratch is used again is up to who allocates it."""

    shared: Layout
    spread: Moves | None    # first: replicas share out what they hold, so that each element is stored once
    store: Access           # of the spread value, if there is a spread
    load: Access
    scratch_bytes: int

    @property
    def cost(self) -> float:
        return (self.spread.cost if self.spread else 0) + self.store.cost + BARRIER + self.load.cost


Chain = tuple[tuple[int, ...], Form, Form]      # what lies lowest, the form of the store, the form of the load


def exchange(src: Layout, dst: Layout, item_bytes: int, matrix: bool = True, stores: bool = True) -> Trip:
    """The cheapest trip between two layouts of one tile; `matrix`: whether ldmatrix may be used, `stores`: stmatrix.

    The layouts have no `block` input.
    """
    return _exchange(src, dst, item_bytes, matrix, matrix and stores)


@lru_cache(maxsize=2048)
def _exchange(src: Layout, dst: Layout, item_bytes: int, matrix: bool, stores: bool) -> Trip:
    best = _trip(src, dst, item_bytes, matrix, stores, None)
    wide = spread(src)
    if wide != live_registers(src).layout:
        moves = register_moves(src, wide)
        if moves is not None:
            best = min(best, _trip(wide, dst, item_bytes, matrix, stores, moves), key=lambda t: t.cost)
    return best


def spread(layout: Layout) -> Layout:
    """A value that sits in several lanes or warps, shared out: each free bit of lane or warp that replicates takes
    over a register bit, so that a replica keeps half of its registers and a store writes every element once."""
    free, live = layout.free(), live_registers(layout).layout
    bases = {name: list(live.bases(name)) for name in (REGISTER, LANE, WARP)}
    for name in (LANE, WARP):
        for i in f2.bits_of(free.get(name, 0)):
            if bases[name][i] == 0 and bases[REGISTER]:
                bases[name][i] = bases[REGISTER].pop()
    return live.with_bases(**bases)


def _writers(layout: Layout) -> Layout:
    """What takes part in a store: lanes and warps that hold copies store nothing."""
    free = layout.free()
    return layout.with_bases(**{name: [0 if free[name] >> i & 1 else b for i, b in enumerate(layout.bases(name))]
                                for name in (LANE, WARP)})


def _trip(src: Layout, dst: Layout, item_bytes: int, matrix: bool, stores: bool, moves: Moves | None) -> Trip:
    a, b = live_registers(src).layout, live_registers(dst).layout
    best: tuple[tuple[float, bool], Layout, Form, Form] | None = None
    least = _least_cost(_writers(a), item_bytes) + _least_cost(b, item_bytes), False
    for chain, to, back in dict.fromkeys(_chains(a, b, item_bytes, matrix, stores)):
        if best is not None and best[0] <= least:
            break
        shared = conflict_free(a, b, item_bytes, chain, to, back)
        store = access_cost(src, shared, item_bytes, to, store=True)
        load = access_cost(dst, shared, item_bytes, back)
        if store is None or load is None:
            continue
        # of what costs the same: vectors that come as they are needed, without moves between registers
        cost = store + load, chain != b.bases(REGISTER)[:len(chain)]
        if best is None or cost < best[0]:
            best = cost, shared, to, back
    assert best is not None     # the vector forms always fit
    _, shared, to, back = best
    write, read = access(src, shared, item_bytes, to, store=True), access(dst, shared, item_bytes, back)
    assert write is not None and read is not None
    return Trip(shared, moves, write, read, src.numel * item_bytes)


def _least_cost(side: Layout, item_bytes: int) -> float:
    """No access costs less: 16 bytes an instruction, every byte of every wavefront used."""
    thread = item_bytes << len(side.bases(REGISTER))
    active = LANE_BITS - side.free()[LANE].bit_count()
    return max(1, (thread << active) // (BANKS * WORD_BYTES)) + SELECT * max(1, thread // VECTOR_BYTES)


def _chains(a: Layout, b: Layout, item_bytes: int, matrix: bool, stores: bool) -> Iterator[Chain]:
    """Candidates for the lowest 16 bytes: what both register files have in common, then one side's alone; or the
    row of a matrix of one side, which the other one reads by the same rows or by vectors."""
    top = max(0, log2(VECTOR_BYTES) - log2(item_bytes))
    mine, theirs = a.bases(REGISTER), b.bases(REGISTER)
    common = f2.intersect(mine, theirs)
    for more in (mine, theirs):
        whole = [*common, *f2.extend(common, more)][:top]
        for n in range(len(whole), -1, -1):
            yield tuple(whole[:n]), Form.VECTOR, Form.VECTOR
    if matrix:
        writes, loads = _rows(_writers(a), item_bytes) if stores else {}, _rows(b, item_bytes)
        for row, form in writes.items():
            yield row, form, loads.get(row, Form.VECTOR)
        for row, form in loads.items():
            yield row, writes.get(row, Form.VECTOR), form


def _matrices(layout: Layout, item_bytes: int, form: Form) -> Iterator[tuple[tuple[int, ...], list[int]]]:
    """(the row, the vectors over the eight rows) of matrices that a register file could be made of, as tile vectors."""
    packed, registers = packed_bits(item_bytes), layout.bases(REGISTER)
    heads = [[i] for i in range(len(registers))] if packed == 1 else [list(range(len(registers)))[:packed]]
    for _, row, down in matrix_rows(registers, layout.bases(LANE), item_bytes, form, heads):
        if f2.rank([*row, *down]) == len(row) + len(down):
            yield tuple(row), down


def _rows(layout: Layout, item_bytes: int) -> dict[tuple[int, ...], Form]:
    """The matrix rows that a register file could be made of."""
    out: dict[tuple[int, ...], Form] = {}
    for form in (Form.MATRIX, Form.TRANSPOSED):
        for row, _ in _matrices(layout, item_bytes, form):
            out.setdefault(row, form)
    return out


def _wavefront(side: Layout, form: Form, chain: Sequence[int], item_bytes: int, aligned: int) -> list[int]:
    """What spans one wavefront of a side: its part of the chain, and the lanes that are served together."""
    lanes = side.bases(LANE)
    if form is not Form.VECTOR:
        return next([*row, *down] for row, down in _matrices(side, item_bytes, form) if row == tuple(chain))
    span, v = f2.Span(side.bases(REGISTER)), 0
    while v < min(len(chain), aligned) and chain[v] in span:
        v += 1
    halvings = max(0, v + log2(item_bytes) - log2(2 * WORD_BYTES) + 1)
    return [*chain[:max(v, packed_bits(item_bytes))], *lanes[:max(0, LANE_BITS - halvings)]]


def _aligned(side: Layout, low: Sequence[int], space: Sequence[int]) -> int:
    """How many bits of `low` are 0 in the offsets of all lanes and warps: a vector cannot be wider."""
    basis, inside = f2.Span([*low, *space]), (1 << len(low)) - 1
    used = [basis.coordinates(b) & inside for name in (LANE, WARP) for b in side.bases(name)]
    return min((next(f2.bits_of(u)) for u in used if u), default=len(low))


def conflict_free(src: Layout, dst: Layout, item_bytes: int, chain: Sequence[int], to: Form, back: Form) -> Layout:
    """A layout [chain | bank | row] of shared memory without conflicts on either side, wherever there is one.

    Neither layout has registers that only replicate.
    """
    src = _writers(src)
    threads = [b for side in (src, dst) for name in (LANE, WARP) for b in side.bases(name)]
    rest = [*threads, *src.columns, *dst.columns, *(1 << i for i in range(src.bits))]
    low = [*chain, *f2.extend(chain, rest, max(0, packed_bits(item_bytes) - len(chain)))]
    space = f2.extend(low, rest, src.bits - len(low))
    p = f2.intersect(_wavefront(src, to, low, item_bytes, _aligned(src, low, space)), space)
    q = f2.intersect(_wavefront(dst, back, low, item_bytes, _aligned(dst, low, space)), space)
    in_row = max(0, min(src.bits, log2(BANKS * WORD_BYTES) - log2(item_bytes)) - len(low))
    want = max(0, len(space) - in_row)
    row = f2.common_complement(p, q, space)[:want]
    for avoid in ([*p, *q], p, q, []):      # where none is perfect: give up as little as possible
        if len(row) < want:
            row += f2.extend([*avoid, *row], space, want - len(row))
    bank = f2.extend([*row, *low], [*dst.bases(LANE), *src.bases(LANE), *space], in_row)
    return Layout(src.shape, ((OFFSET, (*low, *bank, *row)),))
