"""Profiles of launches on the CPU: what is in them, where, and what is printed of them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import tilewright as triton
import tilewright.language as tl
from tilewright import profiler
from tilewright.profiler import viewer
from tilewright.profiler.sessions import PROFILER
from tilewright.runtime.hooks import HOOKS

ROOT = Path(__file__).resolve().parents[2]
N = 64


def told(grid, metadata, args):
    return {"name": f"scaled by {args['factor']}", "flops32": N, "bytes": 2 * 4 * N}


@triton.jit(launch_metadata=told)
def scale(x, factor, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(x + i, tl.load(x + i) * factor)


def launch(factor=2.0):
    scale[(1,)](np.ones(N, np.float32), factor, BLOCK=N)


@pytest.fixture(autouse=True)
def in_a_folder_of_its_own(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    yield
    PROFILER.sessions.clear()
    PROFILER.scopes.clear()
    PROFILER.set_active(None, False)


def frames(name="proton"):
    """Path to (count, metrics) of a finished profile."""
    found = {}

    def look(literal, path):
        found[path] = literal["metrics"]
        for child in literal["children"]:
            look(child, (*path, child["frame"]["name"]))

    look(json.loads(Path(f"{name}.hatchet").read_text())[0], ())
    return found


def test_launches_are_in_their_scopes():
    session = profiler.start("run", hook="triton")
    launch()
    with profiler.scope("outer", {"items": 3}):
        launch()
        with profiler.scope("inner"):
            launch()
            launch(3.0)
        launch()
    profiler.finalize(session)
    found = frames("run")
    counts = {path: metrics.get("count") for path, metrics in found.items()}
    assert counts == {(): None, ("scaled by 2.0",): 1, ("outer",): None, ("outer", "scaled by 2.0"): 2,
                      ("outer", "inner"): None, ("outer", "inner", "scaled by 2.0"): 1,
                      ("outer", "inner", "scaled by 3.0"): 1}
    assert found["outer",] == {"items": 3}
    assert found["outer", "scaled by 2.0"]["flops32"] == 2 * N and found["scaled by 2.0",]["time (ns)"] > 0


def test_without_the_hook_kernels_have_their_own_names():
    profiler.start()
    launch()
    profiler.finalize()
    assert set(frames()["scale",]) == {"count", "time (ns)"}


def test_only_active_sessions_take_launches_and_hooks_go():
    first, second = profiler.start("first"), profiler.start("second")
    profiler.deactivate(first)
    launch()
    profiler.activate()
    launch()
    profiler.deactivate()
    assert not HOOKS.watches_launches
    launch()
    profiler.finalize()
    assert frames("first")["scale",]["count"] == 1 and frames("second")["scale",]["count"] == 2
    with pytest.raises(ValueError, match=f"there is no session {second}; there are none"):
        profiler.activate(second)


def test_a_scope_without_launches_has_the_time_that_passed():
    profiler.start()
    for _ in range(2):
        with profiler.scope("elsewhere", {"flops": 100}):
            time.sleep(0.01)
    profiler.finalize()
    found = frames()["elsewhere",]
    assert found["count"] == 2 and found["flops"] == 200 and found["time (ns)"] >= 2e7


def test_other_ways_to_say_a_scope():
    @profiler.scope("decorated")
    def decorated():
        launch()

    @profiler.profile(name="of a function")
    def of_a_function():
        with profiler.cpu_timed_scope("timed"), profiler.state("warm"):
            launch()
        profiler.enter_scope("entered", metrics={"items": 1})
        decorated()
        with pytest.raises(ValueError, match="'other' is not the innermost scope, which is 'entered'"):
            profiler.exit_scope("other")
        profiler.exit_scope("entered")

    of_a_function()
    profiler.finalize()
    found = frames("of a function")
    assert {("timed", "warm", "scale"), ("entered", "decorated", "scale")} <= found.keys()
    assert found["timed",]["cpu_time (ns)"] > 0 and found["entered",] == {"items": 1}


@pytest.mark.parametrize("option, value", [("context", "python"), ("data", "trace"), ("mode", "periodic"),
                                           ("hook", "other"), ("backend", "instrumentation")])
def test_what_it_does_not_do(option, value):
    with pytest.raises(ValueError, match=f"{option}='{value}' is not supported; allowed are"):
        profiler.start(**{option: value})
    with pytest.raises(ValueError, match="allowed is 'hatchet'"):
        profiler.finalize(output_format="chrome_trace")


PROFILE = {"frame": {"name": "ROOT", "type": "function"}, "metrics": {}, "children": [
    {"frame": {"name": "forward", "type": "function"}, "metrics": {"bytes": 4e9}, "children": [
        {"frame": {"name": "matmul", "type": "function"}, "children": [],
         "metrics": {"time (ns)": 3e6, "count": 3, "flops16": 6e9, "device_id": "0"}},
        {"frame": {"name": "softmax", "type": "function"}, "children": [],
         "metrics": {"time (ns)": 1e6, "count": 1}}]},
    {"frame": {"name": "backward", "type": "function"}, "children": [],
     "metrics": {"time (ns)": 4e6, "count": 1, "flops16": 1e9}}]}


def shown(capsys, metrics, **options):
    Path("made.hatchet").write_text(json.dumps([PROFILE, {}]))
    how = {name: options.pop(name) for name in ("depth", "print_sorted") if name in options}
    viewer.print_tree(*viewer.parse(metrics, "made.hatchet", **options), **how)
    return [tuple(line.split()) for line in capsys.readouterr().out.splitlines()]


def test_metrics_of_frames_and_what_is_inside(capsys):
    assert shown(capsys, ["time/ms", "tflop16/s", "gbyte/s", "avg_time/us", "count"]) == [
        ("time/ms", "tflop16/s", "gbyte/s", "avg_time/us", "count", "frame"),
        ("8.000", "0.875", "500.000", "1600.000", "5.000", "ROOT"),
        ("4.000", "1.500", "1000.000", "1000.000", "4.000", "forward"),
        ("3.000", "2.000", "-", "1000.000", "3.000", "matmul"),
        ("1.000", "-", "-", "1000.000", "1.000", "softmax"),
        ("4.000", "0.250", "-", "4000.000", "1.000", "backward")]


def test_frames_are_chosen(capsys):
    def names(**options):
        return [line[-1] for line in shown(capsys, ["time/ms"], **options)[1:]]

    assert names(depth=1) == ["ROOT", "forward", "backward"]
    assert names(include="mat") == ["ROOT", "forward", "matmul"]
    assert names(include="forw") == ["ROOT", "forward", "matmul", "softmax"]
    assert names(exclude="mat|back") == ["ROOT", "forward", "softmax"]
    assert names(threshold=0.3) == ["ROOT", "forward", "matmul", "backward"]
    assert names(print_sorted=True) == ["ROOT", "forward", "backward", "matmul", "softmax"]
    with pytest.raises(ValueError, match="the profile has no metric 'tflop8/s'; it has bytes, count, flops16, time"):
        names_of = viewer.parse(["tflop8/s"], "made.hatchet")
        assert names_of is None
    Path("other.hatchet").write_text("{}")
    with pytest.raises(ValueError, match="is no profile"):
        viewer.parse(["time/s"], "other.hatchet")


def test_under_tritons_name():
    code = ("import tilewright.compat; tilewright.compat.install(); import triton.profiler as proton; "
            "import triton.profiler.viewer as viewer; from triton.profiler import context; "
            "print(proton.start.__module__, viewer.parse.__module__, context.depth())")
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120,
                            env={**os.environ, "PYTHONPATH": str(ROOT)})
    assert result.stdout.split() == ["tilewright.profiler", "tilewright.profiler.viewer", "0"], result.stderr
