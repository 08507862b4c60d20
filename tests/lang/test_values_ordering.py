"""sort, topk, flip, gather, histogram and parts of tiles on every engine, against NumPy and torch."""

import numpy as np
import pytest

import tilewright as triton
import tilewright.language as tl
from tests.departures import differs

NAN, INF = float("nan"), float("inf")


@triton.jit
def sort_rows(out, x, M: tl.constexpr, N: tl.constexpr, DIM: tl.constexpr, DESCENDING: tl.constexpr, HOW: tl.constexpr):
    p = tl.arange(0, M)[:, None] * N + tl.arange(0, N)[None, :]
    v = tl.load(x + p)
    if HOW == "sort":
        r = tl.sort(v, DIM, DESCENDING)
    elif HOW == "method":
        r = v.sort(dim=DIM, descending=DESCENDING)
    else:
        r = tl.standard.bitonic_merge(v, DIM, DESCENDING)
    tl.store(out + p, r)


@triton.jit
def largest(out, x, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr, DESCENDING: tl.constexpr):
    v = tl.load(x + tl.arange(0, M)[:, None] * N + tl.arange(0, N)[None, :])
    r = tl.topk(v, K, descending=DESCENDING)
    tl.store(out + tl.arange(0, M)[:, None] * K + tl.arange(0, K)[None, :], r)


@triton.jit
def flips(out, x, M: tl.constexpr, N: tl.constexpr):
    p = tl.arange(0, M)[:, None] * N + tl.arange(0, N)[None, :]
    v = tl.load(x + p)
    tl.store(out + p, tl.flip(v))
    tl.store(out + M * N + p, v.flip(0))
    tl.store(out + 2 * M * N + p, tl.flip(tl.flip(v, 1), -2))


@triton.jit
def pick(out, x, index, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    v = tl.load(x + tl.arange(0, M)[:, None] * N + tl.arange(0, N)[None, :])
    q = tl.arange(0, M)[:, None] * K + tl.arange(0, K)[None, :]
    tl.store(out + q, tl.gather(v, tl.load(index + q), axis=1))


@triton.jit
def pick_computed(out, x, N: tl.constexpr):
    i = tl.arange(0, N)
    v = tl.exp(tl.load(x + i)) + i
    tl.store(out + i, v.gather((i * 5 + 3) % N, 0) - tl.gather(v, N - 1 - i, 0))


@triton.jit
def count(out, x, n, N: tl.constexpr, BINS: tl.constexpr):
    i = tl.arange(0, N)
    total = tl.zeros((BINS,), tl.int32)
    for start in range(0, n, N):
        total += tl.histogram(tl.load(x + start + i, mask=start + i < n), BINS, mask=start + i < n)
    tl.store(out + tl.arange(0, BINS), total)


@triton.jit
def count_small(out, x, N: tl.constexpr, BINS: tl.constexpr):
    tl.store(out + tl.arange(0, BINS), tl.load(x + tl.arange(0, N)).histogram(BINS))


@triton.jit
def parts(out, x, M: tl.constexpr, N: tl.constexpr, I: tl.constexpr):
    v = tl.load(x + tl.arange(0, M)[:, None] * N + tl.arange(0, N)[None, :])
    half: tl.constexpr = N // 2
    j = tl.arange(0, half)
    tl.store(out + j, v[I, :half])
    tl.store(out + half + j, v[-1, half:] + v[0][::2])
    tl.store(out + 2 * half, v[1, I])


@triton.jit
def sort_in_loop(out, x, n, N: tl.constexpr):
    i = tl.arange(0, N)
    best = tl.full((N,), float("-inf"), tl.float32)
    for start in range(0, n, N):
        v = tl.load(x + start + i, mask=start + i < n, other=float("-inf"))
        best = tl.topk(tl.cat(best, v, can_reorder=True), N)
    tl.store(out + i, best)


@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("shape", [(1, 1), (4, 8), (3, 33), (1, 512), (7, 4)])
@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int32, np.uint32, np.uint64, np.float16, np.float32,
                                   np.float64, np.bool_])
def test_sort(launch, shape, dtype, descending):
    raw = np.random.default_rng(1).integers(0, 256, (*shape, np.dtype(dtype).itemsize), dtype=np.uint8)
    x = (raw & 1).astype(bool)[..., 0] if dtype is np.bool_ else raw.view(dtype)[..., 0].copy()
    out = np.zeros_like(x)
    launch(sort_rows, (1,), out, x, M=shape[0], N=shape[1], DIM=1, DESCENDING=descending, HOW="sort")
    want = np.sort(x, 1)
    np.testing.assert_array_equal(out, want[:, ::-1] if descending else want)


@differs("Any dimension can be sorted", topic="Shapes",
         peer="`tl.sort` works on the last one.",
         ours="Any; so does `tl.topk`, of any size and for any k.")
@differs("`x.sort()` sorts", topic="Names and signatures",
         peer="The method returns None.",
         ours="It is `tl.sort`.")
@pytest.mark.parametrize("how, dim", [("sort", None), ("method", 0), ("merge", -1)])
def test_ways_to_sort(launch, how, dim):
    x = np.random.default_rng(2).standard_normal((4, 16)).astype(np.float32)
    out = np.zeros_like(x)
    launch(sort_rows, (1,), out, x, M=4, N=16, DIM=dim, DESCENDING=False, HOW=how)
    np.testing.assert_array_equal(out, np.sort(x, -1 if dim is None else dim))


@differs("A sort is a permutation, NaNs and all", topic="Numbers",
         peer="A NaN makes `tl.sort` and `tl.topk` lose and double elements.",
         ours="Every element is kept; NaNs count as the greatest, as in torch, and -0.0 stands before +0.0.")
@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("values", [[INF, 3.14, NAN, -1.0], [NAN, NAN, -INF, INF, 0.0, -0.0, 1.0, NAN],
                                    [-INF, NAN, NAN, NAN]])
def test_nan_and_infinity(launch, values, descending):
    """Traps C17: a permutation of the input, in torch's order."""
    torch = pytest.importorskip("torch")
    x = np.array([values], np.float32)
    x.view(np.uint32)[0, np.isnan(x[0])] |= np.arange(np.isnan(x[0]).sum(), dtype=np.uint32) + 1      # all distinct
    out = np.zeros_like(x)
    launch(sort_rows, (1,), out, x, M=1, N=x.size, DIM=1, DESCENDING=descending, HOW="sort")
    want, _ = torch.sort(torch.from_numpy(x), dim=1, descending=descending)
    np.testing.assert_array_equal(out, want.numpy())
    assert sorted(out.view(np.uint32)[0]) == sorted(x.view(np.uint32)[0])


@differs("`tl.topk` keeps the type")
@pytest.mark.parametrize("n, k", [(64, 16), (33, 5), (16, 16), (8, 1)])
@pytest.mark.parametrize("dtype", [np.float32, np.uint8, np.float16])
def test_topk(launch, n, k, dtype):
    """Traps A7's companion: the same elements as torch.topk, infinities among them."""
    x = np.random.default_rng(3).integers(0, 100, (3, n)).astype(dtype)
    if np.dtype(dtype).kind == "f":
        x[0, ::3] = INF
    for descending in (True, False):
        out = np.zeros((3, k), dtype)
        launch(largest, (1,), out, x, M=3, N=n, K=k, DESCENDING=descending)
        ordered = np.sort(x, 1)
        np.testing.assert_array_equal(out, ordered[:, ::-1][:, :k] if descending else ordered[:, :k])


@differs("Any dimension can be sorted")
def test_best_of_many_blocks(launch):
    x = np.random.default_rng(4).standard_normal(150).astype(np.float32)
    out = np.zeros(16, np.float32)
    launch(sort_in_loop, (1,), out, x, x.size, N=16)
    np.testing.assert_array_equal(out, np.sort(x)[::-1][:16])


@pytest.mark.parametrize("shape", [(1, 8), (3, 17), (16, 16)])
def test_flip(launch, shape):
    x = np.arange(shape[0] * shape[1], dtype=np.int32).reshape(shape)
    out = np.zeros((3, *shape), np.int32)
    launch(flips, (1,), out, x, M=shape[0], N=shape[1])
    np.testing.assert_array_equal(out, [x[:, ::-1], x[::-1], x[::-1, ::-1]])


@pytest.mark.parametrize("index_type", [np.int32, np.int64, np.uint8, np.uint32, np.int16])
def test_gather(launch, index_type):
    rng = np.random.default_rng(5)
    x = rng.standard_normal((4, 19)).astype(np.float32)
    index = rng.integers(0, 19, (4, 33)).astype(index_type)
    out = np.zeros((4, 33), np.float32)
    launch(pick, (1,), out, x, index, M=4, N=19, K=33)
    np.testing.assert_array_equal(out, np.take_along_axis(x, index.astype(np.int64), 1))


def test_gather_of_computed_tiles(launch):
    x, out = np.linspace(0, 1, 37, dtype=np.float32), np.zeros(37, np.float32)
    launch(pick_computed, (1,), out, x, N=37)
    v = np.exp(x.astype(np.float64)) + np.arange(37)
    np.testing.assert_allclose(out, v[(np.arange(37) * 5 + 3) % 37] - v[::-1], rtol=1e-5, atol=1e-5)


@differs("Histograms of all integers", topic="Shapes",
         peer="`tl.histogram` takes 32-bit integers, and a power of two of bins.",
         ours="Integers of any width, any number of bins.")
@pytest.mark.parametrize("n, block, bins", [(100, 16, 8), (7, 64, 16), (1000, 33, 2)])
def test_histogram(launch, n, block, bins):
    x = np.random.default_rng(6).integers(-2, bins + 2, n).astype(np.int32)
    out = np.zeros(bins, np.int32)
    launch(count, (1,), out, x, n, N=block, BINS=bins)
    np.testing.assert_array_equal(out, [(x == b).sum() for b in range(bins)])


@differs("Histograms of all integers")
@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.uint32, np.int64, np.uint64])
def test_histogram_of_other_integers(launch, dtype):
    x = np.random.default_rng(7).integers(0, 256, (40, np.dtype(dtype).itemsize), dtype=np.uint8).view(dtype)[:, 0]
    x = x.copy()
    x[::2] = np.arange(20) % 5
    out = np.zeros(4, np.int32)
    launch(count_small, (1,), out, x, N=40, BINS=4)
    np.testing.assert_array_equal(out, [(x == b).sum() for b in range(4)])


@differs("Parts of a tile by index and slice", topic="Shapes",
         peer="Only `:` and `None` may stand in brackets.",
         ours="Ints and slices known at compile time, too, with steps and negative ones.")
@pytest.mark.parametrize("shape", [(4, 16), (3, 10)])
def test_parts_of_tiles(launch, shape):
    x = np.arange(shape[0] * shape[1], dtype=np.float32).reshape(shape)
    half = shape[1] // 2
    out = np.zeros(2 * half + 1, np.float32)
    launch(parts, (1,), out, x, M=shape[0], N=shape[1], I=2)
    np.testing.assert_array_equal(out, [*x[2, :half], *(x[-1, half:] + x[0, ::2]), x[1, 2]])
