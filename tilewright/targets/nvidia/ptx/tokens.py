"""Tokens of PTX text, with lines and the source places that `.loc` gives (PTX ISA 4.2 to 4.5, 11.5).

Before: text.  After: a cursor over words, numbers and signs.  Comments vanish, but for `// implicit-def: %r1`, by which
LLVM says that a register holds no particular value.  Debug sections are skipped.
Tests: tests/targets/nvidia/ptx/test_text.py.
"""

from __future__ import annotations

import re
import struct
from bisect import bisect_right

from tilewright.targets.nvidia.ptx.operands import Immediate
from tilewright.targets.nvidia.ptx.report import PtxSyntaxError

_TOKEN = re.compile(
    r"//[ \t]*implicit-def:[ \t]*(?P<undefined>[%$\w]+)[^\n]*"
    r"|(?P<comment>//[^\n]*|/\*.*?\*/)"
    r"|(?P<loc>\.loc\s+\d+\s+\d+(?:\s+\d+)?(?:\s*,\s*function_name\s+[^\s,]+(?:\s*,\s*inlined_at\s+\d+\s+\d+\s+\d+)?)?)"
    r"|\.file\s+(?P<file>\d+\s+\"[^\"]*\")[^\n]*"
    r"|(?P<section>\.section\s+[\w.]+\s*\{[^}]*\})"
    r"|(?P<word>\"[^\"]*\"|\d[\w.]*|[%$_A-Za-z.](?:[\w$.%]|::)*|[^\s\w])", re.S)
_NUMBER = re.compile(r"\d+")
_LABEL = re.compile(r"[%$_A-Za-z][\w$]*$")


class Tokens:
    """A cursor over the tokens of `text`."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.words: list[str] = []
        self._starts: list[int] = []
        self.files: dict[int, str] = {}
        self._loc_starts: list[int] = []
        self._locs: list[tuple[int, ...]] = []
        self._undefined: list[tuple[int, str]] = []
        self._line_starts = [0, *(m.end() for m in re.finditer("\n", text))]
        self._places: dict[int, tuple[int, ...]] = {}
        self._at = 0
        words, starts = self.words, self._starts
        for match in _TOKEN.finditer(text):
            if match.lastgroup == "word":
                words.append(match[0])
                starts.append(match.start())
            else:
                self._take(match)

    def _take(self, match: re.Match[str]) -> None:
        """What is no word: places, names of files, registers that LLVM leaves undefined."""
        kind = match.lastgroup
        if kind == "loc":
            numbers = tuple(int(n) for n in _NUMBER.findall(re.sub(r"function_name\s+[^\s,]+", "", match["loc"])))
            self._loc_starts.append(match.start())
            self._locs.append(numbers if len(numbers) > 2 else (*numbers, 0))
        elif kind == "file":
            number, name = match["file"].split(None, 1)
            self.files[int(number)] = name.strip('"')
        elif kind == "undefined":
            self._undefined.append((match.start(), match["undefined"]))

    # ---- the cursor
    def more(self) -> bool:
        return self._at < len(self.words)

    def next(self) -> str:
        if self._at >= len(self.words):
            raise self.error("the text ends in the middle of something")
        self._at += 1
        return self.words[self._at - 1]

    def back(self) -> None:
        self._at -= 1

    def peek(self) -> str:
        return self.words[self._at] if self._at < len(self.words) else ""

    def accept(self, word: str) -> bool:
        if self._at < len(self.words) and self.words[self._at] == word:
            self._at += 1
            return True
        return False

    def expect(self, word: str) -> None:
        if not self.accept(word):
            raise self.error(f"{self.peek()!r} stands where {word!r} belongs")

    def skip_past(self, word: str) -> None:
        while self.next() != word:
            pass

    @property
    def line(self) -> int:
        """The line of the token that came last."""
        if not self._starts:
            return 1
        return bisect_right(self._line_starts, self._starts[max(0, min(self._at, len(self._starts)) - 1)])

    def error(self, message: str) -> PtxSyntaxError:
        line = self.line
        lines = self.text.split("\n")
        return PtxSyntaxError(message, line, lines[line - 1] if line <= len(lines) else "")

    # ---- places
    def note_place(self, line: int) -> None:
        """Keep the `.loc` that holds at the current token for `line`; line 0 is code that belongs to no line."""
        index = bisect_right(self._loc_starts, self._starts[self._at - 1]) - 1
        while index >= 0 and self._locs[index][1] == 0:
            index -= 1
        self._places[line] = self._locs[index] if index >= 0 else ()

    def place_of(self, line: int) -> tuple[int, ...]:
        return self._places.get(line, ())

    def take_undefined(self) -> list[str]:
        """Registers that `implicit-def` named since the last call, before the current token."""
        here, names = self._starts[self._at - 1], []
        while self._undefined and self._undefined[0][0] < here:
            names.append(self._undefined.pop(0)[1])
        return names

    def labels_of_scope(self) -> list[str]:
        """Labels of the scope that was just opened, its inner scopes left out."""
        depth, labels, words = 0, [], self.words
        for i in range(self._at, len(words)):
            word = words[i]
            if word == "{":
                depth += 1
            elif word == "}":
                depth -= 1
                if depth < 0:
                    break
            elif word == ":" and depth == 0 and _LABEL.match(words[i - 1]):
                labels.append(words[i - 1])
        return labels

    # ---- numbers
    def number(self) -> Immediate:
        """A signed constant, or a sum of them; `0f...` and `0d...` are the bits of floats (PTX ISA 4.5.2)."""
        total, kind = 0, "int"
        while True:
            sign = 1
            while self.peek() in ("+", "-"):
                sign = -sign if self.next() == "-" else sign
            word = self.next()
            value, kind = self._constant(word)
            total += value if kind != "int" else sign * value
            if kind != "int" and sign < 0:
                total ^= 1 << (31 if kind == "f32" else 63)
            if self.peek() not in ("+", "-"):
                return Immediate(total, kind)

    def _constant(self, word: str) -> tuple[int, str]:
        lead = word[:2].lower()
        try:
            if lead == "0f":
                return int(word[2:], 16), "f32"
            if lead == "0d":
                return int(word[2:], 16), "f64"
            if "." in word or (lead != "0x" and "e" in word.lower()):
                return int.from_bytes(struct.pack("<d", float(word)), "little"), "f64"
            plain = word.rstrip("uU")
            if len(plain) > 1 and plain[0] == "0" and plain.isdigit():
                return int(plain, 8), "int"
            return int(plain, 0), "int"
        except ValueError:
            raise self.error(f"{word!r} is no number") from None
