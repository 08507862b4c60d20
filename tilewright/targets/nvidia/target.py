"""The NVIDIA target: passes, layouts, code generation, PTX, cubin.

Before: tile IR fresh from the frontend.  After: a `CodeObject` for one compute capability:

    binary     the cubin, or the PTX where no assembler is found (`metadata["binary"]` says which)
    texts      `laid-out` (IR with layouts and barriers), `llir`, `ptx`; `listing("sass")` disassembles the cubin
    metadata   plain data that a launcher needs:
        entry            the kernel's symbol
        name             the kernel's name for people
        num_warps        warps of a program; `threads` is 32 times that, and the block is (threads, 1, 1)
        shared           bytes of dynamic shared memory of a program
        capability       such as "90a"; `binary` is "cubin" or "ptx"
        params           name, type and size in bytes of each parameter of the kernel in order: a pointer is 8 bytes
                         (a device address), an i1 one byte, bf16 and fp8 their bits
        hidden           what follows the parameters, by name, 8 bytes each.  "status": address of 4 zeroed 64-bit
                         words that host and device see; a failed assertion puts its number, counted from 1, into word
                         0 and its program's index along x, y, z into words 1 to 3, and the program ends.
                         "programs": the number of programs along x; the grid then has as many blocks as the GPU runs
                         at once, if that is less, and each block runs several programs
        tensor_maps      behind these, a CUtensorMap of 128 bytes each: how it is computed from the parameters
                         (`tensor_maps.resolved`)
        plain            if there are maps, what `without_maps` needs
        most_programs    along each axis of the grid, for which alone the code is right; 0: any number
        general          if there is such a number, what `for_any_grid` needs
        whole_words      whether an access may take the aligned 4 bytes around its element (atomics on bytes)
        asserts          message and location of each `device_assert`, in the order of their numbers
        prints           what each `device_print` prints; the text itself comes from the device's printf
        num_stages       of pipelined loops, what was made of the option
        warnings         what was warned of: message, and the name of the warning's class
        registers, spill_bytes, local_bytes, advisories, assembler
                         what the assembler says (bytes a thread), and which one it was

Compiling touches no driver.  Loading, launching and memory belong to `driver`.
Tests: tests/targets/nvidia/.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from tilewright.collecting import COLLECTOR_RESTS
from tilewright.computed import computed
from tilewright.diagnostics import CompilationError
from tilewright.ir.node import Module
from tilewright.language.options import Options
from tilewright.locks import NO_FORK
from tilewright.targets.base import CodeObject, LoadedKernel, MemoryCopy, Target
from tilewright.targets.llvm.machine import (
    ASSEMBLY,
    CUBIN,
    FROM_PTX,
    Assembler,
    AssemblerRefusal,
    Compiler,
    Machine,
    Request,
    compile_children,
)
from tilewright.targets.nvidia.capability import Capability, capability

if TYPE_CHECKING:
    from tilewright.passes.manager import Pass
    from tilewright.targets.nvidia.driver.device import Device
    from tilewright.targets.nvidia.generate import Generated
    from tilewright.targets.nvidia.shared import Allocation

# Names the target in cache keys; what generates its code is in them by content (runtime.fingerprint).
VERSION = "nvidia-1"
TRIPLE = "nvptx64-nvidia-cuda"
# LLVM's small pipeline (instcombine, simplifycfg) and its most eager code generation, whose GVN finds what is common.
# Its own pipelines take two to six times as long in passes, and ptxas makes the same of it, give or take a few per cent
# (add, affine, softmax, layer norm, 2026-11-30); of a pipelined matmul they make branches of predicated copies, so that
# an iteration of 128 HMMA has 470 instructions instead of 411.  No passes at all: spills, remainders computed twice.
_CODEGEN_LEVEL, _OPTIMISE = 3, 1


def _plain(module: Module, options: Options, generated: Generated) -> Mapping[str, Any]:
    """For the metadata: the module without boxes, and without a promise of few programs, where it has one, and what
    `NvidiaTarget.compile` reads of the options."""
    with NO_FORK:
        from tilewright.ir.text import print_module
        from tilewright.passes import FORGET_BOXES
    given = {name: getattr(options, name) for name in ("num_warps", "num_stages", "maxnreg")}
    found: dict[str, Any] = {"most_programs": module.most_programs}
    if module.most_programs:
        module = replace(module, most_programs=0)
        found["general"] = {"module": print_module(module), "options": given}
    if generated.metadata["tensor_maps"]:
        found["plain"] = {"module": print_module(FORGET_BOXES.run(module)), "options": given}
    return found


def _with_more_registers(text: str, programs: Sequence[int], num_warps: int,
                         wanted: int = 0) -> tuple[str, Sequence[int]] | None:
    """A kernel's text for a smaller one of these counts of programs on an SM, with those behind it: the first that
    leaves a thread more registers, and `wanted` of them; None if there is no such."""
    with NO_FORK:
        from tilewright.targets.nvidia.emit.code import with_programs
        from tilewright.targets.nvidia.registers import most_registers
    limits = [most_registers(num_warps, n) for n in programs]
    more = next((k for k, limit in enumerate(limits) if limit > limits[0] and limit >= wanted), 0)
    freer = with_programs(text, programs[more])
    return (freer, programs[more:]) if freer != text else None


class OnlyCompiled(LoadedKernel):
    """Code for a GPU that is not here."""

    def __init__(self, name: str, target: NvidiaTarget) -> None:
        self._name, self._target = name, target

    def launch(self, grid: tuple[int, int, int], slots: Sequence[int]) -> None:
        raise RuntimeError(f"{self._name} is compiled for {self._target.capability.cpu}, and there is no GPU to launch "
                           "it on")


class NvidiaTarget(Target):
    """Code for GPUs of one compute capability (80, 90, "90a", ...).

    `compiler` runs LLVM; by default that is a child process.  `assemble` False leaves the PTX to the driver;
    `cuda_home` and `ptxas` say where assemblers are (`assemble.find_assembler`).
    `tensor_maps`: blocks of described arrays are copied by hardware, where there is such (cp.async.bulk.tensor).
    `own_ptx`: PTX is written without LLVM where that is known to `translate`.
    `device` is the GPU that kernels are loaded onto; without one the target only compiles.
    """

    name = "nvidia"
    LEVELS = (_CODEGEN_LEVEL, _OPTIMISE)        # of a `Request`

    def __init__(self, number: int | str | Capability = 90, compiler: Compiler | None = None,
                 assemble: bool = True, device: Device | None = None, cuda_home: str = "", ptxas: str = "",
                 tensor_maps: bool = True, own_ptx: bool = True) -> None:
        self.capability = number if isinstance(number, Capability) else capability(number)
        self._device = device
        self._given_compiler = compiler
        self._assemble = assemble
        self._tools = (cuda_home, ptxas)
        self._writes_ptx = own_ptx
        self._copies_boxes = tensor_maps and self.capability.tma

    @computed
    def _compiler(self) -> Compiler:
        return compile_children() if self._given_compiler is None else self._given_compiler

    @property
    def machine(self) -> Machine:
        """How LLVM names the GPU."""
        return Machine(TRIPLE, self.capability.cpu, f"+ptx{self.capability.ptx}", self._compiler.host().llvm)

    def prepare(self) -> None:
        self._compiler.prepare()

    def import_compiler(self) -> None:
        with NO_FORK:
            import tilewright.passes
            import tilewright.targets.nvidia.generate
            import tilewright.targets.nvidia.translate.module  # noqa: F401

    def key(self) -> str:
        with NO_FORK:
            from tilewright.targets.nvidia.assemble import key_of
        boxes = " boxes" if self._copies_boxes else ""
        ptx = "" if self._writes_ptx else " LLVM's PTX"
        return f"{VERSION} {self.machine.key()} {key_of(self.assembler)}{boxes}{ptx}"

    @computed
    def assembler(self) -> Assembler | None:
        """What makes cubins; None leaves the PTX to the driver."""
        with NO_FORK:
            from tilewright.targets.nvidia.assemble import find_assembler
        return find_assembler(*self._tools) if self._assemble else None

    def passes(self, options: Options) -> Sequence[Pass]:
        with NO_FORK:
            from tilewright import passes
        return passes.standard(options.enable_fp_fusion, self._copies_boxes)

    def laid_out(self, module: Module, options: Options) -> Module:
        """`module`, on which `passes` have run, with layouts and barriers, and as many stages as fit."""
        return self._fitting(module, options, lambda message: None)[0]

    def _limited(self, options: Options) -> Capability:
        """What the GPU can do for a kernel with these options."""
        return self.capability if options.maxnreg is None else self.capability._replace(registers=options.maxnreg)

    def _fitting(self, module: Module, options: Options, warned: Callable[[str], object],
                 may_persist: bool = True) -> tuple[Module, Allocation, int]:
        """The same with as many stages as fit, its shared memory, and what is left of `num_stages`; `warned` gets the
        message of a `FewerStagesWarning`."""
        with NO_FORK:
            from tilewright.targets.nvidia.allocation import allocate
            from tilewright.targets.nvidia.passes.boxes import copy_boxes
            from tilewright.targets.nvidia.passes.held import hold
            from tilewright.targets.nvidia.passes.lay_out import lay_out
            from tilewright.targets.nvidia.passes.left_operands import make_left_operands
            from tilewright.targets.nvidia.passes.order import order
            from tilewright.targets.nvidia.passes.persist import persist
            from tilewright.targets.nvidia.passes.pipeline import most_stages, pipeline
            from tilewright.targets.nvidia.passes.staging import buffer_bytes_of
            from tilewright.targets.nvidia.resources import check_registers, place_of_most, stages_that_fit
        limited = self._limited(options)
        laid_out = lay_out(module, options.num_warps, limited)
        check_registers(laid_out, options.num_warps)
        if may_persist and options.maxnreg is None:
            laid_out = persist(laid_out, options.num_warps, limited)
        laid_out = make_left_operands(laid_out, options.num_warps, limited)
        held = hold(laid_out, options.num_warps, limited)
        found: dict[int, tuple[Module, Allocation]] = {}

        def needs(stages: int) -> Iterator[int]:
            def shared_bytes(staged: Module) -> int:
                ordered = order(copy_boxes(staged))
                found[stages] = ordered, allocate(ordered, limited, options.num_warps)
                return found[stages][1].bytes

            def staged(given: Module) -> Module:
                return pipeline(given, options.num_stages, options.num_warps, limited, stages)

            first = staged(held) if held is not laid_out else None
            if first is not None and buffer_bytes_of(first) <= limited.shared_bytes and (
                    total := shared_bytes(first)) <= limited.shared_bytes:
                yield from (total, total)
                return
            first = staged(laid_out)
            yield buffer_bytes_of(first)
            yield shared_bytes(first)

        wanted = most_stages(laid_out, options.num_stages)
        stages = stages_that_fit(module.entry_name, wanted, needs, limited, warned,
                                 lambda: place_of_most(*found[min(found)]) if found else "")
        return *found[stages], options.num_stages if stages == wanted else min(stages, options.num_stages)

    def compile(self, module: Module, options: Options, meanwhile: Callable[[], object] | None = None,
                any_grid: bool = False) -> CodeObject:
        """See `Target.compile`; with `any_grid` nothing is supposed of the number of programs."""
        with NO_FORK:
            from tilewright.targets.nvidia.passes.few_programs import few_programs
            from tilewright.targets.nvidia.passes.persist import FEW_BYTES
            from tilewright.targets.nvidia.resources import check_options
        check_options(options)
        module = module if any_grid else few_programs(module)
        code = self._compiled(module, options, meanwhile, may_persist=True)
        if "programs" in code.metadata["hidden"] and code.metadata.get("spill_bytes", 0) > FEW_BYTES:
            return self._compiled(module, options, None, may_persist=False)    # the tiles of two programs are too many
        return code

    def _compiled(self, module: Module, options: Options, meanwhile: Callable[[], object] | None,
                  may_persist: bool) -> CodeObject:
        with NO_FORK:
            from tilewright.ir.text import print_module
            from tilewright.targets.nvidia.generate import generate
            from tilewright.targets.nvidia.resources import ONE_CTA, check_length
        fewer: list[str] = []
        with COLLECTOR_RESTS:
            laid_out, shared, num_stages = self._fitting(module, options, fewer.append, may_persist)
            generated = generate(laid_out, self._limited(options), options.num_warps, options.line_info,
                                 options.maxnreg, shared)
        check_length(module.entry_name, generated.text, options.num_warps)
        texts: dict[str, str] = {}
        others: dict[str, Any] = {}

        def print_and_more() -> None:
            texts["laid-out"] = print_module(laid_out)
            others.update(_plain(module, options, generated))
            if meanwhile is not None:
                meanwhile()

        binary, ptx, facts = self._made(generated.text, generated.programs, module.entry_name, options, print_and_more)
        texts = {**texts, "llir": generated.text, "ptx": ptx}
        given = [{"message": message, "category": "FewerStagesWarning"} for message in fewer]
        if options.num_ctas != 1:
            given.append({"message": ONE_CTA, "category": "SingleCtaWarning"})
        metadata = {**generated.metadata, "num_stages": num_stages, "warnings": given, **facts, **others}
        return CodeObject(self.name, module.entry_name, binary, texts, metadata)

    def without_maps(self, code: CodeObject) -> CodeObject:
        """The same kernel for launches in which some array has no tensor map: its threads move every block.

        The places in the user's source are those of `code`, which move with it; there is no line table.
        """
        return self._again(code, "plain", any_grid=False)

    def for_any_grid(self, code: CodeObject) -> CodeObject:
        """The same kernel for launches with more than `most_programs` along an axis; lines as `without_maps`."""
        return self._again(code, "general", any_grid=True)

    def _again(self, code: CodeObject, kept: str, any_grid: bool) -> CodeObject:
        with NO_FORK:
            from tilewright.ir.parse import parse_module
        given = code.metadata[kept]
        made = self.compile(parse_module(given["module"]), Options(**given["options"]), any_grid=any_grid)
        messages = {name: code.metadata[name] for name in ("asserts", "prints")}
        return replace(made, metadata={**code.metadata, kept: {}, **made.metadata, **messages})

    def _made(self, text: str, programs: Sequence[int], name: str, options: Options,
              meanwhile: Callable[[], object] | None = None) -> tuple[bytes, str, dict[str, Any]]:
        """The binary, the PTX, and what is said of them; for the first number of programs on an SM that leaves each
        thread registers enough, or the last.

        `OutOfResources` if the assembler takes none of them, for want of registers.
        """
        with NO_FORK:
            from tilewright.targets.nvidia.assemble import registers_wanted, report_of
            from tilewright.targets.nvidia.registers import most_registers
            from tilewright.targets.nvidia.resources import too_few_registers
        assembler = replace(self.assembler or Assembler(), options=("-lineinfo",) if options.line_info else ())
        try:
            ptx, *made = self._products(text, assembler, name, meanwhile)
        except AssemblerRefusal as refusal:
            wanted = registers_wanted(refusal.log)
            if wanted is None:
                raise
            freer = _with_more_registers(text, programs, options.num_warps, wanted)
            if freer is None:
                raise too_few_registers(name, wanted, options) from None
            return self._made(*freer, name, options)
        if not made:
            return ptx, ptx.decode(), {"binary": "ptx"}
        cubin, log, tool = made
        report = report_of(cubin, log.decode())
        held_short = report.spill_bytes and report.registers < most_registers(options.num_warps)
        freer = _with_more_registers(text, programs, options.num_warps) if held_short else None
        if freer is not None:       # registers matter more than programs on the SM
            return self._made(*freer, name, options)
        return cubin, ptx.decode(), {
            "binary": "cubin", "registers": report.registers, "spill_bytes": report.spill_bytes,
            "local_bytes": report.stack_bytes,
            "advisories": list(report.advisories), "assembler": tool.decode()}

    def _products(self, text: str, assembler: Assembler, name: str,
                  meanwhile: Callable[[], object] | None) -> list[bytes]:
        """The PTX, and, where there is an assembler, the cubin, what was said of it, and by whom."""
        ptx = self.own_ptx(text)
        if ptx is None:
            output = ASSEMBLY if self.assembler is None else CUBIN
            request = Request(text, self.machine, output, *self.LEVELS, assembler)
            return self._compiler.products(request, name, meanwhile)
        if self.assembler is not None:
            request = Request(ptx, self.machine, FROM_PTX, assembler=assembler)
            return [ptx.encode(), *self._compiler.products(request, name, meanwhile)]
        if meanwhile is not None:
            meanwhile()
        return [ptx.encode()]

    def own_ptx(self, text: str) -> str | None:
        """PTX of LLVM text, written without LLVM; None where only LLVM knows how."""
        with NO_FORK:
            from tilewright.targets.nvidia.translate.body import UntranslatableError
            from tilewright.targets.nvidia.translate.module import translated
        if not self._writes_ptx:
            return None
        try:
            return translated(text, self.machine.cpu, self.machine.features)
        except UntranslatableError:
            return None

    listings = ("sass",)

    def listing(self, code: CodeObject, name: str) -> str:
        if name not in self.listings:
            raise KeyError(name)
        if code.metadata["binary"] != "cubin":
            raise CompilationError(f"{code.name} is PTX: SASS needs ptxas or nvJitLink, from the CUDA toolkit or the "
                                   "wheels nvidia-cuda-nvcc and nvidia-nvjitlink")
        with NO_FORK:
            from tilewright.targets.nvidia.disassemble import disassemble
        return disassemble(code.binary)

    @property
    def device(self) -> Device:
        """The GPU that kernels are loaded onto; RuntimeError if this target only compiles."""
        if self._device is None:
            raise RuntimeError(f"this target compiles for {self.capability.cpu} and has no GPU to load kernels onto")
        return self._device

    def load(self, code: CodeObject) -> LoadedKernel:
        if self._device is None:
            return OnlyCompiled(code.name, self)
        with NO_FORK:
            from tilewright.targets.nvidia.driver.kernel import CudaKernel
        return CudaKernel(code, self.device, lambda: self.load(self.without_maps(code)),
                          lambda: self.load(self.for_any_grid(code)))

    def read(self, address: int, size: int) -> bytes:
        return self.device.read(address, size)

    def write(self, address: int, data: bytes) -> None:
        self.device.write(address, data)

    def copy(self, address: int, size: int) -> MemoryCopy:
        return self.device.copy(address, size)
