"""The products of `triton._C.libtriton.nvidia.cublas`, as scripts import them, against float64."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tilewright.compat.cublas import CublasLt

torch = pytest.importorskip("torch")
ROOT = Path(__file__).resolve().parents[2]
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float8_e4m3fn], ids=str)
def test_product_with_the_transpose(dtype) -> None:
    torch.manual_seed(0)
    a, b = (torch.randn(size, 64).to(dtype).to(DEVICE) for size in (32, 48))
    c, d = (torch.ones(32, 48, device=DEVICE).to(torch.float16 if dtype.itemsize == 1 else dtype) for _ in range(2))
    lent = CublasLt(torch.empty(1024, dtype=torch.uint8, device=DEVICE))
    lent.matmul(a, b, c)
    exact = a.double() @ b.double().T
    assert torch.allclose(c.double(), exact, rtol=2e-2, atol=2e-2)
    lent.gemm(a, b, torch.ones_like(d), d, 0.5, 2.0)
    assert torch.allclose(d.double(), 0.5 * exact + 2, rtol=2e-2, atol=3e-2)


def test_where_scripts_look_for_it() -> None:
    code = ("import tilewright.compat; tilewright.compat.install(); from triton._C.libtriton import nvidia; "
            "print(nvidia.cublas.CublasLt.__module__)")
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120,
                            env={**os.environ, "PYTHONPATH": str(ROOT)})
    assert result.stdout.strip() == CublasLt.__module__, result.stderr
