"""A lock that a forked process finds free, whoever held it in the process that forked.

The threads of the old process are not in the new one, so one that held the lock would never give it back.  What the
lock guards has to be right at every instant between two bytecodes, since the holder may have been anywhere.
`NO_FORK` is the opposite, for what cannot be made right in the new process: a fork waits until it is free.
Tests: tests/runtime/test_locks.py.
"""

from __future__ import annotations

import os
import threading


class ForkSafeLock:
    """A re-entrant lock, for `with`."""

    def __init__(self) -> None:
        self._renew()

    def _renew(self) -> None:
        self._lock = threading.RLock()
        self._process = os.getpid()

    def __enter__(self) -> None:
        if self._process != os.getpid():
            self._renew()
        self._lock.acquire()

    def __exit__(self, *_: object) -> None:
        self._lock.release()


class NoFork:
    """A re-entrant lock, for `with`, that a fork takes: while a thread holds it, other threads' forks wait."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        if hasattr(os, "register_at_fork"):     # not on Windows
            os.register_at_fork(before=self._lock.acquire, after_in_parent=self._lock.release,
                                after_in_child=self._lock.release)

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(self, *_: object) -> None:
        self._lock.release()


# Held by every import inside a function: Python's lock of a module that a thread of the old process was importing is
# never free in the new one (tests/habits/test_state_and_names.py looks at the sources for it).
NO_FORK = NoFork()
