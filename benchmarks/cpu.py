"""How fast is compiled CPU code beside NumPy and torch?  Prints a table of times and ratios.

Everything runs in one process on the same arrays.  Ours and the rival take turns, so that whatever else the machine
does falls on both; the median of the turns counts.  A result that differs from the rival's ends the run.
How to read it, and what was measured: docs/performance.md.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import platform
import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

import tilewright as triton
import tilewright.language as tl


@triton.jit
def add_kernel(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    x = tl.load(x_ptr + offsets, mask=mask)
    y = tl.load(y_ptr + offsets, mask=mask)
    tl.store(out_ptr + offsets, x + y, mask=mask)


@triton.jit
def softmax_kernel(x_ptr, out_ptr, columns, BLOCK: tl.constexpr):
    column = tl.arange(0, BLOCK)
    mask = column < columns
    row = tl.program_id(0) * columns
    x = tl.load(x_ptr + row + column, mask=mask, other=float("-inf"))
    numerator = tl.exp(x - tl.max(x, axis=0))
    tl.store(out_ptr + row + column, numerator / tl.sum(numerator, axis=0), mask=mask)


@triton.jit
def matmul_kernel(a_ptr, b_ptr, c_ptr, M, N, K, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr):
    m = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    n = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    k = tl.arange(0, BLOCK_K)
    accumulator = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for start in range(0, K, BLOCK_K):
        a = tl.load(a_ptr + m[:, None] * K + (start + k)[None, :], mask=(m[:, None] < M) & ((start + k)[None, :] < K))
        b = tl.load(b_ptr + (start + k)[:, None] * N + n[None, :], mask=((start + k)[:, None] < K) & (n[None, :] < N))
        accumulator = tl.dot(a, b, accumulator, input_precision="ieee")
    tl.store(c_ptr + m[:, None] * N + n[None, :], accumulator, mask=(m[:, None] < M) & (n[None, :] < N))


@dataclass(frozen=True)
class Case:
    """One row of the table: two functions that fill two arrays with the same numbers."""

    name: str
    rival: str
    ours: Callable[[], object]
    theirs: Callable[[], object]
    result: np.ndarray
    expected: np.ndarray
    tolerance: float


def vector_add(n: int = 1 << 24) -> Case:
    x, y = np.random.default_rng(0).standard_normal((2, n), dtype=np.float32)
    out, wanted = np.empty_like(x), np.empty_like(x)
    block = 4096
    return Case("vector add, 16M float32", "numpy.add(x, y, out)",
                lambda: add_kernel[(triton.cdiv(n, block),)](x, y, out, n, BLOCK=block),
                lambda: np.add(x, y, out=wanted), out, wanted, 0.0)


def softmax(rows: int = 1024, columns: int = 1024) -> Case:
    import torch
    x = np.random.default_rng(1).standard_normal((rows, columns), dtype=np.float32)
    out, wanted = np.empty_like(x), torch.empty(rows, columns)
    tensor = torch.from_numpy(x)
    return Case("softmax, 1024 x 1024 float32", "torch.softmax(x, 1, out)",
                lambda: softmax_kernel[(rows,)](x, out, columns, BLOCK=triton.next_power_of_2(columns)),
                lambda: torch.softmax(tensor, 1, out=wanted), out, wanted.numpy(), 1e-6)


def matmul(size: int = 512) -> Case:
    a, b = np.random.default_rng(2).standard_normal((2, size, size), dtype=np.float32)
    out, wanted = np.empty_like(a), np.empty_like(a)
    grid = (triton.cdiv(size, 64), triton.cdiv(size, 64))
    return Case("matmul, 512 x 512 x 512 float32", "numpy.matmul(a, b, out)",
                lambda: matmul_kernel[grid](a, b, out, size, size, size, BLOCK_M=64, BLOCK_N=64, BLOCK_K=32),
                lambda: np.matmul(a, b, out=wanted), out, wanted, 1e-5)


def cases() -> Iterator[Case]:
    yield vector_add()
    if importlib.util.find_spec("torch") is None:
        print("softmax: SKIPPED (needs torch: it is the rival)")
    else:
        yield softmax()
    yield matmul()


def milliseconds(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return (time.perf_counter() - start) * 1e3


def measure(case: Case, turns: int) -> tuple[float, float]:
    """Median milliseconds of ours and theirs, measured in turns, after the results were compared."""
    case.ours()
    case.theirs()
    error = np.max(np.abs(case.result - case.expected))
    if not error <= case.tolerance * np.max(np.abs(case.expected)):
        raise SystemExit(f"{case.name}: WRONG, the results differ by {error:.2e}")
    times = [(milliseconds(case.ours), milliseconds(case.theirs)) for _ in range(turns)]
    return statistics.median(t[0] for t in times), statistics.median(t[1] for t in times)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--turns", type=int, default=25, help="how often each is measured (default 25)")
    turns = parser.parse_args().turns
    print(f"{platform.processor() or platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}, "
          f"NumPy {np.__version__}")
    print(f"{'':34}{'ours':>10}{'rival':>10}{'ratio':>8}   rival")
    for case in cases():
        ours, theirs = measure(case, turns)
        print(f"{case.name:34}{ours:>7.2f} ms{theirs:>7.2f} ms{ours / theirs:>8.2f}   {case.rival}")
    print("ratio: time of ours over time of the rival, medians of turns taken one after the other; below 1 is faster")


if __name__ == "__main__":
    main()
