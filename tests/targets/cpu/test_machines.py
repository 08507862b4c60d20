"""The same kernels for other machines: narrower vectors run here too, Arm is compiled only."""

import dataclasses

import numpy as np
import pytest

import tilewright
import tilewright.language as tl
from tests.targets.cpu.harness import BF16, F16, F32, I8, I32, Options, generate, run_oracle, target, words
from tests.targets.cpu.random_kernels import WORDS, Generator
from tests.targets.cpu.test_dot import matmul, product
from tests.targets.cpu.test_nests import two_d, vector_add
from tests.targets.cpu.test_reduce import softmax
from tilewright.passes.manager import run_passes
from tilewright.runtime import knobs
from tilewright.targets.cpu import CpuTarget
from tilewright.targets.cpu.machines import NAMED, named
from tilewright.targets.cpu.panels import FORGET
from tilewright.targets.cpu.probes import FINDER
from tilewright.targets.cpu.target import vector_bits
from tilewright.targets.llvm.machine import ASSEMBLY, Request
from tilewright.targets.llvm.toolchain import Machine, compile_request

HERE = target().machine
X86 = HERE.triple.startswith("x86_64")
MACHINES = {name: Machine(HERE.triple, *NAMED[name]) for name in ("avx512", "avx2", "x86-64")}
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
    assert [vector_bits(m) for m in (*MACHINES.values(), ARM)] == [512, 256, 128, 128]
    assert CpuTarget(MACHINES["avx2"]).key() != CpuTarget(dataclasses.replace(MACHINES["avx2"], cpu="x")).key()


def kernels():
    return {"add": vector_add(64), "softmax": softmax(64), "half": softmax(64, F16),
            "matmul": matmul(16, 24, 16, wrap=True), "bf16": product(16, 32, 16, BF16, F32),
            "int8": product(16, 32, 16, I8, I32), "two_d": two_d(8, 20)}


@pytest.mark.parametrize("which", kernels())
def test_arm_compiles_to_neon(which):
    """Assembly only: there is no such machine here.  Whole vectors of 128 bits, no call of a library."""
    module = run_passes(kernels()[which], target().passes(Options()))
    text = generate(module, ARM.isa, vector_bits(ARM)).text
    lines = compile_request(Request(text, ARM, ASSEMBLY)).decode().splitlines()
    words = [line.split() for line in lines if line.strip()]
    assert not [w for w in words if w[0] == "bl" and w[1] not in (FORGET, FINDER, "report_outside")]
    vectors = {w[0] for w in words if len(w) > 1 and ".4s" in w[1]}
    assert {"add": "fadd", "softmax": "fmul", "half": "fcvtl", "matmul": "fmla", "bf16": "fmla", "int8": "mla",
            "two_d": "fadd"}[which] in vectors, vectors


def test_names():
    assert named("", HERE) is HERE
    assert named("x86-64", HERE).features == "+sse2" if X86 else True
    with pytest.raises(ValueError, match="expected one of x86-64, x86-64-v2, avx2, avx512"):
        named("sse9", HERE)
    with pytest.raises(ValueError, match="cannot run such code, it lacks avx"):
        named("avx2", Machine(HERE.triple, "x86-64", "+sse2,+sse3,+ssse3,+sse4.1,+sse4.2,+popcnt,+cx16"))
    with pytest.raises(ValueError, match="cannot run such code"):
        named("avx2", ARM)


@pytest.mark.skipif(not X86 or not runs(MACHINES["avx2"]), reason="needs AVX2")
def test_knob():
    """TILEWRIGHT_CPU chooses the instructions of a launch."""
    @tilewright.jit
    def double(x_ptr, n: tl.constexpr):
        offsets = tl.arange(0, n)
        tl.store(x_ptr + offsets, tl.load(x_ptr + offsets) * 2)

    for name, register in (("avx2", "%ymm"), ("x86-64", "%xmm")):
        x = np.arange(64, dtype=np.float32)
        with knobs.scope(cpu=name):
            kernel = double[(1,)](x, 64)
        np.testing.assert_array_equal(x, 2 * np.arange(64))
        assert register in kernel.asm["asm"] and "%zmm" not in kernel.asm["asm"]
