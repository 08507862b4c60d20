"""A lock that a forked process finds free, whoever held it in the process that forked.

The threads of the old process are not in the new one, so one that held the lock would never give it back.  What the
lock guards has to be right at every instant between two bytecodes, since the holder may have been anywhere.
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
