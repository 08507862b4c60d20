"""Where barriers stand around scratch in shared memory; a missing one is a race that the PTX machine reports."""

import numpy as np
import pytest

import tilewright as triton
import tilewright.language as tl
from tilewright.testing import ptx_machine


@triton.jit
def softmax(x, out, N: tl.constexpr):
    row = tl.load(x + tl.program_id(0) * N + tl.arange(0, N))
    e = tl.exp(row - tl.max(row, 0))
    tl.store(out + tl.program_id(0) * N + tl.arange(0, N), e / tl.sum(e, 0))


@triton.jit
def chain(x, out, N: tl.constexpr, M: tl.constexpr):
    n, m = tl.arange(0, N), tl.arange(0, M)
    tile = tl.load(x + n[:, None] * M + m[None, :])
    a = tl.sum(tile, 0)                                     # small
    b = tl.trans(tile) + a[:, None]                         # large: the whole tile in another order
    c = tl.max(b, 1)
    d = tl.min(b, 0)
    e = tl.cumsum(c, 0)
    f = tl.sum(d, 0) + tl.sum(e, 0)
    tl.store(out + m[:, None] * N + n[None, :], b + c[:, None] + d[None, :] + e[:, None] + f)


@triton.jit
def looped(x, out, count, N: tl.constexpr):
    n = tl.arange(0, N)
    row = tl.load(x + n)
    total = tl.sum(row, 0)
    for i in range(count):
        row = row + tl.max(row, 0)
        if i % 2 == 0:
            total += tl.sum(row, 0)
        row = row - tl.min(row, 0)
    tl.store(out + n, row + total + tl.sum(row, 0))


def barriers(code):
    return code.texts["ptx"].count("bar.sync")


@pytest.mark.parametrize("seed", range(4))
def test_uses_in_turn_need_one_barrier_each(seed):
    x = np.random.default_rng(0).standard_normal((2, 256)).astype(np.float32)
    out = np.zeros_like(x)
    code = ptx_machine.run(softmax, (2,), (x, out), {"N": 256}, seed=seed)
    want = np.exp(x - x.max(1, keepdims=True))
    np.testing.assert_allclose(out, want / want.sum(1, keepdims=True), rtol=1e-5)
    assert barriers(code) == 2
    assert code.metadata["shared"] == 128 + 16


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("warps", [1, 4])
def test_uses_of_all_sizes(seed, warps):
    x = np.random.default_rng(0).integers(-8, 8, (64, 32)).astype(np.float32)
    out = np.zeros((32, 64), np.float32)
    ptx_machine.run(chain, (1,), (x, out), {"N": 64, "M": 32, "num_warps": warps}, seed=seed)
    b = x.T + x.sum(0)[:, None]
    c, d = b.max(1), b.min(0)
    e = np.cumsum(c)
    np.testing.assert_array_equal(out, b + c[:, None] + d[None, :] + e[:, None] + d.sum() + e.sum())


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("count", [0, 1, 3])
def test_loops_and_branches(seed, count):
    x = np.random.default_rng(0).integers(-8, 8, 256).astype(np.float32)
    out = np.zeros_like(x)
    ptx_machine.run(looped, (1,), (x, out, count), {"N": 256}, seed=seed)
    row, total = x.copy(), x.sum()
    for i in range(count):
        row = row + row.max()
        total += row.sum() if i % 2 == 0 else 0
        row = row - row.min()
    np.testing.assert_array_equal(out, row + total + row.sum())
