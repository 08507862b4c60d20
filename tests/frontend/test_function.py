"""Source functions: parameters, what they see, where their source is."""

from __future__ import annotations

import ast
import functools
import gc
import linecache
import threading
import time
from typing import Any

import pytest

import tilewright.language as tl
from tests.departures import differs
from tilewright.diagnostics import SourceNotFoundError, source_excerpt
from tilewright.language.function import ConstexprFunction, ParamKind, SourceFunction, unwrapped


def decorated(fn):
    return fn


class Holder:
    @staticmethod
    @decorated
    @functools.cache
    def ignored():
        return 0

    def make(self):
        free = 41
        empty: int

        @decorated
        def inner(x, n: tl.constexpr, y: "tl.constexpr" = 3, *rest, flag=True):  # noqa: UP037
            text = """
  kept"""
            é = "ä"; z = x + free  # noqa: E702
            if x:
                return empty  # noqa: F821
            return z, é, text

        return SourceFunction(inner, do_not_specialize=["x"], do_not_specialize_on_alignment=[1])


def test_parameters():
    x, n, y, rest, flag = Holder().make().params
    assert (x.name, x.index, x.has_default, x.is_constexpr, x.do_not_specialize) == ("x", 0, False, False, True)
    assert n.is_constexpr and n.do_not_specialize_on_alignment and not n.do_not_specialize
    assert y.is_constexpr and y.has_default and y.default == 3
    assert (rest.kind, flag.kind, x.kind) == (ParamKind.VARIADIC, ParamKind.KEYWORD_ONLY, ParamKind.POSITIONAL)


def test_annotations_left_as_text_are_evaluated():
    def kernel(a: tl.int64, b: tl.constexpr, c: unknown_type, d: "i32"):  # noqa: F821, UP037
        pass

    a, b, c, d = SourceFunction(kernel).params
    assert a.annotation == tl.int64 and b.is_constexpr and c.annotation == "unknown_type" and d.annotation == "i32"


def test_closure_leaves_out_what_has_no_value_yet():
    closure = Holder().make().closure
    assert closure["free"] == 41 and "empty" not in closure


def test_the_tree_has_the_files_lines_and_columns():
    fn = Holder().make()
    with open(__file__, encoding="utf-8") as file:
        lines = file.read().split("\n")
    assert lines[fn.first_line - 1].strip().startswith("def inner(")
    assignment = fn.tree().body[2]
    place = fn.location(assignment)
    assert lines[place.line - 1][place.column:place.end_column] == "z = x + free"
    assert fn.line_text(place.line) == lines[place.line - 1]
    shown = source_excerpt(place).split("\n")
    assert shown[1].index("^") == shown[0].index("z =")


def test_source_begins_at_def_and_keeps_strings():
    source = Holder().make().source
    assert source.startswith("def inner(x, n: tl.constexpr")
    assert '    text = """\n  kept"""\n' in source
    assert ast.parse(source)


def test_decorating_is_lazy_and_the_missing_source_is_said_on_use():
    names = {}
    exec("\n".join(["def made(x):", "    return x"]), names)      # a text that nobody has kept
    fn = SourceFunction(names["made"])
    assert [p.name for p in fn.params] == ["x"] and hash(fn) and fn
    with pytest.raises(SourceNotFoundError, match=r"cannot compile made: .*give the text: jit\(source=...\)") as caught:
        fn.tree()
    assert isinstance(caught.value, ValueError)
    assert (caught.value.location.file, caught.value.location.line) == ("<string>", 1)


def test_the_caret_below_a_lambda_begins_where_its_line_does():
    fn = SourceFunction(lambda x: x)
    with pytest.raises(SourceNotFoundError, match="a lambda cannot be compiled") as caught:
        fn.tree()
    code, carets = str(caught.value).splitlines()[1:3]
    assert code.index("fn = ") == carets.index("^") and len(code) == len(carets)


@differs("Kernels need no file")
@pytest.mark.parametrize("before", ["", "import math\n\n\n", "@decorated\n"])
def test_given_source_has_the_lines_of_the_executed_text(before):
    text = before + "def made(x):\n    y = x\n    return y\n"
    names = {"decorated": decorated}
    exec(text, names)
    whole = SourceFunction(names["made"], source=text)
    alone = SourceFunction(names["made"], source="def made(x):\n    y = x\n    return y\n")
    assert whole.first_line == text[:text.index("def")].count("\n") + 1
    assert whole.source == alone.source == "def made(x):\n    y = x\n    return y\n"
    assert whole.line_text(whole.first_line + 1) == "    y = x"
    if "@" not in before:
        assert alone.first_line == whole.first_line


def test_notebook_cells_are_found_by_linecache():
    text = "z = 0\ndef cell(x):\n    return x + 1\n"
    linecache.cache["<cell 7>"] = (len(text), None, text.splitlines(keepends=True), "<cell 7>")
    names = {}
    exec(compile(text, "<cell 7>", "exec"), names)
    fn = SourceFunction(names["cell"])
    assert fn.first_line == 2 and fn.source == "def cell(x):\n    return x + 1\n"


def test_a_file_changed_since_its_import_is_noticed(tmp_path):
    file = tmp_path / "changed_kernel.py"
    file.write_text("def kernel(x):\n    return x\n")
    names = {}
    exec(compile(file.read_text(), str(file), "exec"), names)
    file.write_text("# new\ndef kernel(x):\n    return x\n")
    with pytest.raises(SourceNotFoundError, match="does not define it: the file was changed"):
        SourceFunction(names["kernel"]).tree()
    file.write_text("")
    with pytest.raises(SourceNotFoundError, match="cannot be read"):
        SourceFunction(names["kernel"]).tree()


def test_what_cannot_be_a_kernel_is_refused_when_decorated():
    with pytest.raises(TypeError, match="takes a Python function, not type"):
        SourceFunction(Holder)

    def keywords(**rest):
        pass

    with pytest.raises(TypeError, match=r"cannot take \*\*keywords"):
        SourceFunction(keywords)


def test_calling_it_outside_of_a_kernel():
    with pytest.raises(RuntimeError, match="Cannot call @triton.jit'd outside of the scope of a kernel"):
        Holder().make()(1)


def test_constexpr_functions_are_the_function_outside_of_kernels():
    @ConstexprFunction
    def half(x, by=2):
        """Doc."""
        return x // by

    assert half(9) == half(tl.constexpr(9)) == 4 and half(9, by=tl.constexpr(3)) == 3
    assert (half.__name__, half.__doc__) == ("half", "Doc.")
    assert unwrapped([tl.constexpr(1), (tl.constexpr(2), 3)]) == [1, (2, 3)]


def test_threads_parse_at_once():
    """CPython up to 3.11 raises SystemError where a second thread comes in, as it may when garbage is collected."""
    body = "\n".join(f"    x = ((a + {k}) * (b - {k}))[{k}] + f(a, b, {k})" for k in range(50))
    text = f"def kernel(a, b):\n{body}\n"
    made: dict[str, Any] = {}
    exec(text, made)
    failed = []

    def parse() -> None:
        try:
            SourceFunction(made["kernel"], source=text).tree()
        except SystemError as error:
            failed.append(error)

    def others_go_on(*_: object) -> None:
        time.sleep(1e-6)

    thresholds = gc.get_threshold()
    gc.callbacks.append(others_go_on)
    gc.set_threshold(50)
    try:
        threads = [threading.Thread(target=parse) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        gc.set_threshold(*thresholds)
        gc.callbacks.remove(others_go_on)
    assert not failed
