"""A module of tile IR as the text of one LLVM function that runs a range of programs.

The function is `void NAME(ptr slots, i64 first, i64 last, ptr context)`: it loads the arguments from the slots and
runs the programs first..last-1 of the grid, x fastest.  What does not depend on the program is computed before that
loop.  Before: a module on which the target's passes have run (no calls are left).  After: `Generated`.
Tests: tests/targets/cpu/.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tilewright.diagnostics import location_record
from tilewright.ir.node import Module
from tilewright.ir.types import I1, Pointer, element_of
from tilewright.ir.walk import ops_in
from tilewright.targets.cpu import atomic, control, debug, dot, order, panels, rearrange, reduce, scan
from tilewright.targets.cpu.aliasing import Aliases
from tilewright.targets.cpu.code import Code
from tilewright.targets.cpu.extents import Guards, is_access
from tilewright.targets.cpu.fuse import Handler, Walker
from tilewright.targets.cpu.host.records import WORD, Frame
from tilewright.targets.cpu.plan import Plan
from tilewright.targets.cpu.state import Kernel
from tilewright.targets.cpu.streaming import Streaming
from tilewright.targets.cpu.tile_registers import enter, tiles_of
from tilewright.targets.llvm import convert
from tilewright.targets.llvm.isa import Isa
from tilewright.targets.llvm.lines import LineTable
from tilewright.targets.llvm.text import ModuleWriter
from tilewright.targets.llvm.types import I64, PTR, Value, constant

HANDLERS: Mapping[str, Handler] = {
    "store": Walker.store, "reduce": reduce.lower, "scan": scan.lower, "dot": dot.lower,
    "cat": rearrange.cat, "atomic_rmw": atomic.lower, "atomic_cas": atomic.lower,
    "gather": rearrange.gather, "map": rearrange.map_elements, "sort": order.sort, "histogram": order.histogram,
    "for": control.lower_for, "while": control.lower_while, "if": control.lower_if,
    "inline_asm": debug.refuse_assembly, "inline_asm_ordered": debug.refuse_assembly,
    "device_print": debug.device_print, "device_assert": debug.device_assert, "assume": debug.assume,
}


@dataclass(frozen=True, slots=True)
class Generated:
    """The text, and what the host needs to run it."""

    text: str
    metadata: Mapping[str, Any]


def generate(module: Module, isa: Isa, vector_bits: int, check_bounds: bool = True,
             line_info: bool = False) -> Generated:
    """LLVM text for `module` on vectors of `vector_bits`; `check_bounds` tests accesses against extents.

    `line_info` says which line of the user's each instruction is from, for debuggers and profilers.
    """
    writer = ModuleWriter(isa)
    entry = "kernel_" + re.sub(r"\W", "_", module.entry_name)
    tiles = tiles_of(module, isa)
    inner = entry if tiles is None else entry + "_in_tiles"
    code = Code(writer, inner, [("slots", PTR), ("first", I64), ("last", I64), ("context", PTR)])
    kernel = Kernel(module, code, vector_bits)
    kernel.tiles = tiles
    if line_info:
        kernel.lines = code.line_table = LineTable(code, module.entry_name, module.entry.loc)
    _bind_arguments(kernel)
    body = module.entry.body
    aliases = Aliases(module)
    kernel.checks_bounds = check_bounds
    guards = Guards(kernel, module, aliases) if check_bounds else None
    plan = Plan(body, aliases.other_axis)
    streaming = Streaming(kernel, module, plan, aliases)
    walker = Walker(kernel, plan, aliases, HANDLERS, streaming, guards)
    _, first, last, _ = code.params

    def program(linear: Value, coordinates: tuple[Value, ...]) -> tuple[Value, ...]:
        kernel.program = (*coordinates, linear)
        # A memory fault is told with the program.  Volatile, since nothing else reads it; 0.2 ns (measured 2026-11-30).
        code.do(f"store volatile {linear}, {code.gep(kernel.context, Frame.PROGRAM // WORD, I64)}, align 8")
        walker.block(body)
        walker.end_block()
        return _following(kernel, coordinates)

    entering = code.reserve()
    code.loop(first, last, constant(I64, 1), program, _coordinates(kernel, first))
    code.ret()
    if kernel.panels:
        panels.write_forget(writer, kernel)
        entering(f"call void @{panels.FORGET}({kernel.context})")
    if tiles is not None:
        enter(writer, tiles, entry, inner)
    messages = kernel.messages
    metadata = {"entry": entry, "scratch_bytes": max(64, kernel.scratch.size), "asserts": messages.asserts,
                "prints": messages.prints, "accesses": messages.accesses,
                "nontemporal": streaming.used, "atomics": kernel.atomics,
                "tiles": tiles is not None, "polls_cancel": messages.waits,
                "loops": [location_record(loc) for loc in messages.loops], "name": module.entry_name,
                "line_info": line_info, "location": location_record(module.entry.loc),
                "slots": len(module.entry.params) + 2 * sum(isinstance(p.type, Pointer) for p in module.entry.params),
                "places": [location_record(op.loc) for op in ops_in(module.entry.body) if is_access(op)]}
    return Generated(code.text() + writer.text(), metadata)


def _bind_arguments(kernel: Kernel) -> None:
    """Load every parameter from its slot: the low bits are the value."""
    code = kernel.code
    slots = code.params[0]
    for k, param in enumerate(kernel.module.entry.params):
        element = element_of(param.type)
        t = convert.register_type(element) if element != I1 else convert.memory_type(element)
        address = code.gep(slots, k, I64)
        value = code.shared_load(f"load {t}, {address}, align 8", t, 0)
        if element == I1:
            value = code.icmp("ne", value, constant(t, 0))
        assert isinstance(element, Pointer) or value.type == convert.register_type(element)
        kernel.bind_scalar(param, value)


def _coordinates(kernel: Kernel, linear: Value) -> tuple[Value, ...]:
    """A program's index along x, y and z."""
    code = kernel.code
    x_size, y_size = kernel.context_word(0, I64), kernel.context_word(1, I64)
    row = code.op("udiv", linear, x_size)
    plane = code.op("udiv", row, y_size)
    x, y = code.op("mul", row, x_size), code.op("mul", plane, y_size)
    return code.op("sub", linear, x), code.op("sub", row, y), plane


def _following(kernel: Kernel, coordinates: tuple[Value, ...]) -> tuple[Value, ...]:
    """The coordinates of the next program, without another division."""
    code, zero = kernel.code, constant(I64, 0)
    x, y, z = coordinates
    next_x = code.op("add", x, constant(I64, 1))
    row_ends = code.icmp("eq", next_x, kernel.context_word(0, I64))
    next_y = code.op("add", y, code.cast("zext", row_ends, I64))
    plane_ends = code.icmp("eq", next_y, kernel.context_word(1, I64))
    return (code.select(row_ends, zero, next_x), code.select(plane_ends, zero, next_y),
            code.op("add", z, code.cast("zext", plane_ends, I64)))
