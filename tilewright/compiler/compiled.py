"""A kernel that was compiled ahead of its launches: `kernel[grid](*all_arguments)`, or `kernel.run(...)` as torch does.

Everything that a launch needs is plain data in its attributes, so a process may compile it and another one, which got
the attributes by pickle, load it (`_init_handles`).
Tests: tests/compat/test_compile.py.
"""

from __future__ import annotations

import hashlib
from collections import namedtuple
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from tilewright.analysis.written import Written
from tilewright.backends.compiler import CpuOptions, TargetBackend
from tilewright.diagnostics import NoDriverError, shows_users_frames
from tilewright.language.options import Arg, ConstantArg, RuntimeArg
from tilewright.runtime import knobs
from tilewright.runtime.arguments import CPU, Pointer, Readers
from tilewright.runtime.devices import DEVICES
from tilewright.runtime.driver import GPUTarget, driver
from tilewright.runtime.grid import Grid, normalise
from tilewright.runtime.launch import CompiledKernel as LaunchedKernel
from tilewright.runtime.launch import (
    Stages,
    check_on_gpu,
    check_on_host,
    check_writable,
    facts_of,
    fast_memory,
    taken_by,
)
from tilewright.runtime.resources import KernelResources
from tilewright.runtime.specialize import pattern, type_text
from tilewright.targets.base import CodeObject, Target

if TYPE_CHECKING:
    from tilewright.compiler.source import ASTSource


class Taken(tuple[Any, ...]):
    """How a launch takes an argument: ("constant",), (type text, divided by 16) or ("tuple", *elements)."""


class _Assembly(Stages):
    """The stages of code for `target`; they can be pickled.  A CPU's machine code is `object`."""

    def __init__(self, code: CodeObject, target: GPUTarget) -> None:
        self._for = target
        super().__init__(code, self._generator)
        if target.backend == CPU:
            self._texts["object"] = code.binary

    def _generator(self) -> Target:
        settings = knobs.current()
        return DEVICES.cpu(settings) if self._for.backend == CPU else DEVICES.cuda_ahead(self._for.arch, settings)


class _AlsoLaunched(type):
    """Kernels that launches have compiled are compiled kernels, too."""

    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, LaunchedKernel) or type.__instancecheck__(cls, instance)


class CompiledKernel(KernelResources, metaclass=_AlsoLaunched):
    """See the module's docstring.  `fast` and `safe` are the two versions of the code, see `compilation`."""

    def __init__(self, src: ASTSource, options: CpuOptions, backend: TargetBackend, fast: CodeObject, safe: CodeObject,
                 written: Written) -> None:
        self.src = src
        self.name = src.name
        self.hash = hashlib.sha256(f"{src.hash()} {options.hash()} {fast.name}".encode() + fast.binary).hexdigest()
        self.target = backend.target
        self.asm = _Assembly(fast, backend.target)
        self.codes = (fast, safe)
        self.written = written
        args = src.args()
        self.taken = {name: _taken(arg) for name, arg in args.items()}
        shared = max(fast_memory(code) for code in self.codes)
        self.n_regs, self.n_spills, self.n_max_threads = taken_by(fast)
        facts = {**vars(options), "name": self.name, "hash": self.hash, "shared": shared, "target": backend.target,
                 "cluster_dims": (1, 1, 1), "global_scratch_size": 0, "profile_scratch_size": 0, "launch_pdl": False,
                 "launch_cooperative_grid": False}
        self.metadata = _metadata_class(tuple(sorted(facts)))(**facts)
        self.packed_metadata = (options.num_warps, options.num_ctas, shared)
        self.module: Any = None
        self.function: Any = None

    def _init_handles(self) -> None:
        """Load the code, if it is not loaded."""
        if self.module is None:
            try:
                device = CPU if self.target.backend == CPU else f"cuda:{driver.active.get_current_device()}"
                target = DEVICES.target(device, knobs.current())
            except NoDriverError as error:
                raise NoDriverError(
                    f"{self.name}: compiled for {self.target.backend}:{self.target.arch}, but {error}; to run it on "
                    "this machine, compile it for its CPU: target=GPUTarget('cpu', '', 32), or launch the @jit function"
                ) from None
            self.module = tuple(target.load(code) for code in self.codes)
            self.function = self.module[0]

    @property
    @shows_users_frames
    def run(self) -> Callable[..., None]:
        """The launcher: `run(x, y, z, stream, function, metadata, launch_metadata, enter, exit, *all_arguments)`."""
        self._init_handles()
        return self._run

    def _run(self, x: int, y: int, z: int, stream: object, function: object, metadata: object,
             launch_metadata: object, enter: Callable[[object], None] | None, leave: Callable[[object], None] | None,
             *args: Any) -> None:
        if enter:
            enter(launch_metadata)
        self._launch((int(x), int(y), int(z)), args)
        if leave:
            leave(launch_metadata)

    def launch_metadata(self, grid: Sequence[int], stream: object, *args: Any) -> dict[str, Any]:
        """What hooks get."""
        return {"name": self.name, "function": self.function, "stream": stream, "grid": tuple(grid)}

    @shows_users_frames
    def __getitem__(self, grid: Any) -> Callable[..., None]:
        self._init_handles()
        sizes = normalise(self.name, grid, None)
        return shows_users_frames(lambda *args: self._launch(sizes, args))

    def _launch(self, grid: Grid, args: Sequence[Any]) -> None:
        slots, names, pointers = self._split(args)
        if self.target.backend == CPU:
            check_on_host(self.name, names, pointers)
        else:
            check_on_gpu(self.name, names, pointers)
        check_writable(self.name, names, pointers, self.written)
        facts = facts_of(pointers, self.written)
        loaded = self.module[0 if facts.disjoint and not facts.wide else 1]
        if grid[0] and grid[1] and grid[2]:
            extents = [end for _, p in pointers for end in (p.low, p.high)]
            loaded.launch(grid, [*slots, *extents])

    def _split(self, args: Sequence[Any]) -> tuple[list[int], list[str], list[tuple[int, Pointer]]]:
        """The bit patterns of the run-time arguments, the names that go with them, and the pointers among them."""
        if len(args) != len(self.taken):
            raise TypeError(f"{self.name}: a compiled kernel takes all {len(self.taken)} arguments "
                            f"({', '.join(self.taken)}), not {len(args)}")
        slots: list[int] = []
        names: list[str] = []
        pointers: list[tuple[int, Pointer]] = []
        readers = Readers()

        def take(name: str, taken: Taken, value: Any) -> None:
            if taken[0] == "constant":
                return
            if taken[0] == "tuple":
                for index, (item, part) in enumerate(zip(taken[1:], value, strict=True)):
                    take(f"{name}[{index}]", item, part)
                return
            text, divides = taken
            word = pattern(text, value) if not text.startswith("*") else None
            if word is None:
                reader = readers.find(type(value), value)
                if reader is None:
                    raise TypeError(f"{self.name}: parameter {name!r} is {text}, so it takes a tensor, "
                                    f"not {type(value).__name__}")
                pointer = reader(value)
                pointers.append((len(slots), pointer))
                word = pointer.address
            if divides and word % 16:
                raise ValueError(f"{self.name}: parameter {name!r} was compiled as a multiple of 16, and is {word}")
            slots.append(word)
            names.append(name)

        for (name, taken), value in zip(self.taken.items(), args, strict=True):
            take(name, taken, value)
        return slots, names, pointers

    def __repr__(self) -> str:
        return f"<CompiledKernel {self.name} for {self.codes[0].target}>"


def _taken(arg: Arg) -> Taken:
    if isinstance(arg, ConstantArg):
        return Taken(("constant",))
    if isinstance(arg, RuntimeArg):
        return Taken((type_text(arg.type), arg.divisible_by == 16))
    return Taken(("tuple", *(_taken(item) for item in arg.items)))


def _metadata_class(fields: tuple[str, ...]) -> Any:
    return namedtuple("KernelMetadata", fields)
