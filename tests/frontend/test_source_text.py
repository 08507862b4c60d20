"""Kernels that are in no file: `python -c`, `exec`, notebooks; found and proved, or refused with the cure."""

import linecache
import subprocess
import sys

import pytest

from tests.departures import differs
from tilewright.diagnostics import SourceNotFoundError
from tilewright.language.function import SourceFunction
from tilewright.language.source_text import command_text, found_text, is_text_of

TEXT = "import math\n\ndef made(x):\n    y = x + 1\n    return y\n"


def executed(text, name="made", file="<string>"):
    names = {"__name__": "made_up"}
    exec(compile(text, file, "exec"), names)
    return names[name]


def decorated_in_a_call(fn):
    return SourceFunction(fn)


def test_the_text_is_a_local_of_the_caller():
    text = TEXT.replace("+ 1", "+ 2")
    fn = decorated_in_a_call(executed(text))
    assert fn.source == "def made(x):\n    y = x + 2\n    return y\n"
    assert fn.first_line == 3 and fn.line_text(4) == "    y = x + 2"


def test_the_text_is_a_constant_of_the_caller():
    names = {}
    exec("def made(x):\n    return x * 3\n", names)
    assert SourceFunction(names["made"]).source == "def made(x):\n    return x * 3\n"


def test_decorated_inside_the_text():
    text = "@decorated\ndef made(x):\n    return x * 4\n"
    names = {"decorated": SourceFunction}
    exec(text, names)
    assert names["made"].source == "def made(x):\n    return x * 4\n"


def test_another_text_is_not_taken():
    """Two texts of one name are at hand; each function gets its own."""
    first, second = TEXT, TEXT.replace("y = x + 1", "y = x - 1")
    one, two = executed(first), executed(second)
    assert "x + 1" in SourceFunction(one).source and "x - 1" in SourceFunction(two).source


@pytest.mark.parametrize("change", [("+ 1", "+ 5"), ("x + 1", "x - 1"), ("made(x)", "made(x, z=1)"),
                                    ("import", "\nimport"), ("return y", "return x"), ("y = x + 1", "y = x + True")])
def test_every_difference_is_seen(change):
    assert is_text_of(TEXT, executed(TEXT).__code__)
    assert not is_text_of(TEXT.replace(*change), executed(TEXT).__code__)


def test_unproved_is_refused():
    fn = SourceFunction(executed(TEXT.replace("+ 1", "+ " + str(len(TEXT)))))
    with pytest.raises(SourceNotFoundError, match=r"<string> is no file, .*jit\(source=...\)"):
        fn.tree()


def test_future_annotations_and_nested_functions():
    text = ("from __future__ import annotations\ndef outer(n):\n    def made(x: unknown):\n        return x + n\n"
            "    return made\n")
    fn = SourceFunction(executed(text, "outer")(3))
    assert fn.source == "def made(x: unknown):\n    return x + n\n"
    assert fn.closure == {"n": 3}


def test_cells_with_await_outside_functions():
    import ast
    text = "def made(x):\n    return x\nawait made(1)\n"
    code = compile(text, "<cell 1>", "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    (made,) = [c for c in code.co_consts if hasattr(c, "co_code")]
    assert is_text_of(text, made)


def test_a_cell_that_was_replaced_under_its_name():
    old = TEXT.replace("+ 1", "+ 7")
    made = executed(old, file="<cell>")
    text = TEXT.replace("+ 1", "+ 8")
    linecache.cache["<cell>"] = (len(text), None, text.splitlines(keepends=True), "<cell>")
    try:
        del old
        assert found_text(made.__code__) is None
        assert found_text(executed(text, file="<cell>").__code__) == text
    finally:
        del linecache.cache["<cell>"]


@pytest.mark.parametrize(("words", "text"), [
    (["python", "-c", "A", "b"], "A"), (["python", "-Bc", "A"], "A"), (["python", "-cA"], "A"),
    (["python", "-W", "error", "-X", "dev", "-c", "A"], "A"), (["python", "-Wc", "-Ic", "A"], "A"),
    (["python", "file.py", "-c", "A"], None), (["python", "-m", "module", "-c", "A"], None), (["python"], None),
    (["python", "-c"], None), (["python", "-", "-c", "A"], None), (["python", "--help", "-c", "A"], None)])
def test_command_lines(words, text):
    assert command_text(words) == text


PROGRAM = """
import numpy as np, tilewright as triton, tilewright.language as tl
@triton.jit
def kernel(x, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(x + i, i * 2)
x = np.zeros(8, np.int32)
kernel[(1,)](x, N=8)
print(x.tolist())
"""


@differs("Kernels need no file", topic="Launching and tuning",
         peer="A kernel must stand in a file.",
         ours="`python -c`, `exec` of a text that can be found, notebooks and `jit(source=...)` work.")
@pytest.mark.parametrize("words", [["-c", PROGRAM], ["-c", f"exec({PROGRAM!r})"],
                                   ["-c", f"import sys; text = {PROGRAM!r}; exec(text)"]])
def test_kernels_of_a_command_run(words):
    done = subprocess.run([sys.executable, *words], capture_output=True, text=True)
    assert done.stdout == "[0, 2, 4, 6, 8, 10, 12, 14]\n", done.stderr


def test_kernels_of_standard_input_are_refused_with_the_cure():
    if sys.version_info >= (3, 13):
        pytest.skip("Python keeps this text")
    done = subprocess.run([sys.executable, "-"], input=PROGRAM, capture_output=True, text=True)
    assert "jit(source=...)" in done.stderr and "SourceNotFoundError" in done.stderr
