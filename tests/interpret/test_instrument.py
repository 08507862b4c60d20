"""The instrumented form of a function: names stay locals, lines the user's, nothing of Python's own meaning left."""

import ast
import re

import pytest

import tilewright.language as tl
from tilewright.interpret.instrument import BranchFacts, LoopFacts, instrument
from tilewright.interpret.instrument_expressions import assigned_names
from tilewright.language.function import SourceFunction


def sample(x, n, *, N: tl.constexpr = 4):
    """Everything that changes meaning."""
    a, (b, _) = x, (n, 2)
    a += b // 2 if n > 3 and not n < 1 else -n
    C: tl.constexpr = N * 2
    for i in range(C):
        if i == 2:
            continue
        t = [k + 1 for k in (1, 2)][0]
        a = a + i[None, :] * t
    while 0 < n <= 10:
        n -= 1
        break
    (late := a)
    return late


CODE = instrument(SourceFunction(sample))


def test_it_keeps_name_file_lines_and_parameters():
    code = CODE.code
    assert (code.co_name, code.co_filename) == ("sample", __file__)
    assert code.co_varnames[:code.co_argcount] == ("x", "n", "N") and code.co_freevars == ("__tw",)
    first = sample.__code__.co_firstlineno
    lines = {line for _, _, line in code.co_lines() if line is not None}
    assert min(lines) >= first and max(lines) == first + 14
    assert {first + 2, first + 3, first + 9, first + 14} <= lines
    assert CODE.bound(None).__doc__ == sample.__doc__


def test_the_users_variables_stay_locals():
    code = CODE.code
    assert {"a", "b", "C", "i", "t", "late"} <= set(code.co_varnames)
    assert "k" in code.co_varnames + code.co_cellvars, "as in the compiler, a comprehension's target is a variable"
    assert {n for n in code.co_cellvars if not n.startswith("__tw")} <= {"k"}


def test_no_operator_and_no_global_name_is_left():
    tree = ast.parse(ast.unparse(_rewritten(sample)))
    plain = ast.BinOp | ast.UnaryOp | ast.Compare | ast.BoolOp | ast.AugAssign | ast.AnnAssign
    left = {ast.unparse(node) for node in ast.walk(tree) if isinstance(node, plain)}
    ours = re.compile(r"'\w+' in __tw\d+\.(new|gone)|__tw\.gettrace\(\) and __tw\.settrace\(None\)")
    assert [text for text in left if not ours.fullmatch(text)] == []
    names = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)}
    own = {"x", "n", "N", "a", "b", "_", "C", "i", "t", "k", "late"}
    assert {n for n in names if not n.startswith("__tw")} - own == {"locals"}


def _rewritten(fn):
    from tilewright.interpret.instrument import _Rewriter

    return _Rewriter(SourceFunction(fn)).rewritten()


def test_places_point_at_the_source():
    texts = set()
    with open(__file__) as file:
        lines = file.read().splitlines()
    for place in CODE.locations:
        assert place.file == __file__ and place.function == "sample"
        if place.line == place.end_line:
            texts.add(lines[place.line - 1][place.column:place.end_column])
    assert {"b // 2", "n > 3", "i[None, :]", "a = a + i[None, :] * t", "n > 3 and not n < 1"} <= texts


def test_facts_of_branches_and_loops():
    branch, = [f for f in CODE.facts if isinstance(f, BranchFacts)]
    assert branch.then == branch.otherwise == () and not branch.returns
    counted, waiting = [f for f in CODE.facts if isinstance(f, LoopFacts)]
    assert counted.target == "i" and set(counted.carried) == {"k", "a"} and set(counted.inner) >= {"a", "t"}
    assert waiting.target == "" and waiting.carried == ("n",) and waiting.decaying == {"n"}


def test_assigned_names():
    body = ast.parse("a, (b, *c) = d\nfor e in f:\n  g: int = (h := 1)\n[i for i in j]\ndef k():\n  l = 1\n").body
    assert assigned_names(body) == ("a", "b", "c", "e", "g", "h", "i")


@pytest.mark.parametrize("text", ["with x: pass", "del x", "import os", "global y", "try: pass\nfinally: pass"])
def test_what_has_no_meaning_raises_only_when_reached(text):
    body = "".join(f"        {line}\n" for line in text.splitlines())
    source = f"def kernel(x):\n    if False:\n{body}    return 1\n"
    names = {}
    exec(source, names)
    code = instrument(SourceFunction(names["kernel"], source=source))
    assert "unsupported" in code.code.co_names
