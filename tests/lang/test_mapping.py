"""map_elementwise and inline_asm_elementwise: what is refused."""

import numpy as np
import pytest

import tilewright as triton
from tests.departures import differs
from tests.lang.recorder import call, trace
from tilewright import language as tl
from tilewright.diagnostics import CompilationError
from tilewright.testing import engines


def test_one_op():
    done = trace(lambda b, x: call(b, tl.map_elementwise, lambda v: v * 2, x), "fp32[4, 8]")
    assert done.names == ["map"] and str(done.result) == "fp32[constexpr[4], constexpr[8]]"


@pytest.mark.parametrize("use, message", [
    (lambda b, x: call(b, tl.map_elementwise, lambda v, w: v, x, 1.0), "maps tensors, not 1.0"),
    (lambda b, x: call(b, tl.map_elementwise, lambda v: v), "needs at least one tensor"),
    (lambda b, x: call(b, tl.map_elementwise, lambda *v: v, x, pack=3), "pack of tl.map_elementwise must divide"),
    (lambda b, x: call(b, tl.map_elementwise, lambda v, w: v, x, pack=2), "returned 1 values, which are not 2"),
    (lambda b, x: call(b, tl.map_elementwise, lambda v: v[None], x), "must return scalars"),
])
def test_refusals(use, message):
    with pytest.raises((TypeError, ValueError), match=message):
        trace(use, "fp32[8]")


@triton.jit
def doubles(x, out, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    y = tl.inline_asm_elementwise("add.s32 $0, $1, $1;", "=r,r", [tl.load(x + i)], tl.int32, True, 1)
    tl.store(out + i, y)


@differs("Assembly is for GPUs", topic="Names and signatures",
         peer="`tl.inline_asm_elementwise` compiles PTX.",
         ours="On NVIDIA GPUs it does; on CPUs and in interpreters it raises NotImplementedError at its line.")
@pytest.mark.parametrize("engine", ["cpu", "eager", "batched"])
def test_assembly_is_for_gpus(engine):
    x = np.arange(8, dtype=np.int32)
    with pytest.raises(NotImplementedError, match="PTX assembly, which runs on NVIDIA GPUs only; on the CPU") as caught:
        engines.launch(engine, doubles, (1,), x, np.zeros_like(x), BLOCK=8)
    assert "tl.inline_asm_elementwise(" in str(caught.value)


def test_assembly_on_a_gpu():
    x = np.arange(8, dtype=np.int32)
    out = np.zeros_like(x)
    engines.launch("ptx", doubles, (1,), x, out, BLOCK=8)
    assert out.tolist() == [2 * n for n in range(8)]


@pytest.mark.parametrize("use, message", [
    (lambda b, x: call(b, tl.inline_asm_elementwise, 1, "=r,r", [x], tl.int32, True, 1), "must be strings"),
    (lambda b, x: call(b, tl.inline_asm_elementwise, "a", "=r,r", [x], tl.int32, True, 0), "must be at least 1"),
])
def test_assembly_that_is_refused(use, message):
    with pytest.raises((TypeError, ValueError), match=message):
        trace(use, "int32[4]")


@triton.jit
def counts(x, count):
    tl.atomic_add(count, 1)
    return x


@triton.jit
def stores(a, b):
    if a > b:
        tl.store(tl.cast(a, tl.int64).to(tl.pointer_type(tl.int32)), 1)
    return a


@triton.jit
def mapped(out, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(out + i, tl.map_elementwise(counts, i, out + i))


@triton.jit
def reduced(out, BLOCK: tl.constexpr):
    tl.store(out, tl.reduce(tl.arange(0, BLOCK), 0, stores))


@triton.jit
def scanned(out, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(out + i, tl.associative_scan(i, 0, stores))


@pytest.mark.parametrize("engine", ["cpu", "batched", "ptx"])
@pytest.mark.parametrize("kernel, what, line", [
    (mapped, "tl.map_elementwise", "tl.atomic_add("), (reduced, "a reduction", "tl.store(tl.cast(a"),
    (scanned, "a scan", "tl.store(tl.cast(a")])
def test_functions_of_elements_do_not_write(engine, kernel, what, line):
    with pytest.raises(CompilationError, match=f"which {what} applies, may not write memory") as caught:
        engines.launch(engine, kernel, (1,), np.zeros(8, np.int32), BLOCK=8)
    assert line in str(caught.value)
