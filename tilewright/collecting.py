"""Python's garbage collector rests while the compiler makes IR and text.

They are thousands of objects that live for some milliseconds and are in no cycle.  The collector looks through them
again and again, and moves them on to where it then thinks that all of the heap has to be looked through: with torch and
triton loaded that takes 80 ms and more, in the middle of a compilation of 40 (H200's host, 2026-11-30).
It works as before while a compile child is waited for.  Tests: tests/test_collecting.py.
"""

from __future__ import annotations

import gc
import os

from tilewright.locks import ForkSafeLock


class _Rest:
    """For `with`, from any thread, also in itself: the collector works again when nobody is inside."""

    def __init__(self) -> None:
        self._lock = ForkSafeLock()
        self._inside = 0
        self._worked = False        # before the first one came in
        if hasattr(os, "register_at_fork"):     # not on Windows
            os.register_at_fork(after_in_child=self._end)

    def __enter__(self) -> None:
        with self._lock:
            if not self._inside:
                self._worked = gc.isenabled()
                gc.disable()
            self._inside += 1

    def __exit__(self, *_: object) -> None:
        with self._lock:
            if self._inside:        # not in the process that a fork has made meanwhile
                self._inside -= 1
                if not self._inside and self._worked:
                    gc.enable()

    def _end(self) -> None:
        """In a forked process, which has none of the threads that were inside, or is inside by itself."""
        if self._inside:
            self._inside = 0
            if self._worked:
                gc.enable()


COLLECTOR_RESTS = _Rest()
