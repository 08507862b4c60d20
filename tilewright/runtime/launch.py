"""A compiled kernel, the facts of a launch, and the launch itself.

The facts come from the extents of the pointer arguments (docs/design.md, Launch facts): `disjoint`, that nothing which
a written argument reaches overlaps another argument, and `wide`, that some argument reaches 2**30 elements or more.
Tests: tests/runtime/test_launch.py.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator, KeysView, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, NoReturn

from tilewright.analysis.written import Written
from tilewright.computed import computed
from tilewright.diagnostics import MemoryFaultError
from tilewright.language.options import Options
from tilewright.locks import NO_FORK
from tilewright.runtime import knobs
from tilewright.runtime.arguments import ANYWHERE, CPU, ELEMENTS, Pointer
from tilewright.runtime.driver import driver
from tilewright.runtime.grid import Grid
from tilewright.runtime.hooks import HOOKS
from tilewright.runtime.resources import KernelResources, fast_memory_of
from tilewright.runtime.specialize import Atom, Specializer
from tilewright.targets.base import CodeObject, LoadedKernel, NativeCode, Target

if TYPE_CHECKING:
    from tilewright.runtime.relaunch import Relauncher

WIDE_ELEMENTS = 2**30
CUDA = "cuda"       # how the names of NVIDIA GPUs start
_SIZES = dict(ELEMENTS.values())
Pointers = Sequence[tuple[int, Pointer]]


class Facts(NamedTuple):
    """What a launch promises; part of the key."""

    disjoint: bool
    wide: bool


_FACTS = {(d, w): Facts(d, w) for d in (False, True) for w in (False, True)}


def is_wide(pointers: Pointers) -> bool:
    """Whether an argument reaches 2**30 elements or more."""
    for _, p in pointers:
        if p.high - p.low >= WIDE_ELEMENTS and p.high - p.low >= WIDE_ELEMENTS * _SIZES[p.element]:
            return True
    return False


def facts_of(pointers: Pointers, written: Written) -> Facts:
    """The facts that hold for these arguments in a kernel that writes `written`."""
    wide = is_wide(pointers)
    disjoint = not written.anything
    for slot, p in pointers:
        if slot in written.params:
            low, high = p.low, p.high
            for other_slot, other in pointers:
                if low < other.high and other.low < high and other_slot != slot and _both_reach(p, other):
                    disjoint = False
    return _FACTS[disjoint, wide]


def _both_reach(a: Pointer, b: Pointer) -> bool:
    """Whether neither is empty."""
    return a.low < a.high and b.low < b.high


def check_writable(kernel: str, names: Sequence[str], pointers: Pointers, written: Written) -> None:
    """ValueError if a read-only array stands where the kernel stores."""
    for slot, p in pointers:
        if not p.writable and slot in written.params:
            raise ValueError(f"{kernel}: parameter {names[slot]!r} is a read-only array, and the kernel stores to it; "
                             "pass a writable one, for example a copy: array.copy()")


def device_of(kernel: str, names: Sequence[str], pointers: Pointers) -> str:
    """The device that holds the tensors, `cpu` without any; an error for tensors on several, or on one of no target.

    What does not say where it is, as mock tensors, is where the others are; without any, on the active driver's device.
    """
    devices: dict[str, str] = {}
    for slot, p in pointers:
        devices.setdefault(p.device, names[slot])
    if devices.pop(ANYWHERE, None) is not None and not devices:
        return driver.device_name()
    if len(devices) > 1:
        refuse_mixed(kernel, devices)
    for device, name in devices.items():
        if device != CPU and not device.startswith(CUDA):
            raise ValueError(f"{kernel}: parameter {name!r} is on {device}, and kernels run on CPUs and on NVIDIA "
                             "GPUs; pass a CPU tensor: x.cpu()")
    return next(iter(devices), CPU)


def check_on_host(kernel: str, names: Sequence[str], pointers: Pointers) -> None:
    """The error for tensors that are not in the CPU's memory."""
    device = device_of(kernel, names, pointers)
    if device != CPU:
        raise ValueError(f"{kernel}: the tensors are on {device}, and this works on tensors in the CPU's memory; pass "
                         "x.cpu()")


def check_on_gpu(kernel: str, names: Sequence[str], pointers: Pointers) -> None:
    """The error for tensors that are not in a GPU's memory."""
    if pointers and not device_of(kernel, names, pointers).startswith(CUDA):
        raise ValueError(f"{kernel}: the tensors are in the CPU's memory, and this was compiled for a GPU; pass "
                         "x.cuda()")


def refuse_mixed(kernel: str, devices: Mapping[str, str]) -> NoReturn:
    """The error for tensors on several `devices`, each with the name of a parameter."""
    where = ", ".join(f"{name!r} is on {device}" for device, name in devices.items())
    raise ValueError(f"{kernel}: the tensors of a launch are all on one device; {where}; "
                     "move them with .to(device)")


@dataclass(frozen=True, slots=True)
class KernelMetadata:
    """Facts of a compiled kernel, as attributes (`kernel.metadata.num_warps`); those of the class hold for every one.
    """

    name: str
    target: str
    num_warps: int
    num_stages: int
    num_ctas: int
    maxnreg: int | None
    debug: bool
    enable_fp_fusion: bool
    shared: int
    written_params: tuple[str, ...]
    code: CodeObject | None = field(default=None, repr=False, compare=False)
    backend_name: str = "cpu"
    arch: int | str = "cpu"

    warp_size: ClassVar[int] = 32
    cluster_dims: ClassVar[tuple[int, int, int]] = (1, 1, 1)
    default_dot_input_precision: ClassVar[str] = "tf32"
    allowed_dot_input_precisions: ClassVar[tuple[str, ...]] = ("tf32", "tf32x3", "ieee", "bf16x3", "bf16x6")
    supported_fp8_dtypes: ClassVar[tuple[str, ...]] = ("fp8e4nv", "fp8e5")
    deprecated_fp8_dot_operand_dtypes: ClassVar[tuple[str, ...]] = ()
    max_num_imprecise_acc_default: ClassVar[int] = 0
    sanitize_overflow: ClassVar[bool] = False       # the checked mode reports what overflows
    extern_libs: ClassVar[tuple[tuple[str, str], ...]] = ()
    global_scratch_size: ClassVar[int] = 0
    global_scratch_align: ClassVar[int] = 1
    profile_scratch_size: ClassVar[int] = 0
    profile_scratch_align: ClassVar[int] = 1
    launch_cooperative_grid: ClassVar[bool] = False
    launch_pdl: ClassVar[bool] = False
    tensordesc_meta: ClassVar[tuple[Any, ...]] = ()
    tmem_size: ClassVar[int] = 0
    ir_override: ClassVar[str | None] = None
    instrumentation_mode: ClassVar[str] = ""

    @property
    def hash(self) -> str:
        """A text that is equal for equal code; empty without code."""
        return "" if self.code is None else self.code.hash()

    @property
    def triton_version(self) -> str:
        """The version that the package shows under the name `triton`."""
        return str(knobs.read("version"))


def fast_memory(code: CodeObject) -> int:
    """What `metadata.shared` says: shared memory of a program on a GPU, scratch on a CPU."""
    shared = code.metadata.get("shared")
    return fast_memory_of(code.metadata["scratch_bytes"]) if shared is None else int(shared)


def taken_by(code: CodeObject, loaded: LoadedKernel | None = None) -> tuple[int, int, int]:
    """Registers and spilled words of a thread, and the most threads of a program, as far as it is known: PTX has to be
    loaded first."""
    facts, usual = dict(code.metadata), KernelResources
    if "registers" not in facts and loaded is not None and loaded.resources is not None:
        facts |= {"registers": loaded.resources.registers, "local_bytes": loaded.resources.local_bytes}
    return (facts.get("registers", usual.n_regs), facts.get("local_bytes", 4 * usual.n_spills) // 4,
            facts.get("threads", usual.n_max_threads))


def _backend(code: CodeObject) -> tuple[str, int | str]:
    """The target in triton's terms: its backend and architecture."""
    capability = code.metadata.get("capability")
    return ("cpu", "cpu") if capability is None else ("cuda", int(capability.rstrip("af")))


class StageKeyError(KeyError):
    """A stage that the code does not have; shown without the quotes that a KeyError has."""

    def __str__(self) -> str:
        return str(self.args[0])


class Stages(Mapping[str, str | bytes]):
    """The stages of a kernel as texts, a cubin as bytes; those that cost time are made when they are asked for.

    The names are triton's as well as ours: `ttgir` is the laid-out IR.  `target()` is what generated the code.
    """

    def __init__(self, code: CodeObject, target: Callable[[], Target]) -> None:
        self._code = code
        self._target = target
        self._texts: dict[str, str | bytes] = dict(code.texts)
        if "laid-out" in code.texts:
            self._texts["ttgir"] = code.texts["laid-out"]
        if code.metadata.get("binary") == "cubin":
            self._texts["cubin"] = code.binary

    def __getitem__(self, name: str) -> str | bytes:
        if name not in self._texts:
            target = self._target()
            if name not in target.listings:
                raise StageKeyError(self._missing(name))
            self._texts[name] = target.listing(self._code, name)
        return self._texts[name]

    def _missing(self, name: object) -> str:
        cure = ""
        if name in ("ptx", "cubin", "sass") and "ptx" not in self._texts:
            cure = ("; for a GPU's, compile for one, which needs none: tilewright.compile(ASTSource(...), "
                    "target=GPUTarget('cuda', 90, 32))")
        elif name == "cubin":
            cure = "; a cubin needs ptxas or nvJitLink, which pip install 'tilewright[cubin]' brings"
        there = ", ".join(self)
        return f"{self._code.name}: code for {self._code.target} has no stage {name!r}; there are {there}{cure}"

    def __iter__(self) -> Iterator[str]:
        return iter(dict.fromkeys((*self._texts, *self._target().listings)))

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def keys(self) -> KeysView[str]:
        """The names; they print as those of a dict."""
        return dict.fromkeys(self).keys()

    def __repr__(self) -> str:
        return f"<stages of {self._code.name}: {', '.join(self)}>"


class CompiledKernel(KernelResources):
    """Machine code of one specialisation, in memory.  `compiled[grid](*all_arguments)` launches it again."""

    def __init__(self, code: CodeObject, target: Target, options: Options, specializer: Specializer,
                 atoms: tuple[Atom, ...], facts: Facts, written: Written, name: str, device: str = CPU) -> None:
        self.code = code
        self.device = device
        self.name = name
        self.asm: Mapping[str, str | bytes] = Stages(code, lambda: target)
        self.facts = facts
        self.written = written
        names = specializer.slot_names(atoms)
        self.metadata = KernelMetadata(
            name, code.target, options.num_warps, code.metadata.get("num_stages", options.num_stages),
            options.num_ctas, options.maxnreg,
            options.debug, options.enable_fp_fusion, fast_memory(code),
            tuple(names[i] for i in sorted(written.params)), code, *_backend(code))
        self._loaded: LoadedKernel = target.load(code)
        self.n_regs, self.n_spills, self.n_max_threads = taken_by(code, self._loaded)
        weakref.finalize(self, HOOKS.unloaded, code.name, code.binary).atexit = False
        self._specializer = specializer
        self._atoms = atoms

    def launch(self, grid: Grid, slots: Sequence[int], pointers: Pointers) -> None:
        """Run every program of `grid`, if there is one."""
        if grid[0] and grid[1] and grid[2]:
            words = list(slots)
            for _, pointer in pointers:     # the extents: see LoadedKernel.launch
                words.append(pointer.low)
                words.append(pointer.high)
            try:
                self._loaded.launch(grid, words)
            except MemoryFaultError as error:
                raise self._explained(error, grid) from None

    @property
    def hash(self) -> str:
        """A text that is equal for equal code."""
        return self.metadata.hash

    @property
    def packed_metadata(self) -> tuple[int, int, int]:
        """Warps, CTAs and bytes of fast memory, as launchers of triton take them."""
        return self.metadata.num_warps, self.metadata.num_ctas, self.metadata.shared

    @property
    def function(self) -> LoadedKernel:
        """What is in memory of it; also `module` and `kernel`'s bytes are of the one object file."""
        return self._loaded

    module = function

    @property
    def kernel(self) -> bytes:
        """The object file."""
        return self.code.binary

    @property
    def record(self) -> int:
        """The address by which native launchers know the code; 0 if they cannot launch it."""
        return self._loaded.record

    def make_launchable(self, native: NativeCode) -> None:
        """Get ready for native launchers."""
        self._loaded.make_launchable(native)

    def failure(self, grid: Grid, frame: int) -> BaseException:
        """The error of a native launch that failed; see `LoadedKernel.failure`."""
        error = self._loaded.failure(grid, frame)
        return self._explained(error, grid) if isinstance(error, MemoryFaultError) else error

    def _explained(self, error: MemoryFaultError, grid: Grid) -> Exception:
        with NO_FORK:
            from tilewright.runtime.faults import explained
        return explained(error, self.code, grid)

    def __getitem__(self, grid: Any) -> Callable[..., CompiledKernel]:
        return self.relauncher.bind(self, grid)

    @computed
    def relauncher(self) -> Relauncher:
        """What launches it again."""
        with NO_FORK:
            from tilewright.runtime.relaunch import Relauncher  # few kernels are launched in this way
        return Relauncher(self._specializer, self._atoms)

    def __repr__(self) -> str:
        return f"<CompiledKernel {self.name} for {self.code.target}>"
