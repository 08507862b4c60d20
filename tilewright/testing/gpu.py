"""Names of `triton.testing` that ask about, or set, an NVIDIA GPU.

Kernels run on CPUs in this version, so there is no GPU to ask: a program may import the names, and is told when it
calls one.  Tests: tests/testing/test_gpu.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NoReturn


def _no_gpu(name: str, instead: str) -> NoReturn:
    raise RuntimeError(f"triton.testing.{name} is about NVIDIA GPUs, and kernels run on the CPU here; {instead}")


def get_dram_gbps(device: Any = None) -> float:
    """The peak bandwidth of a GPU's memory in GB/s."""
    _no_gpu("get_dram_gbps", "time a large copy with triton.testing.do_bench to know what memory can do")


def get_max_tensorcore_tflops(dtype: Any, clock_rate: float, device: Any = None) -> float:
    """The peak rate of a GPU's matrix units."""
    _no_gpu("get_max_tensorcore_tflops", "time a large matrix product with triton.testing.do_bench instead")


def get_max_simd_tflops(dtype: Any, clock_rate: float, device: Any = None) -> float:
    """The peak rate of a GPU's plain arithmetic."""
    _no_gpu("get_max_simd_tflops", "time a large matrix product with triton.testing.do_bench instead")


def nvsmi(attrs: Sequence[str]) -> list[int]:
    """Numbers that `nvidia-smi` knows."""
    _no_gpu("nvsmi", "leave the call out")


def set_gpu_clock(ref_sm_clock: int = 1350, ref_mem_clock: int = 1215) -> Any:
    """A context in which a GPU's clocks are fixed."""
    _no_gpu("set_gpu_clock", "leave the `with` out")


def cuda_memcheck(**target_kwargs: Any) -> Any:
    """A decorator of tests that run under CUDA's memory checker."""
    _no_gpu("cuda_memcheck", "accesses are tested against the extents of tensors anyway, see check_bounds in "
                             "docs/knobs.md")
