"""Mistakes as they are made between programs: each is found, with both lines.

A case is a kernel whose guilty line ends in `# here`, the other access in `# other`, a launch of it, and what the
report must say; with the grid or atomics of the last entry it is right.
"""

import numpy as np
import pytest

import tilewright as triton
import tilewright.language as tl
from tests.check.planted import finds, passes
from tilewright import DataRaceError


def floats(*shape):
    return np.arange(np.prod(shape), dtype=np.float32).reshape(shape)


def ints(*values):
    return np.array(values, np.int32)


@triton.jit
def split_k_without_atomics(a, b, c, K, SPLIT: tl.constexpr, N: tl.constexpr):
    i, k = tl.arange(0, N), tl.program_id(0) * SPLIT + tl.arange(0, SPLIT)
    x = tl.load(a + i[:, None] * K + k[None, :])
    y = tl.load(b + k[:, None] * N + i[None, :])
    at = c + i[:, None] * N + i[None, :]
    old = tl.load(at)  # other
    tl.store(at, old + tl.dot(x, y))  # here


@triton.jit
def split_k_overwrites(a, b, c, K, SPLIT: tl.constexpr, N: tl.constexpr):
    i, k = tl.arange(0, N), tl.program_id(0) * SPLIT + tl.arange(0, SPLIT)
    x = tl.load(a + i[:, None] * K + k[None, :])
    y = tl.load(b + k[:, None] * N + i[None, :])
    tl.store(c + i[:, None] * N + i[None, :], tl.dot(x, y))  # here


@triton.jit
def column_sums_of_row_blocks(x, out, rows, M: tl.constexpr, N: tl.constexpr):
    m, n = tl.program_id(0) * M + tl.arange(0, M), tl.arange(0, N)
    v = tl.load(x + m[:, None] * N + n[None, :], mask=m[:, None] < rows, other=0.0)
    tl.store(out + n, tl.sum(v, 0))  # here


@triton.jit
def weight_gradient_of_rows(x, g, dw, n, B: tl.constexpr):
    row, b = tl.program_id(0), tl.arange(0, B)
    part = tl.load(x + row * n + b, mask=b < n, other=0.0) * tl.load(g + row * n + b, mask=b < n, other=0.0)
    old = tl.load(dw + b, mask=b < n, other=0.0)  # other
    tl.store(dw + b, old + part, mask=b < n)  # here


@triton.jit
def maximum_over_programs(x, best, B: tl.constexpr):
    v = tl.max(tl.load(x + tl.program_id(0) * B + tl.arange(0, B)), 0)
    if v > tl.load(best):  # other
        tl.store(best, v)  # here


@triton.jit
def block_start_without_b(x, out, n, B: tl.constexpr):
    offs = tl.program_id(0) + tl.arange(0, B)
    v = tl.load(x + offs, mask=offs < n, other=0.0)
    tl.store(out + offs, v + tl.program_id(0), mask=offs < n)  # here


@triton.jit
def output_rows_of_half_width(x, out, n, B: tl.constexpr):
    row, b = tl.program_id(0), tl.arange(0, B)
    tl.store(out + row * (n // 2) + b, tl.load(x + row * n + b, mask=b < n), mask=b < n)  # here


@triton.jit
def third_axis_forgotten(x, out, M: tl.constexpr, N: tl.constexpr):
    i = tl.program_id(0) * N + tl.arange(0, N)
    j = tl.program_id(1)
    tl.store(out + j * M + i, tl.load(x + (tl.program_id(2) * 2 + j) * M + i))  # here


@triton.jit
def scan_carry_from_the_left(x, sums, out, B: tl.constexpr):
    pid = tl.program_id(0)
    offs = pid * B + tl.arange(0, B)
    v = tl.cumsum(tl.load(x + offs), 0)
    carry = tl.load(sums + pid - 1, mask=pid > 0, other=0.0)  # other
    tl.store(sums + pid, carry + tl.sum(tl.load(x + offs)))  # here
    tl.store(out + offs, v + carry)


@triton.jit
def smooths_in_place(x, n, B: tl.constexpr):
    offs = tl.program_id(0) * B + tl.arange(0, B)
    left = tl.load(x + offs - 1, mask=(offs > 0) & (offs < n), other=0.0)  # here
    right = tl.load(x + offs + 1, mask=offs + 1 < n, other=0.0)  # other
    tl.store(x + offs, (left + right) / 2, mask=offs < n)  # here


@triton.jit
def reverses_in_place(x, n, B: tl.constexpr):
    offs = tl.program_id(0) * B + tl.arange(0, B)
    v = tl.load(x + offs, mask=offs < n, other=0.0)  # other
    tl.store(x + n - 1 - offs, v, mask=offs < n)  # here


@triton.jit
def bins_by_store(x, bins, B: tl.constexpr):
    at = tl.load(x + tl.program_id(0) * B + tl.arange(0, B))
    old = tl.load(bins + at)  # other
    tl.store(bins + at, old + 1)  # here


@triton.jit
def embedding_gradient(ids, g, dtable, D: tl.constexpr):
    row, d = tl.program_id(0), tl.arange(0, D)
    at = tl.load(ids + row) * D + d
    old = tl.load(dtable + at)  # other
    tl.store(dtable + at, old + tl.load(g + row * D + d))  # here


@triton.jit
def appends_by_a_plain_counter(x, count, out):
    pid = tl.program_id(0)
    if tl.load(x + pid) > 2:
        at = tl.load(count)  # other
        tl.store(count, at + 1)  # here
        tl.store(out + at, tl.load(x + pid))


@triton.jit
def zeroes_before_it_adds(x, total, B: tl.constexpr):
    pid = tl.program_id(0)
    if pid == 0:
        tl.store(total, 0.0)  # other
    tl.atomic_add(total, tl.sum(tl.load(x + pid * B + tl.arange(0, B))))  # here


@triton.jit
def normalises_by_the_total(x, total, out, B: tl.constexpr):
    offs = tl.program_id(0) * B + tl.arange(0, B)
    v = tl.load(x + offs)
    tl.atomic_add(total, tl.sum(v))  # other
    tl.store(out + offs, v / tl.load(total))  # here


@triton.jit
def releases_the_lock_by_a_store(lock, total, x):
    while tl.atomic_cas(lock, 0, 1) == 1:  # here
        pass
    tl.store(total, tl.load(total) + tl.load(x + tl.program_id(0)))
    tl.store(lock, 0)  # other


@triton.jit
def last_program_without_waiting(x, parts, out, n, B: tl.constexpr):
    pid = tl.program_id(0)
    tl.store(parts + pid, tl.sum(tl.load(x + pid * B + tl.arange(0, B))))  # other
    if pid == n - 1:
        i = tl.arange(0, 8)
        tl.store(out, tl.sum(tl.load(parts + i, mask=i < n, other=0.0)))  # here


MM = {"SPLIT": 4, "N": 4}
CASES = {
    "split k": (split_k_without_atomics, (2,), (floats(4, 8) + 1, floats(8, 4) + 1, floats(4, 4), 8), MM, "c", (1,)),
    "split k, stores": (split_k_overwrites, (2,), (floats(4, 8) + 1, floats(8, 4) + 1, floats(4, 4), 8), MM, "c", (1,)),
    "column sums": (column_sums_of_row_blocks, (3,), (floats(6, 8), floats(8), 6), {"M": 2, "N": 8}, "out", (1,)),
    "weights": (weight_gradient_of_rows, (3,), (floats(3, 6) + 1, floats(3, 6) + 1, floats(6), 6),
                {"B": 8}, "dw", (1,)),
    "maximum": (maximum_over_programs, (3,), (floats(24), floats(1)), {"B": 8}, "best", (1,)),
    "block start": (block_start_without_b, (3,), (floats(24), floats(24), 24), {"B": 8}, "out", (1,)),
    "width": (output_rows_of_half_width, (3,), (floats(3, 8), floats(3, 8), 8), {"B": 8}, "out", (1,)),
    "third axis": (third_axis_forgotten, (2, 2, 2), (floats(2, 2, 8), floats(2, 8)),
                   {"M": 8, "N": 4}, "out", (2, 2, 1)),
    "carry": (scan_carry_from_the_left, (3,), (floats(24), floats(3), floats(24)), {"B": 8}, "sums", (1,)),
    "smooth": (smooths_in_place, (3,), (floats(24) ** 2, 24), {"B": 8}, "x", (1,)),
    "reverse": (reverses_in_place, (2,), (floats(16), 16), {"B": 8}, "x", (1,)),
    "bins": (bins_by_store, (2,), (ints(0, 1, 2, 3, 3, 4, 5, 6), ints(*range(8))), {"B": 4}, "bins", (1,)),
    "embedding": (embedding_gradient, (3,), (ints(1, 0, 1), floats(3, 4) + 1, floats(2, 4)), {"D": 4}, "dtable", (1,)),
    "append": (appends_by_a_plain_counter, (5,), (floats(5), ints(0), floats(5)), {}, "count", (4,)),
    "zeroes": (zeroes_before_it_adds, (3,), (floats(24), floats(1)), {"B": 8}, "total", (1,)),
    "normalise": (normalises_by_the_total, (3,), (floats(24) + 1, floats(1), floats(24)), {"B": 8}, "total", (1,)),
    "unlock": (releases_the_lock_by_a_store, (3,), (ints(0), floats(1), floats(3)), {}, "lock", (1,)),
    "last program": (last_program_without_waiting, (3,), (floats(24), floats(3), floats(1), 3),
                     {"B": 8}, "parts", None),
}


@pytest.mark.parametrize("case", CASES)
def test_it_is_found(case):
    kernel, grid, args, kwargs, argument, alone = CASES[case]
    args = [a.copy() if isinstance(a, np.ndarray) else a for a in args]
    finds(DataRaceError, kernel, grid, *args, argument=argument, **kwargs)
    if alone:
        passes(kernel, alone, *args, **kwargs)
