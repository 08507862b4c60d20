"""Names of `triton.testing` that ask about, or set, an NVIDIA GPU.

Peak rates are computed from the clocks that the driver tells and from what a multiprocessor of the generation does in
a clock (NVIDIA's architecture white papers).  Without a GPU the names can be imported, and say so when called.
Tests: tests/testing/test_gpu.py.
"""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from types import MappingProxyType
from typing import Any, NoReturn

from tilewright.runtime.arguments import element_of_dtype
from tilewright.runtime.driver import CudaDriver, driver, gpu

# Dense products and sums of a multiprocessor in a clock, for 16-bit floats, by capability; other types by ratio.
_TENSOR_OPS: Mapping[int, int] = MappingProxyType({70: 1024, 75: 1024, 80: 2048, 86: 1024, 89: 1024, 90: 4096,
                                                   100: 8192, 120: 1024})
_TENSOR_RATIO: Mapping[str, float] = MappingProxyType({"fp32": 0.5, "fp16": 1, "bf16": 1, "int8": 2, "fp8e4nv": 2,
                                                       "fp8e5": 2})
_SIMD_OPS: Mapping[int, int] = MappingProxyType({70: 128, 75: 128, 80: 128, 86: 256, 89: 256, 90: 256, 100: 256,
                                                 120: 256})


def _no_gpu(name: str, instead: str) -> NoReturn:
    raise RuntimeError(f"triton.testing.{name} is about NVIDIA GPUs, and kernels run on the CPU here; {instead}")


def _device(name: str, device: Any, instead: str) -> Any:
    """The GPU that is asked about; RuntimeError where there is none."""
    if not isinstance(driver.active, CudaDriver):
        _no_gpu(name, instead)
    index = getattr(device, "index", device)
    return gpu(driver.active.get_current_device() if index is None else int(index))


def _generation(table: Mapping[int, int], capability: int) -> int:
    """The row of the newest generation that is not newer."""
    return table[max(c for c in table if c <= max(capability, min(table)))]


def get_dram_gbps(device: Any = None) -> float:
    """The peak bandwidth of a GPU's memory in GB/s: two transfers a clock on each bit of the bus."""
    limits = _device("get_dram_gbps", device, "time a large copy with triton.testing.do_bench to know what memory can "
                                              "do").limits
    return float(limits.memory_clock_khz * 2 * limits.memory_bus_bits / 8 / 1e6)


def get_max_tensorcore_tflops(dtype: Any, clock_rate: float, device: Any = None) -> float:
    """The peak rate of a GPU's matrix units for operands of `dtype` at `clock_rate` kHz."""
    found = _device("get_max_tensorcore_tflops", device, "time a large matrix product with triton.testing.do_bench "
                                                         "instead")
    ratio = _TENSOR_RATIO.get(_short(dtype))
    if ratio is None:
        raise ValueError(f"the matrix units have no peak for {dtype}; known are {', '.join(_TENSOR_RATIO)}")
    ops = _generation(_TENSOR_OPS, found.capability)
    return float(found.limits.multiprocessors * ops * ratio * clock_rate * 1e-9)


def get_max_simd_tflops(dtype: Any, clock_rate: float, device: Any = None) -> float:
    """The peak rate of a GPU's plain arithmetic on `dtype` at `clock_rate` kHz."""
    found = _device("get_max_simd_tflops", device, "time a large matrix product with triton.testing.do_bench instead")
    ratio = {"fp32": 1, "fp16": 2, "bf16": 2}.get(_short(dtype))
    if ratio is None:
        raise ValueError(f"no peak of plain arithmetic is known for {dtype}; there are fp32, fp16, bf16")
    return float(found.limits.multiprocessors * _generation(_SIMD_OPS, found.capability) * ratio * clock_rate * 1e-9)


def _short(dtype: Any) -> str:
    """The language's name of a dtype, also of torch's."""
    name = element_of_dtype(dtype)[0]
    return {"i8": "int8"}.get(name, name)


def nvsmi(attrs: Sequence[str]) -> list[int]:
    """Numbers that `nvidia-smi --query-gpu` knows of the first GPU."""
    _device("nvsmi", None, "leave the call out")
    command = ["nvidia-smi", "-i", "0", f"--query-gpu={','.join(attrs)}", "--format=csv,noheader,nounits"]
    return [int(x) for x in subprocess.run(command, capture_output=True, text=True, check=True).stdout.split(",")]


def set_gpu_clock(ref_sm_clock: int = 1350, ref_mem_clock: int = 1215) -> AbstractContextManager[tuple[float, float]]:
    """A context in which a GPU's clocks (MHz) are fixed, which needs the rights to; gives its TFLOP/s and GB/s."""
    _device("set_gpu_clock", None, "leave the `with` out")
    return _fixed_clocks(ref_sm_clock, ref_mem_clock)


@contextmanager
def _fixed_clocks(ref_sm_clock: int, ref_mem_clock: int) -> Iterator[tuple[float, float]]:
    def smi(*args: str) -> None:
        subprocess.run(["nvidia-smi", "-i", "0", *args], capture_output=True, check=True)

    try:
        smi("-pm", "1")
        smi(f"--lock-gpu-clocks={ref_sm_clock},{ref_sm_clock}")
        smi(f"--lock-memory-clocks={ref_mem_clock},{ref_mem_clock}")
        yield get_max_tensorcore_tflops("float16", ref_sm_clock * 1e3), get_dram_gbps()
    finally:
        smi("-rgc")
        smi("-rmc")
        smi("-pm", "0")


def cuda_memcheck(**target_kwargs: Any) -> Callable[[Any], Any]:
    """A decorator of tests that triton runs again under CUDA's memory checker.

    Refused: on a CPU accesses are tested against the extents of tensors anyway; on a GPU run
    `compute-sanitizer python -m pytest ...`.
    """
    raise RuntimeError("triton.testing.cuda_memcheck is about NVIDIA GPUs alone; on the CPU accesses are tested "
                       "against the extents of tensors anyway, see check_bounds in docs/knobs.md; for a GPU, run "
                       "compute-sanitizer python -m pytest ...")
