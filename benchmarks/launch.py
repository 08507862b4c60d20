"""What a launch costs beside the calls that programs are used to: torch.add and np.add with `out=`.

One process, n = 1, many short samples interleaved, medians of the thread's CPU time; ratios are what counts.
Each bar has a line: what is asked, what was measured, whether it is met.  Run: python benchmarks/launch.py
With `--leaks` a million launches of each kind instead, and by how much the process has grown.
"""

from __future__ import annotations

import argparse
import gc
import os
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import tilewright
import tilewright.language as tl

CALLS, SAMPLES = 500, 161
LAUNCHES = 1_000_000


@tilewright.jit
def add(x_ptr, y_ptr, o_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    tl.store(o_ptr + offsets, tl.load(x_ptr + offsets, mask=mask) + tl.load(y_ptr + offsets, mask=mask), mask=mask)


def looped(statement: str, names: dict[str, Any]) -> Callable[[], float]:
    """A function that runs the statement `CALLS` times and gives the CPU nanoseconds of one."""
    scope: dict[str, Any] = {**names, "clock": time.thread_time_ns, "CALLS": CALLS}
    exec("def sample():\n  start = clock()\n  for _ in range(CALLS):\n    " + statement
         + "\n  return (clock() - start) / CALLS", scope)
    sample: Callable[[], float] = scope["sample"]
    return sample


def statements() -> dict[str, Callable[[], float]]:
    """What is timed, by name."""
    arrays = {name: np.ones(1, np.float32) for name in "XYO"}
    names: dict[str, Any] = {"add": add, "np": np, "cdiv": tilewright.cdiv, "grid": (1,), "n": 1, **arrays}
    timed = {"numpy": "np.add(X, Y, out=O)", "tilewright, numpy": "add[grid](X, Y, O, n, BLOCK=1024)", "loop": "pass"}
    try:
        import torch
    except ImportError:
        pass
    else:
        names.update({"torch": torch, **{name: torch.ones(1) for name in "xyo"}})
        timed |= {"torch": "torch.add(x, y, out=o)",
                  "tilewright, torch": "add[(1,)](x, y, o, n, BLOCK=1024)",
                  "tilewright, torch, function": "add[lambda meta: (cdiv(n, meta['BLOCK']),)](x, y, o, n, BLOCK=1024)"}
    return {name: looped(statement, names) for name, statement in timed.items()}


def bar(what: str, limit: float, measured: float, unit: str = "") -> str:
    """A line for one bar."""
    verdict = "met" if measured <= limit else "NOT met"
    return f"bar {what:54s} <= {limit:<8g} measured {measured:8.2f} {unit:3s} {verdict}"


def resident_bytes() -> int:
    """Memory of this process; 0 where the system does not say."""
    try:
        with open("/proc/self/statm", encoding="ascii") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, AttributeError):
        return 0


def leaks() -> None:
    """A million launches of each kind; what is left behind is a byte or a block a launch, if anything."""
    rounds = LAUNCHES // CALLS
    for name, sample in statements().items():
        if not name.startswith("tilewright"):
            continue
        for _ in range(20):
            sample()
        gc.collect()
        memory, blocks = resident_bytes(), sys.getallocatedblocks()
        for _ in range(rounds):
            sample()
        gc.collect()
        print(bar(f"{name}: {rounds * CALLS} launches, growth", 256, (resident_bytes() - memory) / 1024, "KiB"))
        print(bar(f"{name}: the same, blocks of Python's", 100, sys.getallocatedblocks() - blocks))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--leaks", action="store_true", help="launch a million times, and look for what stays")
    if parser.parse_args().leaks:
        leaks()
        return
    timed = statements()
    for sample in timed.values():
        sample()
    times: dict[str, list[float]] = {name: [] for name in timed}
    for _ in range(SAMPLES):
        for name, sample in timed.items():
            times[name].append(sample())
    medians = {name: statistics.median(values) for name, values in times.items()}
    loop = medians.pop("loop")
    print(f"load of the machine: {os.getloadavg()[0]:.1f} on {os.cpu_count()} processors")
    for name, value in medians.items():
        print(f"{name:30s} {value - loop:8.0f} ns")
    if "torch" in medians:
        peer = medians["torch"] - loop
        print(bar("tuple grid / torch.add", 0.4, (medians["tilewright, torch"] - loop) / peer))
        print(bar("function as grid / torch.add", 0.6, (medians["tilewright, torch, function"] - loop) / peer))
    peer = medians["numpy"] - loop
    print(bar("NumPy arrays: (launch - 300 ns) / np.add", 1.0, (medians["tilewright, numpy"] - loop - 300) / peer))


if __name__ == "__main__":
    main()
