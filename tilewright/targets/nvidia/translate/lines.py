"""Which of the user's lines an instruction is from: `.loc` and `.file` directives out of LLVM's metadata.

Of code that was inlined the line in the function itself counts.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from tilewright.targets.nvidia.translate.body import Body

_NODE = re.compile(r"!(\d+) = (?:distinct )?!(DIFile|DILocation|DISubprogram|DILexicalBlockFile)\((.*)\)$")
_NAME = re.compile(r'filename: "(.*?)", directory')
_NUMBER = {key: re.compile(rf"\b{key}: !?(\d+)") for key in ("line", "column", "scope", "file")}
_MARK = ", !dbg !"


class Places:
    """The places of a module.  `directives` are its `.loc` lines, `files` its `.file` lines."""

    def __init__(self, lines: Sequence[str]) -> None:
        self.directives: list[str] = []
        self._nodes = {found[1]: (found[2], found[3]) for found in map(_NODE.match, lines) if found is not None}
        self._files: dict[str, int] = {}
        self._numbers: dict[str, int] = {}
        self._last = -1

    @property
    def files(self) -> list[str]:
        return [f'\t.file\t{number} "{name}"' for name, number in self._files.items()]

    def entered(self, body: Body, line: str) -> str:
        """`line` without its mark, which is noted in the body where it differs from the last one."""
        start = line.rfind(_MARK)
        if start < 0:
            return line
        node = line[start + len(_MARK):]
        number = self._numbers.get(node)
        if number is None:
            number = self._numbers[node] = self._directive(node)
        body.code.append((number,))
        return line[:start]

    def _directive(self, node: str) -> int:
        text = self._nodes[node][1]
        line, column = _found(_NUMBER["line"], text), _found(_NUMBER["column"], text)
        file = self._file(_found(_NUMBER["scope"], text))
        directive = f"\t.loc\t{file} {line} {column}"
        self.directives.append(directive)
        return len(self.directives) - 1

    def _file(self, scope: str) -> int:
        """The number of the file that a scope is in."""
        node = _found(_NUMBER["file"], self._nodes[scope][1])
        name = _found(_NAME, self._nodes[node][1])
        return self._files.setdefault(name, len(self._files) + 1)


def _found(pattern: re.Pattern[str], text: str) -> str:
    found = pattern.search(text)
    if found is None:
        raise KeyError(text)
    group: str = found[1]
    return group
