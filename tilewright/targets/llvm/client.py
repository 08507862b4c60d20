"""LLVM in child processes: a death of LLVM is an error of one compilation, and several compile at once.

Children are started when they are needed, or ahead by `prepare`, and are used again.  A request whose child dies is
asked once more of a fresh child, since it may have been ended from outside; a second death is the text's fault.
Usable from any thread; after a fork the new process has no children and starts its own.
Before and after a call no child is left in the middle of a request.  Tests: tests/targets/llvm/test_client.py.
"""

from __future__ import annotations

import os
import re
import tempfile
import threading
import weakref
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from tilewright.diagnostics import CompilationError, InternalError
from tilewright.targets.llvm.child import Child, ChildDiedError, ChildTimeoutError
from tilewright.targets.llvm.machine import CUBIN, FROM_PTX, Compiler, Machine, Meanwhile, Request, refused_by_assembler
from tilewright.targets.llvm.requests import DONE, HOST, NOT_ASSEMBLED, REFUSED, pack, reproducer, suffix_of

DEFAULT_TIMEOUT_S = 300.0


class AssemblerRefusedError(Exception):
    """What the assembler says of PTX that it does not take."""


class CompileChildren(Compiler):
    """Up to `limit` children (0: a core each), which get `timeout_s` a request (0: for ever).

    `reproducers` is the folder for texts that LLVM died of; None is the system's folder for temporary files.
    """

    def __init__(self, limit: int = 0, timeout_s: float = DEFAULT_TIMEOUT_S, reproducers: Path | None = None) -> None:
        self._limit = limit or os.cpu_count() or 1
        self._timeout_s = timeout_s
        self._reproducers = reproducers
        self._host: Machine | None = None
        self._reset()
        if hasattr(os, "register_at_fork"):     # not on Windows
            this = weakref.ref(self)

            def renew() -> None:
                children = this()
                if children is not None:
                    children._forget()

            os.register_at_fork(after_in_child=renew)

    def _reset(self) -> None:
        self._all: set[Child] = set()
        self._idle: list[Child] = []
        self._starting = 0      # places taken for children that are being started
        self._changed = threading.Condition()
        self._finalizer = weakref.finalize(self, _end_all, self._all)

    def _forget(self) -> None:
        """In a forked process: the children are another's, and the lock may be held by a thread that is not here."""
        self._finalizer.detach()
        for child in self._all:
            child.abandon()
        self._reset()

    def close(self) -> None:
        """End all children.  Later requests start new ones."""
        self._finalizer()
        self._reset()

    def pids(self) -> list[int]:
        """The processes of the children, for tests and for people who look for them."""
        return [child.pid for child in list(self._all)]

    # -- what a compiler does ---------------------------------------------------------------------------------------

    def prepare(self) -> None:
        with self._changed:
            if self._all or self._starting:
                return
        self._give_back(self._take())

    def host(self) -> Machine:
        if self._host is None:
            self._host = Machine(*(field.decode() for field in self._ask([HOST])))
        return self._host

    def products(self, request: Request, name: str, meanwhile: Meanwhile = None) -> list[bytes]:
        who = {CUBIN: "LLVM or the assembler", FROM_PTX: "The assembler"}.get(request.output, "LLVM")
        try:
            return self._ask(pack(request), meanwhile)
        except AssemblerRefusedError as refusal:
            raise refused_by_assembler(name, str(refusal)) from None
        except ChildDiedError as death:
            raise CompilationError(
                f"{who} ended its process while it compiled {name} ({death}); {self._keep(request, name)}") from None
        except ChildTimeoutError:
            lines = request.text.count("\n")
            raise CompilationError(
                f"{who} has not compiled {name} within {self._timeout_s:g} s (TILEWRIGHT_COMPILE_TIMEOUT): it comes to "
                f"{lines} lines, of which smaller blocks, more warps or fewer unrolled iterations make less; "
                f"{self._keep(request, name)}") from None

    def _ask(self, fields: Sequence[bytes], meanwhile: Meanwhile = None) -> list[bytes]:
        try:
            reply = self._ask_once(fields, meanwhile)
        except ChildDiedError:
            reply = self._ask_once(fields)
        status, *values = reply
        if status == DONE:
            return values
        text = values[0].decode()
        if status == NOT_ASSEMBLED:
            raise AssemblerRefusedError(text)
        raise InternalError(text if status == REFUSED else f"the compile child failed: {text}")

    def _ask_once(self, fields: Sequence[bytes], meanwhile: Meanwhile = None) -> list[bytes]:
        with self._child() as child:
            return child.ask(fields, self._timeout_s, meanwhile)

    def _keep(self, request: Request, name: str) -> str:
        """Save the text that LLVM died of; the part of the message that says where."""
        prefix = re.sub(r"\W", "_", name) + "-"
        for folder in (self._reproducers, None):
            try:
                descriptor, path = tempfile.mkstemp(suffix_of(request), prefix, folder)
                with open(descriptor, "w", encoding="utf-8") as file:
                    file.write(reproducer(request))
            except OSError:
                continue
            return f"the text is in {path}, and `python -m tilewright.targets.llvm.server {path}` repeats it"
        return "the text could not be saved"

    # -- who works ----------------------------------------------------------------------------------------------------

    @contextmanager
    def _child(self) -> Iterator[Child]:
        """A child of one's own for the time of a request; one that failed is not used again."""
        child = self._take()
        try:
            yield child
        except BaseException:
            with self._changed:
                self._all.discard(child)
                self._changed.notify()
            raise
        self._give_back(child)

    def _take(self) -> Child:
        with self._changed:
            while not self._idle and len(self._all) + self._starting >= self._limit:
                self._changed.wait()
            if self._idle:
                return self._idle.pop()
            self._starting += 1
        child = None
        try:
            child = Child()
        finally:
            with self._changed:
                self._starting -= 1
                if child is not None:
                    self._all.add(child)
                else:
                    self._changed.notify()
        return child

    def _give_back(self, child: Child) -> None:
        with self._changed:
            self._idle.append(child)
            self._changed.notify()


def _end_all(children: set[Child]) -> None:
    while children:
        children.pop().end()


CHILDREN = CompileChildren()     # for whoever has no settings of its own; children are shared by all of a process
