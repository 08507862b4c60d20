"""The CPU target: passes, code generation, machine code, loading.

Before: tile IR fresh from the frontend.  After: `CodeObject` with relocatable machine code for this machine's CPU,
which `load` maps into the process.  Tests: tests/targets/cpu/.
"""

from __future__ import annotations

from collections.abc import Sequence

from tilewright import passes
from tilewright.ir.node import Module
from tilewright.language.options import Options
from tilewright.passes.manager import Pass
from tilewright.targets.base import CodeObject, LoadedKernel, Target
from tilewright.targets.cpu.generate import generate
from tilewright.targets.cpu.host.portable import PortableHost
from tilewright.targets.llvm.toolchain import Machine, compile_object, host_machine

# Names the generated code: part of every cache key, so a change of code generation must change it.
VERSION = "cpu-1"


def vector_bits(machine: Machine) -> int:
    """Width of the vector registers that code is made for."""
    if machine.isa.avx512:
        return 512
    return 256 if "+avx2" in machine.features.split(",") else 128


class CpuTarget(Target):
    """This machine's CPU, or another one that `machine` names (such code cannot be loaded here)."""

    name = "cpu"

    def __init__(self, machine: Machine | None = None, threads: int | None = None) -> None:
        self.machine = machine if machine is not None else host_machine()
        self._threads = threads
        self._host: PortableHost | None = None

    def key(self) -> str:
        return f"{VERSION} {self.machine.key()}"

    def passes(self, options: Options) -> Sequence[Pass]:
        return passes.standard(options.enable_fp_fusion)

    def compile(self, module: Module, options: Options) -> CodeObject:
        generated = generate(module, self.machine.isa, vector_bits(self.machine))
        compiled = compile_object(generated.text, self.machine)
        return CodeObject(self.name, module.entry_name, compiled.binary, {"llir": generated.text}, generated.metadata)

    listings = ("asm",)

    def listing(self, code: CodeObject, name: str) -> str:
        if name not in self.listings:
            raise KeyError(name)
        return compile_object(code.texts["llir"], self.machine).assembly()

    def load(self, code: CodeObject) -> LoadedKernel:
        if self._host is None:
            self._host = PortableHost(self._threads)
        return self._host.load(code)
