"""Ranges and axis facts hold for what random modules compute."""

import numpy as np
import pytest

from tests.analysis.observing import along, observe
from tests.passes.random_modules import random_module
from tilewright.analysis.axis import Axis
from tilewright.analysis.axis_info import AxisInfo
from tilewright.analysis.ranges import Ranges
from tilewright.ir.node import Module
from tilewright.ir.types import Pointer, element_of
from tilewright.passes import run_passes, standard

SEEDS = range(30)
STEPS = {"as built": (), "optimised": standard()}


def modules(seed: int) -> list[Module]:
    module = random_module(seed)
    return [run_passes(module, passes) for passes in STEPS.values()]


@pytest.mark.parametrize("seed", SEEDS)
def test_ranges(seed: int, monkeypatch):
    for module in modules(seed):
        ranges = Ranges(module.entry)

        def see(value, array):
            if ranges.relevant(value):
                interval = ranges.fact(value)
                assert interval.low <= array.min() and array.max() <= interval.high, (value, interval)

        observe(module, seed, monkeypatch, see)


def wrong(info: AxisInfo, array: np.ndarray, stride: int) -> str:
    """What of `info` does not hold for a batch of values; empty if all does."""
    for dim in range(info.rank):
        lines = along(array, dim).astype(object)
        size = lines.shape[1]
        for start in range(0, size, info.constancy[dim]):
            run = lines[:, start:start + info.constancy[dim]]
            if (run != run[:, :1]).any():
                return f"constancy {dim}"
        for start in range(0, size, info.contiguity[dim]):
            run = lines[:, start:start + info.contiguity[dim]]
            steps = (run - run[:, :1] - np.arange(run.shape[1]) * stride) % (1 << 8 * array.itemsize)
            if (steps != 0).any():
                return f"contiguity {dim}"
            divisor = info.divisibility[dim]
            if (run[:, 0] != 0).any() if divisor == 0 else (run[:, 0] % divisor != 0).any():
                return f"divisibility {dim}"
    if info.constant is not None and (array != info.constant).any():
        return "constant"
    return ""


@pytest.mark.parametrize("seed", SEEDS)
def test_axis(seed: int, monkeypatch):
    for module in modules(seed):
        axis = Axis(module)
        checked = []

        def see(value, array):
            # pointers of the test's arrays are not aligned as `ParamFacts` say, so their divisors are not checked
            if axis.relevant(value) and not isinstance(element_of(value.type), Pointer):
                fault = wrong(axis.fact(value), array, 1)
                assert not fault, (value, str(axis.fact(value)), fault)
                checked.append(value)

        observe(module, seed, monkeypatch, see)
        assert checked
