"""Matrix products and attention."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial

import numpy as np
import torch

import tilewright as triton
import tilewright.language as tl
from cpu_cases.case import Case, random

Blocks = tuple[int, int, int]


@triton.jit
def matmul_kernel(a_ptr, b_ptr, c_ptr, bias_ptr, M, N, K, stride_am, stride_ak, stride_bk, stride_bn, stride_cm,
                  stride_cn, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
                  GROUP_M: tl.constexpr, ACC: tl.constexpr, EPILOGUE: tl.constexpr):
    pid = tl.program_id(0)
    num_m, num_n = tl.cdiv(M, BLOCK_M), tl.cdiv(N, BLOCK_N)
    in_group = GROUP_M * num_n
    first_m = pid // in_group * GROUP_M
    group_m = min(num_m - first_m, GROUP_M)
    pid_m = first_m + pid % in_group % group_m
    pid_n = pid % in_group // group_m
    offs_m = (pid_m * BLOCK_M + tl.arange(0, BLOCK_M)) % M
    offs_n = (pid_n * BLOCK_N + tl.arange(0, BLOCK_N)) % N
    offs_k = tl.arange(0, BLOCK_K)
    a_ptrs = a_ptr + offs_m[:, None] * stride_am + offs_k[None, :] * stride_ak
    b_ptrs = b_ptr + offs_k[:, None] * stride_bk + offs_n[None, :] * stride_bn
    accumulator = tl.zeros((BLOCK_M, BLOCK_N), dtype=ACC)
    for k in range(tl.cdiv(K, BLOCK_K)):
        a = tl.load(a_ptrs, mask=offs_k[None, :] < K - k * BLOCK_K, other=0)
        b = tl.load(b_ptrs, mask=offs_k[:, None] < K - k * BLOCK_K, other=0)
        accumulator = tl.dot(a, b, accumulator, out_dtype=ACC, input_precision="ieee")
        a_ptrs += BLOCK_K * stride_ak
        b_ptrs += BLOCK_K * stride_bk
    rows = pid_m * BLOCK_M + tl.arange(0, BLOCK_M)
    columns = pid_n * BLOCK_N + tl.arange(0, BLOCK_N)
    if EPILOGUE:
        bias = tl.load(bias_ptr + columns, mask=columns < N, other=0.0)
        accumulator = accumulator + bias[None, :]
        accumulator = tl.where(accumulator > 0, accumulator, 0.01 * accumulator)
    c = accumulator.to(c_ptr.dtype.element_ty)
    c_ptrs = c_ptr + stride_cm * rows[:, None] + stride_cn * columns[None, :]
    tl.store(c_ptrs, c, mask=(rows[:, None] < M) & (columns[None, :] < N))


@triton.jit
def dequant_matmul_kernel(a_ptr, b_ptr, scale_ptr, c_ptr, M, N, K, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
                          BLOCK_K: tl.constexpr):
    rows = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    columns = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    k = tl.arange(0, BLOCK_K)
    accumulator = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for start in range(0, K, BLOCK_K):
        a = tl.load(a_ptr + rows[:, None] * K + (start + k)[None, :], mask=rows[:, None] < M, other=0.0)
        b = tl.load(b_ptr + (start + k)[:, None] * N + columns[None, :], mask=columns[None, :] < N, other=0)
        accumulator = tl.dot(a, b.to(tl.float32), accumulator, input_precision="ieee")
    scale = tl.load(scale_ptr + columns, mask=columns < N, other=0.0)
    tl.store(c_ptr + rows[:, None] * N + columns[None, :], accumulator * scale[None, :],
             mask=(rows[:, None] < M) & (columns[None, :] < N))


@triton.jit
def attention_kernel(q_ptr, k_ptr, v_ptr, out_ptr, length, scale, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
                     DEPTH: tl.constexpr):
    rows = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    head = tl.program_id(1) * length * DEPTH
    depth = tl.arange(0, DEPTH)
    columns = tl.arange(0, BLOCK_N)
    q = tl.load(q_ptr + head + rows[:, None] * DEPTH + depth[None, :], mask=rows[:, None] < length, other=0.0)
    q = q * (scale * 1.44269504)
    largest = tl.full((BLOCK_M,), float("-inf"), dtype=tl.float32)
    total = tl.zeros((BLOCK_M,), dtype=tl.float32)
    accumulator = tl.zeros((BLOCK_M, DEPTH), dtype=tl.float32)
    for start in range(0, length, BLOCK_N):
        here = start + columns
        k = tl.load(k_ptr + head + here[None, :] * DEPTH + depth[:, None], mask=here[None, :] < length, other=0.0)
        v = tl.load(v_ptr + head + here[:, None] * DEPTH + depth[None, :], mask=here[:, None] < length, other=0.0)
        scores = tl.dot(q, k, input_precision="ieee")
        scores = tl.where(here[None, :] < length, scores, float("-inf"))
        new = tl.maximum(largest, tl.max(scores, axis=1))
        weights = tl.exp2(scores - new[:, None])
        shrink = tl.exp2(largest - new)
        total = total * shrink + tl.sum(weights, axis=1)
        accumulator = tl.dot(weights, v, accumulator * shrink[:, None], input_precision="ieee")
        largest = new
    tl.store(out_ptr + head + rows[:, None] * DEPTH + depth[None, :], accumulator / total[:, None],
             mask=rows[:, None] < length)


def _launch(a: torch.Tensor, b: torch.Tensor, c: torch.Tensor, bias: torch.Tensor, blocks: Blocks,
            epilogue: bool = False) -> None:
    (m, k), n = a.shape, b.shape[1]
    grid = (triton.cdiv(m, blocks[0]) * triton.cdiv(n, blocks[1]),)
    acc = tl.int32 if a.dtype == torch.int8 else tl.float32
    matmul_kernel[grid](a, b, c, bias, m, n, k, a.stride(0), a.stride(1), b.stride(0), b.stride(1), c.stride(0),
                        c.stride(1), BLOCK_M=blocks[0], BLOCK_N=blocks[1], BLOCK_K=blocks[2], GROUP_M=8, ACC=acc,
                        EPILOGUE=epilogue)


def _matmul(size: int, blocks: Blocks, dtype: torch.dtype, tolerance: float) -> Case:
    a, b = random(size, size).to(dtype), random(size, size, seed=1).to(dtype)
    rivals = {}
    if dtype == torch.int8:
        a = torch.randint(-128, 128, (size, size), dtype=dtype, generator=torch.Generator().manual_seed(0))
        b = torch.randint(-128, 128, (size, size), dtype=dtype, generator=torch.Generator().manual_seed(1))
        out = torch.empty(size, size, dtype=torch.int32)
        expected = (a.double() @ b.double())
        rivals["torch"] = lambda: torch._int_mm(a, b, out=out)
        compiled = torch._int_mm
    else:
        out = torch.empty(size, size, dtype=dtype)
        expected = a.double() @ b.double()
        rivals["torch"] = lambda: torch.mm(a, b, out=out)
        compiled = torch.mm
    if dtype == torch.float32:
        rivals["numpy"] = lambda: np.matmul(a.numpy(), b.numpy(), out=out.numpy())
    name = f"matmul {str(dtype).removeprefix('torch.')}"
    return Case(name, f"{size}, {'x'.join(map(str, blocks))}", lambda: _launch(a, b, out, a, blocks), out, expected,
                tolerance, rivals, (compiled, (a, b)))


def matmul(size: int, blocks: Blocks) -> Case:
    return _matmul(size, blocks, torch.float32, 1e-5)


def matmul_bf16(blocks: Blocks) -> Case:
    return _matmul(512, blocks, torch.bfloat16, 1e-2)


def matmul_fp16() -> Case:
    return _matmul(512, (64, 64, 32), torch.float16, 2e-3)


def matmul_int8(blocks: Blocks) -> Case:
    return _matmul(512, blocks, torch.int8, 0.0)


def matmul_bias() -> Case:
    a, b, bias = random(512, 512), random(512, 512, seed=1), random(512, seed=2)
    out = torch.empty(512, 512)

    def theirs(x: torch.Tensor, y: torch.Tensor, z: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.leaky_relu(torch.addmm(z, x, y), 0.01)

    return Case("matmul + bias + leaky relu", "512, 64x64x32", lambda: _launch(a, b, out, bias, (64, 64, 32), True),
               out, theirs(a.double(), b.double(), bias.double()), 1e-5, {"torch": lambda: theirs(a, b, bias)},
               (theirs, (a, b, bias)))


def dequant_matmul() -> Case:
    a, scale, out = random(512, 512), random(512, seed=2).abs(), torch.empty(512, 512)
    b = torch.randint(-128, 128, (512, 512), dtype=torch.int8, generator=torch.Generator().manual_seed(1))

    def theirs(x: torch.Tensor, y: torch.Tensor, s: torch.Tensor) -> torch.Tensor:
        return x @ (y.to(x.dtype) * s)

    return Case("dequantise-matmul", "512, 64x64x32", lambda: dequant_matmul_kernel[(8, 8)](
        a, b, scale, out, 512, 512, 512, BLOCK_M=64, BLOCK_N=64, BLOCK_K=32), out,
        theirs(a.double(), b, scale.double()), 1e-5, {"torch": lambda: theirs(a, b, scale)}, (theirs, (a, b, scale)))


def attention(heads: int, length: int, depth: int) -> Case:
    q, k, v = (random(1, heads, length, depth, seed=s) for s in range(3))
    out = torch.empty_like(q)
    grid = (triton.cdiv(length, 64), heads)
    theirs = torch.nn.functional.scaled_dot_product_attention
    return Case("attention forward", f"{heads} x {length} x {depth}",
               lambda: attention_kernel[grid](q, k, v, out, length, depth**-0.5, BLOCK_M=64, BLOCK_N=64,
                                              DEPTH=depth),
               out, theirs(q.double(), k.double(), v.double()), 1e-5, {"torch": lambda: theirs(q, k, v)},
               (theirs, (q, k, v)))


CASES: Mapping[str, Sequence[Callable[[], Case]]] = {
    "matmul": [partial(matmul, size, blocks) for size, blocks in (
        (512, (64, 64, 32)), (512, (128, 128, 64)), (1024, (64, 64, 32)), (1024, (128, 128, 64)), (511, (64, 64, 32)))],
    "matmul-bf16": [partial(matmul_bf16, (64, 64, 32)), partial(matmul_bf16, (128, 128, 64))],
    "matmul-fp16": [matmul_fp16],
    "matmul-int8": [partial(matmul_int8, (64, 64, 64)), partial(matmul_int8, (128, 128, 64))],
    "matmul-bias": [matmul_bias],
    "dequant-matmul": [dequant_matmul],
    "attention": [partial(attention, 8, 1024, 64)],
}
