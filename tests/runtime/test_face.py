"""The public face: the names that programs use, and small functions."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import tilewright as triton
import tilewright.language as tl
from tests.departures import differs
from tilewright.runtime.allocation import NullAllocator, allocator_variable, get_allocator

ROOT = Path(__file__).resolve().parents[2]


def test_every_public_name_is_there():
    for name in triton.__all__:
        assert getattr(triton, name) is not None
    assert triton.language is tl
    for name in ("jit", "cdiv", "next_power_of_2", "language", "testing", "constexpr_function", "knobs",
                 "set_allocator", "reinterpret", "JITFunction", "CompilationError", "OutOfResources", "TritonError"):
        assert name in triton.__all__


def test_a_name_that_is_not_there():
    with pytest.raises(AttributeError, match="module 'tilewright' has no attribute 'nothing'"):
        triton.nothing  # noqa: B018


@differs("`tl.cdiv` of negative numbers")
@pytest.mark.parametrize("x, y, quotient", [(7, 2, 4), (8, 2, 4), (0, 5, 0), (-36, 5, -7), (1, 1, 1)])
def test_cdiv(x, y, quotient):
    assert triton.cdiv(x, y) == quotient


@pytest.mark.parametrize("n, power", [(0, 1), (1, 1), (2, 2), (3, 4), (1000, 1024), (1024, 1024), (2**40 + 1, 2**41)])
def test_next_power_of_2(n, power):
    assert triton.next_power_of_2(n) == power


def test_next_power_of_2_of_what_is_no_whole_number():
    with pytest.raises(TypeError, match="next_power_of_2 takes a whole number, not 12.5 of type float; use //"):
        triton.next_power_of_2(12.5)


@triton.constexpr_function
def doubled(n):
    return 2 * n


@triton.jit
def sizes(out, N: tl.constexpr):
    tl.store(out, triton.cdiv(N, 4))
    tl.store(out + 1, triton.next_power_of_2(N))
    tl.store(out + 2, doubled(N))


def test_size_functions_in_a_kernel():
    out = np.zeros(3, np.int32)
    sizes[(1,)](out, N=13)
    assert out.tolist() == [4, 16, 26]
    assert doubled(4) == 8


def test_jit_with_and_without_arguments():
    def kernel(x):
        pass

    assert isinstance(triton.jit(kernel), triton.JITFunction)
    assert isinstance(triton.jit()(kernel), triton.JITFunction)
    made = triton.jit(debug=True, noinline=True, version=3, do_not_specialize=["x"])(kernel)
    assert made.debug and made.noinline and made.version == 3 and made.params[0].do_not_specialize
    assert triton.jit(made).fn is kernel


@pytest.mark.parametrize("wrong", [3, int, print])
def test_jit_of_what_is_no_function(wrong):
    with pytest.raises(TypeError, match="@jit takes a Python function"):
        triton.jit(wrong)


def test_jit_refuses_unknown_options():
    with pytest.raises(TypeError, match="do_not_specialise"):
        triton.jit(do_not_specialise=["x"])(lambda x: None)


def test_set_allocator():
    def allocate(size, alignment, stream):
        return np.zeros(size, np.int8)

    triton.set_allocator(allocate)
    assert get_allocator() is allocate
    triton.set_allocator(None)
    assert get_allocator() is None and isinstance(allocator_variable.get(), NullAllocator)
    with pytest.raises(RuntimeError, match="set one with set_allocator"):
        allocator_variable.get()(16, 16, None)
    with pytest.raises(TypeError, match="an allocator is a function"):
        triton.set_allocator(3)


@triton.jit
def add_one(x):
    i = tl.arange(0, 4)
    tl.store(x + i, tl.load(x + i) + 1)


def test_reinterpret():
    x = np.array([1.0, 2.0, 3.0, 4.0], np.float32)
    bits = x.view(np.int32).copy()
    add_one[(1,)](triton.reinterpret(x, tl.int32))
    assert (x.view(np.int32) == bits + 1).all()
    wrapped = triton.reinterpret(x[::-1], tl.int32)
    assert wrapped.stride() == (-1,) and wrapped.shape == (4,)
    assert triton.reinterpret(wrapped, tl.float32) is wrapped.base
    with pytest.raises(TypeError, match="fp32 has 4 bytes, fp16 has 2"):
        triton.reinterpret(x, tl.float16)
    with pytest.raises(TypeError, match="reinterpret takes"):
        triton.reinterpret([1], tl.float32)


def test_reinterpret_torch():
    torch = pytest.importorskip("torch")
    x = torch.arange(4, dtype=torch.int32)
    add_one[(1,)](triton.reinterpret(x, tl.uint32))
    assert x.tolist() == [1, 2, 3, 4]


def test_compile_is_the_function_whatever_was_imported_before():
    program = ("import tilewright as triton, tilewright.lowering, tilewright.compiler\n"
               "from tilewright import compile\n"
               "assert triton.compile is compile is tilewright.compiler.compile and callable(compile)")
    subprocess.run([sys.executable, "-c", program], check=True, cwd=ROOT)
    assert triton.compile.__module__ == "tilewright.compiler.compilation"
