"""The host's own native code in this process: found in a store or compiled once, mapped, its functions by name.

The code is the same on every machine of a kind, so it is stored under a checksum of the sources that write it; a
process that finds it there imports neither those sources nor LLVM.
Tests: tests/targets/cpu_host/test_linux.py.
"""

from __future__ import annotations

import ctypes
import functools
import os
import sys
import zlib
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, Protocol

from tilewright.diagnostics import InternalError
from tilewright.locks import NO_FORK
from tilewright.targets.cpu.host.elf import Image
from tilewright.targets.llvm.machine import Compiler, Machine, Request

# The modules whose text decides the code: of the pool, of the launcher.
_WRITERS = ("native.py", "records.py", "../../llvm/text.py", "../../llvm/types.py")
POOL_SOURCES = (*_WRITERS, "pool_code.py", "sharing_code.py", "fault_code.py", "lone_code.py", "trial_code.py")
LAUNCHER_SOURCES = (*_WRITERS, "launcher_code.py", "launcher_grids.py", "launcher_values.py",
                    "launcher_tensors.py")
# How far LLVM optimises the launcher: three tensors take 10 ns less than with the few passes of level 1, which are
# enough for the pool and save a tenth of a second where nothing is stored yet.
LAUNCHER_LEVEL = 3
# CPU names of LLVM that every processor of a kind can run.
_BASELINE = {"x86_64": "x86-64", "aarch64": "generic"}


class ObjectStore(Protocol):
    """Where compiled objects are kept between processes."""

    def get(self, key: str) -> bytes | None: ...
    def put(self, key: str, data: bytes) -> object: ...


class Symbols:
    """Addresses of C functions of this process: Python's, libc's, libm's and the compiler's support library's."""

    def __init__(self) -> None:
        self._libraries: list[Any] = [ctypes.pythonapi]     # under Linux it finds what any library here has
        self._more = ["libm.so.6", "libgcc_s.so.1"]

    def __call__(self, name: str) -> int:
        while True:
            for library in self._libraries:
                with suppress(ValueError):      # it has no such symbol
                    return ctypes.addressof(ctypes.c_char.in_dll(library, name))
            if not self._more:
                raise InternalError(f"generated code calls {name!r}, which this process does not have")
            try:
                self._libraries.append(ctypes.CDLL(self._more.pop(0)))
            except OSError:
                continue


def machine_kind() -> str:
    """The processor's kind, as Linux calls it."""
    return os.uname().machine


def source_key(names: Sequence[str] = POOL_SOURCES) -> str:
    """A text that changes with the sources of the host's code and with the kind of machine."""
    folder = os.path.dirname(__file__)
    texts = []
    for name in names:
        with open(os.path.join(folder, name), "rb", buffering=0) as file:
            texts.append(file.read())
    marks = " ".join(f"{len(text)}-{zlib.crc32(text):08x}" for text in texts)     # hashlib takes 3 ms to load
    return f"host {machine_kind()} {sys.implementation.cache_tag} {marks}"


def load_object(key: str, text: Callable[[], str], compiler: Compiler, store: ObjectStore | None,
                optimise: int = 1) -> bytes:
    """The object stored under `key` and level of optimisation, or compiled from `text()` and stored now."""
    key = f"{key} {optimise}"
    binary = store.get(key) if store is not None else None
    if binary is None:
        machine = Machine(f"{machine_kind()}-unknown-linux-gnu", _BASELINE[machine_kind()], "")
        binary = compiler.compile(Request(text(), machine, optimise=optimise), "the host's own code")
        if store is not None:
            store.put(key, binary)
    return binary


def launcher_text() -> str:
    """The LLVM text of the native launcher."""
    with NO_FORK:
        from tilewright.targets.cpu.host.launcher_code import LauncherCode
        from tilewright.targets.cpu.host.native import NativeModule
    module = NativeModule()
    LauncherCode(module)
    return module.text()


def pool_text() -> str:
    """The LLVM text of the pool."""
    with NO_FORK:
        from tilewright.targets.cpu.host.native import NativeModule
        from tilewright.targets.cpu.host.pool_code import PoolCode
        from tilewright.targets.cpu.host.sharing_code import MACHINES
    module = NativeModule()
    PoolCode(module, MACHINES[machine_kind()])
    return module.text()


def keep_for_ever(thing: object) -> None:
    """Let `thing` live until the process ends, whoever lets go of it."""
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(thing))


@functools.cache
def lone_word() -> int:
    """The address of the word by which this process's launches with atomic operations know of each other."""
    word = ctypes.c_int64(0)
    keep_for_ever(word)
    return ctypes.addressof(word)


# How native functions are called.  Python's lock stays with the caller of the first, and an error that a signal's
# handler has raised is raised by the call.
_LAUNCH = ctypes.PYFUNCTYPE(ctypes.c_int64, *(ctypes.c_void_p,) * 2, *(ctypes.c_int64,) * 3, ctypes.c_void_p)
_SETTING = ctypes.PYFUNCTYPE(None)
_STOP = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


class Library:
    """The pool's code, mapped for good: its threads may be in it until the process ends."""

    def __init__(self, compiler: Compiler, store: ObjectStore | None = None) -> None:
        self.symbols = Symbols()
        self.image = Image(load_object(source_key(), pool_text, compiler, store), self.symbols)
        keep_for_ever(self.image)
        self.launch_address = self.image.symbols["launch"]
        self.launch = _LAUNCH(self.launch_address)
        self._catch, self._release = (self.image.symbols.get(name) for name in ("catch_faults", "release_faults"))
        self.stop = _STOP(self.image.symbols["stop"])

    def catch_faults(self) -> None:
        """Make memory faults of kernels errors, where this can be done, also if another handler was installed since."""
        if self._catch:
            _SETTING(self._catch)()

    def release_faults(self) -> None:
        """Put back the handlers that were there before, unless others were installed above ours."""
        if self._release:
            _SETTING(self._release)()
