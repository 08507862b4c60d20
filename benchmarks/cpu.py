"""How fast is compiled CPU code beside NumPy, torch, numba (where it is installed) and torch.compile?

Prints a table of times and ratios, and which aims are reached.
Everything runs in one process on the same arrays.  Ours and the rivals take turns, so that whatever else the machine
does falls on all, each time in another order, so that what each leaves in the caches does too; the median of the turns
counts.  With one thread the CPU time of the thread is taken, which a busy machine disturbs little; with more, the time
that passes, each after a pause, since the threads of who ran before may still spin.  A wrong result ends the run.
How to read it, and what was measured: docs/performance.md.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import os
import platform
import random
import statistics
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

# Some machines set these, and OpenBLAS then picks a slow kernel: NumPy would be an easy rival.
for _variable in ("OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE"):
    os.environ.pop(_variable, None)

RIVALS = ("torch", "numpy", "numba", "compile")
TURN_S = 1e-3       # a turn repeats short work for as long as this
SETTLE_S, WAKE_S = 0.05, 0.005      # with several threads, before a turn: nothing runs, then untimed work

# Times as fast as a rival that we aim at; for everything else against the best of torch and torch.compile.
AIMS: Mapping[tuple[str, str], Mapping[str, float]] = {
    ("add", "16M"): {"torch": 1.25}, ("add", "1M"): {"torch": 1.0},
    ("affine + relu", "1M"): {"numba": 1.0}, ("affine + relu", "16M"): {"compile": 1.35},
    ("softmax", "1024 x 1024"): {"torch": 2.0}, ("softmax", "4096 x 4096"): {"torch": 1.3},
    ("layer norm", "4096 x 1024"): {"compile": 1.3}, ("rms norm", "4096 x 1024"): {"compile": 1.3},
    ("matmul float32", "512, 64x64x32"): {"numpy": 0.85}, ("matmul float32", "1024, 64x64x32"): {"numpy": 0.85},
    ("matmul float32", "512, 128x128x64"): {"numpy": 0.95}, ("matmul float32", "1024, 128x128x64"): {"numpy": 0.95},
    ("matmul bfloat16", "512, 64x64x32"): {"torch": 0.97}, ("matmul bfloat16", "512, 128x128x64"): {"torch": 0.97},
    ("matmul int8", "512, 64x64x64"): {"torch": 0.8}, ("matmul int8", "512, 128x128x64"): {"torch": 0.8},
    ("matmul float16", "512, 64x64x32"): {"torch": 50.0}, ("attention forward", "8 x 1024 x 64"): {"torch": 1.0},
}
OTHERS = 0.9

Clock = Callable[[], float]


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, default=1, help="threads for everybody (default 1)")
    parser.add_argument("--turns", type=int, default=25, help="how often each is measured (default 25)")
    parser.add_argument("--only", default="", help="cases, separated by commas")
    parser.add_argument("--no-compile", action="store_true", help="leave torch.compile out: it takes minutes")
    parser.add_argument("--json", metavar="FILE", help="also write all numbers to FILE")
    return parser.parse_args()


def repetitions(work: Callable[[], object]) -> int:
    """How often to do `work` in one turn, so that reading the clock costs nothing that counts."""
    count = 1
    while True:
        start = time.perf_counter()
        for _ in range(count):
            work()
        elapsed = max(1e-7, time.perf_counter() - start)
        if elapsed > TURN_S / 4 or count >= 1000:
            return max(1, min(1000, int(count * TURN_S / elapsed)))
        count *= 4


def settle(work: Callable[[], object]) -> None:
    """Let threads of others stop spinning (OpenBLAS's do for 26 ms, torch's for 5), and wake `work`'s."""
    time.sleep(SETTLE_S)
    end = time.perf_counter() + WAKE_S
    for n in itertools.count():
        work()
        if n >= 3 and time.perf_counter() > end:
            return


def interleaved(works: Mapping[str, Callable[[], object]], turns: int, clock: Clock,
                threads: int = 1) -> dict[str, list[float]]:
    """Microseconds of each work in each turn."""
    for work in works.values():
        for _ in range(4):      # our first launches go through Python
            work()
    counts = {name: repetitions(work) for name, work in works.items()}
    times: dict[str, list[float]] = {name: [] for name in works}
    order, draw = list(works.items()), random.Random(0)
    for _ in range(turns):
        draw.shuffle(order)
        for name, work in order:
            if threads > 1:
                settle(work)
            start = clock()
            for _ in range(counts[name]):
                work()
            times[name].append((clock() - start) * 1e6 / counts[name])
    return times


def check(case: Any) -> None:
    """End the run if our result is wrong."""
    case.result.fill_(0)
    case.ours()
    error = (case.result.double() - case.expected.double()).abs().max()
    if not error <= case.tolerance * case.expected.double().abs().max():
        raise SystemExit(f"{case.name} {case.size}: WRONG, the result is off by {error:.2e}")


def measure(case: Any, options: argparse.Namespace) -> dict[str, Any]:
    """One row: microseconds by name, and how many times as fast as each rival we are."""
    import torch
    check(case)
    works = {"ours": case.ours, **case.rivals}
    if case.compiled is not None and not options.no_compile:
        function, inputs = case.compiled
        torch._dynamo.reset()
        compiled = torch.compile(function, dynamic=False)
        works["compile"] = lambda: compiled(*inputs)
    clock = time.thread_time if options.threads == 1 else time.perf_counter
    times = interleaved(works, options.turns, clock, options.threads)
    medians = {name: statistics.median(t) for name, t in times.items()}
    return {"name": case.name, "size": case.size, "us": medians, "least_us": {n: min(t) for n, t in times.items()},
            "speed_up": {n: m / medians["ours"] for n, m in medians.items() if n != "ours"}}


def show(row: Mapping[str, Any]) -> None:
    times = "".join(f"{row['us'].get(n, math.nan):>12.1f}" for n in ("ours", *RIVALS))
    ratios = "".join(f"{row['speed_up'].get(n, math.nan):>9.2f}" for n in RIVALS)
    line = f"{row['name'] + ' ' + row['size']:42}{times} |{ratios}"
    print(line.replace("nan", "  -"), flush=True)


def show_aims(table: list[dict[str, Any]]) -> None:
    """What is aimed at, and whether it was reached."""
    rows = {(row["name"], row["size"]): row["speed_up"] for row in table}
    for (name, size), ratios in rows.items():
        for rival, least in AIMS.get((name, size), {}).items():
            if rival in ratios:
                verdict = "reached" if ratios[rival] >= least else "not reached"
                print(f"{name + ' ' + size:42} {ratios[rival]:.2f} against {rival}, aimed at {least}: {verdict}")
        rest = min(ratios.get(rival, math.inf) for rival in ("torch", "compile"))
        if (name, size) not in AIMS and rest < OTHERS:
            print(f"{name + ' ' + size:42} {rest:.2f} against the best of torch, aimed at {OTHERS}: not reached")


def main() -> None:
    options = arguments()
    os.environ["TILEWRIGHT_NUM_THREADS"] = os.environ["OPENBLAS_NUM_THREADS"] = str(options.threads)
    here = Path(__file__).resolve().parent
    sys.path[:0] = [str(here), str(here.parent)]
    import numpy as np
    import torch
    from cpu_cases import elementwise, products, rows

    import tilewright as triton
    torch.set_num_threads(options.threads)
    makers = {**elementwise.CASES, **rows.CASES, **products.CASES}
    chosen = options.only.split(",") if options.only else list(makers)
    unknown = [name for name in chosen if name not in makers]
    if unknown:
        raise SystemExit(f"no case {', '.join(unknown)}; there are {', '.join(makers)}")
    print(f"{platform.processor() or platform.machine()}, {os.cpu_count()} cores, {options.threads} threads, Python "
          f"{platform.python_version()}, NumPy {np.__version__}, torch {torch.__version__}")
    print(f"{'microseconds':42}{'ours':>12}{''.join(f'{n:>12}' for n in RIVALS)} | times as fast as each")
    table, refused = [], 0
    for name in chosen:
        for make in makers[name]:
            case = make()
            try:
                table.append(measure(case, options))
            except triton.CompilationError as error:
                refused += 1
                print(f"{case.name + ' ' + case.size:42} NOT COMPILED: {str(error).splitlines()[-1]}")
                continue
            show(table[-1])
    best = [min(r for n, r in row["speed_up"].items() if n != "numba") for row in table]
    show_aims(table)
    print(f"geometric mean against the best rival: {math.exp(sum(map(math.log, best)) / len(best)):.2f}")
    if options.json:
        Path(options.json).write_text(json.dumps({"threads": options.threads, "rows": table}, indent=1) + "\n")
    sys.exit(1 if refused else 0)


if __name__ == "__main__":
    main()
