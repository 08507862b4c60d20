"""Stepping: a debugger in the eager engine sees the user's frames and none of ours.

A debugger is a trace function (`sys.settrace`), which Python calls for each new frame.  Instrumented code takes it
away, by calls of C functions that make no frame, as the last thing before a step is called
(`instrument_expressions.py`); the step puts it back when it ends, and `Tracing.user_code` does for the time in which
another function of the user runs.  So `step` at a call of a @jit function stops in that function, and `step` at
`x + 1` at the next line.
Tests: tests/interpret/test_debugger.py.
"""

from __future__ import annotations

import bdb
import functools
import sys
import types
from collections.abc import Callable
from typing import Any

from tilewright.diagnostics import is_own

_set: Any = sys.settrace


def hide_own_frames() -> None:
    """Have debuggers that are built on Python's (pdb, ipdb) list the user's frames only: `where`, `up`, `down`.

    They walk from a kernel's frame outwards, through ours, and cannot be told to leave frames out.  So their common
    class gets another way to list a stack, for good, by the first kernel that a debugger looks into.  Who debugs this
    package, and stops in one of its frames, sees all.
    """
    walk = bdb.Bdb.get_stack
    if hasattr(walk, "hides_own_frames"):
        return

    @functools.wraps(walk)
    def get_stack(self: Any, f: types.FrameType | None, t: types.TracebackType | None) -> Any:
        stack, current = walk(self, f, t)
        if is_own(stack[-1][0]):
            return stack, current
        kept = [number for number, (frame, _) in enumerate(stack) if number == current or not is_own(frame)]
        return [stack[number] for number in kept], kept.index(current)

    get_stack.hides_own_frames = True       # type: ignore[attr-defined]
    bdb.Bdb.get_stack = get_stack           # type: ignore[method-assign]


class Tracing:
    """The trace function of the debugger at work, while our own code runs without it."""

    __slots__ = ("tracer",)

    def __init__(self) -> None:
        self.tracer: Any = None

    def user_code(self, function: Callable[..., Any], *args: Any) -> Any:
        """`function(*args)`, seen by the debugger."""
        try:
            # one line, so that nothing is stopped at between the end of `function` and that of the tracing
            _, result, self.tracer, _ = _set(self.tracer), function(*args), sys.gettrace(), _set(None)
        except BaseException:
            self.tracer = sys.gettrace()
            sys.settrace(None)
            raise
        finally:
            self._unmark()
        return result

    def resume(self) -> None:
        """Give the debugger its trace function back; the last thing that our code does before the user's goes on."""
        sys.settrace(self.tracer)

    def begin(self) -> None:
        """At the beginning of a launch: no tracing but in `user_code`."""
        self.tracer = sys.gettrace()
        sys.settrace(None)
        if self.tracer is not None:
            hide_own_frames()

    def end(self) -> None:
        """At the end of a launch."""
        if self.tracer is not None:
            sys.settrace(self.tracer)

    def _unmark(self) -> None:
        """A debugger that was started in a kernel has marked all frames below it to be stopped in; ours are not."""
        frame: types.FrameType | None = sys._getframe(1) if self.tracer is not None else None
        while frame is not None:
            if is_own(frame):
                frame.f_trace = None
            frame = frame.f_back
