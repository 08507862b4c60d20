"""Errors of the language layer: plain `TypeError`, `ValueError`, `NotImplementedError`, but the user's fault.

A message says what came, what is allowed and what to do.  It has no location: the frontend and the eager engine know
where the user is, and wrap the error (`CompilationError` with this one as `__cause__`).  The classes exist to tell
a mistake in a kernel from a fault of the compiler.  Tests: tests/lang/.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

_MARK = re.compile("\x1a(.*?)\x1b(.*?)\x1c")


def as_written(which: str, otherwise: str) -> str:
    """Room in a message for the text of an operand, which who knows the source fills in; else it says `otherwise`.

    `which` is `left` or `right` of an operator, `operand`, `condition`, `value` or `index` of a subscript, or an
    argument of a name of the language: see `argument`.
    """
    return f"\x1a{which}\x1b{otherwise}\x1c"


def argument(function: str, position: int, name: str) -> str:
    """What `as_written` calls the argument `name` of `tl.function`, given by position or by name."""
    bare = function.rpartition(".")[2]
    return f"{bare}.{position}|{bare}.{name}"


def with_operands(message: str, texts: Mapping[str, str]) -> str:
    """A message with the texts of operands filled in."""
    def text(found: re.Match[str]) -> str:
        return next((texts[name] for name in found[1].split("|") if name in texts), found[2])

    return _MARK.sub(text, message)


class LanguageError(Exception):
    """Base of the errors that a kernel's author caused.  `template` is the text with room for operands."""

    def __init__(self, message: str = "") -> None:
        self.template = message
        super().__init__(with_operands(message, {}))


class LanguageTypeError(LanguageError, TypeError):
    """A value of a type that has no meaning here."""


class LanguageValueError(LanguageError, ValueError):
    """A value of the right type that is not allowed here."""


class LanguageAttributeError(LanguageError, AttributeError):
    """A name that a value does not have."""



class IncompatibleTypeErrorImpl(LanguageTypeError):
    """Two operand types that an operator does not take (triton's class name)."""

    def __init__(self, left: object, right: object, why: str = "") -> None:
        self.type_a, self.type_b = left, right
        super().__init__(f"invalid operands of type {left} and {right}{'; ' + why if why else ''}")
        self.message = str(self)
