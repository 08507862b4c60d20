"""Telling a debugger of kernels that have been loaded, so that it shows the user's Python lines.

gdb and lldb know the interface of its manual's chapter "JIT Compilation Interface": a list of object files in memory
that begins in the variable `__jit_debug_descriptor`, and a function `__jit_debug_register_code` that is called after
each change and in which the debugger has a breakpoint.  They look for both by name among the loaded libraries, so
they have to be in one: it is written here (`registration_library`) and loaded from memory, never from a file that
somebody else could have written.  An entry is a copy of the object whose section headers say where its sections are.
Before: an `Image`, of an object with a line table if lines are to be shown.  After: the debugger knows it until the
image goes.
Tests: tests/targets/cpu_host/test_debugger.py.
"""

from __future__ import annotations

import ctypes
import os
import struct
import threading
import weakref
from collections import deque

from tilewright.computed import computed
from tilewright.targets.cpu.host.elf import Image, Object
from tilewright.targets.cpu.host.registration_library import DESCRIPTOR, FUNCTION, registration_library

_REGISTER, _UNREGISTER = 1, 2       # jit_actions_t
_SH_ADDR = 16                       # offset of `sh_addr` in a section header


class _Entry(ctypes.Structure):
    """`struct jit_code_entry`."""

    _fields_ = (("next", ctypes.c_uint64), ("previous", ctypes.c_uint64), ("address", ctypes.c_uint64),
                ("size", ctypes.c_uint64))


class _Descriptor(ctypes.Structure):
    """`struct jit_descriptor`."""

    _fields_ = (("version", ctypes.c_uint32), ("action", ctypes.c_uint32), ("relevant", ctypes.c_uint64),
                ("first", ctypes.c_uint64))


class Debugger:
    """The list of this process's kernels that a debugger sees."""

    def __init__(self) -> None:
        self._lock = threading.Lock()       # the list is whole while it is free
        self._known: dict[int, tuple[_Entry, object]] = {}     # by the entry's address: what is in the list
        self._shown: weakref.WeakSet[Image] = weakref.WeakSet()
        self._leaving: deque[int] = deque()
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(before=self._lock.acquire, after_in_parent=self._lock.release,
                                after_in_child=self._lock.release)

    @computed
    def _library(self) -> ctypes.CDLL:
        """The library with the two names; it stays, and so does the file in memory that a debugger reads it from."""
        file = os.memfd_create("tilewright-debugger")
        os.write(file, registration_library(os.uname().machine))
        return ctypes.CDLL(f"/proc/{os.getpid()}/fd/{file}")

    @computed
    def descriptor(self) -> _Descriptor:
        """The beginning of the list."""
        return _Descriptor.in_dll(self._library, DESCRIPTOR)

    def add(self, image: Image) -> None:
        """Tell of an object in memory, until it goes; of one that is in the list already nothing."""
        if image in self._shown:
            return
        self._shown.add(image)
        shown = ctypes.create_string_buffer(placed(image), len(image.binary))
        entry = _Entry(0, 0, ctypes.addressof(shown), len(image.binary))
        at, descriptor = ctypes.addressof(entry), self.descriptor
        with self._lock:
            self._known[at] = (entry, shown)
            entry.next = descriptor.first
            if entry.next:
                _Entry.from_address(entry.next).previous = at
            descriptor.first = at
            self._tell(_REGISTER, at)
        weakref.finalize(image, self._remove, at).atexit = False
        self._let_go()

    def _remove(self, at: int) -> None:
        """Runs whenever an image goes: also in the middle of `add`, on the same thread."""
        self._leaving.append(at)
        self._let_go()

    def _let_go(self) -> None:
        """Take out what is leaving; whoever has the lock now will do it."""
        while self._leaving and self._lock.acquire(blocking=False):
            try:
                while self._leaving:
                    self._unlink(self._leaving.popleft())
            finally:
                self._lock.release()

    def _unlink(self, at: int) -> None:
        entry, _ = self._known.pop(at)
        if entry.previous:
            _Entry.from_address(entry.previous).next = entry.next
        else:
            self.descriptor.first = entry.next
        if entry.next:
            _Entry.from_address(entry.next).previous = entry.previous
        self._tell(_UNREGISTER, at)

    def _tell(self, action: int, at: int) -> None:
        self.descriptor.relevant, self.descriptor.action = at, action
        self._library[FUNCTION]()
        self.descriptor.relevant, self.descriptor.action = 0, 0

    def objects(self) -> list[bytes]:
        """The objects in the list, the latest first, read as a debugger does."""
        found, at = [], self.descriptor.first
        while at:
            entry = _Entry.from_address(at)
            found.append(ctypes.string_at(entry.address, entry.size))
            at = entry.next
        return found


def placed(image: Image) -> bytes:
    """The object with the addresses of its sections in their headers."""
    copy, parsed = bytearray(image.binary), Object(image.binary)
    for number, address in image.sections.items():
        struct.pack_into("<Q", copy, parsed.sections[number].header + _SH_ADDR, address)
    return bytes(copy)


DEBUGGER = Debugger()       # a process has one such list
