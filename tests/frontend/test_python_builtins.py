"""Python's built-in functions in kernels."""
# ruff: noqa: C409, C410, E721, UP003

import pytest

import tilewright.language as tl
from tests.departures import differs
from tests.frontend.running import compiled, results
from tilewright.diagnostics import CompilationError


@differs("Python's `abs`, `bool`, `str`, `tuple`, `type` in kernels", topic="Compile-time values",
         peer="They are not available.",
         ours="They work on compile-time values, `abs` on tensors too.")
def test_on_compile_time_values():
    def kernel(out):
        tl.static_assert(min(3, 1, 2) == 1 and max((4, 9)) == 9)
        tl.static_assert(len((1, 2)) == 2 and len("abc") == 3)
        tl.static_assert(list((1, 2)) == (1, 2) and tuple([1]) == (1,) and tuple(range(3)) == (0, 1, 2))
        tl.static_assert(float(3) == 3.0 and int(2.7) == 2 and int("12", 8) == 10 and bool(3))
        tl.static_assert(abs(-4) == 4 and str(12) == "12")
        tl.static_assert(float("inf") > 1e300)
        tl.static_assert(isinstance(4, int) and isinstance(4, tl.constexpr) and not isinstance(4.0, int))
        tl.static_assert(isinstance((1,), tuple) and isinstance(4, (float, int)))
        tl.static_assert(getattr(4, "real") == 4 and getattr(4, "nothing", 7) == 7)
        tl.static_assert(hasattr(tl, "load") and not hasattr(tl, "no_such_name"))
        tl.static_assert(type(4) == int)
        tl.store(out, 1)

    assert results(kernel) == [1.0]


@differs("Python's `abs`, `bool`, `str`, `tuple`, `type` in kernels")
def test_min_max_and_abs_of_tensors():
    def kernel(out, n, m):
        tl.store(out, min(n, m, 4))
        tl.store(out + 1, max(n, m))
        tl.store(out + 2, abs(m))

    assert results(kernel, 3, n=("i32", 5), m=("i32", -2)) == [-2.0, 5.0, 2.0]


def test_isinstance_of_tensors():
    def kernel(out, n):
        tl.static_assert(isinstance(n, tl.tensor) and not isinstance(n, tl.constexpr))
        tl.static_assert(not isinstance(n, int))
        tl.store(out, n)

    assert results(kernel, n=("i32", 3)) == [3.0]


def test_print_prints_while_the_kernel_runs():
    def kernel(out, n):
        print("n is", n)
        tl.store(out, n)

    lines = []
    results(kernel, n=("i32", 3), write=lines.append)
    assert "n is: 3" in "".join(lines) and "pid (0, 0, 0)" in "".join(lines)


@pytest.mark.parametrize("value", [float("nan"), -0.0])
def test_min_of_constants_refuses_what_python_orders_by_position(value):
    def kernel(out, V):
        tl.store(out, min(V, 1.0))

    with pytest.raises(CompilationError, match="use tl.minimum"):
        compiled(kernel, out="*fp32", V=value)
