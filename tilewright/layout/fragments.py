"""Which registers an instruction of the tensor cores takes, for a dot whose operands are in the layouts of `mma.py`.

A dot is a loop over instructions: tiles along m and n, steps along k.  Register bits along m or n that are not inside
an instruction number its tiles, those along k its steps.  Which elements of k an instruction gets does not matter as
long as A and B agree: a dot sums over all of them.  So operands may hold longer runs along k than the instruction asks
for.
Tests: tests/layout/test_fragments.py, where every dot is carried out.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tilewright.layout import f2
from tilewright.layout.linear import REGISTER, Layout, log2, unpack

Tile = tuple[int, int]      # batch, tile along m or n


@dataclass(frozen=True)
class DotRegisters:
    """The registers of each instruction, in the order of its operands' elements.

    The instruction (m, n, step) of a batch adds the product of `a[(batch, m), step]` and `b[(batch, n), step]` to
    `c[batch, m, n]`.
    """

    a: Mapping[tuple[Tile, int], tuple[int, ...]]
    b: Mapping[tuple[Tile, int], tuple[int, ...]]
    c: Mapping[tuple[int, int, int], tuple[int, ...]]


@dataclass(frozen=True)
class _Bits:
    """The register bits of a matrix in registers by the dim along which they move, and how far each moves."""

    batch: list[int]
    rows: list[int]
    columns: list[int]
    moves: dict[int, tuple[int, ...]]

    def along(self, which: list[int], dim: int) -> list[int]:
        return [self.moves[i][dim] for i in which]


def _bits(layout: Layout) -> _Bits:
    found: tuple[list[int], list[int], list[int]] = [], [], []
    rank = len(layout.shape)
    moves = {i: unpack(layout.shape, b) for i, b in enumerate(layout.bases(REGISTER))}
    for i, coordinates in moves.items():
        dims = [d for d, c in enumerate(coordinates) if c]
        if len(dims) != 1:
            raise ValueError(f"register bit {i} of {layout} moves along {len(dims)} dims: no fragment does")
        found[0 if dims[0] < rank - 2 else dims[0] - (rank - 3)].append(i)
    return _Bits(*found, moves)


def dot_registers(a: Layout, b: Layout, c: Layout, width: int, rows: int = 16) -> DotRegisters:
    """The registers for C += A B by instructions of `rows` rows (16; 8: m8n8k4 of fp64), 8 columns, and as much of k as
    a step of `2 * width` elements a thread holds; `width` is `mma.k_width` of the type that the instruction reads.

    Where a thread holds only `width` elements along k in all, the instruction of half that k is meant.  ValueError if
    the three layouts do not belong together.
    """
    left, right, out = _bits(a), _bits(b), _bits(c)
    _check(left, right, out, (a, b, c))
    first = log2(width)
    step = first + (len(left.columns) > first)      # the bits along k inside an instruction
    high = log2(rows // 8)                          # 16 rows: one bit, the group's rows + 8
    k_left, k_right = left.columns, right.rows
    inside_a = [*k_left[:first], *left.rows[:high], *k_left[first:step]]
    inside_c = [*out.columns[:1], *out.rows[:high]]
    tiles_a = _numbered(left.batch, left.rows[high:], k_left[step:], inside_a)
    tiles_b = _numbered(right.batch, right.columns, k_right[step:], k_right[:step])
    tiles_c = _numbered(out.batch, out.rows[high:], out.columns[1:], inside_c)
    return DotRegisters({((n, m), k): r for (n, m, k), r in tiles_a.items()},
                        {((n, m), k): r for (n, m, k), r in tiles_b.items()}, tiles_c)


def _numbered(batch: list[int], outer: list[int], inner: list[int],
              inside: list[int]) -> dict[tuple[int, int, int], tuple[int, ...]]:
    """(batch, outer, inner) -> the registers of an instruction there."""
    return {(n, i, j): tuple(f2.scatter(n, batch) | f2.scatter(i, outer) | f2.scatter(j, inner) | f2.scatter(e, inside)
                             for e in range(1 << len(inside)))
            for n in range(1 << len(batch)) for i in range(1 << len(outer)) for j in range(1 << len(inner))}


def _check(left: _Bits, right: _Bits, out: _Bits, layouts: tuple[Layout, Layout, Layout]) -> None:
    """Tiles and steps of the same number must be the same part of the tile in both that share a dim."""
    rank = len(layouts[2].shape)
    agree = [left.along(left.columns, rank - 1) == right.along(right.rows, rank - 2),
             left.along(left.rows, rank - 2) == out.along(out.rows, rank - 2),
             right.along(right.columns, rank - 1) == out.along(out.columns, rank - 1)[1:]]
    for d in range(rank - 2):
        agree.append(left.along(left.batch, d) == right.along(right.batch, d) == out.along(out.batch, d))
    if not all(agree):
        raise ValueError("A, B and C are not operands and accumulator of one dot: "
                         + ", ".join(str(layout) for layout in layouts))
