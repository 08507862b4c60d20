"""From PTX to a cubin, in the process that calls: with nvJitLink as a library, or with ptxas as a program.

nvJitLink is the quicker one, since its library stays loaded.  It assembles for linking, though, where `setmaxnreg` is
ignored (advisory C7504), so PTX with that goes to ptxas (experiment of 2026-11-29 on an H200: attention 1.8 times
slower).  An nvJitLink that does not know the architecture or cannot be loaded is as good as none.
Its own cache stays off: what is made here is kept by who asks, and to use the cache it loads and initialises the
driver, which no compile child needs (option `-no-cache`; 13.0 and 12.9 have it).
The compile child runs this (`server`), so that a death of the library is an error of one compilation.
Before: PTX.  After: `Cubin`; its log is that of `ptxas -v`.  Tests: tests/targets/llvm/test_cubin.py.
"""

from __future__ import annotations

import ctypes
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from tilewright.locks import NO_FORK
from tilewright.targets.llvm.machine import Assembler

_PTX = 2                # nvJitLinkInputType, nvJitLink.h
_NO_CACHE = b"-no-cache"
_ONLY_PTXAS = b"setmaxnreg"


class AssemblerError(Exception):
    """The assembler refuses the PTX; the text is its log."""


@dataclass(frozen=True, slots=True)
class Cubin:
    """Machine code of a GPU, what the assembler says of it, and which one it was."""

    binary: bytes
    log: str
    tool: str


def assemble(ptx: bytes, cpu: str, assembler: Assembler) -> Cubin:
    """The cubin of `ptx` for `cpu` (`sm_90a`).  `AssemblerError` if it is refused, or if there is no assembler."""
    if assembler.library and (_ONLY_PTXAS not in ptx or not assembler.ptxas):
        library = _load(assembler.library)
        made = None if library is None else _linked(library, ptx, cpu, assembler)
        if made is not None:
            return made
    if not assembler.ptxas:
        raise AssemblerError("there is no ptxas, and no nvJitLink that takes this architecture")
    return _run_ptxas(ptx, cpu, assembler)


# --- nvJitLink


@cache
def _load(path: str) -> Any:
    """The library, or None."""
    try:
        library = ctypes.CDLL(path)
        library.nvJitLinkCreate, library.nvJitLinkGetLinkedCubin    # noqa: B018  (AttributeError without them)
    except (OSError, AttributeError):
        return None
    return library


def _linked(library: Any, ptx: bytes, cpu: str, assembler: Assembler) -> Cubin | None:
    """The cubin; None if ptxas, which may be newer, is to have the last word."""
    try:
        return _Link(library, cpu, assembler.options).cubin(ptx)
    except AssemblerError:
        if not assembler.ptxas:
            raise
        return None


class _Link:
    """One use of nvJitLink."""

    def __init__(self, library: Any, cpu: str, options: Sequence[str]) -> None:
        self._library = library
        self._handle = ctypes.c_void_p()
        given = [f"-arch={cpu}".encode(), b"-O3", b"-Xptxas=-v", *(o.encode() for o in options)]
        self._knows = self._created([*given, _NO_CACHE]) or self._created(given)

    def _created(self, options: Sequence[bytes]) -> bool:
        listed = (ctypes.c_char_p * len(options))(*options)
        refused = self._library.nvJitLinkCreate(ctypes.byref(self._handle), ctypes.c_uint32(len(options)), listed)
        if refused and self._handle:        # which it makes all the same
            self._library.nvJitLinkDestroy(ctypes.byref(self._handle))
        return not refused

    def cubin(self, ptx: bytes) -> Cubin | None:
        """The cubin; None if this version does not know the architecture or an option."""
        if not self._knows:
            return None
        library, handle = self._library, self._handle
        try:
            failed = (library.nvJitLinkAddData(handle, _PTX, ptx, ctypes.c_size_t(len(ptx)), b"kernel.ptx")
                      or library.nvJitLinkComplete(handle))
            if failed:
                raise AssemblerError(self._text("ErrorLog") + self._text("InfoLog"))
            return Cubin(self._bytes("LinkedCubin"), self._text("InfoLog"), f"nvJitLink {self._version()}")
        finally:
            library.nvJitLinkDestroy(ctypes.byref(handle))

    def _bytes(self, what: str) -> bytes:
        size = ctypes.c_size_t()
        if getattr(self._library, f"nvJitLinkGet{what}Size")(self._handle, ctypes.byref(size)) or not size.value:
            return b""
        buffer = ctypes.create_string_buffer(size.value)
        getattr(self._library, f"nvJitLinkGet{what}")(self._handle, buffer)
        return buffer.raw

    def _text(self, what: str) -> str:
        return self._bytes(what).rstrip(b"\0").decode(errors="replace")

    def _version(self) -> str:
        major, minor = ctypes.c_uint(), ctypes.c_uint()
        self._library.nvJitLinkVersion(ctypes.byref(major), ctypes.byref(minor))
        return f"{major.value}.{minor.value}"


# --- ptxas


def _run_ptxas(ptx: bytes, cpu: str, assembler: Assembler) -> Cubin:
    with NO_FORK:
        import subprocess
        import tempfile
    with tempfile.TemporaryDirectory(prefix="tilewright-") as folder:
        source, target = os.path.join(folder, "kernel.ptx"), os.path.join(folder, "kernel.cubin")
        with open(source, "wb") as file:
            file.write(ptx)
        command = [assembler.ptxas, "-v", "-O3", f"-arch={cpu}", *assembler.options, source, "-o", target]
        try:
            run = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)
        except OSError as error:
            raise AssemblerError(f"{assembler.ptxas} cannot be run: {error}") from None
        log = (run.stdout + run.stderr).replace(source, "kernel.ptx")
        if run.returncode:
            raise AssemblerError(log or f"ptxas ended with status {run.returncode}")
        with open(target, "rb") as file:
            return Cubin(file.read(), log, f"ptxas {_ptxas_version(assembler.ptxas)}")


@cache
def _ptxas_version(path: str) -> str:
    with NO_FORK:
        import subprocess
    text = subprocess.run([path, "--version"], capture_output=True, text=True, check=False).stdout
    found = re.search(r"V(\d+\.\d+\.\d+)", text)
    return found[1] if found else "of unknown version"
