"""PTX that Triton 3.6's compiler printed for kernels of ours (made_by_triton/), run and compared with NumPy.

The kernels are what their names say; all take two more pointers at the end, which the compiler adds and does not use.
"""

from __future__ import annotations

from math import erf
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tilewright.targets.nvidia.ptx import Checks, Fault, Result, Uninitialised, floats, run

TEXTS = Path(__file__).parent / "made_by_triton"
CHECKS = Checks(copied_proxies=False)       # what these texts leave out


def launch(name: str, kernel: str, grid: tuple[int, ...], args: list[Any], shared: int = 0, seed: int = 0) -> Result:
    text = (TEXTS / f"{name}.ptx").read_text()
    return run(text, kernel, grid, 128, [*args, None, None], shared_bytes=shared, seed=seed, checks=CHECKS)


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(0)


def test_a_promise_that_does_not_hold() -> None:
    """The text was compiled for sizes that are multiples of 16."""
    x, out = np.zeros(7, "f4"), np.zeros(7, "f4")
    with pytest.raises(Fault, match="out of bounds") as caught:
        launch("add_90", "add", (1,), [x, x, out, 7])
    assert caught.value.location is not None
    assert caught.value.location.line == 7


@pytest.mark.parametrize("n", [16, 1008, 1024, 1040, 2048])
def test_add(n: int, rng: np.random.Generator) -> None:
    x, y, out = rng.standard_normal(n).astype("f4"), rng.standard_normal(n).astype("f4"), np.empty(n, "f4")
    launch("add_90", "add", (-(-n // 1024),), [x, y, Uninitialised(out), n])
    assert (out == x + y).all()


@pytest.mark.parametrize("seed", [0, 1, 2])
@pytest.mark.parametrize("n", [1, 1000, 1024])
def test_softmax(n: int, seed: int, rng: np.random.Generator) -> None:
    x = rng.standard_normal((2, n)).astype("f4")
    out = np.empty_like(x)
    launch("softmax_90", "softmax", (2,), [x, Uninitialised(out), n], 16, seed)
    e = np.exp(x.astype("f8") - x.max(1, keepdims=True))
    assert np.abs(out - e / e.sum(1, keepdims=True)).max() < 1e-6


def test_layer_norm(rng: np.random.Generator) -> None:
    x, w, b = rng.standard_normal((2, 1000)).astype("f4"), *rng.standard_normal((2, 1000)).astype("f4")
    out = np.empty_like(x)
    launch("layer_norm_90", "layer_norm", (2,), [x, w, b, Uninitialised(out), 1000, 1e-5], 16)
    want = (x - x.mean(1, keepdims=True)) / np.sqrt(x.var(1, keepdims=True) + 1e-5) * w + b
    assert np.abs(out - want).max() < 1e-5


@pytest.mark.parametrize("seed", [0, 5])
def test_scan(seed: int, rng: np.random.Generator) -> None:
    x = rng.standard_normal(512).astype("f4")
    out = np.empty_like(x)
    launch("scan_90", "scan", (1,), [x, Uninitialised(out)], 16, seed)
    assert np.abs(out - np.cumsum(x.astype("f8"))).max() < 1e-4


@pytest.mark.parametrize("seed", [0, 3])
def test_sort(seed: int, rng: np.random.Generator) -> None:
    x = rng.standard_normal(256).astype("f4")
    out = np.empty_like(x)
    launch("sort_90", "sort", (1,), [x, Uninitialised(out)], 1024, seed)
    assert (out == np.sort(x)).all()


@pytest.mark.parametrize("seed", [0, 4])
def test_histogram(seed: int, rng: np.random.Generator) -> None:
    x = rng.integers(0, 64, 512).astype("i4")
    out = np.empty(64, "i4")
    launch("histogram_90", "histogram", (1,), [x, Uninitialised(out)], 256, seed)
    assert (out == np.bincount(x, minlength=64)).all()


def test_atomics(rng: np.random.Generator) -> None:
    x = (rng.standard_normal(600) * 100).astype("f4")
    out, most = np.zeros(4, "f4"), np.zeros(1, "i4")
    launch("atomics_90", "atomics", (3,), [x, out, most, 600], 16)
    assert np.abs(out - x.astype("f8").reshape(-1, 4).sum(0)).max() < 0.01
    assert most[0] == int(x.max())


def test_argmax(rng: np.random.Generator) -> None:
    x = rng.standard_normal((16, 64)).astype("f4")
    out = np.empty(16, "i4")
    launch("argmax_90", "argmax", (1,), [x, Uninitialised(out)], 64)
    assert (out == x.argmax(1)).all()


def test_transpose(rng: np.random.Generator) -> None:
    x = rng.standard_normal((32, 64)).astype("f4")
    out = np.empty((64, 32), "f4")
    launch("transpose_90", "transpose", (1,), [x, Uninitialised(out)], 8192)
    assert (out == x.T).all()


def test_elementwise_functions(rng: np.random.Generator) -> None:
    """sin (its slow path too), cos, log, sqrt, erf, floor, exp2."""
    x = rng.standard_normal(256).astype("f4")
    x[200:] *= 30
    x[250:] = [1e5, -3e6, 126.9, 0.0, -0.0, 1e-30]
    out = np.empty_like(x)
    launch("mathfn_90", "mathfn", (1,), [x, Uninitialised(out)])
    v = x.astype("f8")
    with np.errstate(over="ignore"):
        want = np.sin(v) + np.cos(v) + np.log(np.abs(v) + 1) + np.sqrt(np.abs(v)) + [erf(t) for t in v]
        want += np.floor(v) + np.exp2(v)
    finite = want < 3e38
    assert (np.abs(out[finite] - want[finite]) <= 4e-6 * np.maximum(1, np.abs(want[finite]))).all()
    assert np.isinf(out[~finite]).all()


def test_print_and_assert(rng: np.random.Generator) -> None:
    x = rng.standard_normal(128).astype("f4")
    printed = launch("print_90", "pr", (1,), [x]).printed.splitlines()
    assert len(printed) == 128
    assert printed[7] == f"pid (0, 0, 0) idx (  7) v: {x[7]:f}"
    x[5] = 1000
    with pytest.raises(Fault, match="big") as caught:
        launch("print_90", "pr", (1,), [x])
    assert caught.value.kind == "assertion"
    assert caught.value.threads == (5,)
    assert caught.value.location is not None
    assert caught.value.location.line == 57


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize("name, shared", [("matmul_80", 16384), ("matmul_90", 24576)])
def test_matmul(name: str, shared: int, seed: int, rng: np.random.Generator) -> None:
    """cp.async in three stages, with mma.sync (8.0) and wgmma (9.0); sizes are no multiples of the tile."""
    m, n, k = 80, 48, 112
    a, b = rng.standard_normal((m, k)).astype("f2"), rng.standard_normal((k, n)).astype("f2")
    out = np.empty((m, n), "f2")
    result = launch(name, "matmul", (2, 1), [a, b, Uninitialised(out), m, n, k, k, n, n], shared, seed)
    assert np.abs(out - a.astype("f8") @ b.astype("f8")).max() < 0.05
    assert result.counters["mma" if name == "matmul_80" else "wgmma"] > 0


def test_matmul_tf32(rng: np.random.Generator) -> None:
    m, n, k = 64, 64, 48
    a, b = rng.standard_normal((m, k)).astype("f4"), rng.standard_normal((k, n)).astype("f4")
    out = np.empty((m, n), "f4")
    launch("matmul_tf32_80", "matmul", (1, 1), [a, b, Uninitialised(out), m, n, k, k, n, n], 32768)
    assert np.abs(out - a.astype("f8") @ b.astype("f8")).max() < 0.05


def test_matmul_fp8(rng: np.random.Generator) -> None:
    m, n, k = 64, 64, 96
    a, b = (floats.encode(rng.standard_normal(s), "e5m2") for s in ((m, k), (k, n)))
    out = np.empty((m, n), "f4")
    launch("matmul_fp8_90", "matmul", (1, 1), [a, b, Uninitialised(out), m, n, k, k, n, n], 16384)
    assert np.abs(out - floats.decode(a, "e5m2") @ floats.decode(b, "e5m2")).max() < 1e-4


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_matmul_with_descriptors(seed: int, rng: np.random.Generator) -> None:
    """Tensor maps written on the device, TMA, mbarriers, wgmma, a TMA store."""
    m, n, k = 80, 72, 136
    a, b = rng.standard_normal((m, k)).astype("f2"), rng.standard_normal((k, n)).astype("f2")
    out = np.empty((m, n), "f2")
    scratch = np.empty(4 * 384 + 128, "u1")
    scratch = scratch[-scratch.ctypes.data % 128:][:4 * 384]
    text = (TEXTS / "desc_matmul_90.ptx").read_text()
    run(text, "desc_matmul", (2, 2), 128, [a, b, Uninitialised(out), m, n, k, Uninitialised(scratch), None],
        shared_bytes=49176, seed=seed)
    assert np.abs(out - a.astype("f8") @ b.astype("f8")).max() < 0.05
