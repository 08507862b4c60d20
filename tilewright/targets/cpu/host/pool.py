"""A pool of Python threads that help with launches, and the hand-out of a launch's program ids.

Native code runs without the interpreter lock, so Python threads are enough to use every core.  Idle threads block on
a queue and cost nothing.  A worker that wakes late finds nothing to claim and is never waited for.
Each participant owns a contiguous range of program ids, takes chunks from its head, and when it is empty steals
chunks from the tail of the fullest range (static ranges with stealing were best on even and on skewed grids:
docs/design.md, Targets).  Tests: tests/targets/cpu_host/test_pool.py.
"""

from __future__ import annotations

import os
import queue
import threading
import weakref
from collections.abc import Callable

Task = Callable[[], None]


class ThreadPool:
    """Daemon threads that run tasks; they are started when first needed, and again in the child after a fork."""

    def __init__(self, name: str = "tilewright") -> None:
        self._name = name
        self._reset()
        if hasattr(os, "register_at_fork"):   # not on Windows
            this = weakref.ref(self)

            def renew() -> None:
                pool = this()
                if pool is not None:
                    pool._reset()

            os.register_at_fork(after_in_child=renew)

    def _reset(self) -> None:
        """Forget threads and locks: after a fork the threads are gone and a lock may be held by one of them."""
        self._queue: queue.SimpleQueue[Task | None] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._started = 0
        self._finalizer = weakref.finalize(self, _stop, self._queue, 0)
        self._finalizer.atexit = False

    def submit(self, task: Task, copies: int) -> None:
        """Let up to `copies` threads run `task` once each, when they are free."""
        if self._started < copies:
            self._start(copies)
        for _ in range(copies):
            self._queue.put(task)

    def _start(self, count: int) -> None:
        with self._lock:
            while self._started < count:
                thread = threading.Thread(target=_serve, args=(self._queue,), daemon=True,
                                          name=f"{self._name}-{self._started}")
                thread.start()
                self._started += 1
            self._finalizer.detach()
            self._finalizer = weakref.finalize(self, _stop, self._queue, self._started)
            self._finalizer.atexit = False


def _serve(tasks: queue.SimpleQueue[Task | None]) -> None:
    while (task := tasks.get()) is not None:
        task()
        del task    # what a launch holds must not outlive it here


def _stop(tasks: queue.SimpleQueue[Task | None], threads: int) -> None:
    for _ in range(threads):
        tasks.put(None)


class Ranges:
    """Program ids first..last-1, handed out in chunks to participants that come and go.

    With `leader`, range 0 is the caller's own and it claims without joining; helpers `join` and `leave`.
    """

    def __init__(self, first: int, last: int, participants: int, leader: bool, chunk: int) -> None:
        total = last - first
        cuts = [first + total * k // participants for k in range(participants + 1)]
        self._heads, self._tails = cuts[:-1], cuts[1:]
        self._chunk = chunk
        self._lock = threading.Lock()
        self._joined = int(leader)
        self._inside = 0
        self._closed = False
        self._drained = threading.Lock()   # free once a helper has found nothing to claim
        self._drained.acquire()
        self._empty = threading.Lock()     # free once the work is closed and no helper is inside
        self._empty.acquire()

    def claim(self, owner: int) -> tuple[int, int] | None:
        """The next chunk for participant `owner`: (first, last), or None when all are handed out."""
        with self._lock:
            head, tail = self._heads[owner], self._tails[owner]
            if head < tail:
                end = min(head + self._chunk, tail)
                self._heads[owner] = end
                return head, end
            left = [t - h for h, t in zip(self._heads, self._tails)]
            victim = max(range(len(left)), key=left.__getitem__)
            if left[victim] <= 0:
                return None
            tail = self._tails[victim]
            start = max(self._heads[victim], tail - self._chunk)
            self._tails[victim] = start
            return start, tail

    def join(self) -> int | None:
        """Enter as a helper: its number, or None if the work has ended or all places are taken."""
        with self._lock:
            if self._closed or self._joined == len(self._heads):
                return None
            self._joined += 1
            self._inside += 1
            return self._joined - 1

    def leave(self) -> None:
        """A helper that has found nothing to claim goes."""
        with self._lock:
            self._inside -= 1
            if self._drained.locked():
                self._drained.release()
            if self._closed and self._inside == 0 and self._empty.locked():
                self._empty.release()

    def wait_until_drained(self, look: Callable[[], None], every_s: float = 1.0) -> None:
        """Wait for the first helper that finds nothing to claim; Ctrl-C gets through, and `look` is called."""
        while not self._drained.acquire(timeout=every_s):
            look()

    def close(self) -> None:
        """No more joins; wait for the helpers inside.  May be called again when an interrupt cut it short."""
        with self._lock:
            self._closed = True
            waiting = self._inside > 0
        if waiting:
            while not self._empty.acquire(timeout=1.0):
                pass
