"""Layouts of shared memory: from the offset, counted in elements, to the tile's index.

`row_major`, `swizzled` (cp.async and plain stores), `nvmma` (what TMA writes and wgmma reads), and `Padded`, which is a
linear layout followed by a map of addresses that is affine and not linear.  `order` names the fastest dim first.
Tests: tests/layout/test_shared.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tilewright.layout.linear import OFFSET, Layout, log2, pack, padded_shape

SWIZZLE_WIDTHS = (128, 64, 32)      # bytes of a row of the hardware's swizzles
CHUNK_BYTES = 16                    # what a lane copies, and a row of a matrix
LINE_BYTES = 128                    # all banks


def _row_major_order(shape: Sequence[int]) -> tuple[int, ...]:
    return tuple(reversed(range(len(shape))))


def _at(shape: Sequence[int], coordinates: dict[int, int]) -> int:
    return pack(shape, [coordinates.get(d, 0) for d in range(len(shape))])


def _check_order(shape: Sequence[int], order: Sequence[int]) -> None:
    if sorted(order) != list(range(len(shape))):
        raise ValueError(f"{tuple(order)} is no order of {len(shape)} dims")


def row_major(shape: Sequence[int], order: Sequence[int] | None = None) -> Layout:
    """The elements one after another, the first dim of `order` fastest (row-major if None)."""
    shape = padded_shape(shape)
    order = _row_major_order(shape) if order is None else order
    _check_order(shape, order)
    return Layout(shape, ((OFFSET, tuple(_at(shape, {d: 1 << i}) for d in order for i in range(log2(shape[d])))),))


def swizzled(shape: Sequence[int], vector: int, per_phase: int, max_phase: int,
             order: Sequence[int] | None = None) -> Layout:
    """Rows whose groups of `vector` elements are permuted: group g of row r lies at place g ^ (r / per_phase mod
    max_phase).  Rows run along the first dim of `order`, are counted by the second; further dims repeat it.

    All three numbers are powers of two; the xor is cut to the row.
    """
    shape = padded_shape(shape)
    order = _row_major_order(shape) if order is None else tuple(order)
    _check_order(shape, order)
    if len(shape) < 2:
        return row_major(shape, order)
    fast, slow = order[0], order[1]
    group, low, phases = log2(vector), log2(per_phase), log2(max_phase)
    bases = list(row_major(shape, order).bases(OFFSET))
    first = log2(shape[fast])
    for i in range(low, min(low + phases, log2(shape[slow]))):
        column = group + i - low
        if column < first:      # a row bit moves the groups: the offset in the row and the row bit together
            bases[first + i] ^= bases[column]
    return Layout(shape, ((OFFSET, tuple(bases)),))


def nvmma(shape: Sequence[int], item_bytes: int, width: int, order: Sequence[int] | None = None) -> Layout:
    """The tile in panels of `width` bytes (128, 64 or 32) along the fast dim, each with all rows, 16-byte chunks
    permuted within 8 rows: bits 4.. of the byte offset are xored with bits 7.. (CUtensorMap's swizzle modes, and the
    matrix descriptors of wgmma; all forms were verified on an H200, 2026-08).

    K-major and MN-major operands differ in the order only.  A panel needs 1024, 512 or 256 aligned bytes.  ValueError
    if the fast dim is narrower than a panel, or for another width.
    """
    shape = padded_shape(shape)
    order = _row_major_order(shape) if order is None else tuple(order)
    _check_order(shape, order)
    if width not in SWIZZLE_WIDTHS or len(shape) < 2:
        raise ValueError(f"a hardware swizzle has rows of 128, 64 or 32 bytes and two dims or more, "
                         f"not {width} bytes and {len(shape)} dims")
    fast, slow = order[0], order[1]
    in_row = log2(width // item_bytes)
    if log2(shape[fast]) < in_row:
        raise ValueError(f"a {width}-byte swizzle needs {width // item_bytes} elements along dim {fast}, "
                         f"the tile has {shape[fast]}")
    rows = log2(shape[slow])
    bases = [_at(shape, {fast: 1 << i}) for i in range(in_row)]
    bases += [_at(shape, {slow: 1 << i}) for i in range(rows)]
    bases += [_at(shape, {fast: 1 << i}) for i in range(in_row, log2(shape[fast]))]
    bases += [_at(shape, {d: 1 << i}) for d in order[2:] for i in range(log2(shape[d]))]
    chunk, row = log2(16 // item_bytes), log2(128 // item_bytes)    # the offset bits of byte bits 4 and 7
    for k in range(log2(width // 16)):
        if row + k < len(bases):
            bases[row + k] ^= bases[chunk + k]
    return Layout(shape, ((OFFSET, tuple(bases)),))


def for_matrices(shape: Sequence[int], item_bytes: int, order: Sequence[int] | None = None) -> Layout:
    """Where an operand that is copied in by rows (cp.async, 16 bytes a lane) should lie for ldmatrix to read it, with
    or without .trans: 16-byte chunks permuted so that eight rows of one column of chunks are in all banks.

    Rows of 128 bytes or more are permuted within eight rows; shorter ones share a line of 128 bytes and are permuted
    within as many lines as there are chunks in a row.
    """
    sides = padded_shape(shape)
    fast = order[0] if order is not None else len(sides) - 1
    vector = max(1, CHUNK_BYTES // item_bytes)
    chunks = max(1, sides[fast] * item_bytes // CHUNK_BYTES)
    per_line = max(1, LINE_BYTES // CHUNK_BYTES // chunks)      # rows that share a line
    return swizzled(shape, vector, per_line, min(chunks, LINE_BYTES // CHUNK_BYTES), order)


@dataclass(frozen=True)
class Padded:
    """`pad` elements of gap after each `interval` elements of a linear layout."""

    linear: Layout
    interval: int
    pad: int

    def place(self, offset: int) -> int:
        """Where the element at `offset` of the linear layout lies."""
        return offset + offset // self.interval * self.pad

    @property
    def elements(self) -> int:
        """How many elements the memory must hold."""
        return self.place(self.linear.numel - 1) + 1
