"""Blocked and coalesced layouts against their definition by boxes, and against bases computed elsewhere."""

from __future__ import annotations

import random

import numpy as np
import pytest

from tilewright.layout.families import blocked, coalesced
from tilewright.layout.linear import pack, padded_shape
from tilewright.layout.text import parse

# Read from another compiler's linear layouts of the same parameters (2026-11-30): 261 random blocked layouts and slices
# were compared then; these few are kept.  Registers past the tile are dropped here.
KNOWN = [
    ((16, 64), (1, 4), (2, 16), (4, 1), (1, 0), "#linear(16x64, register b0 b1 a3, lane b2 b3 b4 b5 a0, warp a1 a2)"),
    ((2, 8), (4, 2), (4, 8), (1, 2), (0, 1), "#linear(2x8, register a0 b0, lane 0 0 b1 b2 0, warp 0)"),
    ((64, 2, 4), (1, 1, 8), (2, 16, 1), (1, 4, 2), (1, 0, 2),
     "#linear(64x2x4, register c0 c1 a1 a2 a3 a4 a5, lane b0 0 0 0 a0, warp 0 0 0)"),
    ((2, 128), (4, 1), (4, 8), (1, 1), (0, 1), "#linear(2x128, register a0 b3 b4 b5 b6, lane 0 0 b0 b1 b2, warp)"),
    ((1,), (4,), (32,), (2,), (0,), "#linear(1, register, lane 0 0 0 0 0, warp 0)"),
]


@pytest.mark.parametrize("shape, registers, lanes, warps, order, text", KNOWN, ids=[str(k[0]) for k in KNOWN])
def test_known_blocked_layouts(shape, registers, lanes, warps, order, text) -> None:
    assert str(blocked(shape, registers, lanes, warps, order)) == text


def boxes(n: int, rank: int, rng: random.Random) -> tuple[int, ...]:
    out = [1] * rank
    for _ in range(n):
        out[rng.randrange(rank)] *= 2
    return tuple(out)


def digits(index: int, sizes: tuple[int, ...], order: tuple[int, ...]) -> list[int]:
    """Coordinates of a flat index in a box that is filled in `order`."""
    out = [0] * len(sizes)
    for d in order:
        out[d], index = index % sizes[d], index // sizes[d]
    return out


@pytest.mark.parametrize("seed", range(40))
def test_blocked_is_boxes_in_boxes(seed: int) -> None:
    """The definition, place by place: position = register + size * (lane + lanes * warp), in each dim, mod the side."""
    rng = random.Random(seed)
    rank = rng.randint(1, 3)
    order = tuple(rng.sample(range(rank), rank))
    regs, lanes, warps = boxes(rng.randint(0, 3), rank, rng), boxes(5, rank, rng), boxes(rng.randint(0, 3), rank, rng)
    shape = tuple(r * l * w for r, l, w in zip(regs, lanes, warps))    # the span; smaller tiles below
    layout = blocked(shape, regs, lanes, warps, order)
    small = tuple(max(1, s >> rng.randint(0, 4)) for s in shape)
    cut = blocked(small, regs, lanes, warps, order)
    for register in range(layout.size("register")):
        for lane in range(32):
            for warp in range(layout.size("warp")):
                at = [r + a * (l + b * w) for r, l, w, a, b in zip(
                    digits(register, regs, order), digits(lane, lanes, order), digits(warp, warps, order), regs, lanes)]
                assert layout(register=register, lane=lane, warp=warp) == pack(shape, at)
                inside = pack(small, [x % s for x, s in zip(at, small)])
                kept = digits(register, regs, order)
                if all(k < s for k, s in zip(kept, small)):     # the registers that the smaller tile keeps
                    number = flat(kept, tuple(map(min, regs, small)), order)
                    assert cut(register=number, lane=lane, warp=warp) == inside


def flat(coordinates: list[int], sizes: tuple[int, ...], order: tuple[int, ...]) -> int:
    index = 0
    for d in reversed(order):
        index = index * sizes[d] + coordinates[d]
    return index


@pytest.mark.parametrize("shape", [(1,), (7,), (1000,), (4, 8), (3, 130), (1, 1), (2, 3, 4), (2, 1, 2, 1, 5), ()])
@pytest.mark.parametrize("num_warps", [1, 4, 32])
def test_coalesced_gives_consecutive_elements_to_consecutive_lanes(shape: tuple[int, ...], num_warps: int) -> None:
    layout = coalesced(shape, 4, num_warps)
    assert layout.shape == padded_shape(shape) and layout.is_surjective()
    assert (layout.size("lane"), layout.size("warp")) == (32, num_warps)
    vector = min(4, layout.shape[-1]) if shape else 1
    first = layout.table()[:, :32]
    owners = [lane for lane in range(32) if not lane & layout.free()["lane"]]
    assert first[:vector, owners].T.reshape(-1).tolist() == list(range(vector * len(owners)))


def test_coalesced_in_another_order() -> None:
    layout = coalesced((64, 8), 4, 2, order=(0, 1))
    column = np.arange(512).reshape(64, 8)
    assert column.reshape(-1)[layout.table()][:4, :16].T.reshape(-1).tolist() == column[:, 0].tolist()
    assert layout == blocked((64, 8), (4, 1), (16, 2), (1, 2), (0, 1))


@pytest.mark.parametrize("arguments, message", [
    (((4, 4), (1,), (4, 8), (1, 1), (1, 0)), "size_per_thread"), (((4, 4), (1, 3), (4, 8), (1, 1), (1, 0)), "3 is not"),
    (((4, 4), (1, 1), (4, 8), (1, 1), (1, 1)), "no order")])
def test_what_blocked_refuses(arguments, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        blocked(*arguments)


def test_known_texts_are_layouts() -> None:
    for *parameters, text in KNOWN:
        assert parse(text) == blocked(*parameters)
