"""For those who test and time kernels: `do_bench`, `assert_close`, `perf_report`, `Benchmark`, and names about GPUs."""

from __future__ import annotations

from tilewright.runtime.bench import do_bench, do_bench_cudagraph
from tilewright.testing.compare import assert_close
from tilewright.testing.gpu import (
    cuda_memcheck,
    get_dram_gbps,
    get_max_simd_tflops,
    get_max_tensorcore_tflops,
    nvsmi,
    set_gpu_clock,
)
from tilewright.testing.report import Benchmark, Mark, perf_report

__all__ = ["Benchmark", "Mark", "assert_close", "cuda_memcheck", "do_bench", "do_bench_cudagraph", "get_dram_gbps",
           "get_max_simd_tflops", "get_max_tensorcore_tflops", "nvsmi", "perf_report", "set_gpu_clock"]
