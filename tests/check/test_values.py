"""Values that are not what they seem: wrapped offsets, undefined lanes, elements that nobody has written."""

import numpy as np
import pytest

import tilewright as triton
import tilewright.language as tl
from tests.check.planted import finds, passes
from tilewright import UndefinedLaneError, UnwrittenReadError, WrappedOffsetError


def floats(n):
    return np.arange(n, dtype=np.float32)


# -- wrapped offsets -----------------------------------------------------------------------------------------

@triton.jit
def row_times_stride(x, out, stride):
    row = tl.program_id(0)
    tl.store(out + row, tl.load(x + row * stride))  # here


@triton.jit
def wraps_into_the_argument(x, out, stride):
    row = tl.program_id(0)
    tl.store(out + row, tl.load(x + row * stride * 4))  # here


@triton.jit
def wraps_in_a_tile(x, out, stride, B: tl.constexpr):
    offs = tl.arange(0, B)
    tl.store(out + offs, tl.load(x + offs[None, :] * stride))  # here


@triton.jit
def wraps_in_a_loop(x, out, step, n):
    at = 0
    for i in range(n):
        at += step
    tl.store(out, tl.load(x + at))  # here


@triton.jit
def narrow_product(x, out, B: tl.constexpr):
    at = tl.arange(0, B).to(tl.int8) * 2
    tl.store(out + tl.arange(0, B), tl.load(x + 128 + at))  # here


@triton.jit
def cast_too_early(x, out, stride):
    at = (tl.program_id(0).to(tl.int64) * stride).to(tl.int32)
    tl.store(out + tl.program_id(0), tl.load(x + at))  # here


@triton.jit
def shifted_away(x, out, by):
    tl.store(out + tl.program_id(0), tl.load(x + (tl.program_id(0) << by)))  # here


@triton.jit
def wraps_behind_a_branch(x, out, stride, flag):
    at = tl.program_id(0)
    if flag > 0:
        at = at * stride
    tl.store(out + tl.program_id(0), 1.0)
    tl.atomic_add(x + at, 1.0)  # here


@triton.jit
def wraps_and_comes_back(x, out, big, B: tl.constexpr):
    offs = tl.arange(0, B)
    tl.store(out + offs, tl.load(x + (offs + big + big - big - big)))


@triton.jit
def hashes(x, out, n, B: tl.constexpr):
    offs = tl.arange(0, B)
    at = ((offs * 1103515245 + 12345) & 0x7FFFFFFF) % n
    tl.store(out + offs, tl.load(x + at))


@triton.jit
def wraps_where_masked(x, out, stride, B: tl.constexpr):
    offs = tl.arange(0, B)
    keep = offs < 1
    tl.store(out + offs, tl.load(x + offs * stride, mask=keep, other=0.0))


@triton.jit
def in_64_bits(x, out, stride):
    row = tl.program_id(0).to(tl.int64)
    tl.store(out + row, tl.load(x + (row * stride) % 7))


def test_a_row_times_a_stride():
    finds(WrappedOffsetError, row_times_stride, (3,), floats(8), floats(3), 2**30, argument="x", program=(2, 0, 0),
          says="element 2147483648 is meant")


def test_an_offset_that_wraps_into_the_argument():
    """No other test would notice: the element exists."""
    finds(WrappedOffsetError, wraps_into_the_argument, (2,), floats(8), floats(2), 2**30 + 1, argument="x", index=4,
          says="element 4294967300 is meant")


def test_in_a_tile():
    error = finds(WrappedOffsetError, wraps_in_a_tile, (1,), floats(8), floats(4), 2**31 - 8, B=4, argument="x")
    assert error.finding.lane[1] > 0


def test_in_a_loop():
    finds(WrappedOffsetError, wraps_in_a_loop, (1,), floats(8), floats(1), 2**30, 4, argument="x", index=0)


def test_a_product_of_bytes():
    finds(WrappedOffsetError, narrow_product, (1,), floats(512), floats(128), B=128, argument="x", index=0)


def test_a_cast_to_32_bits():
    finds(WrappedOffsetError, cast_too_early, (3,), floats(8), floats(3), 2**31, argument="x", index=-2**31,
          says="element 2147483648 is meant")


def test_a_shift():
    finds(WrappedOffsetError, shifted_away, (3,), floats(8), floats(3), 31, argument="x")


def test_behind_a_branch():
    finds(WrappedOffsetError, wraps_behind_a_branch, (3,), floats(8), floats(3), 2**31 - 1, 1, argument="x")


def test_offsets_that_are_right():
    passes(wraps_and_comes_back, (1,), floats(8), floats(8), 2**31 - 5, B=8)
    passes(hashes, (1,), floats(8), floats(64), 8, B=64)
    passes(wraps_where_masked, (1,), floats(8), floats(8), 2**30, B=8)
    passes(in_64_bits, (3,), floats(8), floats(3), 2**40)


# -- undefined lanes -----------------------------------------------------------------------------------------

@triton.jit
def stores_all_lanes(x, out, n, B: tl.constexpr):
    offs = tl.arange(0, B)
    v = tl.load(x + offs, mask=offs < n)  # other
    tl.store(out + offs, v + 1.0)  # here


@triton.jit
def sums(x, out, n, B: tl.constexpr):
    offs = tl.arange(0, B)
    v = tl.load(x + offs, mask=offs < n)  # other
    tl.store(out, tl.sum(v * v))  # here


@triton.jit
def softmaxes(x, out, n, B: tl.constexpr):
    offs = tl.arange(0, B)
    v = tl.load(x + offs, mask=offs < n)  # other
    e = tl.exp(v - tl.max(v, 0))
    tl.store(out + offs, e / tl.sum(e, 0), mask=offs < n)  # here


@triton.jit
def multiplies(a, b, out, k, M: tl.constexpr, K: tl.constexpr):
    m, ks = tl.arange(0, M), tl.arange(0, K)
    x = tl.load(a + m[:, None] * k + ks[None, :], mask=ks[None, :] < k)  # other
    y = tl.load(b + ks[:, None] * M + m[None, :], mask=ks[:, None] < k, other=0.0)
    tl.store(out + m[:, None] * M + m[None, :], tl.dot(x, y))  # here


@triton.jit
def branches(x, out, n):
    flag = tl.load(x, mask=n > 0)  # here
    if flag > 0:
        tl.store(out, 1.0)


@triton.jit
def loops(x, out, n):
    v = tl.load(x, mask=n > 0)  # here
    while v < 3:
        v += 1
    tl.store(out, 1.0)


@triton.jit
def bounds_a_loop(x, out, n):
    for i in range(tl.load(x, mask=n > 0)):  # here
        tl.store(out + i, 1.0)


@triton.jit
def addresses(places, x, out, n, B: tl.constexpr):
    offs = tl.arange(0, B)
    at = tl.load(places + offs, mask=offs < n)  # other
    tl.store(out + offs, tl.load(x + at), mask=offs < n)  # here


@triton.jit
def masks(flags, x, out, n, B: tl.constexpr):
    offs = tl.arange(0, B)
    keep = tl.load(flags + offs, mask=offs < n) != 0  # other
    tl.store(out + offs, 1.0, mask=keep)  # here


@triton.jit
def scans(x, out, n, B: tl.constexpr):
    offs = tl.arange(0, B)
    v = tl.load(x + offs, mask=offs >= n)  # other
    tl.store(out + offs, tl.cumsum(v, 0), mask=offs >= n)  # here


@triton.jit
def carries(x, out, n, B: tl.constexpr):
    offs = tl.arange(0, B)
    total = tl.zeros((B,), tl.float32)
    for i in range(0, n, B):
        total += tl.load(x + i + offs, mask=i + offs < n)  # other
    tl.store(out + offs, total)  # here


@triton.jit
def adds(x, out, n, B: tl.constexpr):
    offs = tl.arange(0, B)
    v = tl.load(x + offs, mask=offs < n)  # other
    tl.atomic_add(out + offs % 4, v)  # here


@triton.jit
def sorts(x, out, n, B: tl.constexpr):
    offs = tl.arange(0, B)
    v = tl.load(x + offs, mask=offs < n)  # other
    tl.store(out + offs, tl.sort(v), mask=offs < n)  # here


@triton.jit
def moves(x, out, n, B: tl.constexpr):
    offs = tl.arange(0, B)
    v = tl.reshape(tl.load(x + offs, mask=offs < n), (2, B // 2))  # other
    w = tl.trans(v)
    tl.store(out + tl.arange(0, B // 2)[:, None] * 2 + tl.arange(0, 2)[None, :], w)  # here


@triton.jit
def forgets_other_of_other(x, y, out, n, B: tl.constexpr):
    offs = tl.arange(0, B)
    v = tl.load(x + offs, mask=offs < n)  # other
    w = tl.load(y + offs, mask=offs < n, other=v)
    tl.store(out + offs, w)  # here


@triton.jit
def asserts(x, out, n, B: tl.constexpr):
    offs = tl.arange(0, B)
    v = tl.load(x + offs, mask=offs < n)  # other
    tl.device_assert(v > 0, "positive")  # here


@triton.jit
def differs_by_program(x, out, n, B: tl.constexpr):
    offs = tl.program_id(0) * B + tl.arange(0, B)
    v = tl.load(x + offs, mask=offs < n)  # other
    if tl.program_id(0) > 0:
        v = v * 2
    tl.store(out + offs, v)  # here


@pytest.mark.parametrize("kernel", [stores_all_lanes, sums, softmaxes, scans, adds, sorts, moves],
                         ids=lambda k: k.__name__)
def test_lanes_that_reach_memory(kernel):
    finds(UndefinedLaneError, kernel, (1,), floats(32), floats(32), 20, B=32, argument="out")


def test_the_end_of_k_in_a_product():
    finds(UndefinedLaneError, multiplies, (1,), floats(4 * 5), floats(5 * 4), floats(16), 5, M=4, K=8, argument="out")


@pytest.mark.parametrize("kernel", [branches, loops, bounds_a_loop], ids=lambda k: k.__name__)
def test_lanes_that_decide(kernel):
    finds(UndefinedLaneError, kernel, (1,), np.array([2], np.int32), floats(8), 0, says="branch or loop")


def test_lanes_that_make_an_address_or_a_mask():
    places = np.arange(16, dtype=np.int32)
    finds(UndefinedLaneError, addresses, (1,), places, floats(16), floats(16), 10, B=16, argument="x",
          says="its address")
    finds(UndefinedLaneError, masks, (1,), places, floats(16), floats(16), 10, B=16, says="its mask")


def test_lanes_in_a_loop():
    finds(UndefinedLaneError, carries, (1,), floats(40), floats(16), 40, B=16, argument="out")
    passes(carries, (1,), floats(48), floats(16), 48, B=16)


def test_lanes_through_other():
    finds(UndefinedLaneError, forgets_other_of_other, (1,), floats(8), floats(8), floats(16), 8, B=16, argument="out")


def test_lanes_in_an_assertion():
    finds(UndefinedLaneError, asserts, (1,), floats(8) + 1, floats(8), 5, B=8, debug=True)


def test_lanes_of_some_programs():
    finds(UndefinedLaneError, differs_by_program, (3,), floats(20), floats(24), 20, B=8, argument="out", index=20,
          program=(2, 0, 0))


@triton.jit
def chooses(x, out, n, B: tl.constexpr):
    offs = tl.arange(0, B)
    v = tl.load(x + offs, mask=offs < n)
    tl.store(out + offs, tl.where(offs < n, v, -1.0))


@triton.jit
def masks_every_row(x, out, m, M: tl.constexpr, N: tl.constexpr):
    rows, columns = tl.arange(0, M), tl.arange(0, N)
    at = rows[:, None] * N + columns[None, :]
    v = tl.load(x + at, mask=rows[:, None] < m)
    total = tl.sum(v, 1)
    tl.store(out + rows, total, mask=rows < m)


@triton.jit
def multiplies_by_a_mask(x, out, n, B: tl.constexpr):
    offs = tl.arange(0, B)
    v = tl.load(x + offs, mask=offs < n) * (offs < n).to(tl.int32)
    keep = (v > 2) & (offs < n)
    tl.store(out + offs, tl.sum(v) + offs, mask=keep)


def test_lanes_that_are_not_used():
    passes(chooses, (1,), floats(32), floats(32), 20, B=32)
    passes(masks_every_row, (1,), floats(64), floats(8), 5, M=8, N=8)
    passes(multiplies_by_a_mask, (1,), np.arange(32, dtype=np.int32), np.zeros(32, np.int32), 20, B=32)


# -- elements that nobody has written ------------------------------------------------------------------------

@triton.jit
def accumulates(x, out, B: tl.constexpr):
    offs = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(out + offs, tl.load(out + offs) + tl.load(x + offs))  # here


@triton.jit
def counts(x, out, B: tl.constexpr):
    offs = tl.program_id(0) * B + tl.arange(0, B)
    tl.atomic_add(out + tl.load(x + offs), 1)  # here


@triton.jit
def writes_half(x, scratch, out, n, B: tl.constexpr):
    offs = tl.arange(0, B)
    tl.store(scratch + offs, tl.load(x + offs), mask=offs < n)
    tl.store(out + offs, tl.load(scratch + (B - 1 - offs)))  # here


@triton.jit
def writes_first(x, scratch, out, B: tl.constexpr):
    offs = tl.arange(0, B)
    tl.store(scratch + offs, tl.load(x + offs))
    tl.store(out + offs, tl.load(scratch + (B - 1 - offs)))


def test_an_output_that_is_read():
    finds(UnwrittenReadError, accumulates, (2,), floats(16), floats(16), B=8, check=["out"], argument="out", index=0)
    passes(accumulates, (2,), floats(16), floats(16), B=8)


def test_atomics_on_an_empty_tensor():
    finds(UnwrittenReadError, counts, (2,), np.zeros(16, np.int32), np.zeros(4, np.int32), B=8, check=["out"],
          argument="out", index=0)


def test_the_part_that_was_not_written():
    finds(UnwrittenReadError, writes_half, (1,), floats(16), floats(16), floats(16), 10, B=16,
          check=["scratch", "out"], argument="scratch", index=15)
    passes(writes_first, (1,), floats(16), floats(16), floats(16), B=16, check=["scratch", "out"])


def test_names_that_are_no_tensors():
    with pytest.raises(ValueError, match="check names 'scrap', but the tensors are x, out"):
        accumulates[(2,)](floats(16), floats(16), B=8, check=["scrap"])
    with pytest.raises(TypeError, match="not 'out'"):
        accumulates[(2,)](floats(16), floats(16), B=8, check="out")
