"""The eager engine as a place to look into kernels: print, breakpoint, errors with lines, memory checks."""

import bdb
import inspect
import pdb
import sys
import warnings

import numpy as np
import pytest

import tilewright as triton
import tilewright.language as tl
from tests.departures import differs
from tilewright.diagnostics import (
    CompilationError,
    CompileTimeAssertionFailure,
    InterpreterError,
    KernelAssertionError,
    OutOfBoundsError,
    UnsupportedLanguageConstruct,
)
from tilewright.runtime import knobs


@pytest.fixture(autouse=True)
def eager():
    with knobs.scope(interpret=True):
        yield


def line_of(kernel, text):
    """The line of the file that has `text` in the source of a kernel."""
    lines, first = inspect.getsourcelines(kernel.fn)
    (index,) = [i for i, line in enumerate(lines) if text in line]
    return first + index


@triton.jit
def prints(x, n):
    v = tl.load(x + tl.arange(0, 4))
    print(v)
    print("n is", n, "and half of it", n / 2)
    print("v", v)
    print(tl.program_id(0), v.shape, sep="|")


def test_print_shows_numbers(capsys):
    prints[(1,)](np.array([1, 2, 250, 4], np.uint8), 7)
    assert capsys.readouterr().out.splitlines() == [
        "[  1   2 250   4]", "n is 7 and half of it 3.5",
        "pid (0, 0, 0) idx (0) v: 1", "pid (0, 0, 0) idx (1) v: 2", "pid (0, 0, 0) idx (2) v: 250",
        "pid (0, 0, 0) idx (3) v: 4", "0|(4,)"]


@triton.jit
def stops(x):
    pid = tl.program_id(0)
    v = tl.load(x + pid)
    breakpoint()
    tl.store(x + pid, v + 1)


def test_breakpoint_stops_at_the_users_line(monkeypatch):
    seen = []

    def hook(*args, **kwargs):
        frame = sys._getframe(1)
        seen.append((frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_name,
                     int(frame.f_locals["v"].handle.numbers())))

    monkeypatch.setattr(sys, "breakpointhook", hook)
    x = np.array([5, 6], np.int32)
    stops[(2,)](x)
    here = (__file__, line_of(stops, "breakpoint()"), "stops")
    assert seen == [(*here, 5), (*here, 6)]
    assert x.tolist() == [6, 7]


@triton.jit
def stepped(x):
    a = tl.load(x)
    if a > 0:
        b = a + 1
    else:
        b = a - 1
    for i in range(2):
        b += i
    tl.store(x, b)


class Recorder(bdb.Bdb):
    """A step debugger that notes the lines it stops at in one function."""

    def __init__(self):
        super().__init__()
        self.lines = []

    def user_line(self, frame):
        if frame.f_code.co_name == "stepped" and frame.f_code.co_filename == __file__:
            self.lines.append(frame.f_lineno)
        self.set_step()


def test_a_step_debugger_walks_over_the_users_lines():
    recorder = Recorder()
    x = np.array([5], np.int32)
    recorder.runcall(stepped[(1,)], x)
    assert x.tolist() == [7]
    _, first = inspect.getsourcelines(stepped.fn)
    walked = [line - first for line in recorder.lines]
    distinct = [line for i, line in enumerate(walked) if i == 0 or walked[i - 1] != line]
    # load, if, then, (end of the if), for and its body twice, store; the else is not visited
    assert distinct == [2, 3, 4, 3, 7, 8, 7, 8, 7, 9]


def test_leaving_the_debugger_is_no_error_of_the_kernel(monkeypatch):
    def leave(*args, **kwargs):
        raise bdb.BdbQuit

    monkeypatch.setattr(sys, "breakpointhook", leave)
    with pytest.raises(bdb.BdbQuit):
        stops[(1,)](np.zeros(1, np.int32))
    assert pdb is not None


# -- errors ------------------------------------------------------------------------------------------------------------


@triton.jit
def wrong_shapes(x):
    a = tl.arange(0, 4)
    b = tl.arange(0, 8)
    c = a + b
    tl.store(x, c)


@triton.jit
def undefined(x):
    tl.store(x, 1)
    tl.store(x, nothing)  # noqa: F821


@triton.jit
def too_early(x):
    for i in range(0):
        y = i
    tl.store(x, y)


@triton.jit
def changes_type(x):
    acc = 0
    for i in range(3):
        acc += 0.5
    tl.store(x, acc)


@triton.jit
def one_side(x, n):
    if n > 3:
        y = 1
    tl.store(x, y)


@triton.jit
def two_types(x, n):
    y = 1
    if n > 3:
        y = 1.5
    tl.store(x, y)


@triton.jit
def reassigned(x):
    C: tl.constexpr = 4
    C: tl.constexpr = 5
    tl.store(x, C)


@triton.jit
def false_assertion(x, N: tl.constexpr):
    tl.static_assert(N == 4, "N has to be 4")


@triton.jit
def with_lambda(x):
    f = lambda a: a + 1  # noqa: E731
    tl.store(x, f(1))


@triton.jit
def with_try(x):
    try:
        tl.store(x, 1)
    finally:
        pass


@triton.jit
def element_assignment(x):
    v = tl.arange(0, 4)
    v[0] = 1


@differs("Errors name the file, the cause and the cure")
@pytest.mark.parametrize("kernel, args, guilty, kind, words", [
    (wrong_shapes, (), "c = a + b", CompilationError, "4"),
    (undefined, (), "noqa: F821", CompilationError, "nothing is not defined"),
    (too_early, (), "tl.store(x, y)", CompilationError, "y is not defined here"),
    (changes_type, (), "acc += 0.5", CompilationError, "Loop-carried variable acc has initial type int32"),
    (one_side, (5,), "tl.store(x, y)", CompilationError, "only if the condition at line"),
    (two_types, (5,), "if n > 3", CompilationError, "Mismatched type for y"),
    (reassigned, (), "C: tl.constexpr = 5", CompilationError, "C is already defined"),
    (false_assertion, (5,), "static_assert", CompileTimeAssertionFailure, "N has to be 4"),
    (with_lambda, (), "lambda a", UnsupportedLanguageConstruct, "A kernel cannot contain a lambda"),
    (with_try, (), "    try:", UnsupportedLanguageConstruct, "A kernel cannot contain try"),
    (element_assignment, (), "v[0] = 1", UnsupportedLanguageConstruct, "an assignment to an element"),
])
def test_errors_have_the_users_line(kernel, args, guilty, kind, words):
    with pytest.raises(kind) as caught:
        kernel[(1,)](np.zeros(8, np.float32), *args)
    assert type(caught.value) is kind
    assert words in str(caught.value)
    assert (caught.value.location.file, caught.value.location.line) == (__file__, line_of(kernel, guilty))
    assert f"{__file__}:{line_of(kernel, guilty)}" in str(caught.value)


@differs("The interpreter is the language", topic="Errors and debugging",
         peer="The interpreter takes code that the compiler refuses, and rounds, wraps and promotes in its own way.",
         ours="With `TRITON_INTERPRET=1` the same rules run step by step: the same values, and the same errors for "
              "what runs.")
@pytest.mark.parametrize("kernel, args, kind", [
    (wrong_shapes, (), CompilationError), (undefined, (), CompilationError), (changes_type, (), CompilationError),
    (one_side, (5,), CompilationError), (reassigned, (), CompilationError), (two_types, (5,), CompilationError),
    (with_lambda, (), UnsupportedLanguageConstruct),
    (element_assignment, (), UnsupportedLanguageConstruct),
])
def test_the_compiler_says_the_same(kernel, args, kind):
    """Same class; the message up to what only a whole view of the kernel knows."""
    x = np.zeros(8, np.float32)
    with pytest.raises(kind) as eager:
        kernel[(1,)](x, *args)
    with knobs.scope(interpret=False), pytest.raises(kind) as compiled:
        kernel.warmup(x, *args)
    assert eager.value.message.split(" (")[0] == compiled.value.message.split(" (")[0]


def test_code_that_does_not_run_is_not_judged():
    out = np.zeros(8, np.float32)
    one_side[(0,)](out, 5)
    assert not out.any()


@triton.jit
def callee(x):
    tl.store(x, tl.arange(0, 3.5))


@triton.jit
def caller(x):
    callee(x)


def test_an_error_in_a_callee_names_the_call_site():
    with pytest.raises(CompilationError) as caught:
        caller[(1,)](np.zeros(4, np.float32))
    assert caught.value.location.line == line_of(callee, "3.5")
    assert caught.value.location.caller.line == line_of(caller, "callee(x)")


@triton.jit
def out_of_bounds(x, n):
    i = tl.arange(0, 8)
    tl.store(x + i, i, mask=i < n)


def test_memory_is_checked():
    x = np.zeros(5, np.int32)
    out_of_bounds[(1,)](x, 5)
    assert x.tolist() == [0, 1, 2, 3, 4]
    with pytest.raises(OutOfBoundsError, match="element 5 of 'x', whose elements 0 to 4 are in bounds") as caught:
        out_of_bounds[(1,)](x, 6)
    assert f":{line_of(out_of_bounds, 'tl.store')}" in str(caught.value)


def test_read_only_arrays_are_not_written():
    x = np.zeros(5, np.int32)
    x.setflags(write=False)
    with pytest.raises(InterpreterError, match="element 0 of 'x', which is read-only") as caught:
        out_of_bounds[(1,)](x, 5)
    assert f":{line_of(out_of_bounds, 'tl.store')}" in str(caught.value)
    assert not x.any()


@triton.jit
def asserts(x, n):
    tl.device_assert(tl.program_id(0) < n, "too many programs")


@differs("Assertions work in the interpreter", topic="Errors and debugging",
         peer="`tl.device_assert` is always off there.",
         ours="It follows `debug`, as in compiled code.")
def test_device_assert_with_debug():
    x = np.zeros(1, np.int32)
    asserts[(3,)](x, 2)
    with pytest.raises(KernelAssertionError, match=r"program \(2, 0, 0\): too many programs"):
        asserts[(3,)](x, 2, debug=True)


@triton.jit
def warns(x):
    v = tl.load(x + tl.arange(0, 4))
    tl.store(x + tl.arange(0, 4), tl.where(v, 1, 2))


def test_warnings_have_the_users_line():
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        warns[(1,)](np.zeros(4, np.int32))
    assert [(w.filename, w.lineno) for w in caught] == [(__file__, line_of(warns, "tl.where"))]


def test_a_warning_is_given_once_for_all_programs_and_launches():
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("default")
        for _ in range(2):
            warns[(3,)](np.zeros(4, np.int32))
    assert len(caught) == 1


@triton.jit
def grid_ids(out):
    x, y, z = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    w = (z * tl.num_programs(1) + y) * tl.num_programs(0) + x
    tl.store(out + w, w)


def test_every_program_of_a_grid_runs():
    out = np.full(24, -1, np.int32)
    grid_ids[(2, 3, 4)](out)
    assert out.tolist() == list(range(24))


@triton.jit
def pointer_to_pointer(table, out):
    p = tl.load(table).to(tl.pointer_type(tl.int32))
    tl.store(out, tl.load(p + 1))


def test_pointers_out_of_memory_are_followed():
    data = np.array([3, 4], np.int32)
    out = np.zeros(1, np.int32)
    pointer_to_pointer[(1,)](np.array([data.ctypes.data], np.int64), out)
    assert out[0] == 4


SCALE = tl.constexpr(3)


@triton.jit
def reads_global(out):
    tl.store(out, SCALE)


def test_globals_are_read_as_they_are_now(monkeypatch):
    out = np.zeros(1, np.int32)
    reads_global[(1,)](out)
    assert out[0] == 3
    monkeypatch.setitem(globals(), "SCALE", tl.constexpr(5))
    reads_global[(1,)](out)
    assert out[0] == 5
    monkeypatch.setitem(globals(), "SCALE", 7)
    with pytest.raises(CompilationError, match="Cannot access global variable SCALE"):
        reads_global[(1,)](out)
