"""Statements: assertions, assignments, joins of branches, code that is not compiled, kernels that return."""

import warnings

import pytest

import tilewright.language as tl
from tests.departures import differs
from tests.frontend.running import compiled, op_names, results
from tilewright.diagnostics import KernelAssertionError


def test_assert_is_a_device_assert_under_debug():
    def kernel(out, n):
        assert n < 3, "n is too large"
        tl.store(out, n)

    assert "device_assert" not in op_names(compiled(kernel, out="*fp32", n="i32"))
    assert results(kernel, n=("i32", 2), debug=True) == [2.0]
    with pytest.raises(KernelAssertionError, match="n is too large"):
        results(kernel, n=("i32", 5), debug=True)


def test_assert_that_holds_at_compile_time_leaves_nothing():
    def kernel(out, N: tl.constexpr):
        assert N == 3
        tl.store(out, N)

    assert op_names(compiled(kernel, out="*fp32", N=3, debug=True)).count("device_assert") == 0


@differs("Only variables that are read must agree")
def test_variables_of_the_kernel_are_joined_only_where_they_are_needed():
    def kernel(out, n):
        a = n
        b = n + 1
        if n > 3:
            a = n * 2
            b = n * 3
            c = n
        tl.store(out, a)

    module = compiled(kernel, out="*fp32", n="i32")
    (branch,) = [op for op in module.entry.body.ops if op.name == "if"]
    assert len(branch.results) == 1


def test_a_branch_without_effect_and_result_is_left_out():
    def kernel(out, n):
        if n > 3:
            pass
        tl.store(out, n)

    assert "if" not in op_names(compiled(kernel, out="*fp32", n="i32"))


def test_a_number_meets_a_scalar_of_its_type():
    def kernel(out, n, ONE):
        if n > 3:
            ONE = n * 2
        tl.store(out, ONE)

    assert [results(kernel, n=("i32", n), ONE=1)[0] for n in (2, 5)] == [1.0, 10.0]


def test_none_on_one_side_is_no_error_until_it_is_read():
    def kernel(out, n, USE: tl.constexpr):
        x = None
        if n > 3:
            x = 1.0
        if USE:
            tl.store(out, x)
        tl.store(out, n)

    assert results(kernel, n=("i32", 2), USE=False) == [2.0]


def test_kernel_return_values_are_ignored():
    def kernel(out, n):
        tl.store(out, n)
        if n > 3:
            return n
        tl.store(out, 7)
        return 2.5

    assert [results(kernel, n=("i32", n))[0] for n in (2, 5)] == [7.0, 5.0]
    assert compiled(kernel, out="*fp32", n="i32").entry.result_types == ()


def test_statements_after_an_exit_are_not_compiled():
    def kernel(out, n, STOP: tl.constexpr):
        tl.store(out, n)
        if STOP:
            return
        undefined(n)  # noqa: F821

    assert results(kernel, n=("i32", 3), STOP=True) == [3.0]


def test_an_early_return_puts_the_rest_under_one_branch():
    def kernel(out, n):
        if n > 3:
            return
        tl.store(out, n)
        tl.store(out + 1, n)

    module = compiled(kernel, out="*fp32", n="i32")
    (branch,) = [op for op in module.entry.body.ops if op.name == "if"]
    assert [op.name for op in branch.regions[0].ops] == ["yield"]
    assert [op.name for op in branch.regions[1].ops].count("store") == 2
    assert len([op for op in op_names(module) if op == "if"]) == 1


def test_a_condition_of_one_element_warns():
    def kernel(out, n):
        if tl.zeros((1,), tl.int32) + n > 3:
            tl.store(out, n)

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        assert results(kernel, n=("i32", 5)) == [5.0]
    assert any("tile of one element" in str(w.message) and w.filename == __file__ for w in caught)


def test_augmented_assignment_and_swaps():
    def kernel(out, n):
        a = b = n
        a += 1
        b *= 3
        a, b = b, a
        a -= b
        a <<= 1
        a |= 1
        tl.store(out, a)

    assert results(kernel, n=("i32", 5)) == [float((15 - 6) * 2 | 1)]


def test_every_op_has_the_place_of_its_expression():
    def kernel(out, n):
        x = n * 3
        tl.store(out,
                 x + 1)

    module = compiled(kernel, out="*fp32", n="i32")
    first = kernel.__code__.co_firstlineno
    lines = {op.name: (op.loc.line - first, op.loc.end_line - first) for op in module.entry.body.ops}
    assert lines["mul"] == (1, 1)
    assert lines["add"] == (3, 3)
    assert lines["store"] == (2, 3)
    assert all(op.loc.file == __file__ and op.loc.function == "kernel" for op in module.entry.body.ops)
