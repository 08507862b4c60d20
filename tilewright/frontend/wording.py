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


def no_bound(name: str, came: str) -> str:
    """The message for a start, end or step of a loop of type `came`."""
    if came.startswith("pointer"):
        return f"the {name} of a range must be an integer scalar, and this is a pointer: read what it points to with " \
               "tl.load, or pass a number to the kernel (a tensor of one element by .item())"
    cure = "" if "[" in came else "; divide with // or tl.cdiv, or convert with .to(tl.int32)"
    return f"the {name} of a range must be an integer scalar, not {came}{cure}"


def dropped_return(kernel: str) -> str:
    """The warning for a kernel that returns a value."""
    return (f"{kernel} is launched as a kernel, and nobody takes what it returns; store the value: "
            "tl.store(pointer, value)")
