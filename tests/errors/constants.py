"""Run-time values where a compile-time value is due, and ranges that are empty."""

import math

import tilewright.language as tl
from tests.errors.harness import case
from tilewright.language.options import ConstantArg


@case(x="*fp32", n="i32")
def arange_of_argument(x, n):
    offsets = tl.arange(0, n)  # error: CompilationError: `n` is the run-time value int32
    tl.store(x + offsets, 1)


@case(x="*fp32")
def arange_of_variable(x):
    size = 16
    offsets = tl.arange(0, size)  # error: CompilationError: `size` is the run-time value int32
    tl.store(x + offsets, 1)


@case(x="*fp32", n="i32")
def shape_of_argument(x, n):
    t = tl.zeros((n, 16), tl.float32)  # error: CompilationError: must be known when the kernel is compiled
    tl.store(x, tl.sum(t))


@case(x="*fp32", n="i32")
def unrolled_by_argument(x, n):
    for i in tl.static_range(n):  # error: CompilationError: must be known when the kernel is compiled
        tl.store(x + i, i)


@case(x="*fp32", n="i32")
def python_function_of_argument(x, n):
    tl.store(x, math.sqrt(n))  # error: CompilationError: sqrt() is Python and runs when the kernel is compiled


@case(x="*fp32", n="i32")
def declared_constexpr(x, n):
    size: tl.constexpr = n * 2
    tl.store(x + tl.arange(0, size), 1)  # error: CompilationError: must be


@case(x="*fp32", n="i32")
def tuple_by_run_time_index(x, n):
    t = (1, 2, 3)
    tl.store(x, t[n])  # error: CompilationError: which element is meant must be known when the kernel is compiled


@case(x="*fp32", n="i32")
def text_of_argument(x, n):
    tl.static_print(f"n is {n}")  # error: CompilationError: an f-string takes compile-time values, but this is int32
    tl.store(x, n)


@case(x="*fp32", n="i32")
def int_of_argument(x, n):
    tl.store(x, int(n))  # error: CompilationError: int() works on compile-time values in a kernel, not on int32


@case(x="*fp32", n="i32")
def axis_of_argument(x, n):
    tl.store(x, tl.sum(tl.zeros((4, 4), tl.float32), axis=n))  # error: CompilationError: must be known when


@case(x="*fp32", n="i32")
def static_assert_of_argument(x, n):
    tl.static_assert(n > 3)  # error: CompilationError: needs a compile-time condition
    tl.store(x, n)


@case(x="*fp32", N=3)
def static_assert_fails(x, N: tl.constexpr):
    tl.static_assert(N > 3, "N must be large")  # error: CompileTimeAssertionFailure: N must be large
    tl.store(x, N)


@case(x="*fp32", N=3)
def assert_fails(x, N: tl.constexpr):
    assert N > 3, f"N is only {N}"  # error: CompileTimeAssertionFailure: N is only 3
    tl.store(x, N)


@case(x="*fp32")
def empty_arange(x):
    tl.store(x + tl.arange(4, 4), 1)  # error: CompilationError: arange


@case(x="*fp32")
def negative_arange(x):
    tl.store(x + tl.arange(8, 0), 1)  # error: CompilationError: arange


@case(x="*fp32", N=-4)
def negative_size_by_parameter(x, N: tl.constexpr):
    offsets = tl.arange(0, N)  # error: CompilationError: arange
    tl.store(x + offsets, 1)


@case(x="*fp32")
def arange_of_floats(x):
    tl.store(x + tl.arange(0, 4.0), 1)  # error: CompilationError: must be an int


@case(x="*fp32", n="i32")
def zero_step(x, n):
    for i in range(0, n, 0):  # error: CompilationError: must not be zero
        tl.store(x + i, 1)


@case(x="*fp32")
def zero_static_step(x):
    for i in tl.static_range(0, 4, 0):  # error: CompilationError: must not be zero
        tl.store(x + i, 1)


@case(x="*fp32")
def redeclared(x):
    size: tl.constexpr = 4
    tl.store(x, size)
    size: tl.constexpr = 8  # error: CompilationError: size is already defined. constexpr cannot be reassigned
    tl.store(x, size)


@case(x="*fp32")
def text_assigned(x):
    mode = "sum"  # error: CompilationError: write `name: tl.constexpr = ...`
    tl.store(x, mode == "sum")


@case(x="*fp32", S=ConstantArg("abc"))
def condition_of_text(x, S: tl.constexpr):
    if S:  # error: CompilationError: a compile-time condition must be a bool, an int or None
        tl.store(x, 1)


@case(x="*fp32", N=0)
def division_by_zero(x, N: tl.constexpr):
    tl.store(x, 4 // N)  # error: CompilationError: by zero


@case(x="*fp32", B=4)
def reassigned_size(x, B: tl.constexpr):
    B = B * 2
    tl.store(x + tl.arange(0, B), 1.0)  # error: CompilationError: write `B2: tl.constexpr = ...` there and use B2


@case(x="*fp32", B=4)
def reassigned_shape(x, B: tl.constexpr):
    half = B // 2
    tl.store(x, tl.zeros((B, half), tl.float32))  # error: CompilationError: write `half2: tl.constexpr = ...`


@case(x="*fp32", n="i32")
def index_by_a_number_of_run_time(x, n):
    tl.store(x, tl.arange(0, 4)[n])  # error: CompilationError: unsupported tensor index: int32; a tile
