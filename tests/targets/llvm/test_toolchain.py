"""Compiling and loading: errors with their line, symbols of the process, unloading, no llvmlite before it is needed."""

import ctypes
import gc
import subprocess
import sys

import pytest

from tests.targets.llvm.harness import loader
from tilewright.diagnostics import InternalError
from tilewright.targets.llvm import toolchain
from tilewright.targets.llvm.isa import Isa

ADD_ONE = "define i64 @f(i64 %x) {\n  %y = add i64 %x, 1\n  ret i64 %y\n}\n"
HOST = toolchain.host_machine()


def call(loaded, *args):
    return ctypes.CFUNCTYPE(ctypes.c_int64, *[ctypes.c_int64] * len(args))(loaded.address)(*args)


@pytest.mark.parametrize("options", [{}, {"optimise": 1}, {"optimise": 3}, {"codegen_level": 0}])
def test_compile_and_run(options):
    compiled = toolchain.compile_object(ADD_ONE, HOST, **options)
    assert call(loader().load(compiled.binary, "f"), 41) == 42
    assert "f:" in compiled.assembly()


def test_small_pipeline_removes_stack_slots():
    text = ("define i64 @f(i64 %x) {\n  %s = alloca i64\n  store volatile i64 %x, ptr %s\n  %t = alloca i64\n"
            "  store i64 %x, ptr %t\n  %y = load i64, ptr %t\n  ret i64 %y\n}\n")
    plain = toolchain.compile_object(text, HOST).assembly()
    small = toolchain.compile_object(text, HOST, optimise=1).assembly()
    assert len(small.splitlines()) < len(plain.splitlines())


def test_parse_error_shows_its_line():
    with pytest.raises(InternalError, match="line 2: %y = add i32 %x, 1"):
        toolchain.compile_object(ADD_ONE.replace("add i64", "add i32"), HOST)


def test_verifier_error_shows_its_line():
    text = ("define i64 @f(i64 %x) {\nentry:\n  br label %c\nb:\n  %a = add i64 %x, 1\n  br label %c\nc:\n"
            "  %z = add i64 %a, 1\n  ret i64 %z\n}\n")
    with pytest.raises(InternalError, match=r"line 5: %a = add i64 %x, 1"):
        toolchain.compile_object(text, HOST)


def test_missing_symbol():
    binary = toolchain.compile_object(ADD_ONE, HOST).binary
    with pytest.raises(InternalError, match="nothing_here"):
        loader().load(binary, "nothing_here")


def test_symbols_of_the_process_are_found():
    text = "declare i64 @labs(i64)\ndefine i64 @f(i64 %x) {\n  %y = call i64 @labs(i64 %x)\n  ret i64 %y\n}\n"
    assert call(loader().load(toolchain.compile_object(text, HOST).binary, "f"), -5) == 5


def test_objects_with_one_symbol_name_do_not_meet():
    two = toolchain.compile_object(ADD_ONE.replace(", 1", ", 2"), HOST)
    first, second = (loader().load(b, "f") for b in (toolchain.compile_object(ADD_ONE, HOST).binary, two.binary))
    assert (call(first, 1), call(second, 1)) == (2, 3)
    del first
    gc.collect()
    assert call(second, 1) == 3


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
def test_dropping_a_loaded_object_unmaps_it():
    def mappings():
        gc.collect()
        with open("/proc/self/maps", encoding="ascii") as f:
            return len(f.readlines())

    binary = toolchain.compile_object(ADD_ONE, HOST).binary
    before = mappings()
    kept = [loader().load(binary, "f") for _ in range(50)]
    assert mappings() >= before + 50
    kept.clear()
    assert mappings() < before + 10


def test_compiling_is_deterministic():
    assert toolchain.compile_object(ADD_ONE, HOST).binary == toolchain.compile_object(ADD_ONE, HOST).binary


def test_isa_flags():
    assert Isa.of("x86_64-unknown-linux-gnu", "+fma,+avx2,-avx512f,+sse4.1") == Isa(fma=True, round=True, word_lanes=8)
    assert Isa.of("x86_64-pc-linux", "+avx512f,+avx512bw,+avx512dq").avx512 is False
    assert Isa.of("x86_64-pc-linux", "+avx512f,+avx512bw,+avx512dq,+avx512vl").avx512 is True
    wide = "+avx512f,+avx512bw,+avx512dq,+avx512vl"
    assert [Isa.of("x86_64-pc-linux", f, cpu).halved for f, cpu in ((wide, "znver4"), (wide, "znver5"), ("", "znver4"),
                                                                    (wide, ""))] == [True, False, False, False]
    assert [Isa.of("x86_64-pc-linux", f, cpu).fetches_results for f, cpu in (
        ("+prfchw", "znver3"), ("+avx", "znver3"), ("+prfchw", "sapphirerapids"))] == [True, False, False]
    assert Isa.of("aarch64-unknown-linux-gnu", "") == Isa(fma=True, half=True, round=True, number_extrema=True)


def test_key_names_machine_and_llvm():
    assert HOST.cpu in HOST.key() and "llvm-" in HOST.key() and HOST.features in HOST.key()


def test_import_of_the_package_loads_no_llvmlite():
    code = "import sys, tilewright; sys.exit(any(m.startswith('llvmlite') for m in sys.modules))"
    assert subprocess.run([sys.executable, "-c", code], timeout=60, check=False).returncode == 0
