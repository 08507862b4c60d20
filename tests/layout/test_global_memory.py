"""Global accesses against a count of addresses, lane by lane."""

from __future__ import annotations

import random

import numpy as np
import pytest

from tests.layout.random_layouts import random_layout, random_shape
from tilewright.layout.families import blocked, coalesced
from tilewright.layout.global_memory import GlobalAccess, global_access, vector_bits
from tilewright.layout.linear import Layout, unpack
from tilewright.layout.mma import accumulator
from tilewright.layout.route import live_registers
from tilewright.layout.views import sliced


def counted(layout: Layout, item: int, dim: int, run: int, found: GlobalAccess, store: bool) -> tuple[int, int, int]:
    """(requests, sectors, lines) of warp 0: addresses are made up so that only runs share sectors."""
    live = live_registers(layout)
    taken = sum(1 << p for p in found.register_bits)
    requests = sectors = lines = 0
    for register in live.numbers:
        if register & taken:
            continue
        requests += 1
        touched, rows = set(), set()
        for lane in range(32):
            if store and lane & layout.free()["lane"]:
                continue
            first = None
            for k in range(found.vector):
                number = register | sum(1 << p for i, p in enumerate(found.register_bits) if k >> i & 1)
                at = list(unpack(layout.shape, layout(register=number, lane=lane)))
                along = at[dim]
                first = along if first is None else first
                assert along == first + k and first % found.vector == 0     # a vector is an aligned run
                at[dim] = along // run * run
                touched.add((*at, along % run * item // 32))
                rows.add((*at, along % run * item // 128))
        sectors += len(touched)
        lines += len(rows)
    return requests, sectors, lines


@pytest.mark.parametrize("seed", range(50))
def test_random_layouts(seed: int) -> None:
    rng = random.Random(seed)
    layout = random_layout(rng, random_shape(rng, rng.randint(0, 9)), rng.randint(0, 2), seed % 3 == 0)
    for dim in range(len(layout.shape)):
        item, run, store = rng.choice([1, 2, 4, 8]), 1 << rng.randint(0, 8), rng.random() < 0.5
        found = global_access(layout, item, dim, run, store=store)
        assert counted(layout, item, dim, run, found, store) == (
            found.requests, found.sectors, found.lines)
        assert found.vector * item <= 16 and found.vector <= run and found.least_sectors <= found.sectors


@pytest.mark.parametrize("item, vector", [(1, 16), (2, 8), (4, 4), (8, 2)])
def test_coalesced_layouts_waste_nothing(item: int, vector: int) -> None:
    layout = coalesced((64, 256), vector, 4)
    found = global_access(layout, item, 1, 256)
    assert (found.vector, found.sectors) == (vector, found.least_sectors)
    limited = global_access(layout, item, 1, 256, vector=1)
    assert (limited.vector, limited.requests) == (1, found.requests * vector) and limited.cost > found.cost


def test_familiar_accesses() -> None:
    rows = coalesced((64, 64), 4, 4)
    down = global_access(rows, 4, 0, 64)        # column-major memory read by rows: 16 columns, two rows each
    assert (down.vector, down.sectors) == (1, 16 * down.requests)
    gather = global_access(rows, 4, 1, 1)
    assert (gather.vector, gather.sectors) == (1, 32 * gather.requests)
    epilogue = global_access(accumulator((64, 64), (2, 2)), 2, 1, 64, store=True)   # 8 rows, 4 lanes of 4 bytes each
    assert (epilogue.vector, epilogue.sectors // epilogue.requests) == (2, 8)
    assert epilogue.sectors == 2 * epilogue.least_sectors
    copies = sliced(blocked((64, 64), (1, 4), (2, 16), (4, 1), (1, 0)), 1)
    assert global_access(copies, 4, 0, 64, store=True).sectors < 32 * global_access(copies, 4, 0, 64).requests


def test_vectors_are_runs_in_every_thread() -> None:
    layout = Layout.of((64,), register=(2, 1), lane=(4, 8, 16, 32, 0), warp=())
    assert vector_bits(layout, 0, 4) == (1, 0) and vector_bits(layout, 0, 2) == (1,)
    assert vector_bits(layout.with_bases(lane=(4 | 2, 8, 16, 32, 0)), 0, 4) == (1,)
    assert vector_bits(layout.with_bases(lane=(4 | 1, 8, 16, 32, 0)), 0, 4) == ()
    column = Layout.of((8, 4), register=(4, 8, 16), lane=(1, 2, 0, 0, 0), warp=())
    assert vector_bits(column, 0, 4) == (0, 1) and vector_bits(column, 1, 4) == ()


def test_the_vector_bits_give_the_table_runs() -> None:
    layout = accumulator((32, 32), (2, 1))
    bits = vector_bits(layout, 1, 8)
    assert bits == (0,)
    pairs = layout.table().reshape(-1, 2, layout.threads)
    assert (np.diff(pairs, axis=1) == 1).all()
