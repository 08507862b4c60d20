"""What README.md shows is true: its first kernel runs, and the error that it shows is the one that comes."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
FIRST = re.search(r"```python\n(.*?)```", README, re.DOTALL)[1]


def run(folder: Path, code: str) -> subprocess.CompletedProcess[str]:
    (folder / "first.py").write_text(code)
    return subprocess.run([sys.executable, "first.py"], cwd=folder, capture_output=True, text=True, timeout=120,
                          env={**os.environ, "PYTHONPATH": str(ROOT)})


def test_first_kernel(tmp_path: Path) -> None:
    result = run(tmp_path, FIRST)
    assert result.returncode == 0, result.stderr


def test_error_message(tmp_path: Path) -> None:
    """The y line with a misspelt name; the lines below the place are as README.md shows them."""
    line = "    y = tl.load(y_ptr + offsets, mask=mask)"
    assert line in FIRST
    result = run(tmp_path, FIRST.replace(line, "    y = tl.load(y_ptr + offsets, mask=offset < n)"))
    shown = re.search(
        r"    tilewright\.diagnostics\.CompilationError: at first\.py:(\d+:\d+)(.*?)\n\n", README, re.DOTALL)
    wanted = [text.removeprefix("    ") for text in shown[2].splitlines()[1:]]
    assert result.returncode == 1
    assert result.stderr.splitlines()[-len(wanted):] == wanted
    assert f"first.py:{shown[1]} in add_kernel:" in result.stderr
