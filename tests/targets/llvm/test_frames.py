"""Frames through a pipe: whole, in pieces, broken."""

import os
import struct

import pytest

from tilewright.targets.llvm.frames import BrokenFrameError, read_frame, write_frame


def reader(data, step):
    """Gives at most `step` bytes at a time, as pipes do."""
    place = [0]

    def read(count):
        part = data[place[0]:place[0] + min(count, step)]
        place[0] += len(part)
        return part
    return read


def sent(fields):
    source, sink = os.pipe()
    try:
        write_frame(sink, fields)
        return os.read(source, 1 << 16)
    finally:
        os.close(source)
        os.close(sink)


@pytest.mark.parametrize("fields", [[], [b""], [b"\0\xff" * 300, b"", b"text"]])
@pytest.mark.parametrize("step", [1, 7, 1 << 16])
def test_round_trip(fields, step):
    read = reader(sent(fields) * 2, step)
    assert read_frame(read) == fields
    assert read_frame(read) == fields
    assert read_frame(read) is None


@pytest.mark.parametrize("cut", [1, 8, 20, 26])
def test_half_a_frame(cut):
    with pytest.raises(BrokenFrameError, match="middle"):
        read_frame(reader(sent([b"abc"] * 2)[:cut], 100))


def test_something_else():
    with pytest.raises(BrokenFrameError, match="fields"):
        read_frame(reader(struct.pack("<Q", 1 << 40), 100))
