"""The sample that `make test` takes: fixed, nested, and about as large as asked."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.conftest import PTX, in_sample, is_slow, percentage

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


def suite_of(tmp_path: Path, text: str, *options: str, **environment: str) -> str:
    """What pytest prints of a suite of one file, under this suite's conftest."""
    (tmp_path / "test_x.py").write_text(text)
    (tmp_path / "conftest.py").write_text(Path(__file__).with_name("conftest.py").read_text())
    command = [sys.executable, "-m", "pytest", "-q", "-rs", "-p", "no:cacheprovider", *options, "test_x.py"]
    result = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120,
                            env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[1]), **environment})
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout


def test_what_makes_no_sense_in_checked_mode_is_skipped_there_with_its_reason(tmp_path: Path) -> None:
    text = "import pytest\n@pytest.mark.unchecked('it compiles')\ndef test_x(): pass\ndef test_y(): pass\n"
    assert "2 passed" in suite_of(tmp_path, text, TILEWRIGHT_CHECK="0")
    said = suite_of(tmp_path, text, TILEWRIGHT_CHECK="1")
    assert "1 passed, 1 skipped" in said and "in checked mode: it compiles" in said


def test_traps_are_not_sampled_on_the_slow_engine() -> None:
    """All of them run on the PTX machine; of other tests a few per cent do."""
    def item(path: str, engine: str) -> Any:
        return SimpleNamespace(nodeid=f"{path}::test_x[{engine}]", callspec=SimpleNamespace(params={"launch": engine}))

    assert is_slow(item("tests/lang/test_math.py", PTX))
    assert not is_slow(item("tests/lang/test_traps_tiles.py", PTX))
    assert not is_slow(item("tests/lang/test_math.py", "cpu"))
    assert list(Path(__file__).parent.glob("lang/test_traps_*.py")), "their files are found by this name"


@pytest.mark.parametrize("workers", [[], ["-p", "xdist", "-n", "1"]], ids=["here", "xdist"])
def test_summary_says_how_many(tmp_path: Path, workers: list[str]) -> None:
    text = "import pytest\n@pytest.mark.parametrize('n', range(40))\ndef test_x(n): pass\n"
    said = suite_of(tmp_path, text, *workers, "--sample", "25")
    chosen = sum(in_sample(f"test_x.py::test_x[{n}]", 25) for n in range(40))
    assert f"sample of 25% by hash of the test id: {chosen} of 40 tests" in said and f"{chosen} passed" in said
