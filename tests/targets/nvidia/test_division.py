"""64-bit division on GPUs: in 32 bits where the ranges say so, else with one test for all elements of a thread."""

from __future__ import annotations

import re

import numpy as np
import pytest

import tilewright as triton
import tilewright.language as tl
from tests.targets.nvidia.harness import SM90, launch_code
from tilewright.testing import engines

LEAST = -(1 << 63)
EDGES = [0, 1, -1, 2, 3, -3, 7, 255, (1 << 31) - 1, 1 << 31, -(1 << 31), -(1 << 31) - 1, (1 << 32) - 1, 1 << 32,
         -(1 << 32), 10**12, -(10**15), (1 << 63) - 1, LEAST, LEAST + 1]
# pairs of edges, so that every warp has some that 32 bits hold and some that they do not, and such that all do
ALL = [(x, y) for x in EDGES for y in EDGES]
SMALL = [(x, y) for x in EDGES for y in EDGES if x >> 32 == y >> 32 == 0]


@triton.jit
def of_numbers(x, y, q, r, N: tl.constexpr, BITS: tl.constexpr):
    """Quotients and remainders of numbers of which nothing is known."""
    i = tl.arange(0, N)
    a, b = tl.load(x + i), tl.load(y + i)
    if BITS:
        a, b = a.to(tl.uint64, bitcast=True), b.to(tl.uint64, bitcast=True)
    tl.store(q + i, (a // b).to(tl.int64, bitcast=True))
    tl.store(r + i, (a % b).to(tl.int64, bitcast=True))


@triton.jit
def of_scalars(x, y, q, r):
    p = tl.program_id(0)
    a, b = tl.load(x + p), tl.load(y + p)
    tl.store(q + p, a // b)
    tl.store(r + p, a % b)


@triton.jit
def of_indices(q, r, columns, rows, B: tl.constexpr):
    """Of an index that the number of programs bounds, by arguments of either sign."""
    i = tl.program_id(0).to(tl.int64) * B + tl.arange(0, B)
    row = i // columns
    tl.store(q + i, row % rows)
    tl.store(r + i, i % columns)


@triton.jit
def of_short_indices(q, r, columns, rows, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    row = i // columns
    tl.store(q + i, (row % rows).to(tl.int64))
    tl.store(r + i, (i % columns).to(tl.int64))


@triton.jit
def unbounded(q, r, first, columns, B: tl.constexpr):
    i = tl.program_id(0).to(tl.int64) * first + tl.arange(0, B)
    at = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(q + at, i // columns)
    tl.store(r + at, i % columns)


def references(kernel, grid, arrays, numbers, **constants):
    """What the CPU engine leaves in the arrays, and what the code for a GPU does."""
    found = {}
    for engine, options in (("cpu", {}), ("ptx", {"num_warps": 1})):
        found[engine] = [a.copy() for a in arrays]
        engines.launch(engine, kernel, grid, *found[engine], *numbers, **constants, **options)
    return found["cpu"], found["ptx"]


@pytest.mark.parametrize("unsigned", [False, True])
@pytest.mark.parametrize("pairs", [ALL, SMALL], ids=["all", "small"])
def test_numbers(pairs, unsigned):
    pairs = pairs[:1 << len(pairs).bit_length() - 1] + pairs[-64:]
    n = 1 << len(pairs).bit_length() - 1
    x, y = (np.array(side[-n:], np.int64) for side in zip(*pairs, strict=True))
    cpu, ptx = references(of_numbers, (1,), [x, y, np.zeros(n, np.int64), np.zeros(n, np.int64)], [], N=n,
                          BITS=unsigned)
    np.testing.assert_array_equal(ptx[2], cpu[2])
    np.testing.assert_array_equal(ptx[3], cpu[3])


def test_scalars():
    x, y = (np.array(side, np.int64) for side in zip(*ALL[::3], strict=True))
    cpu, ptx = references(of_scalars, (len(x),), [x, y, np.zeros_like(x), np.zeros_like(x)], [])
    np.testing.assert_array_equal(ptx[2], cpu[2])
    np.testing.assert_array_equal(ptx[3], cpu[3])


@pytest.mark.parametrize("kernel", [of_indices, of_short_indices])
@pytest.mark.parametrize(("columns", "rows"), [(24, 5), (-7, 3), (10, -4), (0, 3), (13, 0), (-(1 << 31), 7),
                                               ((1 << 31) - 1, -(1 << 31))])
def test_indices(columns, rows, kernel):
    nothing = np.zeros(512, np.int64)
    cpu, ptx = references(kernel, (4,), [nothing, nothing], [columns, rows], B=128)
    np.testing.assert_array_equal(ptx[0], cpu[0])
    np.testing.assert_array_equal(ptx[1], cpu[1])


@pytest.mark.parametrize(("first", "columns"), [(3, 24), (-50, 7), ((1 << 31) - 1, 1000), (77, -5), (5, 0)])
def test_indices_that_may_be_large(first, columns):
    nothing = np.zeros(512, np.int64)
    cpu, ptx = references(unbounded, (4,), [nothing, nothing], [first, columns], B=128)
    np.testing.assert_array_equal(ptx[0], cpu[0])
    np.testing.assert_array_equal(ptx[1], cpu[1])


def divisions(kernel, *args, **constants):
    text = launch_code(kernel, args, constants, SM90).texts["ptx"]
    return [len(re.findall(rf"\b{name}\b", text)) for name in ("div.u32", "div.s32", "div.s64", "bra")]


def test_instructions():
    """Four elements of a thread: two quotients each, one for `row % rows`, whose dividend may be negative."""
    out = np.zeros(512, np.int64)
    for kernel in (of_indices, of_short_indices):
        assert divisions(kernel, out, out.copy(), 24, 5, B=128, num_warps=1) == [4, 4, 0, 0]
    u32, s32, s64, branches = divisions(unbounded, out, out.copy(), 3, 24, B=128, num_warps=1)
    assert (u32, s32, s64) == (4, 0, 4) and branches == 2     # one condition, and the way past the other side
