"""What is asked of LLVM, as plain data, and who can be asked.

A `Compiler` turns LLVM text into machine code: in this process (`inprocess`) or in a child process (`client`).
Nothing here imports llvmlite.  Tests: tests/targets/llvm/test_toolchain.py, tests/targets/llvm/test_client.py.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass

from tilewright.diagnostics import CompilationError, PTXASError
from tilewright.locks import NO_FORK
from tilewright.targets.llvm.isa import Isa

OBJECT, ASSEMBLY, CUBIN, FROM_PTX = "object", "assembly", "cubin", "cubin of PTX"


@dataclass(frozen=True, slots=True)
class Machine:
    """A machine as LLVM names it, and the version of LLVM that says so."""

    triple: str
    cpu: str
    features: str
    llvm: str = ""

    @property
    def isa(self) -> Isa:
        return Isa.of(self.triple, self.features, self.cpu)

    def key(self) -> str:
        """All that generated code depends on."""
        return f"{self.triple} {self.cpu} {self.features} llvm-{self.llvm}"


@dataclass(frozen=True, slots=True)
class Assembler:
    """What turns PTX into cubins: the files of nvJitLink's library and of ptxas ("" for none), options for both."""

    library: str = ""
    ptxas: str = ""
    options: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Request:
    """LLVM text, and what to make of it: `output` is "object", "assembly", or "cubin", which `assembler` makes.

    For "cubin of PTX" the text is PTX, and LLVM has no part in it.

    `optimise` 1 runs a small pass pipeline first, which what we emit for CPUs seldom needs; 3 runs LLVM's own of that
    level.
    """

    text: str
    machine: Machine
    output: str = OBJECT
    codegen_level: int = 2
    optimise: int = 0
    assembler: Assembler = Assembler()


class AssemblerRefusal(CompilationError, PTXASError):
    """The assembler does not take a kernel's code; `log` is what it says."""

    log = ""


def refused_by_assembler(name: str, log: str) -> AssemblerRefusal:
    """The error for a kernel that the assembler does not take."""
    error = AssemblerRefusal(f"ptxas refuses the code of {name}: {log.strip()}")
    error.log = log
    return error


# What can be done while LLVM works.
Meanwhile = Callable[[], object] | None


class Compiler(ABC):
    """LLVM, somewhere."""

    @abstractmethod
    def host(self) -> Machine:
        """The machine that this process runs on."""

    @abstractmethod
    def products(self, request: Request, name: str, meanwhile: Meanwhile = None) -> list[bytes]:
        """All that a request makes: the object, or the assembly as UTF-8; of a cubin the PTX, unless that was given,
        the cubin, the assembler's log and its name.  `name` is what messages call it; `meanwhile` is called once, while
        another process works where one does.

        Raises `InternalError` where LLVM refuses the text, `AssemblerRefusal` without a location where the
        assembler refuses it, and `CompilationError` where LLVM or nvJitLink ends its process or takes too long.
        """

    def compile(self, request: Request, name: str, meanwhile: Meanwhile = None) -> bytes:
        """The first, or only, product."""
        return self.products(request, name, meanwhile)[0]

    @abstractmethod
    def prepare(self) -> None:
        """A request will come soon: do now, without waiting, what would make it wait."""


def compile_children() -> Compiler:
    """The compiler of those who name none: LLVM in child processes, which all share."""
    with NO_FORK:
        from tilewright.targets.llvm.client import CHILDREN  # a kernel from the disk cache needs no compile child
    return CHILDREN
