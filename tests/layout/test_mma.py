"""Fragments of mma.sync and wgmma against tables written out after the PTX ISA (sections 9.7.14.5 and 9.7.15.5).

A formula gives, for element i of a thread, row and column from `group` = lane / 4 and `inside` = lane mod 4.  Another
compiler's linear layouts of 219 fragments agree as well (compared 2026-11-30); in 6 others two warpgroups side by side
hold the same columns there and share them out here.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from tilewright.layout.linear import pack
from tilewright.layout.mma import accumulator, k_width, operand, warpgroup_accumulator, warpgroup_operand

Formula = Callable[[int, int, int], tuple[int, int]]

A_FRAGMENTS: list[tuple[int, int, int, int, Formula]] = [     # bits, m, k, elements, (row, column)
    (64, 8, 4, 1, lambda i, g, t: (g, t)),
    (64, 16, 4, 2, lambda i, g, t: (g if i == 0 else g + 8, t)),
    (64, 16, 8, 4, lambda i, g, t: (g if i in (0, 2) else g + 8, t if i < 2 else t + 4)),
    (64, 16, 16, 8, lambda i, g, t: (g if i % 2 == 0 else g + 8, (i * 2 + t) if i % 2 == 0 else (i * 2 - 2 + t))),
    (32, 16, 4, 2, lambda i, g, t: (g if i == 0 else g + 8, t)),
    (32, 16, 8, 4, lambda i, g, t: (g if i in (0, 2) else g + 8, t if i < 2 else t + 4)),
    (16, 16, 8, 4, lambda i, g, t: (g if i < 2 else g + 8, t * 2 + (i & 1))),
    (16, 16, 16, 8, lambda i, g, t: (g if i in (0, 1, 4, 5) else g + 8, t * 2 + (i & 1) + (0 if i < 4 else 8))),
    (8, 16, 16, 8, lambda i, g, t: (g if i < 4 else g + 8, t * 4 + (i & 3))),
    (8, 16, 32, 16, lambda i, g, t: (g if i < 4 or 8 <= i < 12 else g + 8, t * 4 + (i & 3) + (0 if i < 8 else 16))),
    (4, 16, 32, 16, lambda i, g, t: (g if i < 8 else g + 8, t * 8 + (i & 7))),
    (4, 16, 64, 32, lambda i, g, t: (g if i < 8 or 16 <= i < 24 else g + 8, t * 8 + (i & 7) + (0 if i < 16 else 32))),
    (1, 16, 128, 64, lambda i, g, t: (g if i < 32 else g + 8, t * 32 + (i & 31))),
    (1, 16, 256, 128, lambda i, g, t: (g if i < 32 or 64 <= i < 96 else g + 8,
                                       t * 32 + i % 32 + (0 if i < 64 else 128))),
]

B_FRAGMENTS: list[tuple[int, int, int, Formula]] = [     # bits, k, elements, (row, column) of an 8-column operand
    (64, 4, 1, lambda i, g, t: (t, g)),
    (64, 8, 2, lambda i, g, t: (t if i == 0 else t + 4, g)),
    (64, 16, 4, lambda i, g, t: (t + i * 4, g)),
    (32, 4, 1, lambda i, g, t: (t, g)),
    (32, 8, 2, lambda i, g, t: (t if i == 0 else t + 4, g)),
    (16, 8, 2, lambda i, g, t: (t * 2 + i, g)),
    (16, 16, 4, lambda i, g, t: (t * 2 + (i & 1) + (0 if i < 2 else 8), g)),
    (8, 16, 4, lambda i, g, t: (t * 4 + i, g)),
    (8, 32, 8, lambda i, g, t: (t * 4 + (i & 3) + (0 if i < 4 else 16), g)),
    (4, 32, 8, lambda i, g, t: (t * 8 + (i & 7), g)),
    (4, 64, 16, lambda i, g, t: (t * 8 + (i & 7) + (0 if i < 8 else 32), g)),
    (1, 128, 32, lambda i, g, t: (t * 32 + i, g)),
    (1, 256, 64, lambda i, g, t: (t * 32 + (i & 31) + (0 if i < 32 else 128), g)),
]


def same(layout, elements: int, formula: Formula) -> None:
    assert layout.size("register") == elements and layout.size("warp") == 1 and layout.is_injective()
    for i in range(elements):
        for lane in range(32):
            assert layout(register=i, lane=lane) == pack(layout.shape, formula(i, lane // 4, lane % 4)), (i, lane)


@pytest.mark.parametrize("bits, m, k, elements, formula", A_FRAGMENTS,
                         ids=[f"{c[0]}b-m{c[1]}k{c[2]}" for c in A_FRAGMENTS])
def test_a(bits: int, m: int, k: int, elements: int, formula: Formula) -> None:
    same(operand("A", (m, k), k_width(bits)), elements, formula)


@pytest.mark.parametrize("bits, k, elements, formula", B_FRAGMENTS, ids=[f"{c[0]}b-k{c[1]}" for c in B_FRAGMENTS])
def test_b(bits: int, k: int, elements: int, formula: Formula) -> None:
    same(operand("B", (k, 8), k_width(bits)), elements, formula)


def test_accumulators() -> None:
    same(accumulator((16, 8)), 4, lambda i, g, t: (g if i < 2 else g + 8, t * 2 + (i & 1)))
    same(accumulator((8, 8)), 2, lambda i, g, t: (g, t * 2 + (i & 1)))      # m8n8k4 of fp64


@pytest.mark.parametrize("n", [8, 16, 32, 64, 128, 256])
def test_wgmma_accumulators(n: int) -> None:
    layout = warpgroup_accumulator((64, n))
    assert layout.size("register") == n // 2 and layout.is_injective()
    for i in range(n // 2):
        for thread in range(128):
            row = 16 * (thread // 32) + thread % 32 // 4 + 8 * (i // 2 % 2)
            column = 8 * (i // 4) + 2 * (thread % 4) + i % 2
            assert layout(register=i, lane=thread % 32, warp=thread // 32) == row * n + column


@pytest.mark.parametrize("bits", [8, 16, 32])
def test_wgmma_operand_a(bits: int) -> None:
    """One k-step of 32 bytes: each warp's 16 rows in the fragment of mma.sync."""
    k = 256 // bits
    layout, warp = warpgroup_operand((64, k), k_width(bits)), operand("A", (16, k), k_width(bits))
    for register in range(layout.size("register")):
        for thread in range(128):
            lane = thread % 32
            assert layout(register=register, lane=lane, warp=thread // 32) == \
                thread // 32 * 16 * k + warp(register=register, lane=lane)


@pytest.mark.parametrize("warps", [(1, 1), (2, 2), (4, 1), (1, 4), (4, 8)])
@pytest.mark.parametrize("bits", [8, 16, 32, 64])
def test_a_tile_is_made_of_whole_fragments(warps: tuple[int, int], bits: int) -> None:
    """The low registers are one instruction's, and warps that share an operand's rows or columns hold the same."""
    m, n, k, w = 128, 128, 64, k_width(bits)
    acc, a, b = accumulator((m, n), warps), operand("A", (m, k), w, warps), operand("B", (k, n), w, warps)
    assert acc.divide(accumulator((16, 8))) is not None
    assert a.divide(operand("A", (16, 8 * w), w)) is not None and b.divide(operand("B", (8 * w, 8), w)) is not None
    def of_warp(layout, warp: int) -> np.ndarray:
        return layout.table()[:, 32 * warp:32 * warp + 32]

    for warp in range(warps[0] * warps[1]):
        out = of_warp(acc, warp)
        assert set((of_warp(a, warp) // k).flat) == set((out // n).flat)
        assert set((of_warp(b, warp) % n).flat) == set((out % n).flat)


@pytest.mark.parametrize("groups", [(4, 1), (8, 1), (4, 2)])
@pytest.mark.parametrize("n", [8, 64, 256])
def test_wgmma_tiles_are_made_of_whole_fragments(groups: tuple[int, int], n: int) -> None:
    acc = warpgroup_accumulator((256, 256), groups, n)
    quotient = acc.divide(warpgroup_accumulator((64, n)))
    if groups == (4, 1):
        assert quotient is not None and quotient.bases("warp") == ()
    if groups == (4, 2):        # the second warpgroup begins where the first one's instruction ends
        assert acc.bases("warp")[2] == min(n, 128)
    # the first registers are the first instruction's, whatever the warp grid
    for register in range(min(n, 256 // groups[1]) // 2):
        assert acc(register=register) == (register & 1) + (register >> 1 & 1) * 8 * 256 + (register >> 2) * 8


def test_batches_and_small_tiles() -> None:
    batched = accumulator((4, 16, 8))
    assert str(batched) == "#linear(4x16x8, register c0 b3 a0 a1, lane c1 c2 b0 b1 b2, warp)"
    small = accumulator((8, 4), (2, 2))
    assert str(small) == "#linear(8x4, register b0, lane b1 0 a0 a1 a2, warp 0 0)"
    assert str(operand("A", (16, 16), 4)) == "#linear(16x16, register b0 b1 a3, lane b2 b3 a0 a1 a2, warp)"


def test_refusals() -> None:
    with pytest.raises(ValueError, match="A or B"):
        operand("C", (16, 16), 2)
    with pytest.raises(ValueError, match="matrix fragment"):
        accumulator((16,))
    for make in (lambda: warpgroup_accumulator((64, 64), (2, 1)), lambda: warpgroup_operand((64, 16), 2, (1, 4))):
        with pytest.raises(ValueError, match="in fours"):
            make()
