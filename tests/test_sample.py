"""The sample that `make test` takes: fixed, nested, and about as large as asked."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import in_sample, percentage

IDS = [f"tests/lang/test_{n % 7}.py::test_case[{n}]" for n in range(2000)]


def test_sample_is_about_as_large_as_asked() -> None:
    assert 800 < sum(in_sample(i, 50) for i in IDS) < 1200
    assert 50 < sum(in_sample(i, 5) for i in IDS) < 150
    assert all(in_sample(i, 100) for i in IDS)


def test_larger_sample_contains_the_smaller() -> None:
    assert {i for i in IDS if in_sample(i, 10)} <= {i for i in IDS if in_sample(i, 30)}


def test_percentage() -> None:
    assert percentage("12.5") == 12.5 and percentage("25%") == 25
    for wrong in ("0", "101", "-1", "half"):
        with pytest.raises(ValueError):
            percentage(wrong)


@pytest.mark.parametrize("workers", [[], ["-p", "xdist", "-n", "1"]], ids=["here", "xdist"])
def test_summary_says_how_many(tmp_path: Path, workers: list[str]) -> None:
    (tmp_path / "test_x.py").write_text(
        "import pytest\n@pytest.mark.parametrize('n', range(40))\ndef test_x(n): pass\n")
    (tmp_path / "conftest.py").write_text(Path(__file__).with_name("conftest.py").read_text())
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *workers, "--sample", "25", "test_x.py"]
    result = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120,
                            env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])})
    chosen = sum(in_sample(f"test_x.py::test_x[{n}]", 25) for n in range(40))
    assert result.returncode == 0, result.stdout + result.stderr
    assert f"sample of 25% by hash of the test id: {chosen} of 40 tests" in result.stdout
    assert f"{chosen} passed" in result.stdout
