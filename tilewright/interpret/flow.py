"""Branches and loops of an instrumented function: what happens to its variables there.

In compiled code a variable that a branch or loop changes becomes the result of an op, so it has one type, a number
becomes a run-time scalar, and a name that only one way binds is gone afterwards.  These frames do the same to Python
locals; the instrumented code asks them after each branch and loop (`new`: rebind, `gone`: unbind).  Only the way that
is taken runs, so only its errors show.
Tests: tests/interpret/test_eager_flow.py.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tilewright.diagnostics import Location
from tilewright.frontend.carried import same_type, type_change_message
from tilewright.frontend.values import is_number, is_tuple, same_static, type_name
from tilewright.interpret.instrument import BranchFacts, LoopFacts
from tilewright.language import semantic
from tilewright.language.builder import Builder
from tilewright.language.core import LanguageTypeError, constexpr, tensor
from tilewright.language.promotion import literal_type
from tilewright.language.values import constant, to_tensor

Variables = Mapping[str, Any]


@dataclass(slots=True)
class History:
    """Where each local name was assigned last (parameters are not in it), where names were declared `tl.constexpr`,
    and why a name has no value any more.
    """

    assigned: dict[str, Location] = field(default_factory=dict)
    declared: dict[str, Location] = field(default_factory=dict)
    gone: dict[str, str] = field(default_factory=dict)

    def assign(self, name: str, place: Location) -> None:
        self.assigned[name] = place
        self.gone.pop(name, None)

    def line(self, name: str) -> str:
        """Where `name` was assigned, for messages."""
        place = self.assigned.get(name)
        return f"assigned at line {place.line}" if place is not None else "a parameter"


class Frame:
    """What the instrumented code looks at after a branch or loop, plain data so that no debugger steps into us.

    `new` are the names that get another value, `gone` those without a value from here on.
    """

    def __init__(self) -> None:
        self.new: dict[str, Any] = {}
        self.gone: set[str] = set()
        self.place: Location | None = None      # of a loop


class Choice(Frame):
    """The condition of a conditional expression: `taken`, and whether it was known at compile time."""

    def __init__(self, builder: Builder, test: Any) -> None:
        super().__init__()
        flag = semantic.truth(builder, test)
        self.run_time = isinstance(flag, tensor)
        self.taken = scalar_value(flag) if isinstance(flag, tensor) else flag


class Branch(Choice):
    """An `if` statement."""

    def __init__(self, builder: Builder, test: Any, facts: BranchFacts, before: Variables, line: int,
                 history: History) -> None:
        super().__init__(builder, test)
        self._builder = builder
        self._history = history
        self._names = (facts.then, facts.otherwise) if self.taken else (facts.otherwise, facts.then)
        self._live = facts.live
        self._other_goes_on = facts.go_on[bool(self.taken)]
        self._before = {n: before[n] for names in self._names for n in names if n in before}
        self._line = line

    def close(self, after: Variables) -> None:
        """The branch has ended: join what its sides give."""
        if not self.run_time or not self._other_goes_on:
            return
        for name in self._names[1]:
            if name not in after and name not in self._names[0]:
                self._history.gone[name] = self._one_sided("assigned", not self.taken)
        for name in self._names[0]:
            if name in after and name in self._live:
                self._join(name, after[name])
            elif name in after and name not in self._before:
                self._drop(name, f"its value is not kept after the branch at line {self._line}")

    def _join(self, name: str, now: Any) -> None:
        both = name in self._names[1]       # then what the other side makes of it is not known here
        if name not in self._before and not both:
            self._drop(name, self._one_sided(self._history.line(name), self.taken))
        elif both or now is self._before[name]:
            if is_number(now):
                self.new[name] = to_tensor(self._builder, now)
        else:
            self._meet(name, now, self._before[name])

    def _one_sided(self, assigned: str, side: bool) -> str:
        """Why a name that one side assigns has no value after the branch."""
        return (f"it is {assigned} only if the condition at line {self._line} {'holds' if side else 'does not hold'}, "
                f"and has no value otherwise; assign it on both paths, or before line {self._line}")

    def _meet(self, name: str, now: Any, before: Any) -> None:
        """The value after a branch of which only one side assigns `name`."""
        if not isinstance(now, tensor) and not isinstance(before, tensor) and same_static(now, before):
            return
        if is_tuple(now) and is_tuple(before) and len(now) == len(before):
            return
        if _run_time_type(now) is not None and _run_time_type(now) == _run_time_type(before):
            self.new[name] = to_tensor(self._builder, now)
            return
        holds, fails = (now, before) if self.taken else (before, now)
        message = (f"{name} has type {type_name(holds)} if the condition at line {self._line} holds, and "
                   f"{type_name(fails)} if not; a variable has one type after an `if`: convert one of the two, or use "
                   "two names")
        if isinstance(now, tensor) and isinstance(before, tensor):
            raise LanguageTypeError(f"Mismatched type for {name} between then block ({type_name(holds)}) and else "
                                    f"block ({type_name(fails)}): {message}")
        self._drop(name, message)

    def _drop(self, name: str, reason: str) -> None:
        self.gone.add(name)
        self._history.gone[name] = reason


class TypeChange(LanguageTypeError):
    """A loop that changes the type of a variable, `name`."""

    def __init__(self, name: str, message: str) -> None:
        self.name = name
        super().__init__(message)


class Loop(Frame):
    """A loop at run time.  A number that its body assigns is a run-time scalar from its head on."""

    def __init__(self, builder: Builder, facts: LoopFacts, before: Variables, line: int, history: History) -> None:
        super().__init__()
        self.facts = facts
        self._line = line
        self._history = history
        self._began = {name: history.line(name) for name in facts.carried}
        self._inner = tuple(n for n in facts.inner if n not in before and n != facts.target)
        self._head: dict[str, Any] = {}
        for name in facts.carried:
            if name in before:
                value = semantic.decay(builder, before[name]) if name in facts.decaying else before[name]
                self._head[name] = self.new[name] = value

    def end_of_iteration(self, now: Variables) -> None:
        """TypeChange unless every carried variable still has the type that it had before the loop."""
        for name, head in self._head.items():
            if name in now and not same_type(head, now[name]):
                raise TypeChange(name, type_change_message(name, head, self._began[name], now[name],
                                                           f"line {self._line}"))

    def close(self, after: Variables) -> None:
        """The loop has ended: names that its body introduced are gone."""
        self.new.clear()
        for name in self._inner:
            if name in after:
                self.gone.add(name)
                self._history.gone[name] = (
                    f"it is assigned inside the loop at line {self._line}, whose body may not run; assign it before "
                    "the loop as well")


class CountedLoop(Loop):
    """A `for` over a range, `items`; the index is a scalar of the type of `start`.

    After a loop without iterations the index is `start`, unless it had a value before.
    """

    def __init__(self, builder: Builder, facts: LoopFacts, before: Variables, line: int, history: History,
                 start: tensor, items: range) -> None:
        super().__init__(builder, facts, before, line, history)
        self._builder = builder
        self._start = start
        self.items = items

    def item(self, index: int) -> tensor:
        return constant(self._builder, index, self._start.dtype)  # type: ignore[arg-type]

    def close(self, after: Variables) -> None:
        super().close(after)
        if self.facts.target and self.facts.target not in after:
            self.new[self.facts.target] = self._start


class Unrolled(Frame):
    """A `for` whose items are known at compile time: nothing happens to the variables."""

    def __init__(self, items: Sequence[Any]) -> None:
        super().__init__()
        self.items = items

    def item(self, item: Any) -> Any:
        return item

    def end_of_iteration(self, now: Variables) -> None:
        """Types may change from copy to copy."""

    def close(self, after: Variables) -> None:
        """Names stay."""


def scalar_value(x: tensor) -> bool:
    """The truth of an int1 scalar."""
    return bool(x.handle.numbers())


def _run_time_type(value: Any) -> Any:
    """The type that a tensor has, or a number would have; None for anything else."""
    if isinstance(value, tensor):
        return value.type
    return literal_type(value.value) if isinstance(value, constexpr) and is_number(value) else None
