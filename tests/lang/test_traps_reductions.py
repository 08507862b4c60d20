"""Public bug reports about reductions, scans and sorting in the Triton language, as tests on every engine.

Numbers in names are the issue numbers at triton-lang/triton; the kernels are our own, written from the reports.
"""

import numpy as np
import pytest

import tilewright as triton
import tilewright.language as tl
from tests.departures import differs


@triton.jit
def dot_by_atomic(out, x, y, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.atomic_add(out, tl.sum(tl.load(x + i) * tl.load(y + i), axis=0))


@triton.jit
def sum_over_sum(out, value, M: tl.constexpr, N: tl.constexpr):
    v = tl.zeros((M, N), tl.float32) + value
    total = tl.sum(tl.sum(v, axis=1), axis=0)
    tl.store(out + tl.arange(0, N), total)


@triton.jit
def three_ways(out, x, n, M: tl.constexpr, N: tl.constexpr):
    for k in range(n):
        v = tl.load(x + k * M * N + tl.arange(0, M)[:, None] * N + tl.arange(0, N)[None, :])
        tl.store(out + k * 3, tl.sum(tl.sum(v, axis=0), axis=0))
        tl.store(out + k * 3 + 1, tl.sum(tl.sum(v, axis=1), axis=0))
        tl.store(out + k * 3 + 2, tl.sum(v, axis=None))


@triton.jit
def batched_column_sum(out, x, rows, cols, R: tl.constexpr, C: tl.constexpr):
    b = tl.program_id(0)
    c = tl.arange(0, C)
    acc = tl.zeros((C,), tl.float32)
    for start in range(0, rows, R):
        r = start + tl.arange(0, R)
        mask = (r[:, None] < rows) & (c[None, :] < cols)
        acc += tl.sum(tl.load(x + b * rows * cols + r[:, None] * cols + c[None, :], mask=mask, other=0.0), axis=0)
    tl.store(out + b * cols + c, acc, mask=c < cols)


@triton.jit
def reduce_size_one(out, x, N: tl.constexpr):
    i = tl.arange(0, N)
    v = tl.load(x + i[:, None] + tl.zeros((1, 1), tl.int32))
    tl.store(out + i, tl.max(v, axis=1))
    tl.store(out + N + i, tl.sum(v, axis=1))


@triton.jit
def repeated_argmax(values, indices, x, k, N: tl.constexpr):
    i = tl.arange(0, N)
    v = tl.load(x + i)
    taken = tl.zeros((N,), tl.int1)
    for j in range(k):
        best = tl.argmax(tl.where(taken, float("-inf"), v), axis=0)
        tl.store(indices + j, best)
        tl.store(values + j, tl.load(x + best))
        taken = taken | (i == best)


@triton.jit
def replicated_norm(out, x, M: tl.constexpr, D: tl.constexpr, N: tl.constexpr):
    v = tl.load(x + tl.arange(0, M)[:, None] * D + tl.arange(0, D)[None, :])
    norm = tl.broadcast_to(tl.expand_dims(tl.sum(v * v, axis=1), 0), (N, M))
    tl.store(out + tl.arange(0, N)[:, None] * M + tl.arange(0, M)[None, :], norm)


@triton.jit
def running_count(out, x, n, B: tl.constexpr):
    for start in range(0, n, B):
        i = start + tl.arange(0, B)
        ones = tl.where(tl.load(x + i) > 0, 1, 0)
        tl.store(out + i[None, :], tl.cumsum(ones[None, :], axis=1).to(tl.int64))


@triton.jit
def recurrence(a1, b1, a2, b2):
    return a1 * a2, a2 * b1 + b2


@triton.jit
def linear_recurrence(out, a, b, N: tl.constexpr):
    i = tl.arange(0, N)
    _, y = tl.associative_scan((tl.load(a + i), tl.load(b + i)), 0, recurrence)
    tl.store(out + i, y)


@triton.jit
def plus(a, b):
    return a + b


@triton.jit
def scan_3d(out, x, A: tl.constexpr, B: tl.constexpr, C: tl.constexpr, AXIS: tl.constexpr, REVERSE: tl.constexpr):
    at = tl.arange(0, A)[:, None, None] * (B * C) + tl.arange(0, B)[None, :, None] * C + tl.arange(0, C)[None, None, :]
    tl.store(out + at, tl.associative_scan(tl.load(x + at), AXIS, plus, reverse=REVERSE))


@triton.jit
def sorted_row(out, x, N: tl.constexpr, DESCENDING: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(out + i, tl.sort(tl.load(x + i), descending=DESCENDING))


def test_359_a_sum_is_counted_once(launch):
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((2, 64)).astype(np.float32)
    out = np.zeros(1, np.float32)
    launch(dot_by_atomic, (1,), out, x, y, N=64)
    np.testing.assert_allclose(out[0], x.astype(np.float64) @ y, rtol=1e-5)


def test_429_sum_over_sum(launch):
    out = np.zeros(128, np.float32)
    launch(sum_over_sum, (1,), out, 1 / 128, M=128, N=128)
    assert (out == 128.0).all()


@pytest.mark.parametrize("size", [4, 8])
@pytest.mark.parametrize("dtype", [np.float32, np.int32])
def test_1883_small_tiles_all_axes(launch, size, dtype):
    x = np.arange(3 * size * size).reshape(3, size, size).astype(dtype)
    out = np.zeros((3, 3), dtype)
    launch(three_ways, (1,), out, x, 3, M=size, N=size)
    np.testing.assert_array_equal(out, np.repeat(x.sum((1, 2))[:, None], 3, 1))


@differs("`num_warps`, `num_stages` and the like do nothing on a CPU")
@pytest.mark.parametrize("warps", [1, 2, 4, 8])
def test_5327_num_warps_does_not_change_a_sum(launch, warps):
    x, out = np.arange(3 * 5 * 2, dtype=np.float32).reshape(3, 5, 2), np.zeros((3, 2), np.float32)
    launch(batched_column_sum, (3,), out, x, 5, 2, R=2, C=4, num_warps=warps)
    np.testing.assert_array_equal(out, x.sum(1))


def test_3013_reduced_axis_of_size_one(launch):
    x, out = np.random.default_rng(0).standard_normal(16).astype(np.float32), np.zeros(32, np.float32)
    launch(reduce_size_one, (1,), out, x, N=16)
    np.testing.assert_array_equal(out, np.tile(x, 2))


def test_6635_repeated_argmax_is_top_k(launch):
    x = np.random.default_rng(1).standard_normal(64).astype(np.float32)
    x[[3, 20, 41]] = np.inf
    x[[5, 6]] = 0
    values, indices = np.zeros(16, np.float32), np.zeros(16, np.int32)
    launch(repeated_argmax, (1,), values, indices, x, 16, N=64)
    assert sorted(indices.tolist()) == sorted(np.argsort(-x, kind="stable")[:16].tolist())


@differs("Sums have the same bits in every run")
def test_7264_replicas_have_the_same_bits(launch):
    x = np.random.default_rng(2).standard_normal((8, 32)).astype(np.float32)
    first, second = np.zeros((4, 8), np.float32), np.zeros((4, 8), np.float32)
    launch(replicated_norm, (1,), first, x, M=8, D=32, N=4)
    launch(replicated_norm, (1,), second, x, M=8, D=32, N=4)
    assert (first == first[0]).all() and (first == second).all()
    np.testing.assert_allclose(first[0], (x.astype(np.float64) ** 2).sum(1), rtol=1e-6)


@pytest.mark.parametrize("block", [8, 32])
def test_2361_cumsum_in_a_loop(launch, block):
    x, out = np.ones(block, np.float32), np.zeros(block, np.int64)
    launch(running_count, (1,), out, x, block, B=block)
    assert out.tolist() == list(range(1, block + 1))


@pytest.mark.parametrize("n", [64, 100, 1024])
def test_2359_a_scan_keeps_the_order_of_its_operands(launch, n):
    rng = np.random.default_rng(3)
    a, b, out = rng.uniform(0.5, 1, n), rng.standard_normal(n), np.zeros(n)
    launch(linear_recurrence, (1,), out, a, b, N=n)
    y, expected = 0.0, []
    for s, t in zip(a, b):
        y = s * y + t
        expected.append(y)
    np.testing.assert_allclose(out, expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("axis", [-3, -2, -1, 0, 1, 2])
@pytest.mark.parametrize("reverse", [False, True])
def test_8412_axes_of_a_scan(launch, axis, reverse):
    x = np.random.default_rng(4).integers(-9, 9, (3, 4, 5)).astype(np.int32)
    out = np.zeros_like(x)
    launch(scan_3d, (1,), out, x, A=3, B=4, C=5, AXIS=axis, REVERSE=reverse)
    expected = np.flip(np.flip(x, axis).cumsum(axis), axis) if reverse else x.cumsum(axis)
    np.testing.assert_array_equal(out, expected)


@pytest.mark.parametrize("axis", [-4, 3])
def test_8412_the_error_names_the_range(axis):
    x = np.zeros((3, 4, 5), np.int32)
    with pytest.raises(triton.CompilationError, match=r"-3.*2"):
        scan_3d[(1,)](x.copy(), x, A=3, B=4, C=5, AXIS=axis, REVERSE=False)


@differs("A sort is a permutation, NaNs and all")
@pytest.mark.parametrize("descending", [False, True])
def test_5999_sort_is_a_permutation_with_nan(launch, descending):
    x, out = np.array([np.inf, 3.14, np.nan, -1], np.float32), np.zeros(4, np.float32)
    launch(sorted_row, (1,), out, x, N=4, DESCENDING=descending)
    expected = np.sort(x)       # NaN last, as torch ascending
    np.testing.assert_array_equal(out, expected[::-1] if descending else expected)
