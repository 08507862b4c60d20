"""A shared library with nothing but the two names by which a debugger finds code that was made while running.

It is written byte by byte, since LLVM makes objects and no libraries: ELF header, program headers, and the sections
that the dynamic linker and gdb read (System V ABI, chapters 4 and 5).  The function returns at once.
Tests: tests/targets/cpu_host/test_debugger.py.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

FUNCTION, DESCRIPTOR = "__jit_debug_register_code", "__jit_debug_descriptor"
_RETURN = {"x86_64": b"\xc3", "aarch64": b"\xc0\x03\x5f\xd6"}
_MACHINE = {"x86_64": 62, "aarch64": 183}
_PAGE = 0x10000             # the largest page of both machines: what is writable is so much higher than in the file
_HEADER, _PROGRAM, _SECTION, _SYMBOL = 64, 56, 64, 24       # bytes of each kind of header
_LOAD, _DYNAMIC, _GNU_STACK = 1, 2, 0x6474E551              # p_type
_X, _W, _R = 1, 2, 4                                        # p_flags
_PROGBITS, _STRTAB, _HASH, _SHT_DYNAMIC, _DYNSYM = 1, 3, 5, 6, 11       # sh_type
_WRITE, _ALLOC, _EXEC = 1, 2, 4                             # sh_flags
_DT_HASH, _DT_STRTAB, _DT_SYMTAB, _DT_STRSZ, _DT_SYMENT = 4, 5, 6, 10, 11


class _Part(NamedTuple):
    """A section: its content, and how its header describes it (`link` is a section's name)."""

    name: str
    content: bytes
    kind: int
    flags: int
    link: str = ""
    info: int = 0
    entry: int = 0


def registration_library(machine: str) -> bytes:
    """The library for `machine`, "x86_64" or "aarch64"."""
    names = _Strings("", FUNCTION, DESCRIPTOR)
    code, descriptor = _RETURN[machine], struct.pack("<IIQQ", 1, 0, 0, 0)
    titles = _Strings("", ".dynsym", ".dynstr", ".hash", ".text", ".dynamic", ".data", ".shstrtab")
    sizes = {".dynsym": 3 * _SYMBOL, ".dynstr": len(names.content), ".hash": 4 * 6, ".text": len(code),
             ".dynamic": 16 * 6, ".data": len(descriptor), ".shstrtab": len(titles.content)}
    offsets, end = {}, _HEADER + 4 * _PROGRAM
    for title, size in sizes.items():
        offsets[title] = end = -(-end // 16) * 16
        end += size
    writable, table = offsets[".dynamic"], -(-end // 16) * 16
    address = {title: at + _PAGE * (title in (".dynamic", ".data")) for title, at in offsets.items()}
    symbols = bytes(_SYMBOL) + _symbol(names.at[FUNCTION], 2, 4, address[".text"], len(code)) + _symbol(
        names.at[DESCRIPTOR], 1, 6, address[".data"], len(descriptor))
    dynamic = struct.pack("<12Q", _DT_HASH, address[".hash"], _DT_STRTAB, address[".dynstr"], _DT_SYMTAB,
                          address[".dynsym"], _DT_STRSZ, sizes[".dynstr"], _DT_SYMENT, _SYMBOL, 0, 0)
    parts = (
        _Part(".dynsym", symbols, _DYNSYM, _ALLOC, ".dynstr", 1, _SYMBOL),
        _Part(".dynstr", names.content, _STRTAB, _ALLOC),
        _Part(".hash", struct.pack("<6I", 1, 3, 1, 0, 2, 0), _HASH, _ALLOC, ".dynsym", 0, 4),   # one chain: 1, 2
        _Part(".text", code, _PROGBITS, _ALLOC | _EXEC),
        _Part(".dynamic", dynamic, _SHT_DYNAMIC, _ALLOC | _WRITE, ".dynstr", 0, 16),
        _Part(".data", descriptor, _PROGBITS, _ALLOC | _WRITE),
        _Part(".shstrtab", titles.content, _STRTAB, 0))
    numbers = {part.name: number for number, part in enumerate(parts, 1)}
    file = bytearray(table)
    file[:_HEADER] = _header(machine, table, len(parts) + 1)
    ends = offsets[".data"] + sizes[".data"]
    programs = [(_LOAD, _R | _X, 0, 0, writable, _PAGE), (_LOAD, _R | _W, writable, _PAGE, ends - writable, _PAGE),
                (_DYNAMIC, _R | _W, writable, _PAGE, sizes[".dynamic"], 8), (_GNU_STACK, _R | _W, 0, 0, 0, 16)]
    for number, (kind, flags, at, moved, size, align) in enumerate(programs):
        struct.pack_into("<IIQQQQQQ", file, _HEADER + number * _PROGRAM, kind, flags, at, at + moved, at + moved, size,
                         size, align)
    headers = [bytes(_SECTION)]
    for part in parts:
        at = offsets[part.name]
        file[at:at + len(part.content)] = part.content
        headers.append(struct.pack("<IIQQQQIIQQ", titles.at[part.name], part.kind, part.flags,
                                   address[part.name] if part.flags & _ALLOC else 0, at, len(part.content),
                                   numbers.get(part.link, 0), part.info, 16, part.entry))
    return bytes(file) + b"".join(headers)


class _Strings:
    """A string table."""

    def __init__(self, *texts: str) -> None:
        self.content, self.at = b"", {}
        for text in texts:
            self.at[text] = len(self.content)
            self.content += text.encode() + b"\0"


def _header(machine: str, table: int, sections: int) -> bytes:
    """The ELF header of a shared library (e_type 3); the names of sections are the last one."""
    return struct.pack("<4sBBBB8xHHIQQQIHHHHHH", b"\x7fELF", 2, 1, 1, 0, 3, _MACHINE[machine], 1, 0, _HEADER, table, 0,
                       _HEADER, _PROGRAM, 4, _SECTION, sections, sections - 1)


def _symbol(name: int, kind: int, section: int, value: int, size: int) -> bytes:
    """A global symbol of type `kind` (1 data, 2 function)."""
    return struct.pack("<IBBHQQ", name, 1 << 4 | kind, 0, section, value, size)
