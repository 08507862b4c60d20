"""Makes docs/differences.md from the marks of the tests that pin each departure from triton (`tests/departures.py`).

    .venv/bin/python -m tools.differences_page > docs/differences.md

The tests are read, not run, so nothing but this repository is needed.  Tests: tests/test_differences.py.
"""

from __future__ import annotations

import ast
import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from tests.departures import TOPICS

ROOT = Path(__file__).resolve().parents[1]
TESTS = ROOT / "tests"

HEAD = """\
# Differences from triton

Tilewright runs the language of triton 3.6 and 3.9. Where the releases differ it does what 3.9 does, and accepts besides
what only 3.6 does. Below is where it departs from both, or from one, on purpose: mostly where triton leaves a result
open, refuses what Python allows, or lets a mistake pass. Each entry is pinned by the tests that it names.

What is not there yet is listed in [README.md](../README.md#what-there-is). Neither promises the last bits of `exp`,
`sin` and the like, nor the order of float sums.

This page is made from the tests: `.venv/bin/python -m tools.differences_page > docs/differences.md`."""


@dataclass
class Departure:
    """One entry of the page, and the tests (file, name) that pin it."""

    title: str
    topic: str = ""
    peer: str = ""
    ours: str = ""
    tests: list[tuple[Path, str]] = field(default_factory=list)


def departures(folder: Path = TESTS) -> list[Departure]:
    """All departures that tests under `folder` pin, by topic, then by the place of the first mark."""
    found: dict[str, Departure] = {}
    for path in sorted(folder.rglob("test_*.py")):
        for name, words in marks(path.read_text(encoding="utf-8")):
            entry = found.setdefault(words["title"], Departure(words["title"]))
            entry.tests.append((path, name))
            if "peer" in words:
                if entry.peer:
                    raise ValueError(f"{path}: {name}: {entry.title!r} is described twice")
                entry.topic, entry.peer, entry.ours = words["topic"], words["peer"], words["ours"]
    for entry in found.values():
        if not entry.peer:
            raise ValueError(f"{entry.tests[0][0]}: {entry.tests[0][1]}: {entry.title!r} is described nowhere")
    return sorted(found.values(), key=lambda d: TOPICS.index(d.topic))


def marks(source: str) -> Iterator[tuple[str, dict[str, str]]]:
    """The name of each marked test of a file, and what its mark says."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef):
            for mark in node.decorator_list:
                if isinstance(mark, ast.Call) and isinstance(mark.func, ast.Name) and mark.func.id == "differs":
                    if not node.name.startswith("test"):
                        raise ValueError(f"{node.name} is marked, and is no test")
                    words = {k.arg or "": ast.literal_eval(k.value) for k in mark.keywords}
                    yield node.name, {"title": ast.literal_eval(mark.args[0]), **words}


def page(folder: Path = TESTS) -> str:
    """docs/differences.md."""
    parts, topic = [HEAD], ""
    for entry in departures(folder):
        if entry.topic != topic:
            topic = entry.topic
            parts.append(f"## {topic}")
        links = ", ".join(f"[{name}]({os.path.relpath(path, ROOT / 'docs')})" for path, name in entry.tests)
        parts.append(f"### {entry.title}\n\n*triton*: {entry.peer}\n\n*Tilewright*: {entry.ours}\n\nTests: {links}.")
    return "\n\n".join(parts) + "\n"


if __name__ == "__main__":
    sys.stdout.write(page())
