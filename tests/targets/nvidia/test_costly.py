"""Long chains on indices are computed in one layout, and what comes of them is converted."""

from __future__ import annotations

import numpy as np
import pytest

import tilewright as triton
import tilewright.language as tl
from tests.targets.nvidia.harness import laid_out, tile_ir
from tilewright.ir.walk import ops_in
from tilewright.testing import engines

THREADS = 512


@triton.jit
def dropped(x, out, kept, p, seed, B: tl.constexpr):
    """Random bits that a store of bytes takes as well, which asks for sixteen neighbours in a thread."""
    i = tl.program_id(0) * B + tl.arange(0, B)
    keep = tl.rand(seed, i) > p
    tl.store(kept + i, keep)
    tl.store(out + i, tl.where(keep, tl.load(x + i), 0.0))


@triton.jit
def flagged(x, out, kept, p, seed, B: tl.constexpr):
    """A short chain instead."""
    i = tl.program_id(0) * B + tl.arange(0, B)
    keep = (i ^ seed) % 4 != 0
    tl.store(kept + i, keep)
    tl.store(out + i, tl.where(keep, tl.load(x + i), 0.0))


def arguments(n):
    x = np.random.default_rng(0).standard_normal(n).astype(np.float32)
    return x, np.full(n, np.nan, np.float32), np.zeros(n, np.bool_), 0.25, 1234


@pytest.mark.parametrize(("kernel", "op", "times"), [(dropped, "mulhi_u", 1), (flagged, "rem_s", 2)])
def test_how_often_a_chain_is_computed(kernel, op, times):
    module = tile_ir(kernel, *arguments(1024), B=1024)

    def count(m):
        return sum(o.name == op and hasattr(o.result.type, "shape") for o in ops_in(m.entry.body))

    assert count(laid_out(module, THREADS // 32)) == times * count(module) > 0


@pytest.mark.parametrize("kernel", [dropped, flagged])
def test_values(kernel):
    given = arguments(2048)
    found = [np.copy(a) if isinstance(a, np.ndarray) else a for a in given]
    engines.launch("cpu", kernel, (2,), *given, B=1024)
    engines.launch("ptx", kernel, (2,), *found, B=1024, num_warps=THREADS // 32)
    np.testing.assert_array_equal(found[1], given[1])
    np.testing.assert_array_equal(found[2], given[2])
    assert 0 < given[2].sum() < 2048
