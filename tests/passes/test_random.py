"""Random modules: each pass leaves their results as they are, and their text reads back."""

from dataclasses import replace

import pytest

from tests.passes.executing import run_on_random_memory
from tests.passes.random_modules import random_module
from tilewright.ir.parse import parse_module
from tilewright.ir.text import print_module
from tilewright.ir.verify import verify
from tilewright.passes import PASSES, STANDARD, run_passes

SEEDS = range(40)


@pytest.mark.parametrize("seed", SEEDS)
def test_each_pass_keeps_results(seed: int):
    module = random_module(seed)
    verify(module)
    before = run_on_random_memory(module, seed)
    for step in PASSES.values():
        if step.name != "contract":     # changes roundings
            assert run_on_random_memory(run_passes(module, [step], check=2), seed) == before, step.name
    assert run_on_random_memory(run_passes(module, STANDARD, check=2), seed) == before


@pytest.mark.parametrize("seed", SEEDS)
def test_text_round_trip(seed: int):
    text = print_module(random_module(seed))
    again = parse_module(text)
    verify(again)
    assert print_module(again) == text


@pytest.mark.parametrize("seed", SEEDS)
def test_widening_keeps_results_where_nothing_wraps(seed: int):
    module = replace(random_module(seed), wide=True)
    after = run_passes(module, [PASSES["widen"]], check=2)
    assert after is not module
    assert run_on_random_memory(after, seed) == run_on_random_memory(module, seed)
