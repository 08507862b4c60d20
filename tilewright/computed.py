"""An attribute that is worked out when it is first read, like `functools.cached_property` but without a lock.

Until Python 3.12 `functools.cached_property` holds one lock per attribute of a *class* while it works the value out.
One thread that compiles a kernel would so make every other wait, whatever they compile; and a process forked meanwhile
would wait for ever, since the thread that holds the lock is not in it.  Here two threads may work the same value out
at once, and both get the one that was ready first: so it has to be one that may be made twice.
Tests: tests/test_computed.py.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar, overload

T = TypeVar("T")


class computed(Generic[T]):
    """Decorates a method without arguments: the attribute of its name, kept in the instance once it is known."""

    def __init__(self, function: Callable[[Any], T]) -> None:
        self.function = function
        self.name = function.__name__
        self.__doc__ = function.__doc__

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    @overload
    def __get__(self, instance: None, owner: type) -> computed[T]: ...
    @overload
    def __get__(self, instance: object, owner: type) -> T: ...
    def __get__(self, instance: object | None, owner: type) -> computed[T] | T:
        if instance is None:
            return self
        kept: dict[str, Any] = instance.__dict__
        value: T = kept.setdefault(self.name, self.function(instance))
        return value
