"""Register moves and shuffles, carried out by the machine, and held against the least number of shuffles."""

from __future__ import annotations

import dataclasses
import random

import numpy as np
import pytest

from tests.layout.machine import Fault, Machine
from tests.layout.random_layouts import random_layout, random_shape
from tilewright.layout.families import blocked, coalesced
from tilewright.layout.linear import Layout
from tilewright.layout.mma import accumulator, operand, warpgroup_accumulator, warpgroup_operand
from tilewright.layout.route import Reach, reach
from tilewright.layout.shuffle import Moves, Shuffles, register_moves, warp_shuffles
from tilewright.layout.text import parse
from tilewright.layout.views import sliced


def marks(layout: Layout, item: int) -> np.ndarray:
    kind = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}[item]
    return np.random.default_rng(1).integers(0, 1 << 8 * item, layout.numel, dtype=np.uint64).astype(kind)


def carried_out(src: Layout, dst: Layout, item: int, way: Moves | Shuffles) -> int:
    """Run it on random data; the number of shuffles."""
    tile, machine = marks(src, item), Machine(src.size("warp"), 0, item)
    x = tile[src.table()]
    out = machine.move(x, way) if isinstance(way, Moves) else machine.shuffle(x, way, dst.size("register"))
    assert (out == tile[dst.table()]).all()
    return machine.shuffles


def fewest(src: Layout, dst: Layout, item: int) -> int:
    """A bound from below: a shuffle brings a thread at most 32 bits (64 in two) of what it does not hold itself."""
    have, need = src.table(), dst.table()
    away = [len(set(need[:, t]) - set(have[:, t])) for t in range(need.shape[1])]
    return -(-max(away) // max(1, 4 // item)) * max(1, item // 4)


def inside_a_warp(seed: int) -> tuple[Layout, Layout]:
    rng = random.Random(seed)
    while True:
        shape, warps = random_shape(rng, rng.randint(3, 9)), rng.randint(0, 2)
        src, dst = (random_layout(rng, shape, warps, seed % 3 == 0) for _ in range(2))
        dst = dst.with_bases(warp=src.bases("warp"))
        if dst.is_surjective() and reach(src, dst) == Reach.WARP:
            return src, dst


@pytest.mark.parametrize("seed", range(60))
def test_random_conversions_inside_a_warp(seed: int) -> None:
    src, dst = inside_a_warp(seed)
    item = (1, 2, 4, 8)[seed % 4]
    found = warp_shuffles(src, dst, item)
    if found is not None:
        assert fewest(src, dst, item) <= found.instructions == carried_out(src, dst, item, found)
    else:
        assert not (src.is_injective() and dst.is_injective()), "without replicas there always is a way"


def test_without_replicas_no_shuffle_is_wasted() -> None:
    """Words of 4 and 8 bytes: every shuffle brings some thread what it does not have."""
    rng = random.Random(3)
    for k in range(60):
        bits = 5 + k % 4
        images = [[1 << i for i in rng.sample(range(bits), bits)] for _ in range(2)]
        for bases in images if k % 2 else ():
            i, j = rng.sample(range(bits), 2)
            bases[i] ^= bases[j]
        src, dst = (Layout.of((1 << bits,), register=b[5:], lane=b[:5], warp=()) for b in images)
        if reach(src, dst) == Reach.WARP:
            for item in (4, 8):
                found = warp_shuffles(src, dst, item)
                assert carried_out(src, dst, item, found) == found.instructions == fewest(src, dst, item)


FAMILIAR = {
    "accumulator to operand of bytes": (accumulator((64, 64), (4, 1)), operand("A", (64, 64), 4, (4, 1)), 1),
    "accumulator to operand of tf32": (accumulator((64, 64), (4, 1)), operand("A", (64, 64), 1, (4, 1)), 4),
    "wgmma's, to bytes": (warpgroup_accumulator((64, 128)), warpgroup_operand((64, 128), 4), 1),
    "a 4x4 transpose in each warp": (blocked((16, 32), (1, 4), (4, 8), (4, 1), (1, 0)),
                                     blocked((16, 32), (4, 1), (1, 32), (4, 1), (0, 1)), 4),
    "vectors to single elements": (coalesced((512,), 4, 4).with_bases(warp=(128, 256)),
                                   coalesced((512,), 1, 4).with_bases(register=(32, 64), warp=(128, 256)), 4),
    "row sums to rows": (sliced(blocked((64, 32), (1, 4), (4, 8), (4, 1), (1, 0)), 1),
                         Layout.of((64,), register=(), lane=(1, 2, 16, 32, 0), warp=(4, 8)), 4),
}


@pytest.mark.parametrize("name", FAMILIAR)
def test_familiar_conversions(name: str) -> None:
    src, dst, item = FAMILIAR[name]
    found = warp_shuffles(src, dst, item)
    assert found is not None
    assert carried_out(src, dst, item, found) == found.instructions >= fewest(src, dst, item)


def test_rounds_that_stay_in_the_thread_shuffle_nothing() -> None:
    src = parse("#linear(64x4x2, register c0 a0 a1 b1, lane a5 a2 a4 a3 b0, warp)")
    dst = parse("#linear(64x4x2, register a1 a2 a0 a5, lane b1 c0 a4 a3 b0, warp)")
    found = warp_shuffles(src, dst, 4)
    assert (found.instructions, len(found.rounds)) == (12, 16) and fewest(src, dst, 4) == 12
    assert carried_out(src, dst, 4, found) == 12


def test_there_nearly_always_is_a_way() -> None:
    """With replicas on both sides some conversions are left to shared memory; few, and few shuffles too many."""
    missed = more = 0
    for seed in range(100):
        src, dst = inside_a_warp(seed)
        found = warp_shuffles(src, dst, 4)
        missed += found is None
        more += found is not None and found.instructions > fewest(src, dst, 4)
    assert missed <= 2 and more <= 6


def test_register_moves() -> None:
    rng, renamed, selected = random.Random(5), 0, 0
    for _ in range(200):
        src = random_layout(rng, random_shape(rng, rng.randint(0, 8)), rng.randint(0, 2), True)
        registers = list(src.bases("register"))
        rng.shuffle(registers)
        twist = rng.choice([0, *src.bases("register")])
        dst = src.with_bases(register=registers, lane=(src.bases("lane")[0] ^ twist, *src.bases("lane")[1:]))
        if not dst.is_surjective():
            continue
        moves = register_moves(src, dst)
        assert moves is not None
        carried_out(src, dst, 4, moves)
        if any([*moves.by_lane, *moves.by_warp]):
            selected += 1
            assert moves.cost > 0
        else:
            renamed += 1
            assert moves.cost == 0
    assert renamed > 20 and selected > 20
    assert register_moves(accumulator((64, 64), (2, 2)), coalesced((64, 64), 4, 4)) is None


def test_no_shuffles_between_warps() -> None:
    assert warp_shuffles(accumulator((64, 64), (2, 2)), coalesced((64, 64), 4, 4), 4) is None


@pytest.mark.parametrize("name", FAMILIAR)
@pytest.mark.parametrize("fault", ["lane", "take", "put", "peer", "given", "twist", "missing"])
def test_a_wrong_plan_is_noticed(name: str, fault: str) -> None:
    src, dst, item = FAMILIAR[name]
    good = warp_shuffles(src, dst, item)
    last = good.rounds[-1]
    flipped = {"lane": dataclasses.replace(last, lane=last.lane ^ 4, moves=True),
               "take": dataclasses.replace(last, take=(last.take[0] ^ 1, *last.take[1:])),
               "put": dataclasses.replace(last, put=(last.put[0] ^ 1, *last.put[1:]))}
    if fault in flipped:
        bad = dataclasses.replace(good, rounds=(*good.rounds[:-1], flipped[fault]))
    elif fault == "missing":
        bad = dataclasses.replace(good, rounds=good.rounds[1:])
    else:
        field = {"peer": "from_by_lane", "given": "take_by_lane", "twist": "put_by_lane"}[fault]
        images = getattr(good, field)
        bad = dataclasses.replace(good, **{field: (images[0] ^ 1, *images[1:])})
    with pytest.raises((Fault, AssertionError)):
        carried_out(src, dst, item, bad)
