"""The engines that the suite runs: the batched interpreter, and every compiled target that exists.

An engine runs a module on NumPy arrays (each an argument) and Python numbers.  A target that has no rule for a row
must say so to the user: `REFUSALS` lists such rows with a part of what it says, and the suite checks that it does.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from tests.conform import modules
from tests.gpu import CUDA, ON_GPU
from tilewright.interpret.batched import bind_arguments
from tilewright.interpret.memory import extent_of
from tilewright.ir.node import Module


def run_batched(module: Module, grid: Sequence[int], args: Sequence[object]) -> None:
    modules.run(module, grid, *args)


ENGINES = {"batched": run_batched}

# engine: {row: part of the CompilationError's message}
REFUSALS: Mapping[str, Mapping[str, str]] = {"batched": {}, "cpu": {}, "ptx": {}, "cuda": {}}

# engine: {row: units in the last place}, where an engine is allowed more than the row says: ex2.approx.ftz.f32 of an
# H200 errs by 1.3 on [0, 1) (2026-11-30), and the exponential of a GPU is made of it; exp2 is that instruction, which
# errs by 2.055 at most of all arguments (2026-12-01)
BOUNDS: Mapping[str, Mapping[str, float]] = {"cuda": {"exp": 2, "exp2": 2.1}}
# engine: the rows whose results of float32 are zero where they would be subnormal, as that instruction gives them
FLUSHES: Mapping[str, frozenset[str]] = {"cuda": frozenset({"exp2"}), "ptx": frozenset({"exp2"})}

try:
    from tilewright.targets.cpu import CpuTarget
except ImportError:         # the suite below this target still runs
    pass
else:
    from tilewright.language.options import Options
    from tilewright.passes import run_passes
    from tilewright.runtime.arguments import Pointer
    from tilewright.testing import on_gpu, ptx_machine

    CPU = CpuTarget()

    def run_cpu(module: Module, grid: Sequence[int], args: Sequence[object]) -> None:
        options = Options()
        kernel = CPU.load(CPU.compile(run_passes(module, CPU.passes(options)), options))
        full = (*grid, 1, 1)[:3]
        kernel.launch((full[0], full[1], full[2]), [*slots(module, args), *extents(args)])

    def run_ptx(module: Module, grid: Sequence[int], args: Sequence[object]) -> None:
        options = Options()
        code = ptx_machine.TARGET.compile(run_passes(module, ptx_machine.TARGET.passes(options)), options)
        patterns = slots(module, args)
        given = [a if isinstance(a, np.ndarray) else p for a, p in zip(args, patterns, strict=True)]
        ptx_machine.launch(code, (*grid, 1, 1)[:3], given)

    def run_cuda(module: Module, grid: Sequence[int], args: Sequence[object]) -> None:
        options, gpu = Options(), on_gpu.target()
        code = gpu.compile(run_passes(module, gpu.passes(options)), options)
        found = {k: extent_of("", a) for k, a in enumerate(args) if isinstance(a, np.ndarray)}
        pointers = [(k, Pointer("", e.pointer, e.address, e.end)) for k, e in found.items()]
        full = (*grid, 1, 1)[:3]
        on_gpu.launch(gpu, code, (full[0], full[1], full[2]), slots(module, args), pointers)

    ENGINES["cpu"] = run_cpu
    ENGINES["ptx"] = run_ptx
    if ON_GPU:
        ENGINES[CUDA] = run_cuda


def extents(args: Sequence[object]) -> list[int]:
    """Lowest byte and the byte after the highest of each array, as they stand behind the slots."""
    found = [extent_of("", a) for a in args if isinstance(a, np.ndarray)]
    return [word for e in found for word in (e.address, e.end)]


def slots(module: Module, args: Sequence[object]) -> list[int]:
    """The 64-bit pattern of each argument: addresses, and numbers by their storage form, sign-extended."""
    plain = [a.ctypes.data if isinstance(a, np.ndarray) else a for a in args]
    patterns = []
    for array in bind_arguments(module.entry, plain):
        number = array.view(f"i{array.itemsize}") if array.dtype != np.bool_ else array
        patterns.append(int(number[0]) & (2**64 - 1))
    return patterns
