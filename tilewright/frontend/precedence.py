"""Comparisons beside `&`, `|` and `^`, which bind tighter than comparisons do.

In Python `i < n | i == 7` is the chain `i < (n | i) == 7`, and `(i >= 0) & i < n` compares `(i >= 0) & i`: neither is
what anybody means who writes a mask.  The first kind is refused, the second, which triton takes as well, is told of.
Parentheses, which a syntax tree has no nodes for, say that it is meant: `i < (n | i) == 7`.
Tests: tests/frontend/test_precedence.py.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from tilewright.language.function import SourceFunction

_SIGNS = {ast.BitAnd: "&", ast.BitOr: "|", ast.BitXor: "^"}
_TRUTHS = (ast.Compare, ast.BoolOp)


class Slip:
    """A comparison with an operand that was hardly meant as one; `refused` or else only to be told of."""

    def __init__(self, refused: bool, message: str) -> None:
        self.refused, self.message = refused, message


def slip_in(fn: SourceFunction, node: ast.Compare) -> Slip | None:
    """What is wrong with the comparison `node` of the function `fn`, if something is."""
    operands = [node.left, *node.comparators]
    if not any(_sign(operand) for operand in operands):
        return None
    text = _Text(fn, node)
    bare = [not text.is_enclosed(operands, k) if _sign(operand) else False for k, operand in enumerate(operands)]
    middle = [k for k in range(1, len(operands) - 1) if bare[k]]
    wrong = middle or [k for k in (0, len(operands) - 1) if bare[k] and any(map(_is_truth, _leaves(operands[k])))]
    if not wrong:
        return None
    operand = operands[wrong[0]]
    shown, whole, cure = text.of(operand), text.of(node), text.cured(operands, bare)
    why = f"since `{_sign(operand)}` binds tighter than comparisons do"
    if middle:
        chain = text.with_parentheses([operands[k] for k in middle])
        return Slip(True, f"`{whole}` is the chain of comparisons `{chain}`, {why}; write {cure}, or, if the chain is "
                          "meant, those parentheses")
    return Slip(False, f"`{whole}` compares `{shown}`, {why}; write {cure}, or, if that is meant, parentheses around "
                       "it")


def _sign(node: ast.expr) -> str | None:
    """Which of the operators it is."""
    return _SIGNS.get(type(node.op)) if isinstance(node, ast.BinOp) else None


def _is_truth(node: ast.expr) -> bool:
    return isinstance(node, _TRUTHS) or (isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not))


def _leaves(node: ast.expr) -> Iterator[ast.expr]:
    """The operands of a tree of these operators."""
    waiting = [node]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.BinOp) and _sign(node):
            waiting += [node.left, node.right]
        else:
            yield node


class _Text:
    """The text of a comparison: its bytes, as the columns of syntax trees count them, with blanks for comments."""

    def __init__(self, fn: SourceFunction, node: ast.Compare) -> None:
        last = node.end_lineno or node.lineno
        lines = [fn.line_text(line).encode() for line in range(node.lineno, last + 1)]
        self._starts = [0]
        for line in lines:
            self._starts.append(self._starts[-1] + len(line) + 1)
        self._first = node.lineno
        text = b"\n".join(lines)
        end = self._starts[-2] + (node.end_col_offset or 0)
        self._bytes = re.sub(rb"#.*|\\$", lambda m: b" " * len(m[0]), text[:end], flags=re.MULTILINE)
        self._range = self._place(node.lineno, node.col_offset), self._end(node)

    def _place(self, line: int, column: int) -> int:
        return self._starts[line - self._first] + column

    def _start(self, node: ast.expr) -> int:
        return self._place(node.lineno, node.col_offset)

    def _end(self, node: ast.expr) -> int:
        return self._place(node.end_lineno or node.lineno, node.end_col_offset or 0)

    def _shown(self, text: bytes) -> str:
        return " ".join(text.decode(errors="replace").split())

    def of(self, node: ast.expr) -> str:
        """The text of a node, on one line."""
        return self._shown(self._bytes[self._start(node):self._end(node)])

    def is_enclosed(self, operands: list[ast.expr], index: int) -> bool:
        """Whether an operand of the comparison is in parentheses of its own."""
        start = self._end(operands[index - 1]) if index else self._range[0]
        return b"(" in self._bytes[start:self._start(operands[index])]

    def with_parentheses(self, nodes: list[ast.expr]) -> str:
        """The comparison with parentheses around these parts of it."""
        return self._edited([edit for n in nodes for edit in ((self._start(n), b"("), (self._end(n), b")"))])

    def cured(self, operands: list[ast.expr], bare: list[bool]) -> str:
        """The comparison as it was meant: each comparison beside `&`, `|` or `^` in parentheses."""
        edits = [] if bare[0] else [(self._range[0], b"(")]
        for k, operand in enumerate(operands):
            if bare[k]:
                (before, _), (_, after) = self._signs(operand)
                edits += [(before, b")")] if k else []
                edits += [(after, b"(")] if k + 1 < len(operands) else []
        return self._edited([*edits, *([] if bare[-1] else [(self._range[1], b")")])])

    def _signs(self, operand: ast.expr) -> tuple[tuple[int, int], tuple[int, int]]:
        """Where the first and the last sign of an operand begin and end, with the space around them."""
        assert isinstance(operand, ast.BinOp)
        first = last = operand
        while isinstance(first.left, ast.BinOp) and _sign(first.left) and self._start(first.left) == self._start(first):
            first = first.left      # which has no parentheses
        while isinstance(last.right, ast.BinOp) and _sign(last.right) and self._end(last.right) == self._end(last):
            last = last.right
        return self._sign_of(first), self._sign_of(last)

    def _sign_of(self, node: ast.BinOp) -> tuple[int, int]:
        start, end = self._end(node.left), self._start(node.right)
        found = re.compile(rb"\s*[&|^]\s*").search(self._bytes, start, end)
        return found.span() if found else (start, end)

    def _edited(self, edits: list[tuple[int, bytes]]) -> str:
        text, done = b"", self._range[0]
        for place, added in sorted(edits, key=lambda edit: edit[0]):
            text += self._bytes[done:place] + added
            done = place
        return self._shown(text + self._bytes[done:self._range[1]])
