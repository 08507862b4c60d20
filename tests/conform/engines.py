"""The engines that the suite runs: the batched interpreter, and every compiled target that exists.

An engine runs a module on NumPy arrays (each an argument) and Python numbers.  `Refused` says that it lists the
module as something that it does not do; anything else that goes wrong is a failure.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tests.conform import modules
from tilewright.interpret.batched import bind_arguments
from tilewright.ir.node import Module


def run_batched(module: Module, grid: Sequence[int], args: Sequence[object]) -> None:
    modules.run(module, grid, *args)


ENGINES = {"batched": run_batched}

try:
    from tilewright.targets.cpu import CpuTarget
except ImportError:
    CpuTarget = None
else:
    from tilewright.language.options import Options
    from tilewright.passes import run_passes

    def run_cpu(module: Module, grid: Sequence[int], args: Sequence[object]) -> None:
        target, options = CpuTarget(), Options()
        kernel = target.load(target.compile(run_passes(module, target.passes(options)), options))
        full = (*grid, 1, 1)[:3]
        kernel.launch((full[0], full[1], full[2]), slots(module, args))

    ENGINES["cpu"] = run_cpu

COMPILED = [name for name in ENGINES if name != "batched"]


def slots(module: Module, args: Sequence[object]) -> list[int]:
    """The 64-bit pattern of each argument: addresses, and numbers by their storage form, sign-extended."""
    plain = [a.ctypes.data if isinstance(a, np.ndarray) else a for a in args]
    patterns = []
    for array in bind_arguments(module.entry, plain):
        number = array.view(f"i{array.itemsize}") if array.dtype != np.bool_ else array
        patterns.append(int(number[0]) & (2**64 - 1))
    return patterns
