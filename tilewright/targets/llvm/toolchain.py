"""From LLVM text to machine code in memory, through llvmlite.

This module imports llvmlite, so it is imported by what compiles, never by `import tilewright`.
`compile_object` takes text and plain options and gives plain data, so that it can run in another process.
Errors of LLVM become `InternalError` with the offending line: the text is ours, so a bad line is our fault.
`machine` and `request` are the plain data of it, `client` asks a child process to do it.
Tests: tests/targets/llvm/test_toolchain.py.
"""

from __future__ import annotations

import itertools
import re
from dataclasses import dataclass
from functools import cache

import llvmlite.binding as llvm

from tilewright.diagnostics import InternalError
from tilewright.targets.llvm.cubin import AssemblerError, assemble
from tilewright.targets.llvm.machine import ASSEMBLY, CUBIN, FROM_PTX, OBJECT, Machine, Request
from tilewright.targets.llvm.ptx_repairs import repaired

_TUNED = (22,)      # major versions of LLVM that were tried with `tune`


def _initialise() -> None:
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    llvm.initialize_native_asmparser()      # of inline assembly; llvmlite has no call for the other targets' parsers


def tune() -> None:
    """Set LLVM's options, which count for the whole process: once, where nobody else uses LLVM.

    CodeGenPrepare begins anew with a function's first block whenever it has changed the control flow, unless it calls
    the function huge; with a thousand blocks that was four fifths of the time.  The code is the same, to the byte
    (vector add, softmax, matmul, 200 unrolled stores; LLVM 22, 2026-11-30).
    Straight-line strength reduction, which code for NVIDIA GPUs passes through, compares every address with every
    other one: 60 to 90 per cent of the time of tiled products, and ptxas makes as many instructions without it (seven
    kernels for sm_90a, LLVM 22, ptxas 13.5, 2026-11-30).  An option that it does not know ends LLVM.
    """
    if llvm.llvm_version_info[0] in _TUNED:
        llvm.set_option("tilewright", "-cgpp-huge-func=0")
        llvm.set_option("tilewright", "-opt-disable=slsr,nary-reassociate,load-store-vectorizer")


def warm_up() -> None:
    """Do what only the first compilation would have to wait for."""
    compile_object("define void @f() {\n  ret void\n}\n", host_machine())


def host_machine() -> Machine:
    """The machine that this process runs on."""
    _initialise()
    return Machine(llvm.get_process_triple(), llvm.get_host_cpu_name(), llvm.get_host_cpu_features().flatten(),
                   ".".join(map(str, llvm.llvm_version_info)))


@dataclass(frozen=True, slots=True)
class CompiledObject:
    """Relocatable machine code, and what it was made from."""

    binary: bytes
    text: str
    machine: Machine
    codegen_level: int = 2
    optimise: int = 0

    def assembly(self) -> str:
        """The assembly of `binary`; generated anew, since few ask for it."""
        request = Request(self.text, self.machine, ASSEMBLY, self.codegen_level, self.optimise)
        return compile_request(request).decode()


def compile_object(text: str, machine: Machine, *, codegen_level: int = 2, optimise: int = 0) -> CompiledObject:
    """Compile a module.  `optimise` runs a small pass pipeline first (what we emit seldom needs it)."""
    binary = compile_request(Request(text, machine, OBJECT, codegen_level, optimise))
    return CompiledObject(binary, text, machine, codegen_level, optimise)


def products(request: Request) -> list[bytes]:
    """All that a request makes, see `machine.Compiler.products`; `AssemblerError` where the assembler refuses it."""
    if request.output == FROM_PTX:
        return _assembled(request.text.encode(), request)
    made = compile_request(request)
    return [made, *_assembled(made, request)] if request.output == CUBIN else [made]


def _assembled(ptx: bytes, request: Request) -> list[bytes]:
    cubin = assemble(ptx, request.machine.cpu, request.assembler)
    return [cubin.binary, cubin.log.encode(), cubin.tool.encode()]


def compile_request(request: Request) -> bytes:
    """What LLVM makes of a request: an object, or assembly."""
    target = _target_machine(request.machine, request.codegen_level)
    module = _parse(request.text, target)
    if request.optimise == 1:
        _run_passes(module, target)
    elif request.optimise:
        _run_pipeline(module, target, request.optimise)
    if request.output in (ASSEMBLY, CUBIN):
        text = str(target.emit_assembly(module))
        return (repaired(text) if request.machine.triple.startswith("nvptx") else text).encode()
    return bytes(target.emit_object(module))


@cache
def _target_machine(machine: Machine, codegen_level: int) -> llvm.TargetMachine:
    _initialise()
    return llvm.Target.from_triple(machine.triple).create_target_machine(
        cpu=machine.cpu, features=machine.features, opt=codegen_level, reloc="pic", codemodel="default")


def _parse(text: str, target: llvm.TargetMachine) -> llvm.ModuleRef:
    try:
        module = llvm.parse_assembly(text)
        module.triple = target.triple
        module.data_layout = str(target.target_data)
        module.verify()
    except RuntimeError as error:
        raise InternalError(_explain(str(error), text)) from error
    return module


def _explain(message: str, text: str) -> str:
    """LLVM's message with the line of `text` that it speaks of."""
    message = message.strip()
    lines = text.splitlines()
    place = re.search(r":(\d+):\d+: error", message)
    if place is not None:
        number = int(place[1])
    else:   # the verifier prints the instruction instead of a line number
        printed = {line.strip() for line in message.splitlines()}
        number = next((k for k, line in enumerate(lines, 1) if line.strip() and line.strip() in printed), 0)
    where = f"\nline {number}: {lines[number - 1].strip()}" if 0 < number <= len(lines) else ""
    return f"LLVM refused generated code: {message}{where}"


def _run_passes(module: llvm.ModuleRef, target: llvm.TargetMachine) -> None:
    options = llvm.create_pipeline_tuning_options(speed_level=0)
    passes = llvm.create_new_module_pass_manager()
    passes.add_always_inliner_pass()
    passes.add_sroa_pass()
    passes.add_instruction_combine_pass()
    passes.add_simplify_cfg_pass()
    passes.run(module, llvm.create_pass_builder(target, options))


def _run_pipeline(module: llvm.ModuleRef, target: llvm.TargetMachine, level: int) -> None:
    """LLVM's pass pipeline of optimisation level `level`."""
    builder = llvm.create_pass_builder(target, llvm.create_pipeline_tuning_options(speed_level=level))
    builder.getModulePassManager().run(module, builder)


__all__ = ["AssemblerError", "CompiledObject", "LoadedObject", "Loader", "assemble", "compile_object",
           "compile_request", "host_machine", "products", "tune", "warm_up"]


class LoadedObject:
    """Machine code in memory; it stays there as long as this object lives."""

    def __init__(self, tracker: llvm.ResourceTracker, symbol: str) -> None:
        self._tracker = tracker
        self.address: int = tracker[symbol]


class Loader:
    """Loads objects into this process; symbols that they do not define are looked up in the process (libc, libm)."""

    def __init__(self) -> None:
        _initialise()
        self._jit = llvm.create_lljit_compiler()
        self._numbers = itertools.count()

    def load(self, binary: bytes, symbol: str) -> LoadedObject:
        """Map `binary` and find `symbol`."""
        library = (llvm.JITLibraryBuilder().add_object_img(binary).add_current_process().export_symbol(symbol))
        try:
            tracker = library.link(self._jit, f"object{next(self._numbers)}")
        except RuntimeError as error:
            raise InternalError(f"cannot load the object of {symbol!r}: {error}") from error
        return LoadedObject(tracker, symbol)
