"""fmod of floats on GPUs: exact for all of them, and short."""

from __future__ import annotations

import re

import numpy as np
import pytest

import tilewright as triton
import tilewright.language as tl
from tests.targets.nvidia.harness import SM90, launch_code
from tilewright.testing import engines

EDGES = np.array([0.0, -0.0, 1.0, -1.0, 3.0, 1e-45, -3e-45, 1e-38, 1.1754944e-38, 2.0**126, 2.0**127, 3.4028235e38,
                  -3.4028235e38, np.inf, -np.inf, np.nan, 2.0**20, 2.0**20 + 1, 1 / 3, 0.1, 5e-39], np.float32)


@triton.jit
def rests(x, y, out, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(out + i, tl.load(x + i) % tl.load(y + i))


def random(n, seed):
    """Floats of all exponents."""
    bits = np.random.default_rng(seed).integers(0, 1 << 32, n, dtype=np.uint64).astype(np.uint32)
    return bits.view(np.float32)


def near(n, seed):
    """Pairs whose quotients are small, some of them whole, and some one place of a float away from that."""
    rng = np.random.default_rng(seed)
    y = rng.uniform(1, 2, n).astype(np.float32) * np.float32(2.0) ** rng.integers(-100, 100, n).astype(np.float32)
    x = (y * rng.integers(0, 1 << rng.integers(1, 21), n).astype(np.float32)).astype(np.float32)
    x = (x.view(np.int32) + rng.integers(-1, 2, n).astype(np.int32)).view(np.float32)
    return np.where(rng.random(n) < 0.5, x, -x), np.where(rng.random(n) < 0.5, y, -y)


def pairs():
    yield tuple(a.ravel() for a in np.meshgrid(EDGES, EDGES))
    yield random(512, 1), random(512, 2)
    for seed in range(8):
        yield near(512, seed)


@pytest.mark.parametrize("pair", list(pairs()), ids=lambda p: str(len(p[0])))
def test_values(pair):
    x, y = (a[:256 * (len(a) // 256)].astype(np.float32).copy() for a in pair)
    out = np.zeros_like(x)
    for k in range(0, len(x), 256):
        engines.launch("ptx", rests, (1,), x[k:k + 256].copy(), y[k:k + 256].copy(), part := np.zeros(256, np.float32),
                       N=256, num_warps=1)
        out[k:k + 256] = part
    with np.errstate(all="ignore"):
        want = np.fmod(x, y)
    np.testing.assert_array_equal(out, want)
    numbers = ~np.isnan(want)
    np.testing.assert_array_equal(np.signbit(out[numbers]), np.signbit(want[numbers]))


def test_halves():
    x, y = (np.random.default_rng(k).standard_normal(256).astype(np.float16) for k in range(2))
    out = np.zeros_like(x)
    engines.launch("ptx", rests, (1,), x, y, out, N=256, num_warps=1)
    np.testing.assert_array_equal(out, np.fmod(x.astype(np.float32), y.astype(np.float32)).astype(np.float16))


def test_instructions():
    """The way of nearly all numbers has no double, no division and no loop, and eight elements one branch."""
    numbers = np.zeros(256, np.float32)
    text = launch_code(rests, (numbers, numbers.copy(), numbers.copy()), {"N": 256, "num_warps": 1}, SM90).texts["ptx"]
    usual = re.split(r"\sbra\b", text)[0]
    assert len(re.findall("rcp.approx", usual)) == 8 and "div" not in usual and "f64" not in text
