"""Comparisons beside `&`, `|` and `^`: what is refused or told of, the cure that is shown, and that it is right."""

import ast
import linecache
import re
import warnings

import numpy as np
import pytest

from tests.departures import differs
from tests.frontend.test_nesting import kernel_of
from tilewright.diagnostics import UnsupportedLanguageConstruct
from tilewright.frontend.precedence import slip_in
from tilewright.language.function import SourceFunction
from tilewright.testing.engines import ENGINES, launch

# What is written, what it is shown as, and the cure.
REFUSED = [
    ("i < n | i == 7", "i < (n | i) == 7", "(i < n) | (i == 7)"),
    ("i < n & i >= 0", "i < (n & i) >= 0", "(i < n) & (i >= 0)"),
    ("i < n ^ i == 7", "i < (n ^ i) == 7", "(i < n) ^ (i == 7)"),
    ("0 <= i < n & i != m", "0 <= i < (n & i) != m", "(0 <= i < n) & (i != m)"),
    ("i < n & i >= 0 | i == m", "i < (n & i) >= (0 | i) == m", "(i < n) & (i >= 0) | (i == m)"),
    ("i < n | m & i >= 0", "i < (n | m & i) >= 0", "(i < n) | m & (i >= 0)"),
    ("m & i < n & i >= 0", "m & i < (n & i) >= 0", "m & (i < n) & (i >= 0)"),
    ("i < n & (m) & (i) >= 0", "i < (n & (m) & (i)) >= 0", "(i < n) & (m) & ((i) >= 0)"),
    ("i < -n | ~i == f(7)[0]", "i < (-n | ~i) == f(7)[0]", "(i < -n) | (~i == f(7)[0])"),
    ("x[i & 1] < n&i==7", "x[i & 1] < (n&i)==7", "(x[i & 1] < n)&(i==7)"),
]
TOLD = [
    ("(i >= 0) & i < n", "(i >= 0) & i", "(i >= 0) & (i < n)"),
    ("i < n & (i >= 0)", "n & (i >= 0)", "(i < n) & (i >= 0)"),
    ("i < n | m | (not i)", "n | m | (not i)", "(i < n) | m | (not i)"),
]
MEANT = ["i < n", "0 <= i < n", "(i < n) | (i == 7)", "i < (n | i) == 7", "i < n & 3", "i & 1 == 0", "i < n and i == 7",
         "0 < i + n < m & 7", "i < (n\n  | i) == 7", "i < (  # why (\n  n | i) == 7", "i < ((i > 0) & n)"]


def function_of(text, name="f"):
    file = f"<precedence {text}>"
    source = f"def {name}(i, n, m):\n    return ({text})\n"
    linecache.cache[file] = (len(source), None, source.splitlines(True), file)
    names = {}
    exec(compile(source, file, "exec"), names)
    return SourceFunction(names[name], source=source)


def slip_of(text):
    fn = function_of(text)
    (found,) = [n for n in ast.walk(fn.tree()) if isinstance(n, ast.Compare)][:1]
    return slip_in(fn, found)


@pytest.mark.parametrize("text, chain, cure", REFUSED)
def test_a_chain_through_an_operator_is_refused_with_the_cure(text, chain, cure):
    slip = slip_of(text)
    assert slip.refused and f"`{text}` is the chain of comparisons `{chain}`" in slip.message
    assert f"; write {cure}, or" in slip.message
    assert slip_of(cure) is None, "the cure has no slip"


@pytest.mark.parametrize("text, chain, cure", REFUSED)
def test_the_chain_that_is_shown_is_what_python_computes(text, chain, cure):
    assert ast.dump(ast.parse(chain)) == ast.dump(ast.parse(text)) != ast.dump(ast.parse(cure))


@pytest.mark.parametrize("text, compared, cure", TOLD)
def test_a_truth_in_what_is_compared_is_told_of(text, compared, cure):
    slip = slip_of(text)
    assert not slip.refused and f"compares `{compared}`, since" in slip.message
    assert f"; write {cure}, or" in slip.message


@pytest.mark.parametrize("text", MEANT)
def test_what_is_meant_is_left_alone(text):
    assert slip_of(text) is None


def test_text_on_several_lines_and_beyond_ascii():
    slip = slip_of("i < n  # ä\n  | i == 7")
    assert "write (i < n) | (i == 7), or" in slip.message
    assert "write (ö < n) | (ö == é), or" in slip_of("ö < n | ö == é").message


def kernels(text):
    return kernel_of(f"i = tl.arange(0, 16)\ntl.store(o + i, 1, mask={text})", "masked_" + re.sub(r"\W", "_", text))


@differs("Masks where `&` or `|` stands beside a comparison without parentheses", topic="Control flow",
         peer="`mask=i < n | i == 7` is a chain of comparisons, which 3.6 refuses; `(i >= 0) & i < n` compiles, and is "
              "`((i >= 0) & i) < n`.",
         ours="Chains work, but not through an operator `&`, `|` or `^` without parentheses; the error shows `(i < n) "
              "| (i == 7)`. An operand with a comparison in it is a warning.")
@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("text, chain, cure", REFUSED[:2])
def test_every_engine_refuses_it(engine, text, chain, cure):
    out = np.zeros(16, np.int32)
    with pytest.raises(UnsupportedLanguageConstruct, match=re.escape(f"write {cure}, or")) as caught:
        launch(engine, kernels(text), (1,), None, out, 5)
    assert caught.value.location.line == 3 and not out.any()


@pytest.mark.parametrize("engine", ENGINES)
def test_cures_and_chains_give_what_is_meant(engine):
    i, n = np.arange(16), 5
    for text, expected in [("(i < n) | (i == 7)", (i < n) | (i == 7)), ("(i < n) & (i >= 0)", i < n),
                           ("2 <= i < n", (i >= 2) & (i < n)), ("i < (n | i) == 7", (i < (n | i)) & ((n | i) == 7))]:
        out = np.zeros(16, np.int32)
        launch(engine, kernels(text), (1,), None, out, n)
        assert out.tolist() == expected.astype(int).tolist(), text


@pytest.mark.parametrize("engine", ENGINES)
def test_every_engine_tells(engine):
    out = np.zeros(16, np.int32)
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        launch(engine, kernels("(i >= 0) & i < n"), (1,), None, out, 5)
    told = [w for w in seen if "binds tighter" in str(w.message)]
    assert told and all(w.lineno == 3 and "(i >= 0) & (i < n)" in str(w.message) for w in told)
    assert out.all(), "what is computed is what Python says"
