"""What kernels and programs ask about the target: `is_cuda()`, `cuda_capability_geq(9, 0)`, ...

The answers are those of `driver.active`, as in triton; which target a launch uses is decided by its arguments.  A
kernel that asks is kept on disk under the answer (`runtime/key.py`).  Tests: tests/runtime/test_target_info.py.
"""

from __future__ import annotations

from tilewright.runtime.driver import GPUTarget, driver
from tilewright.runtime.sizes import constexpr_function

ASKING = ("current_target", "is_cuda", "is_hip", "cuda_capability_geq")     # names by which sources show that they ask


@constexpr_function
def current_target() -> GPUTarget:
    """The target of the active driver."""
    return driver.active.get_current_target()


@constexpr_function
def is_cuda() -> bool:
    """Whether the active driver is of an NVIDIA GPU."""
    return bool(driver.active.get_current_target().backend == "cuda")


@constexpr_function
def cuda_capability_geq(major: int, minor: int = 0) -> bool:
    """Whether the active driver is of an NVIDIA GPU of this compute capability or a newer one."""
    target = driver.active.get_current_target()
    return bool(target.backend == "cuda" and int(target.arch) >= major * 10 + minor)


@constexpr_function
def is_hip() -> bool:
    """False: AMD GPUs are out of scope."""
    return False


is_hip_cdna3 = is_hip_cdna4 = is_hip_gfx1250 = is_hip

__all__ = ["cuda_capability_geq", "current_target", "is_cuda", "is_hip", "is_hip_cdna3", "is_hip_cdna4",
           "is_hip_gfx1250"]
