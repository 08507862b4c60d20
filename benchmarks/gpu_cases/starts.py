"""How long a new process takes for the first launch of a kernel that is in the disk cache.

Beyond its imports and the GPU's context: torch has made tensors and waited for the GPU before.  The kernel is the
`add` of kernels.py, in a script of its own.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path

_SCRIPT = """
import time
import torch
x, y, out = torch.ones(3, 1000, device="cuda").unbind()
torch.cuda.synchronize()
import {package} as triton, {package}.language as tl
@triton.jit
def add(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    tl.store(out_ptr + offsets, tl.load(x_ptr + offsets, mask=mask) + tl.load(y_ptr + offsets, mask=mask), mask=mask)
start, busy = time.perf_counter(), time.process_time()
add[(4,)](x, y, out, 1000, BLOCK=256)
torch.cuda.synchronize()
print(1e3 * (time.perf_counter() - start), 1e3 * (time.process_time() - busy))
assert bool((out == 2).all())
"""


def first_launches(packages: Iterable[str], turns: int = 4) -> dict[str, tuple[float, float]]:
    """For each package the median milliseconds that pass, and of processor time; processes take turns."""
    times: dict[str, list[list[float]]] = {package: [] for package in packages}
    with tempfile.TemporaryDirectory() as folder:
        environment = {**os.environ, "TILEWRIGHT_CACHE_DIR": str(Path(folder, "ours")),
                       "TRITON_CACHE_DIR": str(Path(folder, "triton")),
                       "PYTHONPYCACHEPREFIX": str(Path(folder, "bytecode")),
                       "PYTHONPATH": str(Path(__file__).resolve().parents[2])}
        environment.pop("PYTHONDONTWRITEBYTECODE", None)    # an installed package has its bytecode
        for package in times:
            Path(folder, f"{package}_start.py").write_text(_SCRIPT.format(package=package))
        for turn in range(turns + 1):   # the first puts the kernel there
            for package, found in times.items():
                done = subprocess.run([sys.executable, str(Path(folder, f"{package}_start.py"))], env=environment,
                                      capture_output=True, text=True, check=True)
                if turn:
                    found.append([float(word) for word in done.stdout.split()])
    return {package: (statistics.median(t for t, _ in found), statistics.median(t for _, t in found))
            for package, found in times.items()}
