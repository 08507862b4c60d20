"""Every kernel in this folder is refused with the class, the text and at the line that its file says."""

import importlib
import pathlib
import re

import pytest

from tests.errors.harness import Case, LaunchCase

FOLDER = pathlib.Path(__file__).parent
FILES = sorted(p.stem for p in FOLDER.glob("*.py") if not p.stem.startswith(("__init__", "harness", "test_")))


def cases_of(stem):
    module = importlib.import_module(f"tests.errors.{stem}")
    named = [value for value in vars(module).values() if isinstance(value, Case | LaunchCase)]
    return [*named, *vars(module).get("CASES", ())]


ALL = [(stem, case) for stem in FILES for case in cases_of(stem)]


@pytest.mark.parametrize("case", [c for _, c in ALL], ids=[f"{stem}-{c.name}" for stem, c in ALL])
def test_is_refused(case):
    case.check()


@pytest.mark.parametrize("stem", FILES)
def test_every_comment_belongs_to_a_case(stem):
    """A forgotten decorator must not hide a case."""
    comments = re.findall(r"# error: \w+:", (FOLDER / f"{stem}.py").read_text())
    assert len(comments) == len(cases_of(stem)) >= 3
