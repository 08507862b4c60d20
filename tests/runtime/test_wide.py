"""Offsets beyond 32 bits: tensors of more than 8 GB of address space, of which a few pages exist."""

import mmap
import sys

import numpy as np
import pytest

import tilewright as triton
import tilewright.language as tl
from tests.departures import differs
from tilewright.testing.engines import launch

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="sparse memory as Linux gives it")

_NO_RESERVE = 0x4000        # MAP_NORESERVE, asm-generic/mman.h
ROWS, COLUMNS = 320, 7_864_320      # the last row begins at element 2_508_718_080


@pytest.fixture(scope="module")
def sparse():
    """10 GB of zeros; pages come into being when they are written."""
    size = ROWS * COLUMNS * 4
    memory = mmap.mmap(-1, size, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _NO_RESERVE)
    return np.frombuffer(memory, np.int32).reshape(ROWS, COLUMNS)


@triton.jit
def probe(x, out, row, stride):
    tl.store(out, tl.load(x + row * stride))


@differs("Offsets beyond 32 bits do not wrap", topic="Memory",
         peer="An int32 offset wraps silently, and leads to a wrong address.",
         ours="Where an argument reaches 2**30 elements, int32 arithmetic that ends in an address is done in 64 bits; "
              "values that are stored still wrap. The eager engine does so in every comparison of such a number, "
              "compiled code in those of numbers that lead to an address.")
def test_one_element(sparse):
    sparse[319, 0], out = 7, np.zeros(1, np.int32)
    compiled = probe[(1,)](sparse, out, 319, COLUMNS)
    assert out[0] == 7 and compiled.facts.wide


def test_a_small_tensor_is_not_wide():
    x, out = np.arange(12, dtype=np.int32), np.zeros(1, np.int32)
    assert not probe[(1,)](x, out, 2, 5).facts.wide
    assert out[0] == 10


@triton.jit
def add_rows(x, out, stride, rows, columns, BM: tl.constexpr, BN: tl.constexpr):
    m = tl.program_id(0) * BM + tl.arange(0, BM)
    n = tl.arange(0, BN)
    at = m[:, None] * stride + n[None, :]
    inside = (m[:, None] < rows) & (n[None, :] < columns)
    v = tl.load(x + at, mask=inside, other=-1)
    tl.store(x + at, v + 1, mask=inside)
    tl.store(out + tl.arange(0, BM)[:, None] * BN + n[None, :], v)


@differs("Offsets beyond 32 bits do not wrap")
def test_two_dimensions(sparse):
    sparse[316:320, :20] = np.arange(80).reshape(4, 20)
    out = np.zeros((8, 32), np.int32)
    add_rows[(41,)](sparse, out, COLUMNS, ROWS, 20, 8, 32)
    # the last program to run writes `out`, which one that is depends on the threads: look at x
    np.testing.assert_array_equal(sparse[316:320, :20], np.arange(80).reshape(4, 20) + 1)
    assert (sparse[:316:50, :20] == 1).all() and not sparse[:, 20:32].any()
    sparse[:, :32] = 0


@triton.jit
def masked_by_offset(x, out, start, limit, B: tl.constexpr):
    offset = start * 8 + tl.arange(0, B)
    tl.store(out + tl.arange(0, B), tl.load(x + offset, mask=offset < limit, other=-5))


def test_the_mask_is_compared_in_64_bits(sparse):
    """As int32 the offset would be negative, and below every limit."""
    out = np.zeros(16, np.int32)
    sparse.reshape(-1)[2_400_000_000:2_400_000_016] = np.arange(16)
    masked_by_offset[(1,)](sparse, out, 300_000_000, 2**31 - 1, 16)
    assert (out == -5).all()
    masked_by_offset[(1,)](sparse, out, 300_000_000, 2_400_000_010, 16)
    assert out.tolist() == [*range(10), *[-5] * 6]
    sparse.reshape(-1)[2_400_000_000:2_400_000_016] = 0


@triton.jit
def walking(x, out, step, count, B: tl.constexpr):
    offset = tl.arange(0, B)
    total = tl.zeros((B,), tl.int32)
    p = x + tl.arange(0, B)
    for _ in range(count):
        total += tl.load(x + offset) + tl.load(p)
        offset += step
        p += step
    tl.store(out + tl.arange(0, B), total)
    tl.store(out + B + tl.arange(0, B), offset)


@differs("Offsets beyond 32 bits do not wrap")
def test_loops_carry_64_bits_and_stores_see_32(sparse):
    out = np.zeros(8, np.int32)
    sparse[::40, :4] = [1, 2, 3, 4]
    walking[(1,)](sparse, out, COLUMNS * 40, 8, 4)
    np.testing.assert_array_equal(out[:4], [16, 32, 48, 64])
    wrapped = (np.arange(4, dtype=np.int64) + 8 * 40 * COLUMNS).astype(np.int32)
    np.testing.assert_array_equal(out[4:], wrapped)
    sparse[::40, :4] = 0


@triton.jit
def low_bits(x, out, row, stride, BLOCK: tl.constexpr):
    at = row * stride
    i = tl.arange(0, BLOCK)
    v = tl.load(x + at + i)
    tl.store(out + i, v + at)
    tl.store(out + BLOCK + i, (at & 0xFFFF) + (at >> 4) + (at % 1000) + at.to(tl.int64).to(tl.int32))


def test_stores_casts_bits_and_division_see_the_low_32_bits(sparse):
    sparse[319, :4] = [1, 2, 3, 4]
    out = np.zeros(8, np.int32)
    low_bits[(1,)](sparse, out, 319, COLUMNS, 4)
    at = np.int64(319 * COLUMNS).astype(np.int32)
    np.testing.assert_array_equal(out[:4], np.array([1, 2, 3, 4], np.int32) + at)
    rest = np.fmod(at, np.int32(1000))
    expected = (int(at) & 0xFFFF) + (int(at) >> 4) + int(rest) + int(at)
    np.testing.assert_array_equal(out[4:], np.int64(expected).astype(np.int32))
    sparse[319, :4] = 0


def test_beyond_the_end_is_still_out_of_bounds(sparse):
    out = np.zeros(1, np.int32)
    with pytest.raises(triton.OutOfBoundsError) as caught:
        probe[(1,)](sparse, out, 320, COLUMNS)
    assert caught.value.index == ROWS * COLUMNS == 2_516_582_400


def test_the_passes_do_it_for_every_target(sparse):
    sparse[319, 0], out = 9, np.zeros(1, np.int32)
    launch("batched-passes", probe, (1,), sparse, out, 319, COLUMNS)
    assert out[0] == 9


@triton.jit
def last_blocks(x, n, p0, B: tl.constexpr):
    offs = (tl.program_id(0) + p0) * B + tl.arange(0, B)
    tl.store(x + offs, 7, mask=offs < n)


@pytest.mark.parametrize("engine", ["cpu", "eager"])
def test_bytes_behind_2_gb(engine):
    n = 2_600_000_123
    memory = mmap.mmap(-1, n, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _NO_RESERVE)
    x, first = np.frombuffer(memory, np.int8), n // 1024 - 1
    launch(engine, last_blocks, (3,), x, n, first, 1024)
    assert (x[first * 1024:] == 7).all() and not x[first * 1024 - 64:first * 1024].any()


@differs("Offsets beyond 32 bits do not wrap")
def test_the_eager_engine_does_it_too(sparse):
    sparse[319, :4], out = [1, 2, 3, 4], np.zeros(8, np.int32)
    launch("eager", low_bits, (1,), sparse, out, 319, COLUMNS, 4)
    at = np.int64(319 * COLUMNS).astype(np.int32)
    np.testing.assert_array_equal(out[:4], np.array([1, 2, 3, 4], np.int32) + at)
    sparse[319, :4] = 0
    sparse[::40, :4] = [1, 2, 3, 4]
    launch("eager", walking, (1,), sparse, out, COLUMNS * 40, 8, 4)
    np.testing.assert_array_equal(out[:4], [16, 32, 48, 64])
    sparse[::40, :4] = 0
