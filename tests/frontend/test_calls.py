"""Calls of jit functions: binding, specialisation, constexpr results, recursion, regions, call chains."""

import pytest

import tilewright.language as tl
from tests.departures import differs
from tests.frontend.running import compiled, jit, op_names, results
from tilewright.diagnostics import CompilationError
from tilewright.ir.walk import ops_in


@jit
def scaled(value, factor=2, *, bias=0):
    return value * factor + bias


@jit
def summed(first, *rest, last=1):
    total = first
    for x in rest:
        total += x
    return total * last


@jit
def block_size(large: tl.constexpr):
    if large:
        return 16
    else:
        return 4


@jit
def many(n):
    return n, 5, None, (n + 1,)


@jit
def power(x, E: tl.constexpr):
    if E == 0:
        return 1
    elif E % 2 == 0:
        half = power(x, E // 2)
        return half * half
    return x * power(x, E - 1)


@jit
def nothing(out):
    tl.store(out, 3)


@jit
def apply(fn, x, y):
    return fn(x, y)


@jit
def plus(a, b):
    return a + b


@jit
def clamped_sum(a, b):
    if a + b > 100:
        return 100
    return a + b


def functions_of(module):
    return sorted(n.partition(".")[0] for n in module.functions)


@differs("Python that 3.9 has new")
def test_defaults_keywords_and_variadic_arguments():
    def kernel(out, n):
        tl.store(out, scaled(n))
        tl.store(out + 1, scaled(n, bias=1, factor=3))
        tl.store(out + 2, scaled(value=n, factor=n))
        tl.store(out + 3, summed(n, 2, 3, last=10))
        t = (n, 1)
        tl.store(out + 4, summed(*t, 5))
        tl.store(out + 5, summed(n))

    assert results(kernel, 6, n=("i32", 4)) == [8.0, 13.0, 16.0, 90.0, 10.0, 4.0]


def test_a_function_is_traced_once_for_the_same_types_and_values():
    def kernel(out, n, m):
        tl.store(out, scaled(n, 2) + scaled(m, 2) + scaled(n, 3) + scaled(n.to(tl.float32), 2))

    module = compiled(kernel, out="*fp32", n="i32", m="i32")
    assert functions_of(module) == ["kernel", "scaled", "scaled", "scaled"]
    assert op_names(module).count("call") == 4


@differs("1, True and 1.0 are different compile-time values")
@pytest.mark.parametrize("pair", [(0.0, -0.0), (1, True), (1, 1.0)])
def test_compile_time_values_that_python_calls_equal_are_different_specialisations(pair):
    def kernel(out, n, A, B):
        tl.store(out, scaled(n, A) + scaled(n, B))

    module = compiled(kernel, out="*fp32", n="fp32", A=pair[0], B=pair[1])
    assert functions_of(module) == ["kernel", "scaled", "scaled"]


def test_compile_time_results_stay_compile_time():
    def kernel(out):
        offsets = tl.arange(0, block_size(True))
        tl.static_assert(block_size(False) == 4)
        tl.store(out + offsets, offsets)

    assert results(kernel, 16) == list(map(float, range(16)))


def test_tuples_are_returned_with_their_compile_time_parts():
    def kernel(out, n):
        tl.static_assert(many(n)[1] == 5)
        a, b, c, (d,) = many(n)
        tl.static_assert(b.dtype == tl.int32 and c is None)
        tl.store(out, a * 10 + d)

    assert results(kernel, n=("i32", 3)) == [34.0]


@differs("Functions may call themselves", topic="Control flow",
         peer="Recursion fails.",
         ours="It works, if a compile-time value ends it.")
def test_recursion_over_a_constexpr():
    def kernel(out, n):
        tl.store(out, power(n, 10))

    assert results(kernel, n=("i32", 3)) == [3.0**10]


def test_functions_are_values():
    def kernel(out, n, F):
        tl.store(out, apply(plus, n, 1) + apply(F, n, 100))

    assert results(kernel, n=("i32", 3), F=clamped_sum) == [104.0]


def test_a_function_without_result_and_an_unused_one():
    def kernel(out, n):
        nothing(out)
        if n < 0:
            nothing(out + 1)
        never = nothing
        tl.store(out + 2, n)

    with pytest.raises(CompilationError, match="cannot convert the function 'nothing'"):
        compiled(kernel, out="*fp32", n="i32")

    def fine(out, n):
        nothing(out)
        if n < 0:
            nothing(out + 1)
        tl.store(out + 2, n)

    assert results(fine, 3, n=("i32", 3)) == [3.0, 0.0, 3.0]


def test_combine_functions_of_reductions():
    def kernel(out):
        x = tl.arange(0, 16)
        tl.store(out, tl.reduce(x, 0, clamped_sum))
        tl.store(out + 1, tl.reduce(x, 0, plus))

    assert results(kernel, 2) == [100.0, 120.0]


@differs("Errors name the file, the cause and the cure", topic="Errors and debugging",
         peer="The line is counted from the function's `def`; an error in a called function has no message, only a "
              "cause.",
         ours="file:line:column and the line with a caret; the chain of calls; what came, what is allowed, what to "
              "do; no frame of the compiler, and no second traceback.")
def test_an_error_in_a_called_function_shows_the_chain_of_calls():
    def kernel(out, n):
        tl.store(out, outer(n))

    with pytest.raises(CompilationError, match="wrong is not defined") as caught:
        compiled(kernel, out="*fp32", n="i32")
    site = caught.value.location
    assert [site.function, site.caller.function, site.caller.caller.function] == ["inner", "outer", "kernel"]
    assert str(caught.value).count("called from") == 2


@jit
def inner(n):
    return n + wrong  # noqa: F821


@jit
def outer(n):
    return inner(n) * 2


def test_noinline_is_kept():
    fn = jit(scaled.fn)
    fn.noinline = True

    def kernel(out, n):
        tl.store(out, fn(n))

    module = compiled(kernel, out="*fp32", n="i32")
    assert [f.noinline for f in module.functions.values()] == [False, True]


def test_results_of_early_returns_in_a_called_function_inside_a_loop():
    def kernel(out, n):
        total = 0
        for i in range(n):
            total += clamped_sum(i, 97)
        tl.store(out, total)

    assert results(kernel, n=("i32", 6)) == [97.0 + 98 + 99 + 100 + 100 + 100]


def test_a_call_is_placed_where_it_stands_not_where_the_function_ends():
    @jit
    def caller(out, n):
        tl.store(out, scaled(n))
        tl.store(out + 1, scaled(n))

    first = caller.fn.__code__.co_firstlineno
    module = compiled(caller, out="*i32", n="i32")
    calls = [op for f in module.functions.values() for op in ops_in(f.body) if op.name == "call"]
    assert [op.loc.line - first for op in calls] == [2, 3]
