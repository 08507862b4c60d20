"""Laid-out IR as the text of one LLVM function: a kernel for NVPTX.

Each row has a rule in `HANDLERS`, or is elementwise; `REFUSALS` lists the rows without one, with what the user is told.
Before: laid-out IR with its barriers.  After: `Generated`.  Tests: tests/targets/nvidia/.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tilewright.analysis.alias import written_bases
from tilewright.diagnostics import CompilationError
from tilewright.ir import fp
from tilewright.ir.node import Block, Module, Op
from tilewright.ir.types import Element, Pointer, element_of
from tilewright.targets.llvm import convert
from tilewright.targets.llvm.isa import Isa
from tilewright.targets.llvm.lines import LineTable
from tilewright.targets.llvm.text import ModuleWriter
from tilewright.targets.llvm.types import I64, Type, constant, zero
from tilewright.targets.nvidia import (
    access,
    assembly,
    atomic,
    boxes,
    control,
    conversion,
    copies,
    debug,
    order,
    rearrange,
    reduce,
    scan,
    warpgroup,
)
from tilewright.targets.nvidia.allocation import allocate
from tilewright.targets.nvidia.capability import Capability
from tilewright.targets.nvidia.elementwise import bind_wide, elementwise
from tilewright.targets.nvidia.emit.code import Code
from tilewright.targets.nvidia.indices import index_values
from tilewright.targets.nvidia.passes.persist import is_persistent
from tilewright.targets.nvidia.pressure import counts_of_programs
from tilewright.targets.nvidia.shared import Allocation
from tilewright.targets.nvidia.state import Kernel

Handler = Callable[[Kernel, Op], None]


def _constant(kernel: Kernel, op: Op) -> None:
    element, value = op.attrs["type"], op.attrs["value"]
    kernel.bind(op.result, [constant_of(kernel, element, value)])


def constant_of(kernel: Kernel, element: Element, value: float) -> Any:
    """A constant in register form; floats are rounded to their type."""
    if isinstance(element, Pointer):
        return kernel.code.cast("inttoptr", constant(I64, value), Type("ptr")) if value else zero(Type("ptr"))
    if not element.is_float:
        return constant(convert.register_type(element), value)
    t = convert.register_type(element)
    (encoded,) = fp.encode(np.array([value], np.float64), element)
    return constant(t, float(encoded) if t.is_float else int(encoded))


def _block_number(kernel: Kernel, op: Op) -> None:
    """The index, or the number, of blocks or of programs: the same, but along x of a kernel that loops over them."""
    if op.name == "num_programs" and op.attrs["axis"] == 0 and is_persistent(kernel.module):
        kernel.bind(op.result, [kernel.code.cast("trunc", kernel.hidden("programs"), Type("i32"))])
        return
    name = "ctaid" if op.name.endswith("_id") else "nctaid"
    kernel.bind(op.result, kernel.code.machine(f"{name}.{'xyz'[op.attrs['axis']]}", [Type("i32")], []))


def _nothing(kernel: Kernel, op: Op) -> None:
    """A promise, a terminator whose owner reads its operands, or shared memory that is free again (`allocation`)."""


HANDLERS: Mapping[str, Handler] = {
    "constant": _constant, "iota": rearrange.iota,
    **dict.fromkeys(("program_id", "num_programs", "block_id", "num_blocks"), _block_number),
    **dict.fromkeys(("splat", "expand_dims", "broadcast", "permute", "hint"), rearrange.shape_op),
    "reshape": rearrange.reshape, "convert": conversion.convert, "join": rearrange.join, "split": rearrange.split,
    "cat": rearrange.cat, "slice": rearrange.slice_, "gather": rearrange.gather,
    "shared_alloc": copies.shared_alloc, "async_copy": copies.async_copy, "async_commit": copies.async_commit,
    "async_wait": copies.async_wait, "shared_load": copies.shared_load,
    "shared_store": copies.shared_store,
    "mbarrier_alloc": boxes.mbarrier_alloc, "mbarrier_arrive": boxes.mbarrier_arrive,
    "mbarrier_wait": boxes.mbarrier_wait, "proxy_fence": boxes.proxy_fence,
    "box_copy": boxes.box_copy, "box_store": boxes.box_store,
    "load": access.load, "store": access.store, "barrier": lambda kernel, op: kernel.shared.barrier(),
    "reduce": reduce.reduce, "scan": scan.scan, "map": reduce.map_elements, "sort": order.sort,
    "dot": warpgroup.dot, "warpgroup_dot": warpgroup.warpgroup_dot, "warpgroup_wait": warpgroup.warpgroup_wait,
    "histogram": order.histogram, "atomic_rmw": atomic.atomic, "atomic_cas": atomic.atomic,
    "for": control.lower_for, "while": control.lower_while, "if": control.lower_if,
    "inline_asm": assembly.inline_asm, "inline_asm_ordered": assembly.inline_asm,
    "device_print": debug.device_print, "device_assert": debug.device_assert,
    **dict.fromkeys(("yield", "condition", "return", "assume", "shared_free"), _nothing),
}

# Rows without a rule, and what the user is told.
REFUSALS: Mapping[str, str] = {}


@dataclass(frozen=True, slots=True)
class Generated:
    """The text, and what the host needs to run it; `programs` of it fit on an SM, or one of the counts behind that if
    registers do not suffice."""

    text: str
    metadata: Mapping[str, Any]
    programs: Sequence[int]


def entry_symbol(name: str) -> str:
    """A kernel's name as a PTX identifier (PTX ISA 4.4)."""
    return re.sub(r"\W", "_", name, flags=re.ASCII)


def generate(module: Module, capability: Capability, num_warps: int, line_info: bool = False,
             max_registers: int | None = None, allocation: Allocation | None = None) -> Generated:
    """LLVM text for a laid-out `module`, and its metadata (`target` describes it).

    `allocation` is what `allocate` makes of the same module, capability and warps.

    `line_info` says which line of the user's each instruction is from: PTX then has `.loc` directives.
    `max_registers` limits those of a thread.
    """
    writer = ModuleWriter(Isa.of("nvptx64-nvidia-cuda", ""))
    entry = entry_symbol(module.entry_name)
    elements = [element_of(p.type) for p in module.entry.params]
    names = [f"p{k}" for k in range(len(elements))]
    indices = index_values(module)
    programs = counts_of_programs(module, num_warps, capability, indices)
    code = Code(writer, entry, [(n, _parameter_type(e)) for n, e in zip(names, elements, strict=True)], num_warps,
                capability.fp8, programs[0], max_registers)
    shared = allocation or allocate(module, capability, num_warps)
    kernel = Kernel(module, code, capability, indices, shared)
    kernel.written = written_bases(module, kernel.alias)
    if line_info:
        kernel.lines = LineTable(code, module.entry_name, module.entry.loc, emission="DebugDirectivesOnly")

    def run(block: Block) -> None:
        for op in block.ops:
            _lower(kernel, op)

    kernel.run_block, kernel.lower = run, lambda op: _lower(kernel, op)
    for param, given, element in zip(module.entry.params, code.params, elements, strict=True):
        kernel.bind(param, [access.from_bits(kernel, given, element) if given.type != convert.register_type(element)
                            else given])
    run(module.entry.body)
    kernel.shared.end()
    code.ret()
    code.add_parameters([*((n, I64) for n in kernel.hidden_parameters),
                         *((boxes.name_of(k), boxes.PARAMETER) for k in range(len(kernel.tensor_maps)))])
    text = code.text() + writer.text()
    metadata = {
        "entry": entry, "name": module.entry_name, "num_warps": num_warps, "threads": 32 * num_warps,
        "shared": shared.bytes, "capability": capability.name,
        "params": [{"name": n, "type": str(e), "bytes": e.bytes}
                   for n, e in zip(module.entry.param_names, elements, strict=True)],
        "whole_words": kernel.whole_words, "hidden": kernel.hidden_parameters,
        "tensor_maps": kernel.tensor_maps,
        "asserts": kernel.messages.asserts, "prints": kernel.messages.prints}
    return Generated(text, metadata, programs)


def _parameter_type(element: Element) -> Type:
    """How a parameter is passed: as its bits; an i1 is a byte."""
    return Type(f"i{8 * element.bytes}")


def _lower(kernel: Kernel, op: Op) -> None:
    if kernel.lines is not None:
        kernel.code.mark = kernel.lines.mark(op.loc)
    handler = HANDLERS.get(op.name)
    before = kernel.begin_op(op.operands if op.name != "reduce" else ())    # which may take the narrow numbers
    try:
        if handler is not None:
            handler(kernel, op)
        elif op.row.elementwise:
            elementwise(kernel, op)
        else:
            reason = REFUSALS.get(op.name, f"this target has no rule for {op.name}")
            raise CompilationError(reason, op.loc)
    finally:
        kernel.end_op(before)
    if op.results and op.name not in ("for", "while", "if"):
        bind_wide(kernel, op)
