"""What a program may ask of a GPU, checked before code is generated or assembled, and how many stages fit.

Shared memory is the buffers of pipelined loops and, on top, scratch; both are known before text is written
(`allocation`).
Tests: tests/targets/nvidia/test_resources.py.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterator
from functools import cache

from tilewright.diagnostics import UNKNOWN, CompilationError, FewerStagesWarning, OutOfResources, SingleCtaWarning
from tilewright.ir.node import Module
from tilewright.ir.walk import defining_ops
from tilewright.language.options import Options
from tilewright.targets.nvidia.capability import Capability
from tilewright.targets.nvidia.pressure import registers_held
from tilewright.targets.nvidia.registers import REGISTERS, THREAD_REGISTERS, WARP_SIZE, most_registers
from tilewright.targets.nvidia.scratch import BUFFERS
from tilewright.targets.nvidia.shared import Allocation

MAX_WARPS = 32              # 1024 threads a block (CUDA C++ Programming Guide, technical specifications)
# A kernel whose tiles need more registers than a thread has keeps them in local memory and is slow, but right.  Beyond
# this many times as much ptxas works for minutes: dots of 256x256x16 in 1 warp (9.0 times) take it 26 s, of 512x512x16
# in 4 (the same) 24 s, of 512x512x512 in 4 (12 times) more than 300 s; of 256x256x64 in 4 (4.0 times) 4 s.
_TIMES_HELD = 8
# The same of lines of LLVM text: 16,019 of one load after the other take it 12 s, 28,680 of a copy of 1,048,576
# elements in 4 warps 99 s.  (All on two cores of an EPYC of 2021 that others used as well, 2026-12-01.)
MOST_LINES = 80_000

ONE_CTA = ("num_ctas is taken and has no effect: each program runs on one CTA (thread block), and the results are the "
           "same")


def check_options(options: Options) -> None:
    """Raise `CompilationError` for options that no NVIDIA GPU has, `OutOfResources` for registers that none has."""
    warps, most = options.num_warps, options.maxnreg
    if not 1 <= warps <= MAX_WARPS or warps & warps - 1:
        raise CompilationError(f"num_warps is a power of two from 1 to {MAX_WARPS}, not {warps}")
    if options.num_ctas != 1:
        _tell_of_one_cta()
    if most is not None and not 1 <= most <= THREAD_REGISTERS:
        raise CompilationError(f"maxnreg is from 1 to {THREAD_REGISTERS} registers a thread, not {most}")
    required = 0 if most is None else most * warps * WARP_SIZE
    if required > REGISTERS:
        raise OutOfResources(required, REGISTERS, "registers",
                             f"{most} registers (maxnreg) for each of {warps * WARP_SIZE} threads (num_warps={warps}) "
                             f"are too many: maxnreg up to {REGISTERS // (warps * WARP_SIZE)}, or fewer warps, fit.")


@cache
def _tell_of_one_cta() -> None:
    """Once a process: what a program computes does not depend on it, and a tuner has many such configs."""
    warnings.warn(ONE_CTA, SingleCtaWarning, stacklevel=3)


def check_registers(module: Module, num_warps: int) -> None:
    """Raise `OutOfResources` for a laid-out module whose tiles need many times the registers of a thread."""
    held = registers_held(module)
    if held > _TIMES_HELD * THREAD_REGISTERS:
        raise OutOfResources(held, THREAD_REGISTERS, "registers",
                             f"{module.entry_name} holds tiles of {held} registers in each of its "
                             f"{num_warps * WARP_SIZE} threads at once, more than {_TIMES_HELD} times what a thread "
                             f"has; {_cure(num_warps)}.")


def too_few_registers(name: str, wanted: int, options: Options) -> OutOfResources:
    """The error for a kernel that the assembler refuses, since some instruction takes `wanted` registers of a thread
    (0: it does not say how many), more than `options` leave it even if an SM runs one program."""
    warps = options.num_warps
    limit = most_registers(warps) if options.maxnreg is None else options.maxnreg
    required = max(wanted, limit + 1)
    if options.maxnreg is None:
        left, cure = f"num_warps={warps} leaves", "fewer warps leave more"
    else:
        left, cure = f"maxnreg={limit} leaves", f"maxnreg={required} or more, or none, may do"
    return OutOfResources(required, limit, "registers",
                          f"{name} has instructions that take at least {required} in each thread, and {left} it "
                          f"{limit}; {cure}.")


def check_length(name: str, text: str, num_warps: int) -> None:
    """Raise `OutOfResources` for LLVM text that the assembler would work on for many minutes."""
    lines = text.count("\n")
    if lines > MOST_LINES:
        raise OutOfResources(lines, MOST_LINES, "instructions",
                             f"{name} comes to so many, on which the assembler would work for many minutes (the limit "
                             f"is Tilewright's); {_cure(num_warps)}, and so does a loop that is not unrolled (range "
                             "instead of tl.static_range).")


def _cure(num_warps: int) -> str:
    warps = f", or more warps (num_warps={num_warps} now)," if num_warps < MAX_WARPS else ""
    return f"smaller blocks{warps} take fewer"


def stages_that_fit(name: str, wanted: int, needs: Callable[[int], Iterator[int]], capability: Capability,
                    warned: Callable[[str], object] = lambda message: None,
                    where: Callable[[], str] = lambda: "") -> int:
    """The largest number of stages up to `wanted` with which the kernel `name` fits into shared memory.

    `needs(stages)` gives what the buffers of so many take, and then, if it is asked further, what a program takes in
    all.  Less than `wanted` is a `FewerStagesWarning`, whose message `warned` gets; `OutOfResources` if not even one
    stage fits, which says what `where` knows of what the last one takes (`place_of_most`).
    """
    limit = capability.shared_bytes
    asked = required = 0
    for stages in range(max(1, wanted), 0, -1):
        found = needs(stages)
        buffers = next(found)
        required = buffers if buffers > limit else next(found)
        if required <= limit:
            if asked:
                message = (f"{name}: num_stages={wanted} takes {asked} bytes of shared memory, and a program may have "
                           f"{limit}; it is compiled with num_stages={stages}. Give num_stages={stages}, or smaller "
                           "blocks")
                warned(message)
                warnings.warn(message, FewerStagesWarning, stacklevel=2)
            return stages
        asked = asked or required
        if not buffers:
            break       # other stages make no difference
    stages_too = "" if required == asked else f" even with num_stages=1 ({asked} with num_stages={wanted})"
    raise OutOfResources(required, limit, "shared memory",
                         f"{name} takes so much{stages_too}{where()}; smaller blocks take less.")


def place_of_most(module: Module, allocation: Allocation) -> str:
    """Which line of the user's takes most of a kernel's shared memory, for a message; nothing if it is no single one,
    or not known."""
    op, use = max(allocation.uses, key=lambda pair: pair[1].stop)
    if op.name in BUFFERS or 2 * use.need.bytes < allocation.bytes:
        return ""
    made = defining_ops(module.entry.body)
    sources = (op, *(made[v] for v in op.operands if v in made))       # a conversion has no line, what it converts does
    line = next((o.loc for o in sources if o.loc != UNKNOWN), None)
    return "" if line is None else (f", {use.need.bytes} of it where threads exchange data at "
                                    f"{os.path.basename(line.file)}:{line.line}")
