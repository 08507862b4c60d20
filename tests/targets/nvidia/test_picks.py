"""Regions that give one of their sides: read as tables, and what code makes of them."""

import re

import numpy as np
import pytest

import tilewright as triton
import tilewright.language as tl
from tests.targets.nvidia.harness import SM90, launch_code, tile_ir
from tilewright.ir.walk import ops_in
from tilewright.targets.nvidia.picks import EQUAL, GREATER, LEFT_NAN, LESS, RELATIONS, RIGHT_NAN, pick_of
from tilewright.testing import ptx_machine


@triton.jit
def first_max(a, i, b, j):
    better = (a > b) | ((a == b) & (i < j))
    return tl.where(better, a, b), tl.where(better, i, j)


@triton.jit
def last_min(a, i, b, j):
    worse = (b < a) | ((b == a) & (j >= i))
    return tl.where(worse, b, a), tl.where(worse, j, i)


@triton.jit
def nan_max(a, i, b, j):
    better = (a > b) | ((a != a) & (b == b)) | (((a == b) | ((a != a) & (b != b))) & (i < j))
    return tl.where(better, a, b), tl.where(better, i, j)


@triton.jit
def later(a, i, b, j):
    return tl.where(i > j, a, b), tl.where(i > j, i, j)


@triton.jit
def of_the_left(a, i, b, j):
    return tl.where(a > i, a, b), tl.where(a > i, i, j)


@triton.jit
def reduced(x, y, out, places, N: tl.constexpr, COMBINE: tl.constexpr, KNOWN: tl.constexpr):
    i = tl.arange(0, N)
    place = i if KNOWN else tl.load(y + i)
    value, where = tl.reduce((tl.load(x + i), place), 0, COMBINE)
    tl.store(out, value)
    tl.store(places, where)


def arguments(n, dtype=np.float32, seed=0, nans=0.02):
    rng = np.random.default_rng(seed)
    x = rng.integers(-4, 4, n).astype(dtype)
    if dtype != np.int32:
        x[x == 0] = rng.choice(np.array([0.0, -0.0, np.inf, -np.inf], dtype), (x == 0).sum())
        x[rng.random(n) < nans] = np.nan
    return x, np.arange(n, dtype=np.int32), np.zeros(1, dtype), np.zeros(1, np.int32)


def pick(combine, dtype=np.float32):
    module = tile_ir(reduced, *arguments(64, dtype), N=64, COMBINE=combine, KNOWN=False)
    (op,) = (op for op in ops_in(module.entry.body) if op.name == "reduce")
    return pick_of(op.regions[0])


def test_the_region_of_an_argmax_is_read_as_a_table():
    found = pick(nan_max)
    assert (found.first, found.second) == (0, 1)
    assert found.taken(LESS) == set(RELATIONS) - {LESS, RIGHT_NAN}
    assert found.taken(EQUAL) == found.taken(GREATER) == {GREATER, LEFT_NAN}
    assert found.is_symmetric


def test_sides_that_are_given_the_other_way_round_are_the_same():
    assert pick(last_min).taken(GREATER) == set(RELATIONS) - {GREATER}      # the right one where it is less
    assert not pick(last_min).is_symmetric      # a NaN is neither less nor equal: then the left one is taken


def test_a_region_of_one_comparison_of_integers():
    assert pick(first_max, np.int32).taken(LESS) == {GREATER, EQUAL} and pick(later).taken(EQUAL) == {GREATER}


def test_what_compares_other_things_is_no_pick():
    assert pick(of_the_left) is None


@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16, np.int32])
@pytest.mark.parametrize("n, warps", [(1024, 4), (4096, 8), (1000, 4), (64, 1), (8, 4), (2048, 16)])
@pytest.mark.parametrize("combine", [first_max, last_min, nan_max, later])
def test_values(combine, n, warps, dtype, known):
    for seed in range(2):
        x, y, out, places = arguments(n, dtype, seed, nans=0.01 if combine is nan_max else 0.0)
        if combine is nan_max and seed:
            x[np.isnan(x)] = 1
        ptx_machine.run(reduced, (1,), (x, y, out, places), {"N": n, "COMBINE": combine, "KNOWN": known,
                                                             "num_warps": warps})
        if combine is later:
            want = n - 1
        elif combine is last_min:
            want = n - 1 - int(np.argmin(x[::-1]))
        else:
            want = int(np.argmax(x))        # the first NaN, if there is one
        assert places[0] == want
        np.testing.assert_array_equal(out, x[want:want + 1])
        assert np.signbit(out[0]) == np.signbit(x[want])


def test_where_the_index_is_known_to_rise_nobody_compares_it():
    """Eight elements a thread, one warp: seven merges without indices, and five between lanes with them."""
    code = launch_code(reduced, arguments(256), {"N": 256, "COMBINE": nan_max, "KNOWN": True, "num_warps": 1}, SM90)
    text = code.texts["ptx"]
    assert len(re.findall(r"setp\.\w+\.s32", text)) == 5
    assert len(re.findall(r"setp\.\w+\.f32", text)) <= 2 * 7 + 4 * 5
    assert len(re.findall(r"selp\.", text)) == 2 * (7 + 5)


@triton.jit
def rows(x, places, M: tl.constexpr, N: tl.constexpr):
    at = tl.arange(0, M)[:, None] * N + tl.arange(0, N)[None, :]
    tl.store(places + tl.arange(0, M), tl.argmax(tl.load(x + at), 1))


def test_registers_are_combined_in_the_order_of_the_axis():
    """A warp a row, whose registers count through the columns in another order."""
    x, places = arguments(4096)[0].reshape(4, 1024), np.zeros(4, np.int32)
    code = ptx_machine.run(rows, (1,), (x, places), {"M": 4, "N": 1024, "num_warps": 4})
    np.testing.assert_array_equal(places, np.argmax(x, 1))
    assert len(re.findall(r"setp\.[lg]\w+\.s32", code.texts["ptx"])) == 5
