"""Scans on the PTX machine: every way in which an axis may lie in runs, lanes, warps and rounds, and what they cost."""

import re
from collections import Counter

import numpy as np
import pytest

import tilewright as triton
import tilewright.language as tl
from tests.targets.nvidia.harness import SM90, launch_code
from tilewright.testing import ptx_machine


@triton.jit
def later_max(a, i, b, j):
    better = (a > b) | ((a != a) & (b == b)) | (((a == b) | ((a != a) & (b != b))) & (i > j))
    return tl.where(better, a, b), tl.where(better, i, j)


@triton.jit
def affine(a, b, c, d):
    return a * c, b * c + d


@triton.jit
def larger(a, b):
    return tl.maximum(a, b)


@triton.jit
def added(a, b):
    return a + b


@triton.jit
def scans(x, out, more, M: tl.constexpr, N: tl.constexpr, AXIS: tl.constexpr, REVERSE: tl.constexpr,
          WHAT: tl.constexpr):
    at = tl.arange(0, M)[:, None] * N + tl.arange(0, N)[None, :]
    v = tl.load(x + at)
    if WHAT == "later":
        v, place = tl.associative_scan((v, at), AXIS, later_max, REVERSE)
        tl.store(more + at, place)
    elif WHAT == "affine":
        v, rest = tl.associative_scan((v, v + 1), AXIS, affine, REVERSE)
        tl.store(more + at, rest)
    elif WHAT == "max":
        v = tl.associative_scan(v, AXIS, larger, REVERSE)
    else:
        v = tl.associative_scan(v, AXIS, added, REVERSE)
    tl.store(out + at, v)


def expected(what, x, axis, reverse):
    """Both results, one element after the other."""
    turned = np.moveaxis(x, axis, 0)[::-1] if reverse else np.moveaxis(x, axis, 0)
    place = np.moveaxis(np.arange(x.size, dtype=np.int32).reshape(x.shape), axis, 0)
    first, second = turned.copy(), (place[::-1] if reverse else place).copy()
    if what == "affine":
        second = turned + 1
    for k in range(1, len(turned)):
        a, b, i, j = first[k - 1], first[k], second[k - 1], second[k]
        if what == "later":
            better = (a > b) | (np.isnan(a) & ~np.isnan(b)) | (((a == b) | np.isnan(a) & np.isnan(b)) & (i > j))
            first[k], second[k] = np.where(better, a, b), np.where(better, i, j)
        elif what == "affine":
            first[k], second[k] = a * b, i * b + j
        else:
            first[k] = np.maximum(a, b) if what == "max" else a + b
    return [np.moveaxis(r[::-1] if reverse else r, 0, axis) for r in (first, second)]


PLACES = [(1, 4096, 1, 4), (1, 1024, 1, 8), (1, 100, 1, 4), (1, 32, 1, 4), (1, 8192, 1, 1), (1, 16384, 1, 4),
          (4, 256, 1, 4), (300, 3, 0, 4), (64, 64, 0, 2), (64, 64, 1, 8), (512, 2, 0, 4), (2, 2048, 1, 16),
          (16, 16, 0, 8)]


@pytest.mark.parametrize("reverse", [False, True], ids=["forward", "reverse"])
@pytest.mark.parametrize("what, dtype", [("sum", np.float32), ("sum", np.int32), ("sum", np.int64), ("max", np.int32),
                                         ("max", np.float32), ("later", np.float32), ("affine", np.int32)])
@pytest.mark.parametrize("rows, columns, axis, warps", PLACES)
def test_values(rows, columns, axis, warps, what, dtype, reverse):
    rng = np.random.default_rng(rows + columns)
    x = rng.integers(-9, 9, (rows, columns)).astype(dtype)
    if what == "later":
        x[rng.random(x.shape) < 0.01] = np.nan
    out, more = np.zeros_like(x), np.zeros(x.shape, np.int32)
    ptx_machine.run(scans, (1,), (x, out, more), {"M": rows, "N": columns, "AXIS": axis, "REVERSE": reverse,
                                                  "WHAT": what, "num_warps": warps})
    with np.errstate(over="ignore"):
        want = expected(what, x, axis, reverse)
    np.testing.assert_array_equal(out, want[0])
    if what in ("later", "affine"):
        np.testing.assert_array_equal(more, want[1])


def counted(what, columns, warps, dtype=np.float32):
    """The PTX opcodes of a scan of one row, and how many there are of each."""
    x = np.zeros((1, columns), dtype)
    code = launch_code(scans, (x, np.zeros_like(x), np.zeros(x.shape, np.int32)), {
        "M": 1, "N": columns, "AXIS": 1, "REVERSE": False, "WHAT": what, "num_warps": warps}, SM90)
    body = code.texts["ptx"].split("{", 1)[1]
    return Counter(re.findall(r"^\s*(?:\{ .*?; )?(?:@!?%?\w+ )?([a-z]\w*(?:\.[\w:]+)+)", body, re.M))


def of(counts, *starts):
    return sum(n for opcode, n in counts.items() if opcode.startswith(starts))


def test_a_row_goes_through_shared_memory_once():
    """16 elements a thread in four rounds: four words written, one read by each lane, one barrier."""
    counts = counted("sum", 4096, 8)
    assert of(counts, "bar.sync") == 1
    assert of(counts, "st.shared") == 4 and of(counts, "ld.shared") == 1
    assert of(counts, "add.rn.f32", "add.f32") <= 3 * 16 + 4


def test_a_region_that_picks_one_side_needs_no_select_for_lanes_at_the_end():
    """Eight elements a thread in two rounds: of each, three merges for the run, five for lanes, four to extend."""
    counts = counted("later", 1024, 4)
    merges = 2 * (3 + 5 + 4) + 3
    assert of(counts, "setp.gt.f32") <= merges
    assert of(counts, "shfl.sync.up") == 2 * (2 * 5 + 2 + 3)
    assert of(counts, "selp") <= 2 * (merges + 12)


@triton.jit
def unaligned(x, out, places, first, N: tl.constexpr):
    at = tl.arange(0, N)
    v, place = tl.associative_scan((tl.load(x + first + at), at), 0, later_max)
    tl.store(out + first + at, v)
    tl.store(places + first + at, place)


def test_what_takes_long_to_combine_is_scanned_in_one_run_a_thread():
    """Memory wants neighbours in neighbouring lanes; eight rounds of a scan would take 8 * 5 * 2 shuffles and more."""
    x, places = np.random.default_rng(0).standard_normal(1031).astype(np.float32), np.zeros(1031, np.int32)
    out = np.zeros_like(x)
    code = ptx_machine.run(unaligned, (1,), (x, out, places, 7), {"N": 1024, "num_warps": 4})
    np.testing.assert_array_equal(out[7:], np.maximum.accumulate(x[7:]))
    np.testing.assert_array_equal(x[7:][places[7:]], out[7:])
    assert code.texts["ptx"].count("shfl.sync") <= 2 * (5 + 1 + 3)
