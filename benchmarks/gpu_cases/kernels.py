"""The kernels of benchmarks/gpu.py as a program for triton would write them; loaded once for each package.

The names `triton` and `tl` come from the import below, which the benchmark leads to one package or the other.
"""

import triton
import triton.language as tl


@triton.jit
def add(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    x = tl.load(x_ptr + offsets, mask=mask)
    y = tl.load(y_ptr + offsets, mask=mask)
    tl.store(out_ptr + offsets, x + y, mask=mask)


@triton.jit
def affine_relu(x_ptr, weight_ptr, bias_ptr, out_ptr, n, columns, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    column = offsets % columns
    x = tl.load(x_ptr + offsets, mask=mask)
    weight = tl.load(weight_ptr + column, mask=mask)
    bias = tl.load(bias_ptr + column, mask=mask)
    tl.store(out_ptr + offsets, tl.maximum(x * weight + bias, 0.0), mask=mask)


@triton.jit
def softmax(x_ptr, out_ptr, x_stride, out_stride, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    offsets = tl.arange(0, BLOCK)
    mask = offsets < columns
    x = tl.load(x_ptr + row * x_stride + offsets, mask=mask, other=-float("inf")).to(tl.float32)
    e = tl.exp(x - tl.max(x, axis=0))
    y = e / tl.sum(e, axis=0)
    tl.store(out_ptr + row * out_stride + offsets, y.to(out_ptr.dtype.element_ty), mask=mask)


@triton.jit
def layer_norm(x_ptr, weight_ptr, bias_ptr, out_ptr, stride, columns, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    offsets = tl.arange(0, BLOCK)
    mask = offsets < columns
    x = tl.load(x_ptr + row * stride + offsets, mask=mask, other=0.0).to(tl.float32)
    mean = tl.sum(x, axis=0) / columns
    centred = tl.where(mask, x - mean, 0.0)
    variance = tl.sum(centred * centred, axis=0) / columns
    normal = centred / tl.sqrt(variance + eps)
    weight = tl.load(weight_ptr + offsets, mask=mask).to(tl.float32)
    bias = tl.load(bias_ptr + offsets, mask=mask).to(tl.float32)
    tl.store(out_ptr + row * stride + offsets, (normal * weight + bias).to(out_ptr.dtype.element_ty), mask=mask)


@triton.jit
def matmul(a_ptr, b_ptr, c_ptr, M, N, K, a_row, a_col, b_row, b_col, c_row, c_col,
           BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, GROUP: tl.constexpr):
    program = tl.program_id(0)
    rows, columns = tl.cdiv(M, BLOCK_M), tl.cdiv(N, BLOCK_N)
    in_group = GROUP * columns
    group = program // in_group
    first = group * GROUP
    size = min(rows - first, GROUP)
    row = first + (program % in_group) % size
    column = (program % in_group) // size
    m = (row * BLOCK_M + tl.arange(0, BLOCK_M)) % M
    n = (column * BLOCK_N + tl.arange(0, BLOCK_N)) % N
    k = tl.arange(0, BLOCK_K)
    a = a_ptr + m[:, None] * a_row + k[None, :] * a_col
    b = b_ptr + k[:, None] * b_row + n[None, :] * b_col
    accumulator = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for step in range(tl.cdiv(K, BLOCK_K)):
        left = tl.load(a, mask=k[None, :] < K - step * BLOCK_K, other=0.0)
        right = tl.load(b, mask=k[:, None] < K - step * BLOCK_K, other=0.0)
        accumulator = tl.dot(left, right, accumulator)
        a += BLOCK_K * a_col
        b += BLOCK_K * b_row
    m = row * BLOCK_M + tl.arange(0, BLOCK_M)
    n = column * BLOCK_N + tl.arange(0, BLOCK_N)
    c = c_ptr + m[:, None] * c_row + n[None, :] * c_col
    tl.store(c, accumulator.to(c_ptr.dtype.element_ty), mask=(m[:, None] < M) & (n[None, :] < N))
