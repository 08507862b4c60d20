"""Elementwise nests: any size, masks, two dimensions, memory of any alignment."""

import numpy as np
import pytest

from tests.targets.cpu.harness import F32, I32, both, kernel, ptr


def vector_add(block, masked=True):
    def body(b, x, y, o, n):
        offs = b.add(b.mul(b.pid(), block), b.iota(block))
        mask = b.binary("cmp_lt_s", offs, n) if masked else None
        b.store(b.at(o, offs), b.add(b.load(b.at(x, offs), mask), b.load(b.at(y, offs), mask)), mask)
    return kernel([("x", ptr(F32)), ("y", ptr(F32)), ("o", ptr(F32)), ("n", I32)], body)


@pytest.mark.parametrize("n", [1, 7, 16, 17, 1023, 1025])
@pytest.mark.parametrize("block", [16, 17, 128, 1024])
def test_vector_add(n, block):
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((2, n)).astype(np.float32)
    both(vector_add(block), (-(-n // block),), [x, y, np.zeros(n, np.float32), n])
