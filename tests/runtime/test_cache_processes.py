"""Many processes on one cache: all at once, and killed at any instant."""

import os
import random
import signal
import subprocess
import sys
import time

import pytest

from tests.runtime.cache_storm import later, play
from tilewright.runtime import cache
from tilewright.runtime.cache import FOLDER, Store

# the module alone, without the package and NumPy: many processes are started
WRITER = """
import importlib.util, pathlib, sys
spec = importlib.util.spec_from_file_location("cache", sys.argv[4])
module = sys.modules["cache"] = importlib.util.module_from_spec(spec)
spec.loader.exec_module(module)
store = module.Store(pathlib.Path(sys.argv[1]), limit_bytes=200_000)
number = int(sys.argv[2])
print("ready", flush=True)
sys.stdin.readline()
for turn in range(int(sys.argv[3])):
    key = f"key{(turn * 7 + number) % 10}"
    fields = store.get("k", key)
    assert fields is None or fields == {"code": key.encode() * 2000}, "a wrong or torn record"
    store.put("k", key, {"code": key.encode() * 2000})
print("done", flush=True)
"""

posix_only = pytest.mark.skipif(os.name == "nt", reason="SIGKILL")


def start(base, number, turns):
    words = [sys.executable, "-W", "error", "-c", WRITER, str(base), str(number), str(turns), cache.__file__]
    process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "ready\n", process.stderr.read()
    return process


def go(process):
    process.stdin.write("\n")
    process.stdin.flush()


def finish(process):
    _, errors = process.communicate(timeout=60)
    return process.returncode, errors


def test_fifty_processes_at_once(tmp_path):
    base = tmp_path / "cache"
    processes = [start(base, number, 20) for number in range(50)]
    for process in processes:       # they have all started, and the folder is not there yet
        go(process)
    assert [finish(p) for p in processes] == [(0, "")] * 50
    records = list(Store(base).records())
    assert {r.key for r in records} == {f"key{k}" for k in range(10)}
    assert all(r.fields == {"code": r.key.encode() * 2000} for r in records)
    assert not list((base / FOLDER).glob("*.tmp"))


@posix_only
def test_killed_at_any_instant(tmp_path):
    base = tmp_path / "cache"
    chance = random.Random(3)
    for number in range(15):
        process = start(base, number, 10**6)
        go(process)
        time.sleep(chance.uniform(0, 0.03))
        process.send_signal(signal.SIGKILL)
        assert finish(process) == (-signal.SIGKILL, "")
        for record in Store(base).records():
            assert record.fields == {"code": record.key.encode() * 2000}
    last = start(base, 0, 10)
    go(last)
    assert finish(last) == (0, "")


@pytest.mark.unchecked("the disk cache is to be used")
@posix_only
def test_kernels_in_six_processes_at_once_of_which_some_are_killed(tmp_path):
    """The small form of `cache_storm`, which the same file runs with 50 processes on request."""
    _, wrong = play(tmp_path, 6, random.Random(1), 3.0)
    assert wrong + later(tmp_path) == []
    names = [r.name for r in Store(tmp_path / "cache").records()]
    assert names.count("first") == names.count("second") == 2       # what it writes, and the code
