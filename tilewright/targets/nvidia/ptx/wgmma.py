"""Meanings of wgmma: products of a warpgroup, operands in shared memory, accumulators under way (PTX ISA 9.7.15).

Before: four warps at one instruction.  After: D holds its value already, and is marked as under way until its group is
waited for; operands are marked as being read.  Sums are float32.
Tests: tests/targets/nvidia/ptx/test_wgmma.py.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from tilewright.targets.nvidia.ptx.binding import Binding, Control, Mask, Step
from tilewright.targets.nvidia.ptx.bulk import check_fenced
from tilewright.targets.nvidia.ptx.clocks import FIRST_TENSOR_AGENT
from tilewright.targets.nvidia.ptx.fragments import a_places, c_places
from tilewright.targets.nvidia.ptx.operands import Immediate, Instruction, Register, Vector
from tilewright.targets.nvidia.ptx.report import Fault
from tilewright.targets.nvidia.ptx.strands import Strand
from tilewright.targets.nvidia.ptx.tensor_cores import BITS, Registers, elements, encode_result
from tilewright.targets.nvidia.ptx.tensor_maps import swizzled

if TYPE_CHECKING:
    from tilewright.targets.nvidia.ptx.cta import Cta

Array = np.ndarray[Any, Any]
_SHAPE = re.compile(r"m64n(\d+)k(\d+)$")
GROUP = 128


@dataclass
class Product:
    """A product of warpgroup `group` that belongs to commit `number`, and the cells that it reads."""

    group: int
    number: int
    cells: Array


class Warpgroups:
    """Products under way in a CTA."""

    def __init__(self, cta: Cta) -> None:
        self.cta = cta
        self.clear()

    def clear(self) -> None:
        groups = -(-self.cta.threads // GROUP)
        self.committed = np.zeros(groups, np.int64)
        self.done = np.full(self.cta.threads, -1, np.int64)       # commits whose results may be read
        self.products: list[Product] = []
        self.time = np.full(groups, self.cta.clocks.first, np.int64)
        self.fences = np.zeros(self.cta.threads, np.int64)        # wgmma.fence so far, a thread

    def wait(self, group: int, left: int) -> None:
        """All commits of a warpgroup but the last `left` are done: their operands are free, their results there."""
        cta = self.cta
        last = int(self.committed[group]) - left - 1
        agent, time = FIRST_TENSOR_AGENT + group, int(self.time[group])
        kept = []
        for product in self.products:
            if product.group != group or product.number > last:
                kept.append(product)
                continue
            cta.shared.leaving[product.cells] -= 1
            cta.shared.tracker.read[cta.warps + group, product.cells] = time << 6
        self.products = kept
        threads = slice(GROUP * group, GROUP * group + GROUP)
        self.done[threads] = np.maximum(self.done[threads], last)
        warps = np.arange(4 * group, 4 * group + 4)
        cta.clocks.seen[warps, agent] = time
        self.time[group] = time + 1


def _warpgroup(bind: Binding, act: Callable[[int], None]) -> Control:
    """`act` for each warpgroup whose four warps have come."""
    cta = bind.cta

    def run(strand: Strand) -> int:
        lanes = cta.lanes(strand.on)
        if cta.threads % GROUP and lanes[cta.threads // GROUP * GROUP:].any():
            raise Fault("operand", "wgmma by warps that do not make a warpgroup of four", (cta.threads - 1,))
        strands = cta.together(strand, cta.alive, GROUP)
        if strands is None:
            return -1
        union = np.logical_or.reduce([cta.lanes(one.on) for one in strands])
        for group in np.unique(np.flatnonzero(union) // GROUP):
            if not union[GROUP * group:GROUP * group + GROUP].all():
                raise Fault("operand", "wgmma by a part of a warpgroup", (int(GROUP * group),))
            act(int(group))
        if len(strands) == 1 and strands[0] is strand:
            return strand.pc + 1
        for one in strands:
            one.pc = strand.pc + 1
            cta.put(one)
        return -1

    return Control(run)


def fence(instruction: Instruction, bind: Binding) -> Control:
    """wgmma.fence: registers written before may be used by the products behind."""
    groups = bind.cta.warpgroups

    def act(group: int) -> None:
        groups.fences[GROUP * group:GROUP * group + GROUP] += 1

    return _warpgroup(bind, act)


def commit(instruction: Instruction, bind: Binding) -> Control:
    groups = bind.cta.warpgroups

    def act(group: int) -> None:
        groups.committed[group] += 1

    return _warpgroup(bind, act)


def wait(instruction: Instruction, bind: Binding) -> Control:
    operand = instruction.operands[0]
    if not isinstance(operand, Immediate):
        raise bind.error("waits for a constant number of groups")
    groups, left = bind.cta.warpgroups, operand.value
    return _warpgroup(bind, lambda group: groups.wait(group, left))


# ---- descriptors
@lru_cache(maxsize=512)
def descriptor_places(descriptor: int, rows: int, depth: int, item: int, mn_major: bool) -> Array:
    """Byte in shared memory of each element [rows, depth] of an operand (9.7.15.5.1; checked on an H200)."""
    start, leading, stride = ((descriptor >> s & 0x3FFF) << 4 for s in (0, 16, 32))
    mode = (descriptor >> 62 & 3) and 4 - (descriptor >> 62 & 3)       # 1: 128, 2: 64, 3: 32 bytes
    width = {0: 16, 1: 32, 2: 64, 3: 128}[mode]
    per = width // item
    row, k = np.meshgrid(np.arange(rows, dtype=np.int64), np.arange(depth, dtype=np.int64), indexing="ij")
    if mn_major:
        if mode == 0:
            leading, stride = stride, leading
        byte = row % per * item + row // per * leading + k % 8 * width + k // 8 * stride
    else:
        byte = k % per * item + k // per * leading + row % 8 * width + row // 8 * stride
    places = swizzled(start + byte, mode)
    places.flags.writeable = False
    return places


@lru_cache(maxsize=512)
def descriptor_cells(descriptor: int, rows: int, depth: int, item: int, mn_major: bool, shift: int) -> Array:
    cells = np.unique(descriptor_places(descriptor, rows, depth, item, mn_major) >> shift)
    cells.flags.writeable = False
    return cells


class _SharedOperand:
    """An operand that a descriptor names."""

    def __init__(self, bind: Binding, operand: Any, rows: int, depth: int, type: str, mn_major: bool) -> None:
        self.cta, self.source = bind.cta, bind.source(operand, "b64")
        self.rows, self.depth, self.type, self.mn_major = rows, depth, type, mn_major
        self.item = BITS[type] // 8

    def fetch(self, group: int) -> tuple[Array, Array]:
        """(numbers [rows, depth], cells read), after all tests."""
        cta, shared = self.cta, self.cta.shared
        values = np.broadcast_to(self.source, cta.threads)[GROUP * group:GROUP * group + GROUP]
        if (values != values[0]).any():
            raise Fault("operand", "the threads of a warpgroup have different descriptors", (GROUP * group,))
        key = (int(values[0]), self.rows, self.depth, self.item, self.mn_major)
        places, cells = descriptor_places(*key), descriptor_cells(*key, shared.tracker.shift)
        thread = GROUP * group
        if int(places.max()) + self.item > shared.size:
            raise Fault("out of bounds", f"a wgmma operand reaches byte {int(places.max())} of shared memory, of which "
                        f"the CTA has {shared.size}", (thread,))
        who = np.full(len(cells), thread)
        shared.before_read(cells, who)
        check_fenced(cta, cells, thread)
        if cta.launch.checks.races:
            for warp in range(4):
                shared.tracker.on_read(cells, who + 32 * warp, note=False)
        dtype = f"u{self.item}"
        raw = np.ascontiguousarray(shared.data.view(dtype)[places // self.item])
        return _numbers(raw, self.type), cells


def _numbers(raw: Array, type: str) -> Array:
    values = elements(raw, type)
    return values if values.dtype.kind == "i" else values.astype(np.float32)


def multiply(instruction: Instruction, bind: Binding) -> Control:
    """wgmma.mma_async: D = A B + D, or A B where scale-d is false."""
    parts, operands, cta = instruction.parts, instruction.operands, bind.cta
    shape = next((s for p in parts if (s := _SHAPE.match(p))), None)
    if shape is None or "sp" in parts:
        raise bind.error("has no meaning here (sparse)")
    n, k = int(shape[1]), int(shape[2])
    d_type, a_type, b_type = [p for p in parts if p in (*BITS, "f32", "s32")][:3]
    if k * BITS[a_type] != 256 or n % 8 or not 8 <= n <= 256:
        raise bind.error(f"there is no such product of m64n{n}k{k} {a_type}")
    flags = [o.value for o in operands[4:] if isinstance(o, Immediate)]
    integer = d_type == "s32"
    scale_a, scale_b = (1, 1) if integer else (flags[0], flags[1])
    transposes = [] if integer else flags[2:]
    from_registers = isinstance(operands[1], Vector)
    a_major = bool(transposes[0]) if len(transposes) == 2 else False
    b_major = bool(transposes[-1]) if transposes else False
    if (a_major or b_major) and BITS[a_type] != 16:
        raise bind.error("transposes 16-bit types only")
    read_a = _register_operand(bind, operands[1], k, a_type) if from_registers else \
        _SharedOperand(bind, operands[1], 64, k, a_type, a_major).fetch
    read_b = _SharedOperand(bind, operands[2], n, k, b_type, b_major).fetch
    accumulate = _accumulators(bind, instruction, n, d_type, "satfinite" in parts)
    groups, counters = cta.warpgroups, cta.launch.counters
    factor = scale_a * scale_b

    def act(group: int) -> None:
        a, a_cells = read_a(group)
        b, b_cells = read_b(group)
        counters.counts["wgmma"] += 1
        accumulate(group, a @ b.T * factor if factor != 1 else a @ b.T)
        cells = np.concatenate([a_cells, b_cells]) if len(a_cells) else b_cells
        np.add.at(cta.shared.leaving, cells, 1)
        for part in (a_cells, b_cells):
            groups.products.append(Product(group, int(groups.committed[group]), part))

    return _warpgroup(bind, act)


def _check_fenced_registers(bind: Binding, names: list[str], group: int) -> None:
    """Ordinary writes of registers come before products after a wgmma.fence only (9.7.15.7.1), which the first product
    needs in any case."""
    groups = bind.cta.warpgroups
    threads = slice(GROUP * group, GROUP * group + GROUP)
    if not groups.fences[threads].all():
        raise Fault("in flight", "there is no wgmma.fence before the first wgmma", (GROUP * group,))
    for name in names:
        if (bind.changed[name][threads] == groups.fences[threads]).any():
            raise Fault("in flight", f"register {name.split('@')[0]} was written just before a wgmma that uses it; "
                        "wgmma.fence is missing", (GROUP * group,))


def note_writes(bind: Binding, instruction: Instruction, writes: list[str]) -> Step | None:
    """Remember when an ordinary instruction writes a register of a product; a move of another register may be none in
    the end."""
    touched = [bind.changed[name] for name in writes if name in bind.changed]
    if not touched or (instruction.family == "mov" and isinstance(instruction.operands[-1], Register)):
        return None
    groups = bind.cta.warpgroups

    def note(on: Mask) -> None:
        for changed in touched:
            np.copyto(changed, groups.fences, where=True if on is None else on)

    return note


def _register_operand(bind: Binding, operand: Any, k: int, type: str) -> Callable[[int], tuple[Array, Array]]:
    """A in registers: each warp holds 16 rows, as mma.sync has them."""
    registers, per = Registers(bind, operand), 32 // BITS[type]
    places = a_places(16, k, per)
    nothing = np.zeros(0, np.int64)
    names = [item.name for item in bind.items(operand) if isinstance(item, Register)]
    fragments, groups = [bind.fragment(name) for name in names], bind.cta.warpgroups

    def read(group: int) -> tuple[Array, Array]:
        _check_fenced_registers(bind, names, group)
        for fragment in fragments:
            fragment[GROUP * group:GROUP * group + GROUP] = groups.committed[group]
        raw = np.ascontiguousarray(registers.gather()[4 * group:4 * group + 4])
        return _numbers(raw, type).reshape(4, -1)[:, places].reshape(64, k), nothing

    return read


def _accumulators(bind: Binding, instruction: Instruction, n: int, type: str,
                  saturate: bool) -> Callable[[int, Array], None]:
    """D += product, or D = product, in the registers of a warpgroup."""
    cta, items = bind.cta, bind.items(instruction.operands[0])
    per = 2 if type == "f16" else 1
    place = c_places(16, n, per)
    if len(items) != place.shape[1]:
        raise bind.error(f"{len(items)} registers do not hold 64x{n} {type}")
    arrays = [bind.register(item.name) for item in items if isinstance(item, Register)]
    if len(arrays) != len(items) or any(a.dtype != np.uint32 for a in arrays):
        raise bind.error("accumulates in registers of 32 bits")
    chosen = bind.predicate(instruction.operands[3])
    names = [item.name for item in items if isinstance(item, Register)]
    flying = [bind.flying(name) for name in names]
    groups = cta.warpgroups
    dtype = {"f32": np.float32, "s32": np.int32, "f16": np.float16}[type]

    def accumulate(group: int, product: Array) -> None:
        threads = slice(GROUP * group, GROUP * group + GROUP)
        scale = np.broadcast_to(chosen(), cta.threads)[threads]
        if (scale != scale[0]).any():
            raise Fault("operand", "the threads of a warpgroup disagree on scale-d", (GROUP * group,))
        _check_fenced_registers(bind, names, group)
        value = product.reshape(4, 16 * n)[:, place].reshape(GROUP, -1, per)
        if scale[0]:
            old = np.stack([array[threads] for array in arrays], 1).view(dtype).reshape(GROUP, -1, per)
            value = value + old
        raw = np.ascontiguousarray(encode_result(value, type, saturate)).view(np.uint32).reshape(GROUP, -1)
        number = int(groups.committed[group])
        for i, (array, mark) in enumerate(zip(arrays, flying)):
            array[threads] = raw[:, i]
            mark[threads] = number

    return accumulate


# ---- registers that a product is still writing
def watch(bind: Binding, instruction: Instruction, reads: list[str], writes: list[str]) -> Step | None:
    """A test that an ordinary instruction touches no accumulator under way; a move hands the mark on."""
    cta, moves = bind.cta, instruction.family == "mov"
    if moves and len(reads) == 1 and len(writes) == 1:
        return _hand_on(bind, reads[0], writes[0])
    marks = [(name, bind.marks[name], "used while a wgmma still writes it")
             for name in dict.fromkeys([*reads, *writes]) if name in bind.marks]
    if not moves:
        marks += [(name, bind.fragments[name], "written while a wgmma still reads it")
                  for name in writes if name in bind.fragments]
    if not marks:
        return None
    groups = cta.warpgroups

    def check(on: Mask) -> None:
        for name, mark, what in marks:
            bad = mark > groups.done if on is None else on & (mark > groups.done)
            if bad.any():
                raise Fault("in flight", f"register {name.split('@')[0]} is {what}; wgmma.wait_group is missing",
                            (int(np.flatnonzero(bad)[0]),))

    return check


def _hand_on(bind: Binding, source: str, target: str) -> Step | None:
    """A copy of an accumulator is no read: ptxas makes them one register."""
    mark, from_ = bind.marks.get(target), bind.marks.get(source)
    if mark is None:
        return None

    def hand(on: Mask) -> None:
        np.copyto(mark, -1 if from_ is None else from_, where=True if on is None else on)

    return hand
