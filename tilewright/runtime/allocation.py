"""`set_allocator`: where a kernel's own device memory comes from.

Kernels on the CPU take scratch memory from their threads and need no allocator, so the function that is set here is
kept for targets that ask for one.  Tests: tests/runtime/test_face.py.
"""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from typing import Any

Allocator = Callable[[int, int, Any], Any]      # size, alignment, stream -> an object with data_ptr()

_allocator: ContextVar[Allocator | None] = ContextVar("tilewright_allocator", default=None)


def set_allocator(allocator: Allocator | None) -> None:
    """Use `allocator(size, alignment, stream)` from now on, in this context; None for none."""
    if allocator is not None and not callable(allocator):
        raise TypeError(f"an allocator is a function of size, alignment and stream, not {allocator!r}")
    _allocator.set(allocator)


def get_allocator() -> Allocator | None:
    """The allocator that was set last."""
    return _allocator.get()
