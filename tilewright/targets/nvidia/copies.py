"""Shared memory that a pipelined loop fills ahead: buffers, asynchronous copies, and tiles read from them.

A copy moves runs (`runs`) of 4, 8 or 16 bytes with cp.async; masked-off runs are filled with zeros by a source size
of 0.  Where a run turns out to be none, and for smaller ones, the elements go through registers.  A tile that a dot
reads is loaded fragment by fragment when it is needed (`conversion.Loads`); for any other user all of it is loaded.
Tests: tests/targets/nvidia/test_pipeline.py.
"""

from __future__ import annotations

from collections.abc import Sequence

from tilewright.ir.layout_rules import layout_of
from tilewright.ir.node import Op, Value
from tilewright.ir.types import Tile, element_of
from tilewright.layout import Layout, f2
from tilewright.layout.access import Form, best_access
from tilewright.layout.linear import LANE, REGISTER, TURN, WARP
from tilewright.targets.llvm.types import I32, constant
from tilewright.targets.llvm.types import Value as LlvmValue
from tilewright.targets.nvidia.access import read_elements, shared_write
from tilewright.targets.nvidia.conversion import Loads, write_registers
from tilewright.targets.nvidia.emit.code import LANE_BITS
from tilewright.targets.nvidia.runs import Group, in_runs
from tilewright.targets.nvidia.runs import groups as groups_of
from tilewright.targets.nvidia.state import Kernel
from tilewright.targets.nvidia.wgmma import is_shared

_SIZES = (16, 8, 4)         # of a cp.async


def shared_alloc(kernel: Kernel, op: Op) -> None:
    kernel.bind(op.result, [kernel.shared.begin(op).address])


def async_commit(kernel: Kernel, op: Op) -> None:
    kernel.code.machine("cp.async.commit", [], [])


def async_wait(kernel: Kernel, op: Op) -> None:
    kernel.code.machine("cp.async.wait", [], [], count=str(op.attrs["pending"]))


def async_copy(kernel: Kernel, op: Op) -> None:
    """Begin to copy a tile."""
    def copy(op: Op, groups: Sequence[Group]) -> list[LlvmValue]:
        pointer, address, guard = op.operands[:3]
        layout, memory = layout_of(pointer), op.attrs["memory"]
        places = _Places(kernel, layout, memory)
        owner = kernel.code.thread_flag(dict(layout.free()))
        base, here = kernel.scalar(address), kernel.code.both(owner, kernel.scalar(guard))
        size = memory.element.bytes * len(groups[0])
        if size not in _SIZES and op.operand("mask") is not None:
            groups = list(groups_of(kernel, op, kernel.axis, masked=False))
        for group in groups:
            if group[0] & layout.free()[REGISTER]:
                continue
            if size in _SIZES and places.are_together(group):
                _copy_run(kernel, op, group, places.address(base, group[0]), size, here)
            elif places.are_together(group):
                _copy_elements(kernel, op, group, places.address(base, group[0]), here)
            else:
                for register in group:
                    _copy_elements(kernel, op, (register,), places.address(base, register), here)
        return []

    in_runs(kernel, op, copy)


def _copy_run(kernel: Kernel, op: Op, group: Group, to: LlvmValue, size: int, guard: LlvmValue | None) -> None:
    code, mask = kernel.code, op.operand("mask")
    source = kernel.registers(op.operands[0])[group[0]]
    taken = constant(I32, size)
    if mask is not None:
        taken = code.select(kernel.registers(mask)[group[0]], taken, constant(I32, 0))
    code.machine("cp.async", [], [to, source, taken], guard=guard, cache="cg" if size == _SIZES[0] else "ca",
                 size=str(size))


def _copy_elements(kernel: Kernel, op: Op, group: Group, to: LlvmValue, guard: LlvmValue | None) -> None:
    """Elements with a mask bit each: loaded one by one, and stored together."""
    code, mask, element = kernel.code, op.operand("mask"), op.attrs["memory"].element
    values = []
    for register in group:
        wanted = code.both(guard, None if mask is None else kernel.registers(mask)[register])
        values += read_elements(kernel, op, element, kernel.registers(op.operands[0])[register], wanted, 1)
    shared_write(kernel, to, values, element, guard)


class _Places:
    """Where in shared memory this thread's registers of a distributed layout go."""

    def __init__(self, kernel: Kernel, layout: Layout, memory: Tile) -> None:
        self._kernel, self._size = kernel, memory.element.bytes
        assert memory.layout is not None
        self._inverse = memory.layout.inverse().columns
        lanes = [f2.apply(self._inverse, b) * self._size for b in layout.bases(LANE)]
        warps = [f2.apply(self._inverse, b) * self._size for b in layout.bases(WARP)]
        self._bases = (*lanes, *(0,) * (LANE_BITS - len(lanes)), *warps)
        self._turns = [f2.apply(self._inverse, b) * self._size for b in layout.bases(TURN)]
        offsets = [0]
        for b in layout.bases(REGISTER):
            moved = f2.apply(self._inverse, b)
            offsets += [x ^ moved for x in offsets]
        self._offsets = offsets

    def offset(self, register: int) -> int:
        """Of a register in the first thread, in elements."""
        return self._offsets[register]

    def are_together(self, group: Group) -> bool:
        """Whether the registers of a run lie side by side in every thread."""
        first = self.offset(group[0])
        inside = len(group) * self._size - 1
        return (first % len(group) == 0 and [self.offset(r) for r in group] == list(range(first, first + len(group)))
                and not any(b & inside for b in (*self._bases, *self._turns)))

    def address(self, base: LlvmValue, register: int) -> LlvmValue:
        code = self._kernel.code
        place = code.of_thread(self._bases)
        if self._turns:
            place = code.op("xor", place, code.of_turn(self._turns))
        constant_part = self.offset(register) * self._size
        if constant_part:
            place = code.op("xor", place, constant(I32, constant_part))
        return code.op("add", base, place)


# --- reading


def shared_load(kernel: Kernel, op: Op) -> None:
    """A tile of shared memory; nothing is loaded before somebody needs it, unless the op says `now`."""
    memory, layout = op.attrs["memory"], layout_of(op.result)
    assert memory.layout is not None
    if is_shared(layout):       # it stays there
        kernel.bind(op.result, [kernel.scalar(op.operands[0])])
        return
    forms = tuple(Form) if kernel.capability.cp_async else (Form.VECTOR,)
    access = best_access(layout, memory.layout, memory.element.bytes, forms=forms)
    loads = Loads(kernel, access, kernel.scalar(op.operands[0]), element_of(op.result.type))
    if op.attrs["now"]:
        kernel.bind(op.result, loads.all_of(layout.size(REGISTER))())
        return
    kernel.bind_later(op.result, loads.all_of(layout.size(REGISTER)), loads)


def shared_store(kernel: Kernel, op: Op) -> None:
    """A tile to shared memory, without barriers."""
    memory, value = op.attrs["memory"], op.operands[0]
    assert memory.layout is not None
    access = best_access(layout_of(value), memory.layout, memory.element.bytes, store=True)
    write_registers(kernel, access, kernel.scalar(op.operands[1]), kernel.registers(value), element_of(value.type))


def loads_of(kernel: Kernel, value: Value) -> Loads | None:
    """The loads by which the fragments of an operand come; None if it is in registers."""
    found = kernel.later(value)
    return found if isinstance(found, Loads) else None
