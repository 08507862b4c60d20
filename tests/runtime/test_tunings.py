"""Results of tuning on disk: what is found again, and what must not be."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import tilewright as triton
import tilewright.language as tl
from tilewright.runtime import knobs
from tilewright.runtime.autotune import Autotuner

FACTOR = tl.constexpr(2)


def scale_source(x, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(x + i, tl.load(x + i, mask=i < n) * FACTOR, mask=i < n)


CONFIGS = [triton.Config({"BLOCK": 16}), triton.Config({"BLOCK": 32}, num_warps=2)]


@pytest.fixture(autouse=True)
def folder(tmp_path):
    with knobs.scope(disk_cache=True, cache_dir=str(tmp_path / "cache")):
        yield tmp_path / "cache"


class Clock:
    """Times for the configs in the order in which they come; `asked` counts them."""

    def __init__(self, *times):
        self.times, self.asked = times, 0

    def __call__(self, call, quantiles):
        call()
        self.asked += 1
        return [self.times[(self.asked - 1) % len(self.times)]] * 3


def tune(clock, fn=scale_source, n=32, dtype=np.float32, configs=CONFIGS, launch=None, **options):
    """As a new process does it: nothing of the kernel or its tuner is in memory."""
    options = {"cache_results": True, **options}
    kernel = triton.autotune(list(configs), ["n"], do_bench=clock, **options)(triton.jit(fn))
    x = np.ones(32, dtype)
    kernel[lambda meta: (triton.cdiv(meta["n"], meta["BLOCK"]),)](x, n, **(launch or {}))
    assert (x[:n] == fn.__globals__["FACTOR"].value).all()
    return kernel


def test_the_next_process_finds_the_times_and_the_winner():
    first = tune(Clock(2.0, 1.0))
    second = tune(again := Clock(1.0, 2.0))
    assert again.asked == 0 and second.best_config == first.best_config == CONFIGS[1]
    assert second.configs_timings == first.configs_timings == {CONFIGS[0]: [2.0] * 3, CONFIGS[1]: [1.0] * 3}


def test_infinite_times_are_kept():
    tune(Clock(float("inf"), 1.0))
    assert tune(Clock(0.0)).configs_timings[CONFIGS[0]] == [float("inf")] * 3


def other_source(x, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(x + i, FACTOR * tl.load(x + i, mask=i < n), mask=i < n)


@pytest.mark.parametrize("change", [
    {"n": 16}, {"dtype": np.float64}, {"configs": CONFIGS[::-1]}, {"configs": [*CONFIGS, triton.Config({"BLOCK": 64})]},
    {"launch": {"enable_fp_fusion": True}}, {"fn": other_source}, {"knob": {"default_fp_fusion": True}}, {"global": 3},
    {"knob": {"num_threads": 1}}], ids=lambda change: next(iter(change)))
def test_what_is_another_tuning(change, monkeypatch):
    tune(Clock(2.0, 1.0, 3.0))
    again = Clock(1.0, 2.0, 3.0)
    if "global" in change:
        monkeypatch.setitem(scale_source.__globals__, "FACTOR", tl.constexpr(change["global"]))
        tune(again)
    elif "knob" in change:
        with knobs.scope(**change["knob"]):
            tune(again)
    else:
        tune(again, **change)
    assert again.asked >= 2


def test_a_source_that_moves_is_the_same():
    tune(Clock(2.0, 1.0))
    names = {"tl": tl, "FACTOR": FACTOR}
    text = "\n\n" + Path(__file__).read_text().partition("def scale_source")[2].partition("\n\n\n")[0].join(
        ["def scale_source", "\n"])
    exec(text, names)
    again = Clock(1.0)
    kernel = triton.autotune(CONFIGS, ["n"], do_bench=again, cache_results=True)(
        triton.jit(source=text)(names["scale_source"]))
    kernel[(2,)](np.ones(32, np.float32), 32)
    assert again.asked == 0


@pytest.mark.parametrize("asked", [{"cache_results": False}, {"configs": [*CONFIGS, triton.Config(
    {"BLOCK": 32}, pre_hook=lambda args: None)]}], ids=["not wanted", "hooks"])
def test_what_is_not_kept(asked):
    tune(Clock(2.0, 1.0, 3.0), **asked)
    again = Clock(1.0, 2.0, 3.0)
    tune(again, **asked)
    assert again.asked >= 2


def test_the_knob_stands_for_all_tuners():
    for expected in (2, 0):
        clock = Clock(2.0, 1.0)
        with knobs.scope(cache_autotuning=True):
            tune(clock, cache_results=False)
        assert clock.asked == expected
    assert knobs.GROUPS["autotuning"].cache is False


def test_a_damaged_record_is_tuned_again(folder, monkeypatch):
    tune(Clock(2.0, 1.0))
    store = triton.runtime.devices.Store(folder)
    for damaged in (b"", b"0x1p+0\n", b"nonsense\nmore", b"\n\n"):
        (record,) = [r for r in store.records() if "times" in r.fields]
        store.put(record.name, record.key, {"times": damaged})
        clock = Clock(2.0, 1.0)
        tune(clock)
        assert clock.asked == 2


def test_a_listener_is_told_of_choices():
    told = []

    def listen(**facts):
        told.append(facts)

    with knobs.GROUPS["autotuning"].scope():
        knobs.GROUPS["autotuning"].listener = listen
        fresh = tune(Clock(2.0, 1.0))
        fresh[(2,)](np.ones(32, np.float32), 32)        # known in memory
        known = tune(Clock(2.0, 1.0))
    tune(Clock(2.0, 1.0), n=16)
    assert [(t["fn"], t["cache_hit"], t["best_config"]) for t in told] == [
        (fresh.fn, False, CONFIGS[1]), (known.fn, True, CONFIGS[1])]
    assert told[0]["key"] == told[1]["key"] and set(told[0]["configs_timings"]) == set(CONFIGS)
    assert told[0]["duration"] > 0 and told[1]["duration"] is None
    assert knobs.GROUPS["autotuning"].listener is None


class OwnRun(Autotuner):
    """A library's tuner."""

    def run(self, *args, grid, **kwargs):
        key = (args[1],)

        def bench():
            self.configs_timings = {c: self._bench(*args, config=c, grid=grid, **kwargs) for c in self.configs}
            self.cache[key] = min(self.configs_timings, key=self.configs_timings.get)

        self.found = self.check_disk_cache(key, self.configs, bench)
        return self.fn.run(*args, grid=grid, **kwargs, **self.cache[key].all_kwargs())


def test_a_subclass_asks_the_disk_by_itself():
    found = []
    for _ in range(2):
        kernel = OwnRun(triton.jit(scale_source), ["x", "n", "BLOCK"], CONFIGS, ["n"], None, None,
                        do_bench=Clock(2.0, 1.0))
        kernel[(2,)](np.ones(32, np.float32), 32)
        found.append((kernel.found, kernel.cache[32,]))
    assert found == [(False, CONFIGS[1]), (True, CONFIGS[1])]


PROGRAM = """
import sys, numpy as np, tilewright as triton, tilewright.language as tl

asked = []
def clock(call, quantiles):
    call()
    asked.append(1)
    return [3.0 - len(asked)] * 3

@triton.autotune([triton.Config({"BLOCK": 16}), triton.Config({"BLOCK": 32})], ["n"], do_bench=clock)
@triton.jit
def fill(x, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(x + i, 1, mask=i < n)

fill[(2,)](np.zeros(32, np.float32), 32)
print(len(asked), fill.best_config.kwargs["BLOCK"])
"""


def test_between_processes_by_tritons_variable(tmp_path, monkeypatch):
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    monkeypatch.setenv("TRITON_CACHE_AUTOTUNING", "1")
    monkeypatch.setenv("TILEWRIGHT_DISK_CACHE", "1")
    monkeypatch.setenv("TILEWRIGHT_CACHE_DIR", str(tmp_path / "own"))
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).resolve().parents[2]))
    said = [subprocess.run([sys.executable, str(program)], capture_output=True, text=True, check=True).stdout
            for _ in range(2)]
    assert said == ["2 32\n", "0 32\n"]
