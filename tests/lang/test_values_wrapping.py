"""Integer arithmetic that wraps in its type, of indices above all: the same values and masks on every engine."""

import functools

import numpy as np
import pytest

import tilewright as triton
import tilewright.language as tl
from tilewright.testing import engines

BIG = 2**30


@triton.jit
def quotient_of_a_minimum(o, n, K: tl.constexpr):
    i = tl.arange(0, 8)
    tl.store(o + i, tl.minimum(i * K, 100) // n)


@triton.jit
def quotient_by_a_wrapped_sum(o, n, K: tl.constexpr):
    i = tl.arange(0, 8)
    divisor = tl.full((8,), K, tl.int32) + tl.full((8,), n, tl.int32)
    tl.store(o + i, (i + 100) // divisor)


@triton.jit
def masked_by_an_extension(o, x, K: tl.constexpr):
    i = tl.arange(0, 8)
    m = (i * K).to(tl.int64) >= 0
    tl.store(o + i, tl.load(x + i, mask=m, other=-1))


@triton.jit
def masked_by_a_minimum(o, x, K: tl.constexpr):
    i = tl.arange(0, 8)
    tl.store(o + i, tl.load(x + i, mask=tl.minimum(i * K, 100) >= 0, other=-1))


@triton.jit
def masked_by_products(o, x, a, b, c):
    i = tl.arange(0, 8)
    m = (i + a) * (i + b) * (i + c) * (i + a) >= 0
    tl.store(o + i, tl.load(x + i, mask=m, other=-1))


@triton.jit
def masked_by_int64(o, x, START: tl.constexpr):
    i = tl.arange(0, 8)
    m = i.to(tl.int64) + START < 100
    tl.store(o + i, tl.load(x + i, mask=m, other=-1))


@triton.jit
def masked_by_int64_at_run_time(o, x, start, factor):
    i = tl.arange(0, 8)
    m = (i.to(tl.int64) + start) * 4 - factor < 100
    tl.store(o + i, tl.load(x + i, mask=m, other=-1))


@triton.jit
def stored_below_an_int64(o, start, n):
    i = tl.arange(0, 64)
    tl.store(o + i, i, mask=i.to(tl.int64) + start < n)


@triton.jit
def low_bits_as_an_index(o, x, WAY: tl.constexpr):
    a = tl.load(x + tl.arange(0, 4))
    h = a * 1664525 + 1013904223
    if WAY == 0:
        tl.store(o + (h - (h >> 4 << 4)), a)
    elif WAY == 1:
        tl.store(o + (h - (h & -16)), a)
    else:
        tl.store(o + (h.to(tl.int64) - (h & -16)), a)


@triton.jit
def low_bits_of_hashed_indices(o, WAY: tl.constexpr):
    i = tl.arange(0, 4)
    h = (i + 1) * 77777 * 1664525 + 1013904223
    if WAY == 0:
        tl.store(o + (h - (h >> 4 << 4)), i)
    elif WAY == 1:
        tl.store(o + (h.to(tl.int64) - (h & -16).to(tl.int64)), i)
    else:
        tl.store(o + (h & 15), i)


@triton.jit
def doubled_int8(o, x):
    a = tl.load(x + tl.arange(0, 4))
    tl.store(o + 128 + (a + a), a)


@triton.jit
def rows_by_loaded_numbers(o, x, rows, STRIDE: tl.constexpr):
    r, c = tl.load(rows + tl.arange(0, 4)), tl.arange(0, 32)
    at = r[:, None] * STRIDE + c[None, :]
    tl.store(o + tl.arange(0, 4)[:, None] * 32 + c[None, :], tl.load(x + at))


@pytest.fixture(params=engines.ENGINES)
def unchecked(request):
    """A launch on one engine; checked mode reports an offset that wraps."""
    return functools.partial(engines.launch, request.param)


def test_a_quotient_of_a_wrapped_minimum(launch):
    o = np.zeros(8, np.int32)
    launch(quotient_of_a_minimum, (1,), o, 1000, K=BIG)
    assert o.tolist() == [0, 0, -2147483, -1073741, 0, 0, -2147483, -1073741]


def test_a_quotient_by_a_wrapped_sum(launch):
    o = np.zeros(8, np.int32)
    launch(quotient_by_a_wrapped_sum, (1,), o, 2**31 - 3, K=2**31 - 4)     # the sum is -7
    assert o.tolist() == [-14, -14, -14, -14, -14, -15, -15, -15]


def test_masks_of_wrapped_products(launch):
    x, wanted = np.arange(8, dtype=np.int32), [0, 1, -1, -1, 4, 5, -1, -1]
    for kernel in (masked_by_an_extension, masked_by_a_minimum):
        o = np.zeros(8, np.int32)
        launch(kernel, (1,), o, x, K=BIG)
        assert o.tolist() == wanted


def test_a_chain_of_products_beyond_64_bits(launch):
    x, i = np.arange(8, dtype=np.int32), range(8)
    a, b, c = 2**17, 2**18 + 3, 2**29 + 5
    o = np.zeros(8, np.int32)
    launch(masked_by_products, (1,), o, x, a, b, c)
    products = [(k + a) * (k + b) * (k + c) * (k + a) % 2**32 for k in i]
    assert o.tolist() == [k if products[k] < 2**31 else -1 for k in i]
    assert len({p < 2**31 for p in products}) == 2


def test_int64_wraps_too(launch):
    x, wanted = np.arange(8, dtype=np.int32), [-1, 1, 2, 3, 4, 5, 6, 7]
    o = np.zeros(8, np.int32)
    launch(masked_by_int64, (1,), o, x, START=2**63 - 1)
    assert o.tolist() == wanted
    for start, factor in ((2**61 - 1, 0), (2**61, 2**62), (2**40, 2**62), (-5, 0), (-2**61 - 1, 8)):
        o = np.zeros(8, np.int32)
        launch(masked_by_int64_at_run_time, (1,), o, x, start, factor)
        sums = [((k + start) * 4 - factor + 2**63) % 2**64 - 2**63 for k in range(8)]
        assert o.tolist() == [k if sums[k] < 100 else -1 for k in range(8)]


def test_the_distance_of_int64_bounds_may_leave_64_bits(launch):
    for start, n in ((-2**63, 2**63 - 1), (2**63 - 64, -2**63), (2**40 - 10, 2**40)):
        o = np.full(64, -1, np.int32)
        launch(stored_below_an_int64, (1,), o, start, n)
        assert o.tolist() == [k if k + start < n else -1 for k in range(64)]


@pytest.mark.parametrize("way", range(3))
def test_a_hash_of_loaded_numbers_wraps_in_an_address(unchecked, way):
    x, o = np.arange(1, 5, dtype=np.int32) * 77777, np.zeros(16, np.int32)
    unchecked(low_bits_as_an_index, (1,), o, x, WAY=way)
    wanted = np.zeros(16, np.int32)
    wanted[[(int(a) * 1664525 + 1013904223) % 16 for a in x]] = x
    assert o.tolist() == wanted.tolist()


@pytest.mark.parametrize("way", range(3))
def test_a_hash_of_indices_wraps_in_an_address(unchecked, way):
    o, wanted = np.zeros(16, np.int32), np.zeros(16, np.int32)
    unchecked(low_bits_of_hashed_indices, (1,), o, WAY=way)
    wanted[[((i + 1) * 77777 * 1664525 + 1013904223) % 16 for i in range(4)]] = range(4)
    assert o.tolist() == wanted.tolist()


def test_an_int8_offset_wraps(unchecked):
    x, o = np.array([1, 2, 100, -100], np.int8), np.zeros(256, np.int8)
    unchecked(doubled_int8, (1,), o, x)
    wanted = np.zeros(256, np.int8)
    wanted[[130, 132, 128 - 56, 128 + 56]] = x
    assert o.tolist() == wanted.tolist()


def test_a_loaded_row_number_wraps_times_its_stride(unchecked):
    """Rows 2**28 + 1 and 1 are one row where the stride is 32, since 2**33 is 0 in int32."""
    x, rows = np.arange(128, dtype=np.float32).reshape(4, 32), np.array([3, 2**28 + 1, 0, 2**27 + 2], np.int32)
    o = np.zeros((4, 32), np.float32)
    unchecked(rows_by_loaded_numbers, (1,), o, x, rows, STRIDE=32)
    np.testing.assert_array_equal(o, x[[3, 1, 0, 2]])


@triton.jit
def extremes_of_wrapped(o, x, N: tl.constexpr):
    i = tl.arange(0, N)
    a, b, c, d = tl.load(x + i), tl.load(x + N + i), tl.load(x + 2 * N + i), tl.load(x + 3 * N + i)
    tl.store(o + i, tl.maximum(a, tl.maximum(b, -c)))
    tl.store(o + N + i, tl.minimum(-a, tl.minimum(b * -1, 0 - c)))
    tl.store(o + 2 * N + i, tl.maximum(tl.maximum(a + b, c), c - d))
    tl.store(o + 3 * N + i, tl.minimum(tl.minimum(a, b - c), d + c))
    tl.store(o + 4 * N + i, tl.maximum(-a, -b))


@pytest.mark.parametrize("dtype", [np.int8, np.int16, np.int32, np.int64])
def test_extremes_of_sums_and_negated_numbers_that_wrap(launch, dtype):
    n, info = 256, np.iinfo(dtype)
    rng = np.random.default_rng(1)
    ends = np.array([info.min, info.min + 1, -1, 0, 1, 3, info.max - 1, info.max], dtype)
    x = np.where(rng.random((4, n)) < 0.6, rng.choice(ends, (4, n)), rng.integers(-9, 9, (4, n))).astype(dtype)
    o = np.zeros((5, n), dtype)
    launch(extremes_of_wrapped, (1,), o, x, N=n)
    a, b, c, d = x
    want = [np.maximum.reduce([a, b, -c]), (-x[:3]).min(axis=0), np.maximum.reduce([a + b, c, c - d]),
            np.minimum.reduce([a, b - c, d + c]), np.maximum(-a, -b)]
    assert (o == np.stack(want)).all()
