"""A kernel compiled ahead of its launch: what programs ask of it to size a grid, and the launch that follows."""

from __future__ import annotations

import numpy as np
import pytest

import tilewright as triton
import tilewright.language as tl
from tilewright.runtime import knobs
from tilewright.runtime.driver import driver


@triton.jit
def fill(out_ptr, n, value, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + offsets, value, mask=offsets < n)


@triton.jit
def checked(out_ptr, n, BLOCK: tl.constexpr):
    tl.device_assert(n > 5, "small")
    tl.store(out_ptr + tl.arange(0, BLOCK), 1.0)


@pytest.mark.parametrize("interpret", [False, True], ids=["compiled", "interpreted"])
def test_occupancy_and_launch(interpret: bool) -> None:
    out = np.zeros(100, np.float32)
    with knobs.scope(interpret=interpret):
        kernel = fill.warmup(out, 100, 2.5, BLOCK=32, num_warps=8, grid=(1,))
        kernel._init_handles()
        properties = driver.active.utils.get_device_properties(0)
        occupancy = properties["max_num_regs"] // (kernel.n_regs * properties["warpSize"] * kernel.metadata.num_warps)
        occupancy = min(occupancy, properties["max_shared_mem"] // kernel.metadata.shared)
        assert occupancy >= 1 and kernel.n_spills == 0 and kernel.metadata.num_warps == 8
        assert not out.any(), "warmup launches nothing"
        kernel[(4, 1, 1)](out, 100, 2.5, 32)
    assert (out == 2.5).all()


def test_interpreted_kernel_keeps_its_options() -> None:
    out = np.zeros(4, np.float32)
    with knobs.scope(interpret=True):
        checked.warmup(out, 4, 4, grid=(1,))[(1,)](out, 4, 4)
        assert (out == 1).all()
        with pytest.raises(triton.KernelAssertionError, match="small"):
            checked.warmup(out, 4, 4, grid=(1,), debug=True)[(1,)](out, 4, 4)
