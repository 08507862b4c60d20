"""The object loader: sections, symbols, relocations, and what it refuses."""

import ctypes
import os
import struct

import llvmlite.binding as llvm
import pytest

from tests.targets.cpu_host.kernels import KINDS, MACHINE
from tilewright.diagnostics import InternalError
from tilewright.targets.cpu.host import relocations
from tilewright.targets.cpu.host.elf import AARCH64, Image, Object
from tilewright.targets.cpu.host.library import Symbols
from tilewright.targets.llvm import toolchain
from tilewright.targets.llvm.machine import Machine

pytestmark = pytest.mark.skipif("linux" not in KINDS, reason="loads objects of this machine")

TEXT = """
@constants = internal constant [3 x i64] [i64 11, i64 22, i64 33], align 64
@counter = global i64 5, align 8
@empty = global [4096 x i8] zeroinitializer, align 64
@pointer = global ptr @counter
declare i64 @strlen(ptr)
declare double @sin(double)
@environ = external global ptr

define i64 @length(ptr %s) {
  %r = call i64 @strlen(ptr %s)
  ret i64 %r
}
define double @sine(double %x) {
  %r = tail call double @sin(double %x)
  ret double %r
}
define i64 @constant(i64 %i) {
  %p = getelementptr [3 x i64], ptr @constants, i64 0, i64 %i
  %v = load i64, ptr %p
  ret i64 %v
}
define i64 @count() {
  %p = load ptr, ptr @pointer
  %v = load i64, ptr %p
  %w = add i64 %v, 1
  store i64 %w, ptr %p
  %e = getelementptr i8, ptr @empty, i64 4088
  %old = load i64, ptr %e
  %new = add i64 %old, %w
  store i64 %new, ptr %e
  ret i64 %new
}
define ptr @environment() {
  ret ptr @environ
}
define <4 x float> @vector() {
  ret <4 x float> <float 1.0, float 2.0, float 3.0, float 4.0>
}
"""


@pytest.fixture(scope="module")
def binary():
    return toolchain.compile_object(TEXT, MACHINE).binary


@pytest.fixture(scope="module")
def image(binary):
    return Image(binary, Symbols())


def function(image, name, result, *params):
    return ctypes.CFUNCTYPE(result, *params)(image.symbols[name])


def test_calls_leave_the_object(image):
    assert function(image, "length", ctypes.c_int64, ctypes.c_char_p)(b"twelve chars") == 12
    assert abs(function(image, "sine", ctypes.c_double, ctypes.c_double)(1.0) - 0.8414709848078965) < 1e-15


def test_constants_and_writable_data(image):
    constant = function(image, "constant", ctypes.c_int64, ctypes.c_int64)
    assert [constant(i) for i in range(3)] == [11, 22, 33]
    count = function(image, "count", ctypes.c_int64)
    assert [count(), count(), count()] == [6, 13, 21]


def test_variables_are_not_shared_over_a_fork(binary):
    image = Image(binary, Symbols())
    count = function(image, "count", ctypes.c_int64)
    assert count() == 6
    child = os.fork()
    if child == 0:
        os._exit(count())
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 13
    assert count() == 13


def test_objects_of_other_libraries(image):
    environ = ctypes.cast(ctypes.CDLL(None).environ, ctypes.c_void_p).value
    assert function(image, "environment", ctypes.c_void_p)() == environ


def test_symbols_are_those_that_the_object_defines(image):
    assert {"length", "sine", "constant", "count", "counter", "empty", "environment"} <= image.symbols.keys()
    assert not {"strlen", "constants"} & image.symbols.keys()


def test_no_page_is_writable_and_executable(image):
    pages = {}
    with open("/proc/self/maps") as maps:
        for line in maps:
            bounds, mode = line.split()[:2]
            low, high = (int(b, 16) for b in bounds.split("-"))
            pages[low, high] = mode
    def mode_of(address):
        return next(mode for (low, high), mode in pages.items() if low <= address < high)

    assert mode_of(image.symbols["length"])[:3] == "r-x"
    assert mode_of(image.symbols["counter"])[:3] == "rw-"


def test_unknown_symbol_is_an_error():
    binary = toolchain.compile_object("declare void @no_such_thing()\ndefine void @f() {\n call void @no_such_thing()\n"
                                      " ret void\n}", MACHINE).binary
    with pytest.raises(InternalError, match="no_such_thing"):
        Image(binary, Symbols())


def test_damaged_objects_are_errors(binary):
    for damaged in (b"", b"\x7fELF", binary[:40], binary[:200], binary[:-60], b"MZ" + binary[2:]):
        with pytest.raises(InternalError):
            Image(damaged, Symbols())


@pytest.fixture(scope="module")
def arm():
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    machine = Machine("aarch64-unknown-linux-gnu", "generic", "")
    return Object(toolchain.compile_object(TEXT, machine).binary)


def test_every_relocation_of_arm_code_is_known(arm):
    assert arm.machine == AARCH64
    kinds = {r.kind for r in arm.relocations()}
    assert {275, 283, 311, 312} <= kinds <= relocations.AARCH64.keys()


def apply(table, kind, instruction, at, place, addend=0):
    memory = bytearray(struct.pack("<Q", instruction))
    table[kind](memory, 0, at, place, addend)
    return struct.unpack("<Q", memory)[0]


def test_arm_formulas():
    """Hand-assembled instructions (Arm Architecture Reference Manual, encodings of BL, ADRP, ADD, LDR)."""
    place = relocations.Place(0x12345678, 0x10000400, 0x10002008)
    arm64 = relocations.AARCH64
    assert apply(arm64, 283, 0x94000000, 0x10000000, place) == 0x94000100               # bl +0x400
    assert apply(arm64, 283, 0x94000000, 0x10000800, place) == 0x97FFFF00               # bl -0x400
    # adrp x0: 0x12345 - 0x10000 = 0x2345 pages: immlo = 1, immhi = 0x8d1
    assert apply(arm64, 275, 0x90000000, 0x10000abc, place) == 0x90000000 | 1 << 29 | 0x8D1 << 5
    assert apply(arm64, 277, 0x91000000, 0, place) == 0x91000000 | 0x678 << 10          # add x0, x0, #0x678
    assert apply(arm64, 286, 0xF9400000, 0, place) == 0xF9400000 | (0x678 >> 3) << 10   # ldr x0, [x0, #0x678]
    assert apply(arm64, 312, 0xF9400000, 0, place) == 0xF9400000 | 1 << 10              # ldr x0, [x0, #8]
    near = relocations.Place(0x12345678, 0x12345678, 0)
    assert apply(arm64, 312, 0xF9400021, 0, near) == 0x91000021 | 0x678 << 10           # becomes add x1, x1, #0x678
    assert apply(arm64, 257, 0, 0, place, 8) == 0x12345680
    with pytest.raises(InternalError, match="too far"):
        apply(arm64, 283, 0x94000000, 0x10000400 + 2**28, place)


def test_x86_formulas():
    place = relocations.Place(0x7F0012345678, 0x10000400, 0x10002008)
    x86 = relocations.X86_64
    assert apply(x86, 1, 0, 0, place, -8) == 0x7F0012345670
    assert apply(x86, 4, 0, 0x10000000, place, -4) == 0x3FC
    assert apply(x86, 9, 0, 0x10000000, place, -4) == 0x2004
    assert apply(x86, 24, 0, 0x7F0012345000, place) == 0x678
    with pytest.raises(InternalError, match="too far"):
        apply(x86, 2, 0, 0x10000000 + 2**32, place)
    memory = bytearray(b"\x48\x8b\x05\0\0\0\0")      # mov rax, [rip + sym@GOTPCREL] of a symbol in the object
    x86[42](memory, 3, 0x1003, relocations.Place(0x2000, 0x2000, 0), -4)
    assert memory == b"\x48\x8d\x05" + struct.pack("<i", 0x2000 - 4 - 0x1003)
