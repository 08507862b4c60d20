"""Tests in many processes, of which any may die or hang: each test gets a result, and the others go on.

Tests: tests/testing/test_gpu_pool.py.
"""

from __future__ import annotations

import os
import queue
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, Listener
from pathlib import Path

START_SECONDS = 120.0       # for a process to import and collect


@dataclass(frozen=True, slots=True)
class Result:
    """What came of one test; `outcome` is passed, failed or skipped."""

    test: str
    outcome: str
    reason: str = ""
    text: str = ""
    seconds: float = 0.0

    @property
    def file(self) -> str:
        return self.test.partition("::")[0]


@dataclass
class Pool:
    """`arguments` are pytest's; `under` is a command that runs a process, such as compute-sanitizer's."""

    arguments: Sequence[str]
    processes: int
    test_seconds: float                 # a test that takes longer has hung
    folder: Path                        # logs of the processes
    under: Sequence[str] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    until: float = float("inf")         # time.monotonic() after which no test is started
    report: Callable[[Result], None] = lambda result: None

    def run(self) -> list[Result]:
        """Run all tests; those for which there was no time are missing."""
        self._tests: queue.SimpleQueue[str] = queue.SimpleQueue()
        self._results: dict[str, Result] = {}
        self._known: set[str] = set()
        self._lock = threading.Lock()
        threads = [threading.Thread(target=self._serve, args=(n,)) for n in range(self.processes)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return [self._results[test] for test in sorted(self._results)]

    @property
    def left(self) -> list[str]:
        """Tests that have no result."""
        return sorted(self._known - self._results.keys())

    def _add(self, tests: Iterable[str]) -> None:
        """The tests that a process has collected; all processes collect the same."""
        with self._lock:
            if not self._known:
                self._known.update(tests)
                for test in tests:
                    self._tests.put(test)

    def _serve(self, number: int) -> None:
        """Keep one process at work, replaced when it is lost."""
        failures = 0
        while failures < 3 and time.monotonic() < self.until:
            with tempfile.TemporaryDirectory() as place, Listener(f"{place}/socket") as listener, \
                    (self.folder / f"process-{number}.log").open("ab") as log:
                process = subprocess.Popen(
                    [*self.under, sys.executable, "-m", "tests.gpu.worker", f"{place}/socket", *self.arguments],
                    env={**os.environ, **self.environment}, stdout=log, stderr=log, start_new_session=True)
                connection = self._connected(listener, process)
                if connection is None:
                    failures += 1
                    continue
                with connection:
                    finished = self._feed(connection, process)
                self._end(process, 60.0 if finished else 2.0)
                if finished:
                    return

    def _connected(self, listener: Listener, process: subprocess.Popen[bytes]) -> Connection | None:
        """The connection, once the process has sent the names of its tests."""
        found: list[Connection] = []
        accept = threading.Thread(target=lambda: found.append(listener.accept()), daemon=True)
        accept.start()
        end = time.monotonic() + START_SECONDS
        while time.monotonic() < min(end, self.until) and process.poll() is None:
            accept.join(0.05)
            try:
                if found and found[0].poll(0.2):
                    self._add(found[0].recv())
                    return found[0]
            except (EOFError, ConnectionError):
                break
        self._end(process, 0.0)
        return None

    def _feed(self, connection: Connection, process: subprocess.Popen[bytes]) -> bool:
        """Send tests until there are none (True) or the process is lost."""
        while time.monotonic() < self.until:
            try:
                test = self._tests.get_nowait()
            except queue.Empty:
                break
            start = time.monotonic()
            try:
                connection.send(test)
                if not connection.poll(self.test_seconds):
                    self._note(Result(test, "failed", f"no end within {self.test_seconds:g} s", "", self.test_seconds))
                    return False
                outcome, reason, text, seconds, lost = connection.recv()
            except (EOFError, ConnectionError):
                status = self._end(process, 5.0)
                self._note(Result(test, "failed", f"the process ended with status {status}", "",
                                  time.monotonic() - start))
                return False
            self._note(Result(test, outcome, reason, text, seconds))
            if lost:            # the context of its GPU, so it ends
                return False
        connection.send(None)
        return True

    def _note(self, result: Result) -> None:
        with self._lock:
            self._results[result.test] = result
            self.report(result)

    @staticmethod
    def _end(process: subprocess.Popen[bytes], patience: float) -> int:
        """Wait for the process, and end it and its children if that takes too long."""
        try:
            process.wait(patience)
        except subprocess.TimeoutExpired:
            pass
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        return process.wait()
