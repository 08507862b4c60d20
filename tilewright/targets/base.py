"""What a target is: passes, code generation, loading and launching.  Targets never meet each other or the runtime."""

from __future__ import annotations

import ctypes
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from tilewright.ir.node import Module
from tilewright.language.options import Options
from tilewright.locks import NO_FORK

Pass = Callable[[Module], Module]


@dataclass(frozen=True, slots=True)
class CodeObject:
    """A compiled kernel, ready to be stored or loaded.

    `binary` is relocatable machine code (or a cubin); `texts` the stages for people (`tile`, `llir`, `asm`, `ptx`);
    `metadata` is plain data (JSON types), among it what `load` needs (entry symbol, scratch bytes, messages).
    """

    target: str
    name: str
    binary: bytes
    texts: Mapping[str, str] = field(default_factory=dict)
    metadata: Mapping[str, Any] = field(default_factory=dict)

    def hash(self) -> str:
        """A text that is equal for equal code."""
        with NO_FORK:
            import hashlib  # loads a large library that most processes do not need
        return hashlib.sha256(self.name.encode() + self.binary).hexdigest()


# A step of a compilation: from what the step before it gave, and a dict that all steps of a kernel share.
Stage = Callable[[Any, dict[str, Any]], Any]
# In that dict: what else there is to do, best while a compile child works.  The stage that sends it text takes it out.
MEANWHILE = "meanwhile"


class NativeCode(Protocol):
    """What maps native code into this process: `targets.cpu.host.launcher.Launchers`."""

    def load(self, name: str, key: str, text: Callable[[], str], symbols: Mapping[str, int]) -> int: ...


class LoadedKernel(ABC):
    """Machine code in memory.

    `record` is the address by which native launchers know it, 0 if they cannot launch it.  The first word there is the
    address of a native function `(record, slots, x, y, z, frame) -> 0`, or another number if the launch failed: then
    `failure` makes the error, unless a Python error is set.  `frame` are 256 bytes for the story.
    """

    record: int = 0

    @property
    def resources(self) -> Any:
        """What only the loader of the code knows: `registers` and `local_bytes` of a thread; None where there is no
        such thing."""
        return None

    def make_launchable(self, native: NativeCode) -> None:      # noqa: B027  (a record may be complete at once)
        """Fill in what the record lacks, before a native launcher is given it."""

    def failure(self, grid: tuple[int, int, int], frame: int) -> BaseException:
        """The error of a native launch that failed and left its story at address `frame`."""
        raise NotImplementedError

    @abstractmethod
    def launch(self, grid: tuple[int, int, int], slots: Sequence[int]) -> None:
        """Run every program of `grid`.

        `slots` has one 64-bit pattern for each parameter of the entry in order: a pointer's address, an integer sign-
        or zero-extended, a float's bits in the low bits.  Behind them come the extents, two patterns for each pointer
        parameter in order: the address of the lowest byte that its tensor reaches, and of the byte after the highest
        (equal if it reaches none).  On a CPU the call returns when all programs have ended; a failed `device_assert`
        is raised as `KernelAssertionError`, an access that leaves its argument's extent as `OutOfBoundsError`.
        """


class MemoryCopy(ABC):
    """Bytes of a target's memory as they were when it was made."""

    @abstractmethod
    def restore(self) -> None:
        """Put them back, before what is launched from now on."""


class HostCopy(MemoryCopy):
    """A copy in the CPU's memory of bytes there."""

    def __init__(self, address: int, size: int) -> None:
        self._address, self._data = address, ctypes.string_at(address, size)

    def restore(self) -> None:
        ctypes.memmove(self._address, self._data, len(self._data))


class Target(ABC):
    """A code generator with its machine."""

    name: str

    @abstractmethod
    def key(self) -> str:
        """A text that names everything of the machine that generated code depends on."""

    def prepare(self) -> None:      # noqa: B027  (a target without start-up has nothing to do)
        """`compile` will be called soon: start, without waiting, what it would have to wait for."""

    def import_compiler(self) -> None:      # noqa: B027  (a target may import everything at once)
        """Import what `passes` and `compile` import late; this process is not forked meanwhile."""

    @abstractmethod
    def passes(self, options: Options) -> Sequence[Any]:
        """The pass list (records of `passes.manager`) that leads from fresh tile IR to what `compile` takes."""

    @abstractmethod
    def compile(self, module: Module, options: Options, meanwhile: Callable[[], object] | None = None) -> CodeObject:
        """Machine code for a module on which `passes` have run; `meanwhile` is called once, at the best time."""

    def stages(self, options: Options) -> Mapping[str, Stage]:
        """What `compile` does, in steps by name for those who want to look at or change what is between them."""
        return {"code": lambda module, metadata: self.compile(module, options, metadata.pop(MEANWHILE, None))}

    def launchers(self) -> Any:
        """What makes native launchers for loaded kernels, or None where there are none."""
        return None

    @abstractmethod
    def load(self, code: CodeObject) -> LoadedKernel:
        """Map the code into this process."""

    def read(self, address: int, size: int) -> bytes:
        """`size` bytes of the memory that the target's kernels work on, after all launches."""
        return ctypes.string_at(address, size)

    def write(self, address: int, data: bytes) -> None:
        """Put bytes into that memory, after all launches."""
        ctypes.memmove(address, data, len(data))

    def copy(self, address: int, size: int) -> MemoryCopy:
        """A copy of bytes of that memory, kept there."""
        return HostCopy(address, size)

    listings: tuple[str, ...] = ()      # texts that `listing` makes when somebody asks, such as assembly

    def listing(self, code: CodeObject, name: str) -> str:
        """The text `name`, one of `listings`, of compiled code."""
        raise KeyError(name)
