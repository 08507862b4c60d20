"""Index arithmetic that wraps in its type: the values and masks made from it are the same on every engine."""

import numpy as np

import tilewright as triton
import tilewright.language as tl

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
