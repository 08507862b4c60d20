"""Whole programs on a GPU: the examples, scripts written for triton run unchanged, torch's compiler with kernels."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.compat.test_scripts import SAYS, SCRIPTS
from tests.compat.test_torch_compile import OWN_KERNELS, USER_KERNELS
from tests.compat.test_torch_compile import SCRIPTS as TORCH_SCRIPTS
from tests.test_examples import EXAMPLES

ROOT = Path(__file__).resolve().parents[2]


def run(*command: str, **environment: str) -> str:
    """What a Python program prints that ends well."""
    variables = {**os.environ, "PYTHONPATH": str(ROOT), **environment}
    result = subprocess.run([sys.executable, *command], capture_output=True, text=True, env=variables, timeout=300)
    assert result.returncode == 0, result.stdout + result.stderr[-6000:]
    return result.stdout


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_example(path: Path) -> None:
    said = run(str(path), "--device", "cuda")
    assert said.rstrip().endswith("OK") and "cuda" in said


@pytest.mark.parametrize("interpret", ["0", "1"], ids=["compiled", "interpreted"])
@pytest.mark.parametrize("name", SAYS)
def test_script(name: str, interpret: str) -> None:
    assert SAYS[name] in run("-m", "tilewright", "run", str(SCRIPTS / name), TRITON_INTERPRET=interpret)


@pytest.mark.parametrize("name, says", [("user_kernels", USER_KERNELS), ("own_kernels", OWN_KERNELS)])
def test_torch_compiles(name: str, says: str, tmp_path: Path) -> None:
    said = run("-m", "tilewright", "run", str(TORCH_SCRIPTS / f"{name}.py"), "cuda",
               TORCHINDUCTOR_CACHE_DIR=str(tmp_path), TORCHINDUCTOR_COMPILE_THREADS="2")
    assert said == says


# torch and cuda-bindings ask the driver for functions that it may not have, which is no error of a kernel
API_ERRORS = {"memcheck": ("--report-api-errors", "no"), "racecheck": ()}


@pytest.mark.skipif(shutil.which("compute-sanitizer") is None, reason="compute-sanitizer is not on PATH")
@pytest.mark.parametrize("tool", ["memcheck", "racecheck"])
@pytest.mark.parametrize("path", [p for p in EXAMPLES if "benchmark" not in p.stem], ids=lambda path: path.stem)
def test_compute_sanitizer_finds_nothing(path: Path, tool: str) -> None:
    command = ["compute-sanitizer", "--tool", tool, *API_ERRORS[tool], "--error-exitcode", "9"]
    result = subprocess.run([*command, sys.executable, str(path), "--device", "cuda"], capture_output=True, text=True,
                            timeout=300, env={**os.environ, "PYTHONPATH": str(ROOT)})
    assert result.returncode == 0, result.stdout[-6000:] + result.stderr[-2000:]
    assert "OK" in result.stdout and ("ERROR SUMMARY: 0 errors" in result.stdout or "0 hazards" in result.stdout)
