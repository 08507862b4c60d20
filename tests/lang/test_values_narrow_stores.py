"""Masked stores of narrowed values touch the lanes of their mask and nothing else, whatever is known of the mask.

LLVM 22 turns a store of truncated lanes under a constant mask with one lane into a store of the lane before it was
truncated, which reaches past its element.
"""

import numpy as np
import pytest

import tilewright as triton
import tilewright.language as tl


@triton.jit
def one_lane(o, x, n, LANE: tl.constexpr, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(o + i, tl.load(x + i).to(o.dtype.element_ty), mask=(i == LANE) & (i < n))


@triton.jit
def first_lanes(o, x, n, COUNT: tl.constexpr, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(o + i, tl.load(x + i, mask=i < COUNT).to(o.dtype.element_ty), mask=(i < COUNT) & (i < n))


PAIRS = [(np.int32, np.int8), (np.int32, np.uint8), (np.int32, np.int16), (np.int64, np.int32), (np.int16, np.int8),
         (np.float32, np.float16), (np.float64, np.float32), (np.int64, np.int8)]


@pytest.mark.parametrize("source,target", PAIRS)
@pytest.mark.parametrize("size", [2, 4, 8, 16, 32])
def test_one_lane(launch, source, target, size):
    x = np.arange(1, size + 1).astype(source)
    for lane in {0, size // 2, size - 1}:
        buffer = np.full(2 * size, 99, target)
        launch(one_lane, (1,), buffer[:size], x, 100, LANE=lane, N=size)
        expected = np.full(2 * size, 99, target)
        expected[lane] = lane + 1
        np.testing.assert_array_equal(buffer, expected)


@pytest.mark.parametrize("source,target", PAIRS)
@pytest.mark.parametrize("count", [1, 2, 15, 17, 31])
def test_first_lanes(launch, source, target, count):
    x, buffer = np.arange(1, 33).astype(source), np.full(64, 99, target)
    launch(first_lanes, (1,), buffer[:32], x, 100, COUNT=count, N=32)
    np.testing.assert_array_equal(buffer, np.concatenate([x[:count].astype(target), np.full(64 - count, 99, target)]))
