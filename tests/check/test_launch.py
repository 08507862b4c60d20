"""How a launch gets into checked mode, and that it does what the others do."""

import gc
import os
import subprocess
import sys
import weakref

import numpy as np
import pytest

import tilewright as triton
import tilewright.language as tl
from tilewright.interpret.sanitizer import CheckedProgram
from tilewright.lowering import lower
from tilewright.runtime import checked


@triton.jit
def neighbours(x, out, n, B: tl.constexpr):
    offs = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(out + offs, tl.load(x + offs + 1), mask=offs < n)


@triton.jit
def named_check(x, out, check):
    tl.store(out, tl.load(x) + check)


@triton.jit
def speaks(x, B: tl.constexpr):
    tl.device_print("x", tl.load(x + tl.program_id(0) * B + tl.arange(0, B)))


def arrays():
    # the buffer is longer than the argument, so that compiled code without bounds reads nothing foreign
    return np.arange(65, dtype=np.float32)[:64], np.zeros(64, np.float32)


def test_by_keyword_and_by_knob():
    x, out = arrays()
    with pytest.raises(triton.OutOfBoundsError):
        neighbours[(2,)](x, out, 64, B=32, check=True)
    with pytest.raises(triton.OutOfBoundsError), triton.knobs.scope(check=True):
        neighbours[(2,)](x, out, 64, B=32)
    with triton.knobs.scope(check=True, check_bounds=False):
        neighbours[(2,)](x, out, 64, B=32, check=False)


def test_a_launch_that_was_compiled_before():
    """Native launchers, which take over after some launches, leave checked ones alone."""
    x, out = np.arange(64, dtype=np.float32), np.zeros(64, np.float32)
    for _ in range(5):
        neighbours[(1,)](x, out, 32, B=32)
        neighbours[(1,)](x, out, 32, B=32, check=False)
    assert neighbours[(1,)](x, out, 32, B=32, check=True) is None
    with pytest.raises(triton.OutOfBoundsError):
        neighbours[(2,)](x, out, 64, B=32, check=True)
    with pytest.raises(triton.OutOfBoundsError), triton.knobs.scope(check=True):
        neighbours[(2,)](x, out, 64, B=32)


FACTOR = triton.language.constexpr(2)


@triton.jit
def scaled(x, out, B: tl.constexpr):
    tl.store(out + tl.arange(0, B), tl.load(x + tl.arange(0, B)) * FACTOR)


def test_what_a_launch_finds_out_serves_the_next(monkeypatch):
    """Frontend, passes and analyses run once for a specialisation and its launch facts, until a global changes."""
    made = []
    monkeypatch.setattr(checked, "lower", lambda *args, **options: made.append("lower") or lower(*args, **options))
    monkeypatch.setattr(checked, "CheckedProgram", lambda module: made.append("facts") or CheckedProgram(module))
    x, out = arrays()
    for _ in range(3):
        scaled[(1,)](x, out, B=32, check=True)
        scaled[(1,)](x, out, B=32, check=["out"])
    assert made == ["lower", "facts"] and out[5] == 10
    scaled[(1,)](x, x[:], B=32, check=True)
    assert made == ["lower", "facts", "facts"], "another launch fact: arguments overlap"
    monkeypatch.setattr(sys.modules[__name__], "FACTOR", tl.constexpr(5))
    scaled[(1,)](x, out, B=32, check=True)
    assert made[3:] == ["lower", "facts"] and out[5] == 5 * x[5]
    scaled[(1,)](x, out, B=64, check=True)
    assert made[5:] == ["lower", "facts"]


@triton.jit
def with_all_control_flow(x, out, n, B: tl.constexpr):
    offs = tl.arange(0, B)
    v = tl.load(x + offs, mask=offs < n, other=0.0)
    i = 0
    while i < n:
        for j in range(2):
            if i > j:
                v += tl.sum(v * v, 0)
        i += 5
    tl.atomic_add(out + offs, v, mask=offs < n)


def test_arguments_are_not_kept():
    """Nothing of a launch is left to the collector of cycles."""
    gc.disable()
    try:
        x, out = np.ones(64, np.float32), np.ones(64, np.float32)
        alive = weakref.ref(x), weakref.ref(out)
        with_all_control_flow[(1,)](x, out, 20, B=32, check=True)
        del x, out
        assert [a() for a in alive] == [None, None]
    finally:
        gc.enable()


def test_a_parameter_named_check():
    x, out = np.ones(1, np.float32), np.zeros(1, np.float32)
    named_check[(1,)](x, out, 3)
    assert out[0] == 4


def test_by_environment(tmp_path):
    program = tmp_path / "program.py"
    program.write_text("""
import numpy as np
import tilewright as triton
import tilewright.language as tl

@triton.jit
def all_store(out):
    tl.store(out, tl.program_id(0))

all_store[(4,)](np.zeros(1, np.int32))
""")
    environment = {"TILEWRIGHT_CHECK": "1", "PYTHONPATH": os.pathsep.join(sys.path)}
    run = subprocess.run([sys.executable, str(program)], env=environment, capture_output=True, text=True,
                         timeout=60)
    assert run.returncode and "tilewright.diagnostics.DataRaceError" in run.stderr and "program.py:8" in run.stderr
    assert "interpret/" not in run.stderr       # no frame of the checker


def test_prints_are_shown(capsys):
    speaks[(2,)](np.arange(4, dtype=np.int32), B=2, check=True)
    assert len(capsys.readouterr().out.splitlines()) == 4


def test_read_only_arrays_and_empty_grids():
    x, out = arrays()
    out.flags.writeable = False
    with pytest.raises(ValueError, match="read-only"):
        neighbours[(1,)](x, out, 4, B=4, check=True)
    neighbours[(0,)](x, x.copy(), 4, B=4, check=True)


def test_errors_can_be_pickled():
    import pickle
    with pytest.raises(triton.OutOfBoundsError):
        neighbours[(2,)](*arrays(), 64, B=32, check=True)
    out = np.zeros(16, np.float32)
    with pytest.raises(triton.FootprintError) as caught:
        neighbours[(2,)](out[::2], out.copy(), 4, B=4, check=True)
    again = pickle.loads(pickle.dumps(caught.value))
    assert str(again) == str(caught.value) and again.index == caught.value.index
