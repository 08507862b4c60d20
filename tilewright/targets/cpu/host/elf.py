"""Mapping a relocatable ELF object (x86-64, AArch64) into this process, without LLVM.

The sections that a running program needs are placed one after another, writable ones behind the others; symbols that
the object does not define are given by the caller; calls and loads of them go through a table of stubs and addresses
at the end, since they may be farther away than an instruction reaches.  Memory is written first and then made
executable, never both at once.
Before: the bytes of an object of this machine (what `toolchain.compile_object` makes).  After: `Image`.
Tests: tests/targets/cpu_host/test_elf.py.
"""

from __future__ import annotations

import ctypes
import functools
import mmap
import os
import struct
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from tilewright.diagnostics import InternalError
from tilewright.targets.cpu.host import relocations

Resolve = Callable[[str], int]

X86_64, AARCH64 = 62, 183           # e_machine
_RELOCATABLE = 1                    # e_type
_SYMTAB, _RELA, _NOBITS = 2, 4, 8   # sh_type
_WRITE, _ALLOC = 1, 2               # sh_flags
_LOCAL, _WEAK = 0, 2                # symbol binding
FUNCTION = 2                        # symbol type
_UNDEFINED, _ABSOLUTE = 0, 0xFFF1   # st_shndx
_STUB = 16                          # bytes of a stub, and of an address with its padding


class Section(NamedTuple):
    """A row of the section table; `header` is where it stands in the file."""

    header: int
    kind: int
    flags: int
    offset: int
    size: int
    link: int
    info: int
    align: int


class Symbol(NamedTuple):
    name: str
    binding: int
    section: int
    value: int
    kind: int = 0
    size: int = 0


class Relocation(NamedTuple):
    """At `offset` of section `section`: how to put the address of symbol number `symbol` there."""

    section: int
    offset: int
    kind: int
    symbol: int
    addend: int


class Object:
    """A parsed object file; InternalError for what is none, or is cut off."""

    def __init__(self, binary: bytes) -> None:
        self.binary = binary
        try:
            self._parse()
        except (struct.error, IndexError, ValueError, UnicodeDecodeError) as error:
            raise InternalError(f"a damaged object file: {error}") from error

    def _parse(self) -> None:
        binary = self.binary
        if binary[:6] != b"\x7fELF\x02\x01":
            raise InternalError("not a little-endian 64-bit ELF object")
        kind, self.machine = struct.unpack_from("<HH", binary, 16)
        if kind != _RELOCATABLE or self.machine not in (X86_64, AARCH64):
            raise InternalError(f"not a relocatable object of a known machine (type {kind}, machine {self.machine})")
        (table,) = struct.unpack_from("<Q", binary, 40)
        size, count = struct.unpack_from("<HH", binary, 58)
        self.sections = [self._section(table + k * size) for k in range(count)]
        self.symbols = [s for section in self.sections if section.kind == _SYMTAB for s in self._symbols(section)]

    def _section(self, at: int) -> Section:
        _, kind, flags, _, offset, size, link, info, align, _ = struct.unpack_from("<IIQQQQIIQQ", self.binary, at)
        if kind != _NOBITS and offset + size > len(self.binary):
            raise InternalError("a damaged object file: a section goes beyond its end")
        return Section(at, kind, flags, offset, size, link, info, max(align, 1))

    def _symbols(self, table: Section) -> Iterator[Symbol]:
        binary, names = self.binary, self.sections[table.link].offset
        rows = binary[table.offset:table.offset + table.size]
        for name, info, _, section, value, size in struct.iter_unpack("<IBBHQQ", rows):
            start = names + name
            text = binary[start:binary.index(b"\0", start)].decode()
            yield Symbol(text, info >> 4, section, value, info & 15, size)

    def number(self, name: str) -> int | None:
        """The number of the section of that name."""
        (names,) = struct.unpack_from("<H", self.binary, 62)
        for number, section in enumerate(self.sections):
            start = self.sections[names].offset + struct.unpack_from("<I", self.binary, section.header)[0]
            if self.binary[start:self.binary.index(b"\0", start)].decode() == name:
                return number
        return None

    def relocations(self, number: int | None = None) -> Iterator[Relocation]:
        """Those of section `number`, or of all sections that are placed in memory."""
        for table in self.sections:
            if table.kind == _RELA and (self.sections[table.info].flags & _ALLOC if number is None
                                        else table.info == number):
                rows = self.binary[table.offset:table.offset + table.size]
                for offset, info, addend in struct.iter_unpack("<QQq", rows):
                    yield Relocation(table.info, offset, info & 0xFFFFFFFF, info >> 32, addend)


class Image:
    """An object in memory.  It stays there as long as this lives.

    `binary` is what it was made from; `symbols` are the addresses of what it defines, `sections` those of its placed
    sections by number.
    """

    def __init__(self, binary: bytes, resolve: Resolve) -> None:
        self.binary = binary
        parsed = Object(binary)
        wanted = list(parsed.relocations())
        outside = sorted({parsed.symbols[number].name for number in {r.symbol for r in wanted}
                          if parsed.symbols[number].section == _UNDEFINED})
        layout, writable, table, size = _layout(parsed, len(outside))
        # private: a forked process has its own variables, and a debugger may write breakpoints
        self._memory = mmap.mmap(-1, size, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, mmap.PROT_READ | mmap.PROT_WRITE)
        self.base = ctypes.addressof(ctypes.c_char.from_buffer(self._memory))
        self.size = size
        for number, at in layout.items():
            section = parsed.sections[number]
            if section.kind != _NOBITS:
                self._memory[at:at + section.size] = binary[section.offset:section.offset + section.size]
        external = self._write_table(parsed.machine, table, outside, resolve)
        addresses = [self._address(s, layout) for s in parsed.symbols]
        self._relocate(parsed, wanted, layout, addresses, external)
        if parsed.machine == AARCH64:       # its instruction cache does not see stores by itself
            clear = ctypes.CDLL("libgcc_s.so.1")["__clear_cache"]
            clear(ctypes.c_void_p(self.base), ctypes.c_void_p(self.base + writable))
        self.sections = {number: self.base + at for number, at in layout.items()}
        self.symbols = {s.name: a for s, a in zip(parsed.symbols, addresses)
                        if a and s.name and s.binding != _LOCAL}
        self._protect(writable)

    def _address(self, symbol: Symbol, layout: dict[int, int]) -> int:
        """The symbol's address, or 0 if it is not of this object."""
        if symbol.section == _ABSOLUTE:
            return symbol.value
        return self.base + layout[symbol.section] + symbol.value if symbol.section in layout else 0

    def _write_table(self, machine: int, table: int, names: list[str], resolve: Resolve) -> dict[str, tuple[int, int]]:
        """For each outside symbol a stub that jumps to it and a word that holds its address: (stub, word)."""
        places = {}
        for k, name in enumerate(names):
            word, stub = table + 2 * _STUB * k, table + 2 * _STUB * k + _STUB
            struct.pack_into("<Q", self._memory, word, resolve(name))
            code = relocations.stub(machine == X86_64, word - stub)
            self._memory[stub:stub + len(code)] = code
            places[name] = (self.base + stub, self.base + word)
        return places

    def _relocate(self, parsed: Object, wanted: Sequence[Relocation], layout: dict[int, int], addresses: list[int],
                  external: dict[str, tuple[int, int]]) -> None:
        apply = relocations.X86_64 if parsed.machine == X86_64 else relocations.AARCH64
        places: dict[int, relocations.Place] = {}
        for section, offset, kind, number, addend in wanted:
            place = places.get(number)
            if place is None:
                place = places[number] = self._place(parsed.symbols[number], addresses[number], external)
            if kind not in apply:
                raise InternalError(f"relocation {kind} of machine {parsed.machine} is not known to the loader")
            at = layout[section] + offset
            apply[kind](self._memory, at, self.base + at, place, addend)

    def _place(self, symbol: Symbol, address: int, external: dict[str, tuple[int, int]]) -> relocations.Place:
        """Where relocations find a symbol."""
        if symbol.section != _UNDEFINED:
            return relocations.Place(address, address, 0)
        stub, word = external[symbol.name]
        (target,) = struct.unpack_from("<Q", self._memory, word - self.base)
        return relocations.Place(target, stub, word)

    def _protect(self, writable: int) -> None:
        """Code and constants become executable; from byte `writable` on, memory stays as it is."""
        code = mmap.PROT_READ | mmap.PROT_EXEC
        if _mprotect()(ctypes.c_void_p(self.base), ctypes.c_size_t(writable), code):
            number = ctypes.get_errno()
            raise OSError(number, f"memory cannot be made executable: {os.strerror(number)}")


@functools.cache
def _mprotect() -> Callable[..., int]:
    """The C function, found once: loading a library makes a class of its own for its functions."""
    function: Callable[..., int] = ctypes.CDLL(None, use_errno=True).mprotect
    return function


def _layout(parsed: Object, outside: int) -> tuple[dict[int, int], int, int, int]:
    """Offsets of the placed sections, where writable ones begin, where the table of stubs is, and the whole size."""
    offsets: dict[int, int] = {}
    end = 0
    placed = [(k, s) for k, s in enumerate(parsed.sections) if s.flags & _ALLOC]
    for number, section in placed:
        if not section.flags & _WRITE:
            end = _up(end, section.align)
            offsets[number] = end
            end += section.size
    table = _up(end, 64)
    writable = end = _up(table + 2 * _STUB * outside, mmap.PAGESIZE)
    for number, section in placed:
        if section.flags & _WRITE:
            end = _up(end, section.align)
            offsets[number] = end
            end += section.size
    return offsets, writable, table, max(_up(end, mmap.PAGESIZE), mmap.PAGESIZE)


def _up(value: int, unit: int) -> int:
    return -(-value // unit) * unit
