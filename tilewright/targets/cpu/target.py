"""The CPU target: passes, code generation, machine code, loading.

Before: tile IR fresh from the frontend.  After: `CodeObject` with relocatable machine code for this machine's CPU,
which `load` maps into the process.  What generates code is imported when code is generated: to load a kernel from the
disk cache, none of it is needed.  Tests: tests/targets/cpu/.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tilewright.collecting import COLLECTOR_RESTS
from tilewright.computed import computed
from tilewright.ir.node import Module
from tilewright.language.options import Options
from tilewright.locks import NO_FORK
from tilewright.targets.base import MEANWHILE, CodeObject, LoadedKernel, Stage, Target
from tilewright.targets.cpu.host.choice import Host, make_host
from tilewright.targets.cpu.host.library import ObjectStore
from tilewright.targets.cpu.host.tile_permission import permitted
from tilewright.targets.cpu.machines import named
from tilewright.targets.llvm.machine import ASSEMBLY, Compiler, Machine, Request, compile_children

if TYPE_CHECKING:
    from tilewright.passes.manager import Pass

# Names the target in cache keys; what generates its code is in them by content (runtime.fingerprint).
VERSION = "cpu-3"


def vector_bits(machine: Machine) -> int:
    """Width of the vector registers that code is made for."""
    if machine.isa.avx512:
        return 512
    return 256 if "+avx2" in machine.features.split(",") else 128


class CpuTarget(Target):
    """This machine's CPU, what `cpu` names of it (see `machines`), or another `machine`, for which it only compiles.

    `compiler` runs LLVM; by default that is a child process, which all targets share.  `host` is the kind
    of host that runs kernels (see `host.choice`), which stops them after `timeout_s` (0: never), catches their memory
    faults if it can, keeps its own machine code in `store`, and tells Linux's perf of code as `perf` says.
    """

    name = "cpu"

    def __init__(self, machine: Machine | None = None, threads: int | None = None,
                 compiler: Compiler | None = None, host: str = "", timeout_s: float = 0.0,
                 store: ObjectStore | None = None, cpu: str = "", catches_faults: bool = True,
                 perf: str = "") -> None:
        self._machine = machine
        self._cpu = cpu
        self._given_compiler = compiler
        self._host_settings = (host, threads, timeout_s, store, catches_faults, perf)

    @computed
    def _compiler(self) -> Compiler:
        return compile_children() if self._given_compiler is None else self._given_compiler

    @property
    def machine(self) -> Machine:
        """The machine that code is generated for; the compiler says what this one is."""
        if self._machine is None:
            self._machine = permitted(named(self._cpu, self._compiler.host()))
        return self._machine

    def prepare(self) -> None:
        self._compiler.prepare()

    def import_compiler(self) -> None:
        with NO_FORK:
            import tilewright.passes
            import tilewright.targets.cpu.generate  # noqa: F401

    def key(self) -> str:
        return f"{VERSION} {self.machine.key()}"

    def passes(self, options: Options) -> Sequence[Pass]:
        with NO_FORK:
            from tilewright import passes
        return passes.standard(options.enable_fp_fusion)

    def compile(self, module: Module, options: Options, meanwhile: Callable[[], object] | None = None) -> CodeObject:
        metadata: dict[str, Any] = {} if meanwhile is None else {MEANWHILE: meanwhile}
        return self._object(self._text(module, metadata, options), metadata)

    def stages(self, options: Options) -> Mapping[str, Stage]:
        """`llir` makes LLVM text of tile IR, `object` machine code of that."""
        return {"llir": lambda module, metadata: self._text(module, metadata, options), "object": self._object}

    def _text(self, module: Module, metadata: dict[str, Any], options: Options) -> str:
        with NO_FORK:
            from tilewright.targets.cpu.generate import generate
        with COLLECTOR_RESTS:
            generated = generate(module, self.machine.isa, vector_bits(self.machine), options.check_bounds,
                                 options.line_info)
        metadata.update({"name": module.entry_name, **generated.metadata})
        return generated.text

    def _object(self, text: str, metadata: dict[str, Any]) -> CodeObject:
        name, meanwhile = metadata["name"], metadata.pop(MEANWHILE, None)
        binary = self._compiler.compile(Request(text, self.machine), name, meanwhile)
        return CodeObject(self.name, name, binary, {"llir": text}, metadata)

    listings = ("asm",)

    def listing(self, code: CodeObject, name: str) -> str:
        if name not in self.listings:
            raise KeyError(name)
        return self._compiler.compile(Request(code.texts["llir"], self.machine, ASSEMBLY), code.name).decode()

    @computed
    def _host(self) -> Host:
        host, threads, timeout_s, store, catches_faults, perf = self._host_settings
        return make_host(host, self._compiler, threads, timeout_s, store, catches_faults, perf)

    def load(self, code: CodeObject) -> LoadedKernel:
        return self._host.load(code)

    def launchers(self) -> Any:
        return self._host.launchers
