"""The same kernels for other machines: narrower vectors run here too, Arm is compiled only."""

import dataclasses

import numpy as np
import pytest

from tests.targets.cpu.harness import F16, Options, run_oracle, target, words
from tests.targets.cpu.random_kernels import WORDS, Generator
from tests.targets.cpu.test_dot import matmul
from tests.targets.cpu.test_nests import two_d, vector_add
from tests.targets.cpu.test_reduce import softmax
from tilewright.passes.manager import run_passes
from tilewright.targets.cpu import CpuTarget
from tilewright.targets.cpu.target import vector_bits
from tilewright.targets.llvm.toolchain import Machine

HERE = target().machine
X86 = HERE.triple.startswith("x86_64")
MACHINES = {
    "avx2": Machine(HERE.triple, "haswell", "+avx2,+fma,+f16c,+sse4.1"),
    "sse2": Machine(HERE.triple, "x86-64", "+sse2"),
}
ARM = Machine("aarch64-unknown-linux-gnu", "generic", "+neon")


def runs(machine):
    return all(f in HERE.features.split(",") for f in machine.features.split(","))


@pytest.mark.skipif(not X86, reason="x86 machine code")
@pytest.mark.parametrize("name", MACHINES)
@pytest.mark.parametrize("which", ["add", "softmax", "half", "matmul", "two_d", 3, 5, 8])
def test_narrower_vectors(name, which):
    if not runs(MACHINES[name]):
        pytest.skip("this machine lacks " + MACHINES[name].features)
    rng = np.random.default_rng(0)
    x = rng.standard_normal((33, 45)).astype(np.float32)
    if which == "add":
        module, grid, args = vector_add(64), (24,), [x, x + 1, np.zeros_like(x), x.size]
    elif which == "softmax":
        module, grid, args = softmax(64), (33,), [x, np.zeros_like(x), 45, 45]
    elif which == "half":
        h = x.astype(np.float16)
        module, grid, args = softmax(64, F16), (33,), [h, np.zeros_like(h), 45, 45]
    elif which == "matmul":
        y = rng.standard_normal((45, 50)).astype(np.float32)
        module, grid = matmul(16, 24, 16, wrap=True), (3, 3)
        args = [x, y, np.zeros((33, 50), np.float32), 33, 50, 45, 45, 50, 50]
    elif which == "two_d":
        module, grid = two_d(8, 20), (5, 3)
        args = [x, rng.standard_normal(45).astype(np.float32), rng.standard_normal(33).astype(np.float32),
                np.zeros_like(x), 33, 45, 45, 45]
    else:
        module, grid = Generator(which).module(), (1,)
        args = [rng.integers(-50, 50, 400).astype(np.int32), np.zeros(WORDS, np.int32), 25, 64]
    expected = [a.copy() if isinstance(a, np.ndarray) else a for a in args]
    run_oracle(module, grid, expected)
    machine = CpuTarget(MACHINES[name])
    code = machine.compile(run_passes(module, machine.passes(Options())), Options())
    machine.load(code).launch((*grid, 1, 1)[:3], words(args, module.entry.params))
    for got, want in zip(args, expected):
        if isinstance(got, np.ndarray):
            np.testing.assert_allclose(got.astype(np.float64), want.astype(np.float64), rtol=2e-3, atol=1e-4)


def test_vector_widths():
    assert vector_bits(MACHINES["avx2"]) == 256 and vector_bits(MACHINES["sse2"]) == 128 and vector_bits(ARM) == 128
    assert CpuTarget(MACHINES["avx2"]).key() != CpuTarget(dataclasses.replace(MACHINES["avx2"], cpu="x")).key()
