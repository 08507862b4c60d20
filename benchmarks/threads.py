"""When two threads pay off, and what a launch costs after idling: the CPU host's thread pool.

A kernel of many short programs is launched with one thread and with all, hot and after 20 ms of sleep; medians of the
wall-clock time, samples interleaved.  Run on an otherwise idle machine: python benchmarks/threads.py
"""

from __future__ import annotations

import os
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import tilewright
import tilewright.language as tl
from tilewright import knobs

SAMPLES = 41


def kernel_for(threads: int) -> tilewright.JITFunction:
    """A kernel whose launches use so many threads (0: all); 64 programs of `rounds` steps each."""
    def work(o_ptr, rounds):
        value = tl.program_id(0).to(tl.float32)
        for _ in range(rounds):
            value = value * 0.999 + 1.0
        tl.store(o_ptr + tl.program_id(0), value)

    kernel = tilewright.jit(work, do_not_specialize=["rounds"])     # else some run on all
    with knobs.scope(num_threads=threads):
        kernel[(64,)](np.zeros(64, np.float32), 2)
    return kernel


def timed(launch: Callable[[], object]) -> float:
    start = time.perf_counter_ns()
    launch()
    return (time.perf_counter_ns() - start) / 1000


def verdict(is_met: bool) -> str:
    """What is to be said of a bar; other jobs can only make it look missed."""
    busy = os.getloadavg()[0] > (os.cpu_count() or 1)
    return "met" if is_met else "not to be told: other jobs run" if busy else "NOT met"


def main() -> None:
    alone, together = kernel_for(1), kernel_for(0)
    out = np.zeros(64, np.float32)
    print(f"load of the machine: {os.getloadavg()[0]:.1f} on {os.cpu_count()} processors")
    print("us on one thread, us on all, ratio, us on all after 20 ms of sleep")
    pays, idle = float("inf"), []
    for rounds in (20, 50, 100, 200, 500, 2000, 10000):
        def one(count: int = rounds) -> object:
            return alone[(64,)](out, count)

        def many(count: int = rounds) -> object:
            return together[(64,)](out, count)

        for launch in (one, many) * 3:
            launch()
        hot: dict[str, list[float]] = {"one": [], "many": []}
        cold = []
        for _ in range(SAMPLES):
            for name, launch in (("one", one), ("many", many)):
                launch()
                hot[name].append(timed(launch))
        for _ in range(SAMPLES // 2):
            time.sleep(0.02)
            cold.append(timed(many))
        a, b, c = (statistics.median(v) for v in (hot["one"], hot["many"], cold))
        print(f"{a:9.1f} {b:9.1f}  {a / b:5.2f}x   cold {c:9.1f} (+{c - b:.1f})")
        pays = min(pays, a) if a > b else float("inf")
        idle.append(c - b)
    for what, limit, measured in (("work from which a second thread pays", 10.0, pays),
                                  ("a launch after 20 ms of idling, beyond a hot one", 60.0, statistics.median(idle))):
        print(f"bar {what:50s} <= {limit:g} us  measured {measured:6.1f}  {verdict(measured <= limit)}")


if __name__ == "__main__":
    main()
