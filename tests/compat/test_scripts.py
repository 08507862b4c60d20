"""Scripts as people write them for triton, run unchanged: compiled and interpreted, with `--on cpu` and without."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SCRIPTS = Path(__file__).parent / "scripts"
SAYS = {"vector_add.py": "difference between torch and triton is 0.0", "insists_on_cuda.py": "scaled on",
        "fused_softmax.py": "softmax agrees", "benchmark.py": "copy-performance",
        "square_backward.py": "gradient agrees", "tuned_matmul.py": "matmul agrees"}
NEEDS_CUDA = {"insists_on_cuda.py", "square_backward.py"}
CASES = [(name, True, interpret) for name in SAYS for interpret in (False, True)]
CASES += [(name, False, False) for name in SAYS if name not in NEEDS_CUDA]


def run(name: str, on_cpu: bool, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tilewright", "run", *(["--on", "cpu"] if on_cpu else []), str(SCRIPTS / name)]
    variables = {**os.environ, "PYTHONPATH": str(ROOT), **environment}
    return subprocess.run(command, capture_output=True, text=True, env=variables, timeout=300)


@pytest.fixture(autouse=True)
def needs_torch() -> None:
    pytest.importorskip("torch")


def test_all_scripts_are_here() -> None:
    assert {path.name for path in SCRIPTS.glob("*.py")} == set(SAYS)


def describe(case: tuple[str, bool, bool]) -> str:
    name, on_cpu, interpret = case
    return f"{name[:-3]}{'-on-cpu' if on_cpu else ''}-{'interpreted' if interpret else 'compiled'}"


@pytest.mark.parametrize("case", CASES, ids=describe)
def test_script_runs_unchanged(case: tuple[str, bool, bool]) -> None:
    name, on_cpu, interpret = case
    result = run(name, on_cpu, TRITON_INTERPRET=str(int(interpret)))
    assert result.returncode == 0, result.stderr
    assert SAYS[name] in result.stdout


@pytest.mark.parametrize("name", sorted(NEEDS_CUDA))
def test_without_on_cpu_the_script_refuses(name: str) -> None:
    """What `--on cpu` is for: the same script as it is ends where it asks for CUDA."""
    torch = pytest.importorskip("torch")
    if torch.cuda.is_available():
        pytest.skip("this machine has a GPU")
    assert run(name, on_cpu=False).returncode != 0
