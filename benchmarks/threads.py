"""When two threads pay off, and what a launch costs after idling: the CPU host's thread pool.

A kernel of many short programs is launched with one thread and with all, hot and after 20 ms of sleep; medians of the
wall-clock time, samples interleaved.  `np.add` of 1000 elements, which has no threads, is measured in the same way:
what it pays after the sleep, for code and data that have left the caches, every launch pays.  So is what the machine
itself takes to wake a process that has slept on its other processor: no thread of a pool can come sooner, and a launch
whose work would be done by then, or soon after, has after the sleep the time of one thread.
Run on an otherwise idle machine: python benchmarks/threads.py
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

SAMPLES, IDLE = 41, 0.02


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


def numpys_part() -> float:
    """What `np.add` of 1000 elements costs after idling beyond a hot call, in us."""
    x, y, o = (np.ones(1000, np.float32) for _ in range(3))

    def add() -> object:
        return np.add(x, y, out=o)

    hot, cold = [], []
    for _ in range(SAMPLES // 2):
        add()
        hot.append(timed(add))
        time.sleep(IDLE)
        cold.append(timed(add))
    return statistics.median(cold) - statistics.median(hot)


def wakings() -> list[float]:
    """How long after a byte was written to its pipe a process runs that has slept for `IDLE`, in us; on Linux."""
    if not hasattr(os, "sched_setaffinity") or len(os.sched_getaffinity(0)) < 2:
        return []
    mine, other, *_ = sorted(os.sched_getaffinity(0))
    (asked, ask), (answered, answer) = os.pipe(), os.pipe()
    if not (child := os.fork()):
        os.sched_setaffinity(0, {other})
        while os.read(asked, 1) == b"?":
            os.write(answer, time.perf_counter_ns().to_bytes(8, "little"))
        os._exit(0)
    everywhere, found = os.sched_getaffinity(0), []
    os.sched_setaffinity(0, {mine})
    for _ in range(SAMPLES // 2):
        time.sleep(IDLE)
        start = time.perf_counter_ns()
        os.write(ask, b"?")
        while time.perf_counter_ns() - start < 1_000_000:       # as a launch, which works on meanwhile
            pass
        found.append((int.from_bytes(os.read(answered, 8), "little") - start) / 1000)
    os.write(ask, b".")
    os.waitpid(child, 0)
    os.sched_setaffinity(0, everywhere)
    return found


def verdict(is_met: bool, may_flatter: bool) -> str:
    """What is to be said of a bar; other jobs make it look missed, or, if they may flatter, either."""
    busy = os.getloadavg()[0] > (os.cpu_count() or 1)
    if busy and (may_flatter or not is_met):
        return "not to be told: other jobs run"
    return "met" if is_met else "NOT met"


def main() -> None:
    alone, together = kernel_for(1), kernel_for(0)
    out = np.zeros(64, np.float32)
    print(f"load of the machine: {os.getloadavg()[0]:.1f} on {os.cpu_count()} processors")
    print("us on one thread, us on all, ratio, us on all after 20 ms of sleep")
    pays, idle = float("inf"), []
    for rounds in (20, 50, 70, 100, 200, 500, 2000, 10000):
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
            time.sleep(IDLE)
            cold.append(timed(many))
        a, b, c = (statistics.median(v) for v in (hot["one"], hot["many"], cold))
        print(f"{a:9.1f} {b:9.1f}  {a / b:5.2f}x   cold {c:9.1f} (+{c - b:.1f})")
        pays = min(pays, a) if a > b else float("inf")
        idle.append(c - b)
    print(f"np.add of 1000 elements after 20 ms of sleep: +{numpys_part():.1f}; the dearest launch: +{max(idle):.1f}")
    if woken := wakings():
        print(f"this machine wakes a process on its other processor in {min(woken):.0f} us at best, "
              f"{statistics.median(woken):.0f} in the median")
    for what, limit, measured, may_flatter in (
            ("work from which a second thread pays", 10.0, pays, False),
            ("after 20 ms of idling, beyond a hot launch, median", 60.0, statistics.median(idle), True)):
        print(f"bar {what:52s} <= {limit:g} us  measured {measured:6.1f}  {verdict(measured <= limit, may_flatter)}")


if __name__ == "__main__":
    main()
