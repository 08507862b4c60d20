"""What a user waits for at the first call of a kernel, `kernel[grid](...)` with nothing cached, until it has run.

One process, both packages, each warmed by a kernel of another signature: compilers and their children are there.
Every measured call is of a function that is new, in a file and under names of its own, with an empty cache: so neither
package, nor nvJitLink, nor gcc (which builds triton's launcher, once for each signature) has anything of it.
Beside it stands the compilation alone (`compiles`).  Needs a GPU: python benchmarks/gpu_cases/colds.py [--turns 5]
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import re
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from benchmarks.gpu_cases import KERNELS, kernels_for
from benchmarks.gpu_cases.compiles import BAR, CASES, interleaved, ours, peer
from tilewright.targets.nvidia.target import NvidiaTarget

_WARMING = """
import triton
import triton.language as tl

@triton.jit
def warming(out_ptr, factor, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(out_ptr + i, tl.load(out_ptr + i) * factor)
"""
_FOLDERS = ("TILEWRIGHT_CACHE_DIR", "TRITON_CACHE_DIR")
_DEFINITION = re.compile(r"^def (\w+)\(", re.MULTILINE)
Arguments = tuple[Sequence[Any], tuple[int, ...]]


def _vectors(torch: Any, count: int) -> Arguments:
    n, columns = 1 << 20, 4096
    x, out = torch.randn(n, device="cuda"), torch.empty(n, device="cuda")
    if count == 3:
        return (x, torch.randn(n, device="cuda"), out, n), (n // 1024,)
    weight, bias = torch.randn(columns, device="cuda"), torch.randn(columns, device="cuda")
    return (x, weight, bias, out, n, columns), (n // 1024,)


def _rows(torch: Any, columns: int, dtype: Any) -> Arguments:
    x = torch.randn(256, columns, device="cuda").to(dtype)
    return (x, torch.empty_like(x), columns, columns, columns), (256,)


def _layer_norm(torch: Any) -> Arguments:
    x = torch.randn(256, 4096, device="cuda")
    weight, bias = torch.randn(4096, device="cuda"), torch.randn(4096, device="cuda")
    return (x, weight, bias, torch.empty_like(x), 4096, 4096, 1e-5), (256,)


def _product(torch: Any) -> Arguments:
    size = 1024
    a, b = (torch.randn(size, size, device="cuda").to(torch.bfloat16) for _ in range(2))
    return (a, b, torch.empty_like(a), size, size, size, size, 1, size, 1, size, 1), (64,)


LAUNCHES: Mapping[str, Callable[[Any], Arguments]] = {
    "add": lambda torch: _vectors(torch, 3), "affine+relu": lambda torch: _vectors(torch, 4),
    "softmax 1000": lambda torch: _rows(torch, 1000, torch.float32),
    "softmax 4096": lambda torch: _rows(torch, 4096, torch.float32),
    "softmax 32768 bf16": lambda torch: _rows(torch, 32768, torch.bfloat16),
    "layer norm 4096": _layer_norm, "matmul bf16 128x128x64": _product,
}


def _module(package: str, text: str, folder: str, name: str) -> ModuleType:
    path = Path(folder, f"{name}_{package}.py")
    path.write_text(text)
    return kernels_for(package, path)


def first_calls(torch: Any, packages: Sequence[str], turns: int) -> dict[str, dict[str, list[float]]]:
    """Milliseconds of first calls, by kernel and package; packages and kernels take turns."""
    found: dict[str, dict[str, list[float]]] = {name: {package: [] for package in packages} for name in LAUNCHES}
    given = {name: launch(torch) for name, launch in LAUNCHES.items()}
    with tempfile.TemporaryDirectory() as folder, _caches_in(Path(folder, "cache")) as cache:
        for package in packages:
            warming = _module(package, _WARMING, folder, "warming")
            warming.warming[(1,)](torch.ones(64, device="cuda"), 2.0, BLOCK=64)
        order = [(turn, name, package) for turn in range(turns + 1) for name in LAUNCHES
                 for package in packages[::1 if turn % 2 else -1]]
        for count, (turn, name, package) in enumerate(order):
            for kept in cache.rglob("*"):
                if kept.is_file():
                    kept.unlink()
            spent = _first_call(torch, package, name, given[name], folder, count)
            if turn:        # the first does not count
                found[name][package].append(spent)
    return found


@contextmanager
def _caches_in(folder: Path) -> Iterator[Path]:
    """The cache of both packages, for the functions that are decorated inside.  It stays the same: a package with
    another one has other compile children."""
    folder.mkdir(mode=0o700)
    before = {name: os.environ.get(name) for name in _FOLDERS}
    os.environ.update(dict.fromkeys(_FOLDERS, str(folder)))
    try:
        yield folder
    finally:
        for name, value in before.items():
            os.environ.pop(name, None)
            if value is not None:
                os.environ[name] = value


def _first_call(torch: Any, package: str, name: str, given: Arguments, folder: str, count: int) -> float:
    case, suffix = CASES[name], f"_{count}"
    text = _DEFINITION.sub(lambda found: f"def {found[1]}{suffix}(", KERNELS.read_text())
    kernel = getattr(_module(package, text, folder, f"kernels{suffix}"), f"{case.kernel}{suffix}")
    arguments, grid = given
    torch.cuda.synchronize()
    start = time.perf_counter()
    kernel[grid](*arguments, **case.constants, **case.options)
    torch.cuda.synchronize()
    return 1e3 * (time.perf_counter() - start)


def _shown(label: str, times: Mapping[str, Sequence[float]]) -> str:
    text = f"    {label:14s}" + "  ".join(
        f"{package} {statistics.median(spent):6.1f} (least {min(spent):.1f})" for package, spent in times.items())
    if len(times) == 2:
        mine, other = (statistics.median(spent) for spent in times.values())
        text += f"   ratio {mine / other:.2f} (bar {BAR}: {'met' if mine <= BAR * other else 'NOT met'})"
    return text


def lines(torch: Any, turns: int, record: dict[str, Any] | None = None) -> Iterator[str]:
    """What benchmarks/gpu.py prints of compilation; `record` gets the times."""
    packages = ["tilewright", *(["triton"] if importlib.util.find_spec("triton") else [])]
    target, kernels = NvidiaTarget(90), kernels_for("tilewright")
    firsts = first_calls(torch, packages, turns)
    yield f"\ncold compilation, compile children running: medians of {turns}, ms"
    for name, case in CASES.items():
        calls = [call for call in (ours(kernels, case, target), peer(case)) if call is not None]
        alone = dict(zip(packages, interleaved(calls, turns), strict=True))
        if record is not None:
            record[name] = {"compile alone": alone, "first call": firsts[name]}
        yield name
        yield _shown("compile alone", alone)
        yield _shown("first call", firsts[name])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--turns", type=int, default=5, help="measurements of each time")
    import torch
    for line in lines(torch, parser.parse_args().turns):
        print(line, flush=True)


if __name__ == "__main__":
    main()
