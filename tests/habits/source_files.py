"""The package's source files and their syntax trees, for the checks of this folder."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "tilewright"
FILES = sorted(PACKAGE.rglob("*.py"))


def name_of(path: Path) -> str:
    """The file relative to the repository, as the lists of exceptions name it."""
    return path.relative_to(ROOT).as_posix()


@cache
def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"), str(path))


def code_lines(node: ast.AST) -> int:
    """Lines of a function from `def` to its end, the docstring left out."""
    lines = node.end_lineno - node.lineno + 1
    if ast.get_docstring(node) is not None:
        lines -= node.body[0].end_lineno - node.body[0].lineno + 1
    return lines
