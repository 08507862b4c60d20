"""do_bench: what it returns, and that it calls what it should."""

import time

import numpy as np
import pytest

from tilewright.runtime.bench import summarise
from tilewright.testing import do_bench


def test_time_of_a_sleep():
    ms = do_bench(lambda: time.sleep(0.002), warmup=2, rep=10)
    assert 2.0 <= ms < 20


@pytest.mark.parametrize("mode, value", [("min", 1.0), ("max", 4.0), ("mean", 2.25), ("median", 2.0)])
def test_modes(mode, value):
    assert summarise([1.0, 2.0, 2.0, 4.0], None, mode) == value


def test_quantiles_and_all():
    times = [float(i) for i in range(11)]
    assert summarise(times, [0.5, 0.2, 0.8], "mean") == [5.0, 2.0, 8.0]
    assert summarise(times, [0.5], "mean") == 5.0
    assert summarise(times, None, "all") == times
    assert len(do_bench(lambda: time.sleep(0.001), warmup=1, rep=5, return_mode="all")) >= 1


def test_wrong_mode():
    with pytest.raises(ValueError, match="return_mode is min, max, mean, median or all, not 'avg'"):
        do_bench(lambda: None, return_mode="avg")


def test_gradients_are_dropped_before_each_call():
    class Leaf:
        grad = "old"

    leaf, seen = Leaf(), []

    def work():
        seen.append(leaf.grad)
        leaf.grad = "new"
        np.zeros(1000)
        time.sleep(0.001)

    do_bench(work, warmup=1, rep=3, grad_to_none=[leaf])
    assert seen[-1] is None


def test_the_shadowed_call_runs_about_as_long_as_asked():
    calls = []

    def work():
        calls.append(1)
        time.sleep(0.001)

    do_bench(work, warmup=0, rep=20)
    assert 3 <= len(calls) <= 40


def test_a_call_that_takes_no_time_is_not_timed_for_minutes():
    """Emptying the cache between two calls takes a thousand times as long as the call: it counts as time spent."""
    calls = []
    do_bench(lambda: calls.append(1), warmup=1, rep=20)
    assert 7 <= len(calls) < 1000
