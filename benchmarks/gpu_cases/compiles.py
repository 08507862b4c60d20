"""How long it takes to compile the kernels of benchmarks/gpu.py for an H200; no GPU is needed.

Tilewright: its compile child runs, as in a process that has compiled before.  Triton, where it is installed, compiles
the same source for the same types, without its cache.  The bar is the ratio of the two in one process.
"""

from __future__ import annotations

import importlib.util
import itertools
import os
import statistics
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from types import ModuleType
from typing import Any

import tilewright as triton
from benchmarks.gpu_cases import kernels_for
from tilewright.compiler import ASTSource
from tilewright.language.options import Options, Signature
from tilewright.lowering import Lowered, finish, lower
from tilewright.passes import run_passes
from tilewright.targets.llvm import toolchain
from tilewright.targets.llvm.machine import ASSEMBLY, Request
from tilewright.targets.nvidia.generate import generate
from tilewright.targets.nvidia.passes.few_programs import few_programs
from tilewright.targets.nvidia.target import NvidiaTarget

_NUMBERS = itertools.count()
BAR = 0.33              # of triton's time
F32, BF16, COUNT = "*fp32", "*bf16", "i32 by 16"
PARTS = ("frontend", "passes", "layouts", "text", "PTX", "assembler")


@dataclass(frozen=True)
class Compilation:
    """A kernel for arguments of these types: a number is a constant, `by 16` a multiple of 16 as all pointers are."""

    kernel: str
    types: tuple[Any, ...]
    constants: Mapping[str, int]
    options: Mapping[str, int] = field(default_factory=dict)

    def source(self, kernels: ModuleType, ast_source: Any) -> Any:
        """The `ASTSource` of one package."""
        fn = getattr(kernels, self.kernel)
        given = dict(zip((n for n in fn.arg_names if n not in self.constants), self.types, strict=True))
        ones = {n: t for n, t in given.items() if not isinstance(t, str)}
        constants = {**self.constants, **ones}
        types = {n: "constexpr" if n in constants else str(given[n]).partition(" ")[0] for n in fn.arg_names}
        attrs = {(k,): [["tt.divisibility", 16]] for k, n in enumerate(fn.arg_names)
                 if n not in constants and (given[n] == COUNT or given[n].startswith("*"))}
        return ast_source(fn, types, constants, attrs)


SIZES = (COUNT, COUNT, COUNT, COUNT, 1, COUNT, 1, COUNT, 1)
CASES: Mapping[str, Compilation] = {
    "add": Compilation("add", (F32, F32, F32, COUNT), {"BLOCK": 1024}),
    "affine+relu": Compilation("affine_relu", (F32, F32, F32, F32, COUNT, COUNT), {"BLOCK": 1024}),
    "softmax 1000": Compilation("softmax", (F32, F32, "i32", "i32", "i32"), {"BLOCK": 1024}),
    "softmax 4096": Compilation("softmax", (F32, F32, COUNT, COUNT, COUNT), {"BLOCK": 4096}, {"num_warps": 8}),
    "softmax 32768 bf16": Compilation("softmax", (BF16, BF16, COUNT, COUNT, COUNT), {"BLOCK": 32768},
                                      {"num_warps": 32}),
    "layer norm 4096": Compilation("layer_norm", (F32, F32, F32, F32, COUNT, COUNT, "fp32"), {"BLOCK": 4096},
                                   {"num_warps": 8}),
    "matmul bf16 128x128x64": Compilation("matmul", (BF16, BF16, BF16, *SIZES), {
        "BLOCK_M": 128, "BLOCK_N": 128, "BLOCK_K": 64, "GROUP": 8}, {"num_warps": 4, "num_stages": 3}),
}


def ours(kernels: ModuleType, case: Compilation, target: NvidiaTarget) -> Callable[[], object]:
    """A call that compiles with Tilewright."""
    fn, signature, options = _given(kernels, case)
    return lambda: finish(_renamed(lower(triton.jit(fn), signature, options, check=0)), target)


def _renamed(lowered: Lowered) -> Lowered:
    """Under a name of its own, for assemblers that keep what they have made."""
    module = lowered.module
    name = f"{module.entry_name}_{next(_NUMBERS)}"
    entry = replace(module.entry, name=name)
    return replace(lowered, module=replace(module, entry_name=name, functions={name: entry})).with_facts(True, False)


def _given(kernels: ModuleType, case: Compilation) -> tuple[Any, Signature, Options]:
    source = case.source(kernels, ASTSource)
    return source.fn.fn, Signature(source.args()), Options(**dict(case.options))


def peer(case: Compilation) -> Callable[[], object] | None:
    """A call that compiles with triton; None where that is not installed."""
    if importlib.util.find_spec("triton") is None:
        return None
    os.environ["TRITON_ALWAYS_COMPILE"] = "1"
    real: Any = importlib.import_module("triton.compiler")
    gpu = importlib.import_module("triton.backends.compiler").GPUTarget("cuda", 90, 32)
    source = case.source(kernels_for("triton"), real.ASTSource)
    return lambda: real.compile(source, target=gpu, options=dict(case.options))


def parts(kernels: ModuleType, case: Compilation, target: NvidiaTarget) -> list[float]:
    """Processor time in ms of the parts of one compilation, all in this process."""
    fn, signature, options = _given(kernels, case)
    marks = [time.thread_time()]

    def mark(result: Any) -> Any:
        marks.append(time.thread_time())
        return result

    lowered = _renamed(mark(lower(triton.jit(fn), signature, options)))
    module = mark(run_passes(lowered.module, list(target.passes(options)), check=1))
    laid_out = mark(target.laid_out(few_programs(module), options))
    text = mark(generate(laid_out, target.capability, options.num_warps)).text
    own = target.own_ptx(text)
    ptx = mark(own.encode() if own is not None else
               toolchain.compile_request(Request(text, target.machine, ASSEMBLY, *target.LEVELS)))
    if target.assembler is not None:
        mark(toolchain.assemble(ptx, target.capability.cpu, target.assembler))
    return [1e3 * (b - a) for a, b in itertools.pairwise(marks)]


def lines(turns: int) -> Iterator[str]:
    """What benchmarks/compile.py prints of GPUs."""
    target, kernels = NvidiaTarget(90), kernels_for("tilewright")
    finds = "PTX alone" if target.assembler is None else os.path.basename(
        target.assembler.library or target.assembler.ptxas)
    yield f"\nfor sm_90a, to a cubin by {finds}: median and least ms of {turns}, and processor time of the parts"
    for name, case in CASES.items():
        calls = [ours(kernels, case, target), peer(case)]
        times = interleaved([call for call in calls if call is not None], turns)
        used = [statistics.median(column) for column in zip(*(parts(kernels, case, target) for _ in range(turns)))]
        versus = "no triton here"
        if len(times) == 2:
            ratio = statistics.median(times[0]) / statistics.median(times[1])
            versus = (f"triton {statistics.median(times[1]):6.1f}  ratio {ratio:.2f} (bar {BAR}: "
                      f"{'met' if ratio <= BAR else 'NOT met'})")
        yield f"{name:24s} {statistics.median(times[0]):7.1f} {min(times[0]):7.1f}   {versus}"
        yield "    " + ", ".join(f"{part} {ms:.1f}" for part, ms in zip(PARTS, used))


def interleaved(calls: list[Callable[[], object]], turns: int) -> list[list[float]]:
    """Milliseconds of each call, one after the other in turns; the first turn does not count."""
    times: list[list[float]] = [[] for _ in calls]
    for turn in range(turns + 1):
        for call, spent in zip(calls, times):
            start = time.perf_counter()
            call()
            if turn:
                spent.append(1e3 * (time.perf_counter() - start))
    return times
