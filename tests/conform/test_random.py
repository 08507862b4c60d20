"""Random modules: every engine, and the interpreter after each pass, agrees with the interpreter bit for bit."""

import numpy as np
import pytest

from tests.conform import engines
from tests.conform.compare import same
from tests.conform.random_modules import Maker
from tilewright import passes

SEEDS = range(30)


def results(engine, made):
    m, programs, inputs, outputs, _ = made
    outputs = [np.zeros_like(o) for o in outputs]
    engines.ENGINES[engine](m, (programs,), [*(x.copy() for x in inputs), *outputs])
    return outputs


def agree(made, one, two):
    for number, (a, b, element) in enumerate(zip(one, two, made[4], strict=True)):
        ok = same(a, b, element)
        assert ok.all(), f"output {number} ({element}): {a[~ok][:3]} and {b[~ok][:3]}"


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("engine", [e for e in engines.ENGINES if e != "batched"])
def test_engines_agree(seed, engine):
    made = Maker(seed).module()
    agree(made, results("batched", made), results(engine, made))


@pytest.mark.parametrize("seed", SEEDS)
def test_passes_keep_the_meaning(seed):
    made = Maker(1000 + seed).module()
    before = results("batched", made)
    for p in passes.standard():
        made = (passes.run_passes(made[0], [p]), *made[1:])
        agree(made, before, results("batched", made))


def test_modules_are_varied():
    """The generator makes loops, branches and reductions, and every usable row sooner or later."""
    seen = set()

    def collect(block):
        for op in block.ops:
            seen.add(op.name)
            for region in op.regions:
                collect(region)

    for seed in range(30):
        collect(Maker(seed).module()[0].entry.body)
    assert {"for", "if", "reduce", "permute", "split", "select", "fma", "fp_trunc", "trunc"} <= seen
    assert len(seen) > 55
