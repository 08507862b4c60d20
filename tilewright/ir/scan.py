"""A cursor over IR text: matching tokens at a position, and errors that say where.

The tokens are few and types are matched in pieces, so there is no separate list of tokens.  Used by `ir.parse` alone.
Tests: tests/ir/test_parse_errors.py.
"""

from __future__ import annotations

import bisect
import json
import re
from collections.abc import Callable
from typing import TypeVar

from tilewright.diagnostics import TritonError
from tilewright.ir.text import NAME

_SPACE = re.compile(r"(?:\s+|//[^\n]*)*")
_STRING = re.compile(r'"(?:[^"\\\n]|\\.)*"')
_INTEGER = re.compile(r"\d+")

T = TypeVar("T")


class ParseError(TritonError):
    """Text that is no IR."""

    def __init__(self, message: str, file: str, line: int, column: int) -> None:
        self.message, self.file, self.line, self.column = message, file, line, column
        super().__init__(f"{file}:{line}:{column}: {message}")


class Cursor:
    """A position in the text, and matching at it."""

    def __init__(self, text: str, file: str) -> None:
        self.text, self.file, self.at = text, file, 0
        self.last_end = 0       # the end of what was matched last, without the space behind it
        self._line_starts = [0, *(m.end() for m in re.finditer("\n", text))]
        self.skip()

    def skip(self) -> None:
        """Step over space and comments."""
        self.last_end = self.at
        match = _SPACE.match(self.text, self.at)
        assert match is not None    # the pattern matches the empty text
        self.at = match.end()

    def place(self, at: int | None = None) -> tuple[int, int]:
        """Line and column of a position, both from 1."""
        at = self.at if at is None else at
        line = bisect.bisect_right(self._line_starts, at)
        return line, at - self._line_starts[line - 1] + 1

    def error(self, message: str, at: int | None = None) -> ParseError:
        return ParseError(message, self.file, *self.place(at))

    def match(self, pattern: re.Pattern[str]) -> re.Match[str] | None:
        found = pattern.match(self.text, self.at)
        if found is not None:
            self.at = found.end()
            self.skip()
        return found

    def need(self, pattern: re.Pattern[str], what: str) -> re.Match[str]:
        found = self.match(pattern)
        if found is None:
            raise self.error(f"expected {what}, found {self.found()}")
        return found

    def found(self) -> str:
        rest = self.text[self.at:].split("\n", 1)[0].split()
        return repr(rest[0]) if rest else "the end of the text"

    def peek(self, sign: str) -> bool:
        return self.text.startswith(sign, self.at)

    def take(self, sign: str) -> bool:
        """Step over `sign` if it is next."""
        if not self.peek(sign):
            return False
        self.at += len(sign)
        self.skip()
        return True

    def expect(self, sign: str) -> None:
        if not self.take(sign):
            raise self.error(f"expected {sign!r}, found {self.found()}")

    def word(self) -> str | None:
        """Step over a name if one is next."""
        found = self.match(NAME)
        return None if found is None else found[0]

    def take_word(self, word: str) -> bool:
        found = NAME.match(self.text, self.at)
        return found is not None and found[0] == word and self.take(word)

    def listed(self, item: Callable[[], T], close: str) -> list[T]:
        """Items between commas up to `close`."""
        items: list[T] = []
        if not self.take(close):
            items.append(item())
            while self.take(","):
                items.append(item())
            self.expect(close)
        return items

    def string(self) -> str:
        start = self.at
        try:
            return str(json.loads(self.need(_STRING, "a string")[0]))
        except json.JSONDecodeError as error:
            raise self.error(f"not a JSON string: {error.msg}", start) from None

    def integer(self) -> int:
        return int(self.need(_INTEGER, "an integer")[0])
