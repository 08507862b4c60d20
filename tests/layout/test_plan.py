"""Plans of conversions: what is chosen, in how many pieces, at what cost; a sample of the fuzz."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from tests.layout.fuzz import carried_out, random_pair
from tests.layout.machine import Fault
from tilewright.layout.access import Form
from tilewright.layout.families import blocked, coalesced
from tilewright.layout.linear import Layout
from tilewright.layout.mma import accumulator, operand, warpgroup_accumulator, warpgroup_operand
from tilewright.layout.plan import Kind, estimate, plan
from tilewright.layout.views import sliced


@pytest.mark.parametrize("seed", range(150))
def test_random_pairs(seed: int) -> None:
    """A sample of `python -m tests.layout.fuzz 1500` (all right on 2026-11-30)."""
    src, dst, item = random_pair(10_000 + seed)
    carried_out(plan(src, dst, item, matrix=seed % 5 != 0, scratch_limit=2048 if seed % 7 == 0 else None))


ACC = accumulator((128, 128), (2, 2))
ROWS = coalesced((128, 128), 4, 4)
SUMS = blocked((128, 64), (1, 4), (4, 8), (4, 1), (1, 0))
EXPECTED = {
    # name: source, destination, element bytes, kind
    "the same": (ACC, ACC, 4, Kind.NOTHING),
    "P of attention, 16 bits": (accumulator((64, 64), (4, 1)), operand("A", (64, 64), 2, (4, 1)), 2, Kind.NOTHING),
    "P of attention, wgmma": (warpgroup_accumulator((64, 64)), warpgroup_operand((64, 64), 2), 2, Kind.NOTHING),
    "registers in another order": (ROWS, ROWS.with_bases(register=ROWS.bases("register")[::-1]), 4, Kind.REGISTERS),
    "P of attention, fp8": (accumulator((64, 64), (4, 1)), operand("A", (64, 64), 4, (4, 1)), 1, Kind.SHUFFLE),
    "a small transpose in each warp": (blocked((16, 32), (1, 4), (4, 8), (4, 1), (1, 0)),
                                       blocked((16, 32), (4, 1), (1, 32), (4, 1), (0, 1)), 4, Kind.SHUFFLE),
    "a large transpose in one warp": (coalesced((32, 32), 1, 1), coalesced((32, 32), 1, 1, (0, 1)), 4, Kind.SHARED),
    "epilogue": (ACC, ROWS, 4, Kind.SHARED),
    "epilogue, 16 bits": (ACC, coalesced((128, 128), 8, 4), 2, Kind.SHARED),
    "row sums to a vector": (sliced(SUMS, 1), coalesced((128,), 1, 4), 4, Kind.SHARED),
    "a vector to row sums": (coalesced((128,), 1, 4), sliced(SUMS, 1), 4, Kind.SHARED),
    "rows of an accumulator to its columns": (sliced(ACC, 1), sliced(ACC, 0), 4, Kind.SHARED),
    "everything everywhere": (coalesced((4,), 1, 4), Layout.of((4,), register=(1, 2), lane=(0,) * 5, warp=(0, 0)), 4,
                              Kind.SHUFFLE),
}


@pytest.mark.parametrize("name", EXPECTED)
def test_what_is_chosen(name: str) -> None:
    src, dst, item, kind = EXPECTED[name]
    p = plan(src, dst, item)
    assert p.kind is kind
    carried_out(p)
    assert p.scratch_bytes == (src.numel * item if kind is Kind.SHARED else 0)
    if p.trip:      # a conflict is taken only where it buys wider vectors: 1 store in 2 wavefronts, but 2 loads for 8
        bought = name == "a vector to row sums" and len(p.trip.load.steps) == 2 and p.trip.store.wavefronts == 2
        assert p.trip.store.conflict_free or bought
        assert p.trip.load.conflict_free


def test_a_plan_tells_people_what_it_is() -> None:
    assert str(plan(ACC, ACC, 4)) == "nothing"
    assert str(plan(*EXPECTED["P of attention, fp8"][:3])) == "8 shuffles in 8 rounds, cost 16"
    assert str(plan(ACC, ROWS, 4)) == ("shared memory, 65536 bytes: store 32 x 4 (128 wavefronts, 128 at least), "
                                       "load 32 x 4 (128 wavefronts, 128 at least), cost 308")


def test_matrices_only_where_the_target_has_them() -> None:
    found = {form for name in EXPECTED for p in [plan(*EXPECTED[name][:3])] if p.trip
             for form in (p.trip.store.form, p.trip.load.form)}
    plain = {form for name in EXPECTED for p in [plan(*EXPECTED[name][:3], matrix=False)] if p.trip
             for form in (p.trip.store.form, p.trip.load.form)}
    assert plain == {Form.VECTOR} and plain <= found


@pytest.mark.parametrize("limit, pieces", [(65536, 1), (65535, 2), (16384, 4), (8192, 8)])
def test_a_large_tile_goes_in_pieces(limit: int, pieces: int) -> None:
    src, dst = accumulator((128, 128), (2, 2)), coalesced((128, 128), 4, 4)
    p = plan(src, dst, 4, scratch_limit=limit)
    assert p.scratch_bytes == 65536 // pieces <= limit and len(p.pieces) == pieces
    carried_out(p)
    assert sorted(r for piece in p.pieces for r in piece.put) == list(range(dst.size("register")))
    assert p.trip.store.conflict_free and p.trip.load.conflict_free


def test_pieces_are_cut_only_where_the_tile_falls_apart() -> None:
    """A register of both sides that a lane of one side moves along too numbers no piece."""
    src, dst = accumulator((128, 128), (2, 2)), coalesced((128, 128), 4, 4)
    first = next(b for b in reversed(src.bases("register")) if b in dst.bases("register"))
    mixed = dst.with_bases(lane=(dst.bases("lane")[0] ^ first, *dst.bases("lane")[1:]))
    p = plan(src, mixed, 4, scratch_limit=32768)
    assert len(p.pieces) == 2 and p.scratch_bytes == 32768
    carried_out(p)


def test_as_many_pieces_as_there_are() -> None:
    """Registers of one side lie in other threads on the other side: nothing to cut, and the plan says what it needs."""
    src, dst = coalesced((32, 32), 8, 4), coalesced((32, 32), 8, 4, (0, 1))
    p = plan(src, dst, 4, scratch_limit=16)
    assert p.scratch_bytes == 4096 and len(p.pieces) == 1
    carried_out(p)


def test_clusters_convert_in_each_block() -> None:
    """Each block of a cluster holds half of the rows: the plan is that of one block."""
    half = [coalesced((64, 64), 4, 4), coalesced((64, 64), 4, 4, (0, 1))]
    whole = [x.product(Layout.of((2, 1), register=(), lane=(), warp=(), block=(1,))) for x in half]
    p, one = plan(*whole, 4), plan(*half, 4)
    assert (p.scratch_bytes, p.trip.store.wavefronts, p.trip.load.wavefronts) == \
        (one.scratch_bytes, one.trip.store.wavefronts, one.trip.load.wavefronts)
    moved = whole[1].with_bases(block=(1,), register=[64 * 64 if b == 1 else b for b in whole[1].bases("register")],
                                lane=[64 * 64 if b == 1 else b for b in whole[1].bases("lane")],
                                warp=[64 * 64 if b == 1 else b for b in whole[1].bases("warp")])
    with pytest.raises(ValueError, match="between blocks"):
        plan(whole[0], moved, 4)


def test_estimates_rank_as_plans_do() -> None:
    """Of two destinations whose plans differ by more than a factor of two, the estimate prefers the same one."""
    targets = [ACC, ROWS, coalesced((128, 128), 4, 4, (0, 1)), ROWS.with_bases(register=ROWS.bases("register")[::-1]),
               blocked((128, 128), (4, 4), (8, 4), (2, 2), (1, 0)), accumulator((128, 128), (4, 1))]
    for src in targets:
        costs = [(plan(src, dst, 2).cost, estimate(src, dst, 2)) for dst in targets]
        for exact, rough in costs:
            for other, other_rough in costs:
                assert not (exact > 2 * other + 1 and rough < other_rough)
    assert estimate(ACC, ACC, 4) == 0


@pytest.mark.parametrize("name", ["P of attention, fp8", "registers in another order", "row sums to a vector"])
def test_a_plan_for_something_else_is_noticed(name: str) -> None:
    """The machine checks the result of a plan, not the plan's own word."""
    src, dst, item, _ = EXPECTED[name]
    good = plan(src, dst, item)
    turned = dst.with_bases(lane=(*dst.bases("lane")[1:], dst.bases("lane")[0]))
    with pytest.raises((Fault, AssertionError)):
        carried_out(dataclasses.replace(good, dst=turned))


def test_a_missing_piece_is_noticed() -> None:
    p = plan(ACC, ROWS, 4, scratch_limit=16384)
    with pytest.raises(AssertionError):
        carried_out(dataclasses.replace(p, pieces=(p.pieces[0], *p.pieces[:-1])))


@pytest.mark.parametrize("item", [0, 3, 16])
def test_elements_fit_in_registers(item: int) -> None:
    with pytest.raises(ValueError, match="1, 2, 4 or 8"):
        plan(ACC, ROWS, item)


@pytest.mark.parametrize("shape", [(1,), (7,), (3, 5), (1000,), (33, 17)])
@pytest.mark.parametrize("warps", [1, 4, 32])
def test_padded_tiles_are_converted_whole(shape: tuple[int, ...], warps: int) -> None:
    """Padding is moved like everything else: its registers hold something on both sides."""
    order = tuple(range(len(shape)))
    p = plan(coalesced(shape, 4, warps), coalesced(shape, 1, warps, order), 4)
    carried_out(p)
    inside = np.ones(p.dst.table().shape, bool)
    for bound in p.dst.padding(shape):
        inside &= bound.coordinate.table() < bound.limit
    assert len(np.unique(p.dst.table()[inside])) == np.prod(shape)
