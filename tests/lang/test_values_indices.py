"""Numbers that a program computes of an index, beside the index itself, in addresses: each has its own value."""

import numpy as np
import pytest

import tilewright as triton
import tilewright.language as tl

FUNCTIONS = {
    "rem": lambda i, n: i % n, "div": lambda i, n: i // n, "min": lambda i, n: min(i, n), "max": lambda i, n: max(i, n),
    "and": lambda i, n: i & n, "or": lambda i, n: i | n, "xor": lambda i, n: i ^ n, "shl": lambda i, n: i << n,
    "shr": lambda i, n: i >> n, "where": lambda i, n: n if i > n else i + 1, "int64": lambda i, n: i % (n + 1),
    "int16": lambda i, n: i + n}


@triton.jit
def computed(i, n, WHAT: tl.constexpr):
    if WHAT == "rem":
        k = i % n
    elif WHAT == "div":
        k = i // n
    elif WHAT == "min":
        k = tl.minimum(i, n)
    elif WHAT == "max":
        k = tl.maximum(i, n)
    elif WHAT == "and":
        k = i & n
    elif WHAT == "or":
        k = i | n
    elif WHAT == "xor":
        k = i ^ n
    elif WHAT == "shl":
        k = i << n
    elif WHAT == "shr":
        k = i >> n
    elif WHAT == "where":
        k = tl.where(i > n, n, i + 1)
    elif WHAT == "int64":
        k = (i.to(tl.int64) % (n + 1)).to(tl.int32)
    else:
        k = (i + n).to(tl.int16).to(tl.int32)
    return k


@triton.jit
def scalars(x, out, n, B: tl.constexpr, WHAT: tl.constexpr):
    i = tl.program_id(0)
    k = computed(i, n, WHAT)
    d = tl.arange(0, B)
    tl.store(out + i * B + d, tl.load(x + k * B + d) + tl.load(x + i * B + d))


@triton.jit
def tiles(x, out, n, N: tl.constexpr, B: tl.constexpr, WHAT: tl.constexpr):
    i = tl.arange(0, N)[:, None]
    k = computed(i, n, WHAT)
    d = tl.arange(0, B)[None, :]
    tl.store(out + i * B + d, tl.load(x + k * B + d) + tl.load(x + i * B + d))


@pytest.mark.parametrize("n", [2, 3, 5])
@pytest.mark.parametrize("what", FUNCTIONS)
def test_numbers_of_an_index(launch, what, n):
    x = np.arange(256 * 16, dtype=np.float32)
    rows = x.reshape(256, 16)
    want = np.stack([rows[FUNCTIONS[what](i, n)] + rows[i] for i in range(8)])
    for kernel, grid, constants in ((scalars, (8,), {}), (tiles, (1,), {"N": 8})):
        out = np.zeros((8, 16), np.float32)
        launch(kernel, grid, x, out, n, B=16, WHAT=what, **constants)
        np.testing.assert_array_equal(out, want)
