"""A folder of records that outlives processes: what was compiled once is read again.

A record is found by the text of its key and holds named byte fields.  Its file's name is only an index (checksums of
the key's text): the whole text is in the record and compared on reading, so two keys are never confused.

* Records may hold machine code, so a folder is used only if it is this user's alone (mode 0700, no symbolic link); so
  are files.  Otherwise, and where the disk is full, read-only or missing, there is no cache and one warning.
* A record is written to a file of its own and then renamed, so readers see all or nothing, whoever is killed when.
  Nothing is flushed to the disk: after a loss of power a file may be torn, which its checksum tells, and it is made
  again.  Any number of processes may read, write and evict at once.
* When the folder grows beyond its limit, what was used longest ago goes.

Nothing here knows what is stored.  Tests: tests/runtime/test_cache.py, tests/runtime/test_cache_processes.py.
"""

from __future__ import annotations

import functools
import os
import stat
import sys
import time
import warnings
import zlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

MAGIC = b"tilewright record 1\n"
FOLDER = "records-1"        # below the folder that the user names, which may be readable to others
SUFFIX, TEMPORARY = ".rec", ".tmp"
_STAMP = "swept"            # its time is that of the last look at the folder's size
_SWEEP_S = 3600.0           # between two looks; also the age at which a temporary file is nobody's
_TOUCH_S = 600.0            # a record's time of use is not written more often than this


class RefusedFolderError(OSError):
    """A folder or file that is not this user's alone."""


@dataclass(frozen=True, slots=True)
class Record:
    """One file of the cache."""

    path: Path
    name: str
    key: str
    fields: Mapping[str, bytes]
    size: int
    used: float         # seconds since the epoch


def encode(key: str, fields: Mapping[str, bytes]) -> bytes:
    """A record as the content of its file."""
    parts = [key.encode("utf-8", "surrogatepass")]
    for name, value in fields.items():
        parts += [name.encode(), value]
    numbers = b"".join(n.to_bytes(8, "little") for n in (len(parts), *map(len, parts)))
    body = b"".join((numbers, *parts))
    return MAGIC + zlib.crc32(body).to_bytes(4, "little") + body


def decode(content: bytes) -> tuple[str, dict[str, bytes]]:
    """The opposite of `encode`; ValueError for anything that is not a whole record."""
    start = len(MAGIC) + 4
    body = memoryview(content)[start:]
    if len(body) < 8 or content[:len(MAGIC)] != MAGIC or zlib.crc32(body) != int.from_bytes(
            content[len(MAGIC):start], "little"):
        raise ValueError("not a whole record")
    count = int.from_bytes(body[:8], "little")
    lengths = [int.from_bytes(body[8 * k:8 * k + 8], "little") for k in range(1, count + 1)]
    place, parts = 8 * (count + 1), []
    for length in lengths:
        parts.append(bytes(body[place:place + length]))
        place += length
    key = parts[0].decode("utf-8", "surrogatepass")
    return key, {parts[k].decode(): parts[k + 1] for k in range(1, count, 2)}


def file_name(name: str, key: str) -> str:
    """Where the record of `key` is, `name` being for people."""
    data = key.encode("utf-8", "surrogatepass")
    return f"{shown_name(name)}-{zlib.crc32(data):08x}{zlib.adler32(data):08x}{SUFFIX}"


def shown_name(name: str) -> str:
    """A kernel's name as it stands in names of files."""
    return "".join(c if c.isascii() and c.isalnum() else "_" for c in name[:80])


class Store:
    """The records in `folder`, which is made when it is first needed; `folder` None is a store that keeps nothing."""

    def __init__(self, folder: Path | None, limit_bytes: int = 1 << 30) -> None:
        self._base = folder
        self._path = os.path.join(folder or "", FOLDER)     # as a text: objects for paths take long to make
        self._limit = limit_bytes
        self._warned = False
        self._opened = False
        self._readable = self._writable = folder is not None
        self._written = 0       # bytes since the last look at the folder's size

    @property
    def folder(self) -> Path | None:
        """Where the records are; None if they are nowhere."""
        return self._base / FOLDER if self._base is not None and self._readable else None

    def get(self, name: str, key: str) -> dict[str, bytes] | None:
        """The fields of the record of `key`, if there is one."""
        if not self._open():
            return None
        path = os.path.join(self._path, file_name(name, key))
        try:
            found, fields = decode(self._read(path))
        except FileNotFoundError:
            return None
        except RefusedFolderError as error:
            self._warn(str(error))
            return None
        except ValueError:
            with suppress(OSError):
                os.unlink(path)
            return None
        except OSError as error:
            self._warn(f"cannot read {path}: {error.strerror}")
            return None
        return fields if found == key else None

    def put(self, name: str, key: str, fields: Mapping[str, bytes]) -> None:
        """Keep a record, if that is possible."""
        if not self._writable or not self._open():
            return
        content = encode(key, fields)
        path = self._folder / file_name(name, key)
        temporary = path.with_suffix(f".{os.getpid()}-{time.monotonic_ns()}{TEMPORARY}")
        try:
            try:
                _write_new(temporary, content)
                os.replace(temporary, path)
            except BaseException:
                with suppress(OSError):
                    temporary.unlink()
                raise
            self._written += len(content)
            self._sweep_if_due()
        except OSError as error:
            self._writable = False
            self._warn(f"cannot write to {self._folder}: {error.strerror}; what is compiled is not kept")

    def records(self) -> Iterator[Record]:
        """All whole records, in no order."""
        if not self._open(create=False):
            return
        for entry in os.scandir(self._folder):
            if entry.name.endswith(SUFFIX):
                with suppress(OSError, ValueError):
                    content, path = self._read(entry.path, touch=False), Path(entry.path)
                    key, fields = decode(content)
                    yield Record(path, path.stem.rpartition("-")[0], key, fields, len(content), entry.stat().st_mtime)

    def remove(self, records: Iterable[Record]) -> int:
        """Remove these records; the number of those that went."""
        removed = 0
        for record in records:
            with suppress(OSError):
                record.path.unlink()
                removed += 1
        return removed

    def clear(self) -> int:
        """Remove everything; the number of records that went."""
        removed = 0
        if self._open(create=False):
            for entry in os.scandir(self._folder):
                with suppress(OSError):
                    os.unlink(entry.path)
                    removed += entry.name.endswith(SUFFIX)
        return removed

    # -- the folder ---------------------------------------------------------------------------------------------------

    @property
    def _folder(self) -> Path:
        assert self._base is not None
        return self._base / FOLDER

    def _open(self, create: bool = True) -> bool:
        """Whether there is a folder to be trusted; looked at once."""
        if self._opened or not self._readable:
            return self._readable
        assert self._base is not None
        try:
            if create:
                os.makedirs(self._base, 0o700, exist_ok=True)
                _check_folder(self._base, 0o022)
                with suppress(FileExistsError):
                    os.mkdir(self._folder, 0o700)
            elif not self._folder.is_dir():
                return False
            else:
                _check_folder(self._base, 0o022)
            _check_folder(self._folder, 0o077)
        except OSError as error:
            self._readable = self._writable = False
            self._warn(str(error) if isinstance(error, RefusedFolderError) else
                       f"cannot make {self._folder}: {error.strerror}; what is compiled is not kept")
            return False
        self._opened = True
        return True

    def _read(self, path: str, touch: bool = True) -> bytes:
        descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0))
        try:        # without Python's layers for files, which take longer than reading it
            status = os.fstat(descriptor)
            if not stat.S_ISREG(status.st_mode) or not _is_own(status):
                raise RefusedFolderError(f"{path} is not a file of this user; it is not read")
            if touch and time.time() - status.st_mtime > _TOUCH_S:
                with suppress(OSError):
                    os.utime(path)
            content = b""
            while len(content) < status.st_size and (more := os.read(descriptor, status.st_size - len(content))):
                content += more
            return content
        finally:
            os.close(descriptor)

    def _sweep_if_due(self) -> None:
        """Look at the folder's size now and then: by this process's own writing, and by the clock."""
        stamp = self._folder / _STAMP
        if self._written * 8 < self._limit:
            with suppress(OSError):
                if time.time() - stamp.stat().st_mtime < _SWEEP_S:
                    return
        self._written = 0
        stamp.touch(0o600)
        self.sweep()

    def sweep(self) -> None:
        """Remove temporary files that a killed process left, and above the limit what was used longest ago."""
        now, total, found = time.time(), 0, []
        for entry in os.scandir(self._folder):
            with suppress(OSError):
                status = entry.stat(follow_symlinks=False)
                if entry.name.endswith(TEMPORARY) and now - status.st_mtime > _SWEEP_S:
                    os.unlink(entry.path)
                elif entry.name.endswith(SUFFIX):
                    total += status.st_size
                    found.append((status.st_mtime, status.st_size, entry.path))
        if total <= self._limit:
            return
        for _, size, path in sorted(found):
            with suppress(OSError):
                os.unlink(path)
            total -= size
            if total * 5 <= self._limit * 4:
                return

    def _warn(self, message: str) -> None:
        if not self._warned:
            self._warned = True
            warn(message)


def warn(message: str) -> None:
    """A warning at the line of the program that came here."""
    package = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    frame, level = sys._getframe(1), 2
    while frame.f_back is not None and frame.f_code.co_filename.startswith((package, functools.__file__)):
        frame, level = frame.f_back, level + 1
    warnings.warn(f"the cache of compiled kernels: {message}", RuntimeWarning, stacklevel=level)


def _write_new(path: Path, content: bytes) -> None:
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)
    with open(os.open(path, flags, 0o600), "wb", buffering=0) as file:
        rest = memoryview(content)
        while rest:
            rest = rest[file.write(rest) or 0:]


def _is_own(status: os.stat_result) -> bool:
    return not hasattr(os, "geteuid") or status.st_uid == os.geteuid()


def _check_folder(path: Path, forbidden: int) -> None:
    """RefusedFolderError unless `path` is a folder of this user without the `forbidden` bits of permission."""
    status = os.lstat(path)
    if stat.S_ISLNK(status.st_mode):
        raise RefusedFolderError(f"{path} is a symbolic link; machine code is read from a real folder only")
    if not stat.S_ISDIR(status.st_mode):
        raise RefusedFolderError(f"{path} is not a folder")
    if not _is_own(status):
        raise RefusedFolderError(f"{path} belongs to another user; machine code is read from one's own folder only")
    if os.name != "nt" and status.st_mode & forbidden:
        raise RefusedFolderError(f"{path} is open to other users (mode {stat.S_IMODE(status.st_mode):o}); machine code "
                                 "is read from a folder that is this user's alone only (mode 700)")
