"""What counts as imported, and launches while torch is not yet."""

import os
import subprocess
import sys
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

import tilewright
from tilewright.imported import imported
from tilewright.runtime.arguments import Readers


def test_what_is_imported(monkeypatch):
    assert imported("sys") is sys and imported("no_such_module") is None
    made = ModuleType("made")
    monkeypatch.setitem(sys.modules, "made", made)
    assert imported("made") is made                 # without a spec
    made.__spec__ = ModuleSpec("made", None, origin="made.py")
    assert imported("made") is made
    made.__spec__._initializing = True
    assert imported("made") is None
    monkeypatch.setitem(sys.modules, "made", None)  # which forbids to import it
    assert imported("made") is None


def test_arrays_while_masked_ones_are_imported(monkeypatch):
    half = ModuleType("numpy.ma")
    half.__spec__ = ModuleSpec("numpy.ma", None, origin="numpy/ma/__init__.py")
    half.__spec__._initializing = True
    monkeypatch.setitem(sys.modules, "numpy.ma", half)

    class Array(np.ndarray):                        # of a class that no launch has seen
        pass

    array = np.ones(4, np.float32).view(Array)
    reader = Readers().find(Array, array)
    assert reader is not None and reader(array).address == array.ctypes.data


PROGRAM = """
import threading

import numpy as np

import tilewright as triton
import tilewright.language as tl


@triton.jit
def doubled(x, o, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(o + i, tl.load(x + i, mask=i < n) * 2, mask=i < n)


class Array(np.ndarray):
    pass


def launch():
    for make in (np.asarray, lambda a: a.view(Array)):
        x, o = make(np.ones(4, np.float32)), make(np.zeros(4, np.float32))
        for _ in range(5):
            doubled[(1,)](x, o, 4, BLOCK=4)
            doubled.run(x, o, 4, BLOCK=4, grid=(1,))
        assert o.tolist() == [2] * 4
    triton.autotune([triton.Config({"BLOCK": 4})], ["n"])(doubled)[(1,)](x, o, 4)
    triton.runtime.driver.active.get_current_target()
    print("launched", flush=True)

"""


HALF = """
import program
import threading
thread = threading.Thread(target=program.launch)
thread.start()
thread.join()
Tensor = int
"""
FOLDER = "import sys, types; sys.modules['torch'] = types.ModuleType('torch')\n" \
         "sys.modules['torch'].__spec__ = importlib.machinery.ModuleSpec('torch', None, is_package=True)"
WAYS = {"half": "import program, torch; assert torch.Tensor is int",
        "folder": f"import importlib.machinery, program\n{FOLDER}\nprogram.launch()"}


@pytest.mark.parametrize("way", WAYS)
def test_launches_before_torch_is_there(tmp_path, way):
    """While another thread imports it, and where a folder has its name."""
    (tmp_path / "program.py").write_text(PROGRAM)
    if way == "half":
        (tmp_path / "torch").mkdir()
        (tmp_path / "torch" / "__init__.py").write_text(HALF)
    found = os.pathsep.join([str(Path(tilewright.__file__).parents[1]), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run([sys.executable, "-c", WAYS[way]], cwd=tmp_path, capture_output=True, text=True, timeout=120,
                          check=False, env={**os.environ, "PYTHONPATH": found})
    assert done.returncode == 0 and not done.stderr and "launched" in done.stdout, done.stderr
