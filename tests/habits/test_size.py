"""Files and functions stay small enough to read."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.habits.source_files import FILES, code_lines, name_of, tree_of

MAX_FILE_LINES = 600
MAX_FUNCTION_LINES = 60

# file, or file:function -> why it may be longer
EXCEPTIONS: Mapping[str, str] = {}


@pytest.mark.parametrize("path", FILES, ids=name_of)
def test_file_is_short(path: Path) -> None:
    lines = len(path.read_text(encoding="utf-8").splitlines())
    assert lines <= MAX_FILE_LINES or name_of(path) in EXCEPTIONS, \
        f"{name_of(path)} has {lines} lines, more than {MAX_FILE_LINES}: would you want to live in it?"


@pytest.mark.parametrize("path", FILES, ids=name_of)
def test_functions_are_short(path: Path) -> None:
    long = {f"{name_of(path)}:{node.name}": code_lines(node) for node in ast.walk(tree_of(path))
            if isinstance(node, ast.FunctionDef) and code_lines(node) > MAX_FUNCTION_LINES}
    assert not {name: lines for name, lines in long.items() if name not in EXCEPTIONS}


def test_exceptions_are_needed() -> None:
    """An exception whose reason has gone goes too."""
    sizes = {name_of(path): len(path.read_text(encoding="utf-8").splitlines()) - MAX_FILE_LINES for path in FILES}
    for path in FILES:
        for node in ast.walk(tree_of(path)):
            if isinstance(node, ast.FunctionDef):
                key = f"{name_of(path)}:{node.name}"
                sizes[key] = max(sizes.get(key, 0), code_lines(node) - MAX_FUNCTION_LINES)
    assert [name for name in EXCEPTIONS if sizes.get(name, 0) <= 0] == []
