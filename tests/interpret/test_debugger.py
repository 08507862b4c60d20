"""Debugging a kernel in the eager engine, with Python's own debugger: what it shows and where it stops."""

import bdb
import inspect
import io
import pdb
import sys

import numpy as np
import pytest

import tilewright as triton
import tilewright.language as tl
from tilewright.interpret.tracing import hide_own_frames
from tilewright.language.builder import Builder
from tilewright.runtime import knobs
from tilewright.runtime.hooks import HookChain


@pytest.fixture(autouse=True)
def eager():
    with knobs.scope(interpret=True):
        yield


@triton.jit
def doubled(a, b):
    c = a + b
    return c * 2


@triton.jit
def kernel(x_ptr, n, B: tl.constexpr):
    pid = tl.program_id(0)
    at = pid * B + tl.arange(0, B)
    x = tl.load(x_ptr + at, mask=at < n)
    h = x.to(tl.bfloat16)
    breakpoint()
    y = doubled(x, 1)
    for i in range(2):
        y += i
    tl.store(x_ptr + at, y, mask=at < n)


@pytest.fixture
def debug(monkeypatch):
    """`debug(kernel, grid, args, commands)`: what pdb answers to each command, given at the first breakpoint."""
    def run(fn, grid, args, *commands):
        out = io.StringIO()
        debugger = pdb.Pdb(stdin=io.StringIO("".join(c + "\n" for c in commands)), stdout=out, nosigint=True)
        debugger.prompt = "\n(Pdb)\n"
        monkeypatch.setattr(sys, "breakpointhook", lambda: debugger.set_trace(sys._getframe(1)))
        try:
            fn[grid](*args)
        finally:
            sys.settrace(None)
        return [answer.strip("\n") for answer in out.getvalue().split("\n(Pdb)\n")][1:]

    return run


SHOWN = {
    "p x": "tensor(fp32[4], [0. 1. 2. 3.])",
    "pp x": "tensor(fp32[4], [0. 1. 2. 3.])",
    "print(x)": "[0. 1. 2. 3.]",
    "p x + 1": "tensor(fp32[4], [1. 2. 3. 4.])",
    "p tl.sum(x, 0)": "tensor(fp32, 6.)",
    "p x.sum(0)": "tensor(fp32, 6.)",
    "p tl.where(x > 1, x, 0.5)": "tensor(fp32[4], [0.5 0.5 2.  3. ])",
    "p h": "tensor(bf16[4], [0. 1. 2. 3.])",
    "p pid": "tensor(int32, 0)",
    "p int(pid), float(pid), bool(pid)": "(0, 0.0, False)",
    "p x[None, :] + x[:, None] > 3": "tensor(int1[4, 4], [[False False False False]\n"
                                     "                    [False False False  True]\n"
                                     "                    [False False  True  True]\n"
                                     "                    [False  True  True  True]])",
    "p x.handle.data.tolist(), pid.handle.data.tolist()": "([0.0, 1.0, 2.0, 3.0], [0])",
}


@pytest.mark.parametrize("command", SHOWN)
def test_the_prompt_shows_values(debug, command):
    answer, _ = debug(kernel, (1,), (np.arange(4, dtype=np.float32), 4, 4), command, "c")
    assert answer == SHOWN[command]


def test_shapes_are_shown_as_numbers_and_arguments_without_ours(debug):
    @triton.jit
    def stops(x_ptr, B: tl.constexpr):
        x = tl.load(x_ptr + tl.arange(0, B))[:, None]
        y = x.reshape((B,))
        breakpoint()
        tl.store(x_ptr, tl.sum(y))

    def answers(*commands):
        return debug(stops, (1,), (np.arange(4), 4), *commands, "c")[:-1]

    assert answers("p x.shape", "p y.shape", "x.shape[0] + 1") == ["(4, 1)", "(4,)", "constexpr[5]"]
    (said,) = answers("args")
    assert [line.partition(" = ")[0] for line in said.splitlines()] == ["x_ptr", "B"]


def test_addresses_and_unsigned_numbers(debug):
    @triton.jit
    def looks(p):
        u = tl.load(p + tl.arange(0, 2))
        q = p + 1
        breakpoint()
        u += 1

    x = np.array([1, 250], np.uint8)
    values, addresses, _ = debug(looks, (1,), (x,), "p u", "p q", "c")
    assert values == "tensor(uint8[2], [  1 250])"
    assert addresses == f"tensor(pointer<uint8>, {x.ctypes.data + 1:#x})"


def line(fn, text):
    lines, first = inspect.getsourcelines(fn.fn)
    return next(first + i for i, code in enumerate(lines) if text in code)


def test_step_goes_into_the_users_function_and_back(debug):
    answers = debug(kernel, (1,), (np.arange(4, dtype=np.float32), 4, 4), *["s"] * 7, "c")
    stops = [a.splitlines()[-2].partition("test_debugger.py")[2] for a in answers[1:-1]]
    assert all("> " in a and __file__ in a for a in answers[:-1]), answers
    assert stops == [f"({line(doubled, 'c = a')})doubled()", f"({line(doubled, 'return c')})doubled()",
                     f"({line(doubled, 'return c')})doubled()->tensor(fp32[4], [2. 4. 6. 8.])",
                     f"({line(kernel, 'for i')})kernel()", f"({line(kernel, 'y += i')})kernel()",
                     f"({line(kernel, 'for i')})kernel()"]


def test_next_stays_in_users_code_to_the_end_of_the_launch(debug):
    @triton.jit
    def stops_once(p):
        pid = tl.program_id(0)
        if pid == 0:
            breakpoint()
        tl.store(p + pid, pid)

    class Launch:
        def __getitem__(self, grid):
            return launch

    def launch(x):
        stops_once[(2,)](x)
        return x.sum()

    answers = debug(Launch(), None, (np.zeros(2, np.int32),), *["n"] * 10, "c")
    stops = [a.splitlines()[-2] for a in answers[:-1]]
    assert all(__file__ in stop for stop in stops), stops
    names = [stop.partition(")")[2].partition("(")[0] for stop in stops]
    assert names == ["stops_once"] * 7 + ["launch", "launch", "run"], names


def test_where_and_up_show_no_frame_of_ours(debug):
    @triton.jit
    def inner(a):
        breakpoint()
        return a + 1

    @triton.jit
    def outer(p):
        tl.store(p, inner(tl.load(p)))

    where, up, twice_up, _ = debug(outer, (1,), (np.zeros(1, np.int32),), "w", "u", "u", "c")
    entries = [line for line in where.splitlines() if line.startswith(("  /", "> /"))]
    assert "tilewright/" not in where.replace("tests/", "")
    assert [entry.rpartition(")")[0].rpartition(")")[2] for entry in entries[-3:]] == ["run(", "outer(", "inner("]
    assert "outer()" in up and "run()" in twice_up


def test_frames_of_ours_are_there_for_who_stops_in_them():
    hide_own_frames()
    debugger, listed, chain = bdb.Bdb(), [], HookChain()
    debugger.reset()
    chain.add(lambda: listed.extend(debugger.get_stack(sys._getframe(1), None)[0]))
    chain()
    frame, _ = listed[-1]
    assert frame.f_code is HookChain.__call__.__code__ and listed[-2][0] is sys._getframe()


def test_a_breakpoint_in_a_called_function_marks_no_frame_of_ours(debug):
    @triton.jit
    def inner(a):
        breakpoint()
        return a + 1

    @triton.jit
    def outer(p):
        b = inner(tl.load(p))
        tl.store(p, b)

    answers = debug(outer, (1,), (np.zeros(1, np.int32),), *["n"] * 4, "c")
    stops = [a.splitlines()[-2] for a in answers[:-1]]
    names = [stop.partition(")")[2].partition("(")[0] for stop in stops]
    assert all(__file__ in stop for stop in stops) and names == ["inner", "outer", "outer", "run"], stops


def test_set_trace_of_any_debugger(monkeypatch):
    @triton.jit
    def plain(p):
        a = tl.load(p)
        pdb.set_trace()
        tl.store(p, a + 1)

    @triton.jit
    def imported(p):
        a = tl.load(p)
        import pdb; pdb.set_trace()  # noqa: E702, I001
        tl.store(p, a + 1)

    @triton.jit
    def named(p):
        a = tl.load(p)
        from pdb import set_trace
        set_trace()
        tl.store(p, a + 1)

    seen = []
    monkeypatch.setattr(pdb, "set_trace", lambda: seen.append(int(sys._getframe(1).f_locals["a"])))
    for fn in (plain, imported, named):
        x = np.array([5], np.int32)
        fn[(1,)](x)
        assert x.tolist() == [6]
    assert seen == [5, 5, 5]


def test_f_strings_show_values(capsys):
    @triton.jit
    def says(p):
        v = tl.load(p + tl.arange(0, 3))
        n = tl.load(p)
        print(f"v={v} n={n:04d} {v!r}")

    says[(1,)](np.array([1, 2, 3], np.int32))
    assert capsys.readouterr().out == "pid (0, 0, 0) v=[1 2 3] n=0001 tensor(int32[3], [1 2 3])\n"


def test_print_of_a_tile(capsys):
    """With a text and tensors it is what compiled code prints; else whole tiles are shown (docs/tutorial.md)."""
    @triton.jit
    def says(p):
        v = tl.load(p + tl.arange(0, 3))
        print("v", v)
        print(v)
        print("tile", v, f"{v}")

    says[(1,)](np.array([1, 2, 3], np.int32))
    assert capsys.readouterr().out == (
        "pid (0, 0, 0) idx (0) v: 1\npid (0, 0, 0) idx (1) v: 2\npid (0, 0, 0) idx (2) v: 3\n"
        "[1 2 3]\ntile [1 2 3] [1 2 3]\n")


def test_static_print_shows_types(capsys):
    @triton.jit
    def says(p):
        tl.static_print("v", tl.load(p + tl.arange(0, 4)))

    says[(1,)](np.zeros(4, np.float32))
    with knobs.scope(interpret=False):
        says[(1,)](np.zeros(4, np.float32))
    assert capsys.readouterr().out == "v fp32[constexpr[4]]\n" * 2


def test_every_builder_has_the_whole_protocol():
    from tests.lang.recorder import Recorder
    from tilewright.frontend.graph import GraphBuilder
    from tilewright.interpret.eager import EagerBuilder

    methods = {name for name, value in vars(Builder).items() if inspect.isfunction(value) and name[0] != "_"}
    assert {"emit", "tell", "warn", "values"} <= methods
    for made in (GraphBuilder, EagerBuilder, Recorder):
        for name in methods:
            parameters = list(inspect.signature(getattr(made, name)).parameters)
            assert parameters == list(inspect.signature(getattr(Builder, name)).parameters), (made, name)
