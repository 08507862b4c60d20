"""Mistakes as they are made in reductions, normalisations, scans and products: each is found, with its line.

A case is a kernel whose guilty line ends in `# here`, a launch of it, and what the report must say.
"""

import numpy as np
import pytest

import tilewright as triton
import tilewright.language as tl
from tests.check.planted import finds
from tilewright import FootprintError, OutOfBoundsError, UndefinedLaneError
from tilewright.tools.tensor_descriptor import TensorDescriptor


def floats(*shape):
    return np.arange(np.prod(shape), dtype=np.float32).reshape(shape)


def ints(*values):
    return np.array(values, np.int32)


@triton.jit
def maximum_without_other(x, out, n, B: tl.constexpr):
    b = tl.arange(0, B)
    v = tl.load(x + b, mask=b < n)  # other
    tl.store(out, tl.max(v, 0))  # here


@triton.jit
def argmax_without_other(x, out, n, B: tl.constexpr):
    b = tl.arange(0, B)
    v = tl.load(x + b, mask=b < n)  # other
    tl.store(out, tl.argmax(v, 0))  # here


@triton.jit
def mean_of_rows(x, out, rows, columns, M: tl.constexpr, N: tl.constexpr):
    m, n = tl.program_id(0) * M + tl.arange(0, M), tl.arange(0, N)
    mask = (m[:, None] < rows) & (n[None, :] < columns)
    v = tl.load(x + m[:, None] * columns + n[None, :], mask=mask)  # other
    tl.store(out + m, tl.sum(v, 1) / columns, mask=m < rows)  # here


@triton.jit
def variance_of_padding(x, out, n, B: tl.constexpr):
    row, b = tl.program_id(0), tl.arange(0, B)
    v = tl.load(x + row * n + b, mask=b < n)  # other
    mean = tl.sum(tl.where(b < n, v, 0.0)) / n
    d = v - mean
    tl.store(out + row, tl.sum(d * d) / n)  # here


@triton.jit
def softmax_without_infinity(x, out, n, B: tl.constexpr):
    row, b = tl.program_id(0), tl.arange(0, B)
    v = tl.load(x + row * n + b, mask=b < n)  # other
    e = tl.exp(v - tl.max(v, 0))
    tl.store(out + row * n + b, e / tl.sum(e, 0), mask=b < n)  # here


@triton.jit
def softmax_row_stride(x, out, n, stride, B: tl.constexpr):
    row, b = tl.program_id(0), tl.arange(0, B)
    v = tl.load(x + row * stride + b, mask=b < n, other=-float("inf"))  # here
    e = tl.exp(v - tl.max(v, 0))
    tl.store(out + row * n + b, e / tl.sum(e, 0), mask=b < n)


@triton.jit
def online_softmax_last_block(x, out, n, B: tl.constexpr):
    b = tl.arange(0, B)
    best, total = -float("inf"), 0.0
    for start in range(0, n, B):
        v = tl.load(x + start + b)  # here
        now = tl.maximum(best, tl.max(v, 0))
        total = total * tl.exp(best - now) + tl.sum(tl.exp(v - now), 0)
        best = now
    tl.store(out, best + tl.log(total))


@triton.jit
def layer_norm_weights(x, w, out, n, B: tl.constexpr):
    row, b = tl.program_id(0), tl.arange(0, B)
    v = tl.load(x + row * n + b, mask=b < n, other=0.0)
    mean = tl.sum(v, 0) / n
    scale = tl.load(w + b)  # here
    tl.store(out + row * n + b, (v - mean) * scale, mask=b < n)


@triton.jit
def rms_norm_wrong_index(x, w, out, n, B: tl.constexpr):
    row, b = tl.program_id(0), tl.arange(0, B)
    v = tl.load(x + row * n + b, mask=b < n, other=0.0)
    scale = tl.load(w + row * n + b, mask=b < n, other=0.0)  # here
    tl.store(out + row * n + b, v * tl.rsqrt(tl.sum(v * v, 0) / n + 1e-5) * scale, mask=b < n)


@triton.jit
def cumsum_of_padding(x, out, n, B: tl.constexpr):
    b = tl.arange(0, B)
    v = tl.load(x + n - 1 - b, mask=b < n)  # other
    tl.store(out + b, tl.cumsum(v, 0, reverse=True), mask=b < n)  # here


@triton.jit
def histogram_of_padding(x, out, n, B: tl.constexpr):
    b = tl.arange(0, B)
    v = tl.load(x + b, mask=b < n)  # other
    tl.store(out + tl.arange(0, 8), tl.histogram(v, 8))  # here


@triton.jit
def sorted_padding(x, out, n, B: tl.constexpr):
    b = tl.arange(0, B)
    v = tl.load(x + b, mask=b < n)  # other
    tl.store(out + b, tl.sort(v, descending=True), mask=b < n)  # here


@triton.jit
def cross_entropy_ignored_label(logits, labels, out, n, B: tl.constexpr):
    row, b = tl.program_id(0), tl.arange(0, B)
    label = tl.load(labels + row)
    v = tl.load(logits + row * n + b, mask=b < n, other=-float("inf"))
    best = tl.max(v, 0)
    norm = best + tl.log(tl.sum(tl.exp(v - best), 0))
    tl.store(out + row, norm - tl.load(logits + row * n + label))  # here


@triton.jit
def dropout_mask_of_rows(x, keep, out, n, B: tl.constexpr):
    b = tl.program_id(0) * B + tl.arange(0, B)
    kept = tl.load(keep + b, mask=b < n) != 0  # other
    v = tl.load(x + b, mask=kept, other=0.0)  # here
    tl.store(out + b, v, mask=b < n)


@triton.jit
def matmul_without_k_mask(a, b, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    m, n, ks = tl.arange(0, BM), tl.arange(0, BN), tl.arange(0, BK)
    acc = tl.zeros((BM, BN), tl.float32)
    for k in range(0, K, BK):
        x = tl.load(a + m[:, None] * K + (k + ks)[None, :], mask=m[:, None] < M, other=0.0)  # here
        y = tl.load(b + (k + ks)[:, None] * N + n[None, :], mask=(k + ks)[:, None] < K, other=0.0)
        acc += tl.dot(x, y)
    tl.store(c + m[:, None] * N + n[None, :], acc, mask=(m[:, None] < M) & (n[None, :] < N))


@triton.jit
def matmul_mask_of_first_block(a, b, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    m, n, ks = tl.arange(0, BM), tl.arange(0, BN), tl.arange(0, BK)
    acc = tl.zeros((BM, BN), tl.float32)
    for k in range(0, K, BK):
        x = tl.load(a + m[:, None] * K + (k + ks)[None, :], mask=(m[:, None] < M) & ((k + ks)[None, :] < K), other=0.0)
        y = tl.load(b + (k + ks)[:, None] * N + n[None, :], mask=(ks < K)[:, None] & (n < N)[None, :], other=0)  # here
        acc += tl.dot(x, y)
    tl.store(c + m[:, None] * N + n[None, :], acc, mask=(m[:, None] < M) & (n[None, :] < N))


@triton.jit
def matmul_without_other(a, b, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    m, n, ks = tl.arange(0, BM), tl.arange(0, BN), tl.arange(0, BK)
    acc = tl.zeros((BM, BN), tl.float32)
    for k in range(0, K, BK):
        x = tl.load(a + m[:, None] * K + (k + ks)[None, :], mask=(m[:, None] < M) & ((k + ks)[None, :] < K))  # other
        y = tl.load(b + (k + ks)[:, None] * N + n[None, :], mask=((k + ks)[:, None] < K) & (n[None, :] < N), other=0.0)
        acc += tl.dot(x, y)
    tl.store(c + m[:, None] * N + n[None, :], acc, mask=(m[:, None] < M) & (n[None, :] < N))  # here


@triton.jit
def matmul_transposed_operand(a, b, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    m, n, ks = tl.arange(0, BM), tl.arange(0, BN), tl.arange(0, BK)
    x = tl.load(a + m[:, None] * K + ks[None, :], mask=(m[:, None] < M) & (ks[None, :] < K), other=0.0)
    y = tl.load(b + ks[:, None] + n[None, :] * K, mask=(ks[:, None] < N) & (n[None, :] < N), other=0.0)  # here
    tl.store(c + m[:, None] * N + n[None, :], tl.dot(x, y), mask=(m[:, None] < M) & (n[None, :] < N))


@triton.jit
def matmul_row_stride_of_c(a, b, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    m, n, ks = tl.arange(0, BM), tl.arange(0, BN), tl.arange(0, BK)
    x = tl.load(a + m[:, None] * K + ks[None, :], mask=(m[:, None] < M) & (ks[None, :] < K), other=0.0)
    y = tl.load(b + ks[:, None] * N + n[None, :], mask=(ks[:, None] < K) & (n[None, :] < N), other=0.0)
    tl.store(c + m[:, None] * K + n[None, :], tl.dot(x, y), mask=(m[:, None] < M) & (n[None, :] < N))  # here


@triton.jit
def pointers_advanced_once_more(a, out, K, B: tl.constexpr):
    p = a + tl.arange(0, B)
    total = tl.load(p)
    for _ in range(0, K, B):
        p += B
        total += tl.load(p)  # here
    tl.store(out + tl.arange(0, B), total)


@triton.jit
def attention_keys_unmasked(q, k, out, n, D: tl.constexpr, B: tl.constexpr):
    i, d = tl.arange(0, B), tl.arange(0, D)
    x = tl.load(q + i[:, None] * D + d[None, :], mask=i[:, None] < n, other=0.0)
    y = tl.load(k + i[None, :] * D + d[:, None])  # here
    s = tl.where(i[None, :] < n, tl.dot(x, y), -float("inf"))
    tl.store(out + i, tl.max(s, 1), mask=i < n)


@triton.jit
def attention_heads_mixed(q, out, heads, length, D: tl.constexpr):
    head, row, d = tl.program_id(0), tl.program_id(1), tl.arange(0, D)
    at = (row * length + head) * D + d
    tl.store(out + (head * length + row) * D + d, tl.load(q + at))  # here


@triton.jit
def convolution_padding(x, w, out, n, width, B: tl.constexpr):
    b = tl.arange(0, B)
    total = tl.zeros((B,), tl.float32)
    for k in range(width):
        at = b + k - width // 2
        total += tl.load(w + k) * tl.load(x + at, mask=at < n, other=0.0)  # here
    tl.store(out + b, total, mask=b < n)


@triton.jit
def pooling_window(x, out, n, B: tl.constexpr):
    b, w = tl.arange(0, B), tl.arange(0, 4)
    v = tl.load(x + b[:, None] * 4 + w[None, :], mask=(b < n // 4 + 1)[:, None], other=-float("inf"))  # here
    tl.store(out + b, tl.max(v, 1), mask=b < n // 4)


@triton.jit
def block_pointer_unchecked(x, out, rows, columns, M: tl.constexpr, N: tl.constexpr):
    p = tl.make_block_ptr(x, (rows, columns), (columns, 1), (0, 0), (M, N), (1, 0))
    v = tl.load(p, boundary_check=(0,), padding_option="zero")  # here
    tl.store(out + tl.arange(0, M)[:, None] * N + tl.arange(0, N)[None, :], v)


@triton.jit
def block_pointer_shape(x, out, rows, columns, M: tl.constexpr, N: tl.constexpr):
    p = tl.make_block_ptr(x, (columns, rows), (columns, 1), (0, 0), (M, N), (1, 0))
    v = tl.load(p, boundary_check=(0, 1), padding_option="zero")  # here
    tl.store(out + tl.arange(0, M)[:, None] * N + tl.arange(0, N)[None, :], v)


@triton.jit
def descriptor_shape_too_large(x, out, rows, columns, M: tl.constexpr, N: tl.constexpr):
    d = tl.make_tensor_descriptor(x, [rows + 1, columns], [columns, 1], [M, N])
    v = d.load([0, 0])  # here
    tl.store(out + tl.arange(0, M)[:, None] * N + tl.arange(0, N)[None, :], v)


@triton.jit
def host_descriptor_stride(desc, out, M: tl.constexpr, N: tl.constexpr):
    v = desc.load([2, 0])  # here
    tl.store(out + tl.arange(0, M)[:, None] * N + tl.arange(0, N)[None, :], v)


@triton.jit
def descriptor_store_into_a_view(desc, M: tl.constexpr, N: tl.constexpr):
    desc.store([0, 0], tl.zeros((M, N), tl.float32))  # here


OUT, LANE = OutOfBoundsError, UndefinedLaneError
ROW = {"B": 16}
MATMUL = {"BM": 4, "BN": 8, "BK": 4}
A, B, C = floats(4, 6), floats(6, 8), floats(4, 8)
CASES = {
    "maximum": (LANE, maximum_without_other, (1,), (floats(10), floats(1), 10), ROW, "out", 0, 0),
    "argmax": (LANE, argmax_without_other, (1,), (floats(10), ints(0), 10), ROW, "out", 0, 0),
    "mean": (LANE, mean_of_rows, (2,), (floats(6, 5), floats(6), 6, 5), {"M": 4, "N": 8}, "out", 0, 0),
    "variance": (LANE, variance_of_padding, (2,), (floats(2, 10), floats(2), 10), ROW, "out", 0, 0),
    "softmax": (LANE, softmax_without_infinity, (2,), (floats(2, 10), floats(2, 10), 10), ROW, "out", 0, 0),
    "row stride": (OUT, softmax_row_stride, (3,), (floats(3, 10), floats(3, 10), 10, 11), ROW, "x", 30, 2),
    "last block": (OUT, online_softmax_last_block, (1,), (floats(40), floats(1), 40), ROW, "x", 40, 0),
    "weights": (OUT, layer_norm_weights, (2,), (floats(2, 10), floats(10), floats(2, 10), 10), ROW, "w", 10, 0),
    "weight row": (OUT, rms_norm_wrong_index, (2,), (floats(2, 10), floats(10), floats(2, 10), 10), ROW, "w", 10, 1),
    "cumsum": (LANE, cumsum_of_padding, (1,), (floats(10), floats(10), 10), ROW, "out", 0, 0),
    "histogram": (LANE, histogram_of_padding, (1,), (ints(*range(7)), ints(*range(8)), 7), ROW, "out", None, 0),
    "sort": (LANE, sorted_padding, (1,), (floats(10), floats(10), 10), ROW, "out", None, 0),
    "label": (OUT, cross_entropy_ignored_label, (2,), (floats(2, 10), ints(-100, 3), floats(2), 10), ROW, "logits",
              -100, 0),
    "dropout": (LANE, dropout_mask_of_rows, (1,), (floats(16), ints(*range(10)), floats(10), 10), ROW, None, None, 0),
    "k mask": (OUT, matmul_without_k_mask, (1,), (A, B, C, 4, 8, 6), MATMUL, "a", 24, 0),
    "k of first block": (OUT, matmul_mask_of_first_block, (1,), (A, B, C, 4, 8, 6), MATMUL, "b", 48, 0),
    "dot": (LANE, matmul_without_other, (1,), (A, B, C, 4, 8, 6), MATMUL, "c", 0, 0),
    "operand": (OUT, matmul_transposed_operand, (1,), (A, B, C, 4, 8, 6), {"BM": 4, "BN": 8, "BK": 8}, "b", 48, 0),
    "stride of c": (OUT, matmul_row_stride_of_c, (1,), (floats(4, 16), floats(16, 8), C, 4, 8, 16),
                    {"BM": 4, "BN": 8, "BK": 16}, "c", 32, 0),
    "advance": (OUT, pointers_advanced_once_more, (1,), (floats(64), floats(16), 64), ROW, "a", 64, 0),
    "keys": (OUT, attention_keys_unmasked, (1,), (floats(12, 4), floats(12, 4), floats(12), 12), {"D": 4, "B": 16}, "k",
             48, 0),
    "heads": (OUT, attention_heads_mixed, (2, 6), (floats(2, 6, 4), floats(48), 2, 6), {"D": 4}, "q", None, None),
    "padding": (OUT, convolution_padding, (1,), (floats(16), floats(3), floats(16), 16, 3), ROW, "x", -1, 0),
    "pooling": (OUT, pooling_window, (1,), (floats(32), floats(8), 32), ROW, "x", 32, 0),
    "boundary check": (OUT, block_pointer_unchecked, (1,), (floats(4, 6), floats(4, 8), 4, 6),
                       {"M": 4, "N": 8}, "x", 24, 0),
    "block pointer": (OUT, block_pointer_shape, (1,), (floats(4, 6), floats(8, 4), 4, 6), {"M": 8, "N": 4}, "x", 24, 0),
    "descriptor": (OUT, descriptor_shape_too_large, (1,), (floats(3, 8), floats(4, 8), 3, 8),
                   {"M": 4, "N": 8}, "x", 24, 0),
    "host descriptor": (OUT, host_descriptor_stride, (1,), (TensorDescriptor(floats(3, 8), [4, 8], [8, 1], [2, 8]),
                                                            floats(2, 8)), {"M": 2, "N": 8}, "desc", 24, 0),
    "view": (FootprintError, descriptor_store_into_a_view, (1,),
             (TensorDescriptor(floats(8, 16)[:, :6], [4, 8], [16, 1], [4, 8]),), {"M": 4, "N": 8}, "desc", 6, 0),
}


@pytest.mark.parametrize("case", CASES)
def test_it_is_found(case):
    kind, kernel, grid, args, kwargs, argument, index, program = CASES[case]
    program = (program, 0, 0) if isinstance(program, int) else program
    args = [a.copy() if isinstance(a, np.ndarray) else a for a in args]
    finds(kind, kernel, grid, *args, argument=argument, index=index, program=program, **kwargs)
