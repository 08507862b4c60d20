"""Telling Linux's `perf` of code that was made while running.

    map     names only: the text file /tmp/perf-PID.map, which `perf report` looks for by itself
    dump    names, the code itself and its lines: jit-PID.dump in the folder for temporary files.  `perf record -k 1`
            notes where it is, since it is mapped once, and `perf inject --jit` makes objects of it

Formats: Documentation/jit-interface.txt and jitdump-specification.txt in Linux's tools/perf.
A forked process has files of its own, in which it repeats what it has inherited.
Before: an `Image`.  After: its functions are in the file; where that cannot be written, one warning says why.
Tests: tests/targets/cpu_host/test_perf.py.
"""

from __future__ import annotations

import ctypes
import functools
import mmap
import os
import struct
import sys
import tempfile
import threading
import time
import warnings
import weakref
from abc import ABC, abstractmethod
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from tilewright.targets.cpu.host.elf import FUNCTION, Image, Object
from tilewright.targets.cpu.host.line_program import Row, line_rows

KINDS = ("map", "dump")
_MAGIC, _VERSION, _HEADER = 0x4A695444, 1, 40
_LOAD, _DEBUG_INFO = 0, 2       # jit_record_type
_ENTRY = 16                     # bytes of a debug entry before its file's name


class Code(NamedTuple):
    """A function in memory, and the lines of its code."""

    name: str
    address: int
    size: int
    lines: tuple[Row, ...]


def functions(image: Image) -> Iterator[Code]:
    """The functions of an object in memory."""
    rows = line_rows(image)
    for symbol in Object(image.binary).symbols:
        if symbol.kind == FUNCTION and symbol.section in image.sections:
            start = image.sections[symbol.section] + symbol.value
            lines = tuple(row for row in rows if row.line and start <= row.address < start + symbol.size)
            yield Code(symbol.name, start, symbol.size, lines)


class Recorder(ABC):
    """Writes functions to this process's file."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._written: list[Code] = []
        self._images: weakref.WeakSet[Image] = weakref.WeakSet()
        self._file = -1
        self._works = True
        os.register_at_fork(before=self._lock.acquire, after_in_parent=self._lock.release, after_in_child=self._renew)

    def add(self, image: Image) -> None:
        """Tell of the functions of `image`; once, however often it is called."""
        with self._lock:
            if image in self._images:
                return
            self._images.add(image)
            found = list(functions(image))
            self._written += found
            self._append(found)

    def _renew(self) -> None:
        """In a forked process."""
        self._lock.release()
        if self._file >= 0:
            os.close(self._file)
            self._file = -1
            self._append(self._written)

    def _append(self, codes: list[Code]) -> None:
        if not self._works:
            return
        try:
            if self._file < 0:
                self._file = _own_file(self.path())
                os.write(self._file, self.start())
            os.write(self._file, b"".join(map(self.encode, codes)))
        except OSError as error:
            self._works = False
            warnings.warn(f"perf is not told of kernels: {self.path()}: {error.strerror}", RuntimeWarning, stacklevel=2)

    @abstractmethod
    def path(self) -> Path:
        """The file of this process."""

    @abstractmethod
    def start(self) -> bytes:
        """What the file begins with; called when it is open."""

    @abstractmethod
    def encode(self, code: Code) -> bytes:
        """What tells of a function."""


class Map(Recorder):
    """Names by address."""

    def path(self) -> Path:
        return Path(f"/tmp/perf-{os.getpid()}.map")     # where perf looks, whatever TMPDIR is

    def start(self) -> bytes:
        return b""

    def encode(self, code: Code) -> bytes:
        return f"{code.address:x} {code.size:x} {code.name}\n".encode()


class Dump(Recorder):
    """Names, code, lines."""

    def __init__(self) -> None:
        super().__init__()
        self._count = 0

    def path(self) -> Path:
        return Path(tempfile.gettempdir(), f"jit-{os.getpid()}.dump")

    def start(self) -> bytes:
        os.ftruncate(self._file, mmap.PAGESIZE)         # a page to map; it is cut off again
        self._mark = mmap.mmap(self._file, mmap.PAGESIZE, mmap.MAP_PRIVATE, mmap.PROT_READ | mmap.PROT_EXEC)
        os.ftruncate(self._file, 0)
        machine = {"x86_64": 62, "aarch64": 183}[os.uname().machine]
        return struct.pack("<IIIIIIQQ", _MAGIC, _VERSION, _HEADER, machine, 0, os.getpid(), _now(), 0)

    def encode(self, code: Code) -> bytes:
        self._count += 1
        name = code.name.encode() + b"\0"
        content = ctypes.string_at(code.address, code.size)
        load = struct.pack("<IIQIIQQQQ", _LOAD, 56 + len(name) + len(content), _now(), os.getpid(),
                           threading.get_native_id(), code.address, code.address, code.size, self._count)
        return self._lines(code) + load + name + content

    @staticmethod
    def _lines(code: Code) -> bytes:
        """The record of lines, which comes before that of the code."""
        if not code.lines:
            return b""
        entries = b"".join(struct.pack("<QII", row.address, row.line, 0) + os.fsencode(row.file) + b"\0"
                           for row in code.lines)
        return struct.pack("<IIQQQ", _DEBUG_INFO, 32 + len(entries), _now(), code.address, len(code.lines)) + entries


def _now() -> int:
    return time.clock_gettime_ns(time.CLOCK_MONOTONIC)      # the clock of `perf record -k 1`


def _own_file(path: Path) -> int:
    """The file, empty, opened for writing; OSError if it is a link or another user's.

    A map that Python's own perf support has begun is continued.
    """
    file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    if os.fstat(file).st_uid != os.geteuid():
        os.close(file)
        raise PermissionError(1, "the file belongs to another user")
    is_active = getattr(sys, "is_stack_trampoline_active", None)
    if is_active is None or not is_active():
        os.ftruncate(file, 0)
    return file


@functools.cache
def recorder(kind: str) -> Recorder:
    """The recorder of that kind, one for the process."""
    if kind not in KINDS:
        raise ValueError(f"TILEWRIGHT_PERF={kind!r}: expected one of {', '.join(KINDS)}, or nothing")
    return Map() if kind == "map" else Dump()
