"""How fast are kernels on an NVIDIA GPU beside triton and torch?  Prints times, rates and ratios.

One process: the same kernel source (benchmarks/gpu_cases/kernels.py) is loaded for Tilewright and, where it is
installed, for triton; calls take turns, each behind a write of more than the second-level cache, in one order and the
opposite one.  Times are medians of the turns; a ratio is the median of the turns' ratios, with its interval of 95 %
confidence.  A bar that this interval reaches counts as met, "within noise" where the median is below it.  Results are
checked before anything is timed.  Launch times are of the calling thread, with an empty stream; a first launch, in a
process of its own, finds its kernel in the disk cache; last come compilations and first calls with nothing cached.  Run
on a machine with a GPU: python benchmarks/gpu.py [--only softmax] [--json FILE]
What was measured: docs/performance.md.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.gpu_cases import Case, cases, kernels_for
from benchmarks.gpu_cases.colds import lines as cold_lines
from benchmarks.gpu_cases.launches import launch_times
from benchmarks.gpu_cases.starts import first_launches


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="parts of the names of cases, separated by commas")
    parser.add_argument("--turns", type=int, default=31, help="how often each is measured (default 31)")
    parser.add_argument("--colds", type=int, default=5, help="how often each kernel is compiled (default 5; 0: never)")
    parser.add_argument("--json", metavar="FILE", help="also write all numbers to FILE")
    return parser.parse_args()


def timed(torch: Any, works: Mapping[str, Callable[[], object]], turns: int) -> dict[str, list[float]]:
    """Milliseconds of each work, one for each turn."""
    cache = torch.empty(256 << 20, dtype=torch.int8, device="cuda")
    times: dict[str, list[float]] = {name: [] for name in works}
    for work in works.values():
        for _ in range(3):
            work()
    for turn in range(turns):
        for name, work in list(works.items())[::1 if turn % 2 else -1]:
            start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
            cache.zero_()
            start.record()
            work()
            end.record()
            torch.cuda.synchronize()
            times[name].append(start.elapsed_time(end))
    return times


def interval(values: Sequence[float]) -> tuple[float, float]:
    """Between which the median lies with 95 % confidence: order statistics, by the normal approximation of how many
    values are below it."""
    ordered, count = sorted(values), len(values)
    apart = 0.98 * math.sqrt(count) + 0.5
    return ordered[max(0, math.floor(count / 2 - apart))], ordered[min(count - 1, math.floor(count / 2 + apart))]


def first_calls(works: Mapping[str, Callable[[], object]], torch: Any) -> dict[str, float]:
    """Milliseconds of each first call, which compiles."""
    found = {}
    for name, work in works.items():
        start = time.perf_counter()
        work()
        torch.cuda.synchronize()
        found[name] = (time.perf_counter() - start) * 1e3
    return found


def wrong(case: Case) -> str:
    """What is wrong with the result; empty if nothing is."""
    error = (case.result.double() - case.expected.double()).abs().max().item()
    scale = case.expected.double().abs().max().item()
    return "" if error <= case.tolerance * scale else f"off by {error:.2e} of {scale:.2e}"


def measure(torch: Any, case: Case, packages: Mapping[str, Any], turns: int) -> dict[str, Any]:
    """One row; a package that fails is told and left out."""
    works: dict[str, Callable[[], object]] = {}
    row: dict[str, Any] = {"name": case.name, "unit": case.unit, "first_ms": {}, "failed": {}}
    for name, kernels in packages.items():
        case.result.fill_(float("nan"))
        work = case.launch(kernels)
        try:
            row["first_ms"].update(first_calls({name: work}, torch))
            fault = wrong(case)
        except Exception as error:
            fault = f"{type(error).__name__}: {error}"
        if fault:
            row["failed"][name] = fault
        else:
            works[name] = work
    if case.torch is not None:
        works["torch"] = case.torch
    times = timed(torch, works, turns)
    row["ms"] = {name: statistics.median(found) for name, found in times.items()}
    scale = 1e-6 if case.unit == "GB/s" else 1e-9
    row["rates"] = {name: case.units / ms * scale for name, ms in row["ms"].items()}
    pairs = {name: [other / own for other, own in zip(found, times["tilewright"], strict=True)]
             for name, found in times.items() if name != "tilewright" and "tilewright" in times}
    row["ratios"] = {name: statistics.median(found) for name, found in pairs.items()}
    row["intervals"] = {name: interval(found) for name, found in pairs.items()}
    row["bar"], row["met"] = bar_of(case, row)
    return row


def bar_of(case: Case, row: Mapping[str, Any]) -> tuple[str, str]:
    """The bar as a text, and whether it is met (empty: there is none, or it cannot be said here)."""
    if case.rate:
        rate = row["rates"].get("tilewright")
        return f">= {case.rate:g} {case.unit}", "" if rate is None else "met" if rate >= case.rate else "NOT MET"
    if not case.ratio or "triton" not in row["ratios"]:
        return f">= {case.ratio:g}x triton" if case.ratio else "", ""
    met = ("met" if row["ratios"]["triton"] >= case.ratio else
           "met within noise" if row["intervals"]["triton"][1] >= case.ratio else "NOT MET")
    return f">= {case.ratio:g}x triton", met


def show(row: Mapping[str, Any]) -> None:
    rates = "  ".join(f"{name} {rate:7.0f}" for name, rate in row["rates"].items())
    ratios = "  ".join(f"{ratio:.3f}x {name} ({low:.3f} to {high:.3f})" for (name, ratio), (low, high)
                       in zip(row["ratios"].items(), row["intervals"].values(), strict=True))
    first = "/".join(f"{ms:.0f}" for ms in row["first_ms"].values())
    print(f"{row['name']:30} {row['unit']:8} {rates}   {ratios}   {row['bar']} {row['met']}   first {first} ms",
          flush=True)
    for name, fault in row["failed"].items():
        print(f"    {name} FAILED: {fault.strip().splitlines()[-1][:300]}", flush=True)


def main() -> None:
    options = arguments()
    import torch
    packages: dict[str, Any] = {"tilewright": kernels_for("tilewright")}
    try:
        packages["triton"] = kernels_for("triton")
    except ImportError:
        print("triton is not installed: no ratios to it")
    torch.manual_seed(0)
    wanted = [part for part in options.only.split(",") if part]
    rows = []
    for case in cases(torch):
        if not wanted or any(part in case.name for part in wanted):
            rows.append(measure(torch, case, packages, options.turns))
            show(rows[-1])
    launches = launch_times(torch, packages)
    print("launch, us: " + "  ".join(f"{name} {us:.2f}" for name, us in launches.items()) + "   bar <= 4")
    starts = first_launches(packages)
    print("first launch of a new process, kernel on disk, ms (and of processor time): "
          + "  ".join(f"{name} {passed:.1f} ({busy:.1f})" for name, (passed, busy) in starts.items()) + "   bar <= 20")
    compiled: dict[str, Any] = {}
    for line in cold_lines(torch, options.colds, compiled) if options.colds else ():
        print(line, flush=True)
    if options.json:
        Path(options.json).write_text(json.dumps({"device": torch.cuda.get_device_name(), "rows": rows,
                                                  "launch_us": launches, "first_launch_ms": starts,
                                                  "compiled_ms": compiled}, indent=1))


if __name__ == "__main__":
    main()
