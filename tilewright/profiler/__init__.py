"""Where a program's time goes, kernel by kernel: triton's `proton`, as far as it goes without a library of NVIDIA's.

    session = profiler.start("run", hook="triton")
    with profiler.scope("forward"):
        kernel[grid](...)
    profiler.finalize()             # run.hatchet, which `profiler.viewer` reads

`sessions.py` says what is measured, `viewer.py` prints.  Tests: tests/profiler/.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from tilewright.profiler.scopes import (
    cpu_timed_scope,
    enter_scope,
    enter_state,
    exit_scope,
    exit_state,
    scope,
    state,
)
from tilewright.profiler.sessions import DEFAULT_PROFILE_NAME, PROFILER

__all__ = ["DEFAULT_PROFILE_NAME", "activate", "cpu_timed_scope", "deactivate", "enter_scope", "enter_state",
           "exit_scope", "exit_state", "finalize", "profile", "scope", "start", "state"]


def start(name: str | None = None, *, context: str | None = "shadow", data: str | None = "tree",
          backend: str | None = None, mode: Any = None, hook: str | None = None) -> int:
    """Start a session, which takes launches from now on, and give its number; its file will be `name`.hatchet.

    With `hook="triton"` launches have what the kernel's `launch_metadata` tells.  There is one kind of `context`
    ("shadow", scopes), of `data` ("tree") and of `mode` (None); `backend` makes no difference.  ValueError for others.
    """
    for what, value, allowed in (("context", context, ("shadow", None)), ("data", data, ("tree", None)),
                                 ("mode", mode, (None, "", "default")), ("hook", hook, ("triton", None)),
                                 ("backend", backend, (None, "cupti", "cupti_pcsampling"))):
        if value not in allowed:
            raise ValueError(f"{what}={value!r} is not supported; allowed are {', '.join(map(repr, allowed))}")
    return PROFILER.start(DEFAULT_PROFILE_NAME if name is None else name, with_metadata=hook == "triton")


def activate(session: int | None = None) -> None:
    """Let a session, or all, take launches."""
    PROFILER.set_active(session, True)


def deactivate(session: int | None = None, flushing: bool = False) -> None:
    """Let a session, or all, take no launches until it is activated."""
    PROFILER.set_active(session, False)


def finalize(session: int | None = None, output_format: str | None = "") -> None:
    """End a session, or all, and write its file.  ValueError for another `output_format` than hatchet's."""
    if output_format not in ("", None, "hatchet"):
        raise ValueError(f"output_format={output_format!r} is not supported; allowed is 'hatchet'")
    PROFILER.finish(session)


def profile(func: Callable[..., Any] | None = None, *, name: str | None = None, **options: Any) -> Any:
    """`@profile` or `@profile(name=...)`: a session for each call of the function; `finalize` writes its file."""
    if func is None:
        return lambda given: profile(given, name=name, **options)

    @functools.wraps(func)
    def profiled(*args: Any, **kwargs: Any) -> Any:
        session = start(name, **options)
        try:
            return func(*args, **kwargs)
        finally:
            deactivate(session)

    return profiled
