"""Reading the line table of an object in memory: which address is of which line.

DWARF 4, section 6.2: a program for a small machine whose registers are address, file and line, and which adds a row
where it says so.  LLVM writes it; profilers want the rows.
Before: an `Image`.  After: its rows in the order of the table, with addresses in this process.
Tests: tests/targets/cpu_host/test_perf.py.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator
from typing import NamedTuple

from tilewright.diagnostics import InternalError
from tilewright.targets.cpu.host.elf import Image, Object

_VERSION = 4
# standard opcodes
(_COPY, _ADVANCE_PC, _ADVANCE_LINE, _SET_FILE, _SET_COLUMN, _NEGATE_STMT, _BASIC_BLOCK, _CONST_ADD_PC,
 _FIXED_ADVANCE_PC) = range(1, 10)
_END_SEQUENCE, _SET_ADDRESS = 1, 2      # extended opcodes


class Row(NamedTuple):
    """From `address` on, code is of `line` of `file`; line 0 is code of no line."""

    address: int
    file: str
    line: int


def line_rows(image: Image) -> list[Row]:
    """All rows of the line table of `image`, none if it has no table; the ends of sequences are left out."""
    parsed = Object(image.binary)
    number = parsed.number(".debug_line")
    if number is None:
        return []
    section = parsed.sections[number]
    table = bytearray(image.binary[section.offset:section.offset + section.size])
    for r in parsed.relocations(number):        # of whole addresses only
        symbol = parsed.symbols[r.symbol]
        struct.pack_into("<Q", table, r.offset, image.sections[symbol.section] + symbol.value + r.addend)
    at = 0
    rows: list[Row] = []
    while at < len(table):
        (length,) = struct.unpack_from("<I", table, at)
        rows += _Program(bytes(table[at + 4:at + 4 + length])).rows()
        at += 4 + length
    return rows


class _Program:
    """One line number program."""

    def __init__(self, content: bytes) -> None:
        self._content = content
        version, header_length, self._unit, _, _, self._base, self._range, self._first_special = struct.unpack_from(
            "<HIBBBbBB", content)
        if version != _VERSION:
            raise InternalError(f"a line table of DWARF {version}; version {_VERSION} was asked for")
        self._start = 6 + header_length
        self._at = 12
        self._lengths = [self._byte() for _ in range(self._first_special - 1)]
        folders = [""]      # the first is the unit's, which no name of ours is relative to (`llvm.lines`)
        while text := self._text():
            folders.append(text)
        self._files = [""]
        while text := self._text():
            place, _, _ = self._unsigned(), self._unsigned(), self._unsigned()
            self._files.append(os.path.join(folders[place], text))

    def rows(self) -> Iterator[Row]:
        """Run the program."""
        self._at, address, file, line = self._start, 0, 1, 1
        while self._at < len(self._content):
            code = self._byte()
            if code >= self._first_special:
                step = code - self._first_special
                address += step // self._range * self._unit
                line += self._base + step % self._range
                yield Row(address, self._files[file], line)
            elif code == 0:
                length = self._unsigned()
                following, kind = self._at + length, self._byte()
                if kind == _SET_ADDRESS:
                    (address,) = struct.unpack_from("<Q", self._content, self._at)
                elif kind == _END_SEQUENCE:
                    address, file, line = 0, 1, 1
                self._at = following
            elif code == _COPY:
                yield Row(address, self._files[file], line)
            elif code == _ADVANCE_PC:
                address += self._unsigned() * self._unit
            elif code == _ADVANCE_LINE:
                line += self._signed()
            elif code == _SET_FILE:
                file = self._unsigned()
            elif code == _CONST_ADD_PC:
                address += (255 - self._first_special) // self._range * self._unit
            elif code == _FIXED_ADVANCE_PC:
                address += struct.unpack_from("<H", self._content, self._at)[0]
                self._at += 2
            else:       # what has no meaning for rows: its operands, as the header says how many there are
                for _ in range(self._lengths[code - 1]):
                    self._unsigned()

    def _byte(self) -> int:
        self._at += 1
        return self._content[self._at - 1]

    def _text(self) -> str:
        end = self._content.index(0, self._at)
        text = self._content[self._at:end].decode("utf-8", "surrogateescape")
        self._at = end + 1
        return text

    def _unsigned(self) -> int:
        """A number in LEB128 (DWARF 4, 7.6)."""
        value = shift = 0
        while True:
            byte = self._byte()
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value

    def _signed(self) -> int:
        start = self._at
        value = self._unsigned()
        bits = 7 * (self._at - start)
        return value - (1 << bits) if value >> (bits - 1) else value
