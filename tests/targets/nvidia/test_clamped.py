"""How far blocks reach into an array is computed in 32 bits."""

from __future__ import annotations

import numpy as np
import pytest

import tilewright as triton
import tilewright.language as tl
from tests.targets.nvidia.harness import SM90, launch_code
from tests.targets.nvidia.test_golden import instructions
from tilewright.testing import engines


@triton.jit
def inside(x, out, size, start, B: tl.constexpr):
    """Which places of a block lie in an array: all of them are the first element of `x`, which is 1."""
    block = tl.make_block_ptr(x, (size,), (0,), (start,), (B,), (0,))
    tl.store(out + tl.arange(0, B), tl.load(block, boundary_check=(0,)))


@triton.jit
def copied(x, out, rows, columns, first, B: tl.constexpr):
    start = (tl.program_id(0) * B - first).to(tl.int32)
    source = tl.make_block_ptr(x, (rows, columns), (columns, 1), (start, start), (B, B), (1, 0))
    values = tl.load(source, boundary_check=(0, 1))
    at = tl.arange(0, B)
    tl.store(out + tl.program_id(0) * B * B + at[:, None] * B + at[None, :], values)


@pytest.mark.parametrize("size", [0, 1, 7, 16, 100, (1 << 31) - 1, -5, -(1 << 31)])
@pytest.mark.parametrize("start", [0, 1, -3, -16, 6, 95, (1 << 31) - 1, -(1 << 31)])
def test_extremes(size, start):
    out = np.zeros(16, np.int32)
    engines.launch("ptx", inside, (1,), np.ones(1, np.int32), out, size, start, B=16, num_warps=1)
    assert list(out) == [0 <= start + k < size for k in range(16)]


def test_values():
    x = np.arange(20 * 24, dtype=np.float32)
    cpu, ptx = np.zeros(3 * 256, np.float32), np.zeros(3 * 256, np.float32)
    for engine, out, options in (("cpu", cpu, {}), ("ptx", ptx, {"num_warps": 1})):
        engines.launch(engine, copied, (3,), x, out, 20, 24, 5, B=16, **options)
    np.testing.assert_array_equal(ptx, cpu)
    assert np.count_nonzero(cpu)


def test_instructions():
    text = launch_code(copied, (np.zeros(480, np.float32), np.zeros(768, np.float32), 20, 24, 5),
                       {"B": 16, "num_warps": 1}, SM90).texts["ptx"]
    found = instructions(text)
    assert found["min.u32"] == 3        # both dimensions begin at one place
    assert not any(".s64" in name and name.startswith(("min", "max", "setp")) for name in found)
