"""Many launches leave no blocks of memory behind; `benchmarks/launch.py --leaks` does the same a million times."""

import gc
import sys
import weakref

import numpy as np
import pytest

import tilewright as triton
import tilewright.language as tl


@triton.jit
def double(x, o, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(o + i, tl.load(x + i, mask=i < n) * 2, mask=i < n)


@pytest.mark.unchecked("twenty thousand launches take minutes there")
@pytest.mark.parametrize("grid", [(1,), lambda meta: (triton.cdiv(meta["n"], meta["BLOCK"]),)],
                         ids=["tuple", "function"])
def test_launches_leave_nothing_behind(grid):
    x, o = np.ones(2, np.float32), np.zeros(2, np.float32)
    for _ in range(100):
        double[grid](x, o, 2, BLOCK=2)
    gc.collect()
    before = sys.getallocatedblocks()
    for _ in range(20_000):
        double[grid](x, o, 2, BLOCK=2)
    gc.collect()
    assert sys.getallocatedblocks() - before < 500 and o.tolist() == [2, 2]


def test_a_launcher_that_its_grid_leads_back_to_is_collected():
    class Layer:
        def __init__(self):
            self.programs = 1
            self.double = double[lambda meta: (self.programs,)]

    x, o = np.ones(2, np.float32), np.zeros(2, np.float32)
    for _ in range(4):
        double[(1,)](x, o, 2, BLOCK=2)
    layers = [Layer() for _ in range(5)]
    for layer in layers:
        layer.double(x, o, 2, BLOCK=2)
    alive = [weakref.ref(layer) for layer in layers]
    del layer, layers
    gc.collect()
    assert not any(ref() for ref in alive)
    double[lambda meta: (1,)](x, o, 2, BLOCK=2)
    assert o.tolist() == [2, 2]
