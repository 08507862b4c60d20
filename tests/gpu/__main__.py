"""Run on a GPU what the other machines run on engines without one: `python -m tests.gpu [tests]`.

    python -m tests.gpu                                   language, conformance, examples, torch, random kernels
    python -m tests.gpu tests/lang -k dot                 some of them
    python -m tests.gpu tests/gpu/test_fuzz.py --kernels 2000
    python -m tests.gpu tests/lang --under "compute-sanitizer --tool racecheck"

Tests run in processes of their own, so a kernel that hangs or loses the GPU's context costs one test.  A table of files
is printed, then a line for each failure; the whole texts are written to `--out`.  Exit status 1 if a test failed, or
compute-sanitizer reported something.  Needs a GPU, pytest, and torch for some of the tests.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shlex
import sys
import time
from collections import Counter, defaultdict
from dataclasses import asdict
from pathlib import Path

from tests.gpu.pool import Pool, Result

DEFAULT = ("tests/lang", "tests/conform", "tests/gpu", "tests/torch")
_REPORTED = re.compile(r"^=========\s+((?:Error|Warning|Invalid|Uninitialized|Program hit|Barrier|Potential|Race)\b.*)",
                       re.MULTILINE | re.IGNORECASE)


def table(results: list[Result], left: list[str]) -> str:
    """Passed, failed and skipped tests of each file."""
    files: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for r in results:
        files[r.file][r.outcome] += 1
        files[r.file]["seconds"] += round(r.seconds)
    for test in left:
        files[test.partition("::")[0]]["left"] += 1
    total = sum(files.values(), Counter())
    lines = [f"{'':52} passed failed skipped  left  seconds"]
    for name, n in [*sorted(files.items()), ("all", total)]:
        lines.append(f"{name:52} {n['passed']:6} {n['failed']:6} {n['skipped']:7} {n['left']:5} {n['seconds']:8}")
    return "\n".join(lines)


def reported(folder: Path) -> Counter[tuple[str, str]]:
    """What compute-sanitizer has written into the logs: (test, first line of a report), and how often."""
    found: Counter[tuple[str, str]] = Counter()
    for log in sorted(folder.glob("process-*.log")):
        for part in re.split(r"^TEST ", log.read_text(errors="replace"), flags=re.MULTILINE):
            name = part.partition("\n")[0]
            found.update((name, line) for line in _REPORTED.findall(part) if "ERROR SUMMARY" not in line)
    return found


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.gpu", description=__doc__.partition("\n")[0])
    parser.add_argument("tests", nargs="*", default=list(DEFAULT), help="files and folders (default: all)")
    parser.add_argument("-k", default="", help="as pytest's")
    parser.add_argument("--sample", default="100", help="per cent of the tests")
    parser.add_argument("--kernels", default="200", help="how many random kernels")
    parser.add_argument("--processes", type=int, default=max(1, (os.cpu_count() or 1)))
    parser.add_argument("--test-seconds", type=float, default=60.0, help="a test that takes longer has hung")
    parser.add_argument("--seconds", type=float, default=3600.0, help="when to stop")
    parser.add_argument("--under", default="", help="a command to run the processes with, such as compute-sanitizer")
    parser.add_argument("--out", type=Path, default=Path("build/gpu"), help="folder for logs and failures")
    parser.add_argument("--without-gpu", action="store_true", help="the engine `ptx` in its place")
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    start = time.monotonic()
    arguments = [*given.tests, "--sample", given.sample, "--kernels", given.kernels]
    if given.without_gpu:
        arguments += ["--ptx", "100"]
    selection = f"({given.k}) and ptx" if given.k and given.without_gpu else "ptx" if given.without_gpu else given.k
    arguments += ["-k", selection] if selection else []
    pool = Pool(arguments, given.processes, given.test_seconds, given.out, shlex.split(given.under),
                {} if given.without_gpu else {"TILEWRIGHT_TEST_ON_GPU": "1"}, start + given.seconds)
    results = pool.run()
    (given.out / "results.jsonl").write_text("".join(json.dumps(asdict(r)) + "\n" for r in results))
    failed = [r for r in results if r.outcome == "failed"]
    (given.out / "failures.txt").write_text("\n\n".join(f"### {r.test}\n{r.reason}\n{r.text}" for r in failed))
    print(table(results, pool.left))
    for reason, names in sorted(_by_reason(failed).items(), key=lambda pair: -len(pair[1])):
        print(f"{len(names):4} {reason[:150]}\n       {names[0]}")
    said = reported(given.out) if given.under else Counter()
    for (name, line), count in sorted(said.items()):
        print(f"REPORT {count} times: {line} in {name}")
    print(f"{len(results)} tests, {len(failed)} failed, {len(said)} reports, {time.monotonic() - start:.0f} s")
    return 1 if failed or said or not results else 0


def _by_reason(failed: list[Result]) -> dict[str, list[str]]:
    """Failures with the same reason but for numbers are one kind."""
    kinds: dict[str, list[str]] = {}
    first: dict[str, str] = {}
    for r in failed:
        key = first.setdefault(re.sub(r"[-\d.e+]+", "#", r.reason)[:90], r.reason)
        kinds.setdefault(key, []).append(r.test)
    return kinds


if __name__ == "__main__":
    sys.exit(main())
