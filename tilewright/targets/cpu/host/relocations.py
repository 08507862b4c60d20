"""Relocations of x86-64 and AArch64: how an address gets into code or data.

The numbers and formulas are those of the psABI documents ("System V Application Binary Interface, AMD64
Supplement", table of relocation types; "ELF for the Arm 64-bit Architecture", static relocations).  S is the symbol's
address, A the addend, P the place.  A value that does not fit is an InternalError, never cut off.
Tests: tests/targets/cpu_host/test_elf.py.
"""

from __future__ import annotations

import mmap
import struct
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import NamedTuple

from tilewright.diagnostics import InternalError


class Place(NamedTuple):
    """A symbol as relocations need it: its address, one that a near call reaches, and a word that holds it (or 0)."""

    address: int
    near: int
    word: int


Memory = mmap.mmap | bytearray
Apply = Callable[[Memory, int, int, Place, int], None]     # memory, offset in it, address of that, symbol, addend


def stub(x86: bool, distance: int) -> bytes:
    """Code that jumps to the address in the word that lies `distance` bytes from the code's start."""
    if x86:
        return b"\xff\x25" + struct.pack("<i", distance - 6)                # jmp *distance(%rip)
    literal = 0x58000010 | (distance // 4 & 0x7FFFF) << 5                   # ldr x16, literal
    return struct.pack("<II", literal, 0xD61F0200)                          # br x16


_pack32 = struct.Struct("<i").pack_into


def _put32(value: int, memory: Memory, at: int) -> None:
    try:
        _pack32(memory, at, value)
    except struct.error:
        raise InternalError(f"an address is too far away for its relocation ({value:#x})") from None


def _absolute64(memory: Memory, at: int, p: int, s: Place, a: int) -> None:
    struct.pack_into("<Q", memory, at, (s.address + a) & (2**64 - 1))


def _relative64(memory: Memory, at: int, p: int, s: Place, a: int) -> None:
    struct.pack_into("<q", memory, at, s.address + a - p)


def _relative32(memory: Memory, at: int, p: int, s: Place, a: int) -> None:
    _put32(s.near + a - p, memory, at)


def _word_relative32(memory: Memory, at: int, p: int, s: Place, a: int) -> None:
    """The distance to a word that holds the symbol's address; symbols of the object itself need no such word."""
    if s.word:
        _put32(s.word + a - p, memory, at)
        return
    # mov sym@GOTPCREL(%rip), reg becomes lea sym(%rip), reg: same length, opcode 8b -> 8d, two bytes before the place
    if memory[at - 2] != 0x8B:
        raise InternalError("an instruction reads the address of a local symbol in a way that the loader does not know")
    memory[at - 2] = 0x8D
    _put32(s.address + a - p, memory, at)


X86_64: Mapping[int, Apply] = MappingProxyType({
    1: _absolute64,             # R_X86_64_64
    2: _relative32,             # R_X86_64_PC32
    4: _relative32,             # R_X86_64_PLT32
    9: _word_relative32,        # R_X86_64_GOTPCREL
    41: _word_relative32,       # R_X86_64_GOTPCRELX
    42: _word_relative32,       # R_X86_64_REX_GOTPCRELX
    24: _relative64,            # R_X86_64_PC64
})


def _instruction(memory: Memory, at: int, clear: int, bits: int) -> None:
    (old,) = struct.unpack_from("<I", memory, at)
    struct.pack_into("<I", memory, at, old & ~clear | bits)


def _call26(memory: Memory, at: int, p: int, s: Place, a: int) -> None:
    distance = s.near + a - p
    if not -(2**27) <= distance < 2**27:
        raise InternalError(f"a call is too far away for its relocation ({distance:#x})")
    _instruction(memory, at, 0x3FFFFFF, distance >> 2 & 0x3FFFFFF)


def _page21(target: int, memory: Memory, at: int, p: int) -> None:
    pages = (target >> 12) - (p >> 12)
    if not -(2**20) <= pages < 2**20:
        raise InternalError(f"an address is too far away for its relocation ({pages:#x} pages)")
    _instruction(memory, at, 0x60FFFFE0, (pages & 3) << 29 | (pages >> 2 & 0x7FFFF) << 5)


def _symbol_page21(memory: Memory, at: int, p: int, s: Place, a: int) -> None:
    _page21(s.address + a, memory, at, p)


def _word_page21(memory: Memory, at: int, p: int, s: Place, a: int) -> None:
    """The page of the word that holds the symbol's address; of the symbol itself if it is near (see `_word_low12`)."""
    _page21((s.word or s.address) + a, memory, at, p)


def _low12(scale: int) -> Apply:
    def apply(memory: Memory, at: int, p: int, s: Place, a: int) -> None:
        _instruction(memory, at, 0xFFF << 10, ((s.address + a & 0xFFF) >> scale) << 10)
    return apply


def _word_low12(memory: Memory, at: int, p: int, s: Place, a: int) -> None:
    """ldr xN, [xM, word]; for a symbol of the object itself the instruction becomes add xN, xM, #low12."""
    if s.word:
        _instruction(memory, at, 0xFFF << 10, ((s.word + a & 0xFFF) >> 3) << 10)
    else:
        _instruction(memory, at, 0xFFFFFC00, 0x91000000 | (s.address + a & 0xFFF) << 10)


AARCH64: Mapping[int, Apply] = MappingProxyType({
    257: _absolute64,           # R_AARCH64_ABS64
    260: _relative64,           # R_AARCH64_PREL64
    261: _relative32,           # R_AARCH64_PREL32
    275: _symbol_page21,        # R_AARCH64_ADR_PREL_PG_HI21
    277: _low12(0),             # R_AARCH64_ADD_ABS_LO12_NC
    278: _low12(0),             # R_AARCH64_LDST8_ABS_LO12_NC
    282: _call26,               # R_AARCH64_JUMP26
    283: _call26,               # R_AARCH64_CALL26
    284: _low12(1),             # R_AARCH64_LDST16_ABS_LO12_NC
    285: _low12(2),             # R_AARCH64_LDST32_ABS_LO12_NC
    286: _low12(3),             # R_AARCH64_LDST64_ABS_LO12_NC
    299: _low12(4),             # R_AARCH64_LDST128_ABS_LO12_NC
    311: _word_page21,          # R_AARCH64_ADR_GOT_PAGE
    312: _word_low12,           # R_AARCH64_LD64_GOT_LO12_NC
})
