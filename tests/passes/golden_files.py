"""Golden files: IR text before and after, one case a file.

    // passes: fold, dce
    // run: no, it loops for ever           (optional: the case is not executed in the interpreter)
    <module>
    ----
    <what it must become>
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

SEPARATOR = "\n----\n"


@dataclass(frozen=True)
class Golden:
    path: Path
    header: dict[str, str]
    before: str         # the text of the module, without the header
    expected: str | None

    @property
    def id(self) -> str:
        return f"{self.path.parent.name}/{self.path.stem}"


def read(path: Path) -> Golden:
    text = path.read_text(encoding="utf-8")
    head, *rest = text.split(SEPARATOR, 1)
    lines = head.split("\n")
    count = 0
    header = {}
    while count < len(lines) and (found := re.fullmatch(r"// (\w+): (.*)", lines[count])):
        header[found[1]] = found[2]
        count += 1
    return Golden(path, header, "\n".join(lines[count:]), rest[0] if rest else None)


def compare(golden: Golden, actual: str, accept: bool) -> None:
    """Fail unless `actual` is what the file expects; `accept` writes it there."""
    if accept:
        text = golden.path.read_text(encoding="utf-8").split(SEPARATOR, 1)[0].rstrip("\n")
        golden.path.write_text(f"{text}{SEPARATOR}{actual}", encoding="utf-8")
        return
    assert golden.expected is not None, f"{golden.path} expects nothing yet; look at the output and run with --accept"
    assert actual == golden.expected
