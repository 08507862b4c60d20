"""One compile child, seen from its parent: start, ask, end.

Before: nothing.  After: no process, no zombie and no open file is left, whether the child ended by itself, was ended
here, or the parent forked (then `abandon` leaves it to the process that started it).
Tests: tests/targets/llvm/test_client.py.
"""

from __future__ import annotations

import importlib.util
import os
import select
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

from tilewright.diagnostics import TritonError
from tilewright.targets.llvm.frames import read_frame, write_frame
from tilewright.targets.llvm.machine import Meanwhile

PACKAGE = Path(__file__).resolve().parents[2]
_LOG_LIMIT = 1 << 20
# The package's face imports NumPy and the runtime, of which the child needs nothing: an empty package of its name
# makes its modules importable without it.
_PROGRAM = """\
import sys, types
sys.path += {path!r}
package = types.ModuleType({name!r})
package.__path__ = [{folder!r}]
sys.modules[{name!r}] = package
from {name}.targets.llvm.server import serve
serve({parent})
"""


class ChildDiedError(Exception):
    """The child ended before it had answered; the text says how, and what it printed."""


class ChildTimeoutError(Exception):
    """The child did not answer in time, and was ended."""


class Child:
    """A running compile child."""

    def __init__(self) -> None:
        self._log = _log_file()
        try:
            self._process: subprocess.Popen[bytes] = subprocess.Popen(
                command(os.getpid()), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._log, bufsize=0,
                start_new_session=True)     # Ctrl-C and Ctrl-Z of the terminal are for the parent alone
        except (OSError, ValueError) as error:
            self._log.close()
            raise TritonError(f"cannot start the compile child with {sys.executable!r}: {error}; "
                              "TILEWRIGHT_COMPILE_IN_PROCESS=1 compiles in this process") from error
        assert self._process.stdin is not None and self._process.stdout is not None
        self._requests, self._replies = self._process.stdin.fileno(), self._process.stdout.fileno()

    @property
    def pid(self) -> int:
        return self._process.pid

    def ask(self, fields: Sequence[bytes], timeout_s: float, meanwhile: Meanwhile = None) -> list[bytes]:
        """The reply to a request; `meanwhile` is called when it has been sent.  After an error of any kind the child
        is no more."""
        wait = _Patience(self._replies, timeout_s)
        try:
            write_frame(self._requests, fields)
            if meanwhile is not None:
                meanwhile()
            reply = read_frame(wait.read)
        except OSError:         # a broken pipe or half a frame
            reply = None
        except BaseException:   # also Ctrl-C: the reply that comes later would answer the wrong request
            self.end()
            raise
        if reply is None:
            raise ChildDiedError(self._obituary())
        self._shorten_log()
        return reply

    def _obituary(self) -> str:
        try:
            status: int | None = self._process.wait(1)     # the pipe is closed shortly before the process has ended
        except subprocess.TimeoutExpired:
            status = None
        log = self._read_log()
        self.end()
        return f"{_how_it_ended(status)}{': ' + log if log else ''}"

    def _read_log(self) -> str:
        self._log.seek(0)
        return self._log.read(_LOG_LIMIT).decode(errors="replace").strip()

    def _shorten_log(self) -> None:
        """Forget what was printed during requests that went well; the child writes at the shared position."""
        if self._log.tell():
            self._log.seek(0)
            self._log.truncate()

    def end(self) -> None:
        """End the process, now, and an assembler that it runs."""
        if hasattr(os, "killpg"):
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self._process.pid, signal.SIGKILL)    # it leads a session of its own
        self._process.kill()
        self._process.wait()
        self._close()

    def abandon(self) -> None:
        """Let go of a child that belongs to the process from which this one was forked."""
        self._process.returncode = 0    # so that Popen neither waits for it nor warns
        self._close()

    def _close(self) -> None:
        for file in (self._process.stdin, self._process.stdout, self._log):
            if file is not None:
                with suppress(OSError):
                    file.close()


class _Patience:
    """Reads from a pipe, but not for longer than `timeout_s` in all."""

    def __init__(self, descriptor: int, timeout_s: float) -> None:
        self._descriptor = descriptor
        self._deadline = time.monotonic() + timeout_s
        self._poll: Any = None
        if timeout_s > 0 and hasattr(select, "poll"):       # not on Windows: there it is not limited
            self._poll = select.poll()
            self._poll.register(descriptor, select.POLLIN)

    def read(self, count: int) -> bytes:
        if self._poll is not None and not self._poll.poll(max(0.0, self._deadline - time.monotonic()) * 1000):
            raise ChildTimeoutError
        return os.read(self._descriptor, min(count, 1 << 20))


def command(parent: int) -> list[str]:
    """The command line of a child of process `parent`."""
    if not sys.executable:
        raise ValueError("this process does not know its Python")
    program = _PROGRAM.format(path=search_path(), name=PACKAGE.name, folder=str(PACKAGE), parent=parent)
    return [sys.executable, "-I", "-S", "-c", program]      # without `site`, whose .pth files cost more than LLVM


def search_path() -> list[str]:
    """Where the child finds llvmlite: its folder first, since looking through all of the path takes time."""
    found = importlib.util.find_spec("llvmlite")
    first = [str(Path(found.origin).parents[1])] if found is not None and found.origin else []
    return list(dict.fromkeys([*first, *(os.path.abspath(p) for p in sys.path)]))


def _log_file() -> IO[bytes]:
    """A file without a name for what the child prints."""
    if hasattr(os, "memfd_create"):
        return open(os.memfd_create("tilewright-compile-child"), "w+b", buffering=0)
    return tempfile.TemporaryFile(buffering=0)


def _how_it_ended(status: int | None) -> str:
    if status is None:
        return "it closed its pipe"
    if status < 0:
        return f"signal {-status}, {signal.Signals(-status).name}" if -status in set(signal.Signals) else \
            f"signal {-status}"
    return f"exit status {status}"
