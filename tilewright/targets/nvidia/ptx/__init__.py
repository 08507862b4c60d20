"""The PTX machine: NumPy executes PTX text, a CTA at a time, and says what is wrong with it.

Covers arithmetic, divergence, memory, warp and CTA synchronisation, atomics, tensor cores (mma.sync, wgmma),
asynchronous copies (cp.async, bulk, tensor), mbarriers, clusters; `opcodes()` lists what has a meaning.  Not seen by
it: ptxas, weak memory order, time.  Tests: tests/targets/nvidia/ptx.
"""

from tilewright.targets.nvidia.ptx.launch import Checks, Pointer, Result, Uninitialised, run
from tilewright.targets.nvidia.ptx.program import not_always_written
from tilewright.targets.nvidia.ptx.report import Counters, Fault, PtxSyntaxError
from tilewright.targets.nvidia.ptx.table import opcodes
from tilewright.targets.nvidia.ptx.tensor_maps import TensorMap

__all__ = [
    "Checks", "Counters", "Fault", "Pointer", "PtxSyntaxError", "Result", "TensorMap", "Uninitialised",
    "not_always_written", "opcodes", "run",
]
