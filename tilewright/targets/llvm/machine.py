"""What is asked of LLVM, as plain data, and who can be asked.

A `Compiler` turns LLVM text into machine code: in this process (`inprocess`) or in a child process (`client`).
Nothing here imports llvmlite.  Tests: tests/targets/llvm/test_toolchain.py, tests/targets/llvm/test_client.py.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

from tilewright.targets.llvm.isa import Isa

OBJECT, ASSEMBLY = "object", "assembly"


@dataclass(frozen=True, slots=True)
class Machine:
    """A machine as LLVM names it, and the version of LLVM that says so."""

    triple: str
    cpu: str
    features: str
    llvm: str = ""

    @property
    def isa(self) -> Isa:
        return Isa.of(self.triple, self.features)

    def key(self) -> str:
        """All that generated code depends on."""
        return f"{self.triple} {self.cpu} {self.features} llvm-{self.llvm}"


@dataclass(frozen=True, slots=True)
class Request:
    """LLVM text, and what to make of it: `output` is "object" or "assembly".

    `optimise` 1 runs a small pass pipeline first, which what we emit for CPUs seldom needs; 3 runs LLVM's own of that
    level.
    """

    text: str
    machine: Machine
    output: str = OBJECT
    codegen_level: int = 2
    optimise: int = 0


class Compiler(ABC):
    """LLVM, somewhere."""

    @abstractmethod
    def host(self) -> Machine:
        """The machine that this process runs on."""

    @abstractmethod
    def compile(self, request: Request, name: str) -> bytes:
        """The object, or the assembly as UTF-8.  `name` is what messages call it.

        Raises `InternalError` where LLVM refuses the text, and `CompilationError` without a location where LLVM ends
        its process or takes too long.
        """

    @abstractmethod
    def prepare(self) -> None:
        """A request will come soon: do now, without waiting, what would make it wait."""
