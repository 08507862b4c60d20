"""tl.dot on every engine, any M, N, K >= 1, against NumPy in float64."""

import numpy as np
import pytest

import tilewright as triton
import tilewright.language as tl
from tests.departures import differs


@triton.jit
def dot(out, a, b, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    m = tl.arange(0, M)
    n = tl.arange(0, N)
    k = tl.arange(0, K)
    x = tl.load(a + m[:, None] * K + k[None, :])
    y = tl.load(b + k[:, None] * N + n[None, :])
    tl.store(out + m[:, None] * N + n[None, :], tl.dot(x, y))


@triton.jit
def dot_acc(out, a, b, c, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr, STYLE: tl.constexpr):
    m = tl.arange(0, M)
    n = tl.arange(0, N)
    k = tl.arange(0, K)
    acc = tl.load(c + m[:, None] * N + n[None, :])
    for _ in range(3):
        x = tl.load(a + m[:, None] * K + k[None, :])
        y = tl.load(b + k[:, None] * N + n[None, :])
        if STYLE == "acc":
            acc = tl.dot(x, y, acc)
        else:
            acc += tl.dot(x, y)
    tl.store(out + m[:, None] * N + n[None, :], acc)


@triton.jit
def dot_transposed(out, a, b, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    m = tl.arange(0, M)
    n = tl.arange(0, N)
    k = tl.arange(0, K)
    x = tl.load(a + k[:, None] * M + m[None, :])
    y = tl.load(b + n[:, None] * K + k[None, :])
    tl.store(out + m[:, None] * N + n[None, :], tl.dot(tl.trans(x), y.T))


@triton.jit
def batched(out, a, b, L: tl.constexpr, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    i = tl.arange(0, L)[:, None, None]
    m = tl.arange(0, M)
    n = tl.arange(0, N)
    k = tl.arange(0, K)
    x = tl.load(a + i * (M * K) + m[None, :, None] * K + k[None, None, :])
    y = tl.load(b + i * (K * N) + k[None, :, None] * N + n[None, None, :])
    tl.store(out + i * (M * N) + m[None, :, None] * N + n[None, None, :], tl.dot(x, y, input_precision="ieee"))


@triton.jit
def matmul(a, b, c, M, N, K, stride_am, stride_ak, stride_bk, stride_bn, stride_cm, stride_cn,
           BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, GROUP: tl.constexpr):
    pid = tl.program_id(axis=0)
    num_pid_m = tl.cdiv(M, BLOCK_M)
    num_pid_n = tl.cdiv(N, BLOCK_N)
    num_pid_in_group = GROUP * num_pid_n
    group_id = pid // num_pid_in_group
    first_pid_m = group_id * GROUP
    group_size_m = min(num_pid_m - first_pid_m, GROUP)
    pid_m = first_pid_m + ((pid % num_pid_in_group) % group_size_m)
    pid_n = (pid % num_pid_in_group) // group_size_m
    offs_am = (pid_m * BLOCK_M + tl.arange(0, BLOCK_M)) % M
    offs_bn = (pid_n * BLOCK_N + tl.arange(0, BLOCK_N)) % N
    offs_k = tl.arange(0, BLOCK_K)
    a_ptrs = a + (offs_am[:, None] * stride_am + offs_k[None, :] * stride_ak)
    b_ptrs = b + (offs_k[:, None] * stride_bk + offs_bn[None, :] * stride_bn)
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for k in range(tl.cdiv(K, BLOCK_K)):
        x = tl.load(a_ptrs, mask=offs_k[None, :] < K - k * BLOCK_K, other=0.0)
        y = tl.load(b_ptrs, mask=offs_k[:, None] < K - k * BLOCK_K, other=0.0)
        acc = tl.dot(x, y, acc)
        a_ptrs += BLOCK_K * stride_ak
        b_ptrs += BLOCK_K * stride_bk
    offs_cm = pid_m * BLOCK_M + tl.arange(0, BLOCK_M)
    offs_cn = pid_n * BLOCK_N + tl.arange(0, BLOCK_N)
    mask = (offs_cm[:, None] < M) & (offs_cn[None, :] < N)
    tl.store(c + stride_cm * offs_cm[:, None] + stride_cn * offs_cn[None, :], acc.to(c.dtype.element_ty), mask=mask)


SHAPES = [(16, 16, 16), (64, 32, 16), (1, 16, 32), (16, 1, 16), (8, 16, 1), (3, 5, 7), (33, 17, 20), (1, 1, 1)]


@differs("`tl.dot` takes tiles of any size", topic="Shapes",
         peer="K must be 16 or more (by type, on NVIDIA GPUs), all sizes powers of two.",
         ours="M, N and K of 1 and more.")
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.float64])
def test_floats(launch, shape, dtype):
    m, n, k = shape
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((m, k)).astype(dtype), rng.standard_normal((k, n)).astype(dtype)
    out = np.zeros((m, n), np.float64 if dtype is np.float64 else np.float32)
    launch(dot, (1,), out, a, b, M=m, N=n, K=k)
    exact = a.astype(np.float64) @ b.astype(np.float64)
    bound = np.abs(a).astype(np.float64) @ np.abs(b).astype(np.float64)
    eps = np.finfo(out.dtype).eps
    assert (np.abs(out - exact) <= 4 * eps * max(1, np.log2(k) + 4) * bound + 1e-300).all()


@differs("int8 products do not wrap in the interpreter")
@pytest.mark.parametrize("shape", SHAPES + [(128, 64, 64)])
def test_int8_does_not_wrap_in_int8(launch, shape):
    m, n, k = shape
    rng = np.random.default_rng(1)
    a, b = (rng.integers(-128, 128, s).astype(np.int8) for s in ((m, k), (k, n)))
    out = np.zeros((m, n), np.int32)
    launch(dot, (1,), out, a, b, M=m, N=n, K=k)
    np.testing.assert_array_equal(out, a.astype(np.int32) @ b.astype(np.int32))


@pytest.mark.parametrize("style", ["acc", "plus"])
@pytest.mark.parametrize("block", [16, 32, 64, 128])
def test_accumulate_int8(launch, style, block):
    rng = np.random.default_rng(2)
    a, b = (rng.integers(-128, 128, s).astype(np.int8) for s in ((block, 32), (32, 16)))
    c = rng.integers(-99, 99, (block, 16)).astype(np.int32)
    out = np.zeros_like(c)
    launch(dot_acc, (1,), out, a, b, c, M=block, N=16, K=32, STYLE=style)
    np.testing.assert_array_equal(out, c + 3 * (a.astype(np.int32) @ b.astype(np.int32)))


@pytest.mark.parametrize("style", ["acc", "plus"])
def test_accumulate_float(launch, style):
    rng = np.random.default_rng(2)
    a, b, c = (rng.standard_normal(s).astype(np.float32) for s in ((24, 32), (32, 40), (24, 40)))
    out = np.zeros_like(c)
    launch(dot_acc, (1,), out, a, b, c, M=24, N=40, K=32, STYLE=style)
    np.testing.assert_allclose(out, c + 3 * (a @ b), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("shape", [(16, 16, 16), (8, 40, 12)])
def test_transposed_operands(launch, shape):
    m, n, k = shape
    rng = np.random.default_rng(4)
    a, b = rng.integers(-9, 9, (k, m)).astype(np.float32), rng.integers(-9, 9, (n, k)).astype(np.float32)
    out = np.zeros((m, n), np.float32)
    launch(dot_transposed, (1,), out, a, b, M=m, N=n, K=k)
    np.testing.assert_array_equal(out, a.T @ b.T)


def test_batched(launch):
    rng = np.random.default_rng(5)
    a, b = rng.integers(-9, 9, (3, 8, 4)).astype(np.float32), rng.integers(-9, 9, (3, 4, 16)).astype(np.float32)
    out = np.zeros((3, 8, 16), np.float32)
    launch(batched, (1,), out, a, b, L=3, M=8, N=16, K=4)
    np.testing.assert_array_equal(out, a @ b)


@pytest.mark.parametrize("shape", [(64, 64, 64), (70, 33, 45), (1, 130, 7)])
@pytest.mark.parametrize("dtype", [np.float32, np.float16])
@pytest.mark.parametrize("transposed", [False, True])
def test_tiled_matmul(launch, shape, dtype, transposed):
    m, n, k = shape
    rng = np.random.default_rng(6)
    a = rng.integers(-4, 5, (m, k)).astype(dtype)
    b = rng.integers(-4, 5, (n, k) if transposed else (k, n)).astype(dtype)
    b = b.T if transposed else b
    c = np.zeros((m, n), dtype)
    strides = [s // v.itemsize for v in (a, b, c) for s in v.strides]
    grid = (triton.cdiv(m, 32) * triton.cdiv(n, 32),)
    launch(matmul, grid, a, b, c, m, n, k, *strides, BLOCK_M=32, BLOCK_N=32, BLOCK_K=16, GROUP=2)
    np.testing.assert_array_equal(c, (a.astype(np.float32) @ b.astype(np.float32)).astype(dtype))


@triton.jit
def powers(out, a, b, n, N: tl.constexpr, STYLE: tl.constexpr, LOOP: tl.constexpr):
    """Products that go round a loop and are operands of the next ones."""
    i = tl.arange(0, N)
    at = i[:, None] * N + i[None, :]
    x, y = tl.load(a + at), tl.load(b + at)
    if LOOP == "for":
        for _ in range(n):
            x, y = next_powers(x, y, STYLE)
    else:
        k = 0
        while k < n:
            x, y = next_powers(x, y, STYLE)
            k += 1
    tl.store(out + at, x)
    tl.store(out + N * N + at, y)


@triton.jit
def next_powers(x, y, STYLE: tl.constexpr):
    if STYLE == "left":
        return tl.dot(x, y), y
    elif STYLE == "right":
        return x, tl.dot(x, y)
    elif STYLE == "square":
        return tl.dot(x, x), y
    elif STYLE == "sum":
        return tl.dot(x, y, x), y
    elif STYLE == "transposed":
        return tl.dot(tl.trans(x), y), y
    elif STYLE == "both":
        return tl.dot(x, y), tl.dot(y, x)
    elif STYLE == "swapped":
        return y, tl.dot(y, x)
    else:
        return tl.dot(tl.dot(x, y), x, y), x


NEXT = {"left": lambda x, y: (x @ y, y), "right": lambda x, y: (x, x @ y), "square": lambda x, y: (x @ x, y),
        "sum": lambda x, y: (x @ y + x, y), "transposed": lambda x, y: (x.T @ y, y),
        "both": lambda x, y: (x @ y, y @ x), "swapped": lambda x, y: (y, y @ x),
        "twice": lambda x, y: (x @ y @ x + y, x)}


@pytest.mark.parametrize("loop", ["for", "while"])
@pytest.mark.parametrize("style", NEXT)
def test_a_product_that_is_an_operand_of_the_next(launch, style, loop):
    rng = np.random.default_rng(7)
    for n in (3, 16):
        a, b = (rng.integers(-1, 2, (n, n)).astype(np.float32) for _ in range(2))
        out = np.zeros((2, n, n), np.float32)
        launch(powers, (1,), out, a, b, 2, N=n, STYLE=style, LOOP=loop)
        x, y = a, b
        for _ in range(2):
            x, y = NEXT[style](x, y)
        np.testing.assert_array_equal(out, np.stack([x, y]))


@triton.jit
def products_of_products(blocks, out, FORM: tl.constexpr):
    r = tl.arange(0, 16)
    a = tl.zeros((16, 16), tl.float32)
    b = tl.zeros((16, 16), tl.float32)
    for i in range(3):
        x = tl.load(blocks + r[:, None] * 48 + (i * 16 + r)[None, :])
        y = tl.load(blocks + (i * 16 + r)[:, None] * 16 + r[None, :])
        if FORM == 0:
            a = tl.dot(x, y, b)
            b = tl.dot(x, y, a * 2)
        elif FORM == 1:
            b, a = a, tl.dot(x, y, b)
            b = tl.dot(x, y, a * 2)
        elif FORM == 2:
            a, b = tl.dot(x, y, b), a
        elif FORM == 3:
            a = tl.dot(x, y, b)
            b = tl.dot(x, y, a) - a
        else:
            a = tl.dot(x, y, b)
            b = tl.dot(x, y, tl.trans(a))
    tl.store(out + r[:, None] * 16 + r[None, :], a)
    tl.store(out + 256 + r[:, None] * 16 + r[None, :], b)


@pytest.mark.parametrize("form", range(5))
def test_a_product_whose_sums_another_one_starts_from_keeps_them(launch, form):
    blocks = np.random.default_rng(0).integers(-2, 3, 768).astype(np.float32)
    out = np.zeros((2, 16, 16), np.float32)
    launch(products_of_products, (1,), blocks, out, FORM=form)
    a, b = np.zeros((2, 16, 16), np.float32)
    for i in range(3):
        p = blocks.reshape(16, 48)[:, 16 * i:16 * i + 16] @ blocks.reshape(48, 16)[16 * i:16 * i + 16]
        if form < 2:
            a = p + b
            b = p + 2 * a
        elif form == 2:
            a, b = p + b, a
        elif form == 3:
            a = p + b
            b = p
        else:
            a = p + b
            b = p + a.T
    assert np.array_equal(out[0], a) and np.array_equal(out[1], b)
