"""For those who test and time kernels: `do_bench`, `assert_close`, `perf_report`, `Benchmark`."""

from __future__ import annotations

from tilewright.runtime.bench import do_bench
from tilewright.testing.compare import assert_close
from tilewright.testing.report import Benchmark, Mark, perf_report

__all__ = ["Benchmark", "Mark", "assert_close", "do_bench", "perf_report"]
