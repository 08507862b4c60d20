"""Calls with wrong, missing and extra arguments."""

import math

import numpy as np

import tilewright.language as tl
from tests.errors.harness import case, jit


@jit
def scaled(value, factor, *, bias=0):
    return value * factor + bias


@case(x="*fp32", n="i32")
def missing_argument(x, n):
    tl.store(x, scaled(n))  # error: CompilationError: scaled() missing 1 required argument: 'factor'


@case(x="*fp32", n="i32")
def extra_argument(x, n):
    tl.store(x, scaled(n, 1, 2))  # error: CompilationError: scaled() takes 2 positional arguments but 3 were given


@case(x="*fp32", n="i32")
def unknown_keyword(x, n):
    tl.store(x, scaled(n, faktor=2))  # error: CompilationError: argument 'faktor'; did you mean factor?


@case(x="*fp32", n="i32")
def argument_given_twice(x, n):
    tl.store(x, scaled(n, 2, value=3))  # error: CompilationError: multiple values for argument 'value'


@case(x="*fp32", n="i32")
def missing_argument_of_builtin(x, n):
    tl.store(x)  # error: CompilationError: tl.store: missing a required argument: 'value'


@case(x="*fp32", n="i32")
def extra_argument_of_builtin(x, n):
    tl.store(x, tl.program_id(0, 1))  # error: CompilationError: tl.program_id: too many positional arguments


@case(x="*fp32", n="i32")
def unknown_keyword_of_builtin(x, n):
    tl.store(x, tl.load(x, masks=n > 3))  # error: CompilationError: masks


@case(x="*fp32", n="i32")
def wrong_axis_of_program(x, n):
    tl.store(x, tl.program_id(3))  # error: CompilationError: 3


@jit
def again(n):
    return again(n)  # error: CompilationError: again calls itself with the same types


@case(x="*fp32", n="i32")
def endless_recursion(x, n):
    tl.store(x, again(n))


@jit
def deeper(n, DEPTH: tl.constexpr):
    return deeper(n, DEPTH + 1)  # error: CompilationError: calls nest more than 40 deep


@case(x="*fp32", n="i32")
def recursion_without_end(x, n):
    tl.store(x, deeper(n, 0))


@case(x="*fp32")
def two_for_len(x):
    tl.store(x, len((1, 2), 3))  # error: CompilationError: len() takes 1 argument in a kernel, not 2


@case(x="*fp32", n="i32")
def too_few_in_min(x, n):
    tl.store(x, min(n))  # error: CompilationError: min() takes two or more values in a kernel


@case(x="*fp32")
def function_of_numpy(x):
    tl.store(x, np.sqrt(tl.load(x)))  # error: CompilationError: sqrt is a function of numpy


@case(x="*fp32")
def function_of_numpy_with_another_name(x):
    tl.store(x, np.absolute(tl.load(x)))  # error: CompilationError: use tl.abs


@case(x="*fp32")
def function_of_math(x):
    tl.store(x, math.sqrt(tl.load(x)))  # error: CompilationError: argument 1 is the run-time value fp32; use tl.sqrt


@case(x="*fp32")
def function_of_nobody(x):
    tl.store(x, np.gradient(tl.load(x)))  # error: CompilationError: gradient, a function of numpy, cannot


@case(x="*fp32")
def class_of_numpy(x):
    tl.store(x, np.float32(tl.load(x)))  # error: CompilationError: convert with x.to(tl.float32)


@case(x="*fp32")
def type_of_numpy(x):
    tl.store(x, tl.load(x).to(np.float16))  # error: CompilationError: write tl.float16


@case(x="*fp32")
def method_without_call(x):
    tl.store(x, 1 + tl.arange(0, 4).sum)  # error: CompilationError: and the function 'sum'


@case(x="*fp32")
def print_without_a_text(x):
    print(tl.load(x))  # error: CompilationError: print in a kernel takes a text first, not fp32: write print("x", tl


@case(x="*fp32")
def print_with_a_keyword(x):
    print("x", tl.load(x), sep="|")  # error: CompilationError: print has no sep= in a kernel


@case
def print_of_two_texts():
    print("a", "b")  # error: CompilationError: print in a kernel shows numbers after its text, not constexpr 'b'


@case(x="*fp32")
def function_of_numpy_by_another_name(x):
    t = tl.load(x + tl.arange(0, 16))
    tl.store(x, np.mean(t))  # error: CompilationError: mean is a function of numpy, which a kernel cannot call; write


@case(x="*fp32")
def device_print_without_a_text(x):
    tl.device_print(tl.load(x))  # error: CompilationError: takes a text first, not fp32: write tl.device_print("x", tl
