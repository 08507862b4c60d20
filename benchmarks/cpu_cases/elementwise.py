"""Elementwise kernels and those that move data: one pass over memory."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial

import numpy as np
import torch

import tilewright as triton
import tilewright.language as tl
from cpu_cases.case import Case, elements, random
from cpu_cases.with_numba import rival

BLOCK = 1024


@triton.jit
def add_kernel(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    x = tl.load(x_ptr + offsets, mask=mask)
    y = tl.load(y_ptr + offsets, mask=mask)
    tl.store(out_ptr + offsets, x + y, mask=mask)


@triton.jit
def affine_relu_kernel(x_ptr, out_ptr, n, scale, bias, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    x = tl.load(x_ptr + offsets, mask=mask)
    tl.store(out_ptr + offsets, tl.maximum(x * scale + bias, 0.0), mask=mask)


@triton.jit
def gelu_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    x = tl.load(x_ptr + offsets, mask=mask)
    tl.store(out_ptr + offsets, 0.5 * x * (1.0 + tl.math.erf(x * 0.70710678118654752)), mask=mask)


@triton.jit
def dropout_kernel(x_ptr, out_ptr, n, p, seed, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    x = tl.load(x_ptr + offsets, mask=mask)
    keep = tl.rand(seed, offsets) > p
    tl.store(out_ptr + offsets, tl.where(keep, x / (1 - p), 0.0), mask=mask)


@triton.jit
def gather_kernel(table_ptr, index_ptr, out_ptr, width, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    source = tl.load(index_ptr + row)
    columns = tl.arange(0, BLOCK)
    mask = columns < width
    value = tl.load(table_ptr + source * width + columns, mask=mask)
    tl.store(out_ptr + row * width + columns, value, mask=mask)


@triton.jit
def scatter_add_kernel(x_ptr, index_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    x = tl.load(x_ptr + offsets, mask=mask)
    target = tl.load(index_ptr + offsets, mask=mask)
    tl.atomic_add(out_ptr + target, x, mask=mask)


@triton.jit
def transpose_kernel(x_ptr, out_ptr, M, N, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr):
    m = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    n = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    x = tl.load(x_ptr + m[:, None] * N + n[None, :], mask=(m[:, None] < M) & (n[None, :] < N))
    tl.store(out_ptr + n[:, None] * M + m[None, :], tl.trans(x), mask=(n[:, None] < N) & (m[None, :] < M))


def add(n: int) -> Case:
    x, y = random(n), random(n, seed=1)
    out = torch.empty(n)
    grid = (triton.cdiv(n, BLOCK),)
    return Case("add", elements(n), lambda: add_kernel[grid](x, y, out, n, BLOCK=BLOCK), out, x + y, 0.0,
               {"torch": lambda: torch.add(x, y, out=out), "numpy": lambda: np.add(x.numpy(), y.numpy(), out.numpy()),
                **rival("add", x, y, out)},
               (lambda a, b: a + b, (x, y)))


def affine_relu(n: int) -> Case:
    x = random(n)
    out = torch.empty(n)
    grid = (triton.cdiv(n, BLOCK),)
    return Case("affine + relu", elements(n), lambda: affine_relu_kernel[grid](x, out, n, 1.5, 0.25, BLOCK=BLOCK),
               out, torch.relu(x * 1.5 + 0.25), 1e-6, {"torch": lambda: torch.relu(x * 1.5 + 0.25),
                                                           **rival("affine_relu", x, out, np.float32(1.5),
                                                                   np.float32(0.25))},
               (lambda a: torch.relu(a * 1.5 + 0.25), (x,)))


def gelu(n: int) -> Case:
    x = random(n)
    out = torch.empty(n)
    grid = (triton.cdiv(n, BLOCK),)
    return Case("gelu", elements(n), lambda: gelu_kernel[grid](x, out, n, BLOCK=BLOCK), out,
               torch.nn.functional.gelu(x.double()), 1e-6, {"torch": lambda: torch._C._nn.gelu(x, out=out)},
               (torch.nn.functional.gelu, (x,)))


def dropout(n: int) -> Case:
    x = random(n)
    out = torch.empty(n)
    grid = (triton.cdiv(n, BLOCK),)
    dropout_kernel[grid](x, out, n, 0.5, 7, BLOCK=BLOCK)
    kept = float((out != 0).float().mean())
    if abs(kept - 0.5) > 0.01:
        raise SystemExit(f"dropout: WRONG, kept {kept:.3f} of the elements instead of 0.5")
    expected = torch.where(out != 0, x * 2, 0.0)
    return Case("philox dropout", elements(n), lambda: dropout_kernel[grid](x, out, n, 0.5, 7, BLOCK=BLOCK), out,
               expected, 1e-6, {"torch": lambda: torch.nn.functional.dropout(x, 0.5)},
               (lambda a: torch.nn.functional.dropout(a, 0.5), (x,)))


def gather(rows: int, width: int) -> Case:
    table = random(rows, width)
    index = torch.randint(0, rows, (rows,), generator=torch.Generator().manual_seed(1))
    out = torch.empty(rows, width)
    block = triton.next_power_of_2(width)
    return Case("gather rows", f"{rows} x {width}",
               lambda: gather_kernel[(rows,)](table, index, out, width, BLOCK=block), out, table[index], 0.0,
               {"torch": lambda: torch.index_select(table, 0, index, out=out), **rival("gather", table, index, out)},
               (lambda t, i: torch.nn.functional.embedding(i, t), (table, index)))


def scatter_add(n: int) -> Case:
    x = torch.ones(n)
    index = torch.randint(0, 1 << 14, (n,), generator=torch.Generator().manual_seed(1))
    out = torch.zeros(1 << 14)
    grid = (triton.cdiv(n, BLOCK),)

    def ours() -> None:
        out.zero_()
        scatter_add_kernel[grid](x, index, out, n, BLOCK=BLOCK)

    return Case("scatter-add", elements(n), ours, out, torch.zeros(1 << 14).index_add_(0, index, x), 0.0,
               {"torch": lambda: out.zero_().index_add_(0, index, x), **rival("scatter_add", x, index, out)},
               (lambda i, v: torch.zeros(1 << 14).index_add(0, i, v), (index, x)))


def transpose(rows: int, columns: int) -> Case:
    x = random(rows, columns)
    out = torch.empty(columns, rows)
    grid = (triton.cdiv(rows, 32), triton.cdiv(columns, 32))
    return Case("transpose", f"{rows} x {columns}",
               lambda: transpose_kernel[grid](x, out, rows, columns, BLOCK_M=32, BLOCK_N=32), out, x.T, 0.0,
               {"torch": lambda: out.copy_(x.T)}, (lambda a: a.T.contiguous(), (x,)))


CASES: Mapping[str, Sequence[Callable[[], Case]]] = {
    "add": [partial(add, 1000), partial(add, 65536), partial(add, 1048576), partial(add, 16777216)],
    "relu": [partial(affine_relu, 65536), partial(affine_relu, 1048576), partial(affine_relu, 16777216)],
    "gelu": [partial(gelu, 1048576)],
    "dropout": [partial(dropout, 1048576)],
    "gather": [partial(gather, 8192, 128), partial(gather, 8192, 1000)],
    "scatter": [partial(scatter_add, 262144)],
    "transpose": [partial(transpose, 1024, 1024), partial(transpose, 1000, 781)],
}
