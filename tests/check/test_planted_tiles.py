"""Mistakes as they are made in kernels on vectors and 2-D tiles: each is found, with argument, line and cure.

A case is a kernel whose guilty line ends in `# here`, a launch of it, and what the report must say.
"""

import numpy as np
import pytest

import tilewright as triton
import tilewright.language as tl
from tests.check.planted import finds
from tilewright import FootprintError, OutOfBoundsError, UndefinedLaneError, UnwrittenReadError, WrappedOffsetError


def floats(*shape):
    return np.arange(np.prod(shape), dtype=np.float32).reshape(shape)


def ints(*values):
    return np.array(values, np.int32)


@triton.jit
def add_without_tail_mask(x, y, out, n, B: tl.constexpr):
    offs = tl.program_id(0) * B + tl.arange(0, B)
    mask = offs < n
    a = tl.load(x + offs, mask=mask)
    b = tl.load(y + offs)  # here
    tl.store(out + offs, a + b, mask=mask)


@triton.jit
def scale_in_place_off_by_one(x, n, B: tl.constexpr):
    offs = tl.program_id(0) * B + tl.arange(0, B)
    v = tl.load(x + offs, mask=offs < n, other=0.0)
    tl.store(x + offs, v * 2, mask=offs <= n)  # here


@triton.jit
def block_start_forgotten_in_mask(x, out, n, B: tl.constexpr):
    start = tl.program_id(0) * B
    lane = tl.arange(0, B)
    v = tl.load(x + start + lane, mask=lane < n, other=0.0)  # here
    tl.store(out + start + lane, v, mask=start + lane < n)


@triton.jit
def grid_rounded_up_twice(x, out, n, B: tl.constexpr):
    offs = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(out + offs, tl.load(x + offs) + 1)  # here


@triton.jit
def reversed_from_n(x, out, n, B: tl.constexpr):
    offs = tl.program_id(0) * B + tl.arange(0, B)
    mask = offs < n
    v = tl.load(x + (n - offs), mask=mask, other=0.0)  # here
    tl.store(out + offs, v, mask=mask)


@triton.jit
def difference_to_the_left(x, out, n, B: tl.constexpr):
    offs = tl.program_id(0) * B + tl.arange(0, B)
    mask = offs < n
    here = tl.load(x + offs, mask=mask, other=0.0)
    left = tl.load(x + offs - 1, mask=mask, other=0.0)  # here
    tl.store(out + offs, here - left, mask=mask)


@triton.jit
def stencil_right_edge(x, out, n, B: tl.constexpr):
    offs = tl.program_id(0) * B + tl.arange(0, B)
    mask = (offs > 0) & (offs < n)
    left = tl.load(x + offs - 1, mask=mask, other=0.0)
    right = tl.load(x + offs + 1, mask=mask, other=0.0)  # here
    tl.store(out + offs, left + right, mask=mask)


@triton.jit
def every_other_element(x, out, n, B: tl.constexpr):
    offs = tl.program_id(0) * B + tl.arange(0, B)
    mask = offs < n
    tl.store(out + offs, tl.load(x + offs, mask=mask, other=0.0), mask=mask)  # here


@triton.jit
def interleaved_pairs(x, out, n, B: tl.constexpr):
    offs = tl.program_id(0) * B + tl.arange(0, B)
    real = tl.load(x + 2 * offs, mask=offs < n, other=0.0)  # here
    tl.store(out + offs, real, mask=offs < n)


@triton.jit
def bytes_for_elements(x, out, n, B: tl.constexpr):
    offs = tl.arange(0, B)
    tl.store(out + offs, tl.load(x + offs * 4, mask=offs < n, other=0.0), mask=offs < n)  # here


@triton.jit
def row_mask_only(x, out, rows, columns, M: tl.constexpr, N: tl.constexpr):
    m, n = tl.arange(0, M), tl.arange(0, N)
    mask = m[:, None] < rows
    v = tl.load(x + m[:, None] * columns + n[None, :], mask=mask, other=0.0)  # here
    tl.store(out + m[:, None] * N + n[None, :], v)


@triton.jit
def mask_of_other_axis(x, out, rows, columns, M: tl.constexpr, N: tl.constexpr):
    m, n = tl.arange(0, M), tl.arange(0, N)
    mask = (m[:, None] < columns) & (n[None, :] < rows)
    v = tl.load(x + m[:, None] * columns + n[None, :], mask=mask, other=0.0)  # here
    tl.store(out + m[:, None] * N + n[None, :], v)


@triton.jit
def masks_joined_with_or(x, out, rows, columns, M: tl.constexpr, N: tl.constexpr):
    m, n = tl.arange(0, M), tl.arange(0, N)
    mask = (m[:, None] < rows) | (n[None, :] < columns)
    v = tl.load(x + m[:, None] * columns + n[None, :], mask=mask, other=0.0)  # here
    tl.store(out + m[:, None] * N + n[None, :], v)


@triton.jit
def padded_width_as_stride(x, out, rows, columns, M: tl.constexpr, N: tl.constexpr):
    m, n = tl.arange(0, M), tl.arange(0, N)
    mask = (m[:, None] < rows) & (n[None, :] < columns)
    v = tl.load(x + m[:, None] * N + n[None, :], mask=mask, other=0.0)  # here
    tl.store(out + m[:, None] * columns + n[None, :], v, mask=mask)


@triton.jit
def strides_swapped(x, out, sm, sn, rows, columns, M: tl.constexpr, N: tl.constexpr):
    m, n = tl.arange(0, M), tl.arange(0, N)
    mask = (m[:, None] < rows) & (n[None, :] < columns)
    v = tl.load(x + m[:, None] * sn + n[None, :] * sm, mask=mask, other=0.0)  # here
    tl.store(out + m[:, None] * columns + n[None, :], v, mask=mask)


@triton.jit
def transposes_with_source_strides(x, out, rows, columns, M: tl.constexpr, N: tl.constexpr):
    m, n = tl.arange(0, M), tl.arange(0, N)
    mask = (m[:, None] < rows) & (n[None, :] < columns)
    v = tl.load(x + m[:, None] * columns + n[None, :], mask=mask, other=0.0)
    tl.store(out + n[None, :] * columns + m[:, None], v, mask=mask)  # here


@triton.jit
def assumes_contiguous_rows(x, out, rows, columns, M: tl.constexpr, N: tl.constexpr):
    m, n = tl.arange(0, M), tl.arange(0, N)
    mask = (m[:, None] < rows) & (n[None, :] < columns)
    v = tl.load(x + m[:, None] * columns + n[None, :], mask=mask, other=0.0)  # here
    tl.store(out + m[:, None] * columns + n[None, :], v, mask=mask)


@triton.jit
def writes_next_to_a_column(x, out, rows, stride, M: tl.constexpr):
    m = tl.arange(0, M)
    v = tl.load(x + m, mask=m < rows, other=0.0)
    tl.store(out + m * stride + 1, v, mask=m < rows)  # here


@triton.jit
def fills_more_columns(out, rows, columns, stride, M: tl.constexpr, N: tl.constexpr):
    m, n = tl.arange(0, M), tl.arange(0, N)
    tl.store(out + m[:, None] * stride + n[None, :], 0.0, mask=m[:, None] < rows)  # here


@triton.jit
def batch_times_rows(x, out, rows, columns, N: tl.constexpr):
    batch, row = tl.program_id(0), tl.program_id(1)
    n = tl.arange(0, N)
    at = (batch * columns + row) * columns + n
    v = tl.load(x + at, mask=n < columns, other=0.0)  # here
    tl.store(out + (batch * rows + row) * columns + n, v, mask=n < columns)


@triton.jit
def program_ids_swapped(x, out, columns, B: tl.constexpr):
    row, block = tl.program_id(1), tl.program_id(0)
    offs = block * B + tl.arange(0, B)
    v = tl.load(x + row * columns + offs, mask=offs < columns, other=0.0)  # here
    tl.store(out + row * columns + offs, v, mask=offs < columns)


@triton.jit
def image_border(x, out, height, width, B: tl.constexpr):
    row, cols = tl.program_id(0), tl.arange(0, B)
    total = tl.zeros((B,), tl.float32)
    for dy in tl.static_range(-1, 2):
        y = row + dy
        total += tl.load(x + y * width + cols, mask=(cols < width) & (y < height), other=0.0)  # here
    tl.store(out + row * width + cols, total, mask=cols < width)


@triton.jit
def lookup_unclamped(table, ids, out, n, width, W: tl.constexpr):
    row = tl.program_id(0)
    w = tl.arange(0, W)
    at = tl.load(ids + row)
    tl.store(out + row * width + w, tl.load(table + at * width + w, mask=w < width), mask=w < width)  # here


@triton.jit
def last_of_a_list(starts, x, out):
    row = tl.program_id(0)
    first, last = tl.load(starts + row), tl.load(starts + row + 1)
    tl.store(out + row, tl.load(x + last) - tl.load(x + first))  # here


@triton.jit
def offsets_not_loaded(starts, x, out, B: tl.constexpr):
    row = tl.program_id(0)
    first, last = tl.load(starts + row), tl.load(starts + row + 1)  # here
    b = tl.arange(0, B)
    tl.store(out + row, tl.sum(tl.load(x + first + b, mask=first + b < last, other=0.0)))


@triton.jit
def batch_stride_wraps(x, out, stride, B: tl.constexpr):
    batch = tl.program_id(0)
    b = tl.arange(0, B)
    tl.store(out + batch * B + b, tl.load(x + batch * stride + b))  # here


@triton.jit
def narrow_column_index(x, out, B: tl.constexpr):
    b = tl.arange(0, B).to(tl.int8)
    tl.store(out + tl.arange(0, B), tl.load(x + b * 3))  # here


@triton.jit
def rows_in_16_bits(rows, x, out, width, B: tl.constexpr):
    b = tl.arange(0, B)
    at = tl.load(rows + tl.program_id(0)).to(tl.int16) * 300
    tl.store(out + tl.program_id(0) * B + b, tl.load(x + 40_000 + at.to(tl.int32) + b))  # here


@triton.jit
def copies_tail_garbage(x, out, n, B: tl.constexpr):
    b = tl.arange(0, B)
    v = tl.load(x + b, mask=b < n)  # other
    tl.store(out + b, v)  # here


@triton.jit
def select_the_wrong_way(x, out, n, B: tl.constexpr):
    b = tl.arange(0, B)
    v = tl.load(x + b, mask=b < n)  # other
    tl.store(out + b, tl.where(b < n, 0.0, v))  # here


@triton.jit
def adds_to_empty_output(x, out, n, B: tl.constexpr):
    b = tl.program_id(0) * B + tl.arange(0, B)
    old = tl.load(out + b, mask=b < n, other=0.0)  # here
    tl.store(out + b, old + tl.load(x + b, mask=b < n, other=0.0), mask=b < n)


@triton.jit
def scratch_row_of_another(x, scratch, out, B: tl.constexpr):
    row, b = tl.program_id(0), tl.arange(0, B)
    tl.store(scratch + row * B + b, tl.load(x + row * B + b))
    tl.store(out + row * B + b, tl.load(scratch + (row + 1) * B + b))  # here


@triton.jit
def padded_scratch(x, scratch, out, n, B: tl.constexpr):
    b = tl.arange(0, B)
    tl.store(scratch + b, tl.load(x + b, mask=b < n, other=0.0), mask=b < n)
    tl.store(out, tl.max(tl.load(scratch + b), 0))  # here


W = floats(6, 8)
OUT = OutOfBoundsError
CASES = {
    "tail": (OUT, add_without_tail_mask, (4,), (floats(100), floats(100), floats(128), 100), {"B": 32}, "y", 100, 3),
    "<=": (OUT, scale_in_place_off_by_one, (2,), (floats(48), 48), {"B": 32}, "x", 48, 1),
    "mask of lanes": (OUT, block_start_forgotten_in_mask, (3,), (floats(40), floats(40), 40), {"B": 16}, "x", 40, 2),
    "grid": (OUT, grid_rounded_up_twice, (5,), (floats(64), floats(64), 64), {"B": 16}, "x", 64, 4),
    "n - i": (OUT, reversed_from_n, (1,), (floats(16), floats(16), 16), {"B": 16}, "x", 16, 0),
    "i - 1": (OUT, difference_to_the_left, (2,), (floats(32), floats(32), 32), {"B": 16}, "x", -1, 0),
    "i + 1": (OUT, stencil_right_edge, (2,), (floats(32), floats(32), 32), {"B": 16}, "x", 32, 1),
    "strided view": (FootprintError, every_other_element, (1,), (floats(32)[::2], floats(16), 16),
                     {"B": 16}, "x", 1, 0),
    "pairs": (OUT, interleaved_pairs, (2,), (floats(32), floats(32), 32), {"B": 16}, "x", 32, 1),
    "bytes": (OUT, bytes_for_elements, (1,), (floats(16), floats(16), 16), {"B": 16}, "x", 16, 0),
    "rows only": (OUT, row_mask_only, (1,), (W, floats(8, 16), 6, 8), {"M": 8, "N": 16}, "x", 48, 0),
    "axes of a mask": (OUT, mask_of_other_axis, (1,), (W, floats(8, 8), 6, 8), {"M": 8, "N": 8}, "x", 48, 0),
    "or": (OUT, masks_joined_with_or, (1,), (W, floats(8, 16), 6, 8), {"M": 8, "N": 16}, "x", 48, 0),
    "width": (OUT, padded_width_as_stride, (1,), (W, floats(6, 8), 6, 8), {"M": 8, "N": 16}, "x", 48, 0),
    "strides": (OUT, strides_swapped, (1,), (floats(3, 16), floats(48), 16, 1, 3, 16), {"M": 4, "N": 16}, "x", 48, 0),
    "transpose": (OUT, transposes_with_source_strides, (1,), (W, floats(8, 6), 6, 8), {"M": 8, "N": 8}, "out", 48, 0),
    "contiguous": (FootprintError, assumes_contiguous_rows, (1,), (floats(6, 12)[:, :5], floats(30), 6, 5),
                   {"M": 8, "N": 8}, "x", 5, 0),
    "next column": (FootprintError, writes_next_to_a_column, (1,), (floats(6), floats(8, 4)[:, 2], 6, 4),
                    {"M": 8}, "out",
                    1, 0),
    "more columns": (FootprintError, fills_more_columns, (1,), (floats(8, 12)[:, :5], 6, 5, 12),
                     {"M": 8, "N": 8}, "out",
                     5, 0),
    "batches": (OUT, batch_times_rows, (2, 3), (floats(2, 3, 8), floats(48), 3, 8), {"N": 8}, "x", 64, (1, 0, 0)),
    "axes of a grid": (OUT, program_ids_swapped, (2, 3), (floats(2, 30), floats(2, 30), 30), {"B": 10}, "x", 60,
                       (0, 2, 0)),
    "image": (OUT, image_border, (4,), (floats(4, 6), floats(4, 6), 4, 6), {"B": 8}, "x", -6, 0),
    "lookup": (OUT, lookup_unclamped, (3,), (floats(5, 4), ints(4, 0, 5), floats(12), 3, 4), {"W": 4}, "table", 20, 2),
    "last": (OUT, last_of_a_list, (2,), (ints(0, 5, 9), floats(9), floats(2)), {}, "x", 9, 1),
    "offsets": (OUT, offsets_not_loaded, (3,), (ints(0, 5, 9), floats(9), floats(3)), {"B": 8}, "starts", 3, 2),
    "int32": (WrappedOffsetError, batch_stride_wraps, (3,), (floats(32), floats(24), 2**31 - 4),
              {"B": 8}, "x", None, None),
    "int8": (WrappedOffsetError, narrow_column_index, (1,), (floats(256), floats(64)), {"B": 64}, "x", None, 0),
    "int16": (WrappedOffsetError, rows_in_16_bits, (2,), (ints(100, 110), floats(80_000), floats(8), 4), {"B": 4}, "x",
              None, 1),
    "tail garbage": (UndefinedLaneError, copies_tail_garbage, (1,), (floats(10), floats(16), 10),
                     {"B": 16}, "out", 10, 0),
    "where": (UndefinedLaneError, select_the_wrong_way, (1,), (floats(10), floats(16), 10), {"B": 16}, "out", 10, 0),
    "empty output": (UnwrittenReadError, adds_to_empty_output, (2,), (floats(20), floats(20), 20),
                     {"B": 16, "check": ["out"]}, "out", 0, 0),
    "scratch": (UnwrittenReadError, scratch_row_of_another, (1,), (floats(8), floats(16), floats(8)),
                {"B": 8, "check": ["scratch"]}, "scratch", 8, 0),
    "padding": (UnwrittenReadError, padded_scratch, (1,), (floats(5), floats(8), floats(1), 5),
                {"B": 8, "check": ["scratch", "out"]}, "scratch", 5, 0),
}


@pytest.mark.parametrize("case", CASES)
def test_it_is_found(case):
    kind, kernel, grid, args, kwargs, argument, index, program = CASES[case]
    program = (program, 0, 0) if isinstance(program, int) else program
    args = [a.copy() if isinstance(a, np.ndarray) and a.flags.c_contiguous else a for a in args]
    error = finds(kind, kernel, grid, *args, argument=argument, index=index, program=program, **kwargs)
    assert error.argument in kernel.arg_names
