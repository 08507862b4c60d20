"""`tilewright run`: a script runs as `python script` would, with `triton` being Tilewright."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def run(*arguments: str, cwd: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tilewright", "run", *arguments]
    variables = {**os.environ, "PYTHONPATH": str(ROOT), **environment}
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, env=variables, timeout=120)


def script(folder: Path, text: str, name: str = "script.py") -> str:
    (folder / name).write_text(text)
    return name


def test_script_is_main_and_gets_its_arguments(tmp_path: Path) -> None:
    (tmp_path / "neighbour.py").write_text("VALUE = 42\n")
    name = script(tmp_path, """
import os, pickle, sys
import neighbour
class Thing: pass
assert isinstance(pickle.loads(pickle.dumps(Thing())), Thing)
assert sys.modules["__main__"].__dict__ is globals()
print(__name__, sys.argv, neighbour.VALUE, os.path.basename(__file__))
""")
    result = run(name, "--on", "-m", "x", cwd=tmp_path)
    assert result.stdout == f"__main__ {[name, '--on', '-m', 'x']} 42 script.py\n", result.stderr


def test_triton_is_tilewright_even_where_another_lies(tmp_path: Path) -> None:
    (tmp_path / "triton").mkdir()
    (tmp_path / "triton" / "__init__.py").write_text("raise ImportError('the wrong one')\n")
    name = script(tmp_path,
                  "import triton, tilewright\nassert triton.jit is tilewright.jit\nprint(triton.__version__)\n")
    result = run(name, cwd=tmp_path)
    assert result.stdout == "3.6.0\n", result.stderr


def test_traceback_begins_in_the_script(tmp_path: Path) -> None:
    name = script(tmp_path, "def f():\n    raise KeyError('lost')\nf()\n")
    result = run(name, cwd=tmp_path)
    assert result.returncode == 1
    lines = result.stderr.splitlines()
    assert lines[0] == "Traceback (most recent call last):" and 'script.py", line 3, in <module>' in lines[1]
    assert lines[-1] == "KeyError: 'lost'" and "tilewright" not in result.stderr.replace(str(tmp_path), "")


def test_syntax_error_is_the_scripts(tmp_path: Path) -> None:
    result = run(script(tmp_path, "x = = 1\n"), cwd=tmp_path)
    assert result.returncode == 1 and 'script.py", line 1' in result.stderr and "SyntaxError" in result.stderr
    assert "exec(" not in result.stderr


@pytest.mark.parametrize(("end", "status"), [("sys.exit(3)", 3), ("sys.exit()", 0), ("sys.exit('bad')", 1), ("", 0)])
def test_exit_status(end: str, status: int, tmp_path: Path) -> None:
    assert run(script(tmp_path, f"import sys\n{end}\n"), cwd=tmp_path).returncode == status


def test_missing_script(tmp_path: Path) -> None:
    result = run("nowhere.py", cwd=tmp_path)
    assert result.returncode == 2 and "cannot open nowhere.py: No such file" in result.stderr


def test_no_script(tmp_path: Path) -> None:
    result = run(cwd=tmp_path)
    assert result.returncode == 2 and "which script?" in result.stderr


def test_module(tmp_path: Path) -> None:
    script(tmp_path, "import sys, triton\nprint(__name__, sys.argv[1:], triton.__version__)\n", "tool.py")
    result = run("-m", "tool", "--flag", "1", cwd=tmp_path)
    assert result.stdout == "__main__ ['--flag', '1'] 3.6.0\n", result.stderr


def test_processes_of_multiprocessing_see_the_alias(tmp_path: Path) -> None:
    name = script(tmp_path, """
import multiprocessing
import triton
def version(n): return triton.__version__, n
if __name__ == "__main__":
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        print(pool.map(version, [1, 2]))
""")
    result = run(name, cwd=tmp_path)
    assert result.stdout == "[('3.6.0', 1), ('3.6.0', 2)]\n", result.stderr


def test_on_cpu(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    name = script(tmp_path, """
import torch, triton
DEVICE = triton.runtime.driver.active.get_active_torch_device()
assert torch.cuda.is_available() and DEVICE == torch.device("cuda:0")
print(torch.ones(3, device="cuda").is_cuda, torch.arange(3, device=DEVICE).sum().item())
""")
    result = run("--on", "cpu", name, cwd=tmp_path)
    assert result.stdout == "True 3\n", result.stderr


WITHOUT_TORCH = "import sys\nsys.modules['torch'] = None\n"


def test_on_cpu_without_torch(tmp_path: Path) -> None:
    """A program of NumPy arrays runs; one that imports torch says that itself."""
    (tmp_path / "sitecustomize.py").write_text(WITHOUT_TORCH)
    path = f"{tmp_path}{os.pathsep}{ROOT}"
    plain = run("--on", "cpu", script(tmp_path, "import triton, numpy\nprint('ran')\n"), cwd=tmp_path, PYTHONPATH=path)
    assert (plain.returncode, plain.stdout) == (0, "ran\n"), plain.stderr
    asks = run("--on", "cpu", script(tmp_path, "import torch\n"), cwd=tmp_path, PYTHONPATH=path)
    assert asks.returncode == 1 and "ModuleNotFoundError: import of torch halted" in asks.stderr


def test_a_program_for_cuda_gets_a_hint(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    if torch.cuda.is_available():
        pytest.skip("this machine has CUDA")
    result = run(script(tmp_path, "import torch\ntorch.ones(3, device='cuda')\n"), cwd=tmp_path)
    assert result.returncode == 1 and "tilewright run --on cpu SCRIPT" in result.stderr.splitlines()[-1]
    other = run(script(tmp_path, "import torch\nraise ValueError('cuda')\n"), cwd=tmp_path)
    assert other.stderr.splitlines()[-1] == "ValueError: cuda"
