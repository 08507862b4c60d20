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
from collections.abc import Iterator
from pathlib import Path

from tilewright.locks import NO_FORK
from tilewright.runtime.cache import Store
from tilewright.version import VERSION

PACKAGE = Path(__file__).resolve().parents[1]
# parts of the package that no code depends on
_OUTSIDE = frozenset({"__pycache__", "cli", "compat", "testing"})
# Folders of what a target does not use: targets never meet.
_OTHERS = {"cpu": frozenset({"nvidia"})}
# What tells processors apart in the first block of /proc/cpuinfo, on x86 and on Arm.
_CPU_LINES = ("vendor_id", "cpu family", "model", "stepping", "flags", "Features", "CPU implementer",
              "CPU architecture", "CPU variant", "CPU part", "CPU revision")
_CPU_BLOCK = 16384          # longer than a block; the whole file takes long on a machine with many cores


def sources(folder: Path = PACKAGE, target: str = "") -> Iterator[os.DirEntry[str]]:
    """The package's Python files that code depends on: that of one target, or all of it."""
    folders, without = [str(folder)], _OUTSIDE | _OTHERS.get(target, frozenset())
    while folders:
        for entry in os.scandir(folders.pop()):
            if entry.name.endswith(".py"):
                yield entry
            elif entry.name not in without and entry.is_dir():
                folders.append(entry.path)


def sources_state(folder: Path = PACKAGE, target: str = "") -> str:
    """What is equal as long as nobody has written to the sources, without reading them.

    An installer lists what it has installed, with hashes, in a file of its own, and writes that anew with any other
    version: its size and time stand for those of all sources.  (Who edits installed files clears the cache.)
    In a source tree it is names, sizes and times of them all, which takes a millisecond: as texts, since as many tuples
    make Python look for garbage among all objects of the process, which takes another one.
    """
    try:
        record = os.path.join(folder.parent, f"{folder.name}-{VERSION}.dist-info", "RECORD")
        status = os.stat(record)
        return f"{record} {status.st_size} {status.st_mtime_ns}"
    except OSError:
        pass
    found = []
    for entry in sources(folder, target):
        status = entry.stat()
        found.append(f"{entry.path}\0{status.st_size} {status.st_mtime_ns}")
    found.sort()
    return "\0".join(found)


def sources_hash(folder: Path = PACKAGE, target: str = "") -> str:
    """A hash of the sources' content."""
    with NO_FORK:
        import hashlib  # loads a large library, and the hash is known already in nearly every process
    digest = hashlib.sha256()
    for path in sorted(Path(entry.path) for entry in sources(folder, target)):
        digest.update(path.relative_to(folder).as_posix().encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()


@functools.cache
def llvm_version() -> str:
    """The version of llvmlite, which brings its LLVM, without importing it."""
    found = importlib.util.find_spec("llvmlite")
    if found is None or found.origin is None:
        return "none"
    lines = (Path(found.origin).parent / "_version.py").read_text(encoding="utf-8").splitlines()
    return " ".join(line for line in lines if line.startswith("version_"))


def compiler_key(store: Store, folder: Path = PACKAGE, target: str = "") -> str:
    """Versions and content of everything that makes code of a target; `store` remembers the content's hash."""
    state = f"{target} {sources_state(folder, target)}"
    known = store.get("sources", state)
    if known is None:
        known = {"hash": sources_hash(folder, target).encode()}
        store.put("sources", state, known)
    return f"tilewright {VERSION} {known['hash'].decode()} {sys.implementation.cache_tag} llvmlite {llvm_version()}"


def processor() -> str | None:
    """A text that tells this processor from others; None where the system does not say."""
    try:
        with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as file:
            block = file.read(_CPU_BLOCK).partition("\n\n")[0]
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
