"""All of a load happens before a later store of the same program; a program sees its own stores."""

import numpy as np
import pytest

import tilewright as triton
import tilewright.language as tl
from tests.departures import differs


@triton.jit
def shift(x, n, BY: tl.constexpr, BLOCK: tl.constexpr):
    offs = tl.arange(0, BLOCK)
    inside = (offs + BY >= 0) & (offs + BY < n) & (offs < n)
    v = tl.load(x + offs, mask=offs < n)
    tl.store(x + offs + BY, v, mask=inside)


@triton.jit
def reverse(x, n, BLOCK: tl.constexpr):
    offs = tl.arange(0, BLOCK)
    v = tl.load(x + offs, mask=offs < n)
    tl.store(x + n - 1 - offs, v, mask=offs < n)


@triton.jit
def copy(dst, src, n, BLOCK: tl.constexpr):
    offs = tl.arange(0, BLOCK)
    tl.store(dst + offs, tl.load(src + offs, mask=offs < n) + 1.0, mask=offs < n)


@triton.jit
def read_own_store(x, out, BLOCK: tl.constexpr):
    offs = tl.arange(0, BLOCK)
    tl.store(x + offs, offs * 2.0)
    back = tl.load(x + (BLOCK - 1 - offs))
    tl.store(out + offs, back)


@triton.jit
def two_stores(x, out, BLOCK: tl.constexpr):
    offs = tl.arange(0, BLOCK)
    a = tl.load(x + offs)
    tl.store(x + offs, a + 1.0)
    b = tl.load(x + offs)
    tl.store(x + offs, b * 3.0)
    tl.store(out + offs, a + b)


@triton.jit
def load_between_in_loop(x, n, BLOCK: tl.constexpr):
    offs = tl.arange(0, BLOCK)
    for _ in range(n):
        left = tl.load(x + offs)
        right = tl.load(x + offs + 1)
        tl.store(x + offs + 1, left + right)


@triton.jit
def transpose_in_place(x, N: tl.constexpr):
    i = tl.arange(0, N)
    p = x + i[:, None] * N + i[None, :]
    v = tl.load(p)
    tl.store(p, tl.trans(v))


@triton.jit
def same_address(out, BLOCK: tl.constexpr):
    offs = tl.arange(0, BLOCK)
    tl.store(out + offs * 0, offs)


@triton.jit
def masked_without_other(x, out, n, BLOCK: tl.constexpr):
    offs = tl.arange(0, BLOCK)
    tl.store(out + offs, tl.load(x + offs, mask=offs < n))


@differs("Memory is accessed in program order", topic="Memory",
         peer="A load may miss an earlier store of its own program, made by another thread, unless "
              "`tl.debug_barrier()` stands between them; overlapping arguments are the caller's risk.",
         ours="All of a load happens before a later store of the same program, and a program sees its own stores, "
              "also where arguments overlap. Where the launch shows that they do not, it costs nothing.")
@pytest.mark.parametrize("by", [1, -1, 16, -16, 8, 3])
@pytest.mark.parametrize("n", [5, 64, 61])
def test_shift_in_place(launch, by, n):
    x = np.arange(64, dtype=np.float32)
    expected = x.copy()
    source = np.arange(n)
    kept = source[(source + by >= 0) & (source + by < n)]
    expected[kept + by] = x[kept]
    launch(shift, (1,), x, n, BY=by, BLOCK=64)
    np.testing.assert_array_equal(x, expected)


@pytest.mark.parametrize("n", [1, 2, 7, 16, 63, 64])
def test_reverse_in_place(launch, n):
    x = np.arange(64, dtype=np.float32)
    expected = np.concatenate([x[:n][::-1], x[n:]])
    launch(reverse, (1,), x, n, BLOCK=64)
    np.testing.assert_array_equal(x, expected)


@differs("Memory is accessed in program order")
@pytest.mark.parametrize("distance", [-17, -16, -1, 0, 1, 5, 16, 40])
def test_overlapping_arguments(launch, distance):
    buffer = np.arange(200, dtype=np.float32)
    src = buffer[60:60 + 64]
    dst = buffer[60 + distance:60 + distance + 64]
    expected = buffer.copy()
    expected[60 + distance:60 + distance + 64] = src + 1
    launch(copy, (1,), dst, src, 64, BLOCK=64)
    np.testing.assert_array_equal(buffer, expected)


def test_a_program_sees_its_stores(launch):
    x, out = np.zeros(32, np.float32), np.zeros(32, np.float32)
    launch(read_own_store, (1,), x, out, BLOCK=32)
    np.testing.assert_array_equal(out, np.arange(32)[::-1] * 2.0)


@differs("Memory is accessed in program order")
def test_program_order(launch):
    x, out = np.arange(32, dtype=np.float32), np.zeros(32, np.float32)
    launch(two_stores, (1,), x, out, BLOCK=32)
    np.testing.assert_array_equal(x, (np.arange(32) + 1) * 3.0)
    np.testing.assert_array_equal(out, np.arange(32) * 2.0 + 1)


@differs("Memory is accessed in program order")
@pytest.mark.parametrize("n", [0, 1, 3])
def test_order_in_a_loop(launch, n):
    x = np.arange(33, dtype=np.float32)
    expected = x.copy()
    for _ in range(n):
        expected[1:] = expected[:-1] + expected[1:]
    launch(load_between_in_loop, (1,), x, n, BLOCK=32)
    np.testing.assert_array_equal(x, expected)


@pytest.mark.parametrize("size", [4, 16, 32])
def test_transpose_in_place(launch, size):
    x = np.arange(size * size, dtype=np.float32).reshape(size, size)
    expected = x.T.copy()
    launch(transpose_in_place, (1,), x, N=size)
    np.testing.assert_array_equal(x, expected)


@differs("Of equal addresses the last wins", topic="Memory",
         peer="Which lane of one store wins is unspecified.",
         ours="The last one in row-major order.")
def test_equal_addresses_last_wins(launch):
    out = np.zeros(2, np.int32)
    launch(same_address, (1,), out, BLOCK=32)
    assert out.tolist() == [31, 0]


@pytest.mark.undefined_lanes
@differs("A masked lane without `other` is zero", topic="Memory",
         peer="It is undefined. (Code for NVIDIA GPUs and the interpreter happen to give zero.)",
         ours="It is zero, on every engine.")
def test_masked_lanes_are_zero(launch):
    x, out = np.full(32, 7, np.float32), np.full(32, -1, np.float32)
    launch(masked_without_other, (1,), x, out, 20, BLOCK=32)
    assert out.tolist() == [7.0] * 20 + [0.0] * 12
