"""Calls with wrong, missing and extra arguments."""

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
