"""Where the assemblers are looked for, what stands for their versions in keys, and what their logs say."""

import stat

import numpy as np
import pytest

import tilewright as triton
import tilewright.language as tl
from tests.targets.nvidia.harness import launch_code
from tilewright.targets.llvm.machine import Assembler
from tilewright.targets.nvidia import NvidiaTarget, assemble


@pytest.fixture
def cuda(tmp_path, monkeypatch):
    """A CUDA folder with nothing in it, and no other place to look."""
    for found in (assemble.find_tool, assemble.find_library, assemble.find_assembler):
        found.cache_clear()
    monkeypatch.setattr(assemble, "_in_packages", lambda packages: iter(()))
    monkeypatch.setenv("PATH", str(tmp_path / "path"))
    monkeypatch.setattr(assemble, "_CUDA", str(tmp_path))
    for folder in ("bin", "lib64", "path"):
        (tmp_path / folder).mkdir()
    yield tmp_path
    for found in (assemble.find_tool, assemble.find_library, assemble.find_assembler):
        found.cache_clear()


def tool(path, content):
    path.write_bytes(content)
    path.chmod(path.stat().st_mode | stat.S_IXUSR)


def test_nothing_there(cuda):
    assert assemble.find_assembler() is None and assemble.key_of(None) == "no assembler"


def test_a_program_goes_before_a_script_that_starts_it(cuda):
    tool(cuda / "path" / "ptxas", b"#!/bin/sh\n")
    assert assemble.find_tool("ptxas") == str(cuda / "path" / "ptxas")
    assemble.find_tool.cache_clear()
    tool(cuda / "bin" / "ptxas", b"\x7fELF")
    assert assemble.find_tool("ptxas") == str(cuda / "bin" / "ptxas")


def test_the_newest_library(cuda):
    for name in ("libnvJitLink.so.9", "libnvJitLink.so.12", "libnvJitLink.so.12.8.93", "libnvJitLink_static.a"):
        (cuda / "lib64" / name).write_bytes(b"")
    assert assemble.find_library() == str(cuda / "lib64" / "libnvJitLink.so.12.8.93")


def test_the_key_changes_with_the_files(cuda):
    library, ptxas = cuda / "lib64" / "libnvJitLink.so.13", cuda / "bin" / "ptxas"
    library.write_bytes(b"12345")
    tool(ptxas, b"\x7fELF")
    found = assemble.find_assembler()
    assert found == Assembler(str(library), str(ptxas))
    before = assemble.key_of(found)
    assert "libnvJitLink.so.13 5 " in before and "ptxas 4 " in before
    library.write_bytes(b"123456")
    assert assemble.key_of(found) != before


def test_a_folder_of_cuda_that_is_given_goes_first(cuda, tmp_path):
    for folder in ("lib64", "given/lib64"):
        (cuda / folder).mkdir(parents=True, exist_ok=True)
        (cuda / folder / "libnvJitLink.so.13").write_bytes(b"")
    assert assemble.find_library(str(cuda / "given")) == str(cuda / "given" / "lib64" / "libnvJitLink.so.13")


def test_a_ptxas_that_is_named_is_the_only_one(cuda):
    (cuda / "lib64" / "libnvJitLink.so.13").write_bytes(b"")
    assert assemble.find_assembler(ptxas="/own/ptxas") == Assembler("", "/own/ptxas")


def test_logs_of_both():
    """Lines as ptxas 13.0 and nvJitLink 13.5 print them."""
    ptxas = ("ptxas info    : Function properties for k\n"
             "    8 bytes stack frame, 12 bytes spill stores, 4 bytes spill loads\n"
             "ptxas info    : Used 42 registers, used 1 barriers, 512 bytes smem\n"
             "ptxas warning : (C7508) something is ignored\nptxas info : (C7508) again\n")
    library = ("ptxas info    : Function properties for k\n"
               "ptxas         .     0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads\n"
               "ptxas info    : Used 26 registers, used 0 barriers\n")
    assert assemble.read_log(ptxas) == assemble.Report(42, 12, 8, ("C7508",))
    assert assemble.read_log(library) == assemble.Report(26, 0, 0, ())
    assert assemble.read_log("") == assemble.Report()
    called = ("ptxas info : Function properties for f\n 4 bytes stack frame, 8 bytes spill stores, 0 bytes spill\n"
              "ptxas info : Function properties for k\n 80 bytes stack frame, 0 bytes spill stores, 0 bytes spill\n"
              "ptxas info    : Used 54 registers, used 1 barriers\n")
    assert assemble.read_log(called) == assemble.Report(54, 8, 80, ())


@triton.jit
def summed(x, out, BLOCK: tl.constexpr):
    offsets = tl.arange(0, BLOCK)
    v = tl.load(x + offsets)
    tl.store(out + offsets, tl.sort(v) / tl.sum(v))


@pytest.mark.skipif(assemble.find_assembler() is None, reason="no assembler")
@pytest.mark.parametrize("options", [{}, {"maxnreg": 32}], ids=["all registers", "few"])
def test_a_log_that_says_nothing(options):
    """nvJitLink's may: the cubin says the same of registers and the stack frame."""
    args = (np.zeros(4096, np.float32), np.zeros(4096, np.float32))
    code = launch_code(summed, args, {"BLOCK": 4096, "num_warps": 4, **options}, NvidiaTarget(90))
    facts = code.metadata
    found = assemble.report_of(code.binary, "")
    assert (found.registers, found.stack_bytes) == (facts["registers"], facts["local_bytes"]) and found.registers > 0
    assert (found.spill_bytes > 0) == (facts["spill_bytes"] > 0) == bool(options)
    told = "ptxas info    : Used 7 registers, used 1 barriers\n"
    assert assemble.report_of(code.binary, told).registers == 7
    assert assemble.report_of(b"no ELF file", "") == assemble.Report()
