"""Run every example, one after the other, and say how each went and how long it took.

Arguments are handed to the examples: `run_all.py --device cpu`.
"""

import argparse
import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent


def run(example: Path, arguments: list[str]) -> str:
    """Run one example and print what it prints; `OK`, `SKIPPED` or `FAILED`."""
    print(f"== {example.name}", flush=True)
    start = time.perf_counter()
    result = subprocess.run([sys.executable, str(example), *arguments], stdout=subprocess.PIPE, text=True, check=False)
    print(result.stdout, end="")
    skipped = result.stdout.startswith("SKIPPED")
    verdict = "FAILED" if result.returncode else "SKIPPED" if skipped else "OK"
    print(f"   {verdict} after {time.perf_counter() - start:.1f} s\n", flush=True)
    return verdict


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", choices=["auto", "cpu", "cuda"], default="auto", help="where the kernels run")
    arguments = ["--device", parser.parse_args().device]
    start = time.perf_counter()
    examples = sorted(HERE.glob("[0-9][0-9]_*.py"))
    verdicts = [run(example, arguments) for example in examples]
    counts = ", ".join(f"{verdicts.count(v)} {v}" for v in ("OK", "SKIPPED", "FAILED") if v in verdicts)
    print(f"{len(examples)} examples in {time.perf_counter() - start:.1f} s: {counts}")
    return 1 if "FAILED" in verdicts else 0


if __name__ == "__main__":
    sys.exit(main())
