"""Public bug reports about products, blocks, shapes, NaNs, prints and tuning: tests on every engine.

Numbers in names are the issue numbers at triton-lang/triton (and of other repositories, named there); the kernels are
our own, written from the reports.
"""

import re

import numpy as np
import pytest

import tilewright as triton
import tilewright.language as tl
from tests.departures import differs
from tests.gpu import CUDA
from tilewright import CompilationError, FootprintError


@triton.jit
def extremes(out, at, x, N: tl.constexpr):
    v = tl.load(x + tl.arange(0, N))
    tl.store(at, tl.argmax(v, 0))
    tl.store(at + 1, tl.argmin(v, 0))
    tl.store(out, tl.max(v, 0))
    tl.store(out + 1, tl.min(v, 0))
    tl.store(out + 2, tl.reduce(v, 0, maximum_with_nan))


@triton.jit
def maximum_with_nan(a, b):
    return tl.maximum(a, b, propagate_nan=tl.PropagateNan.ALL)


@triton.jit
def asserts_what_it_scanned(out, x, N: tl.constexpr):
    v = tl.cumsum(tl.load(x + tl.arange(0, N))[None, :], axis=1)
    tl.device_assert(v <= N, "a running count of ones")
    tl.device_print("count", v)
    tl.store(out + tl.arange(0, N)[None, :], v)


@triton.jit
def product_3d(out, x, y, L: tl.constexpr, N: tl.constexpr):
    b, i = tl.arange(0, L)[:, None, None], tl.arange(0, N)
    at = b * N * N + i[None, :, None] * N + i[None, None, :]
    tl.store(out + at, tl.dot(tl.load(x + at), tl.load(y + at), input_precision="ieee"))


@triton.jit
def product_2d_in_3d(out, x, y, N: tl.constexpr):
    i = tl.arange(0, N)
    at = i[:, None] * N + i[None, :]
    both = tl.broadcast_to(tl.dot(tl.load(x + at), tl.load(y + at))[None, :, :], (2, N, N))
    w = tl.broadcast_to(tl.load(y + at)[None, :, :], (2, N, N))
    b = tl.arange(0, 2)[:, None, None]
    tl.store(out + b * N * N + at[None, :, :], tl.dot(both, w))


@triton.jit
def product_into(out, x, y, N: tl.constexpr, ACC: tl.constexpr):
    i = tl.arange(0, N)
    at = i[:, None] * N + i[None, :]
    acc = tl.zeros((N, N), ACC)
    tl.store(out + at, tl.dot(tl.load(x + at), tl.load(y + at), acc))


@triton.jit
def recurrence(out, k, v, n, K: tl.constexpr, V: tl.constexpr, C: tl.constexpr, STAGES: tl.constexpr):
    """A state [K, V] that a loop updates by chunks of C rows."""
    i, j, c = tl.arange(0, K), tl.arange(0, V), tl.arange(0, C)
    state = tl.zeros((K, V), tl.float32)
    for t in tl.range(0, n, num_stages=STAGES):
        kt = tl.load(k + (t * C + c)[:, None] * K + i[None, :])
        vt = tl.load(v + (t * C + c)[:, None] * V + j[None, :])
        rest = vt - tl.dot(kt, state, input_precision="ieee")
        state = state * 0.5 + tl.dot(tl.trans(kt), rest, input_precision="ieee")
    tl.store(out + i[:, None] * V + j[None, :], state)


@triton.jit
def column_blocks(out, x, M, N, BM: tl.constexpr, BN: tl.constexpr, PAD: tl.constexpr):
    p = tl.make_block_ptr(x, (M, N), (N, 1), (0, tl.program_id(0) * BN), (BM, BN), (1, 0))
    total = tl.zeros((BN,), tl.float32)
    for _ in range(0, M, BM):
        total += tl.sum(tl.load(p, boundary_check=(0, 1), padding_option=PAD), 0)
        p = tl.advance(p, (BM, 0))
    tl.store(out + tl.program_id(0) * BN + tl.arange(0, BN), total)


@triton.jit
def column_major_block(out, x, T, K: tl.constexpr, BT: tl.constexpr):
    p = tl.make_block_ptr(x, (K, T), (1, K), (0, 0), (K, BT), (0, 1))
    v = tl.load(p, boundary_check=(1,), padding_option="zero")
    tl.store(out + tl.arange(0, K)[:, None] * BT + tl.arange(0, BT)[None, :], v)


@triton.jit
def column_major_block_known(out, x, T: tl.constexpr, K: tl.constexpr, BT: tl.constexpr):
    p = tl.make_block_ptr(x, (K, T), (1, K), (0, 0), (K, BT), (0, 1))
    v = tl.load(p, boundary_check=(1,), padding_option="zero")
    tl.store(out + tl.arange(0, K)[:, None] * BT + tl.arange(0, BT)[None, :], v)


@triton.jit
def adds_views(out, x, y, L: tl.constexpr):
    i = tl.arange(0, L)
    tl.store(out + i, tl.load(x + i) + tl.load(y + i))


@triton.jit
def through_memory_beside_fp16(scratch, out, h, B: tl.constexpr):
    i = tl.arange(0, B)[:, None] * B + tl.arange(0, B)[None, :]
    tl.store(scratch + i, i * 1.0)
    back = tl.load(scratch + i)
    half = tl.load(h + i)
    tl.store(out + i, back + half.to(tl.float32))


@triton.jit
def scores(out, q, k, N: tl.constexpr):
    i = tl.arange(0, N)
    x = tl.load(q + i).to(tl.float32)
    y = tl.load(k + i[:, None] * N + i[None, :]).to(tl.float32)
    tl.store(out + i, tl.sum(x[None, :] * y, 1))


@triton.jit
def joined(out, x):
    a, b, c, d = tl.load(x), tl.load(x + 1), tl.load(x + 2), tl.load(x + 3)
    whole = tl.join(tl.join(a, b), tl.join(c, d))
    tl.store(out + tl.arange(0, 4), tl.reshape(whole, (4,)))


@triton.jit
def concatenated(out, x, N: tl.constexpr):
    a, b = tl.load(x + tl.arange(0, N)), tl.load(x + N + tl.arange(0, N))
    tl.store(out + tl.arange(0, 2 * N), tl.cat(a, b, can_reorder=True))


@triton.jit
def interleaves_a_pointer(out, x, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(out + tl.arange(0, 2 * N), tl.interleave(tl.load(x + i), x + i))


@triton.jit
def first_above(x, limit, n):
    i = 0
    while i < n:
        if tl.load(x + i) > limit:
            return i
        i += 1
    return -1


@triton.jit
def searches(out, x, n):
    tl.store(out, first_above(x, 3.0, n))
    tl.store(out + 1, first_above(x, 99.0, n))


@triton.jit
def advances_along(out, x, M, N, B: tl.constexpr, AXIS: tl.constexpr):
    step = (B, 0) if AXIS == 0 else (0, B)
    p = tl.make_block_ptr(x, (M, N), (N, 1), (0, 0), (B, B), (1, 0))
    total = tl.zeros((B, B), tl.float32)
    for _ in range(3):
        total += tl.load(p)
        p = tl.advance(p, step)
    tl.store(out + tl.arange(0, B)[:, None] * B + tl.arange(0, B)[None, :], total)


@triton.jit
def accumulates(total, x, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    tl.atomic_add(total, tl.sum(tl.load(x + i, mask=i < n, other=0.0)))


@triton.jit
def half_arithmetic(out, kinds, x, y, N: tl.constexpr):
    i = tl.arange(0, N)
    a, b = tl.load(x + i), tl.load(y + i)
    chosen = tl.where(a > b, a, 0)
    quotient = a / b
    tl.store(kinds, 1 if chosen.dtype == tl.float16 else 0)
    tl.store(kinds + 1, 1 if quotient.dtype == tl.float32 else 0)
    tl.store(out + i, chosen)
    tl.store(out + N + i, quotient)


@triton.jit
def bf16_with_fp8(out, kinds, x, N: tl.constexpr):
    i = tl.arange(0, N)
    v = tl.load(x + i)
    p = v.to(tl.bfloat16) * v.to(tl.float8e5)
    tl.store(kinds, 1 if p.dtype == tl.float32 else 0)
    tl.store(out + i, p.to(tl.float32))


@triton.jit
def narrows(out, x, N: tl.constexpr):
    i = tl.program_id(0) * N + tl.arange(0, N)
    tl.store(out + i, tl.load(x + i).to(tl.float8e5).to(tl.float32))


@triton.jit
def prints_tile(x, M: tl.constexpr, N: tl.constexpr):
    at = tl.arange(0, M)[:, None] * N + tl.arange(0, N)[None, :]
    tl.device_print("v", tl.load(x + at))
    tl.device_print("first", tl.load(x + 3))
    tl.device_print("own", tl.load(x + tl.program_id(0)))


@triton.jit
def copies_by_descriptor(out, x, n, B: tl.constexpr, STAGES: tl.constexpr):
    for t in tl.range(0, n, B, num_stages=STAGES):
        source = tl.make_tensor_descriptor(x, [n], [1], [B])
        target = tl.make_tensor_descriptor(out, [n], [1], [B])
        target.store([t], source.load([t]))


@pytest.mark.parametrize("values", [(np.nan, np.inf), (np.inf, np.nan), (-np.inf, np.nan), (np.nan, np.nan)])
def test_9022_and_7349_extremes_with_nan(launch, values):
    """The index is that of the NaN, as torch says; the value ignores it unless it is told otherwise; on each engine."""
    x, out, at = np.array(values, np.float32), np.zeros(3, np.float32), np.zeros(2, np.int32)
    launch(extremes, (1,), out, at, x, N=2)
    first = int(np.flatnonzero(np.isnan(x))[0])
    assert at.tolist() == [first, first] and np.isnan(out[2])
    numbers = x[~np.isnan(x)]
    np.testing.assert_array_equal(out[:2], [*numbers, *numbers] if numbers.size else [np.nan, np.nan])


def test_7349_one_nan_among_infinities(launch):
    x, out, at = np.full(64, np.inf, np.float32), np.zeros(3, np.float32), np.zeros(2, np.int32)
    x[17] = np.nan
    launch(extremes, (1,), out, at, x, N=64)
    assert out[0] == np.inf and np.isnan(out[2]) and at[0] == 17


def test_2298_asserts_and_prints_see_each_element_once(launch, capsys):
    out = np.zeros(32, np.int32)
    launch(asserts_what_it_scanned, (1,), out, np.ones(32, np.int32), N=32, num_warps=4, debug=True)
    assert out.tolist() == list(range(1, 33))
    lines = capsys.readouterr().out.splitlines()
    assert [int(line.split()[-1]) for line in lines] == list(range(1, 33))


@pytest.mark.parametrize("n", [1, 5, 16])
def test_6157_products_of_batches(launch, n):
    rng = np.random.default_rng(1)
    x, y = (rng.integers(-4, 5, (4, n, n)).astype(np.float32) for _ in range(2))
    out = np.ones((4, n, n), np.float32)
    launch(product_3d, (1,), out, np.zeros_like(x), np.zeros_like(y), L=4, N=n)
    assert not out.any()
    launch(product_3d, (1,), out, x, y, L=4, N=n)
    np.testing.assert_array_equal(out, x @ y)


def test_3382_a_product_broadcast_into_a_batched_one(launch):
    rng = np.random.default_rng(2)
    x, y = (rng.integers(-3, 4, (16, 16)).astype(np.float32) for _ in range(2))
    out = np.zeros((2, 16, 16), np.float32)
    launch(product_2d_in_3d, (1,), out, x, y, N=16)
    np.testing.assert_array_equal(out, np.stack([x @ y @ y] * 2))


@pytest.mark.parametrize("kinds, acc, told", [
    (("float64", "float64"), tl.float32, "fp64.*fp32|fp32.*fp64"), (("float16", "int8"), tl.float32, "fp16.*int8")])
def test_10143_products_of_other_types_are_refused(launch, kinds, acc, told):
    x, y = (np.zeros((16, 16), kind) for kind in kinds)
    with pytest.raises(CompilationError) as caught:
        launch(product_into, (1,), np.zeros((16, 16), np.float32), x, y, N=16, ACC=acc)
    assert re.search(told, str(caught.value)) and "tl.dot" in str(caught.value)


def test_9349_a_product_of_int8_needs_no_special_machine(launch):
    x, out = np.full((16, 16), -128, np.int8), np.zeros((16, 16), np.int32)
    launch(product_into, (1,), out, x, x, N=16, ACC=tl.int32)
    assert (out == 16 * 128 * 128).all()


@differs("`num_warps`, `num_stages` and the like do nothing on a CPU")
def test_10590_a_recurrence_has_the_same_bits_in_every_run(launch):
    rng = np.random.default_rng(3)
    k, v = rng.standard_normal((48, 16)).astype(np.float32) * 0.2, rng.standard_normal((48, 8)).astype(np.float32)
    results = []
    for warps, stages in ((2, 1), (4, 2), (8, 3), (16, 3), (4, 2)):
        out = np.zeros((16, 8), np.float32)
        launch(recurrence, (1,), out, k, v, 3, K=16, V=8, C=16, STAGES=stages, num_warps=warps)
        results.append(out.tobytes())
    assert len(set(results)) == 1
    state = np.zeros((16, 8))
    for t in range(3):
        kt, vt = k[16 * t:16 * t + 16].astype(np.float64), v[16 * t:16 * t + 16]
        state = state * 0.5 + kt.T @ (vt - kt @ state)
    np.testing.assert_allclose(out, state, rtol=2e-4, atol=2e-5)


@pytest.mark.parametrize("pad", ["zero", "nan"])
def test_2138_padding_of_block_pointers(launch, pad):
    x, out = np.arange(33 * 32, dtype=np.float32).reshape(33, 32), np.zeros(32, np.float32)
    launch(column_blocks, (2,), out, x, 33, 32, BM=32, BN=16, PAD=pad)
    np.testing.assert_array_equal(out, x.sum(0) if pad == "zero" else np.full(32, np.nan))


@pytest.mark.parametrize("kernel", [column_major_block, column_major_block_known], ids=["run time", "constexpr"])
def test_intel_6513_boundary_of_a_column_major_block(launch, kernel):
    x, out = np.arange(1, 8 * 16 + 1, dtype=np.float32), np.full((8, 16), 9, np.float32)
    launch(kernel, (1,), out, x, 5, K=8, BT=16)
    np.testing.assert_array_equal(out, np.where(np.arange(16) < 5, x.reshape(16, 8).T, 0))


@differs("Accesses outside of a tensor are errors")
def test_10336_a_view_that_is_read_beyond_its_elements(launch, request):
    """Every engine tells of memory that is not the view's, but a GPU; between its elements only checked mode can."""
    whole = np.arange(5, dtype=np.int32)
    with pytest.raises(FootprintError, match="'y'") as caught:
        adds_views[(1,)](np.zeros(4, np.int32), np.arange(4, dtype=np.int32), whole[::2], L=4, check=True)
    assert (caught.value.argument, caught.value.index) == ("y", 1)
    if request.node.callspec.params["launch"] == CUDA:
        return
    with pytest.raises(triton.OutOfBoundsError, match="'y', whose elements 0 to 2 are in bounds") as caught:
        launch(adds_views, (1,), np.zeros(4, np.int32), np.arange(4, dtype=np.int32), whole[1:4], L=4)
    assert (caught.value.argument, caught.value.index) == ("y", 3)


@differs("Memory is accessed in program order")
def test_11870_what_was_stored_beside_a_load_of_fp16(launch):
    scratch, out = np.full((16, 16), -1, np.float32), np.zeros((16, 16), np.float32)
    half = np.arange(256, dtype=np.float16).reshape(16, 16)
    launch(through_memory_beside_fp16, (1,), scratch, out, half, B=16)
    np.testing.assert_array_equal(out, 2 * np.arange(256).reshape(16, 16))


def test_3071_a_sum_of_a_broadcast_product(launch):
    rng = np.random.default_rng(4)
    q, k = rng.standard_normal(16).astype(np.float16), rng.standard_normal((16, 16)).astype(np.float16)
    out = np.zeros(16, np.float32)
    launch(scores, (1,), out, q, k, N=16)
    np.testing.assert_allclose(out, k.astype(np.float64) @ q.astype(np.float64), rtol=1e-5, atol=1e-5)


def test_6154_repeated_joins(launch):
    out = np.zeros(4, np.int32)
    launch(joined, (1,), out, np.array([1, 2, 3, 4], np.int32))
    assert out.tolist() == [1, 3, 2, 4]


def test_8854_cat_keeps_the_order(launch):
    out, x = np.zeros(32, np.int32), np.arange(32, dtype=np.int32)
    launch(concatenated, (1,), out, x, N=16)
    assert out.tolist() == x.tolist()


def test_4371_interleaving_a_pointer_is_an_error(launch):
    x = np.zeros(8, np.int32)
    with pytest.raises(CompilationError, match=r"interleave|join") as caught:
        launch(interleaves_a_pointer, (1,), np.zeros(16, np.int32), x, N=8)
    assert "pointer" in str(caught.value)


@differs("break, continue and return stand anywhere")
def test_2576_return_out_of_a_while_loop(launch):
    out = np.zeros(2, np.int32)
    launch(searches, (1,), out, np.array([1, 2, 5, 9], np.float32), 4)
    assert out.tolist() == [2, -1]


@pytest.mark.parametrize("axis", [0, 1])
def test_2001_offsets_chosen_at_compile_time(launch, axis):
    x, out = np.arange(48 * 48, dtype=np.float32).reshape(48, 48), np.zeros((16, 16), np.float32)
    launch(advances_along, (1,), out, x, 48, 48, B=16, AXIS=axis)
    parts = [x[16 * k:16 * k + 16, :16] if axis == 0 else x[:16, 16 * k:16 * k + 16] for k in range(3)]
    np.testing.assert_array_equal(out, sum(parts))


@differs("Tuning keeps its hands off the data")
@pytest.mark.parametrize("reset", [None, ["total"]])
def test_7181_and_3004_accumulation_under_tuning(reset):
    """Each launch adds once, the first, which tunes, as well; `reset_to_zero` is for timed runs alone."""
    configs = [triton.Config({"B": b}) for b in (32, 64)]
    kernel = triton.autotune(configs, key=["n"], reset_to_zero=reset)(accumulates)
    total, x = np.full(1, 1000, np.float32), np.ones(100, np.float32)
    kernel[lambda meta: (triton.cdiv(100, meta["B"]),)](total, x, 100)
    assert total[0] == (100 if reset else 1100)     # the argument is zero when the tuned kernel runs the first time
    before = total[0]
    kernel[lambda meta: (triton.cdiv(100, meta["B"]),)](total, x, 100)
    assert total[0] == before + 100


def test_1891_and_1441_types_of_fp16(launch):
    """A literal leaves fp16 as it is; a quotient is fp32, and exact to its last bit."""
    x, y = np.array([1.5, -2, 3, 0], np.float16), np.array([1, 2, 2, 5], np.float16)
    out, kinds = np.zeros((2, 4), np.float32), np.zeros(2, np.int32)
    launch(half_arithmetic, (1,), out, kinds, x, y, N=4)
    assert kinds.tolist() == [1, 1]
    np.testing.assert_array_equal(out, [np.where(x > y, x, 0), x.astype(np.float32) / y])


def test_4697_bf16_times_fp8(launch):
    """It is fp32, as `bf16 * int` is, and exact."""
    x, out, kinds = np.array([1, -1.5, 3, 0.25], np.float32), np.zeros(4, np.float32), np.zeros(1, np.int32)
    launch(bf16_with_fp8, (1,), out, kinds, x, N=4)
    assert kinds[0] == 1
    np.testing.assert_array_equal(out, x * x)


@differs("fp8 conversions are exact on every engine")
def test_8322_every_fp16_narrows_to_e5m2(launch):
    x, out = np.arange(65536, dtype=np.uint16).view(np.float16), np.zeros(65536, np.float32)
    launch(narrows, (16,), out, x, N=4096)
    bits = x.view(np.uint16).astype(np.int64)
    rounded = (bits + 127 + (bits >> 8 & 1)) >> 8   # e5m2 is fp16 without its last 8 bits; to nearest, ties to even
    codes = np.where((rounded & 0x7F) >= 0x7C, (bits >> 15) << 7 | 0x7B, rounded)       # saturates
    want = np.where(np.isfinite(x), (codes << 8).astype(np.uint16).view(np.float16), x).astype(np.float32)
    special = np.isinf(x)
    np.testing.assert_array_equal(out[~special], want[~special])
    assert np.isinf(out[special]).all() or (np.abs(out[special]) == 57344).all()


def test_2486_and_4353_prints_are_whole(launch, capsys):
    x = np.arange(16 * 128, dtype=np.int32)
    launch(prints_tile, (2,), x, M=16, N=128, num_warps=1)
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 2 * 2050
    for program in range(2):
        own = [line for line in lines if f"({program}, 0, 0)" in line]      # on a GPU programs print at one time
        assert [int(line.split()[-1]) for line in own] == [*range(2048), 3, program]


@pytest.mark.parametrize("stages", [1, 3, 4])
def test_10474_descriptors_made_in_a_pipelined_loop(launch, stages):
    x, out = np.arange(100, dtype=np.float32), np.zeros(100, np.float32)
    launch(copies_by_descriptor, (1,), out, x, 100, B=16, STAGES=stages)
    np.testing.assert_array_equal(out, x)
