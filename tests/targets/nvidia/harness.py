"""What tests of the NVIDIA target share: kernels lowered for given arguments, compiled, and run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tilewright.interpret import batched
from tilewright.interpret.memory import Memory
from tilewright.ir.node import Module
from tilewright.language.options import Options
from tilewright.lowering import finish, lower
from tilewright.passes import run_passes, standard
from tilewright.runtime.launch import facts_of
from tilewright.targets.base import CodeObject
from tilewright.targets.nvidia import NvidiaTarget
from tilewright.targets.nvidia.capability import capability
from tilewright.targets.nvidia.passes.lay_out import lay_out
from tilewright.targets.nvidia.passes.order import order

# compiles to PTX only: what assembles has tests of its own
SM90 = NvidiaTarget(90, assemble=False)


def tile_ir(kernel: Any, *args: Any, disjoint: bool = True, wide: bool = False, **constants: Any) -> Module:
    """The module of a launch with these arguments, after the standard passes."""
    values, given = kernel.bind(args, constants)
    split = kernel.specializer.split(values)
    signature = kernel.specializer.signature(split.atoms, values, disjoint, wide)
    module = lower(kernel, signature, kernel.options(given)).with_facts(disjoint, wide).module
    return run_passes(module, standard())


def launch_code(kernel: Any, args: Sequence[Any], constants: Mapping[str, Any], target: NvidiaTarget) -> CodeObject:
    """What a launch with these arguments compiles for `target`, with the facts that hold for them."""
    values, given = kernel.bind(args, constants)
    split = kernel.specializer.split(values)
    lowered = lower(kernel, kernel.specializer.signature(split.atoms, values, False, False), kernel.options(given))
    return finish(lowered.with_facts(*facts_of(split.pointers, lowered.written)), target)


def laid_out(module: Module, num_warps: int = 4) -> Module:
    return order(lay_out(module, num_warps, capability(90)))


def compiled(module: Module, num_warps: int = 4, target: NvidiaTarget = SM90) -> CodeObject:
    return target.compile(module, Options(num_warps=num_warps))


def interpret(module: Module, grid: Sequence[int], args: Sequence[Any]) -> None:
    """Run a module, of any stage, in the batched interpreter."""
    arrays = {f"a{k}": a for k, a in enumerate(args) if isinstance(a, np.ndarray)}
    plain = [a.ctypes.data if isinstance(a, np.ndarray) else a for a in args]
    batched.run(module, grid, plain, Memory.of_arrays(arrays))
