"""Kernels that reduce the rows of a matrix: a program takes a row."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial

import numpy as np
import torch

import tilewright as triton
import tilewright.language as tl
from cpu_cases.case import Case, random
from cpu_cases.with_numba import rival

SHAPES = ((64, 1024), (1024, 1024), (1024, 781), (4096, 4096))


@triton.jit
def softmax_kernel(x_ptr, out_ptr, columns, BLOCK: tl.constexpr):
    column = tl.arange(0, BLOCK)
    mask = column < columns
    row = tl.program_id(0) * columns
    x = tl.load(x_ptr + row + column, mask=mask, other=float("-inf"))
    numerator = tl.exp(x - tl.max(x, axis=0))
    tl.store(out_ptr + row + column, numerator / tl.sum(numerator, axis=0), mask=mask)


@triton.jit
def layer_norm_kernel(x_ptr, weight_ptr, bias_ptr, out_ptr, mean_ptr, rstd_ptr, columns, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    column = tl.arange(0, BLOCK)
    mask = column < columns
    x = tl.load(x_ptr + row * columns + column, mask=mask, other=0.0)
    mean = tl.sum(x, axis=0) / columns
    centred = tl.where(mask, x - mean, 0.0)
    rstd = 1 / tl.sqrt(tl.sum(centred * centred, axis=0) / columns + eps)
    tl.store(mean_ptr + row, mean)
    tl.store(rstd_ptr + row, rstd)
    weight = tl.load(weight_ptr + column, mask=mask)
    bias = tl.load(bias_ptr + column, mask=mask)
    tl.store(out_ptr + row * columns + column, centred * rstd * weight + bias, mask=mask)


@triton.jit
def layer_norm_backward_kernel(grad_ptr, x_ptr, weight_ptr, mean_ptr, rstd_ptr, out_ptr, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    column = tl.arange(0, BLOCK)
    mask = column < columns
    x = tl.load(x_ptr + row * columns + column, mask=mask, other=0.0)
    grad = tl.load(grad_ptr + row * columns + column, mask=mask, other=0.0)
    weight = tl.load(weight_ptr + column, mask=mask, other=0.0)
    rstd = tl.load(rstd_ptr + row)
    normal = tl.where(mask, (x - tl.load(mean_ptr + row)) * rstd, 0.0)
    scaled = weight * grad
    along = tl.sum(normal * scaled, axis=0) / columns
    level = tl.sum(scaled, axis=0) / columns
    tl.store(out_ptr + row * columns + column, (scaled - (normal * along + level)) * rstd, mask=mask)


@triton.jit
def rms_norm_kernel(x_ptr, weight_ptr, out_ptr, columns, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    column = tl.arange(0, BLOCK)
    mask = column < columns
    x = tl.load(x_ptr + row * columns + column, mask=mask, other=0.0)
    scale = tl.rsqrt(tl.sum(x * x, axis=0) / columns + eps)
    weight = tl.load(weight_ptr + column, mask=mask)
    tl.store(out_ptr + row * columns + column, x * scale * weight, mask=mask)


@triton.jit
def row_sum_kernel(x_ptr, out_ptr, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    column = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * columns + column, mask=column < columns, other=0.0)
    tl.store(out_ptr + row, tl.sum(x, axis=0))


@triton.jit
def cumsum_kernel(x_ptr, out_ptr, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    column = tl.arange(0, BLOCK)
    mask = column < columns
    x = tl.load(x_ptr + row * columns + column, mask=mask, other=0.0)
    tl.store(out_ptr + row * columns + column, tl.cumsum(x, axis=0), mask=mask)


@triton.jit
def cross_entropy_kernel(logits_ptr, target_ptr, loss_ptr, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    target = tl.load(target_ptr + row)
    largest = float("-inf")
    total = 0.0
    for start in range(0, columns, BLOCK):
        column = start + tl.arange(0, BLOCK)
        x = tl.load(logits_ptr + row * columns + column, mask=column < columns, other=float("-inf"))
        new = tl.maximum(largest, tl.max(x, axis=0))
        total = total * tl.exp(largest - new) + tl.sum(tl.exp(x - new), axis=0)
        largest = new
    value = tl.load(logits_ptr + row * columns + target)
    tl.store(loss_ptr + row, tl.log(total) + largest - value)


def softmax(rows: int, columns: int) -> Case:
    x = random(rows, columns)
    out = torch.empty_like(x)
    block = triton.next_power_of_2(columns)
    return Case("softmax", f"{rows} x {columns}", lambda: softmax_kernel[(rows,)](x, out, columns, BLOCK=block), out,
               torch.softmax(x.double(), 1), 1e-6,
               {"torch": lambda: torch.softmax(x, 1, out=out), **rival("softmax", x, out)},
               (lambda a: torch.softmax(a, 1), (x,)))


def layer_norm(rows: int, columns: int) -> Case:
    x, weight, bias = random(rows, columns), random(columns, seed=1), random(columns, seed=2)
    out, mean, rstd = torch.empty_like(x), torch.empty(rows), torch.empty(rows)
    block = triton.next_power_of_2(columns)
    expected = torch.nn.functional.layer_norm(x.double(), (columns,), weight.double(), bias.double())
    return Case("layer norm", f"{rows} x {columns}",
               lambda: layer_norm_kernel[(rows,)](x, weight, bias, out, mean, rstd, columns, 1e-5, BLOCK=block),
               out, expected, 2e-6, {"torch": lambda: torch.native_layer_norm(x, (columns,), weight, bias, 1e-5),
                               **rival("layer_norm", x, weight, bias, out, np.float32(1e-5))},
               (lambda a, w, b: torch.native_layer_norm(a, a.shape[-1:], w, b, 1e-5), (x, weight, bias)))


def layer_norm_backward(rows: int, columns: int) -> Case:
    x, weight, bias = random(rows, columns), random(columns, seed=1), random(columns, seed=2)
    grad = random(rows, columns, seed=3)
    _, mean, rstd = torch.native_layer_norm(x, (columns,), weight, bias, 1e-5)
    out = torch.empty_like(x)
    mean, rstd = mean.flatten(), rstd.flatten()
    want = torch.ops.aten.native_layer_norm_backward

    def backward(g: torch.Tensor, a: torch.Tensor, m: torch.Tensor, r: torch.Tensor, w: torch.Tensor,
                 b: torch.Tensor) -> object:
        return want(g, a, a.shape[-1:], m[:, None], r[:, None], w, b, [True, False, False])[0]

    inputs = (grad, x, mean, rstd, weight, bias)
    return Case("layer norm backward", f"{rows} x {columns}",
               lambda: layer_norm_backward_kernel[(rows,)](grad, x, weight, mean, rstd, out, columns,
                                                         BLOCK=triton.next_power_of_2(columns)),
               out, backward(*(t.double() for t in inputs)), 1e-5, {"torch": lambda: backward(*inputs)},
               (backward, inputs))


def rms_norm(rows: int, columns: int) -> Case:
    x, weight = random(rows, columns), random(columns, seed=1)
    out = torch.empty_like(x)
    block = triton.next_power_of_2(columns)
    return Case("rms norm", f"{rows} x {columns}",
               lambda: rms_norm_kernel[(rows,)](x, weight, out, columns, 1e-5, BLOCK=block), out,
               torch.nn.functional.rms_norm(x.double(), (columns,), weight.double(), 1e-5), 2e-6,
               {"torch": lambda: torch.nn.functional.rms_norm(x, (columns,), weight, 1e-5),
                **rival("rms_norm", x, weight, out, np.float32(1e-5))},
               (lambda a, w: torch.nn.functional.rms_norm(a, a.shape[-1:], w, 1e-5), (x, weight)))


def row_sum(rows: int, columns: int) -> Case:
    x = random(rows, columns)
    out = torch.empty(rows)
    block = triton.next_power_of_2(columns)
    return Case("row sum", f"{rows} x {columns}", lambda: row_sum_kernel[(rows,)](x, out, columns, BLOCK=block), out,
               x.double().sum(1), 1e-5, {"torch": lambda: torch.sum(x, 1, out=out), **rival("row_sum", x, out)},
               (lambda a: a.sum(1), (x,)))


def cumsum(rows: int, columns: int) -> Case:
    x = random(rows, columns)
    out = torch.empty_like(x)
    block = triton.next_power_of_2(columns)
    return Case("cumsum", f"{rows} x {columns}", lambda: cumsum_kernel[(rows,)](x, out, columns, BLOCK=block), out,
               x.double().cumsum(1), 1e-5, {"torch": lambda: torch.cumsum(x, 1, out=out)},
               (lambda a: a.cumsum(1), (x,)))


def cross_entropy(rows: int, columns: int) -> Case:
    logits = random(rows, columns)
    target = torch.randint(0, columns, (rows,), generator=torch.Generator().manual_seed(1))
    loss = torch.empty(rows)

    def theirs(a: torch.Tensor, t: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.cross_entropy(a, t, reduction="none")

    return Case("cross-entropy", f"{rows} x {columns}",
               lambda: cross_entropy_kernel[(rows,)](logits, target, loss, columns, BLOCK=2048), loss,
               theirs(logits.double(), target), 1e-5, {"torch": lambda: theirs(logits, target)},
               (theirs, (logits, target)))


CASES: Mapping[str, Sequence[Callable[[], Case]]] = {
    "softmax": [partial(softmax, *shape) for shape in SHAPES],
    "layernorm": [partial(layer_norm, 4096, 1024), partial(layer_norm, 1024, 781)],
    "layernorm-backward": [partial(layer_norm_backward, 4096, 1024), partial(layer_norm_backward, 1024, 781)],
    "rmsnorm": [partial(rms_norm, 4096, 1024), partial(rms_norm, 1024, 781)],
    "rowsum": [partial(row_sum, *shape) for shape in SHAPES],
    "cumsum": [partial(cumsum, 1024, 1024), partial(cumsum, 1024, 781)],
    "cross-entropy": [partial(cross_entropy, 256, 32000)],
}
