"""Products of matrices by cuBLAS, as scripts written for triton ask for them to compare their kernels with.

triton's extension module has `nvidia.cublas.CublasLt`; here torch, which brings cuBLAS along, makes the calls.  The
second matrix is given transposed.  On the CPU torch's own product stands in.
Tests: tests/compat/test_cublas.py.
"""

from __future__ import annotations

import importlib
from typing import Any


class CublasLt:
    """Products of torch matrices of fp16, bf16, fp32 or, on GPUs that have such products, fp8."""

    def __init__(self, workspace: Any) -> None:
        """`workspace` is memory that triton's lends to cuBLAS; torch has its own."""

    def matmul(self, a: Any, b: Any, c: Any) -> None:
        """`c` (M, N) becomes `a` (M, K) times the transpose of `b` (N, K)."""
        c.copy_(_product(a, b, c.dtype))

    def gemm(self, a: Any, b: Any, c: Any, d: Any, alpha: float, beta: float) -> None:
        """`d` (M, N) becomes alpha * `a` (M, K) times the transpose of `b` (N, K), plus beta * `c` (M, N)."""
        torch = importlib.import_module("torch")
        d.copy_(alpha * _product(a, b, torch.float32 if a.itemsize == 1 else a.dtype) + beta * c)


def _product(a: Any, b: Any, dtype: Any) -> Any:
    """a @ b.T; torch has no product of fp8 numbers but one with scales, and none on the CPU."""
    torch = importlib.import_module("torch")
    if a.itemsize > 1:
        return torch.matmul(a, b.T)
    if not a.is_cuda:
        return torch.matmul(a.float(), b.float().T)
    one = torch.ones((), device=a.device)
    return torch._scaled_mm(a, b.T, one, one, out_dtype=dtype)
