"""Kernels that nest deeply: what runs, and what is said of what does not."""

import linecache
import sys

import numpy as np
import pytest

import tilewright as triton
import tilewright.language as tl

ENGINES = ["cpu", "eager"]


@pytest.fixture(autouse=True)
def python_s_own_recursion_limit():
    """torch's compiler raises the limit of its process and leaves it so."""
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(1000)
    yield
    sys.setrecursionlimit(before)


def kernel_of(body, name):
    """A kernel with this body, in a file of its own."""
    file = f"<{name}>"
    text = f"def {name}(x, o, n):\n" + "".join(f"    {line}\n" for line in body.splitlines())
    linecache.cache[file] = (len(text), None, text.splitlines(True), file)
    names = {"tl": tl}
    exec(compile(text, file, "exec"), names)
    return triton.jit(names[name], source=text)


def run(kernel, engine, n=3):
    x, o = np.full(1, 2, np.int32), np.zeros(1, np.int32)
    with triton.knobs.scope(interpret=engine == "eager"):
        kernel[(1,)](x, o, n)
    return int(o[0])


@pytest.mark.parametrize("engine", ENGINES)
def test_a_long_sum(engine):
    body = "v = tl.load(x)\ntl.store(o, v" + " + v - 1" * 250 + " + v * n)"
    assert run(kernel_of(body, "long_sum"), engine) == 2 + 250 + 6


@pytest.mark.parametrize("engine", ENGINES)
def test_an_error_in_a_long_sum_is_at_its_operator(engine):
    body = "v = tl.load(x)\ntl.store(o, v" + " + v" * 20 + "\n  + x" + " + v" * 20 + ")"
    with pytest.raises(triton.CompilationError) as caught:
        run(kernel_of(body, "wrong_sum"), engine)
    assert caught.value.location.line == 3


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("stop", [3, 30, 400])
def test_many_unrolled_iterations_with_a_break(engine, stop):
    body = (f"v = tl.load(x)\ncount = 0\nfor i in tl.static_range(100):\n  if v + i == 6:\n    continue\n"
            f"  if i == {stop} + v - 2:\n    break\n  count += 1\ntl.store(o, count)")
    assert run(kernel_of(body, f"leaves_at_{stop}"), engine) == min(stop, 100) - (stop > 4)


def test_a_long_chain_of_compile_time_elif():
    body = "k: tl.constexpr = 900\nr = 0\nif k == 0:\n  r = 1" + "".join(
        f"\nelif k == {i}:\n  r = {i + 1}" for i in range(1, 1000)) + "\ntl.store(o, r)"
    assert run(kernel_of(body, "long_chain"), "cpu") == 901


@pytest.mark.parametrize("engine", ENGINES)
def test_a_deep_expression(engine):
    body = "v = tl.load(x)\ntl.store(o, " + "-" * 900 + "v)"
    with pytest.raises(triton.CompilationError, match=r"this expression is 90\d levels deep; give a name") as caught:
        run(kernel_of(body, "deep"), engine)
    assert caught.value.location.line == 3


@pytest.mark.parametrize("branches", [110, 125, 140, 155, 170, 185, 200])
def test_a_chain_of_elif_that_only_some_of_the_compiler_can_walk(branches):
    """Somewhere in between the frontend does, and passes or the code generator do not."""
    body = "v = tl.load(x)\nr = 0\nif v == 0:\n  r = 1" + "".join(f"\nelif v == {i}:\n  r = {i + 1}"
                                                                  for i in range(1, branches)) + "\ntl.store(o, r)"
    try:
        assert run(kernel_of(body, f"between_{branches}"), "cpu") == 3
    except triton.CompilationError as error:
        assert f"this chain of `if` and `elif` has {branches} branches" in str(error) and error.location.line == 4


def test_a_chain_of_elif():
    body = "v = tl.load(x)\nr = 0\nif v == 0:\n  r = 1" + "".join(f"\nelif v == {i}:\n  r = {i + 1}"
                                                                   for i in range(1, 300)) + "\ntl.store(o, r)"
    with pytest.raises(triton.CompilationError, match="this chain of `if` and `elif` has 300 branches") as caught:
        run(kernel_of(body, "chain"), "cpu")
    assert caught.value.location.line == 4
