"""Products of warpgroups (wgmma): values on the PTX machine against NumPy, and faults planted in what is written."""

import re
from dataclasses import replace

import numpy as np
import pytest

import tilewright as triton
import tilewright.language as tl
from tests.targets.nvidia.harness import launch_code, tile_ir
from tilewright.ir.ops import Stage
from tilewright.ir.parse import parse_module
from tilewright.ir.text import print_module
from tilewright.ir.verify import verify
from tilewright.ir.walk import ops_in
from tilewright.language.options import Options
from tilewright.targets.nvidia import NvidiaTarget
from tilewright.targets.nvidia import ptx as machine
from tilewright.targets.nvidia.assemble import find_assembler
from tilewright.testing import ptx_machine


@triton.jit
def product(a, b, c, start, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr, A_TURNED: tl.constexpr,
            B_TURNED: tl.constexpr, ADDS: tl.constexpr):
    m, n, k = tl.arange(0, M), tl.arange(0, N), tl.arange(0, K)
    if A_TURNED:
        x = tl.trans(tl.load(a + k[:, None] * M + m[None, :]))
    else:
        x = tl.load(a + m[:, None] * K + k[None, :])
    if B_TURNED:
        y = tl.trans(tl.load(b + n[:, None] * K + k[None, :]))
    else:
        y = tl.load(b + k[:, None] * N + n[None, :])
    if ADDS:
        acc = tl.load(start + m[:, None] * N + n[None, :])
        tl.store(c + m[:, None] * N + n[None, :], tl.dot(x, y, acc))
    else:
        tl.store(c + m[:, None] * N + n[None, :], tl.dot(x, y))


@triton.jit
def matmul(a_ptr, b_ptr, c_ptr, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
           A_TURNED: tl.constexpr, B_TURNED: tl.constexpr):
    m, n = tl.program_id(0) * BM + tl.arange(0, BM), tl.program_id(1) * BN + tl.arange(0, BN)
    k = tl.arange(0, BK)
    total = tl.zeros((BM, BN), tl.float32)
    for start in range(0, K, BK):
        at = start + k
        if A_TURNED:
            x = tl.load(a_ptr + at[:, None] * M + m[None, :], mask=(at[:, None] < K) & (m[None, :] < M), other=0.0).T
        else:
            x = tl.load(a_ptr + m[:, None] * K + at[None, :], mask=(m[:, None] < M) & (at[None, :] < K), other=0.0)
        if B_TURNED:
            y = tl.load(b_ptr + n[:, None] * K + at[None, :], mask=(n[:, None] < N) & (at[None, :] < K), other=0.0).T
        else:
            y = tl.load(b_ptr + at[:, None] * N + n[None, :], mask=(at[:, None] < K) & (n[None, :] < N), other=0.0)
        total = tl.dot(x, y, total)
    tl.store(c_ptr + m[:, None] * N + n[None, :], total, mask=(m[:, None] < M) & (n[None, :] < N))


def numbers(shape, seed, dtype="fp16"):
    values = np.random.default_rng(seed).standard_normal(shape).astype(np.float32)
    if dtype == "fp16":
        return values.astype(np.float16)
    torch = pytest.importorskip("torch")
    return torch.from_numpy(values).to(torch.bfloat16)


def wide(x):
    return x.astype(np.float64) if isinstance(x, np.ndarray) else x.double().numpy()


def turned(x, turn):
    if not turn:
        return x
    return np.ascontiguousarray(x.T) if isinstance(x, np.ndarray) else x.T.contiguous()


def close(found, want):
    np.testing.assert_allclose(found, want, rtol=0, atol=1e-5 * np.abs(want).max() * 4)


def run_product(M, N, K, dtype="fp16", a_turned=False, b_turned=False, adds=False, **options):
    a, b = numbers((M, K), 0, dtype), numbers((K, N), 1, dtype)
    start, c = np.random.default_rng(2).standard_normal((M, N)).astype(np.float32), np.full((M, N), np.nan, np.float32)
    constants = {"M": M, "N": N, "K": K, "A_TURNED": a_turned, "B_TURNED": b_turned, "ADDS": adds, **options}
    code = ptx_machine.run(product, (1,), (turned(a, a_turned), turned(b, b_turned), c, start), constants)
    close(c, wide(a) @ wide(b) + adds * start)
    return code.texts["ptx"]


@pytest.mark.parametrize("M, N, K, warps", [(64, 32, 32, 4), (64, 32, 128, 4), (128, 64, 32, 4), (128, 128, 16, 8),
                                            (64, 64, 64, 8), (64, 256, 16, 4), (256, 32, 32, 8), (128, 64, 64, 16),
                                            (64, 512, 16, 8), (48, 24, 32, 4)])
@pytest.mark.parametrize("a_turned, b_turned", [(False, False), (True, False), (False, True), (True, True)])
def test_shapes_and_majors(M, N, K, warps, a_turned, b_turned):
    ptx = run_product(M, N, K, a_turned=a_turned, b_turned=b_turned, num_warps=warps)
    assert "wgmma.mma_async" in ptx and "mma.sync" not in ptx


@pytest.mark.parametrize("seed", range(12))
def test_drawn(seed):
    rng = np.random.default_rng(seed)

    def power(low, high):
        return 1 << int(rng.integers(low, high))

    warps, dtype = power(2, 4), str(rng.choice(["fp16", "bf16"]))
    flags = [bool(f) for f in rng.integers(0, 2, 3)]
    ptx = run_product(power(6, 8), power(5, 8), power(4, 7), dtype, *flags, num_warps=warps)
    assert f".f32.{dtype.replace('fp16', 'f16')}." in ptx


@pytest.mark.parametrize("M, N, K, warps", [(32, 64, 16, 4), (64, 16, 16, 4), (64, 64, 24, 4), (64, 64, 32, 2),
                                            (256, 256, 16, 4)])
def test_other_sides_and_warps_are_left_to_other_instructions(M, N, K, warps):
    if M == 256:
        arrays = (np.zeros((M, K), np.float16), np.zeros((K, N), np.float16), *(np.zeros((M, N), np.float32),) * 2)
        constants = {"M": M, "N": N, "K": K, "A_TURNED": False, "B_TURNED": False, "ADDS": False, "num_warps": warps}
        ptx = launch_code(product, arrays, constants, ptx_machine.TARGET).texts["ptx"]
    else:
        ptx = run_product(M, N, K, num_warps=warps)
    assert "wgmma." not in ptx


@pytest.mark.parametrize("arch", [80, 89, 100, 120])
def test_other_architectures_have_none(arch):
    a = np.zeros((64, 64), np.float16)
    constants = {"BM": 64, "BN": 64, "BK": 32, "A_TURNED": False, "B_TURNED": False}
    target = NvidiaTarget(arch, assemble=False)
    ptx = launch_code(matmul, (a, a + 1, a.astype(np.float32), 64, 64, 64), constants, target).texts["ptx"]
    assert "wgmma." not in ptx and "mma.sync" in ptx


# --- loops


def run_matmul(M, N, K, tiles=(64, 64, 32), dtype="fp16", a_turned=False, b_turned=False, seed=0, **options):
    a, b, c = numbers((M, K), 0, dtype), numbers((K, N), 1, dtype), np.full((M, N), np.nan, np.float32)
    BM, BN, BK = tiles
    constants = {"BM": BM, "BN": BN, "BK": BK, "A_TURNED": a_turned, "B_TURNED": b_turned, **options}
    grid = triton.cdiv(M, BM), triton.cdiv(N, BN)
    code = ptx_machine.run(matmul, grid, (turned(a, a_turned), turned(b, b_turned), c, M, N, K), constants, seed=seed)
    close(c, wide(a) @ wide(b))
    return code.texts["ptx"]


@pytest.mark.parametrize("stages", [1, 2, 3, 4, 5])
@pytest.mark.parametrize("M, N, K", [(64, 64, 32), (64, 64, 160), (80, 48, 96), (64, 64, 16)])
def test_stages(M, N, K, stages):
    ptx = run_matmul(M, N, K, num_stages=stages)
    assert ("cp.async.cg" in ptx) == (stages > 1) and "wgmma.mma_async" in ptx
    if stages > 1:
        assert "ldmatrix" not in ptx


@pytest.mark.parametrize("a_turned, b_turned", [(True, False), (False, True), (True, True)])
@pytest.mark.parametrize("tiles", [(64, 64, 64), (128, 32, 32), (64, 128, 16)])
def test_majors_in_loops(a_turned, b_turned, tiles):
    ptx = run_matmul(128, 128, 128, tiles, a_turned=a_turned, b_turned=b_turned)
    assert "cp.async.cg" in ptx and "wgmma.mma_async" in ptx


@pytest.mark.parametrize("M, N, K", [(65, 33, 47), (64, 40, 50)])
def test_rows_that_are_not_aligned(M, N, K):
    run_matmul(M, N, K)


@pytest.mark.parametrize("seed", [1, 2, 3])
@pytest.mark.parametrize("warps, stages", [(4, 3), (8, 4)])
def test_warps_in_any_order(seed, warps, stages):
    run_matmul(128, 64, 192, (128, 64, 32), seed=seed, num_warps=warps, num_stages=stages)


def test_no_iterations():
    run_matmul(64, 64, 0)
    run_matmul(64, 64, 0, ALONE, num_stages=8)


ALONE = (64, 64, 64)        # with eight stages: an SM has room for one such program


@pytest.mark.parametrize("K", [64, 128, 640, 1008])
@pytest.mark.parametrize("warps", [4, 8])
def test_a_program_that_is_alone_waits_for_its_products_late(K, warps):
    ptx = run_matmul(64, 96, K, ALONE, num_stages=8, num_warps=warps)
    assert re.findall(r"wgmma\.wait_group\S* (\d)", ptx) == ["1", "0"]


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_late_wait_with_warps_in_any_order(seed):
    run_matmul(128, 64, 704, (128, 64, 64), num_stages=6, num_warps=8, seed=seed)


def test_bf16():
    assert ".f32.bf16.bf16" in run_matmul(64, 64, 128, dtype="bf16")


@triton.jit
def two_products(a_ptr, b_ptr, d_ptr, c_ptr, e_ptr, K, flag, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """Two sums from one left operand, the second one scaled in each step, and a step in a branch."""
    m, n, k = tl.arange(0, BM), tl.arange(0, BN), tl.arange(0, BK)
    first, second = tl.zeros((BM, BN), tl.float32), tl.zeros((BM, BN), tl.float32)
    for start in range(0, K, BK):
        x = tl.load(a_ptr + m[:, None] * K + start + k[None, :])
        y = tl.load(b_ptr + (start + k)[:, None] * BN + n[None, :])
        z = tl.load(d_ptr + (start + k)[:, None] * BN + n[None, :])
        first = tl.dot(x, y, first)
        second = tl.dot(x, z, second * 0.5)
        if start == flag:
            first = tl.dot(x, z, first)
    tl.store(c_ptr + m[:, None] * BN + n[None, :], first)
    tl.store(e_ptr + m[:, None] * BN + n[None, :], second)


@pytest.mark.parametrize("stages", [1, 2, 3, 4])
def test_two_products_in_a_loop_and_one_in_a_branch(stages):
    K, BM, BN, BK = 128, 64, 32, 32
    a, b, d = numbers((BM, K), 0), numbers((K, BN), 1), numbers((K, BN), 2)
    c, e = np.zeros((BM, BN), np.float32), np.zeros((BM, BN), np.float32)
    constants = {"BM": BM, "BN": BN, "BK": BK, "num_stages": stages}
    code = ptx_machine.run(two_products, (1,), (a, b, d, c, e, K, 64), constants)
    close(c, wide(a) @ wide(b) + wide(a)[:, 64:96] @ wide(d)[64:96])
    want = sum(wide(a)[:, k:k + BK] @ wide(d)[k:k + BK] * 0.5 ** (K // BK - 1 - k // BK) for k in range(0, K, BK))
    close(e, want)
    assert code.texts["ptx"].count("wgmma.commit") == 3


@triton.jit
def attention(q, k, v, out, keys, M: tl.constexpr, N: tl.constexpr, D: tl.constexpr):
    m, n, d = tl.arange(0, M), tl.arange(0, N), tl.arange(0, D)
    rows = tl.load(q + m[:, None] * D + d[None, :])
    most, total = tl.full((M,), -float("inf"), tl.float32), tl.zeros((M,), tl.float32)
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


@pytest.mark.parametrize("M, warps, stages", [(64, 4, 3), (128, 8, 2), (128, 4, 3), (64, 8, 3), (64, 4, 1)])
def test_chained_products_keep_their_rows_in_registers(M, warps, stages):
    keys, N, D = 100, 32, 64
    q, k, v = numbers((M, D), 0), numbers((keys, D), 1), numbers((keys, D), 2)
    out = np.zeros((M, D), np.float32)
    constants = {"M": M, "N": N, "D": D, "num_warps": warps, "num_stages": stages}
    code = ptx_machine.run(attention, (1,), (q, k, v, out, keys), constants)
    s = wide(q) @ wide(k).T
    p = np.exp(s - s.max(1, keepdims=True))
    np.testing.assert_allclose(out, p / p.sum(1, keepdims=True) @ wide(v), rtol=0, atol=5e-3)
    ptx = code.texts["ptx"]
    taken = re.findall(r"wgmma\.mma_async\S+ \{[^}]*\}, (\{?)", ptx)
    assert taken.count("{") == (N // 16 * M // (16 * warps) if M >= 16 * warps else 0) and taken.count("")


@triton.jit
def powers(x, w, out, count, N: tl.constexpr):
    i = tl.arange(0, N)
    at = i[:, None] * N + i[None, :]
    matrix, value = tl.load(w + at), tl.load(x + at).to(tl.float32)
    for _ in range(count):
        value = tl.dot(value.to(tl.float16), matrix)
    tl.store(out + at, value)


@pytest.mark.parametrize("seed", [0, 1])
def test_rows_in_registers_by_a_matrix_that_is_held(seed):
    N = 64
    x, w, out = numbers((N, N), 0), numbers((N, N), 1) / np.float16(8), np.zeros((N, N), np.float32)
    code = ptx_machine.run(powers, (1,), (x, w, out, 3), {"N": N}, seed=seed)
    want = wide(x)
    for _ in range(3):
        want = want.astype(np.float16).astype(np.float64) @ wide(w)
    np.testing.assert_allclose(out, want, rtol=0, atol=2e-3 * np.abs(want).max())
    names = re.findall(r"\b(shared_store|proxy_fence|dot|for)\b", code.texts["laid-out"])
    assert names.index("shared_store") < names.index("proxy_fence") < names.index("dot")


@triton.jit
def turns(a, b, c, count, rounds, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    m, n, k = tl.arange(0, M), tl.arange(0, N), tl.arange(0, K)
    total = tl.zeros((M, N), tl.float32)
    for i in range(count):
        x = tl.load(a + m[:, None] * (K * count) + (i * K + k)[None, :])
        y = tl.load(b + (i * K + k)[:, None] * N + n[None, :])
        for _ in range(rounds):
            total = tl.dot(x, y, total)
    tl.store(c + m[:, None] * N + n[None, :], total)


@pytest.mark.parametrize("M, N, K", [(48, 32, 32), (96, 48, 64), (64, 32, 32)])
def test_what_is_held_has_room_for_the_padding_of_its_rows(M, N, K):
    a, b, c = numbers((M, 3 * K), 0), numbers((3 * K, N), 1), np.zeros((M, N), np.float32)
    code = ptx_machine.run(turns, (1,), (a, b, c, 3, 2), {"M": M, "N": N, "K": K})
    close(c, 2 * wide(a) @ wide(b))
    assert code.texts["laid-out"].count("shared_store") == 2


@triton.jit
def eight_matrices(x, w, out, count, M: tl.constexpr, N: tl.constexpr):
    m, n = tl.arange(0, M), tl.arange(0, N)
    at = n[:, None] * N + n[None, :]
    size: tl.constexpr = N * N
    w0, w1 = tl.load(w + at), tl.load(w + size + at)
    w2, w3 = tl.load(w + 2 * size + at), tl.load(w + 3 * size + at)
    w4, w5 = tl.load(w + 4 * size + at), tl.load(w + 5 * size + at)
    w6, w7 = tl.load(w + 6 * size + at), tl.load(w + 7 * size + at)
    for k in range(count):
        v = tl.load(x + (k * M + m)[:, None] * N + n[None, :])
        a = tl.dot(tl.dot(tl.dot(tl.dot(v, w0).to(tl.float16), w1).to(tl.float16), w2).to(tl.float16), w3)
        b = tl.dot(tl.dot(tl.dot(tl.dot(v, w4).to(tl.float16), w5).to(tl.float16), w6).to(tl.float16), w7)
        tl.store(out + (k * M + m)[:, None] * N + n[None, :], a + b)


@pytest.mark.parametrize("N, is_held", [(64, True), (128, False)])
def test_what_does_not_fit_is_not_held(N, is_held):
    x, w, out = np.zeros((256, N), np.float16), np.zeros((8 * N, N), np.float16), np.zeros((256, N), np.float32)
    code = launch_code(eight_matrices, (x, w, out, 2), {"M": 64, "N": N, "num_warps": 8}, ptx_machine.TARGET)
    assert ("shared_store" in code.texts["laid-out"]) == is_held and code.metadata["shared"] <= 227 << 10


# --- faults: the machine finds what this code takes care of


def planted(change, stages, warps=4):
    """Run a pipelined product whose PTX is changed."""
    M, N, K = 64, 64, 192 if stages < 8 else 1024
    a, b, c = numbers((M, K), 0), numbers((K, N), 1), np.zeros((M, N), np.float32)
    args = (a, b, c, M, N, K)
    constants = {"BM": 64, "BN": 64, "BK": 32 if stages < 8 else 64, "A_TURNED": False, "B_TURNED": False,
                 "num_stages": stages, "num_warps": warps}
    code = launch_code(matmul, args, constants, ptx_machine.TARGET)
    text = change(code.texts["ptx"])
    assert text != code.texts["ptx"] or change is str
    ptx_machine.launch(replace(code, texts={**code.texts, "ptx": text}), (1, 1, 1), args)
    close(c, wide(a) @ wide(b))


@pytest.mark.parametrize("stages", [2, 8])
def test_the_text_without_a_fault(stages):
    planted(str, stages)


@pytest.mark.parametrize("pattern, put, kind", [
    (r"fence\.proxy\.async\S*;", "", "proxy fence"),
    (r"wgmma\.fence\S*;", "", "in flight"),
    (r"wgmma\.commit_group\S*;", "", "in flight"),
    (r"wgmma\.wait_group\S* \d+;", "", "in flight"),
    (r"cp\.async\.wait_group \d+;", "cp.async.wait_group 7;", ""),
    (r"(fence\.proxy\.async\S*;\n\t(?:// end inline asm\n\t)?)bar\.sync \t0;", r"\1", "")])
@pytest.mark.parametrize("stages", [2, 3, 4, 8])
def test_what_is_left_out_is_found(pattern, put, kind, stages):
    with pytest.raises(machine.Fault) as found:
        planted(lambda text: re.sub(pattern, put, text), stages)
    assert kind in str(found.value)


@pytest.mark.parametrize("pattern, put", [
    (r"(wgmma\.wait_group\S* 1;\n\t(?:// end inline asm\n\t)?)bar\.sync \t0;", r"\1"),        # other warps still read
    (r"wgmma\.wait_group(\S*) 1;", r"wgmma.wait_group\1 2;"),
    (r"wgmma\.wait_group(\S*) 0;", r"wgmma.wait_group\1 1;")])
def test_what_is_left_out_of_a_late_wait_is_found(pattern, put):
    with pytest.raises(machine.Fault):
        planted(lambda text: re.sub(pattern, put, text), 8, 8)


# --- what is written


def test_the_ir_is_valid_and_prints():
    a, b, c = np.zeros((64, 64), np.float16), np.zeros((64, 64), np.float16), np.zeros((64, 64), np.float32)
    module = tile_ir(matmul, a, b, c, 64, 64, 64, BM=64, BN=64, BK=32, A_TURNED=False, B_TURNED=True)
    staged = NvidiaTarget(90, assemble=False).laid_out(module, Options())
    verify(staged, Stage.LAID_OUT)
    assert print_module(parse_module(print_module(staged))) == print_module(staged)
    assert [op.name for op in ops_in(staged.entry.body)].count("dot") == 1


def parts_of_loop(kernel, args, grid=(1,), **constants):
    """The names of what the pipelined loop does that is of interest here, in order."""
    options = {n: constants.pop(n) for n in ("num_stages", "num_warps") if n in constants}
    staged = NvidiaTarget(90, assemble=False).laid_out(tile_ir(kernel, *args, **constants), Options(**options))
    of_interest = {"warpgroup_dot", "warpgroup_wait", "async_copy", "barrier", "dot", "shared_store", "proxy_fence"}
    loops = [op for op in ops_in(staged.entry.body) if op.name == "for"]
    return [op.name for op in ops_in(loops[-1].regions[0]) if op.name in of_interest]


def test_where_the_next_copies_begin():
    a, b, c = np.zeros((64, 64), np.float16), np.zeros((64, 64), np.float16), np.zeros((64, 64), np.float32)
    tiles = {"BM": 64, "BN": 64, "BK": 64, "A_TURNED": False, "B_TURNED": True}
    head, copies = ["proxy_fence", "barrier"], ["async_copy"] * 2
    assert parts_of_loop(matmul, (a, b, c, 64, 64, 64), **tiles) == [*head, *copies, "dot"]
    late = ["warpgroup_dot", "warpgroup_wait", "barrier"]
    assert parts_of_loop(matmul, (a, b, c, 64, 64, 64), **tiles, num_stages=8) == [*head, *late, *copies]
    now = ["warpgroup_dot", *copies, "warpgroup_wait", "dot"]
    assert parts_of_loop(attention, (a, a, a, c, 64), M=64, N=64, D=64) == [*head, *now]


@triton.jit
def made_operands(a_ptr, b_ptr, s_ptr, c_ptr, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """Rows scaled by a vector, columns of int8: no operand is as it was loaded."""
    m, n, k = tl.arange(0, BM), tl.arange(0, BN), tl.arange(0, BK)
    total = tl.zeros((BM, BN), tl.float32)
    for start in range(0, K, BK):
        at = start + k
        x = tl.load(a_ptr + m[:, None] * K + at[None, :], mask=at[None, :] < K, other=0.0)
        x = (x * tl.load(s_ptr + at, mask=at < K, other=0.0)[None, :]).to(tl.float16)
        y = tl.load(b_ptr + at[:, None] * BN + n[None, :], mask=at[:, None] < K, other=0).to(tl.float16)
        total = tl.dot(x, y, total)
    tl.store(c_ptr + m[:, None] * BN + n[None, :], total)


@pytest.mark.parametrize("K", [32, 128, 144])
@pytest.mark.parametrize("stages, copies", [(1, 0), (3, 6)])
def test_what_operands_are_made_of_is_copied_ahead(K, stages, copies):
    BM, BN, BK = 64, 64, 32
    a, s = numbers((BM, K), 0), np.random.default_rng(1).standard_normal(K).astype(np.float32)
    b, c = np.random.default_rng(2).integers(-8, 8, (K, BN), np.int8), np.full((BM, BN), np.nan, np.float32)
    constants = {"BM": BM, "BN": BN, "BK": BK, "num_stages": stages}
    code = ptx_machine.run(made_operands, (1,), (a, b, s, c, K), constants)
    close(c, wide((a.astype(np.float32) * s).astype(np.float16)) @ b.astype(np.float64))
    assert code.texts["laid-out"].count("async_copy") == copies and "wgmma." in code.texts["ptx"]


def test_rows_that_come_by_elements_are_left_to_mma_sync():
    ptx = run_matmul(64, 64, 65)
    assert "mma.sync" in ptx and "wgmma." not in ptx


@triton.jit
def by_one_matrix(x, w, out, rows, TILES: tl.constexpr, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    m, n, k = tl.arange(0, M), tl.arange(0, N), tl.arange(0, K)
    matrix = tl.load(w + k[:, None] * N + n[None, :])
    for tile in range(TILES):
        start = (tl.program_id(0) * TILES + tile) * M
        total = tl.zeros((M, N), tl.float32)
        for part in range(2):
            left = tl.load(x + (part * rows + start + m)[:, None] * K + k[None, :])
            if part == 1:
                total = tl.dot(left, matrix, total)
            else:
                total += 2 * tl.dot(left, matrix)
        tl.store(out + (start + m)[:, None] * N + n[None, :], total)


@pytest.mark.parametrize("stages", [1, 3])
@pytest.mark.parametrize("seed", [0, 1])
def test_an_operand_that_loops_do_not_change_is_stored_once(stages, seed):
    rows, M, N, K = 256, 64, 32, 64
    x, w, out = numbers((2 * rows, K), 0), numbers((K, N), 1), np.zeros((rows, N), np.float32)
    constants = {"TILES": 2, "M": M, "N": N, "K": K, "num_stages": stages}
    code = ptx_machine.run(by_one_matrix, (2,), (x, w, out, rows), constants, seed=seed)
    close(out, (2 * wide(x)[:rows] + wide(x)[rows:]) @ wide(w))
    text = code.texts["laid-out"]
    assert text.count("shared_store") == 1 and text.index("shared_store") < text.index(" for ")


@pytest.mark.skipif(find_assembler() is None, reason="needs ptxas or nvJitLink")
@pytest.mark.parametrize("tiles, options, is_chosen", [
    ((128, 128, 64), {"maxnreg": 64}, False), ((64, 64, 64), {"maxnreg": 64}, False),
    ((64, 64, 64), {"maxnreg": 96}, True),
    ((128, 128, 64), {"maxnreg": 168}, False), ((128, 128, 64), {"maxnreg": 176}, True),
    ((256, 256, 64), {"num_warps": 32}, False), ((128, 256, 64), {"num_warps": 16}, True)])
def test_registers_suffice_or_it_is_not_chosen(tiles, options, is_chosen):
    a, b, c = np.zeros((512, 512), np.float16), np.zeros((512, 512), np.float16), np.zeros((512, 512), np.float32)
    constants = {"BM": tiles[0], "BN": tiles[1], "BK": tiles[2], "A_TURNED": False, "B_TURNED": False, **options}
    code = launch_code(matmul, (a, b, c, 512, 512, 512), constants, NvidiaTarget(90))
    assert ("wgmma." in code.texts["ptx"]) == is_chosen and code.metadata["advisories"] == []


@pytest.mark.skipif(find_assembler() is None, reason="needs ptxas or nvJitLink")
@pytest.mark.parametrize("tiles, warps, stages", [((64, 64, 32), 4, 3), ((128, 128, 64), 4, 3), ((128, 128, 64), 4, 4),
                                                  ((128, 256, 64), 8, 3), ((256, 128, 64), 8, 4), ((64, 64, 64), 8, 2)])
def test_no_advisories_and_no_spills(tiles, warps, stages):
    a, b, c = np.zeros((512, 512), np.float16), np.zeros((512, 512), np.float16), np.zeros((512, 512), np.float32)
    constants = {"BM": tiles[0], "BN": tiles[1], "BK": tiles[2], "A_TURNED": False, "B_TURNED": False,
                 "num_warps": warps, "num_stages": stages}
    facts = launch_code(matmul, (a, b, c, 512, 512, 512), constants, NvidiaTarget(90)).metadata
    assert facts["advisories"] == [] and facts["spill_bytes"] == 0
