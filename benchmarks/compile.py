"""How long does it take to compile a kernel, and to start one from the disk cache?  Prints tables of milliseconds.

    cold      a kernel that is in no cache, the compile child running and the compiler loaded: the whole, and its parts
    sm_90a    the kernels of benchmarks/gpu.py for an H200 (none is needed), beside triton where that is installed
    starts    of the child; of a process that finds its kernel in the disk cache, beyond its imports; of the imports

Each bar has a line: what is asked, the median and the least of the times that passed, and the median of processor time,
which is what a quiet machine would take: where other programs share this one, it says more.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import tilewright as triton
import tilewright.language as tl
from benchmarks.gpu_cases.compiles import lines as gpu_lines
from tilewright.lowering import lower
from tilewright.passes import run_passes
from tilewright.runtime import knobs
from tilewright.targets.base import CodeObject
from tilewright.targets.cpu.generate import generate
from tilewright.targets.cpu.target import CpuTarget, vector_bits
from tilewright.targets.llvm import toolchain
from tilewright.targets.llvm.client import CompileChildren
from tilewright.targets.llvm.machine import Request


@triton.jit
def add_kernel(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    tl.store(out_ptr + offsets, tl.load(x_ptr + offsets, mask=mask) + tl.load(y_ptr + offsets, mask=mask), mask=mask)


@triton.jit
def softmax_kernel(x_ptr, out_ptr, columns, BLOCK: tl.constexpr):
    column = tl.arange(0, BLOCK)
    mask = column < columns
    row = tl.program_id(0) * columns
    x = tl.load(x_ptr + row + column, mask=mask, other=float("-inf"))
    numerator = tl.exp(x - tl.max(x, axis=0))
    tl.store(out_ptr + row + column, numerator / tl.sum(numerator, axis=0), mask=mask)


@triton.jit
def matmul_kernel(a_ptr, b_ptr, c_ptr, M, N, K, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr):
    m = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    n = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    k = tl.arange(0, BLOCK_K)
    accumulator = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for start in range(0, K, BLOCK_K):
        a = tl.load(a_ptr + m[:, None] * K + (start + k)[None, :], mask=(m[:, None] < M) & ((start + k)[None, :] < K))
        b = tl.load(b_ptr + (start + k)[:, None] * N + n[None, :], mask=((start + k)[:, None] < K) & (n[None, :] < N))
        accumulator = tl.dot(a, b, accumulator, input_precision="ieee")
    tl.store(c_ptr + m[:, None] * N + n[None, :], accumulator, mask=(m[:, None] < M) & (n[None, :] < N))


F32 = np.float32
KERNELS: Mapping[str, tuple[Any, tuple[Any, ...], Mapping[str, int], int]] = {     # name: kernel, arguments, bar in ms
    "vector add": (add_kernel, (F32, F32, F32, 1 << 20), {"BLOCK": 1024}, 40),
    "softmax": (softmax_kernel, (F32, F32, 1000), {"BLOCK": 1024}, 60),
    "tiled matmul": (matmul_kernel, (F32, F32, F32, 500, 500, 500),
                     {"BLOCK_M": 64, "BLOCK_N": 64, "BLOCK_K": 32}, 120),
}
PARTS = ("frontend", "passes", "text", "LLVM", "load")


def milliseconds(action: Callable[[], object]) -> float:
    start = time.perf_counter()
    action()
    return 1e3 * (time.perf_counter() - start)


def cold(name: str, turns: int) -> tuple[list[float], dict[str, list[float]]]:
    """Times of whole compilations, and processor time of their parts."""
    kernel, arguments, constants, _ = KERNELS[name]
    whole: list[float] = []
    parts: dict[str, list[float]] = {part: [] for part in PARTS}
    for _ in range(turns):
        fresh = triton.jit(kernel.fn)
        whole.append(milliseconds(partial(fresh.warmup, *arguments, grid=(1,), **constants)))
        for part, spent in split(fresh, arguments, constants).items():
            parts[part].append(spent)
    return whole, parts


def split(kernel: Any, arguments: tuple[Any, ...], constants: Mapping[str, int]) -> dict[str, float]:
    """The parts of one compilation, in processor time."""
    values, given = kernel.bind(arguments, constants)
    atoms = kernel.specializer.split(values, mock=True).atoms
    signature = kernel.specializer.signature(atoms, values, True, False)
    options = kernel.options(given)
    marks = [time.thread_time()]

    def mark(result: Any) -> Any:
        marks.append(time.thread_time())
        return result

    lowered = mark(lower(kernel, signature, options)).with_facts(True, False)
    module = mark(run_passes(lowered.module, list(TARGET.passes(options)), check=1))
    generated = mark(generate(module, TARGET.machine.isa, vector_bits(TARGET.machine)))
    binary = mark(toolchain.compile_request(Request(generated.text, TARGET.machine)))     # here: its time is ours
    mark(TARGET.load(CodeObject(TARGET.name, kernel.__name__, binary, {}, generated.metadata)))
    return {part: 1e3 * (after - before) for part, before, after in zip(PARTS, marks, marks[1:])}


STARTED = """
import time
start = time.perf_counter()
import numpy as np
numpy_done, numpy_busy = time.perf_counter(), time.thread_time()
import tilewright as triton, tilewright.language as tl
imported, import_busy = time.perf_counter(), time.thread_time() - numpy_busy
@triton.jit
def add(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    tl.store(out_ptr + offsets, tl.load(x_ptr + offsets, mask=mask) + tl.load(y_ptr + offsets, mask=mask), mask=mask)
x, y, out = np.ones((3, 1000), np.float32)
ready, busy = time.perf_counter(), time.thread_time()
add[(4,)](x, y, out, 1000, BLOCK=256)
done, busy = time.perf_counter(), time.thread_time() - busy
assert (out == 2).all()
print(1e3 * (numpy_done - start), 1e3 * (imported - numpy_done), 1e3 * (done - ready), 1e3 * import_busy, 1e3 * busy)
"""


def starts(turns: int) -> dict[str, tuple[list[float], list[float]]]:
    """Times that pass, and processor times, of processes that find their kernel in the disk cache (the first one puts
    it there)."""
    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder, "script.py")
        script.write_text(STARTED)
        environment = {**os.environ, "TILEWRIGHT_CACHE_DIR": str(Path(folder, "cache")), "TILEWRIGHT_DISK_CACHE": "1",
                       "PYTHONPYCACHEPREFIX": str(Path(folder, "bytecode"))}
        environment.pop("PYTHONDONTWRITEBYTECODE", None)
        rows = []
        for _ in range(turns + 2):
            done = subprocess.run([sys.executable, str(script)], env=environment, capture_output=True, text=True,
                                  check=True)
            rows.append([float(word) for word in done.stdout.split()])
    numpy, package, launch, package_busy, launch_busy = ([row[k] for row in rows[2:]] for k in range(5))
    return {"import numpy": (numpy, numpy), "import tilewright, beyond numpy": (package, package_busy),
            "first launch, kernel on disk": (launch, launch_busy)}


def child_starts(turns: int) -> list[float]:
    """Times from nothing to the first answer of a compile child."""
    spent = []
    for _ in range(turns):
        children = CompileChildren(1)
        spent.append(milliseconds(children.host))
        children.close()
    return spent


def shown(times: list[float]) -> str:
    return f"{statistics.median(times):8.1f} {min(times):8.1f}"


def bar(what: str, limit: float, times: list[float], busy: list[float] | None = None) -> str:
    """A line for one bar; `busy` are processor times."""
    median = statistics.median(times)
    used = statistics.median(busy) if busy else median
    verdict = "met" if median <= limit else "met in processor time" if used <= limit else "NOT met"
    processor = f"{used:8.1f}" if busy else f"{'-':>8}"
    return f"bar {what:44s} <= {limit:3} ms  measured {shown(times)} {processor}   {verdict}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--turns", type=int, default=9, help="measurements of each time")
    turns = parser.parse_args().turns
    print(f"load of the machine: {os.getloadavg()[0]:.1f} on {os.cpu_count()} processors")
    print(f"median and least of {turns}, and the median of processor time")
    with knobs.scope(disk_cache=False):
        for kernel, arguments, constants, _ in KERNELS.values():        # loads the compiler and starts the child
            triton.jit(kernel.fn).warmup(*arguments, grid=(1,), **constants)
        for name, (*_, limit) in KERNELS.items():
            whole, parts = cold(name, turns)
            print(bar(f"cold compile of {name}", limit, whole, [sum(times) for times in zip(*parts.values())]))
            print("    " + ", ".join(f"{part} {statistics.median(parts[part]):.1f}" for part in PARTS))
    print(bar("start of the compile child", 150, child_starts(turns)))
    for line in gpu_lines(turns):
        print(line, flush=True)
    found = starts(turns)
    print(f"    import numpy {statistics.median(found['import numpy'][0]):.1f}")
    print(bar("import tilewright, NumPy loaded", 250, *found["import tilewright, beyond numpy"]))
    print(bar("first launch of a kernel that is on disk", 5, *found["first launch, kernel on disk"]))


if __name__ == "__main__":
    CHILDREN = CompileChildren(1)
    TARGET = CpuTarget(compiler=CHILDREN)
    toolchain.tune()
    main()
