"""`triton.backends`."""

from triton.backends import compiler

# The code generators that torch's compiler may use, by name.  None yet: torch then compiles as if triton were absent.
backends: dict[str, object] = {}
