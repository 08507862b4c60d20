"""What a launch costs beside the calls that programs are used to: torch.add and np.add with `out=`.

One process, n = 1, samples interleaved, medians of the thread's CPU time; ratios are what counts.
Run: python benchmarks/launch.py
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import tilewright
import tilewright.language as tl

CALLS, SAMPLES = 2000, 41


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


def main() -> None:
    timed = statements()
    for sample in timed.values():
        sample()
    times: dict[str, list[float]] = {name: [] for name in timed}
    for _ in range(SAMPLES):
        for name, sample in timed.items():
            times[name].append(sample())
    medians = {name: statistics.median(values) for name, values in times.items()}
    loop = medians.pop("loop")
    for name, value in medians.items():
        print(f"{name:30s} {value - loop:8.0f} ns")
    if "torch" in medians:
        peer = medians["torch"] - loop
        print(f"{'tuple grid / torch.add':40s} {(medians['tilewright, torch'] - loop) / peer:.2f}  (bar 0.40)")
        print(f"{'function as grid / torch.add':40s} "
              f"{(medians['tilewright, torch, function'] - loop) / peer:.2f}  (bar 0.60)")
    peer = medians["numpy"] - loop
    over = medians["tilewright, numpy"] - loop - 300
    print(f"{'numpy: (launch - 0.3 us) / np.add':40s} {over / peer:.2f}  (bar 1.00)")


if __name__ == "__main__":
    main()
