"""What a program may ask of a GPU, checked before code is generated or assembled.

Tests: tests/targets/nvidia/.
"""

from __future__ import annotations

from tilewright.diagnostics import CompilationError, OutOfResources
from tilewright.language.options import Options
from tilewright.targets.nvidia.capability import Capability

MAX_WARPS = 32      # 1024 threads a block (CUDA C++ Programming Guide, technical specifications)


def check_options(options: Options) -> None:
    """Raise `CompilationError` for options that no NVIDIA GPU has."""
    warps = options.num_warps
    if not 1 <= warps <= MAX_WARPS or warps & warps - 1:
        raise CompilationError(f"num_warps is a power of two from 1 to {MAX_WARPS}, not {warps}")
    if options.num_ctas != 1:
        raise CompilationError(f"num_ctas={options.num_ctas}: programs of several blocks are not compiled for NVIDIA "
                               "GPUs yet; leave num_ctas at 1")


def check_shared(required: int, capability: Capability) -> None:
    """Raise `OutOfResources` if a program needs more shared memory than it may have."""
    if required > capability.shared_bytes:
        raise OutOfResources(required, capability.shared_bytes, "shared memory")
