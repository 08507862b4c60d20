"""Masks that end within a row: every end of the row, in stores, reductions, kept tiles, and two dimensions."""

import re

import numpy as np
import pytest

from tests.targets.cpu.harness import F32, I32, both, kernel, ptr
from tilewright.targets.cpu.generate import generate
from tilewright.targets.llvm.isa import Isa

ENDS = [-3, 0, 1, 15, 16, 17, 63, 64, 65, 79, 80, 127, 128, 200]


def row(name, swap, start=0, other=None, size=128):
    """sum(x * 2) and max(x) of the row under the mask, and the row's copy; `name` compares columns with n."""
    def body(b, x, o, s, n):
        column = b.add(b.iota(size), start)
        bound = b.like(n, column)
        mask = b.op(name, *((bound, column) if swap else (column, bound)))
        value = b.load(b.at(x, b.iota(size)), mask, None if other is None else b.const(other, F32, (size,)))
        b.store(s, b.sum(b.mul(value, b.const(2.0, F32, (size,))), 0))
        b.store(b.at(s, b.const(1)), b.max(value, 0))
        b.store(b.at(o, b.iota(size)), b.add(value, b.const(1.0, F32, (size,))), mask)
    return kernel([("x", ptr(F32)), ("o", ptr(F32)), ("s", ptr(F32)), ("n", I32)], body)


def numbers(size, seed=0):
    return np.random.default_rng(seed).integers(-50, 50, size).astype(np.float32)


# 512 is long enough to have no version of its own when full, 64 too short for unrolled vectors when not
@pytest.mark.parametrize("size", [64, 128, 512])
@pytest.mark.parametrize("name,swap", [("cmp_lt_s", False), ("cmp_le_s", False), ("cmp_gt_s", True),
                                       ("cmp_ge_s", True)])
def test_every_comparison(name, swap, size):
    for n in [*ENDS, size - 1, size, size + 1]:
        both(row(name, swap, size=size), (1,), [numbers(size), np.zeros(size, np.float32), np.zeros(2, np.float32), n],
             optimise=(True,))


@pytest.mark.parametrize("start,other", [(7, -100.0), (-5, 3.0)])
def test_moved_and_with_other(start, other):
    for n in ENDS:
        both(row("cmp_lt_s", False, start, other), (1,),
             [numbers(128), np.zeros(128, np.float32), np.zeros(2, np.float32), n], optimise=(True,))


def test_bounds_at_the_ends_of_the_type():
    for n in (-2**31, 2**31 - 1):
        both(row("cmp_le_s", False, 2**31 - 64), (1,),
             [numbers(128), np.zeros(128, np.float32), np.zeros(2, np.float32), n])


def test_masks_in_the_other_direction_are_no_prefix():
    for n in ENDS:
        both(row("cmp_gt_s", False), (1,), [numbers(128), np.zeros(128, np.float32), np.zeros(2, np.float32), n],
             optimise=(True,))


def two_dimensions(rows, columns):
    """Row and column masks, a row vector that is broadcast, and a sum along each dimension."""
    def body(b, x, w, o, s, m, n):
        i, j = b.iota(rows), b.iota(columns)
        row_mask, column_mask = (b.binary("cmp_lt_s", v, b.like(end, v)) for v, end in ((i, m), (j, n)))
        mask = b.binary("and", b.col(row_mask), b.row(column_mask))
        weight = b.load(b.at(w, j), column_mask)
        place = b.add(b.mul(b.col(i), columns), b.row(j))
        value = b.mul(b.load(b.at(x, place), mask), b.op("broadcast", b.row(weight), shape=(rows, columns)))
        b.store(b.at(o, place), value, mask)
        b.store(b.at(s, i), b.sum(value, 1))
        b.store(b.at(s, b.add(j, rows)), b.sum(value, 0))
    return kernel([("x", ptr(F32)), ("w", ptr(F32)), ("o", ptr(F32)), ("s", ptr(F32)), ("m", I32), ("n", I32)], body)


@pytest.mark.parametrize("shape", [(4, 64), (3, 32), (16, 128)])
def test_two_dimensions(shape):
    rows, columns = shape
    for m, n in ((rows, 1), (2, 33), (rows, 0), (1, columns), (rows - 1, columns - 1)):
        both(two_dimensions(*shape), (1,), [
            numbers(rows * columns), numbers(columns, 1), np.zeros(rows * columns, np.float32),
            np.zeros(rows + columns, np.float32), m, n], optimise=(True,))


def test_kept_tile_is_complete():
    """exp(x) of a masked row is kept, summed, and read in another order afterwards."""
    def body(b, x, o, n):
        column = b.iota(64)
        mask = b.binary("cmp_lt_s", column, b.like(n, column))
        e = b.op("exp", b.load(b.at(x, column), mask, b.const(-1.0, F32, (64,))))
        total = b.sum(e, 0)
        turned = b.op("permute", b.op("reshape", e, shape=(8, 8)), order=(1, 0))
        place = b.add(b.mul(b.col(b.iota(8)), 8), b.row(b.iota(8)))
        b.store(b.at(o, place), b.op("div_f", turned, b.like(total, turned)))
    k = kernel([("x", ptr(F32)), ("o", ptr(F32)), ("n", I32)], body)
    for n in (0, 5, 16, 40, 64):
        both(k, (1,), [numbers(64) / 50, np.zeros(64, np.float32), n], exact=False, rtol=1e-5, optimise=(True,))


def test_main_part_has_no_masks():
    text = generate(row("cmp_lt_s", False), Isa(), 512).text
    assert text.count("load <16 x float>") > text.count("masked.load.v16f32.p0(ptr align") > 0


def behind(follows, size=512):
    """Sum and max of a row, of a value that is the same behind the mask's end, or `follows` the column there."""
    def body(b, x, s, n):
        column = b.iota(size)
        value = b.load(b.at(x, column), b.binary("cmp_lt_s", column, b.like(n, column)), b.const(2.0, F32, (size,)))
        if follows:
            value = b.add(value, b.op("int_to_fp_s", column, to=F32))
        b.store(s, b.sum(value, 0))
        b.store(b.at(s, b.const(1)), b.max(value, 0))
    return kernel([("x", ptr(F32)), ("s", ptr(F32)), ("n", I32)], body)


@pytest.mark.parametrize("follows", [False, True])
@pytest.mark.parametrize("n", [-1, 0, 1, 17, 100, 479, 480, 481, 512])
def test_every_element_behind_counts(follows, n):
    """2 is added again and again, also where the sum cannot change any more for a while."""
    both(behind(follows), (1,), [numbers(512), np.zeros(2, np.float32), n], optimise=(True,))


def test_alike_elements_behind_are_combined_until_nothing_changes():
    """The loop behind the end compares what was and what is; one whose values follow the column does not."""
    same, following = (generate(behind(f), Isa(), 512).text for f in (False, True))
    assert len(re.findall(r"icmp ne <16 x i32>", same)) == 2
    assert "icmp ne <16 x i32>" not in following
