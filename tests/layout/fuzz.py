"""Random conversions, planned and carried out: every element in its place, every cost exact.

    python -m tests.layout.fuzz 1500

CI runs a sample (test_plan.py).
"""

from __future__ import annotations

import random
import sys
import time
from collections import Counter

import numpy as np

from tests.layout.machine import BYTES, Machine
from tests.layout.random_layouts import random_layout, random_shape
from tilewright.layout.families import blocked, coalesced
from tilewright.layout.linear import Layout
from tilewright.layout.mma import accumulator, operand, warpgroup_accumulator, warpgroup_operand
from tilewright.layout.plan import Kind, Plan, plan
from tilewright.layout.views import sliced


def of_a_family(rng: random.Random, shape: tuple[int, int], warps: int) -> Layout:
    """A layout as kernels have them."""
    along_m = 1 << rng.randint(0, warps.bit_length() - 1)
    grid, width = (along_m, warps // along_m), rng.choice([1, 2, 4])
    kind = rng.randrange(7 if warps >= 4 else 5)
    if kind == 0:
        return coalesced(shape, rng.choice([1, 2, 4, 8]), warps, rng.choice([(1, 0), (0, 1)]))
    if kind == 1:
        lanes = 1 << rng.randint(0, 5)
        size = 1 << rng.randint(0, 2), 1 << rng.randint(0, 3)
        return blocked(shape, size, (lanes, 32 // lanes), grid, rng.choice([(1, 0), (0, 1)]))
    if kind == 2:
        return accumulator(shape, grid)
    if kind in (3, 4):
        return operand("AB"[kind - 3], shape, width, grid)
    four = 4, warps // 4
    return warpgroup_accumulator(shape, four) if kind == 5 else warpgroup_operand(shape, width, four)


def family_pair(rng: random.Random) -> tuple[Layout, Layout]:
    """Two layouts of families of one tile, or slices of them."""
    shape, warps = (1 << rng.randint(3, 7), 1 << rng.randint(3, 7)), 1 << rng.randint(0, 3)
    if rng.random() < 0.7:
        return of_a_family(rng, shape, warps), of_a_family(rng, shape, warps)
    length, other = shape[0], 1 << rng.randint(3, 6)
    src, dst = (sliced(of_a_family(rng, (length, other) if axis else (other, length), warps), axis)
                for axis in (rng.randrange(2), rng.randrange(2)))
    return src, dst


def random_pair(seed: int) -> tuple[Layout, Layout, int]:
    """(source, destination, element bytes): families, or random bits, of which half share their warps, so that shuffles
    are possible."""
    rng = random.Random(seed)
    if seed % 4 == 0:
        return *family_pair(rng), rng.choice([1, 2, 4, 8])
    warps, mixed = rng.randint(0, 3), seed % 3 == 0
    shape = random_shape(rng, rng.randint(0, 11))
    src, dst = (random_layout(rng, shape, warps, mixed) for _ in range(2))
    if seed % 2 and dst.with_bases(warp=src.bases("warp")).is_surjective():
        dst = dst.with_bases(warp=src.bases("warp"))
    return src, dst, rng.choice([1, 2, 4, 8])


def carried_out(p: Plan) -> Machine:
    """Run a plan on random data and check every register of every thread, and what the plan says of its cost."""
    rng = np.random.default_rng(p.src.numel)
    tile = rng.integers(0, 1 << 8 * p.item_bytes, p.src.numel, dtype=np.uint64).astype(BYTES[p.item_bytes])
    x, want = tile[p.src.table()], tile[p.dst.table()]
    machine = Machine(p.src.size("warp"), p.scratch_bytes, p.item_bytes)
    if p.kind is Kind.NOTHING:
        out = x
    elif p.moves is not None:
        out = machine.move(x, p.moves)
    elif p.shuffles is not None:
        out = machine.shuffle(x, p.shuffles, p.dst.size("register"))
    else:
        out = np.zeros(want.shape, want.dtype)
        for piece in p.pieces:
            part = x[list(piece.take)]
            part = machine.move(part, p.trip.spread) if p.trip.spread else part
            machine.store(part, p.trip.store)
            machine.barrier()
            out[list(piece.put)] = machine.load(p.trip.load, len(piece.put))
            machine.written[:] = machine.visible[:] = False     # the barrier before the next piece
    assert (out == want).all(), f"{p.src}\n{p.dst}\n{p}"
    assert machine.shuffles == (p.shuffles.instructions if p.shuffles else 0)
    if p.trip:
        assert machine.wavefronts == (p.trip.store.wavefronts + p.trip.load.wavefronts) * len(p.pieces)
    return machine


def main(count: int) -> None:
    kinds: Counter[str] = Counter()
    started = time.thread_time()
    for seed in range(count):
        src, dst, item = random_pair(seed)
        limit = 2048 if seed % 7 == 0 else None
        p = plan(src, dst, item, matrix=seed % 5 != 0, stores=seed % 3 != 0, scratch_limit=limit)
        carried_out(p)
        kinds[p.kind.value] += 1
        if p.trip:
            for side in (p.trip.store, p.trip.load):
                kinds["sides free of conflicts" if side.conflict_free else "sides with conflicts"] += 1
                kinds[side.form.value] += 1
            kinds["in pieces"] += len(p.pieces) > 1
    print(dict(kinds), f"{time.thread_time() - started:.1f} s")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 300)
