"""Tiles in kernels, on every engine: memory, reductions, shapes, dot, with the cases of known bug reports."""

import numpy as np
import pytest

import tilewright as triton
import tilewright.language as tl
from tests.departures import differs

NAN, INF = np.nan, np.inf


@triton.jit
def shifted(x_ptr, START: tl.constexpr, n, SHIFT: tl.constexpr, N: tl.constexpr):
    i = tl.arange(0, N)
    x = tl.load(x_ptr + START + i, mask=i < n)
    tl.store(x_ptr + START + i + SHIFT, x, mask=i < n)


@pytest.mark.parametrize("shift", [1, -1, 8, -8, 3])
def test_all_of_a_load_comes_before_a_later_store(launch, shift):
    x = np.arange(64, dtype=np.float32)
    want = x.copy()
    want[8 + shift: 8 + shift + 40] = x[8:48]
    launch(shifted, (1,), x, 8, 40, SHIFT=shift, N=48)
    assert x.tolist() == want.tolist()


@triton.jit
def reversed_in_place(x_ptr, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(x_ptr + N - 1 - i, tl.load(x_ptr + i))


def test_reversed_in_place(launch):
    x = np.arange(37, dtype=np.int32)
    launch(reversed_in_place, (1,), x, N=37)
    assert x.tolist() == list(range(36, -1, -1))


@triton.jit
def stored_and_read_back(x_ptr, out_ptr, B: tl.constexpr):
    i = tl.arange(0, B)
    at = i[:, None] * B + i[None, :]
    row = tl.zeros((1, B), tl.int32) + tl.program_id(0) + i[None, :]
    tl.store(x_ptr + at, row)
    tl.store(out_ptr + at, tl.load(x_ptr + at) + tl.load(x_ptr + at, mask=at > 3, other=100))


def test_a_program_sees_its_own_stores_and_a_row_broadcasts_in_a_store(launch):
    x, out = np.zeros((8, 8), np.int32), np.zeros((8, 8), np.int32)
    launch(stored_and_read_back, (1,), x, out, B=8)
    row = np.broadcast_to(np.arange(8), (8, 8))
    assert x.tolist() == row.tolist()
    assert out.tolist() == (row + np.where(np.arange(64).reshape(8, 8) > 3, row, 100)).tolist()


@triton.jit
def mutual(x_ptr, out_ptr, X: tl.constexpr, R: tl.constexpr):
    r = tl.arange(0, R)[None, :]
    mask = tl.arange(0, X)[:, None] < 1
    tl.store(out_ptr + r, tl.load(x_ptr + r, mask, 7) + tl.zeros((X, R), tl.int32), mask)


@differs("Operands of memory operations broadcast to one another")
def test_pointer_mask_and_value_broadcast_to_one_another(launch):
    x, out = np.arange(4, dtype=np.int32), np.zeros(4, np.int32)
    launch(mutual, (1,), x, out, X=2, R=4)
    assert out.tolist() == [0, 1, 2, 3]


@triton.jit
def masked_stencil(x_ptr, out_ptr, N: tl.constexpr):
    i = tl.arange(0, N)
    left = tl.load(x_ptr + i - 1, mask=i >= 1)
    right = tl.load(x_ptr + i + 1, mask=i < N - 1)
    tl.store(out_ptr + i, left + right)


@pytest.mark.undefined_lanes
@differs("A masked lane without `other` is zero")
def test_masked_lanes_without_other_are_zero(launch):
    x, out = np.arange(1, 9, dtype=np.float16), np.zeros(8, np.float16)
    launch(masked_stencil, (1,), x, out, N=8)
    assert out.tolist() == [2, 4, 6, 8, 10, 12, 14, 7]


@triton.jit
def reductions(x_ptr, out_ptr, M: tl.constexpr, N: tl.constexpr):
    at = tl.arange(0, M)[:, None] * N + tl.arange(0, N)[None, :]
    x = tl.load(x_ptr + at)
    i = tl.arange(0, M)
    j = tl.arange(0, N)
    tl.store(out_ptr + i, tl.sum(x, 1))
    tl.store(out_ptr + M + i, tl.max(x, 1))
    tl.store(out_ptr + 2 * M + i, tl.min(x, 1))
    tl.store(out_ptr + 3 * M + i, tl.argmax(x, 1))
    tl.store(out_ptr + 4 * M + i, tl.argmin(x, 1))
    tl.store(out_ptr + 5 * M + j, tl.sum(x, 0))
    tl.store(out_ptr + 5 * M + N + j, tl.max(x, axis=0))
    tl.store(out_ptr + 5 * M + 2 * N + j, tl.argmin(x, axis=0))
    tl.store(out_ptr + 5 * M + 3 * N, tl.sum(x))
    tl.store(out_ptr + 5 * M + 3 * N + 1, tl.sum(tl.sum(x, 0), 0))
    tl.store(out_ptr + 5 * M + 3 * N + 2, tl.sum(tl.sum(x, axis=1), axis=0))


@differs("Tiles may have any size")
@pytest.mark.parametrize("name", ["int8", "uint8", "int32", "int64", "float16", "float32", "float64"])
@pytest.mark.parametrize("sizes", [(4, 8), (16, 1), (1, 5), (3, 7)])
def test_reductions_of_small_tiles(launch, name, sizes):
    m, n = sizes
    x = np.random.default_rng(m * n).permutation(m * n).reshape(sizes).astype(name)
    out = np.zeros(5 * m + 3 * n + 3, np.float64)
    launch(reductions, (1,), x, out, M=m, N=n)
    z = x.astype(np.float64)
    want = np.concatenate([z.sum(1), z.max(1), z.min(1), z.argmax(1), z.argmin(1), z.sum(0), z.max(0), z.argmin(0),
                           [z.sum()] * 3])
    assert out.tolist() == want.tolist()


@triton.jit
def extremes(x_ptr, out_ptr, N: tl.constexpr):
    x = tl.load(x_ptr + tl.arange(0, N))
    tl.store(out_ptr, tl.max(x, 0))
    tl.store(out_ptr + 1, tl.min(x, 0))
    tl.store(out_ptr + 2, tl.argmax(x, 0))
    tl.store(out_ptr + 3, tl.argmin(x, 0))
    value, index = tl.max(x, 0, return_indices=True)
    tl.store(out_ptr + 4, value)
    tl.store(out_ptr + 5, index)


@differs("argmax and argmin of a NaN")
@pytest.mark.parametrize("values, want", [
    ([NAN, INF], [INF, INF, 0, 0, NAN, 0]), ([INF, NAN], [INF, INF, 1, 1, NAN, 1]),
    ([NAN] + [INF] * 63, [INF, INF, 0, 0, NAN, 0]), ([1, 3, 3, 1], [3, 1, 1, 0, 3, 1]),
    ([-INF, 2, NAN, NAN, 5], [5, -INF, 2, 2, NAN, 2]),
])
@pytest.mark.parametrize("name", ["float16", "float32", "float64"])
def test_nan_in_reductions(launch, values, want, name):
    out = np.zeros(6, np.float64)
    launch(extremes, (1,), np.array(values, name), out, N=len(values))
    np.testing.assert_array_equal(out, want)


@triton.jit
def multiply(a, b):
    return a * b


@triton.jit
def joint(v1, i1, v2, i2):
    larger = v1 > v2
    return tl.where(larger, v1, v2), tl.where(larger, i1, i2)


@triton.jit
def own_combine(x_ptr, out_ptr, N: tl.constexpr):
    i = tl.arange(0, N)
    x = tl.load(x_ptr + i)
    tl.store(out_ptr, tl.reduce(x, 0, multiply))
    value, index = tl.reduce((x, i), 0, joint)
    tl.store(out_ptr + 1, value)
    tl.store(out_ptr + 2, index)


def test_a_combine_function_of_the_user(launch):
    out = np.zeros(3, np.float32)
    launch(own_combine, (1,), np.array([1, 5, 3, 2, 4], np.float32), out, N=5)
    assert out.tolist() == [120, 5, 1]


@triton.jit
def half_sum(x_ptr, out_ptr, N: tl.constexpr):
    tl.store(out_ptr, tl.sum(tl.load(x_ptr + tl.arange(0, N)), 0))


@differs("Sums of fp16 and bf16 accumulate in fp32", topic="Numbers",
         peer="`tl.sum` and `tl.cumsum` add in the type itself: 4096 + 1 is 4096 in fp16.",
         ours="They add in fp32 and round once, to the same type.")
def test_half_sums_accumulate_in_fp32(launch):
    out = np.zeros(1, np.float32)
    launch(half_sum, (1,), np.concatenate([[4096], np.ones(1024)]).astype(np.float16), out, N=1025)
    assert out[0] == 5120


@triton.jit
def rearranged(x_ptr, out_ptr, M: tl.constexpr, N: tl.constexpr):
    at = tl.arange(0, M)[:, None] * N + tl.arange(0, N)[None, :]
    x = tl.load(x_ptr + at)
    flat = tl.arange(0, M * N)
    tl.store(out_ptr + flat, tl.ravel(tl.trans(x)))
    tl.store(out_ptr + M * N + flat, tl.reshape(tl.permute(tl.reshape(x, (M, N, 1)), (2, 1, 0)), M * N))
    pair = tl.join(x, -x)
    left, right = tl.split(pair)
    tl.store(out_ptr + 2 * M * N + at, left + right * 2)
    both = tl.cat(tl.ravel(x), tl.ravel(-x))
    tl.store(out_ptr + 3 * M * N + tl.arange(0, 2 * M * N), both)
    tl.store(out_ptr + 5 * M * N + tl.arange(0, 2 * M * N), tl.ravel(tl.interleave(x, -x)))
    tl.store(out_ptr + 7 * M * N + at, tl.broadcast_to(tl.sum(x, 1, keep_dims=True), (M, N)))


@pytest.mark.parametrize("sizes", [(4, 8), (3, 5), (1, 4), (16, 2)])
def test_rearrangements(launch, sizes):
    m, n = sizes
    x, out = np.arange(1, m * n + 1, dtype=np.int32).reshape(sizes), np.zeros(8 * m * n, np.int32)
    launch(rearranged, (1,), x, out, M=m, N=n)
    parts = np.split(out, 8)
    assert parts[0].tolist() == parts[1].tolist() == x.T.ravel().tolist()
    assert parts[2].tolist() == (-x).ravel().tolist()
    assert [*parts[3], *parts[4]] == [*x.ravel(), *(-x).ravel()]
    assert [*parts[5], *parts[6]] == np.stack([x, -x], -1).ravel().tolist()
    assert parts[7].reshape(sizes).tolist() == np.broadcast_to(x.sum(1, keepdims=True), sizes).tolist()


@triton.jit
def matmul(a_ptr, b_ptr, c_ptr, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    i = tl.program_id(0) * BM + tl.arange(0, BM)
    j = tl.program_id(1) * BN + tl.arange(0, BN)
    acc = tl.zeros((BM, BN), c_ptr.dtype.element_ty)
    for start in range(0, K, BK):
        k = start + tl.arange(0, BK)
        a = tl.load(a_ptr + i[:, None] * K + k[None, :], mask=(i[:, None] < M) & (k[None, :] < K), other=0.0)
        b = tl.load(b_ptr + k[:, None] * N + j[None, :], mask=(k[:, None] < K) & (j[None, :] < N), other=0.0)
        acc = tl.dot(a, b, acc)
    tl.store(c_ptr + i[:, None] * N + j[None, :], acc, mask=(i[:, None] < M) & (j[None, :] < N))


@differs("`tl.dot` takes tiles of any size")
@pytest.mark.parametrize("name, result", [("int8", "int32"), ("float16", "float32"), ("float32", "float32"),
                                          ("float64", "float64")])
@pytest.mark.parametrize("sizes, blocks", [((9, 7, 10), (8, 8, 4)), ((9, 7, 10), (16, 4, 8)), ((9, 7, 10), (5, 3, 7)),
                                           ((2, 3, 2), (1, 1, 1))])
def test_matmul_with_boundary_masks(launch, name, result, sizes, blocks):
    m, n, k = sizes
    rng = np.random.default_rng(0)
    a, b = rng.integers(-3, 4, (m, k)).astype(name), rng.integers(-3, 4, (k, n)).astype(name)
    c = np.zeros((m, n), result)
    bm, bn, bk = blocks
    launch(matmul, (-(-m // bm), -(-n // bn)), a, b, c, m, n, k, BM=bm, BN=bn, BK=bk)
    assert c.tolist() == (a.astype(int) @ b.astype(int)).tolist()


@triton.jit
def softmax_rows(x_ptr, out_ptr, N: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    i = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * N + i, mask=i < N, other=-float("inf"))
    tl.store(out_ptr + row * N + i, tl.softmax(x), mask=i < N)


@pytest.mark.parametrize("name, tolerance", [("float16", 1e-3), ("float32", 1e-6)])
def test_softmax(launch, name, tolerance):
    x = np.random.default_rng(0).standard_normal((5, 13)).astype(name)
    out = np.zeros_like(x)
    launch(softmax_rows, (5,), x, out, N=13, BLOCK=16)
    z = np.exp(x.astype(np.float64))
    np.testing.assert_allclose(out, z / z.sum(1, keepdims=True), rtol=tolerance)


@triton.jit
def ceiling(out_ptr, x, d):
    tl.store(out_ptr, tl.cdiv(x, d))


@differs("`tl.cdiv` of negative numbers", topic="Numbers",
         peer="(x + d - 1) // d, truncated: cdiv(-36, 5) is -6.",
         ours="Rounded up: -7.")
def test_cdiv_of_negative_numbers(launch):
    out = np.zeros(1, np.int32)
    for x, d in ((-36, 5), (36, 5), (35, 5), (-3, 2), (2, 3)):
        launch(ceiling, (1,), out, x, d)
        assert out[0] == -(-x // d)


@triton.jit
def bools(x_ptr, out_ptr, N: tl.constexpr):
    i = tl.arange(0, N)
    x = tl.load(x_ptr + i, mask=i < N - 1, other=True)
    tl.static_assert(x.dtype == tl.int1)
    tl.store(out_ptr + i, ~x)


def test_bools_in_memory(launch):
    x, out = np.array([True, False, True, False], np.bool_), np.ones(4, np.bool_)
    launch(bools, (1,), x, out, N=4)
    assert out.tolist() == [False, True, False, False]


@differs("A bool in memory is a byte, 0 or 1")
def test_any_byte_but_zero_is_true(launch):
    x, out = np.array([0, 1, 2, 255], np.uint8), np.ones(4, np.bool_)
    launch(bools, (1,), x.view(np.bool_), out, N=4)
    assert out.view(np.uint8).tolist() == [1, 0, 0, 0]
