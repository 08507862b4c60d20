"""How the compile child and its parent talk: frames of byte fields over a pair of pipes.

A frame is the number of its fields, the length of each, and the fields; numbers are 64 bits, little endian.  Nothing
is interpreted here, so a frame holds machine code as it is.  Both ends are this very file, so there is no version.
Tests: tests/targets/llvm/test_frames.py.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Callable, Sequence

MOST_FIELDS = 64
Reader = Callable[[int], bytes]     # up to so many bytes, at least one; none at the end


class BrokenFrameError(OSError):
    """The other end went away in the middle of a frame, or sent something else."""


def write_frame(descriptor: int, fields: Sequence[bytes]) -> None:
    """Send one frame."""
    head = struct.pack(f"<{1 + len(fields)}Q", len(fields), *map(len, fields))
    data = memoryview(b"".join((head, *fields)))
    while data:
        data = data[os.write(descriptor, data):]


def read_frame(read: Reader) -> list[bytes] | None:
    """Receive one frame; None if the other end has closed the pipe between frames."""
    first = read(8)
    if not first:
        return None
    count = struct.unpack("<Q", first + _exactly(read, 8 - len(first)))[0]
    if count > MOST_FIELDS:
        raise BrokenFrameError(f"a frame of {count} fields")
    lengths = struct.unpack(f"<{count}Q", _exactly(read, 8 * count))
    return [_exactly(read, length) for length in lengths]


def _exactly(read: Reader, count: int) -> bytes:
    parts: list[bytes] = []
    while count:
        part = read(count)
        if not part:
            raise BrokenFrameError("the pipe was closed in the middle of a frame")
        parts.append(part)
        count -= len(part)
    return b"".join(parts)
