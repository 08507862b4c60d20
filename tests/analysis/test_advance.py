"""How far tiles move in an iteration."""

import numpy as np
import pytest

import tilewright as triton
import tilewright.language as tl
from tests.targets.nvidia.harness import tile_ir
from tilewright.analysis.advance import Advance, Advances
from tilewright.ir.walk import ops_in


@triton.jit
def by_index(x, row, n, BY: tl.constexpr, N: tl.constexpr):
    for j in range(3, n, BY):
        tl.store(x + row * n + (j * 4 + tl.arange(0, N) * 2), j)


@triton.jit
def by_pointer(x, row, n, BY: tl.constexpr, N: tl.constexpr):
    p = x + row + tl.arange(0, N)[:, None] * 3 + tl.arange(0, 2)[None, :]
    for j in range(n):
        tl.store(p, j)
        p += BY
        p += 1


@triton.jit
def by_run_time(x, row, n, BY: tl.constexpr, N: tl.constexpr):
    for j in range(0, n, BY):
        tl.store(x + tl.arange(0, N) * row + j, j)


@triton.jit
def by_run_time_step(x, row, n, BY: tl.constexpr, N: tl.constexpr):
    for j in range(0, n, row):
        tl.store(x + tl.arange(0, N) + j, j)


@triton.jit
def backwards(x, row, n, BY: tl.constexpr, N: tl.constexpr):
    for j in range(0, n, BY):
        tl.store(x + (n - j) + tl.arange(0, N), j)


@triton.jit
def by_turns(x, row, n, BY: tl.constexpr, N: tl.constexpr):
    p = x + tl.arange(0, N)
    q = x + row + tl.arange(0, N)
    for j in range(n):
        tl.store(p, j)
        p, q = q, p


@pytest.mark.parametrize(("kernel", "advance"), [
    (by_index, Advance(4 * 16, 2 * 63)), (by_pointer, Advance(17, 3 * 63 + 1)), (by_run_time, None),
    (by_run_time_step, None), (backwards, Advance(-16, 63)), (by_turns, None)])
def test_advances(kernel, advance):
    module = tile_ir(kernel, np.zeros(8, np.float32), 37, 50, BY=16, N=64)
    loop = next(op for op in module.entry.body.ops if op.name == "for")
    pointer = next(op for op in ops_in(module.entry.body) if op.name == "store").operands[0]
    advances = Advances(module.entry.body)
    assert advances.of(pointer, loop) == advance
    assert advances.is_apart(pointer, loop) == (advance is not None and abs(advance.step) > advance.spread)
    assert advances.changes(pointer, loop)
    assert not advances.changes(module.entry.params[0], loop)
