"""PTX becomes a cubin with nvJitLink or ptxas; what neither takes, and what dies, is an error of one compilation."""

import os
import re
import stat
import subprocess
import sys
import time
from dataclasses import replace

import pytest

from tilewright.diagnostics import CompilationError
from tilewright.targets.llvm import cubin
from tilewright.targets.llvm.client import CompileChildren
from tilewright.targets.llvm.cubin import AssemblerError, assemble
from tilewright.targets.llvm.inprocess import InProcess
from tilewright.targets.llvm.machine import CUBIN, FROM_PTX, Assembler, Machine, Request
from tilewright.targets.llvm.requests import pack, read_reproducer, reproducer, unpack
from tilewright.targets.nvidia.assemble import find_library, find_tool
from tilewright.targets.nvidia.disassemble import disassemble

GPU = Machine("nvptx64-nvidia-cuda", "sm_90a", "+ptx80")
KERNEL = """define ptx_kernel void @k(ptr addrspace(1) %p) "nvvm.reqntid"="128" {
  %t = call i32 @llvm.nvvm.read.ptx.sreg.tid.x()
  %a = getelementptr i32, ptr addrspace(1) %p, i32 %t
  store i32 %t, ptr addrspace(1) %a, align 4
  ret void
}
declare i32 @llvm.nvvm.read.ptx.sreg.tid.x()
"""
BAD_ASSEMBLY = KERNEL.replace("  ret void", '  call void asm sideeffect "nonsense.u32 1;", ""()\n  ret void')
PTX = b""".version 8.0
.target sm_90a
.address_size 64
.visible .entry k() { ret; }
"""
needs_ptxas = pytest.mark.skipif(find_tool("ptxas") is None, reason="no ptxas on this machine")
needs_library = pytest.mark.skipif(find_library() is None, reason="no nvJitLink on this machine")
PTXAS = Assembler(ptxas=find_tool("ptxas") or "")
LIBRARY = Assembler(library=find_library() or "")
ASSEMBLERS = [pytest.param(PTXAS, id="ptxas", marks=needs_ptxas),
              pytest.param(LIBRARY, id="nvJitLink", marks=needs_library)]


@pytest.fixture(scope="module")
def children():
    made = CompileChildren(limit=1, timeout_s=120)
    yield made
    made.close()


def request_for(text, assembler, cpu="sm_90a"):
    return Request(text, Machine(GPU.triple, cpu, GPU.features), CUBIN, 3, 1, assembler)


def program(folder, text):
    """A program that stands for ptxas."""
    path = folder / "ptxas"
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return Assembler(ptxas=str(path))


@pytest.mark.parametrize("assembler", ASSEMBLERS)
def test_in_the_child_and_here(children, assembler, tmp_path):
    for compiler in (children, InProcess()):
        ptx, cubin, log, tool = compiler.products(request_for(KERNEL, assembler), "k")
        assert b".visible .entry k(" in ptx and cubin.startswith(b"\x7fELF")
        assert re.search(rb"Used \d+ registers", log) and b"0 bytes spill stores" in log
        assert tool.decode().split()[0] == ("nvJitLink" if assembler.library else "ptxas")
        assert re.match(r"\d+\.\d+", tool.decode().split()[1])


@pytest.mark.parametrize("assembler", ASSEMBLERS)
def test_of_ptx_llvm_makes_nothing(children, assembler):
    ptx = InProcess().products(request_for(KERNEL, assembler), "k")[0].decode()
    request = replace(request_for(ptx, assembler), output=FROM_PTX)
    assert read_reproducer(reproducer(request), request.machine) == request
    for compiler in (children, InProcess()):
        cubin, log, tool = compiler.products(request, "k")
        assert cubin.startswith(b"\x7fELF") and b"Used" in log and tool
        with pytest.raises(CompilationError, match="(?s)ptxas refuses the code of k: "):
            compiler.products(replace(request, text=KERNEL), "k")


@pytest.mark.parametrize("assembler", ASSEMBLERS)
def test_refused_code_names_the_kernel(children, assembler):
    for compiler in (children, InProcess()):
        with pytest.raises(CompilationError, match="(?s)ptxas refuses the code of k: .*nonsense"):
            compiler.products(request_for(BAD_ASSEMBLY, assembler), "k")
    assert children.products(request_for(KERNEL, assembler), "k")


@needs_ptxas
@needs_library
def test_both_make_the_same_code():
    """Instruction for instruction, where nothing is relocated."""
    if find_tool("nvdisasm") is None and find_tool("cuobjdump") is None:
        pytest.skip("no disassembler")
    listings = []
    for assembler in (PTXAS, LIBRARY):
        text = disassemble(InProcess().products(request_for(KERNEL, assembler), "k")[1])
        listings.append(re.findall(r"/\*[0-9a-f]{4,}\*/\s+(.*?;)", text))
    assert listings[0] == listings[1] and any("STG.E" in line for line in listings[0])


@needs_library
@pytest.mark.skipif(sys.platform != "linux", reason="the loader of glibc says what it looks for")
def test_the_library_does_not_look_for_the_driver():
    """It would for a cache of its own."""
    program = f"from {assemble.__module__} import assemble, Assembler; assemble({PTX!r}, 'sm_90a', {LIBRARY!r})"
    made = subprocess.run([sys.executable, "-c", program], env={**os.environ, "LD_DEBUG": "libs"}, text=True,
                          capture_output=True, check=True)
    assert "libnvJitLink" in made.stderr and "libcuda" not in made.stderr


def test_an_older_library_that_knows_no_option_for_the_cache(monkeypatch):
    class Older:
        """Refuses what it does not know, and makes a handle, as nvJitLink does."""

        asked, handles = [], set()

        def nvJitLinkCreate(self, handle, count, options):      # noqa: N802
            self.asked.append(list(options))
            handle._obj.value = len(self.asked)
            self.handles.add(handle._obj.value)
            return int(b"-no-cache" in self.asked[-1])

        def nvJitLinkDestroy(self, handle):     # noqa: N802
            self.handles.remove(handle._obj.value)
            handle._obj.value = None
            return 0

        def __getattr__(self, name):
            return lambda *arguments: 0

    older = Older()
    monkeypatch.setattr(cubin, "_load", lambda path: older)
    made = assemble(PTX, "sm_90a", Assembler(library="older"))
    assert made.tool.startswith("nvJitLink") and len(older.asked) == 2 and not older.handles
    assert older.asked[0] == [*older.asked[1], b"-no-cache"] and b"-arch=sm_90a" in older.asked[1]


@needs_ptxas
def test_registers_that_are_set_go_to_ptxas():
    ptx = b"""
.version 8.0
.target sm_90a
.address_size 64
.visible .entry k() .reqntid 128 .minnctapersm 1 { setmaxnreg.dec.sync.aligned.u32 40; ret; }
"""
    made = assemble(ptx, "sm_90a", Assembler(LIBRARY.library, PTXAS.ptxas))
    assert made.tool.startswith("ptxas") and "C7504" not in made.log and made.binary.startswith(b"\x7fELF")


@needs_ptxas
def test_a_library_that_is_none_is_not_used(tmp_path):
    broken = tmp_path / "libnvJitLink.so.13"
    broken.write_bytes(b"no library")
    ptx = InProcess().products(request_for(KERNEL, PTXAS), "k")[0]
    assert assemble(ptx, "sm_90a", Assembler(str(broken), PTXAS.ptxas)).tool.startswith("ptxas")


@needs_library
def test_an_architecture_that_the_library_does_not_know():
    with pytest.raises(AssemblerError):
        assemble(b"", "sm_999", LIBRARY)
    ptx = InProcess().products(request_for(KERNEL, LIBRARY), "k")[0]
    with pytest.raises(AssemblerError, match="(?i)999|architecture|invalid"):
        assemble(ptx, "sm_999", LIBRARY)


@needs_library
def test_what_the_library_refuses_is_for_ptxas_to_judge(tmp_path):
    newer = program(tmp_path, 'echo "Used 7 registers"; echo newer > "$6"')
    assert assemble(b"nonsense", "sm_90a", Assembler(LIBRARY.library, newer.ptxas)).binary == b"newer\n"


def test_ptxas_that_cannot_run_or_fails(children, tmp_path):
    with pytest.raises(CompilationError, match="refuses the code of k: .*cannot be run"):
        children.products(request_for(KERNEL, Assembler(ptxas=str(tmp_path / "nowhere"))), "k")
    with pytest.raises(CompilationError, match="refuses the code of k: ptxas ended with status -9"):
        children.products(request_for(KERNEL, program(tmp_path, "kill -9 $$")), "k")
    assert children.products(request_for(KERNEL, program(tmp_path, 'echo "Used 7 registers"; touch "$6"')), "k")[2]


@pytest.mark.skipif(not hasattr(os, "killpg"), reason="POSIX processes")
def test_an_assembler_that_hangs_ends_with_its_child(tmp_path):
    noted = tmp_path / "pid"
    hangs = program(tmp_path, f"echo $$ > {noted}; sleep 100")
    compiler = CompileChildren(limit=1, timeout_s=3, reproducers=tmp_path)
    with pytest.raises(CompilationError, match="LLVM or the assembler has not compiled k within 3 s"):
        compiler.products(request_for(KERNEL, hangs), "k")
    compiler.close()
    pid = int(noted.read_text())
    end = time.monotonic() + 5
    while os.path.exists(f"/proc/{pid}") and "Z" not in open(f"/proc/{pid}/stat").read().split(")")[1][:3]:
        assert time.monotonic() < end
        time.sleep(0.01)


def test_requests_carry_the_assembler():
    request = request_for(KERNEL, Assembler("/a/libnvJitLink.so.13", "/b/ptxas", ("-lineinfo", "-x")))
    assert unpack(pack(request)) == request
    assert read_reproducer(reproducer(request), GPU) == request
