"""Reductions and scans, carried out step by step on integers: every element counts once, in every thread."""

from __future__ import annotations

import dataclasses
import random

import numpy as np
import pytest

from tests.layout.machine import by_bits
from tests.layout.random_layouts import random_layout, random_shape
from tilewright.layout.families import blocked, coalesced
from tilewright.layout.linear import Layout, padded_shape
from tilewright.layout.mma import accumulator
from tilewright.layout.reduction import Reduction, axis_segments, reduction, scannable
from tilewright.layout.views import sliced


def summed(layout: Layout, steps: Reduction, tile: np.ndarray) -> np.ndarray:
    """[registers of the result, threads]; each thread does what `steps` says and reads its partners' registers."""
    x = tile.reshape(-1)[layout.table()]
    part = np.stack([x[list(group)].sum(0) for group in steps.registers])
    lanes, warps = layout.size("lane"), layout.size("warp")
    thread = np.arange(layout.threads)
    lane, warp, block = thread % lanes, thread // lanes % warps, thread // (lanes * warps)
    number = np.arange(len(part))[:, None]
    for stage in (steps.lanes, steps.warps, steps.blocks):
        if stage is steps.lanes:
            for p in stage:
                part = part + part[number ^ p.register, (block * warps + (warp ^ p.warp)) * lanes + (lane ^ p.lane)]
            continue
        total = np.zeros_like(part)
        for k in range(1 << len(stage)):
            at = np.array([k])
            register, l, w, b = (int(by_bits([getattr(p, name) for p in stage], at)[0])
                                 for name in ("register", "lane", "warp", "block"))
            total = total + part[number ^ register, ((block ^ b) * warps + (warp ^ w)) * lanes + (lane ^ l)]
        part = total
    return part[list(steps.copies)]


def check(layout: Layout, axis: int, steps: Reduction | None = None) -> Reduction:
    tile = np.random.default_rng(4).integers(1, 1 << 30, layout.shape)      # sums of different elements differ
    steps = steps or reduction(layout, axis)
    result = sliced(layout, axis)
    want = tile.sum(axis).reshape(-1)[result.table()]
    assert (summed(layout, steps, tile) == want).all()
    return steps


@pytest.mark.parametrize("seed", range(60))
def test_random_layouts(seed: int) -> None:
    rng = random.Random(seed)
    layout = random_layout(rng, random_shape(rng, rng.randint(0, 9)), rng.randint(0, 3), seed % 2 == 0)
    for axis in range(len(layout.shape)):
        check(layout, axis)


def test_familiar_layouts() -> None:
    acc = accumulator((64, 64), (2, 2))
    rows = check(acc, 1)    # eight of 16 columns of a warp in registers, four lanes, two warps
    assert [len(g) for g in rows.registers] == [8] * 4
    assert [(p.lane, p.register) for p in rows.lanes] == [(1, 0), (2, 0)] and [p.warp for p in rows.warps] == [1]
    assert rows.shuffles == 8 and rows.crosses_warps
    columns = check(acc, 0)
    assert [p.lane for p in columns.lanes] == [4, 8, 16] and [p.warp for p in columns.warps] == [2]
    vector = check(coalesced((4096,), 4, 8), 0)
    assert vector.partial_results == 1 and len(vector.registers[0]) == 16
    assert [p.lane for p in vector.lanes] == [1, 2, 4, 8, 16] and [p.warp for p in vector.warps] == [1, 2, 4]
    small = check(coalesced((8,), 1, 4), 0)     # copies in lanes and warps: nothing crosses warps
    assert [p.lane for p in small.lanes] == [1, 2, 4] and not small.crosses_warps


def test_registers_are_combined_in_the_order_of_the_axis() -> None:
    steps = reduction(blocked((4, 16), (1, 4), (4, 2), (1, 1), (1, 0)).with_bases(register=(8, 1, 2)), 1)
    assert steps.registers == ((0, 2, 4, 6, 1, 3, 5, 7),)


def test_lanes_that_mix_the_axis_with_registers() -> None:
    """Lane bit 0 moves a column and a row at once: its partner has the row in another register."""
    layout = Layout.of((2, 64), register=(64,), lane=(1 | 64, 2, 4, 8, 16), warp=(32,))
    steps = check(layout, 1)
    assert (steps.lanes[0].lane, steps.lanes[0].register) == (1, 1)


def test_blocks_of_a_cluster() -> None:
    layout = coalesced((16, 64), 2, 2).product(Layout.of((1, 2), register=(), lane=(), warp=(), block=(1,)))
    steps = check(layout, 1)
    assert [p.block for p in steps.blocks] == [1] and check(layout, 0).blocks == ()


@pytest.mark.parametrize("shape", [(1,), (7,), (5, 3), (2, 1, 9)])
def test_padded_and_small_tiles(shape: tuple[int, ...]) -> None:
    for axis in range(len(shape)):
        check(coalesced(shape, 2, 4), axis)
        check(coalesced(padded_shape(shape), 1, 1, tuple(range(len(shape)))), axis - len(shape))


def test_a_wrong_step_is_noticed() -> None:
    layout = accumulator((64, 64), (2, 2))
    good = check(layout, 1)
    for bad in (dataclasses.replace(good, lanes=good.lanes[1:]), dataclasses.replace(good, warps=()),
                dataclasses.replace(good, lanes=(*good.lanes, dataclasses.replace(good.lanes[0], lane=4))),
                dataclasses.replace(good, copies=good.copies[::-1]),
                dataclasses.replace(good, registers=(good.registers[0][1:], *good.registers[1:]))):
        with pytest.raises(AssertionError):
            check(layout, 1, bad)


def scanned(layout: Layout, axis: int, tile: np.ndarray) -> np.ndarray:
    """An inclusive scan by segments: each doubles the sorted runs that the lower segments have made."""
    x = tile.reshape(-1)[layout.table()].astype(np.int64)
    place = {"register": np.arange(x.shape[0])[:, None] + 0 * x, "lane": np.arange(x.shape[1])[None] % 32 + 0 * x,
             "warp": np.arange(x.shape[1])[None] // 32 + 0 * x}
    ones: list[tuple[str, int]] = []        # the bits below: all 1 at the last element of a run
    for segment in axis_segments(layout, axis):
        for bit in segment.bits:
            at = {name: where.copy() for name, where in place.items()}
            for name, low in ones:
                at[name] |= 1 << low
            at[segment.input] &= ~(1 << bit)
            below = x[at["register"], at["warp"] * 32 + at["lane"]]
            x = np.where(place[segment.input] >> bit & 1, below + x, x)
            ones.append((segment.input, bit))
    return x


@pytest.mark.parametrize("layout, axis, inputs", [
    (coalesced((1024,), 4, 4), 0, ["register", "lane", "warp", "register"]),
    (coalesced((16, 64), 4, 4), 1, ["register", "lane"]), (coalesced((16, 64), 4, 4), 0, ["lane", "warp", "register"]),
    (accumulator((32, 32), (2, 2)), 1, ["register", "lane", "warp", "register"]),
    (accumulator((32, 32), (2, 2)), 0, ["lane", "register", "warp"]), (coalesced((4,), 1, 4), 0, ["lane"]),
    (coalesced((1, 8), 1, 1), 0, [])])
def test_segments_of_an_axis(layout: Layout, axis: int, inputs: list[str]) -> None:
    assert [s.input for s in axis_segments(layout, axis)] == inputs
    tile = np.random.default_rng(5).integers(0, 1000, layout.shape)
    want = np.cumsum(tile, axis).reshape(-1)[layout.table()]
    assert (scanned(layout, axis, tile) == want).all()


def test_where_the_axis_is_mixed_there_are_no_segments() -> None:
    plain = coalesced((16, 64), 4, 1)
    assert axis_segments(plain.with_bases(lane=(4 | 64, *plain.bases("lane")[1:])), 1) is None
    assert axis_segments(plain.with_bases(register=(1, 3, *plain.bases("register")[2:])), 1) is None
    assert axis_segments(Layout.of((2,), register=(1,), lane=(1, 0, 0, 0, 0), warp=()), 0) is None


@pytest.mark.parametrize("shape", [(1,), (8,), (4096,), (16, 64), (64, 16), (4, 8, 4), (256, 2)])
@pytest.mark.parametrize("per_thread", [1, 4])
def test_a_layout_for_scans(shape: tuple[int, ...], per_thread: int) -> None:
    rng = random.Random(1)
    for axis in range(len(shape)):
        given = random_layout(rng, shape, 2, True)
        layout = scannable(given, axis, per_thread)
        assert (layout.size("lane"), layout.size("warp")) == (given.size("lane"), given.size("warp"))
        assert layout.is_surjective()
        segments = axis_segments(layout, axis)
        assert [s.input for s in segments if s.input != "register"] == [n for n in ("lane", "warp")
                                                                        if n in {s.input for s in segments}]
        tile = rng.choices(range(100), k=layout.numel)
        tile = np.array(tile).reshape(shape)
        assert (scanned(layout, axis, tile) == np.cumsum(tile, axis).reshape(-1)[layout.table()]).all()
