"""docs/tutorial.md is true: each of its files runs, and prints what the page shows."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import tutorial

ROOT = Path(__file__).resolve().parents[1]
CHAPTERS = tutorial.chapters(tutorial.PAGE.read_text(encoding="utf-8"))
PROGRAMS = {"python": [sys.executable], "tilewright": [sys.executable, "-m", "tilewright"]}


def run(command: str, folder: Path, stdin: str = "") -> str:
    """What a command of the page prints; there is no shell: variables, a program, arguments."""
    words = shlex.split(command)
    variables = {"PYTHONPATH": str(ROOT)}
    while "=" in words[0]:
        name, _, value = words.pop(0).partition("=")
        variables[name] = value
    done = subprocess.run([*PROGRAMS[words[0]], *words[1:]], cwd=folder, env={**os.environ, **variables}, input=stdin,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=300)
    return done.stdout


def cases() -> Iterator[object]:
    for number, chapter in enumerate(CHAPTERS):
        if chapter.commands:
            yield pytest.param(number, id=chapter.title)


@pytest.mark.parametrize("number", list(cases()))
def test_chapter(number: int, tmp_path: Path) -> None:
    chapter = CHAPTERS[number]
    if any("import torch" in text for text in chapter.files.values()):
        pytest.importorskip("torch")
    for earlier in CHAPTERS[:number + 1]:
        for name, text in earlier.files.items():
            (tmp_path / name).write_text(text)
    for command, shown in chapter.commands:
        printed = run(command, tmp_path, tutorial.typed(shown))
        assert tutorial.matches(shown, printed), f"$ {command}\n{printed}"


def test_every_file_is_run() -> None:
    for chapter in CHAPTERS:
        commands = " ".join(command for command, _ in chapter.commands).split()
        assert set(chapter.files) <= {word for word in commands if word.endswith(".py")}


PART = "## One\n\n```python\n# a.py\nx = 1\n```\n\n```python\nprint(x)\n```\n\n```console\n$ python a.py\n1\n```\n"


def test_blocks_go_on_with_their_file(tmp_path: Path) -> None:
    (chapter,) = tutorial.chapters(PART)
    assert chapter.files == {"a.py": "# a.py\nx = 1\nprint(x)\n"} and chapter.commands == [("python a.py", "1\n")]
    (tmp_path / "a.py").write_text(chapter.files["a.py"])
    assert run("python a.py", tmp_path) == "1\n"


@pytest.mark.parametrize(("text", "words"), [
    ("## A\n```python\nx = 1\n```\n", "names no file"), ("## A\n```sh\nls\n```\n", "run by nobody"),
    ("## A\n```console\n1\n$ python a.py\n```\n", "output before the first command")])
def test_a_page_that_cannot_be_run(text: str, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        tutorial.chapters(text)


@pytest.mark.parametrize(("shown", "printed", "same"), [
    ("a\nb\n", "a\nb\n", True), ("a ...\n", "a 1\n2\n", True), ("a\n", "a\nb\n", False), ("a.c", "abc", False),
    ("...b\n", "a\nb\n", True), ("> k\n(Pdb) x\n1\n(Pdb) c\n", "> k\n(Pdb) 1\n(Pdb) ", True)])
def test_outputs_are_compared(shown: str, printed: str, same: bool) -> None:
    assert tutorial.matches(shown, printed) == same
