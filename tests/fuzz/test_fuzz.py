"""The fuzzer's own tests, and a short run of it: random kernels on which every engine agrees."""

import collections
import re

import pytest

from tests.fuzz import mutants
from tests.fuzz.generate import generate
from tests.fuzz.running import ENGINES, check
from tests.fuzz.shrink import shrink

SEEDS = range(14)


@pytest.mark.parametrize("seed", SEEDS)
def test_engines_agree(seed):
    program = generate(seed, statements=6)
    verdict = check(program, ENGINES)
    assert not verdict.fails, f"{verdict}\n{program.source()}"


@pytest.mark.parametrize("seed", range(100, 104))
def test_a_gpu_agrees(seed):
    program = generate(seed, statements=4, crowded=False)
    verdict = check(program, ("batched", "ptx"))
    assert not verdict.fails, f"{verdict}\n{program.source()}"


def test_the_same_seed_is_the_same_kernel():
    assert generate(5).source() == generate(5).source() != generate(6).source()


def test_kernels_are_varied():
    """Sooner or later every construct comes."""
    text = "\n".join(generate(seed).source() for seed in range(300))
    words = collections.Counter(re.findall(r"tl\.\w+|\bfor\b|\bwhile\b|\bif\b|\belse\b|\bbreak\b|\bcontinue\b", text))
    names = ("load store where sum max min argmax argmin xor_sum cumsum cumprod dot trans permute reshape join split "
             "interleave gather broadcast_to umulhi fma sqrt_rn div_rn clamp static_range exp atomic_add atomic_max "
             "atomic_min atomic_and atomic_or atomic_xor float8e5 float8e4nv bfloat16 float16 float64 int8 uint64")
    wanted = {"for", "while", "if", "else", "break", "continue", *(f"tl.{name}" for name in names.split())}
    assert wanted <= set(words), wanted - set(words)


@pytest.mark.parametrize("label", mutants.QUICK)
def test_a_planted_fault_is_found(label):
    mutant = mutants.BY_LABEL[label]
    with mutant.planted():
        assert mutants.caught_by_fuzz(mutant, range(40), 60) is not None


def test_shrinking_leaves_what_matters():
    def has_a_scan_in_a_loop(program):
        return any(stmt.text.startswith("for") and any("tl.cumsum" in line for line in stmt.lines(0))
                   for stmt in program.body)

    def matters(program):
        return has_a_scan_in_a_loop(program) and not check(program, ("batched",)).fails

    program = next(p for p in map(generate, range(1000)) if has_a_scan_in_a_loop(p))
    small = shrink(program, matters, seconds=60)
    assert len(small.body) == 1 and not small.outputs and not small.functions and small.size() < 12
    assert not check(small, ("batched",)).fails


def test_shrinking_keeps_kernels_valid():
    """A smaller program is one that still runs."""
    program = generate(3)
    small = shrink(program, lambda p: not check(p, ("batched",)).fails and "tl.load" in p.source(), seconds=5)
    assert small.size() < program.size() and not check(small, ("batched",)).fails


def test_every_fault_can_be_planted():
    for mutant in mutants.MUTANTS:
        with mutant.planted():
            pass
