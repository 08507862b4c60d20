"""Reads docs/tutorial.md: which files it makes, which commands it runs in which chapter, and what they print.

A ```python block whose first line is `# name.py` is a file, one without goes on with the last file.  A ```console
block holds commands after `$ `, each with its output below; `...` in an output stands for anything, and what follows
`(Pdb) ` is typed.  Tests: tests/test_tutorial.py runs them all.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path

PAGE = Path(__file__).resolve().parents[1] / "docs" / "tutorial.md"
_BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
_NAME = re.compile(r"# (\w+\.\w+)\n")


@dataclass
class Chapter:
    """A section of the page."""

    title: str
    files: dict[str, str] = field(default_factory=dict)
    commands: list[tuple[str, str]] = field(default_factory=list)       # (command, what it prints)


def chapters(text: str) -> list[Chapter]:
    """The sections of a page, in order."""
    found = []
    for part in re.split(r"^## ", text, flags=re.MULTILINE)[1:]:
        title, _, body = part.partition("\n")
        chapter, current = Chapter(title), ""
        for language, block in _BLOCK.findall(body):
            if language == "console":
                chapter.commands += commands(block)
                continue
            if language != "python":
                raise ValueError(f"{title}: a block of {language} would be run by nobody")
            name = _NAME.match(block)
            current = name[1] if name else current
            if not current:
                raise ValueError(f"{title}: the first block names no file")
            chapter.files[current] = chapter.files.get(current, "") + block
        found.append(chapter)
    return found


def commands(block: str) -> list[tuple[str, str]]:
    """The commands of a console block and their outputs."""
    parts = re.split(r"^\$ (.*)\n", block, flags=re.MULTILINE)
    if parts[0]:
        raise ValueError(f"output before the first command: {parts[0]!r}")
    return list(zip(parts[1::2], parts[2::2]))


def typed(shown: str) -> str:
    """What the page's reader types into the debugger."""
    return "".join(f"{line}\n" for line in re.findall(r"^\(Pdb\) (.*)$", shown, re.MULTILINE))


def matches(shown: str, printed: str) -> bool:
    """Whether `printed` is what the page shows; `...` is any text, also of several lines.

    What was typed is on the page and not in `printed`, as its reader has a terminal and a test has none.
    """
    shown = re.sub(r"^\(Pdb\) .*\n", "(Pdb) ", shown, flags=re.MULTILINE)
    pattern = ".*".join(re.escape(piece) for piece in shown.rstrip().split("..."))
    return re.fullmatch(pattern, printed.rstrip(), re.DOTALL) is not None
