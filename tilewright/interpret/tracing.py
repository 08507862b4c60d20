"""Stepping: a debugger in the eager engine sees the user's frames and none of ours.

A debugger is a trace function (`sys.settrace`), which Python calls for each new frame.  Instrumented code takes it
away, by calls of C functions that make no frame, as the last thing before a step is called
(`instrument_expressions.py`); the step puts it back when it ends, and `Tracing.user_code` does for the time in which
another function of the user runs.  So `step` at a call of a @jit function stops in that function, and `step` at
`x + 1` at the next line.
Tests: tests/interpret/test_debugger.py.
"""

from __future__ import annotations

import sys
import types
from collections.abc import Callable
from typing import Any

from tilewright.diagnostics import is_own

_set: Any = sys.settrace


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
