"""Named parts of a program, as frames of the profiles of what is launched in them.  Tests: tests/profiler/."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from tilewright.profiler.sessions import PROFILER
from tilewright.profiler.tree import CPU_TIME

F = TypeVar("F", bound=Callable[..., Any])


class scope:
    """`with scope(name, metrics):` or `@scope(name)`: a frame; `metrics` (name to number) are added to it each time."""

    def __init__(self, name: str, metrics: Mapping[str, float] | None = None) -> None:
        self.name, self.metrics = name, dict(metrics or {})

    def __enter__(self) -> scope:
        PROFILER.enter(self.name)
        return self

    def __exit__(self, *error: object) -> None:
        PROFILER.leave(self.metrics)

    def __call__(self, func: F) -> F:
        @functools.wraps(func)
        def inside(*args: Any, **kwargs: Any) -> Any:
            with type(self)(self.name, self.metrics):
                return func(*args, **kwargs)

        return inside       # type: ignore[return-value]


class cpu_timed_scope(scope):
    """A scope that also has the time that passes for the host: metric `cpu_time (ns)`."""

    def __init__(self, name: str, metrics: Mapping[str, float] | None = None) -> None:
        if metrics and CPU_TIME in metrics:
            raise ValueError(f"{CPU_TIME} is what cpu_timed_scope measures; give it no metric of that name")
        super().__init__(name, metrics)

    def __enter__(self) -> scope:
        self._start = time.perf_counter_ns()
        return super().__enter__()

    def __exit__(self, *error: object) -> None:
        PROFILER.leave({**self.metrics, CPU_TIME: time.perf_counter_ns() - self._start})


class state(scope):
    """`with state(name):` or `@state(name)`: a frame of that name inside of those of the scopes."""

    def __init__(self, name: str, metrics: Mapping[str, float] | None = None) -> None:
        super().__init__(name, metrics)


def enter_scope(name: str, *, metrics: Mapping[str, float] | None = None) -> None:
    """Enter a scope that `exit_scope` ends."""
    PROFILER.enter(name)
    _GIVEN.append(dict(metrics or {}))


def exit_scope(name: str | None = None, *, metrics: Mapping[str, float] | None = None) -> None:
    """End the innermost scope; a ValueError if that is not `name`."""
    if name is not None and (not PROFILER.scopes or PROFILER.scopes[-1].name != name):
        raise ValueError(f"{name!r} is not the innermost scope, which is "
                         f"{PROFILER.scopes[-1].name if PROFILER.scopes else None!r}")
    given = _GIVEN.pop() if _GIVEN else {}
    PROFILER.leave({**given, **(metrics or {})})


def enter_state(name: str) -> None:
    """Enter a state that `exit_state` ends."""
    enter_scope(name)


def exit_state() -> None:
    """End the state."""
    exit_scope()


_GIVEN: list[dict[str, float]] = []     # the metrics of scopes that are entered by enter_scope
