"""torch's own compiler goes on working where the alias is installed, as it does without any triton."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
CODE = """
import tilewright.compat
tilewright.compat.install()
import torch
import torch._dynamo, torch._inductor.compile_fx
import torch._inductor.runtime.triton_heuristics, torch._inductor.runtime.triton_helpers
from torch.utils._triton import has_triton, has_triton_package
print(has_triton_package(), has_triton())
f = torch.compile(lambda x: x.sin() + 1, backend="aot_eager")
print(torch.allclose(f(torch.ones(3)), torch.ones(3).sin() + 1))
"""


def test_compiler_of_torch_loads_and_finds_no_backend_yet() -> None:
    pytest.importorskip("torch")
    result = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True, timeout=300,
                            env={**os.environ, "PYTHONPATH": str(ROOT)})
    assert result.returncode == 0, result.stderr
    assert result.stdout == "True False\nTrue\n"
