"""Many processes that compile, start at once on one cold cache, and are killed at random instants.

    python -m tests.runtime.cache_storm --processes 50 --rounds 20

In each round all processes wait until the last one has started, then launch the same kernels; half of them get SIGKILL
at random instants.  Those that live have to give the right numbers and no warning, every record of the cache has to be
whole, and a process that comes later has to find or make what it needs.  `test_cache_processes.py` runs a small one.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

from tilewright.runtime.cache import FOLDER, Store

PROGRAM = """
import sys
import numpy as np, tilewright as triton, tilewright.language as tl

@triton.jit
def first(x, n, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(x + i, i + n)

@triton.jit
def second(x, n, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(x + i, tl.load(x + i) * n)

print("ready", flush=True)
sys.stdin.readline()
x = np.zeros(32, np.int32)
for n in range(2, 6):
    first[(1,)](x, n, N=32)
    second[(1,)](x, n, N=32)
    assert (x == (np.arange(32) + n) * n).all()
print("right")
"""


def start(script: Path, base: Path) -> subprocess.Popen[str]:
    """A process that waits for a line."""
    variables = {**os.environ, "TILEWRIGHT_DISK_CACHE": "1", "TILEWRIGHT_CACHE_DIR": str(base),
                 "PYTHONPATH": os.pathsep.join(sys.path)}
    return subprocess.Popen([sys.executable, "-W", "error", str(script)], stdin=subprocess.PIPE,
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=variables)


def play(folder: Path, count: int, chance: random.Random, longest: float) -> tuple[int, list[str]]:
    """One round on the cache in `folder`: how many were killed before their end, and what went wrong."""
    script, base = folder / "program.py", folder / "cache"
    script.write_text(PROGRAM)
    processes = [start(script, base) for _ in range(count)]
    for process in processes:
        assert process.stdout is not None and process.stdout.readline() == "ready\n"
    victims = processes[::2]
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("\n")
        process.stdin.flush()
    timers = [threading.Timer(chance.uniform(0, longest), v.send_signal, [signal.SIGKILL]) for v in victims]
    for timer in timers:
        timer.start()
    wrong, killed = [], 0
    for process in processes:
        said, errors = process.communicate(timeout=300)
        is_killed = process in victims and process.returncode == -signal.SIGKILL
        killed += is_killed
        if not is_killed and (process.returncode, said, errors) != (0, "right\n", ""):
            wrong.append(f"status {process.returncode}, {said!r}, {errors}")
    for timer in timers:
        timer.cancel()
    return killed, wrong + leftovers(base)


def leftovers(base: Path) -> list[str]:
    """Records that are not whole."""
    files = list((base / FOLDER).glob("*.rec")) if (base / FOLDER).is_dir() else []
    whole = {record.path for record in Store(base).records()}
    return [f"{file} is not whole" for file in files if file not in whole]


def later(folder: Path) -> list[str]:
    """What goes wrong in a process that comes after all others."""
    process = start(folder / "program.py", folder / "cache")
    said, errors = process.communicate("\n", timeout=300)
    return [] if (process.returncode, said, errors) == (0, "ready\nright\n", "") else [f"later: {said!r}, {errors}"]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--processes", type=int, default=50)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--longest", type=float, default=8.0, help="latest kill, in seconds after the start")
    given = parser.parse_args()
    chance, total, bad = random.Random(given.seed), 0, 0
    for number in range(given.rounds):
        with tempfile.TemporaryDirectory() as folder:
            begun = time.monotonic()
            killed, wrong = play(Path(folder), given.processes, chance, given.longest)
            wrong += later(Path(folder))
            total, bad = total + killed, bad + len(wrong)
            print(f"round {number}: {given.processes} processes, {killed} killed, {len(wrong)} wrong, "
                  f"{time.monotonic() - begun:.0f} s", *wrong, sep="\n  ", flush=True)
    print(f"{given.rounds} rounds, {total} killed, {bad} wrong")
    return int(bad > 0)


if __name__ == "__main__":
    sys.exit(main())
