"""Every example runs, says OK, has help, and is plain about what it cannot do here."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
EXAMPLES = sorted((ROOT / "examples").glob("[0-9][0-9]_*.py"))
NEEDS_TORCH = {"08_square_autograd.py"}
MEASURES = "07_benchmark.py"


def run(path: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    variables = {**os.environ, "PYTHONPATH": str(ROOT), **environment}
    return subprocess.run([sys.executable, str(path), *arguments], capture_output=True, text=True, env=variables,
                          timeout=300)


def without_torch(folder: Path) -> dict[str, str]:
    """An environment in which torch is not installed."""
    (folder / "sitecustomize.py").write_text("import sys\nsys.modules['torch'] = None\n")
    return {"PYTHONPATH": f"{folder}{os.pathsep}{ROOT}"}


def test_there_are_eight() -> None:
    assert [path.name[:2] for path in EXAMPLES] == [f"{n:02}" for n in range(1, 9)]


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_example_is_ok(path: Path, tmp_path: Path) -> None:
    """On NumPy arrays without torch; the one about torch with it."""
    if path.name in NEEDS_TORCH:
        pytest.importorskip("torch")
    result = run(path, "--device", "cpu", **({} if path.name in NEEDS_TORCH else without_torch(tmp_path)))
    assert result.returncode == 0, result.stdout + result.stderr
    assert result.stdout.rstrip().endswith("OK")


@pytest.mark.parametrize("path", [path for path in EXAMPLES if path.name != MEASURES], ids=lambda path: path.stem)
def test_checked_mode_finds_nothing(path: Path, tmp_path: Path) -> None:
    if path.name in NEEDS_TORCH:
        pytest.importorskip("torch")
    elsewhere = {} if path.name in NEEDS_TORCH else without_torch(tmp_path)
    result = run(path, "--device", "cpu", TILEWRIGHT_CHECK="1", **elsewhere)
    assert result.returncode == 0 and result.stdout.rstrip().endswith("OK"), result.stdout + result.stderr


def test_checked_mode_finds_nothing_in_the_measurement(tmp_path: Path) -> None:
    """On short vectors: checked mode needs a minute for those that the example measures."""
    code = (f"import importlib, sys; sys.path.insert(0, 'examples'); sys.argv = [{MEASURES!r}, '--device', 'cpu']\n"
            f"example = importlib.import_module({MEASURES.removesuffix('.py')!r}); example.SIZES = [4096, 5000]\n"
            "example.main()\n")
    variables = {**os.environ, **without_torch(tmp_path), "TILEWRIGHT_CHECK": "1"}
    result = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, env=variables,
                            timeout=300)
    assert result.returncode == 0 and result.stdout.rstrip().endswith("OK"), result.stdout + result.stderr


@pytest.mark.parametrize("name", sorted(NEEDS_TORCH))
def test_example_without_torch_says_why_it_is_skipped(name: str, tmp_path: Path) -> None:
    result = run(ROOT / "examples" / name, **without_torch(tmp_path))
    assert result.returncode == 0 and result.stdout.startswith("SKIPPED (needs torch: "), result.stderr


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_help_explains(path: Path) -> None:
    result = run(path, "--help")
    assert result.returncode == 0 and "--device {auto,cpu,cuda}" in result.stdout
    assert len(result.stdout) > 500, "the docstring is the explanation"


def test_run_all_explains_itself_and_runs_nothing_for_help() -> None:
    result = run(ROOT / "examples" / "run_all.py", "--help")
    assert result.returncode == 0 and "Run every example" in result.stdout and "==" not in result.stdout


def test_cuda_is_refused_where_there_is_none() -> None:
    result = run(EXAMPLES[0], "--device", "cuda", CUDA_VISIBLE_DEVICES="")
    assert result.returncode == 2 and "--device cuda needs" in result.stderr


def test_a_wrong_answer_is_no_ok(tmp_path: Path) -> None:
    """The check at the end of an example fails for a wrong number and for NaN."""
    code = ("import sys; sys.path.insert(0, 'examples')\nimport numpy as np\nfrom setting import Setting\n"
            "wrong = np.ones(4, np.float32); wrong[2] = float(sys.argv[1])\n"
            "Setting('cpu').check('sum', wrong, np.ones(4), tolerance=1e-6)\n")
    for value, status in (("1", 0), ("1.5", 1), ("nan", 1)):
        command = [sys.executable, "-c", code, value]
        result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60)
        assert result.returncode == status and ("OK" in result.stdout) == (status == 0)
