"""Dots carried out instruction by instruction: each gathers its matrices from the lanes as the PTX ISA says."""

from __future__ import annotations

import numpy as np
import pytest

from tests.layout.test_mma import A_FRAGMENTS, B_FRAGMENTS
from tilewright.layout.families import coalesced
from tilewright.layout.fragments import DotRegisters, dot_registers
from tilewright.layout.linear import Layout
from tilewright.layout.mma import accumulator, k_width, operand, warpgroup_accumulator

A_RULES = {(bits, m, k): rule for bits, m, k, _, rule in A_FRAGMENTS}
B_RULES = {(bits, k): rule for bits, k, _, rule in B_FRAGMENTS}


def mma(bits: int, rows: int, k: int, a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
    """mma.sync m`rows`n8k`k`: [elements, 32 lanes] each; D likewise."""
    group, inside = np.arange(32) // 4, np.arange(32) % 4
    left, right, out = np.zeros((rows, k), np.int64), np.zeros((k, 8), np.int64), np.zeros((rows, 8), np.int64)
    for matrix, values, rule in ((left, a, A_RULES[bits, rows, k]), (right, b, B_RULES[bits, k])):
        filled = set()
        for i, row in enumerate(values):
            for lane in range(32):
                at = rule(i, int(group[lane]), int(inside[lane]))
                matrix[at] = row[lane]
                filled.add(at)
        assert len(filled) == matrix.size
    places = [(group if i < 2 else group + 8, inside * 2 + (i & 1)) for i in range(len(c))]
    for place, row in zip(places, c):
        out[place] = row
    out = out + left @ right
    return np.stack([out[place] for place in places])


def carried_out(layouts: tuple[Layout, Layout, Layout], plan: DotRegisters, bits: int, rows: int) -> None:
    """C = A B + C of random numbers, warp by warp."""
    rng = np.random.default_rng(6)
    tiles = [rng.integers(-9, 9, layout.shape) for layout in layouts]
    x, y, z = (t.reshape(-1)[layout.table()] for t, layout in zip(tiles, layouts))
    want = (tiles[0] @ tiles[1] + tiles[2]).reshape(-1)[layouts[2].table()]
    k = len(next(iter(plan.b.values()))) * 4
    steps = sorted({step for _, step in plan.a})
    for warp in range(layouts[2].size("warp")):
        lanes = slice(32 * warp, 32 * warp + 32)
        for (batch, m, n), registers in plan.c.items():
            for step in steps:
                a, b = plan.a[(batch, m), step], plan.b[(batch, n), step]
                z[list(registers), lanes] = mma(bits, rows, k, x[list(a), lanes], y[list(b), lanes],
                                                z[list(registers), lanes])
    assert (z == want).all()


@pytest.mark.parametrize("bits, k", [(64, 16), (32, 16), (16, 32), (8, 64), (16, 8), (32, 4), (8, 16), (4, 64)])
@pytest.mark.parametrize("warps", [(1, 1), (2, 2)])
def test_dots(bits: int, k: int, warps: tuple[int, int]) -> None:
    w = k_width(bits)
    layouts = operand("A", (32, k), w, warps), operand("B", (k, 32), w, warps), accumulator((32, 32), warps)
    carried_out(layouts, dot_registers(*layouts, w), bits, 16)


@pytest.mark.parametrize("bits, wider", [(16, 2), (16, 4), (32, 4), (8, 2)])
def test_operands_may_hold_longer_runs(bits: int, wider: int) -> None:
    """16-bit operands that came as bytes keep the runs of four that they were loaded in."""
    w = k_width(bits)
    k = 8 * w * wider
    warps = 2, 1
    layouts = (operand("A", (32, k), w * wider, warps), operand("B", (k, 16), w * wider, warps),
               accumulator((32, 16), warps))
    carried_out(layouts, dot_registers(*layouts, w), bits, 16)


def test_batches_and_doubles_of_eight_rows() -> None:
    layouts = operand("A", (2, 16, 16), 2), operand("B", (2, 16, 8), 2), accumulator((2, 16, 8))
    plan = dot_registers(*layouts, 2)
    assert {batch for batch, _, _ in plan.c} == {0, 1}
    carried_out(layouts, plan, 16, 16)
    doubles = operand("A", (8, 4), 1), operand("B", (4, 8), 1), accumulator((8, 8))
    carried_out(doubles, dot_registers(*doubles, 1, rows=8), 64, 8)


def test_every_register_is_taken_once() -> None:
    layouts = operand("A", (64, 32), 2, (2, 2)), operand("B", (32, 64), 2, (2, 2)), accumulator((64, 64), (2, 2))
    plan = dot_registers(*layouts, 2)
    for layout, groups in zip(layouts, (plan.a, plan.b, plan.c)):
        assert sorted(r for group in groups.values() for r in group) == list(range(layout.size("register")))


@pytest.mark.parametrize("layouts", [
    (operand("A", (32, 32), 2), operand("B", (32, 16), 4), accumulator((32, 16))),
    (operand("A", (64, 32), 2, (2, 1)), operand("B", (32, 16), 2, (2, 1)), accumulator((64, 16))),
    (operand("A", (64, 32), 2, (4, 1)), operand("B", (32, 32), 2, (4, 1)), warpgroup_accumulator((64, 16)))])
def test_layouts_of_different_dots(layouts: tuple[Layout, Layout, Layout]) -> None:
    with pytest.raises(ValueError, match="not operands and accumulator of one dot"):
        dot_registers(*layouts, 2)


def test_no_fragments() -> None:
    mixed = coalesced((32, 32), 4, 1)
    mixed = mixed.with_bases(register=(1 | 32, *mixed.bases("register")[1:]))
    with pytest.raises(ValueError, match="moves along 2 dims"):
        dot_registers(mixed, mixed, mixed, 2)


def test_a_wrong_order_of_registers_is_noticed() -> None:
    layouts = operand("A", (16, 16), 2), operand("B", (16, 8), 2), accumulator((16, 8))
    good = dot_registers(*layouts, 2)
    swapped = {key: (r[0], r[2], r[1], *r[3:]) for key, r in good.a.items()}
    with pytest.raises(AssertionError):
        carried_out(layouts, DotRegisters(swapped, good.b, good.c), 16, 16)
