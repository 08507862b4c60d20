"""Branches and loops of an instrumented function: what happens to its variables there.

In compiled code a variable that a branch or loop changes becomes the result of an op, so it has one type, a number
becomes a run-time scalar, and a name that only one way binds is gone afterwards.  These frames do the same to Python
locals; the instrumented code asks them after each branch and loop (`has`/`value`: rebind, `drops`: unbind).  Only the
way that is taken runs, so only its errors show.
Tests: tests/interpret/test_eager_flow.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from tilewright.frontend.joins import Disagreement
from tilewright.frontend.values import is_number, is_tuple, same_static, type_name
from tilewright.language import semantic
from tilewright.language.builder import Builder
from tilewright.language.core import constexpr, tensor
from tilewright.language.promotion import literal_type

Variables = Mapping[str, Any]
Names = tuple[str, ...]


class Frame:
    """What the instrumented code asks after a branch or loop."""

    def __init__(self) -> None:
        self._new: dict[str, Any] = {}
        self._gone: set[str] = set()

    def has(self, name: str) -> bool:
        """Whether `name` gets another value now."""
        return name in self._new

    def value(self, name: str) -> Any:
        return self._new[name]

    def drops(self, name: str) -> bool:
        """Whether `name` has no value from here on."""
        return name in self._gone


class Choice(Frame):
    """The condition of a conditional expression: `taken`, and whether it was known at compile time."""

    def __init__(self, builder: Builder, test: Any) -> None:
        super().__init__()
        flag = semantic.truth(builder, test)
        self.run_time = isinstance(flag, tensor)
        self.taken = scalar_value(flag) if isinstance(flag, tensor) else flag


class Branch(Choice):
    """An `if` statement.  `then` and `other` are the names that its two sides assign, `live` those needed later."""

    def __init__(self, builder: Builder, test: Any, then: Names, other: Names, live: Names, before: Variables) -> None:
        super().__init__(builder, test)
        self._builder = builder
        self._taken_names, self._other_names = (then, other) if self.taken else (other, then)
        self._live = live
        self._before = {n: before[n] for n in (*then, *other) if n in before}

    def close(self, after: Variables, gone: dict[str, str], line: int) -> None:
        """The branch has ended: join what its sides give."""
        if not self.run_time:
            return
        for name in dict.fromkeys((*self._taken_names, *self._other_names)):
            if name in after and name in self._live:
                self._join(name, after, gone, line)
            elif name in after and name not in self._before:
                self._drop(name, f"its value is not kept after the branch at line {line}", gone)

    def _join(self, name: str, after: Variables, gone: dict[str, str], line: int) -> None:
        now = after[name]
        if name not in self._before:
            if name not in self._other_names:
                self._drop(name, f"it is assigned on one side of the branch at line {line} only, and has no value "
                                 "otherwise; assign it on both sides, or before the branch", gone)
            return
        before = self._before[name]
        if name in self._other_names:       # what the other side makes of it is not known here
            if is_number(now):
                self._new[name] = semantic.to_tensor(self._builder, now)
        elif now is not before:
            self._new[name] = met(self._builder, now, before)

    def _drop(self, name: str, reason: str, gone: dict[str, str]) -> None:
        self._gone.add(name)
        gone[name] = reason


class Loop(Frame):
    """A loop at run time.  `carried`: the names that it changes and that are needed at its head."""

    def __init__(self, builder: Builder, carried: Names, inner: Names, before: Variables,
                 decays: Callable[[str], bool]) -> None:
        super().__init__()
        self._builder = builder
        self._inner = tuple(n for n in inner if n not in before)
        self._head: dict[str, Any] = {}
        for name in carried:
            if name in before:
                value = before[name]
                if decays(name):
                    value = semantic.decay(builder, value)
                self._head[name] = value
                self._new[name] = value

    def end_of_iteration(self, now: Variables) -> None:
        """TypeError unless every carried variable still has the type that it had before the loop."""
        for name, head in self._head.items():
            if name in now:
                check_carried(name, head, now[name])

    def close(self, after: Variables, gone: dict[str, str], line: int) -> None:
        """The loop has ended: names that its body introduced are gone."""
        self._new.clear()
        for name in self._inner:
            if name in after:
                self._gone.add(name)
                gone[name] = (f"it is assigned in the loop at line {line} only, which may run no iteration; assign it "
                              "before the loop")


class CountedLoop(Loop):
    """A `for` over a range: iterating it gives the index, a scalar of the bounds' type."""

    def __init__(self, builder: Builder, carried: Names, inner: Names, before: Variables,
                 decays: Callable[[str], bool], indices: Iterator[Any]) -> None:
        super().__init__(builder, carried, inner, before, decays)
        self._indices = indices

    def __iter__(self) -> Iterator[Any]:
        return self._indices


class Unrolled(Frame):
    """A `for` whose items are known at compile time: nothing happens to the variables."""

    def __init__(self, items: Iterator[Any]) -> None:
        super().__init__()
        self._items = items

    def __iter__(self) -> Iterator[Any]:
        return self._items

    def end_of_iteration(self, now: Variables) -> None:
        """Types may change from copy to copy."""

    def close(self, after: Variables, gone: dict[str, str], line: int) -> None:
        """Names stay."""


def scalar_value(x: tensor) -> bool:
    """The truth of an int1 scalar."""
    return bool(x.handle.numbers())


def met(builder: Builder, now: Any, other: Any) -> Any:
    """What a variable is after a run-time branch that gave it `now`, where the other way would have left `other`."""
    if is_tuple(now) and is_tuple(other) and len(now) == len(other):
        return now
    if isinstance(now, tensor) or isinstance(other, tensor):
        if _run_time_type(now) != _run_time_type(other):
            raise Disagreement(now, other)
        return semantic.to_tensor(builder, now)
    if same_static(now, other):
        return now
    raise Disagreement(now, other)


def _run_time_type(value: Any) -> Any:
    """The type that a tensor has, or a number would have; None for anything else."""
    if isinstance(value, tensor):
        return value.type
    return literal_type(value.value) if isinstance(value, constexpr) and is_number(value) else None


def check_carried(name: str, before: Any, now: Any) -> None:
    """TypeError if a loop changed what kind of value a variable holds."""
    if is_tuple(before) and is_tuple(now) and len(before) == len(now):
        for b, n in zip(before, now, strict=True):
            check_carried(name, b, n)
    elif isinstance(before, tensor) and isinstance(now, tensor) and before.type == now.type:
        return
    elif not isinstance(before, tensor) and not isinstance(now, tensor) and same_static(before, now):
        return
    else:
        raise TypeError(f"Loop-carried variable {name} has initial type {type_name(before)} but is re-assigned to "
                        f"{type_name(now)} in loop")
