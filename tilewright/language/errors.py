"""Errors of the language layer: plain `TypeError`, `ValueError`, `NotImplementedError`, but the user's fault.

A message says what came, what is allowed and what to do.  It has no location: the frontend and the eager engine know
where the user is, and wrap the error (`CompilationError` with this one as `__cause__`).  The classes exist to tell
a mistake in a kernel from a fault of the compiler.  Tests: tests/lang/.
"""

from __future__ import annotations


class LanguageError(Exception):
    """Base of the errors that a kernel's author caused."""


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
        self.message = f"invalid operands of type {left} and {right}{'; ' + why if why else ''}"
        super().__init__(self.message)
