"""The tensor cores' fragments: accumulators and operands of mma.sync and wgmma as lists of parts.

In every fragment lane = 4 * group + thread in group (PTX ISA, "Matrix fragments for mma.m16n8k*"): the accumulator has
the group along m and pairs of columns in each thread; an operand has the group along m (A) or n (B) and, in each
thread, a run of elements along k that fills a 32-bit register.  That covers all element widths, from 1 to 64 bits, and
all k: an instruction of larger k has more registers of the same pattern.

Dims: the accumulator and C are [m, n], A is [m, k], B is [k, n]; dims before these are batches, and lie in registers.
`warps` = (along m, along n): warps along n come first.  Operands are replicated over the warps of the other dim.
Tests: tests/layout/test_mma.py.
"""

from __future__ import annotations

from collections.abc import Sequence

from tilewright.layout.families import Part, deal
from tilewright.layout.linear import LANE, REGISTER, WARP, Layout, log2, padded_shape

WARPGROUP_ROWS = 4      # warps of a warpgroup, stacked along m


def k_width(bits: int) -> int:
    """How many elements of `bits` bits a thread holds side by side along k: as many as fill a 32-bit register."""
    return max(1, 32 // bits)


def _matrix_dims(shape: Sequence[int]) -> tuple[int, int, tuple[int, ...]]:
    """(the dim of rows, the dim of columns, the order in which left-over bits become registers)."""
    rank = len(shape)
    if rank < 2:
        raise ValueError(f"a matrix fragment of a tile of shape {tuple(shape)}")
    return rank - 2, rank - 1, tuple(reversed(range(rank - 2)))


def accumulator(shape: Sequence[int], warps: tuple[int, int] = (1, 1)) -> Layout:
    """C and D of mma.sync m16n8 (m8n8 of fp64: its first two registers), for accumulators of every type.

    PTX ISA, m16n8k16 and its kin: row = group, + 8 for c2 and c3; column = 2 * thread in group + i mod 2.
    """
    m, n, batch = _matrix_dims(shape)
    parts: list[Part] = [(REGISTER, n, 1), (LANE, n, 2), (LANE, m, 3), (REGISTER, m, 1),
                         (WARP, n, log2(warps[1])), (WARP, m, log2(warps[0]))]
    return deal(shape, parts, (n, m, *batch))


def operand(which: str, shape: Sequence[int], width: int, warps: tuple[int, int] = (1, 1)) -> Layout:
    """A ("A", [m, k]) or B ("B", [k, n]) of mma.sync; `width` elements along k lie side by side in a thread.

    `width` is `k_width(bits)` for what the instruction reads.  More is legal too, as long as A and B agree: a dot sums
    over k in any order, so an operand that is widened in registers keeps its vectors.
    """
    rows, columns, batch = _matrix_dims(shape)
    w, along_m, along_n = log2(width), log2(warps[0]), log2(warps[1])
    if which == "A":
        parts: list[Part] = [(REGISTER, columns, w), (LANE, columns, 2), (LANE, rows, 3), (REGISTER, rows, 1),
                             (REGISTER, columns, 1), (WARP, None, along_n), (WARP, rows, along_m)]
        return deal(shape, parts, (columns, rows, *batch))
    if which == "B":
        parts = [(REGISTER, rows, w), (LANE, rows, 2), (LANE, columns, 3), (REGISTER, rows, 1),
                 (WARP, columns, along_n), (WARP, None, along_m)]
        return deal(shape, parts, (rows, columns, *batch))
    raise ValueError(f"an operand is A or B, not {which!r}")


def _warpgroups(warps: tuple[int, int]) -> None:
    if warps[0] % WARPGROUP_ROWS:
        raise ValueError(f"wgmma needs warps in fours along m, not {warps}")


def warpgroup_accumulator(shape: Sequence[int], warps: tuple[int, int] = (4, 1), n: int = 256) -> Layout:
    """D of wgmma m64n`n`: four warps of 16 rows stacked along m; `n` is cut to the columns that a warpgroup has.

    PTX ISA, "Register fragments and shared memory matrix layouts" of wgmma: row = 16 * warp + group, + 8 for every
    second pair; column = 8 * (i / 4) + 2 * thread in group + i mod 2.
    """
    _warpgroups(warps)
    m, cols, batch = _matrix_dims(shape)
    n = max(8, min(n, padded_shape(shape)[cols] // warps[1]))
    parts: list[Part] = [(REGISTER, cols, 1), (LANE, cols, 2), (LANE, m, 3), (REGISTER, m, 1),
                         (REGISTER, cols, max(0, log2(n) - 3)), (WARP, m, log2(warps[0])),
                         (WARP, cols, log2(warps[1]))]
    return deal(shape, parts, (cols, m, *batch))


def warpgroup_operand(shape: Sequence[int], width: int, warps: tuple[int, int] = (4, 1)) -> Layout:
    """A of wgmma in registers, [m, k]: the fragment of mma.sync in each of four stacked warps."""
    _warpgroups(warps)
    rows, columns, batch = _matrix_dims(shape)
    parts: list[Part] = [(REGISTER, columns, log2(width)), (LANE, columns, 2), (LANE, rows, 3), (REGISTER, rows, 1),
                         (REGISTER, columns, 1), (WARP, rows, log2(warps[0])), (WARP, None, log2(warps[1]))]
    return deal(shape, parts, (columns, rows, *batch))
