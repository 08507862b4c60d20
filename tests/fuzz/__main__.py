"""The long run: `python -m tests.fuzz --seconds 600 --seed 1`.  Exit status 1 if something was found.

Every finding is shrunk and printed: the engines, how they differ, and the smallest kernel.
"""

from __future__ import annotations

import argparse
import sys
import time

from tests.fuzz.generate import generate
from tests.fuzz.running import ENGINES, check
from tests.fuzz.shrink import shrink


def report(seed: int, engines: tuple[str, ...], statements: int, shrink_seconds: float) -> bool:
    """Run one seed; print what is found.  Gives whether something was."""
    program = generate(seed, statements, crowded={"ptx", "cuda"}.isdisjoint(engines))
    verdict = check(program, engines)
    if not verdict.fails:
        return False
    print(f"--- seed {seed}\n{verdict}", flush=True)
    if shrink_seconds:
        kept = verdict.signature()
        small = shrink(program, lambda p: check(p, engines).signature() == kept, shrink_seconds)
        print(f"--- shrunk from {program.size()} to {small.size()} nodes\n{check(small, engines)}\n{small.source()}",
              flush=True)
    else:
        print(program.source(), flush=True)
    return True


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--seconds", type=float, default=60.0, help="how long to look")
    parser.add_argument("--seed", type=int, default=0, help="the first seed; the others follow")
    parser.add_argument("--count", type=int, default=0, help="how many kernels at most (0: as many as there is time)")
    parser.add_argument("--statements", type=int, default=6, help="size of the kernels")
    parser.add_argument("--shrink", type=float, default=60.0, help="seconds to spend on shrinking a finding")
    parser.add_argument("--turns", action="store_true",
                        help="of the engines behind the second, each kernel runs on one: more kernels, fewer pairs")
    parser.add_argument("--engines", default=",".join(ENGINES), help="the first is what the others are compared with")
    given = parser.parse_args()
    start, seed, found = time.monotonic(), given.seed, 0
    while time.monotonic() - start < given.seconds and (not given.count or seed < given.seed + given.count):
        engines = tuple(given.engines.split(","))
        if given.turns and len(engines) > 3:
            engines = (*engines[:2], engines[2 + seed % (len(engines) - 2)])
        found += report(seed, engines, given.statements, given.shrink)
        seed += 1
    print(f"{seed - given.seed} kernels, {found} findings, {time.monotonic() - start:.0f} s")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
