"""How fast are other people's kernels on a GPU, beside triton?  The operators of flag-gems, unchanged, on both.

The package is imported in two processes, one after the other: in one, what it imports as `triton` is Tilewright.  For
each operator: microseconds on the GPU (medians of the turns, each behind a write of more than the second-level cache;
the GPU sleeps until the host has said all there is to do, so that the host's time is not among them), and microseconds
of the host for the same call, the GPU running behind.  A tuner looks at its first few configs only, on both sides.
Ratios say how many times as fast as triton's process this one is.
Needs a GPU, torch, triton, and flag-gems with what it imports (`pip install --no-deps flag-gems sqlalchemy`):
    python benchmarks/gems.py [--only softmax,mm] [--turns 7] [--seconds 120]
What was measured: docs/performance.md.
"""

from __future__ import annotations

import argparse
import importlib
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parents[1]
SIDES = ("tilewright", "triton")
TUNED = 4           # configs that a tuner times
SLEEP = 2_000_000   # cycles, about a millisecond: the longest time that a host needs for a call
SLOW = 0.9          # ratios below are marked
Calls = Mapping[str, Callable[[], tuple[str, list[Any]]]]


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="operators, separated by commas")
    parser.add_argument("--turns", type=int, default=7, help="how often each is measured (default 7)")
    parser.add_argument("--seconds", type=float, default=120.0, help="when a process begins no further operator")
    parser.add_argument("--json", metavar="FILE", help="also write all numbers to FILE")
    parser.add_argument("--side", choices=SIDES, help=argparse.SUPPRESS)
    return parser.parse_args()


def calls(torch: Any) -> Calls:
    """Names of cases, and what makes the operator's name and its arguments."""
    half, brain, real = torch.float16, torch.bfloat16, torch.float32

    def r(*shape: int, t: Any = real) -> Any:
        return torch.randn(shape).to(t)

    def i(high: int, *shape: int) -> Any:
        return torch.randint(0, high, shape)

    def of(name: str, *given: Callable[[], Any] | Any) -> Callable[[], tuple[str, list[Any]]]:
        return lambda: (name, [value() if callable(value) else value for value in given])

    big, row = (lambda: r(8192, 4096)), (lambda: r(4096, 4096))
    positive, narrow = (lambda: big().abs() + 0.1), (lambda: r(8192, 4096, t=half))
    wide, index = (lambda: r(64, 32768)), (lambda: i(4096, 4096, 4096))
    found: dict[str, Callable[[], tuple[str, list[Any]]]] = {}
    for name in ("relu", "gelu", "tanh", "exp", "sin", "erf", "silu", "rsqrt"):
        found[name] = of(name, big)
        found[f"{name} fp16"] = of(name, narrow)
    for name in ("add", "true_divide", "atan2", "remainder", "pow_tensor_tensor", "floor_divide"):
        found[name] = of(name, positive, positive)
    for name in ("sum", "mean", "max", "any", "prod"):
        found[name] = of(name, big)
    for name in ("sum_dim", "mean_dim", "amax"):
        found[f"{name} rows"], found[f"{name} columns"] = of(name, row, [1]), of(name, row, [0])
    for name in ("argmax", "max_dim", "cumsum", "cummax", "softmax", "log_softmax"):
        found[f"{name} rows"], found[f"{name} long rows"] = of(name, row, 1), of(name, wide, 1)
    for name in ("argmax", "max_dim", "cumsum", "softmax", "log_softmax"):
        found[f"{name} columns"] = of(name, row, 0)
    found |= {
        "var_mean": of("var_mean", row, [1]),
        "layer_norm": of("layer_norm", row, [4096], lambda: r(4096), lambda: r(4096), 1e-5),
        "rms_norm": of("rms_norm", row, [4096], lambda: r(4096), 1e-5),
        "group_norm": of("group_norm", lambda: r(16, 64, 1024), lambda: r(64), lambda: r(64), 16, 64, 1024, 32),
        "batch_norm": of("batch_norm", lambda: r(16, 64, 4096), *[lambda: r(64)] * 3, lambda: r(64).abs() + 0.5, True),
        "mse_loss": of("mse_loss", big, big),
        "nll_loss_forward": of("nll_loss_forward", lambda: r(4096, 8192), lambda: i(8192, 4096)),
        "mm fp16 4096": of("mm", *[lambda: r(4096, 4096, t=half)] * 2),
        "mm fp32 2048": of("mm", *[lambda: r(2048, 2048)] * 2),
        "mm bf16 1024": of("mm", *[lambda: r(1024, 1024, t=brain)] * 2),
        "mm bf16 16 rows": of("mm", lambda: r(16, 4096, t=brain), lambda: r(4096, 4096, t=brain)),
        "addmm": of("addmm", lambda: r(4096, t=half), *[lambda: r(4096, 4096, t=half)] * 2),
        "bmm": of("bmm", lambda: r(32, 1024, 512, t=half), lambda: r(32, 512, 1024, t=half)),
        "conv2d": of("conv2d", lambda: r(16, 64, 56, 56, t=half), lambda: r(64, 64, 3, 3, t=half)),
        "attention": of("scaled_dot_product_attention_forward", *[lambda: r(4, 16, 2048, 128, t=half)] * 3),
        "gather": of("gather", row, 1, index), "scatter": of("scatter", row, 1, index, row),
        "index_select": of("index_select", row, 1, lambda: i(4096, 2048)),
        "embedding": of("embedding", lambda: r(32000, 1024), lambda: i(32000, 8, 2048)),
        "nonzero": of("nonzero", lambda: row().round()),
        "unique": of("_unique2", lambda: i(20000, 1 << 20), *[True] * 3),
        "sort": of("sort", row, 1), "topk": of("topk", row, 16), "flip": of("flip", row, [0, 1]),
        "roll": of("roll", row, [3], [1]), "tile": of("tile", row, [2, 2]),
        "cat": of("cat", lambda: [row(), row()], 1), "repeat_interleave": of("repeat_interleave_self_int", row, 3, 1),
        "max_pool2d": of("max_pool2d_with_indices", lambda: r(16, 64, 112, 112), 3, 2),
        "upsample_nearest2d": of("upsample_nearest2d", lambda: r(16, 64, 56, 56), [112, 112]),
        "dropout": of("dropout", big, 0.3), "rand_like": of("rand_like", big), "glu": of("glu", big),
    }
    return found


def import_gems(side: str) -> tuple[Any, Any]:
    """torch and the package, with this `triton`."""
    cache = tempfile.mkdtemp(prefix="gems-")
    os.environ.update(FLAGGEMS_CACHE_DIR=cache, FLAGGEMS_DB_URL=f"sqlite:///{cache}/tuned.db", GEMS_VENDOR="nvidia",
                      TRITON_CACHE_DIR=f"{cache}/triton")
    if side == "tilewright":
        sys.path.insert(0, str(HERE))
        importlib.import_module("tilewright.compat").install()
    tuner = importlib.import_module("triton").runtime.Autotuner
    prune = tuner.prune_configs
    tuner.prune_configs = lambda self, *args, **kwargs: list(prune(self, *args, **kwargs))[:TUNED]
    return importlib.import_module("torch"), importlib.import_module("flag_gems")


def times(torch: Any, call: Callable[[], object], turns: int, cache: Any) -> tuple[float, float]:
    """Microseconds of the GPU and of the host; medians."""
    gpu, host = [], []
    for _ in range(turns):
        start = time.perf_counter()
        call()
        host.append((time.perf_counter() - start) * 1e6)
        torch.cuda.synchronize()
    for _ in range(turns):
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        cache.zero_()
        torch.cuda._sleep(SLEEP)
        begin.record()
        call()
        end.record()
        torch.cuda.synchronize()
        gpu.append(begin.elapsed_time(end) * 1e3)
    return statistics.median(gpu), statistics.median(host)


def measure(options: argparse.Namespace) -> dict[str, Any]:
    """In a process of its own: what each operator takes, or its error."""
    torch, gems = import_gems(options.side)
    torch.set_default_device("cuda")
    cache, found = torch.empty(256 << 20, dtype=torch.int8), {}
    start, chosen = time.monotonic(), set(filter(None, options.only.split(",")))
    for case, make in calls(torch).items():
        name, args = make() if not chosen or case.split()[0] in chosen else ("", [])
        if not name or time.monotonic() - start > options.seconds:
            continue
        operator = getattr(gems, name)
        try:
            for _ in range(4):      # the first launches go through Python
                operator(*args)
            found[case] = times(torch, lambda: operator(*args), options.turns, cache)   # noqa: B023
        except Exception as error:
            found[case] = f"{type(error).__name__}: {error}".splitlines()[0][:100]
    return found


def side(name: str, options: argparse.Namespace) -> dict[str, Any]:
    """What the process of that side has measured."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder, "found.json")
        command = [sys.executable, __file__, "--side", name, "--json", str(out), "--only", options.only,
                   "--turns", str(options.turns), "--seconds", str(options.seconds)]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        found: dict[str, Any] = json.loads(out.read_text())
        return found


def main() -> None:
    options = arguments()
    if options.side:
        Path(options.json).write_text(json.dumps(measure(options)))
        return
    found = {name: side(name, options) for name in SIDES}
    print(f"{'microseconds':28}{'GPU: ours':>12}{'triton':>10}{'ratio':>8}{'host: ours':>14}{'triton':>10}{'ratio':>8}")
    ratios: list[tuple[float, float]] = []
    for case, ours in found["tilewright"].items():
        theirs = found["triton"].get(case, "not measured")
        if isinstance(ours, str) or isinstance(theirs, str):
            print(f"{case:28}  ours: {ours}  triton: {theirs}")
            continue
        gpu, host = theirs[0] / ours[0], theirs[1] / ours[1]
        ratios.append((gpu, host))
        print(f"{case:28}{ours[0]:12.1f}{theirs[0]:10.1f}{gpu:8.2f}{ours[1]:14.1f}{theirs[1]:10.1f}{host:8.2f}"
              f"{'   slow' if gpu < SLOW else ''}")
    means = [math.exp(statistics.fmean(map(math.log, column))) for column in zip(*ratios)]
    print(f"geometric means: GPU {means[0]:.2f}, host {means[1]:.2f}; {len(ratios)} operators")
    if options.json:
        Path(options.json).write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
