"""How fast is compiled CPU code beside NumPy, torch and torch.compile?  Prints a table of times and ratios.

Everything runs in one process on the same arrays.  Ours and the rivals take turns, so that whatever else the machine
does falls on all; the median of the turns counts.  With one thread the CPU time of the thread is taken, which a busy
machine disturbs little; with more, the time that passes.  A wrong result ends the run.
How to read it, and what was measured: docs/performance.md.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import platform
import statistics
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

# Some machines set these, and OpenBLAS then picks a slow kernel: NumPy would be an easy rival.
for _variable in ("OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE"):
    os.environ.pop(_variable, None)

TURN_S = 3e-4       # a turn repeats short work for as long as this

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
    """How often to do `work` in one turn."""
    start = time.perf_counter()
    work()
    return max(1, min(1000, int(TURN_S / max(1e-7, time.perf_counter() - start))))


def interleaved(works: Mapping[str, Callable[[], object]], turns: int, clock: Clock) -> dict[str, list[float]]:
    """Microseconds of each work in each turn."""
    for work in works.values():
        work()
    counts = {name: repetitions(work) for name, work in works.items()}
    times: dict[str, list[float]] = {name: [] for name in works}
    for _ in range(turns):
        for name, work in works.items():
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
    times = interleaved(works, options.turns, time.thread_time if options.threads == 1 else time.perf_counter)
    medians = {name: statistics.median(t) for name, t in times.items()}
    return {"name": case.name, "size": case.size, "us": medians, "least_us": {n: min(t) for n, t in times.items()},
            "speed_up": {n: m / medians["ours"] for n, m in medians.items() if n != "ours"}}


def show(row: Mapping[str, Any]) -> None:
    times = "".join(f"{row['us'].get(n, math.nan):>12.1f}" for n in ("ours", "torch", "numpy", "compile"))
    ratios = "".join(f"{row['speed_up'].get(n, math.nan):>9.2f}" for n in ("torch", "numpy", "compile"))
    line = f"{row['name'] + ' ' + row['size']:42}{times} |{ratios}"
    print(line.replace("nan", "  -"), flush=True)


def main() -> None:
    options = arguments()
    os.environ["TILEWRIGHT_NUM_THREADS"] = os.environ["OPENBLAS_NUM_THREADS"] = str(options.threads)
    sys.path.insert(0, str(Path(__file__).parent))
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
    print(f"{'microseconds':42}{'ours':>12}{'torch':>12}{'numpy':>12}{'compile':>12} | times as fast as each")
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
    best = [min(row["speed_up"].values()) for row in table]
    print(f"geometric mean against the best rival: {math.exp(sum(map(math.log, best)) / len(best)):.2f}")
    if options.json:
        Path(options.json).write_text(json.dumps({"threads": options.threads, "rows": table}, indent=1) + "\n")
    sys.exit(1 if refused else 0)


if __name__ == "__main__":
    main()
