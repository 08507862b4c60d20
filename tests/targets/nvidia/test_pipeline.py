"""Loops whose operands are copied ahead: on the PTX machine, which lets copies land as late as they may."""

import numpy as np
import pytest

import tilewright as triton
import tilewright.language as tl
from tests.targets.nvidia.harness import launch_code, tile_ir
from tilewright.diagnostics import FewerStagesWarning
from tilewright.ir.ops import Stage
from tilewright.ir.parse import parse_module
from tilewright.ir.text import print_module
from tilewright.ir.verify import verify
from tilewright.ir.walk import ops_in
from tilewright.language.options import Options
from tilewright.targets.nvidia import NvidiaTarget
from tilewright.testing import ptx_machine


@triton.jit
def matmul(a_ptr, b_ptr, c_ptr, M, N, K, a_row, b_row, c_row, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    m = (tl.program_id(0) * BM + tl.arange(0, BM)) % M
    n = (tl.program_id(1) * BN + tl.arange(0, BN)) % N
    k = tl.arange(0, BK)
    a = a_ptr + m[:, None] * a_row + k[None, :]
    b = b_ptr + k[:, None] * b_row + n[None, :]
    total = tl.zeros((BM, BN), tl.float32)
    for step in range(tl.cdiv(K, BK)):
        x = tl.load(a, mask=k[None, :] < K - step * BK, other=0.0)
        y = tl.load(b, mask=k[:, None] < K - step * BK, other=0.0)
        total = tl.dot(x, y, total)
        a += BK
        b += BK * b_row
    m = tl.program_id(0) * BM + tl.arange(0, BM)
    n = tl.program_id(1) * BN + tl.arange(0, BN)
    tl.store(c_ptr + m[:, None] * c_row + n[None, :], total, mask=(m[:, None] < M) & (n[None, :] < N))


@triton.jit
def attention(q, k, v, out, keys, M: tl.constexpr, N: tl.constexpr, D: tl.constexpr):
    m, n, d = tl.arange(0, M), tl.arange(0, N), tl.arange(0, D)
    rows = tl.load(q + m[:, None] * D + d[None, :])
    most = tl.full((M,), -float("inf"), tl.float32)
    total = tl.zeros((M,), tl.float32)
    result = tl.zeros((M, D), tl.float32)
    for start in range(0, keys, N):
        at = start + n
        s = tl.dot(rows, tl.trans(tl.load(k + at[:, None] * D + d[None, :], mask=at[:, None] < keys, other=0.0)))
        s = tl.where(at[None, :] < keys, s, -float("inf"))
        new = tl.maximum(most, tl.max(s, 1))
        p = tl.exp(s - new[:, None])
        alpha = tl.exp(most - new)
        total = total * alpha + tl.sum(p, 1)
        values = tl.load(v + at[:, None] * D + d[None, :], mask=at[:, None] < keys, other=0.0)
        result = tl.dot(p.to(tl.float16), values, result * alpha[:, None])
        most = new
    tl.store(out + m[:, None] * D + d[None, :], result / total[:, None])


def numbers(shape, dtype, seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


def run_matmul(M, N, K, dtype=np.float16, tiles=(32, 32, 32), seed=0, offset=0, **options):
    a, b = numbers(M * K + offset, dtype)[offset:].reshape(M, K), numbers((K, N), dtype, 1)
    c = np.full((M, N), np.nan, np.float32)
    grid = triton.cdiv(M, tiles[0]), triton.cdiv(N, tiles[1])
    BM, BN, BK = tiles
    constants = {"BM": BM, "BN": BN, "BK": BK, **options}
    code = ptx_machine.run(matmul, grid, (a, b, c, M, N, K, K, N, N), constants, seed=seed)
    want = a.astype(np.float64) @ b.astype(np.float64)
    np.testing.assert_allclose(c, want, rtol=0, atol=2e-3 * np.abs(want).max())
    return code


@pytest.mark.parametrize("M, N, K", [(32, 32, 96), (32, 32, 32), (64, 32, 128), (40, 24, 72), (17, 33, 65),
                                     (32, 64, 16)])
@pytest.mark.parametrize("stages", [2, 3, 4])
def test_matmul(M, N, K, stages):
    ptx = run_matmul(M, N, K, num_stages=stages).texts["ptx"]
    both = N % 16 == K % 16 == 0        # rows of other lengths may begin at any element, and no copy moves 2 bytes
    assert ("cp.async" in ptx) == (f"cp.async.wait_group {stages - 2};" in ptx) == both


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_warps_in_any_order(seed):
    run_matmul(32, 32, 128, seed=seed)


@pytest.mark.parametrize("dtype, tiles", [(np.float32, (32, 32, 16)), (np.float16, (64, 16, 64))])
def test_types_and_tiles(dtype, tiles):
    assert "shared_load" in run_matmul(64, 64, 64, dtype, tiles).texts["laid-out"]


def test_rows_that_are_not_aligned():
    run_matmul(32, 32, 64, offset=1)


@triton.jit
def to_the_end_of_rows(a_ptr, b_ptr, c_ptr, K, a_row, SIDE: tl.constexpr):
    i = tl.arange(0, SIDE)
    total = tl.zeros((SIDE, SIDE), tl.float32)
    for start in range(0, K, SIDE):
        k = start + i
        x = tl.load(a_ptr + i[:, None] * a_row + k[None, :], mask=k[None, :] < K, other=0.0)
        y = tl.load(b_ptr + k[:, None] * SIDE + i[None, :], mask=k[:, None] < K, other=0.0)
        total = tl.dot(x, y, total)
    tl.store(c_ptr + i[:, None] * SIDE + i[None, :], total)


@pytest.mark.parametrize("K", [50, 64, 3])
@pytest.mark.parametrize("seed", [0, 1])
def test_rows_that_end_anywhere(K, seed):
    """Elements with a mask bit each are not copied ahead, what has rows of one bit is."""
    a, b = numbers((32, 64), np.float16), numbers((64, 32), np.float16, 1)
    c = np.full((32, 32), np.nan, np.float32)
    code = ptx_machine.run(to_the_end_of_rows, (1,), (a, b, c, K, 64), {"SIDE": 32}, seed=seed)
    np.testing.assert_allclose(c, a[:, :K].astype(np.float64) @ b[:K].astype(np.float64), rtol=0, atol=2e-2)
    assert code.texts["laid-out"].count("shared_alloc") == (2 if K % 16 == 0 else 1)
    assert ("ld.global.nc.b16" in code.texts["ptx"]) == (K % 16 != 0)


def test_no_iterations():
    code = run_matmul(32, 32, 0)
    assert "shared_alloc" in code.texts["laid-out"]


def test_one_stage_copies_nothing_ahead():
    assert "cp.async" not in run_matmul(32, 32, 64, num_stages=1).texts["ptx"]


@pytest.mark.parametrize("keys", [64, 100, 7])
def test_attention(keys):
    q, k, v = numbers((32, 32), np.float16), numbers((keys, 32), np.float16, 1), numbers((keys, 32), np.float16, 2)
    out = np.zeros((32, 32), np.float32)
    code = ptx_machine.run(attention, (1,), (q, k, v, out, keys), {"M": 32, "N": 32, "D": 32})
    s = q.astype(np.float64) @ k.astype(np.float64).T
    p = np.exp(s - s.max(1, keepdims=True))
    np.testing.assert_allclose(out, p / p.sum(1, keepdims=True) @ v.astype(np.float64), rtol=0, atol=5e-3)
    assert code.texts["laid-out"].count("shared_alloc") == 2


@triton.jit
def persistent(a_ptr, b_ptr, c_ptr, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    across = tl.cdiv(N, BN)
    for tile in range(tl.program_id(0), tl.cdiv(M, BM) * across, tl.num_programs(0)):
        m, n, k = tile // across * BM + tl.arange(0, BM), tile % across * BN + tl.arange(0, BN), tl.arange(0, BK)
        total = tl.zeros((BM, BN), tl.float32)
        for start in range(0, K, BK):
            x = tl.load(a_ptr + m[:, None] * K + start + k[None, :])
            y = tl.load(b_ptr + (start + k)[:, None] * N + n[None, :])
            total = tl.dot(x, y, total)
        tl.store(c_ptr + m[:, None] * N + n[None, :], total / (1 + tl.sum(total * total, 1, keep_dims=True)))


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_buffers_are_for_others_behind_the_loop(seed):
    M, N, K = 64, 64, 64
    a, b, c = numbers((M, K), np.float16), numbers((K, N), np.float16, 1), np.zeros((M, N), np.float32)
    constants = {"BM": 32, "BN": 32, "BK": 32, "num_stages": 3}
    code = ptx_machine.run(persistent, (2,), (a, b, c, M, N, K), constants, seed=seed)
    product = a.astype(np.float64) @ b.astype(np.float64)
    for n in range(0, N, 32):
        part = product[:, n:n + 32]
        np.testing.assert_allclose(c[:, n:n + 32], part / (1 + (part * part).sum(1, keepdims=True)), atol=1e-3)
    assert code.metadata["shared"] == 3 * 2 * 32 * 32 * 2     # the buffers; what is written goes through the same bytes


@triton.jit
def writes_what_it_reads(a_ptr, c_ptr, K, BM: tl.constexpr, BK: tl.constexpr):
    m, k = tl.arange(0, BM), tl.arange(0, BK)
    total = tl.zeros((BM, BM), tl.float32)
    for start in range(0, K, BK):
        x = tl.load(a_ptr + m[:, None] * K + start + k[None, :])
        total = tl.dot(x, tl.trans(x * 2), total)
        tl.store(a_ptr + m[:, None] * K + start + k[None, :], x + 1)
    tl.store(c_ptr + m[:, None] * BM + m[None, :], total)


def test_what_the_loop_writes_is_not_read_ahead():
    a, c = numbers((16, 64), np.float16), np.zeros((16, 16), np.float32)
    want = a.astype(np.float64) @ (2 * a).astype(np.float64).T
    code = ptx_machine.run(writes_what_it_reads, (1,), (a, c, 64), {"BM": 16, "BK": 16})
    np.testing.assert_allclose(c, want, atol=0.1)
    assert "shared_alloc" not in code.texts["laid-out"]


def test_the_ir_is_valid_and_prints():
    a, b, c = (np.zeros((32, 32), np.float16) for _ in range(3))
    module = tile_ir(matmul, a, b, c, 32, 32, 32, 32, 32, 32, BM=32, BN=32, BK=32)
    staged = NvidiaTarget(90, assemble=False).laid_out(module, Options())
    verify(staged, Stage.LAID_OUT)
    assert print_module(parse_module(print_module(staged))) == print_module(staged)
    assert sum(op.name == "async_copy" for op in ops_in(staged.entry.body)) == 4     # before the loop and in it, each


def test_stages_are_as_many_as_fit():
    a, b, c = (np.zeros((256, 256), np.float32) for _ in range(3))
    module = tile_ir(matmul, a, b, c, 256, 256, 256, 256, 256, 256, BM=128, BN=128, BK=64)
    with pytest.warns(FewerStagesWarning, match="num_stages=3"):
        staged = NvidiaTarget(90, assemble=False).laid_out(module, Options(num_stages=8, num_warps=8))
    (first, *_) = (op for op in ops_in(staged.entry.body) if op.name == "shared_alloc")
    assert 2 <= first.attrs["count"] <= 3       # 64 KiB a stage, of 227


@triton.jit
def turned_matmul(a_ptr, b_ptr, c_ptr, N, K, start, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """Columns of b modulo N, from one that may be negative."""
    m, n, k = tl.arange(0, BM), (start + tl.arange(0, BN)) % N, tl.arange(0, BK)
    a = a_ptr + m[:, None] * K + k[None, :]
    b = b_ptr + N + k[:, None] * 2 * N + n[None, :]
    total = tl.zeros((BM, BN), tl.float32)
    for step in range(tl.cdiv(K, BK)):
        x = tl.load(a, mask=k[None, :] < K - step * BK, other=0.0)
        y = tl.load(b, mask=k[:, None] < K - step * BK, other=0.0)
        total = tl.dot(x, y, total)
        a += BK
        b += BK * 2 * N
    tl.store(c_ptr + m[:, None] * BN + tl.arange(0, BN)[None, :], total)


@pytest.mark.parametrize("start", [0, -16, -37])
def test_copies_one_by_one_in_a_loop_where_dividends_are_negative(start):
    N, K, BM, BN = 48, 160, 64, 64
    a, b = numbers((BM, K), np.float16), numbers((K, 2 * N), np.float16, 1)
    c = np.full((BM, BN), np.nan, np.float32)
    constants = {"BM": BM, "BN": BN, "BK": 64, "num_stages": 3}
    code = ptx_machine.run(turned_matmul, (1,), (a, b, c, N, K, start), constants)
    want = a.astype(np.float64) @ b[:, N + np.fmod(start + np.arange(BN), N)].astype(np.float64)
    np.testing.assert_allclose(c, want, rtol=0, atol=2e-3 * np.abs(want).max())
    assert "cp.async.cg" in code.texts["ptx"]
    assert ('pragma "nounroll"' in code.texts["ptx"]) == (start % 16 == 0)      # else nothing is likely


@pytest.mark.parametrize("K", [65, 130])
@pytest.mark.parametrize("dtype", [np.float16, np.float32])
def test_rows_of_one_operand_that_are_not_aligned(K, dtype):
    ptx = run_matmul(64, 80, K, dtype, tiles=(64, 64, 32), num_stages=3).texts["ptx"]
    assert "cp.async.cg" in ptx         # B's rows are
    assert ("cp.async.ca" in ptx) == (dtype == np.float32)


@triton.jit
def through_memory(at, c, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, store_in_loop: tl.constexpr):
    m, n, k = tl.arange(0, BM), tl.arange(0, BN), tl.arange(0, BK)
    a_ptr, b_ptr = [tl.load(at + i).to(tl.pointer_type(tl.float16)) for i in tl.static_range(2)]
    tl.multiple_of(a_ptr, 16)
    tl.multiple_of(b_ptr, 16)
    total = tl.zeros((BM, BN), tl.float32)
    for start in range(0, K, BK):
        x = tl.load(a_ptr + m[:, None] * BK + start * BM + k[None, :])
        y = tl.load(b_ptr + (start + k)[:, None] * BN + n[None, :])
        total = tl.dot(x, y, total)
        if store_in_loop:
            tl.store(c + m[:, None] * BN + n[None, :], total)
    tl.store(c + m[:, None] * BN + n[None, :], total)


@pytest.mark.parametrize("store_in_loop", [False, True])
def test_addresses_from_memory_in_a_loop_that_writes_nothing(store_in_loop):
    """What is written elsewhere, perhaps there, is written before the loop or behind it."""
    at, c = np.zeros(2, np.int64), np.zeros((32, 32), np.float32)
    constants = {"BM": 32, "BN": 32, "BK": 32, "store_in_loop": store_in_loop}
    laid_out = launch_code(through_memory, (at, c, 64), constants, ptx_machine.TARGET).texts["laid-out"]
    assert ("async_copy" in laid_out) != store_in_loop


@triton.jit
def in_place(x, K, side: tl.constexpr, BK: tl.constexpr):
    """The product of the first `side` columns' two halves goes where they were, twice."""
    m, k = tl.arange(0, side), tl.arange(0, BK)
    for _ in range(2):
        total = tl.zeros((side, side), tl.float32)
        for start in range(0, K, BK):
            a = tl.load(x + m[:, None] * K + start + k[None, :])
            b = tl.load(x + side * K + (start + k)[:, None] * side + m[None, :])
            total = tl.dot(a, b, total)
        tl.store(x + m[:, None] * K + m[None, :], (total / K).to(tl.float16))


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_what_is_written_between_two_runs_of_a_loop_is_copied_by_the_second(seed):
    K, side = 64, 32
    x = numbers(2 * side * K, np.float16)
    want = x.astype(np.float64)
    a, b = want[:side * K].reshape(side, K), want[side * K:].reshape(K, side)
    for _ in range(2):
        a[:, :side] = (a @ b / K).astype(np.float16)
    code = ptx_machine.run(in_place, (1,), (x, K), {"side": side, "BK": 32}, seed=seed)
    assert "async_copy" in code.texts["laid-out"]
    np.testing.assert_allclose(x[:side * K].reshape(side, K), a, rtol=0, atol=2e-3)


@pytest.mark.parametrize("seed", [0, 1])
def test_arguments_that_overlap(seed):
    """The result lies over an operand: all of the loop's loads are done when it is stored."""
    memory = numbers(32 * 128, np.float16)
    a, b = memory[:32 * 64].reshape(32, 64).copy(), numbers((64, 32), np.float16, 1)
    c = memory[:32 * 64].view(np.float32).reshape(32, 32)
    constants = {"BM": 32, "BN": 32, "BK": 32}
    code = ptx_machine.run(matmul, (1, 1), (memory[:32 * 64].reshape(32, 64), b, c, 32, 32, 64, 64, 32, 32), constants,
                           seed=seed)
    want = a.astype(np.float64) @ b.astype(np.float64)
    assert "async_copy" in code.texts["laid-out"]
    np.testing.assert_allclose(c, want, rtol=0, atol=2e-3 * np.abs(want).max())


@triton.jit
def by_addresses(a, b, c, at, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """A product whose operands are found, and whose result is put, where memory says."""
    tl.store(at, a.to(tl.int64))
    tl.store(at + 1, b.to(tl.int64))
    tl.store(at + 2, c.to(tl.int64))
    for tile in range(tl.cdiv(M, BM) * tl.cdiv(N, BN)):
        x_ptr, y_ptr = [tl.load(at + i).to(tl.pointer_type(tl.float16)) for i in tl.static_range(2)]
        z_ptr = tl.load(at + 2).to(tl.pointer_type(tl.float32))
        m = tile // tl.cdiv(N, BN) * BM + tl.arange(0, BM)
        n, k = tile % tl.cdiv(N, BN) * BN + tl.arange(0, BN), tl.arange(0, BK)
        x, y = x_ptr + m[:, None] * K + k[None, :], y_ptr + k[:, None] * N + n[None, :]
        total = tl.zeros((BM, BN), tl.float32)
        for _ in range(0, K, BK):
            tl.multiple_of(x, [16, 16])
            tl.multiple_of(y, [16, 16])
            total += tl.dot(tl.load(x), tl.load(y))
            x += BK
            y += BK * N
        tl.store(z_ptr + m[:, None] * N + n[None, :], total)


@pytest.mark.parametrize("M, N, K, tiles, warps", [(64, 32, 96, (32, 32, 32), 2), (128, 128, 128, (64, 64, 32), 4)])
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_operands_where_memory_says(M, N, K, tiles, warps, seed):
    a, b = numbers((M, K), np.float16), numbers((K, N), np.float16, 1)
    c, at = np.zeros((M, N), np.float32), np.zeros(3, np.int64)
    constants = {"num_warps": warps, **dict(zip(("BM", "BN", "BK"), tiles, strict=True))}
    code = ptx_machine.run(by_addresses, (1,), (a, b, c, at, M, N, K), constants, seed=seed)
    want = a.astype(np.float64) @ b.astype(np.float64)
    np.testing.assert_allclose(c, want, rtol=0, atol=2e-3 * np.abs(want).max())
    assert "cp.async.cg.shared.global" in code.texts["ptx"] and "ld.global.b16" not in code.texts["ptx"]


@triton.jit
def products_in_regions(a_ptr, b_ptr, c_ptr, K, most, SIDE: tl.constexpr, WAY: tl.constexpr):
    i = tl.arange(0, SIDE)
    at = i[:, None] * SIDE + i[None, :]
    total = tl.zeros((SIDE, SIDE), tl.float32)
    for k in range(0, K, SIDE):
        x = tl.load(a_ptr + i[:, None] * K + (k + i)[None, :])
        y = tl.load(b_ptr + k * SIDE + at)
        if WAY == "both ways":
            if k & SIDE:
                total = tl.dot(x, y, total * 2)
            else:
                total += tl.dot(x, y)
        elif WAY == "a loop, and behind it":
            for _ in range(k // SIDE, most):
                total = tl.dot(x, y, total)
            total = tl.dot(x, y, total * 2)
        else:
            done = k // SIDE
            while done < most:
                total = tl.dot(x, y, total)
                done += 1
            if k & SIDE:
                total = tl.dot(x, y, total * 2)
    tl.store(c_ptr + at, total)


@pytest.mark.parametrize("way", ["both ways", "a loop, and behind it", "a while loop, and a branch behind it"])
@pytest.mark.parametrize("side, warps", [(16, 1), (32, 4), (64, 4)])
def test_fragments_are_loaded_where_they_are_needed(way, side, warps):
    """What one way of a branch, or a loop of no iterations, has loaded is not there for others."""
    K, most = 4 * side, 2
    a, b = (np.random.default_rng(n).integers(-3, 4, K * side).astype(np.float16) for n in range(2))
    c, want = np.zeros((side, side), np.float32), np.zeros((side, side), np.float32)
    code = ptx_machine.run(products_in_regions, (1,), (a, b, c, K, most),
                           {"SIDE": side, "WAY": way, "num_warps": warps})
    assert "async_copy" in code.texts["laid-out"] or (side == 64 and "while" in way)
    for n in range(K // side):
        at = slice(n * side, (n + 1) * side)
        product = a.reshape(side, K)[:, at].astype(np.float32) @ b.reshape(K, side)[at].astype(np.float32)
        if way == "both ways":
            want = product + want * (2 if n & 1 else 1)
        else:
            want = want + max(0, most - n) * product
            want = product + want * 2 if n & 1 or way.startswith("a loop") else want
    np.testing.assert_array_equal(c, want)


@triton.jit
def long_steps(a_ptr, b_ptr, c_ptr, start, end, SIDE: tl.constexpr, STEP: tl.constexpr):
    i = tl.arange(0, SIDE)
    a, b = a_ptr + i[:, None] * SIDE + i[None, :], b_ptr + i[:, None] * SIDE + i[None, :]
    total = tl.zeros((SIDE, SIDE), tl.float32)
    for _ in range(start, end, STEP):
        total = tl.dot(tl.load(a), tl.load(b), total)
        a += SIDE * SIDE
        b += SIDE * SIDE
    tl.store(c_ptr + i[:, None] * SIDE + i[None, :], total)


@pytest.mark.parametrize("start, end, step, count", [(0, 5, 1 << 30, 1), (-(1 << 31), (1 << 31) - 1, 1 << 30, 4),
                                                     (-(1 << 31), (1 << 31) - 1, 1 << 28, 16),
                                                     ((1 << 31) - 9, (1 << 31) - 1, 4, 2)])
def test_steps_by_which_indices_wrap(start, end, step, count):
    """No block is copied that no iteration reads: behind the last one there is nothing."""
    side = 32
    a, b = (np.random.default_rng(n).integers(-3, 4, (count, side, side)).astype(np.float16) for n in range(2))
    c = np.zeros((side, side), np.float32)
    ptx_machine.run(long_steps, (1,), (a, b, c, start, end), {"SIDE": side, "STEP": step, "num_stages": 8})
    np.testing.assert_array_equal(c, (a.astype(np.float32) @ b.astype(np.float32)).sum(0))
