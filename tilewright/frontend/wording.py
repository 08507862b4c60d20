"""Pieces of the frontend's messages.  Tests: tests/errors/."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def suggestion(name: str, known: Iterable[str]) -> str:
    """"; did you mean ...?" with names that look like `name`, or nothing."""
    near = difflib.get_close_matches(name, sorted({k for k in known if not k.startswith("_")}), 3)
    return f"; did you mean {' or '.join(near)}?" if near else ""


def plural(count: int, noun: str) -> str:
    """"1 argument", "2 arguments"."""
    return f"{count} {noun}{'' if count == 1 else 's'}"


def dropped_return(kernel: str) -> str:
    """The warning for a kernel that returns a value."""
    return (f"{kernel} is launched as a kernel, and nobody takes what it returns; store the value: "
            "tl.store(pointer, value)")
