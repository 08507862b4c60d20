"""`set_allocator`: where a kernel's own device memory comes from.

Kernels on the CPU take scratch memory from their threads and need no allocator, so the function that is set here is
kept for targets that ask for one.  Tests: tests/runtime/test_face.py.
"""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from typing import Any, NoReturn, Protocol


class Buffer(Protocol):
    """Memory, as long as the object lives."""

    def data_ptr(self) -> int: ...


Allocator = Callable[[int, int, Any], Buffer]       # size, alignment, stream


class NullAllocator:
    """The allocator of who has set none."""

    def __call__(self, size: int, alignment: int, stream: Any) -> NoReturn:
        raise RuntimeError("a kernel asks for memory of its own, and no allocator is set; set one with set_allocator")


_NONE = NullAllocator()
allocator_variable: ContextVar[Allocator] = ContextVar("tilewright_allocator", default=_NONE)


def set_allocator(allocator: Allocator | None) -> None:
    """Use `allocator(size, alignment, stream)` from now on, in this context; None for none."""
    if allocator is not None and not callable(allocator):
        raise TypeError(f"an allocator is a function of size, alignment and stream, not {allocator!r}")
    allocator_variable.set(_NONE if allocator is None else allocator)


def get_allocator() -> Allocator | None:
    """The allocator that was set last, if one was."""
    allocator = allocator_variable.get()
    return None if isinstance(allocator, NullAllocator) else allocator
