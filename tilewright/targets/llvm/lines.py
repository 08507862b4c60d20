"""Which of the user's lines an instruction is from, as metadata of LLVM text, from which LLVM makes DWARF line tables.

One compile unit; a subprogram for the kernel and one for each function that was inlined
into it, at its call site.  Nodes are as https://llvm.org/docs/LangRef.html#specialized-metadata-nodes says.
Before: an empty function.  After: the function is marked, and `mark` gives what ends an instruction's text.
Tests: tests/targets/llvm/test_lines.py, tests/targets/cpu_host/test_debugger.py.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from tilewright.diagnostics import Location
from tilewright.targets.llvm.text import FunctionWriter

_DWARF_VERSION = 4      # what every gdb and perf in use reads


_MARK = re.compile(r", !dbg !\d+$")


class LineTable:
    """The line table of one function, a kernel called `name` whose `def` is at `loc`.

    `emission`: on NVIDIA GPUs "DebugDirectivesOnly"; all else makes ptxas optimise nothing (`.target ..., debug`).
    """

    def __init__(self, function: FunctionWriter, name: str, loc: Location, emission: str = "FullDebug") -> None:
        self._module = function.module
        self._loc = loc
        self._marks: dict[Location, str] = {}
        self._nodes: dict[tuple[Location, str], str] = {}
        self._name = name
        self._unit = self._module.node(
            f"distinct !DICompileUnit(language: DW_LANG_C99, file: {self._file(loc.file)}, producer: \"tilewright\", "
            f"isOptimized: true, runtimeVersion: 0, emissionKind: {emission})")
        self._kernel = self._subprogram(name, loc.file, loc.line)
        self._module.named_metadata("llvm.dbg.cu", [self._unit])
        self._module.named_metadata("llvm.module.flags", [
            self._module.metadata('i32 2, !"Debug Info Version", i32 3'),
            self._module.metadata(f'i32 7, !"Dwarf Version", i32 {_DWARF_VERSION}')])
        function.attachment = f" !dbg {self._kernel}"
        function.mark = self.mark(loc)

    def mark(self, loc: Location) -> str:
        """What ends the text of an instruction that is from `loc`; that of the kernel where it is unknown."""
        found = self._marks.get(loc)
        if found is None:
            found = self._marks[loc] = f", !dbg {self._node(self._known(loc), self._kernel)}"
        return found

    def part(self, symbol: str, lines: Sequence[str]) -> tuple[str, list[str]]:
        """The attachment of a function that is a part of the kernel, and its `lines` with marks that belong to it."""
        own = self._subprogram(self._name, self._loc.file, self._loc.line, symbol)
        places = {mark: loc for loc, mark in self._marks.items()}

        def moved(found: re.Match[str]) -> str:
            return f", !dbg {self._node(self._known(places[found[0]]), own)}"

        return f" !dbg {own}", [_MARK.sub(moved, line) for line in lines]

    def _known(self, loc: Location) -> Location:
        return loc if loc.line else self._loc

    def _node(self, loc: Location, kernel: str) -> str:
        """The location's node in the function whose subprogram is `kernel`, below those of its call sites."""
        if (loc, kernel) not in self._nodes:
            where = f"line: {loc.line}, column: {loc.column + 1}"
            if loc.caller is not None:
                scope = self._subprogram(loc.function or "?", loc.file)
                text = f"!DILocation({where}, scope: {scope}, inlinedAt: {self._node(loc.caller, kernel)})"
            elif loc.file == self._loc.file:
                text = f"!DILocation({where}, scope: {kernel})"
            else:
                block = f"!DILexicalBlockFile(scope: {kernel}, file: {self._file(loc.file)}, discriminator: 0)"
                text = f"!DILocation({where}, scope: {self._module.node(block)})"
            self._nodes[loc, kernel] = self._module.node(text)
        return self._nodes[loc, kernel]

    def _subprogram(self, name: str, file: str, line: int = 0, symbol: str = "") -> str:
        """A function's node.  Where an inlined one begins is not known here, so all of its lines are one node's."""
        own = f"line: {line}, scopeLine: {line}, " if line else ""
        own += f"linkageName: {_quoted(symbol)}, " if symbol else ""
        where = self._file(file)
        kind = self._module.node("!DISubroutineType(types: null)")
        return self._module.node(
            f"distinct !DISubprogram(name: {_quoted(name)}, {own}scope: {where}, file: {where}, type: {kind}, "
            f"spFlags: DISPFlagDefinition | DISPFlagOptimized, unit: {self._unit})")

    def _file(self, path: str) -> str:
        return self._module.node(f"!DIFile(filename: {_quoted(path)}, directory: \"\")")


def _quoted(text: str) -> str:
    """A string of LLVM text."""
    plain = (chr(b) if 32 <= b < 127 and b not in b'"\\' else f"\\{b:02x}" for b in text.encode("utf-8", "replace"))
    return f'"{"".join(plain)}"'
