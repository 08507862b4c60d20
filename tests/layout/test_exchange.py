"""Trips through shared memory, carried out by the machine: right, and free of conflicts where that is claimed."""

from __future__ import annotations

import dataclasses
import random

import numpy as np
import pytest

from tests.layout.machine import BYTES, Fault, Machine
from tests.layout.random_layouts import random_layout, random_shape
from tilewright.layout import f2
from tilewright.layout.access import Form, access
from tilewright.layout.exchange import Trip, conflict_free, exchange, spread
from tilewright.layout.families import blocked, coalesced
from tilewright.layout.linear import Layout
from tilewright.layout.mma import accumulator, operand, warpgroup_accumulator
from tilewright.layout.route import live_registers
from tilewright.layout.views import sliced


def carried_out(src: Layout, dst: Layout, item: int, trip: Trip, barrier: bool = True) -> None:
    tile = np.random.default_rng(2).integers(0, 1 << 8 * item, src.numel, dtype=np.uint64).astype(BYTES[item])
    machine = Machine(src.size("warp"), trip.scratch_bytes, item)
    x = tile[src.table()]
    if trip.spread is not None:
        x = machine.move(x, trip.spread)
    machine.store(x, trip.store)
    assert machine.wavefronts == trip.store.wavefronts
    if barrier:
        machine.barrier()
    out = machine.load(trip.load, dst.size("register"))
    assert (out == tile[dst.table()]).all()
    assert machine.wavefronts == trip.store.wavefronts + trip.load.wavefronts


@pytest.mark.parametrize("seed", range(40))
def test_random_pairs(seed: int) -> None:
    rng = random.Random(seed)
    shape, warps, item = random_shape(rng, rng.randint(0, 11)), rng.randint(0, 3), rng.choice([1, 2, 4, 8])
    src, dst = (random_layout(rng, shape, warps, seed % 3 == 0) for _ in range(2))
    carried_out(src, dst, item, exchange(src, dst, item, matrix=seed % 4 != 0))


@pytest.mark.parametrize("seeds", [range(k, 150, 10) for k in range(10)], ids=str)
def test_a_vector_common_to_both_sides_leaves_no_conflict(seeds: range) -> None:
    """Unless a sum of lanes and warps lies in the vector: then some thread's elements begin inside it."""
    checked = 0
    for seed in seeds:
        rng = random.Random(seed)
        shape, warps, item = random_shape(rng, rng.randint(5, 12)), rng.randint(0, 2), rng.choice([1, 2, 4, 8])
        sides = [live_registers(random_layout(rng, shape, warps, seed % 3 == 0)).layout for _ in range(2)]
        idle = sides[0].free()      # lanes and warps with copies store nothing
        threads = [b for name in ("lane", "warp") for i, b in enumerate(sides[0].bases(name))
                   if not idle[name] >> i & 1] + [b for name in ("lane", "warp") for b in sides[1].bases(name)]
        chain = f2.intersect(sides[0].bases("register"), sides[1].bases("register"))[:(16 // item).bit_length() - 1]
        if f2.intersect(chain, threads):
            continue
        checked += 1
        shared = conflict_free(*sides, item, chain, Form.VECTOR, Form.VECTOR)
        for side, store in zip(sides, (True, False)):
            found = access(side, shared, item, store=store)
            assert found.conflict_free and found.width >= 1 << len(chain)
    assert checked > 8


BLOCKED = blocked((128, 128), (1, 4), (2, 16), (4, 1), (1, 0))
FAMILIAR = {
    "blocked to accumulator": (BLOCKED, accumulator((128, 128), (2, 2)), 4),
    "accumulator to blocked, 2 bytes": (accumulator((128, 128), (2, 2)), coalesced((128, 128), 8, 4), 2),
    "accumulator to blocked": (accumulator((128, 128), (2, 2)), BLOCKED, 4),
    "wgmma's to blocked": (warpgroup_accumulator((128, 128), (8, 1)), coalesced((128, 128), 8, 8), 2),
    "blocked to A": (coalesced((128, 64), 8, 4), operand("A", (128, 64), 2, (2, 2)), 2),
    "blocked to B": (coalesced((64, 128), 8, 4), operand("B", (64, 128), 2, (2, 2)), 2),
    "blocked to A, fp8": (coalesced((128, 64), 16, 4), operand("A", (128, 64), 4, (2, 2)), 1),
    "a transpose": (coalesced((64, 64), 4, 4), coalesced((64, 64), 4, 4, (0, 1)), 4),
    "a transpose of halves": (coalesced((64, 64), 8, 4), coalesced((64, 64), 8, 4, (0, 1)), 2),
    "a transpose of bytes": (coalesced((64, 64), 16, 4), coalesced((64, 64), 16, 4, (0, 1)), 1),
    "a transpose of doubles": (coalesced((64, 64), 2, 4), coalesced((64, 64), 2, 4, (0, 1)), 8),
    "a transpose by 32 warps": (coalesced((128, 256), 4, 32), coalesced((128, 256), 4, 32, (0, 1)), 4),
}


@pytest.mark.parametrize("name", FAMILIAR)
def test_familiar_conversions(name: str) -> None:
    src, dst, item = FAMILIAR[name]
    trip = exchange(src, dst, item)
    carried_out(src, dst, item, trip)
    assert trip.store.conflict_free and trip.load.conflict_free
    assert trip.scratch_bytes == src.numel * item


@pytest.mark.parametrize("name, store, load", [("accumulator to blocked", 1, 1), ("a transpose", 1, 1),
                                               ("a transpose of halves", 1, 1),
                                               ("accumulator to blocked, 2 bytes", 1, 1)])
def test_as_few_wavefronts_as_the_bytes_need(name: str, store: int, load: int) -> None:
    trip = exchange(*FAMILIAR[name])
    assert trip.store.wavefronts <= store * trip.store.ideal and trip.load.wavefronts <= load * trip.load.ideal


@pytest.mark.parametrize("item, width", [(2, 8), (4, 4)])
@pytest.mark.parametrize("rows, columns", [(128, 128), (64, 256), (128, 64)])
def test_what_costs_the_same_comes_in_the_order_of_the_registers(rows: int, columns: int, item: int,
                                                                 width: int) -> None:
    """A vector that is stored to global memory is one vector of shared memory, without moves in between."""
    src, dst = warpgroup_accumulator((rows, columns), (4, 1)), coalesced((rows, columns), width, 4)
    trip = exchange(src, dst, item)
    if item == 2:
        assert trip.store.form is Form.MATRIX and trip.store.wavefronts == trip.store.ideal
        assert all(step.registers == tuple(range(step.registers[0], step.registers[0] + width))
                   and step.registers[0] % width == 0 for step in trip.load.steps)
    carried_out(src, dst, item, trip)


def test_replicas_share_out_their_registers() -> None:
    """The row sums of a tile, held by all lanes of a row: 16 stores a thread become few."""
    src = sliced(blocked((128, 64), (1, 4), (4, 8), (4, 1), (1, 0)), 1)
    dst = coalesced((128,), 1, 4)
    trip = exchange(src, dst, 4)
    carried_out(src, dst, 4, trip)
    assert trip.spread is not None and len(trip.store.steps) == 1 and src.size("register") == 8
    assert spread(dst) == live_registers(dst).layout


def wrong(trip: Trip) -> dict[str, Trip]:
    """Plans with one fault each."""
    store, load = trip.store, trip.load
    first = store.steps[0]

    def flipped(bases):
        return (bases[0] ^ store.width, *bases[1:])

    return {
        "store lane": dataclasses.replace(trip, store=dataclasses.replace(store, by_lane=flipped(store.by_lane))),
        "store offset": dataclasses.replace(trip, store=dataclasses.replace(
            store, steps=(dataclasses.replace(first, offset=first.offset ^ store.width), *store.steps[1:]))),
        "store registers": dataclasses.replace(trip, store=dataclasses.replace(
            store, steps=(dataclasses.replace(first, registers=(first.registers[0] ^ 1, *first.registers[1:])),
                          *store.steps[1:]))),
        "step left out": dataclasses.replace(trip, store=dataclasses.replace(store, steps=store.steps[1:])),
        "load lane": dataclasses.replace(trip, load=dataclasses.replace(load, by_lane=flipped(load.by_lane))),
        "load warp": dataclasses.replace(trip, load=dataclasses.replace(load, by_warp=flipped(load.by_warp))),
        "load registers": dataclasses.replace(trip, load=dataclasses.replace(
            load, steps=(*load.steps[1:], dataclasses.replace(load.steps[-1], offset=load.steps[0].offset)))),
        "load copies": dataclasses.replace(trip, load=dataclasses.replace(load, copies=load.copies[::-1])),
        "scratch": dataclasses.replace(trip, scratch_bytes=trip.scratch_bytes // 2),
    }


@pytest.mark.parametrize("name", ["a transpose", "blocked to B", "a transpose of bytes"])
def test_a_wrong_trip_is_noticed(name: str) -> None:
    src, dst, item = FAMILIAR[name]
    for fault, trip in wrong(exchange(src, dst, item)).items():
        with pytest.raises((Fault, AssertionError)):
            carried_out(src, dst, item, trip)
            raise KeyError(fault)
    with pytest.raises(Fault, match="before the barrier"):
        carried_out(src, dst, item, exchange(src, dst, item), barrier=False)


def test_one_unlucky_order_of_bits_costs_conflicts() -> None:
    """What the swizzle is for: the same trip through row-major memory."""
    src, dst, item = FAMILIAR["a transpose"]
    plain = Layout.of((64, 64), offset=[1 << i for i in range(12)])
    assert access(dst, plain, item).wavefronts == 16 * exchange(src, dst, item).load.wavefronts
