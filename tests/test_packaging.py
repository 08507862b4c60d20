"""What is installed, what importing it loads, and that nothing in it belongs to one machine."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tilewright.version import VERSION

ROOT = Path(__file__).resolve().parents[1]


def python(code: str) -> str:
    """What `code` prints in a fresh interpreter that has the package on its path."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment, timeout=120)
    assert result.returncode == 0, result.stderr
    return result.stdout.strip()


@pytest.mark.parametrize("module", ["torch", "llvmlite", "cuda", "matplotlib", "pandas", "pytest", "triton"])
def test_import_leaves_alone(module: str) -> None:
    """Importing and decorating load NumPy only; LLVM comes with the first compilation, torch with those who use it."""
    code = ("import sys, tilewright as triton, tilewright.language as tl\n"
            f"print({module!r} in sys.modules)")
    assert python(code) == "False"


def test_dependencies_are_numpy_and_llvmlite() -> None:
    text = (ROOT / "pyproject.toml").read_text()
    names = re.findall(r'"([a-z]+)', re.search(r"^dependencies = \[(.*)\]$", text, re.MULTILINE)[1])
    assert names == ["numpy", "llvmlite"]


def test_changelog_knows_the_version() -> None:
    assert f"## {VERSION}" in (ROOT / "CHANGELOG.md").read_text()


def tracked_files() -> list[Path]:
    try:
        listed = subprocess.run(["git", "-C", str(ROOT), "ls-files", "-z"], capture_output=True, check=True, timeout=60)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("not a git checkout: the files of the project are not known")
    return [ROOT / name for name in listed.stdout.decode().split("\0") if name]


def test_no_path_of_this_machine() -> None:
    """No file names a place on the machine where it was written."""
    places = {str(ROOT), str(Path.home()), sys.prefix} - {"/", "/usr", "/usr/local", "/root"}
    found = [f"{path.relative_to(ROOT)}: {place}" for path in tracked_files() if path.is_file()
             for place in places if re.search(re.escape(place) + r"(?![\w-])", path.read_text(encoding="utf-8"))]
    assert found == []


def test_shadow_tree_is_package_data() -> None:
    """The tree that stands for `triton` is no subpackage, so the build has to be told of it."""
    files = [p for p in (ROOT / "tilewright/compat/shadow").rglob("*") if p.suffix in (".py", "") and p.is_file()]
    assert len(files) > 10
    assert '"tilewright.compat" = ["shadow/**/*"]' in (ROOT / "pyproject.toml").read_text()
