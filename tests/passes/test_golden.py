"""Golden files of the passes: text before and after, and the same results in the interpreter."""

from pathlib import Path

import pytest

from tests.passes.executing import run_on_random_memory
from tests.passes.golden_files import Golden, compare, read
from tilewright.ir.parse import parse_module
from tilewright.ir.text import print_module
from tilewright.passes import PASSES, STANDARD, Pass, run_passes, standard

ROOT = Path(__file__).parent / "golden"
CASES = [read(p) for p in sorted(ROOT.glob("*/*.ir"))]
LISTS = {"standard": STANDARD, "standard_fused": standard(enable_fp_fusion=True)}


def passes_of(golden: Golden) -> list[Pass]:
    names = [n.strip() for n in golden.header["passes"].split(",")]
    return [p for name in names for p in (LISTS[name] if name in LISTS else [PASSES[name]])]


@pytest.mark.parametrize("golden", CASES, ids=lambda g: g.id)
def test_golden(golden: Golden, accept: bool):
    before = parse_module(golden.before, str(golden.path))
    after = run_passes(before, passes_of(golden), check=2)
    text = print_module(after)
    assert print_module(parse_module(text)) == text
    compare(golden, text, accept)


@pytest.mark.parametrize("golden", CASES, ids=lambda g: g.id)
def test_a_pass_finds_nothing_more_to_do_in_what_it_left_alone(golden: Golden):
    before = parse_module(golden.before, str(golden.path))
    passes = passes_of(golden)
    after = run_passes(before, passes)
    if print_module(after) == print_module(before) and len(passes) == 1:
        assert after is before, "the pass made a new module with the same text: identity means unchanged"


@pytest.mark.parametrize("golden", [g for g in CASES if "run" not in g.header], ids=lambda g: g.id)
def test_same_results(golden: Golden):
    """Executed before and after; contraction changes roundings, so it is compared with what it should compute."""
    before = parse_module(golden.before, str(golden.path))
    after = run_passes(before, passes_of(golden))
    for seed in range(2):
        old, new = run_on_random_memory(before, seed), run_on_random_memory(after, seed)
        assert old == new


@pytest.mark.parametrize("name", sorted(PASSES))
def test_each_pass_has_a_case_where_it_fires_and_one_where_it_must_not(name: str):
    fires = set()
    for golden in CASES:
        if golden.path.parent.name == name:
            assert golden.header["passes"] == name
            before = parse_module(golden.before, str(golden.path))
            fires.add(run_passes(before, passes_of(golden)) is not before)
    assert fires == {True, False}
