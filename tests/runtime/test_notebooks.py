"""Kernels in cells of a notebook: sources are found, and what another cell defines anew is compiled anew."""

import linecache

import numpy as np
import pytest

import tilewright as triton
import tilewright.language as tl
from tilewright.diagnostics import CompilationError, OutOfBoundsError

CELL = """\
import tilewright as triton
import tilewright.language as tl

SCALE = tl.constexpr(3)

@triton.jit
def helper(v):
    return v * SCALE

@triton.jit
def kernel(x, n, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(x + i, helper(i) + n, mask=i < n)
"""


class Notebook:
    """Runs cells as IPython and ipykernel do: each is compiled under a name of its own, of which `linecache` has the
    text.  `style` says how the names look."""

    def __init__(self, style):
        self.style, self.count = style, 0
        self.names = {"__name__": "__main__"}

    def run(self, text):
        self.count += 1
        name = self.style.format(self.count)
        linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)
        exec(compile(text, name, "exec"), self.names)
        return name

    def launch(self, size=8):
        x = np.zeros(size, np.int32)
        for n in (size, size):
            self.names["kernel"][(1,)](x, n, N=size)
        return list(x)


STYLES = ["<ipython-input-{}-0a1b2c3d>", "/tmp/ipykernel_4242/{}123.py", "/tmp/does not exist/ipykernel_7/{}.py"]


@pytest.fixture(params=STYLES)
def notebook(request):
    return Notebook(request.param)


def expected(scale, n=8):
    return [i * scale + n for i in range(n)]


def test_a_kernel_of_a_cell_runs(notebook):
    notebook.run(CELL)
    assert notebook.launch() == expected(3)


def test_a_helper_that_another_cell_defines_anew(notebook):
    notebook.run(CELL)
    for _ in range(3):      # native in the end
        assert notebook.launch() == expected(3)
    notebook.run("@triton.jit\ndef helper(v):\n    return v * SCALE * 2\n")
    assert notebook.launch() == expected(6)
    notebook.run("@triton.jit\ndef helper(v):\n    return v * SCALE\n")
    assert notebook.launch() == expected(3)


def test_a_constant_that_another_cell_defines_anew(notebook):
    notebook.run(CELL)
    for _ in range(3):
        assert notebook.launch() == expected(3)
    notebook.run("SCALE = tl.constexpr(5)\n")
    assert notebook.launch() == expected(5)
    notebook.run("SCALE = tl.constexpr(5)\n")       # the same again: another object, the same answer
    assert notebook.launch() == expected(5)


def test_a_cell_that_is_run_again_with_changes(notebook):
    notebook.run(CELL)
    assert notebook.launch() == expected(3)
    notebook.run(CELL.replace("+ n", "- n"))
    assert notebook.launch() == [3 * i - 8 for i in range(8)]


def test_a_helper_that_is_an_ordinary_function(notebook):
    notebook.run(CELL.replace("@triton.jit\ndef helper", "@triton.constexpr_function\ndef factor():\n    return 7\n\n"
                              "@triton.jit\ndef helper").replace("v * SCALE", "v * factor()"))
    assert notebook.launch() == expected(7)
    notebook.run("@triton.constexpr_function\ndef factor():\n    return 9\n")
    assert notebook.launch() == expected(9)


def test_errors_name_the_cell(notebook):
    name = notebook.run(CELL.replace("helper(i) + n", "helper(j) + n"))
    with pytest.raises(CompilationError) as caught:
        notebook.launch()
    assert str(caught.value).startswith(f"at {name}:13:28 in kernel:") and "helper(j)" in str(caught.value)
    name = notebook.run(CELL.replace(", mask=i < n", ""))
    with pytest.raises(OutOfBoundsError, match="element 4 of 'x'") as caught:
        notebook.names["kernel"][(1,)](np.zeros(4, np.int32), 8, N=8)
    assert f"at {name}:13:" in str(caught.value)


def test_a_cell_whose_text_is_gone_is_refused_with_the_cure(notebook):
    name = notebook.style.format("gone")
    exec(compile(CELL, name, "exec"), notebook.names)       # nobody has told linecache
    text = CELL     # noqa: F841  (a caller's variable that has the text would be found)
    del text
    kernel = notebook.names["kernel"]
    with pytest.raises(CompilationError, match=r"jit\(source="):
        kernel[(1,)](np.zeros(8, np.int32), 8, N=8)


def test_the_text_given_as_source():
    names = {"triton": triton, "tl": tl}
    body = "def kernel(x, N: tl.constexpr):\n    i = tl.arange(0, N)\n    tl.store(x + i, i)\n"
    exec(compile(body, "/nowhere/file.py", "exec"), names)
    x = np.zeros(8, np.int32)
    triton.jit(names["kernel"], source=body)[(1,)](x, N=8)
    assert list(x) == list(range(8))
