"""Every kernel in this folder is refused with the class, the text and at the line that its file says."""

import importlib
import pathlib
import re

import numpy as np
import pytest

import tilewright as triton
import tilewright.language as tl
from tests.departures import differs
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


@differs("Arrays that are read-only, and sizes below zero, are refused", topic="Launching and tuning",
         peer="A kernel writes wherever a pointer leads; what a grid with a negative size does is left to the driver.",
         ours="A launch whose kernel writes to a read-only array is a ValueError that names the parameter, and so is a "
              "grid with a negative size; a size of 0 launches nothing.")
def test_launches_that_are_refused_before_they_run():
    @triton.jit
    def write(out):
        tl.store(out, 1)

    frozen = np.zeros(1, np.int32)
    frozen.flags.writeable = False
    with pytest.raises(ValueError, match="parameter 'out' is a read-only array"):
        write[(1,)](frozen)
    out = np.zeros(1, np.int32)
    with pytest.raises(ValueError, match="sizes are >= 0, not -8"):
        write[(-8,)](out)
    write[(0,)](out)
    assert out[0] == 0
