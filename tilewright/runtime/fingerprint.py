"""Texts that change with everything in this package, and below it, that generated code depends on.

`compiler_key` is for the package's own disk cache; it is known without reading the sources, as long as their sizes and
times are those of a process that has read them.  `triton_key` is for caches outside the package (torch's).
Tests: tests/runtime/test_fingerprint.py.
"""

from __future__ import annotations

import base64
import functools
import importlib.util
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from tilewright.locks import NO_FORK
from tilewright.runtime.cache import Store
from tilewright.version import VERSION

PACKAGE = Path(__file__).resolve().parents[1]
# Parts of the package that no code depends on: what makes code lies below them, and imports go down only.
_OUTSIDE = frozenset({"__pycache__", "backends", "cli", "compat", "compiler", "testing", "tools", "torch"})
# Folders of what a target does not use: targets never meet.
_OTHERS = {"cpu": frozenset({"nvidia"})}
# What tells processors apart in the first block of /proc/cpuinfo, on x86 and on Arm.
_CPU_LINES = ("vendor_id", "cpu family", "model", "stepping", "flags", "Features", "CPU implementer",
              "CPU architecture", "CPU variant", "CPU part", "CPU revision")
_SMALL = 16384          # longer than a block of it, which takes long to read as a whole on a machine with many cores
_SETTLED_NS = 2_000_000_000     # what was written so long ago has another time if it is written again


def sources(folder: Path = PACKAGE, target: str = "") -> tuple[list[str], list[str]]:
    """The package's Python files that code depends on, that of one target or all of it; and their folders."""
    files, folders, without = [], [str(folder)], _OUTSIDE | _OTHERS.get(target, frozenset())
    for inside in folders:
        for entry in os.scandir(inside):
            if entry.name.endswith(".py"):
                files.append(entry.path)
            elif entry.name not in without and entry.is_dir():
                folders.append(entry.path)
    return sorted(files), sorted(folders)


def watched(folder: Path = PACKAGE, target: str = "") -> list[str]:
    """The paths whose sizes and times tell whether somebody has written to the sources.

    An installer lists what it has installed, with hashes, in a file of its own, and writes that anew with any other
    version: it stands for all sources.  (Who edits installed files clears the cache.)
    In a source tree it is all of them, and the folders, which say that there is a new one.
    """
    record = os.path.join(folder.parent, f"{folder.name}-{VERSION}.dist-info", "RECORD")
    if os.path.exists(record):
        return [record]
    files, folders = sources(folder, target)
    return files + folders


def sources_state(paths: Sequence[str]) -> str:
    """Sizes and times of paths; empty if one is not there.

    It takes two microseconds a file, nearly all of it the system's and Python's for asking.  One text: as many tuples
    would make Python look for garbage among all objects of the process, which takes a millisecond.
    """
    ask = os.stat
    try:
        return " ".join([f"{(status := ask(path)).st_size} {status.st_mtime_ns}" for path in paths])
    except OSError:
        return ""


def settled_state(folder: Path = PACKAGE, target: str = "") -> tuple[list[str], str]:
    """What to watch and its state; the state is empty where a change could go unnoticed by it.

    That is while somebody writes: the clock of a file system makes steps, so a file that was written just now may be
    written again without a difference.
    """
    paths = watched(folder, target)
    state, now = sources_state(paths), time.time_ns()
    is_new = any(abs(now - int(mark)) < _SETTLED_NS for mark in state.split(" ")[1::2])
    return paths, "" if is_new or watched(folder, target) != paths else state


def sources_hash(folder: Path = PACKAGE, target: str = "") -> str:
    """A hash of the sources' content."""
    with NO_FORK:
        import hashlib  # loads a large library, and the hash is known already in nearly every process
    digest = hashlib.sha256()
    for path in map(Path, sources(folder, target)[0]):
        digest.update(path.relative_to(folder).as_posix().encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()


@functools.cache
def llvm_version() -> str:
    """The version of llvmlite, which brings its LLVM, without importing it."""
    for folder in map(str, sys.path):       # what an import would find; asking Python's finders takes ten times as long
        try:
            text = _content(os.path.join(folder, "llvmlite", "_version.py"))
        except OSError:
            continue
        return _versions(text)
    found = importlib.util.find_spec("llvmlite")
    if found is None or found.origin is None:
        return "none"
    return _versions(_content(os.path.join(os.path.dirname(found.origin), "_version.py")))


def _versions(text: bytes) -> str:
    return " ".join(line for line in text.decode().splitlines() if line.startswith("version_"))


def _content(path: str) -> bytes:
    """A small file's content; without Python's layers for files, which take longer than reading it."""
    descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_BINARY", 0))
    try:
        return os.read(descriptor, _SMALL)
    finally:
        os.close(descriptor)


def compiler_key(store: Store, folder: Path = PACKAGE, target: str = "") -> str:
    """Versions and content of everything that makes code of a target; `store` remembers the content's hash."""
    place = f"{target} {folder}"
    known = store.get("sources", place)
    if known is None or sources_state(os.fsdecode(known["paths"]).split("\0")) != known["state"].decode():
        paths, state = settled_state(folder, target)       # first: what is written meanwhile is noticed next time
        known = {"hash": sources_hash(folder, target).encode(), "state": state.encode(),
                 "paths": os.fsencode("\0".join(paths))}
        if state:
            store.put("sources", place, known)
    return f"tilewright {VERSION} {known['hash'].decode()} {sys.implementation.cache_tag} llvmlite {llvm_version()}"


def processor() -> str | None:
    """A text that tells this processor from others; None where the system does not say."""
    try:
        block = _content("/proc/cpuinfo").partition(b"\n\n")[0].decode(errors="replace")
    except OSError:
        return None
    return "\n".join(line for line in block.splitlines() if line.startswith(_CPU_LINES)) or None


@functools.cache
def triton_key() -> str:
    """Versions of the package and of llvmlite, and a hash of the package's sources; named as in triton."""
    return f"tilewright-{VERSION}-llvmlite-{llvm_version()}-{sources_hash()}"


def base32(key: str) -> str:
    """A hash, written in hexadecimal digits, as a shorter name of a folder."""
    return base64.b32encode(bytes.fromhex(key)).decode().rstrip("=")
