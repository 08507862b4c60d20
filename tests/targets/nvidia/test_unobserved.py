"""Masked loads that set no register where they load nothing: which, and that results stay, on the PTX machine."""

import numpy as np
import pytest

import tilewright as triton
import tilewright.language as tl
from tests.targets.nvidia.harness import tile_ir
from tilewright.ir.walk import ops_in
from tilewright.language.options import Options
from tilewright.targets.nvidia import NvidiaTarget
from tilewright.targets.nvidia.unobserved import unobserved
from tilewright.testing import ptx_machine

TARGET = NvidiaTarget(90, assemble=False)
N, BLOCK = 700, 1024


@triton.jit
def scaled(x, out, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(out + i, tl.exp(tl.load(x + i, mask=i < n, other=1.0) * 2), mask=i < n)


@triton.jit
def narrower(x, out, n, BLOCK: tl.constexpr):
    """The store's mask has another condition."""
    i = tl.arange(0, BLOCK)
    mask = i < n
    tl.store(out + i, tl.load(x + i, mask=mask) * 2, mask=mask & (i > 3))


@triton.jit
def chosen(x, out, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    mask = i < n
    tl.store(out + i, tl.where(mask, tl.load(x + i, mask=mask) * 2, 5.0))


@triton.jit
def otherwise(x, out, n, BLOCK: tl.constexpr):
    """What is chosen where the mask is false is seen."""
    i = tl.arange(0, BLOCK)
    mask = i < n
    tl.store(out + i, tl.where(mask, 5.0, tl.load(x + i, mask=mask, other=3.0)))


@triton.jit
def everywhere(x, out, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(out + i, tl.load(x + i, mask=i < n) + 1)


@triton.jit
def wider(x, out, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(out + i, tl.load(x + i, mask=i < n) + 1, mask=(i < n) | (i > 900))


@triton.jit
def reduced(x, out, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    v = tl.load(x + i, mask=i < n)
    tl.store(out + i, v - tl.sum(v, 0), mask=i < n)


@triton.jit
def address(x, out, n, BLOCK: tl.constexpr):
    """The loaded number is a place."""
    i = tl.arange(0, BLOCK)
    place = tl.load(x + i, mask=i < n).to(tl.int32)
    tl.store(out + (i + place) % BLOCK, i.to(tl.float32))


@pytest.mark.parametrize(("kernel", "free"), [
    (scaled, True), (narrower, True), (chosen, True), (otherwise, False), (everywhere, False), (wider, False),
    (reduced, False), (address, False)])
def test_which(kernel, free):
    x = np.zeros(BLOCK, np.float32)
    module = TARGET.laid_out(tile_ir(kernel, x, x.copy(), N, disjoint=True, BLOCK=BLOCK), Options())
    loads = {op for op in ops_in(module.entry.body) if op.name == "load"}
    assert unobserved(module.entry.body) == (loads if free else set())


@pytest.mark.parametrize("kernel", [scaled, narrower, chosen, otherwise, everywhere, wider, reduced])
def test_results_stay(kernel):
    x = np.random.default_rng(0).standard_normal(BLOCK).astype(np.float32)
    found, expected = np.full((2, BLOCK), -1, np.float32)
    kernel[(1,)](x, expected, N, BLOCK=BLOCK)
    ptx_machine.run(kernel, (1,), (x, found, N), {"BLOCK": BLOCK}, TARGET)
    np.testing.assert_allclose(found, expected, rtol=1e-5)


def test_no_register_is_set():
    x = np.zeros(BLOCK, np.float32)
    texts = [TARGET.compile(tile_ir(k, x, x.copy(), N, disjoint=True, BLOCK=BLOCK), Options()).texts["llir"]
             for k in (scaled, everywhere)]
    assert "mov.b32" not in texts[0] and "mov.b32" in texts[1]
