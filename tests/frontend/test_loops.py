"""Loops: which op they become, what they carry, types of the loop variable, compile-time numbers that turn run-time."""

import numpy as np
import pytest

import tilewright.language as tl
from tests.departures import differs
from tests.frontend.running import compiled, jit, launch, results
from tilewright.diagnostics import KernelAssertionError, TritonError
from tilewright.ir.types import I32, I64
from tilewright.ir.walk import ops_in


def loops_of(module):
    return [op for f in module.functions.values() for op in ops_in(f.body) if op.name in ("for", "while")]


def test_a_loop_without_exits_is_a_for_that_carries_what_it_changes():
    def kernel(out, x, n):
        acc = tl.zeros((4,), tl.float32)
        unchanged = n * 2
        for i in range(n):
            step = unchanged + i
            acc += tl.load(x + tl.arange(0, 4)) * step
        tl.store(out + tl.arange(0, 4), acc)

    (loop,) = loops_of(compiled(kernel, out="*fp32", x="*fp32", n="i32"))
    assert loop.name == "for"
    assert [str(v.type) for v in loop.results] == ["tile<4xf32>"]


@pytest.mark.parametrize("exit_statement", ["break", "return", "continue"])
def test_break_and_return_make_a_while(exit_statement):
    text = f"""
def kernel(out, n):
    s = 0
    for i in range(n):
        if i == 3:
            {exit_statement}
        s += i
    tl.store(out, s)
"""
    names = {"tl": tl}
    exec(text, names)
    fn = jit(names["kernel"])
    fn.given_source = text
    (loop,) = loops_of(compiled(fn, out="*fp32", n="i32"))
    assert loop.name == ("for" if exit_statement == "continue" else "while")


def test_an_exit_on_a_condition_known_to_be_false_leaves_a_for():
    def kernel(out, n, STOP: tl.constexpr):
        s = 0
        for i in range(n):
            if STOP:
                break
            s += i
        tl.store(out, s)

    assert [loop.name for loop in loops_of(compiled(kernel, out="*fp32", n="i32", STOP=False))] == ["for"]
    assert [loop.name for loop in loops_of(compiled(kernel, out="*fp32", n="i32", STOP=True))] == ["while"]


@pytest.mark.parametrize(("start", "end", "step", "expected"), [
    ("i32", "i32", "i32", (I32, False)), ("i8", "i16", "i32", (I32, False)), ("i32", "i64", "i32", (I64, False)),
    ("u32", "i32", "i32", (I32, True)), ("i32", "u64", "i32", (I64, True)), ("i32", "i32", "i64", (I64, False)),
])
def test_the_loop_variable_has_the_type_of_the_widest_bound(start, end, step, expected):
    def kernel(out, a, b, c):
        for i in range(a, b, c):
            tl.store(out, i)

    (loop,) = loops_of(compiled(kernel, out="*fp32", a=start, b=end, c=step))
    assert (loop.regions[0].args[0].type, loop.attrs["unsigned"]) == expected


def test_hints_are_kept_and_do_not_change_the_result():
    def kernel(out, n):
        s = 0
        for i in tl.range(0, n, num_stages=3, loop_unroll_factor=2, flatten=True):
            s += i
        tl.store(out, s)

    (loop,) = loops_of(compiled(kernel, out="*fp32", n="i32"))
    assert loop.attrs["stages"] == 3
    assert results(kernel, n=("i32", 5)) == [10.0]


@differs("Only variables that are read must agree", topic="Control flow",
         peer="A variable that a loop or a branch changes must keep its type, read or not.",
         ours="Where nobody reads it in the next iteration, or behind the branch, it may be anything.")
def test_dead_variables_may_change_their_type():
    """What nobody reads in the next iteration or after the loop is not carried."""

    def kernel(out, n):
        t = 1
        s = 0
        for i in range(n):
            t = i * 1.5
            s += t.to(tl.int32)
            t = tl.zeros((4,), tl.float32)
        tl.store(out, s)

    assert results(kernel, n=("i32", 4)) == [0.0 + 1 + 3 + 4]


def test_a_compile_time_number_that_a_loop_changes_becomes_a_run_time_one():
    def kernel(out, n, K):
        k: tl.constexpr = 3
        for i in range(n):
            k = k * 2
            K += 1
        tl.store(out, k)
        tl.store(out + 1, K)

    assert results(kernel, 2, n=("i32", 3), K=1) == [24.0, 4.0]


def test_a_compile_time_number_stays_one_where_the_loop_does_not_change_it():
    def kernel(out, n, B: tl.constexpr, OTHER: tl.constexpr):
        k: tl.constexpr = 4
        for i in range(n):
            if OTHER:
                k = 5
            tl.store(out + tl.arange(0, k), i)

    assert results(kernel, 4, n=("i32", 3), B=4, OTHER=False) == [2.0] * 4


def test_the_decision_on_a_number_that_turns_out_to_change_is_made_at_run_time():
    """In the first trace `k == 0` holds, and the branch taken then is an error."""

    def kernel(out, n):
        k: tl.constexpr = 0
        for i in range(n):
            k = k + 1
            if k == 0:
                tl.store(out, 1)
            else:
                tl.store(out, 2)
        tl.store(out + 1, k)

    assert results(kernel, 2, n=("i32", 2)) == [2.0, 2.0]


@differs("`tl.static_print` prints once", topic="Compile-time values",
         peer="In a loop it prints again for each dry pass: twice, and more often where loops nest.",
         ours="Once for each time that the code is compiled into the kernel.")
def test_static_print_prints_once(capsys):
    def kernel(out, n):
        k: tl.constexpr = 7
        tl.static_print("start")
        for i in range(n):
            tl.static_print("outer", i)
            for j in range(n):
                k = k + 1
                tl.static_print("inner", k)
        tl.store(out, k)

    compiled(kernel, out="*fp32", n="i32")
    assert capsys.readouterr().out == "start\nouter int32[]\ninner int32[]\n"


def test_static_print_before_an_error_is_shown(capsys):
    def kernel(out, n):
        k: tl.constexpr = 7
        for i in range(n):
            tl.static_print("seen")
            tl.static_assert(k == 8)

    with pytest.raises(TritonError):
        compiled(kernel, out="*fp32", n="i32")
    assert capsys.readouterr().out == "seen\n"


def test_static_range_is_unrolled_with_compile_time_indices_and_may_change_shapes():
    def kernel(out):
        t = tl.full((1,), 1, tl.int32)
        for i in tl.static_range(3):
            t = tl.join(t, t + i).reshape((2 ** (i + 1),))
        tl.static_assert(t.shape[0] == 8)
        tl.store(out + tl.arange(0, 8), t)

    assert not loops_of(compiled(kernel, out="*fp32"))
    assert sorted(results(kernel, 8)) == [1.0, 1.0, 2.0, 2.0, 3.0, 3.0, 4.0, 4.0]


def test_constexpr_declared_in_an_unrolled_loop():
    def kernel(out):
        s = 0
        for i in tl.static_range(4):
            size: tl.constexpr = 2**i
            s += tl.sum(tl.arange(0, size))
        tl.store(out, s)

    assert results(kernel) == [0.0 + 1 + 6 + 28]


@differs("`for` goes over tuples", topic="Control flow",
         peer="Only over `range`, `tl.range` and `tl.static_range`.",
         ours="Over tuples too; the loop is unrolled.")
def test_loops_over_tuples():
    def kernel(out, a, b):
        s = 0
        for x in (a, 5, b):
            s = s * 10 + x
        for i in (tl.int32, tl.int64):
            s = s + 1
        tl.store(out, s)

    assert results(kernel, a=("i32", 1), b=("i32", 2)) == [154.0]


def test_the_loop_variable_of_an_unrolled_loop_stays_and_is_compile_time():
    def kernel(out):
        for i in tl.static_range(2, 9, 3):
            pass
        tl.static_assert(i == 8)
        tl.store(out, i)

    assert results(kernel) == [8.0]


@differs("Loops step down by a run-time step", topic="Control flow",
         peer="A negative step that is not known at compile time runs zero times, or too often.",
         ours="As in Python.")
@pytest.mark.parametrize(("bounds", "expected"), [
    ((88, -1, -8), sum(range(88, -1, -8))), ((5, 10, -3), 0), ((5, -5, -3), 5 + 2 - 1 - 4), ((0, 7, 3), 9),
    ((3, 3, 1), 0),
])
def test_steps_at_run_time(bounds, expected):
    def kernel(out, a, b, c):
        s = 0
        for i in tl.range(a, b, c):
            s += i
        tl.store(out, s)

    a, b, c = bounds
    assert results(kernel, a=("i32", a), b=("i32", b), c=("i32", c)) == [expected]


@differs("A step of zero is an error", topic="Control flow",
         peer="The kernel hangs.",
         ours="An error that names the loop.")
@pytest.mark.parametrize("with_break", [False, True])
def test_a_step_that_is_zero_at_run_time_is_an_error_and_does_not_hang(with_break):
    def kernel(out, c, BREAK: tl.constexpr):
        for i in range(0, 10, c):
            if BREAK:
                if i == 5:
                    break
            tl.store(out, i)

    with pytest.raises(KernelAssertionError, match="the step of the range at line .* is zero"):
        results(kernel, c=("i32", 0), BREAK=with_break)


@pytest.mark.parametrize(("start", "end", "step"), [
    (2**31 - 3, 2**31 - 1, 2), (-(2**31) + 2, -(2**31), -2), (-(2**31), 2**31 - 1, 2**30)])
def test_bounds_at_the_end_of_the_type_do_not_overflow(start, end, step):
    """With `break` the loop counts iterations, so the last index plus the step may wrap."""

    def kernel(out, a, b, c):
        n = 0
        for i in range(a, b, c):
            if n > 100:
                break
            n += 1
        tl.store(out, n)

    expected = [float(len(range(start, end, step)))]
    assert results(kernel, a=("i32", start), b=("i32", end), c=("i32", step)) == expected


def test_unsigned_bounds():
    def kernel(out, a, b):
        n = 0
        for i in range(a, b, 2**30):
            if n > 50:
                break
            n += 1
        tl.store(out, n)

    assert results(kernel, a=("u32", 2**31), b=("u32", 2**32 - 1)) == [2.0]


def test_descending_literal_steps_with_unsigned_bounds():
    def kernel(out, a):
        s = 0
        for i in range(a, 2, -3):
            s += i.to(tl.int32)
        tl.store(out, s)

    assert results(kernel, a=("u32", 11)) == [11.0 + 8 + 5]


def test_while_condition_of_tl():
    def kernel(out, n):
        while tl.condition(n > 3):
            n -= 2
        tl.store(out, n)

    assert results(kernel, n=("i32", 8)) == [2.0]


def test_while_on_integers_is_while_not_zero():
    def kernel(out, n):
        s = 0
        while n:
            s += n
            n -= 1
        tl.store(out, s)

    assert results(kernel, n=("i32", 4)) == [10.0]


@differs("`while True`")
def test_while_false_compiles_nothing():
    def kernel(out, ON: tl.constexpr):
        while ON:
            undefined_function()  # noqa: F821
        tl.store(out, 1)

    assert results(kernel, ON=False) == [1.0]


def test_a_condition_that_loads_is_not_evaluated_after_break():
    """After `break` the address would be far outside of the array."""

    def kernel(out, x, n):
        i = 0
        while tl.load(x + i) > 0:
            i += 1
            if i == n:
                i = 1 << 20
                break
        tl.store(out, i)

    x = np.ones(4, np.float32)
    assert results(kernel, x=("*fp32", x), n=("i32", 4)) == [float(1 << 20)]


def test_carried_tuples_none_and_compile_time_parts():
    def kernel(out, n):
        state = (0, None, (1.5, tl.float32))
        for i in range(n):
            a, b, (c, d) = state
            state = (a + i, b, (c * 2.0, d))
        tl.static_assert(state[1] is None and state[2][1] == tl.float32)
        tl.store(out, state[0] + state[2][0])

    assert results(kernel, n=("i32", 3)) == [3.0 + 12.0]


def test_programs_diverge_in_loops():
    def kernel(out):
        pid = tl.program_id(0)
        s = 0
        for i in range(pid):
            if i == 5:
                break
            s += i
        tl.store(out + pid, s)

    out = np.zeros(8, np.float32)
    launch(compiled(kernel, out="*fp32"), (8,), out)
    assert out.tolist() == [float(sum(range(min(p, 5)))) for p in range(8)]
