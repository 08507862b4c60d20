"""The engine `ptx`: a kernel compiled for an NVIDIA GPU, its PTX executed by the PTX machine.  No GPU is needed.

What the machine finds wrong (races, accesses out of bounds, deadlocks) is raised as it is; failed assertions, prints
and accesses become what the other engines raise and print.  Tests: tests/testing/test_engines.py, tests/lang.
"""

from __future__ import annotations

import ctypes
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from tilewright.diagnostics import (
    BadAccess,
    InternalError,
    KernelAssertionError,
    OutOfBoundsError,
    recorded_location,
    render,
)
from tilewright.interpret.memory import HIGHEST
from tilewright.ir.types import Scalar
from tilewright.lowering import finish, lower
from tilewright.runtime.arguments import Pointer
from tilewright.runtime.grid import normalise
from tilewright.runtime.jit import JITFunction
from tilewright.runtime.launch import check_on_host, check_writable, facts_of
from tilewright.targets.base import CodeObject
from tilewright.targets.nvidia import NvidiaTarget
from tilewright.targets.nvidia import ptx as machine
from tilewright.targets.nvidia.driver.launch_record import blocks_along_x
from tilewright.targets.nvidia.ptx.buffers import byte_bounds
from tilewright.targets.nvidia.tensor_maps import all_resolved

TARGET = NvidiaTarget(90, assemble=False)
_STATUS_WORDS = 4
_BLOCKS = 2         # of a kernel that loops over programs: so many are supposed to run at once
_WORD = 4
_MAP_TYPES = {"UINT8": 0, "UINT16": 1, "UINT32": 2, "UINT64": 4, "FLOAT16": 6, "FLOAT32": 7, "FLOAT64": 9,
              "BFLOAT16": 10}       # PTX ISA 9.7.9.26, tensormap.replace .elemtype
_POINTER = 8        # bytes
_ELEMENT = re.compile(r"ptr<(?:const )?(\w+)>")
_OUTSIDE = re.compile(r"a (\w+) of \d+ bytes at byte (-?\d+) of the array of \w+_param_(\d+), which has (\d+) bytes")

Array = np.ndarray[Any, Any]


def run(kernel: JITFunction, grid: Any, args: Sequence[Any], kwargs: Mapping[str, Any],
        target: NvidiaTarget = TARGET, write: Callable[[str], object] | None = None, seed: int = 0) -> CodeObject:
    """Launch on the PTX machine; `write` receives what the kernel prints.  Gives the code that ran."""
    values, given = kernel.bind(args, kwargs)
    split = kernel.specializer.split(values)
    sizes = normalise(kernel.__name__, grid, dict(zip(kernel.arg_names, values, strict=True)))
    names = kernel.slot_names(split)
    check_on_host(kernel.__name__, names, split.pointers)
    signature = kernel.specializer.signature(split.atoms, values, False, False)
    lowered = lower(kernel, signature, replace(kernel.options(given), line_info=True))     # for faults
    check_writable(kernel.__name__, names, split.pointers, lowered.written)
    facts = facts_of(split.pointers, lowered.written)
    code = finish(lowered.with_facts(facts.disjoint, facts.wide), target)
    pointers = dict(split.pointers)
    patterns = [_pointer(pointers[k]) if k in pointers else pattern for k, pattern in enumerate(split.slots)]
    if max(sizes) > (code.metadata["most_programs"] or max(sizes)):
        code = target.for_any_grid(code)
    if all_resolved(code.metadata["tensor_maps"], split.slots) is None:
        code = target.without_maps(code)
    launch(code, sizes, patterns, write, seed)
    return code


def _pointer(pointer: Pointer) -> machine.Pointer:
    """The bytes that a tensor reaches, and the place in them to which it points."""
    if pointer.high == HIGHEST:
        raise ValueError("the PTX machine copies tensors, and one of these does not tell where its memory ends")
    buffer = (ctypes.c_ubyte * (pointer.high - pointer.low)).from_address(pointer.low)
    data = np.frombuffer(memoryview(buffer), np.uint8)
    data.flags.writeable = pointer.writable
    return machine.Pointer(data, pointer.address - pointer.low)


def _in_whole_words(argument: Any) -> Any:
    """An array with the bytes around it that share its first and last word of 4 bytes, as in a GPU's allocations."""
    array, offset = (argument.array, argument.offset) if isinstance(argument, machine.Pointer) else (argument, 0)
    if not isinstance(array, np.ndarray):
        return argument
    low, high = byte_bounds(array)
    start, end = low & -_WORD, -(-high // _WORD) * _WORD
    data = np.frombuffer(memoryview((ctypes.c_ubyte * (end - start)).from_address(start)), np.uint8)
    data.flags.writeable = array.flags.writeable
    return machine.Pointer(data, array.ctypes.data + offset - start)


def launch(code: CodeObject, grid: Sequence[int], arguments: Sequence[Any],
           write: Callable[[str], object] | None = None, seed: int = 0) -> machine.Result:
    """Run compiled code; arguments are arrays, machine pointers, or the bits of numbers.

    InternalError for PTX in which a register may be read before it is written, which LLVM would refuse and assemblers
    take.  ValueError if it needs a tensor map that the hardware does not take, or is for grids with fewer programs.
    """
    if max(grid) > (code.metadata["most_programs"] or max(grid)):
        raise ValueError(f"{code.name} is for at most {code.metadata['most_programs']} programs along an axis")
    facts, maps = code.metadata, _maps(code, arguments)
    unwritten = machine.not_always_written(code.texts["ptx"], facts["entry"])
    if unwritten:
        raise InternalError(f"PTX of {code.name} reads registers that some way does not write: {', '.join(unwritten)}")
    if facts["whole_words"]:
        arguments = [_in_whole_words(a) for a in arguments]
    given = [a if not isinstance(a, int) else a & ((1 << 8 * p["bytes"]) - 1)
             for a, p in zip(arguments, facts["params"], strict=True)]
    status = np.zeros(_STATUS_WORDS, np.int64)
    known: dict[str, Any] = {"status": status, "programs": grid[0]}
    hidden = [known[name] for name in facts["hidden"]]
    blocks = blocks_along_x(_BLOCKS if "programs" in facts["hidden"] else 0, grid)

    def run_blocks(number: int) -> machine.Result:
        return machine.run(code.texts["ptx"], facts["entry"], (number, *grid[1:]), facts["threads"],
                           [*given, *hidden, *maps], shared_bytes=facts["shared"], seed=seed)

    try:
        try:
            result = run_blocks(blocks)
        except machine.Fault:
            if blocks == grid[0]:
                raise
            result = run_blocks(grid[0])        # then a fault tells which program it was
    except machine.Fault as fault:
        raise _out_of_bounds(fault, facts) or fault from None
    (sys.stdout.write if write is None else write)(result.printed)
    if status[0]:
        failed = facts["asserts"][int(status[0]) - 1]
        program = tuple(int(n) for n in status[1:])
        message = f"device assertion failed in program {program}: {failed['message']}"
        raise KernelAssertionError(render(message, recorded_location(failed["location"])))
    return result


def _maps(code: CodeObject, arguments: Sequence[Any]) -> list[machine.TensorMap]:
    """The tensor maps of a launch."""
    described = code.metadata["tensor_maps"]
    memory = [machine.Pointer(a) if isinstance(a, np.ndarray) else a for a in arguments]
    slots = [a.array.ctypes.data + a.offset if isinstance(a, machine.Pointer) else a for a in memory]
    found = all_resolved(described, slots)
    if found is None:
        raise ValueError(f"{code.name} copies blocks of arrays that have no tensor map")
    return [machine.TensorMap(memory[d["base"]].array, m.box, m.swizzle, _MAP_TYPES[m.data_type], m.nan, m.sizes,
                              (*m.strides, m.item_bytes), memory[d["base"]].offset)
            for d, m in zip(described, found, strict=True)]


def _out_of_bounds(fault: machine.Fault, facts: Mapping[str, Any]) -> OutOfBoundsError | None:
    """The error of an access outside of an argument, in the words of the other engines; None for other faults."""
    found = _OUTSIDE.search(fault.message)
    if found is None or fault.cta is None:
        return None
    access, (at, number, end) = found[1], map(int, found.group(2, 3, 4))
    parameter = facts["params"][number]
    size = _ELEMENT.fullmatch(parameter["type"])
    element_bytes = Scalar(size[1]).bytes if size is not None else _POINTER
    first = end - end % element_bytes if 0 <= at < end else at      # of a vector the first element that is outside
    bad = BadAccess(access, parameter["name"], element_bytes, first, 0, 0, end)
    return OutOfBoundsError(bad, facts["name"], fault.cta, fault.location)
