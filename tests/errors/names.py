"""Names that a kernel cannot read."""
# ruff: noqa: F821

import math
import pdb
from pdb import set_trace

import tilewright.language as tl
from tests.errors.harness import case, jit

LIMIT = 16
SIZES = (4, 8)


def plain(x):
    return x + 1


def with_closure():
    captured = 5

    @case(x="*fp32")
    def closure(x):
        tl.store(x, captured)  # error: CompilationError: Cannot access global variable captured from within @jit'ed

    return closure


closure_case = with_closure()


@case(x="*fp32", n="i32")
def undefined(x, n):
    offsets = tl.arange(0, 16)
    tl.store(x + offset, n)  # error: CompilationError: offset is not defined; did you mean offsets?


@case(x="*fp32", n="i32")
def undefined_in_expression(x, n):
    total = n + (n * many)  # error: CompilationError: many is not defined
    tl.store(x, total)


@case(x="*fp32")
def global_number(x):
    tl.store(x, LIMIT)  # error: CompilationError: write `LIMIT = tl.constexpr(16)`


@case(x="*fp32")
def global_tuple(x):
    tl.store(x, SIZES[0])  # error: CompilationError: Cannot access global variable SIZES


@case(x="*fp32", n="i32")
def plain_function(x, n):
    tl.store(x, plain(n))  # error: CompilationError: plain is a plain Python function


@case(x="*fp32", n="i32")
def one_branch(x, n):
    if n > 3:
        y = 1
    tl.store(x, y)  # error: CompilationError: y is not defined here: it is assigned at line


@case(x="*fp32", n="i32")
def inside_loop(x, n):
    for i in range(n):
        y = i
    tl.store(x, y)  # error: CompilationError: it is assigned inside the loop at line


@case(x="*fp32", n="i32")
def skipped_by_break(x, n):
    for i in tl.static_range(4):
        if n == i:
            break
        y = i
    tl.store(x, y)  # error: CompilationError: a `break` in the loop at line


@case(x="*fp32")
def before_assignment(x):
    tl.store(x, y)  # error: CompilationError: y is not defined here: it is assigned in before_assignment
    y = 1


@case(x="*fp32")
def unknown_name_of_language(x):
    tl.store(x, tl.exponent(1.0))  # error: CompilationError: module tilewright.language has no attribute 'exponent'


@case(x="*fp32")
def unknown_name_of_math(x):
    tl.store(x, math.pie)  # error: CompilationError: has no attribute 'pie'; did you mean pi


@case(x="*fp32")
def unknown_method(x):
    t = tl.arange(0, 16).too(tl.float32)  # error: CompilationError: has no attribute 'too'; did you mean
    tl.store(x + tl.arange(0, 16), t)


@case(x="*fp32")
def unavailable_builtin(x):
    tl.store(x, sum((1, 2)))  # error: CompilationError: Python's `sum` is not available in a kernel; use tl.sum


@case(x="*fp32")
def breakpoint_in_compiled_code(x):
    breakpoint()  # error: CompilationError: `breakpoint` is not available in a kernel; run with TRITON_INTERPRET=1
    tl.store(x, 1.0)


@case(x="*fp32")
def debugger_of_a_module(x):
    pdb.set_trace()  # error: CompilationError: not available in a compiled kernel; run with TRITON_INTERPRET=1
    tl.store(x, 1.0)


@case(x="*fp32")
def debugger_by_name(x):
    set_trace()  # error: CompilationError: not available in a compiled kernel; run with TRITON_INTERPRET=1
    tl.store(x, 1.0)


@jit
def helper(a):
    return a + missing  # error: CompilationError: missing is not defined


@case(x="*fp32", n="i32")
def in_called_function(x, n):
    tl.store(x, helper(n))


@case(x="*fp32", n="i32")
def none_or_tile(x, n):
    y = None
    if n > 2:
        y = 1.0
    tl.store(x, y)  # error: CompilationError: y has type fp32


@case(x="*fp32")
def function_of_libdevice(x):
    tl.store(x, tl.tanh(tl.load(x)))  # error: CompilationError: use libdevice.tanh (from tilewright.


@case(x="*fp32")
def function_of_math_in_libdevice(x):
    tl.store(x, tl.math.log1p(tl.load(x)))  # error: CompilationError: no attribute 'log1p'; use libdevice.log1p


@case(x="*fp32")
def function_that_is_spelled_out(x):
    tl.store(x, tl.relu(tl.load(x)))  # error: CompilationError: no attribute 'relu'; write tl.maximum(x, 0)


@case(x="*fp32")
def function_by_another_name(x):
    t = tl.load(x + tl.arange(0, 16)[:, None] + tl.arange(0, 16))
    tl.store(x, tl.matmul(t, t))  # error: CompilationError: no attribute 'matmul'; use tl.dot


@case(x="*fp32")
def method_of_arrays(x):
    tl.store(x, tl.load(x + tl.arange(0, 16)).mean())  # error: CompilationError: 'mean'; write tl.sum(x, axis) / n


@case(x="*fp32")
def method_of_torch(x):
    tl.store(x, tl.load(x).half())  # error: CompilationError: has no attribute 'half'; write x.to(tl.float16)


@case(x="*fp32")
def list_that_grows(x):
    items = []
    for i in range(4):
        items.append(tl.load(x + i))  # error: CompilationError: a list in a kernel is a tuple, which does not change
    tl.store(x, items[0])
