"""Meanings of bulk copies, of tensors and of plain bytes, and of tensormap instructions (PTX ISA 9.7.9.25.4 to .28).

A copy into shared memory is announced at an mbarrier and lands late; one out of shared memory belongs to a bulk group.
Tests: tests/targets/nvidia/ptx/test_asynchronous.py.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from tilewright.targets.nvidia.ptx import tensor_maps
from tilewright.targets.nvidia.ptx.asynchronous import BulkGroupItem
from tilewright.targets.nvidia.ptx.atomic import REDUCTIONS
from tilewright.targets.nvidia.ptx.binding import Binding, Mask, Step
from tilewright.targets.nvidia.ptx.clocks import CODE_BITS
from tilewright.targets.nvidia.ptx.mbarrier_operations import known, owner
from tilewright.targets.nvidia.ptx.memory import CTA_BITS, SHARED_WINDOW, UNSIGNED
from tilewright.targets.nvidia.ptx.operands import Address, Immediate, Instruction
from tilewright.targets.nvidia.ptx.report import Fault

if TYPE_CHECKING:
    from tilewright.targets.nvidia.ptx.cta import Cta

Array = np.ndarray[Any, Any]
_KINDS = {6: "f16", 10: "bf16", 7: "f32", 9: "f64", 3: "s32", 5: "s64"}     # element types, for reductions


def place_of(bind: Binding, instruction: Instruction) -> int:
    """The index of an instruction, for a landing that finds a fault later."""
    return next(i for i, other in enumerate(bind.cta.program.code) if other is instruction)


# ---- tensors
def map_at(bind: Binding, address: int) -> tensor_maps.Fields:
    """The tensor map at a generic address of global or parameter memory."""
    region = bind.cta.launch.memory.region_at(address)
    if region is None or not region.low <= address <= region.high - tensor_maps.SIZE:
        raise Fault("out of bounds", f"a tensor map at address {address:#x}, where nothing is")
    if address % 64:
        raise Fault("misaligned", f"a tensor map at address {address:#x}, which is no multiple of 64")
    start = address - region.base
    return tensor_maps.unpack(region.data[start:start + tensor_maps.SIZE].tobytes())


def box_places(fields: tensor_maps.Fields, corner: list[int], shared: int,
               written: bool = False) -> tuple[Array, Array, Array]:
    """(byte in shared memory, global address, in bounds) of each element of a box.

    Of rows that are `written`, the last 16 bytes are written whole (found on an H200, 2026-11-30).
    """
    shape = fields.box[::-1]
    index = np.indices(shape, dtype=np.int64).reshape(len(shape), -1)[::-1]
    inside = np.ones(index.shape[1], bool)
    address = np.full(index.shape[1], fields.address, np.int64)
    for d, (at, step) in enumerate(zip(corner, fields.steps)):
        position = at + index[d] * step
        end = -(-fields.dims[0] * fields.item // 16) * 16 // fields.item if written and d == 0 else fields.dims[d]
        inside &= (position >= 0) & (position < end)
        address += position * (fields.item if d == 0 else fields.strides[d - 1])
    byte = shared + np.arange(index.shape[1], dtype=np.int64) * fields.item
    return tensor_maps.swizzled(byte, fields.swizzle), address, inside


def tensor_copy(instruction: Instruction, bind: Binding) -> Step:
    """cp.async.bulk.tensor: a box between global and shared memory; cp.reduce.async.bulk.tensor adds into global
    memory.
    """
    parts = instruction.parts
    if "im2col" in parts or "tile::gather4" in parts or "tile::scatter4" in parts:
        raise bind.error("copies tiles only, here")
    if parts[:2] == ("cp", "async") and "prefetch" in parts:
        return lambda on: None
    if "mbarrier" in instruction.opcode:
        return _load_tensor(instruction, bind)
    return _store_tensor(instruction, bind)


def _coordinates(bind: Binding, operand: Address) -> list[Array]:
    return [bind.source(c, "s32") for c in operand.coordinates or ()]


def _corner(coordinates: list[Array], threads: int, thread: int, fields: tensor_maps.Fields) -> list[int]:
    if len(coordinates) != fields.rank:
        raise Fault("operand", f"{len(coordinates)} coordinates for a tensor map of rank {fields.rank}")
    return [int(np.broadcast_to(c, threads)[thread]) for c in coordinates]


def _load_tensor(instruction: Instruction, bind: Binding) -> Step:
    cta, operands = bind.cta, instruction.operands
    source = operands[1]
    assert isinstance(source, Address)
    to, map_address, barrier_address = bind.address(operands[0]), bind.address(source), bind.address(operands[2])
    coordinates, pc = _coordinates(bind, source), place_of(bind, instruction)
    multicast = bind.source(operands[3], "b16") if "multicast::cluster" in instruction.parts else None
    remote = "shared::cluster" in instruction.parts and len(cta.peers) > 1

    def step(on: Mask) -> None:
        for thread in (cta.ids if on is None else cta.ids[on]).tolist():
            fields = map_at(bind, int(map_address()[thread]))
            corner = _corner(coordinates, cta.threads, thread, fields)
            targets = [(int(to()[thread]), int(barrier_address()[thread]))]
            if multicast is not None:
                ranks = int(np.broadcast_to(multicast, cta.threads)[thread])
                inner = [t & (1 << CTA_BITS) - 1 for t in targets[0]]
                targets = [(inner[0] | r << CTA_BITS, inner[1] | r << CTA_BITS) for r in range(16) if ranks >> r & 1]
            for shared_address, barrier in targets:
                _start_box(bind, fields, corner, shared_address, barrier, thread, pc, remote)

    return step


def shared_of(cta: Cta, address: int, remote: bool) -> tuple[Cta, int]:
    """The CTA whose shared memory an address points into, and the byte in it."""
    rank = address >> CTA_BITS if remote else cta.rank
    return cta.peers[rank], address & (1 << CTA_BITS) - 1


def _start_box(bind: Binding, fields: tensor_maps.Fields, corner: list[int], shared_address: int, barrier: int,
               thread: int, pc: int, remote: bool) -> None:
    target, inside_address = shared_of(bind.cta, shared_address, remote)
    if inside_address % 128:
        raise Fault("misaligned", f"a tensor copy to byte {inside_address} of shared memory, no multiple of 128",
                    (thread,))
    byte, address, inside = box_places(fields, corner, inside_address)
    item = fields.item
    rows = np.empty((len(byte), 1), UNSIGNED[item])
    rows[:] = np.frombuffer(tensor_maps.fill_bytes(fields), UNSIGNED[item])

    def read() -> Array:
        who = np.full(int(inside.sum()), thread)
        if inside.any():
            rows[inside] = bind.cta.launch.memory.read(address[inside], who, item, 1)
        return rows

    start_into_shared(bind, target, byte, item, read, barrier, thread, pc, remote)


def start_into_shared(bind: Binding, target: Cta, byte: Array, item: int, read: Callable[[], Array], barrier: int,
                      thread: int, pc: int, remote: bool) -> None:
    """A copy into `target`'s shared memory that is to complete bytes at an mbarrier."""
    shared = target.shared
    who = np.full(len(byte), thread)
    shared.check(byte, item, who, "a bulk copy")
    cells = np.unique(shared.tracker.cells_of(byte, item, who)[0])
    writers = np.full(len(cells), thread)
    shared.before_write(cells, writers)
    if bind.cta.launch.checks.races and target is bind.cta:
        shared.tracker.check_write(cells, writers)
    barriers, inside = owner(bind, barrier, remote)
    object_ = known(bind, barriers, inside, np.array([thread]))
    shared.landing[cells] += 1

    def land() -> None:
        data = read()
        shared.landing[cells] -= 1
        shared.data.view(data.dtype)[byte // item] = data[:, 0]
        shared.tracker.asynchronous = True
        shared.tracker.written[cells] = object_.tick() << CODE_BITS | object_.code
        shared.unfenced[cells] = False
        barriers.complete(object_, len(byte) * item)

    bind.cta.copies.fly(pc, land)


def _store_tensor(instruction: Instruction, bind: Binding) -> Step:
    cta, operands, parts = bind.cta, instruction.operands, instruction.parts
    target = operands[0]
    assert isinstance(target, Address)
    map_address, source = bind.address(target), bind.address(operands[1])
    coordinates = _coordinates(bind, target)
    reduction = next((p for p in parts if p in REDUCTIONS), "") if parts[1] == "reduce" else ""
    pc = place_of(bind, instruction)

    def step(on: Mask) -> None:
        for thread in (cta.ids if on is None else cta.ids[on]).tolist():
            fields = map_at(bind, int(map_address()[thread]))
            corner = _corner(coordinates, cta.threads, thread, fields)
            start = int(source()[thread])
            if start % 128:
                raise Fault("misaligned", f"a tensor copy from byte {start} of shared memory, no multiple of 128",
                            (thread,))
            _check_stored(fields, corner, thread)
            byte, address, inside = box_places(fields, corner, start, written=True)
            kind = _KINDS.get(fields.element, f"u{8 * fields.item}")
            start_out_of_shared(bind, byte, fields.item, address, inside, thread, pc, reduction, kind)

    return step


def _check_stored(fields: tensor_maps.Fields, corner: list[int], thread: int) -> None:
    """CUDA C++ Programming Guide, Using TMA, for negative places; "an illegal instruction" on an H200 within 16 bytes
    (2026-11-30; copies of blocks of float32 to global memory that start at columns 3, 5, 77 and 127)."""
    if min(corner) < 0 or corner[0] * fields.item % 16:
        raise Fault("operand", f"a tensor copy to global memory that starts at {tuple(corner[::-1])}: a place is "
                    "negative, or within 16 bytes of a row", (thread,))


def start_out_of_shared(bind: Binding, byte: Array, item: int, address: Array, inside: Array, thread: int, pc: int,
                        reduction: str, kind: str) -> None:
    """A copy of elements of shared memory to global addresses, in the thread's open bulk group."""
    cta = bind.cta
    shared = cta.shared
    who = np.full(len(byte), thread)
    shared.check(byte, item, who, "a bulk copy")
    cells = np.unique(shared.tracker.cells_of(byte, item, who)[0])
    readers = np.full(len(cells), thread)
    shared.before_read(cells, readers)
    check_fenced(cta, cells, thread)
    if cta.launch.checks.races:
        shared.tracker.on_read(cells, readers)
    data = shared.data.view(UNSIGNED[item])[byte // item].copy()
    shared.leaving[cells] += 1
    memory = cta.launch.memory
    threads = np.full(int(inside.sum()), thread)

    def write() -> None:
        if not inside.any():
            return
        rows = data[inside]
        if reduction:
            combine = REDUCTIONS[reduction]
            memory.update(address[inside], threads, item, lambda old, lanes: combine(old, rows[lanes], kind))
        else:
            memory.write(address[inside], threads, rows[:, None])

    cta.copies.bulk.append(BulkGroupItem(pc, thread, int(cta.copies.bulk_committed[thread]), cells, write))


def check_fenced(cta: Cta, cells: Array, thread: int) -> None:
    """Ordinary writes are seen by the asynchronous proxy after fence.proxy.async only (PTX ISA 8.3)."""
    bad = cta.shared.unfenced[cells]
    if bad.any():
        cell = int(cells[np.flatnonzero(bad)[0]])
        raise Fault("proxy fence", f"the asynchronous proxy reads ordinary writes (shared memory, byte "
                    f"{cell << cta.shared.tracker.shift}) with no fence.proxy.async between", (thread,))


# ---- plain bytes
def bytes_copy(instruction: Instruction, bind: Binding) -> Step:
    """cp.async.bulk between global and shared memory, or into another CTA's shared memory."""
    parts = instruction.parts
    if "prefetch" in parts:
        return lambda on: None
    cta, operands = bind.cta, instruction.operands
    to, source, size = bind.address(operands[0]), bind.address(operands[1]), bind.source(operands[2], "u32")
    pc = place_of(bind, instruction)
    spaces = [p for p in parts if p.split("::")[0] in ("shared", "global")]
    into_shared = spaces[0].startswith("shared")
    from_shared = spaces[1].startswith("shared")
    barrier = bind.address(operands[3]) if into_shared else None
    reduction = next((p for p in parts if p in REDUCTIONS), "") if parts[1] == "reduce" else ""
    remote = "shared::cluster" in parts and len(cta.peers) > 1

    def step(on: Mask) -> None:
        for thread in (cta.ids if on is None else cta.ids[on]).tolist():
            length = int(np.broadcast_to(size, cta.threads)[thread])
            target, origin = int(to()[thread]), int(source()[thread])
            if length % 16 or target % 16 or origin % 16:
                raise Fault("misaligned", f"a bulk copy of {length} bytes from {origin:#x} to {target:#x}; all three "
                            "are to be multiples of 16", (thread,))
            if length == 0:
                continue
            item = 4 if not reduction else UNSIGNED[_width(parts[-1])].itemsize
            offsets = np.arange(0, length, item, dtype=np.int64)
            if barrier is not None:
                read = _reader(bind, origin + offsets, item, from_shared, thread)
                owner_, inside = shared_of(cta, target, remote)
                start_into_shared(bind, owner_, inside + offsets, item, read, int(barrier()[thread]), thread, pc,
                                  remote)
            else:
                everywhere = np.ones(len(offsets), bool)
                start_out_of_shared(bind, origin + offsets, item, target + offsets, everywhere, thread, pc, reduction,
                                    parts[-1])

    return step


def _width(type: str) -> int:
    return int("".join(c for c in type.replace("bf16", "16") if c.isdigit())) // 8


def _reader(bind: Binding, address: Array, item: int, from_shared: bool, thread: int) -> Callable[[], Array]:
    cta = bind.cta
    who = np.full(len(address), thread)
    if from_shared:
        cells = np.unique(cta.shared.tracker.cells_of(address, item, who)[0])
        check_fenced(cta, cells, thread)
        rows = cta.shared.read(address, who, item, 1)
        return lambda: rows
    return lambda: cta.launch.memory.read(address, who, item, 1)


# ---- groups and fences
def commit(instruction: Instruction, bind: Binding) -> Step:
    cta = bind.cta
    return lambda on: cta.copies.commit_bulk(cta.lanes(on))


def wait(instruction: Instruction, bind: Binding) -> Step:
    """cp.async.bulk.wait_group{.read} n."""
    cta, operand = bind.cta, instruction.operands[0]
    if not isinstance(operand, Immediate):
        raise bind.error("waits for a constant number of groups")
    left, read_only = operand.value, "read" in instruction.parts
    return lambda on: cta.copies.wait_bulk(cta.lanes(on), left, read_only)


def proxy_fence(instruction: Instruction, bind: Binding) -> Step:
    """fence.proxy.async: ordinary writes of these threads, and those ordered before, are seen by the async proxy."""
    cta = bind.cta
    if "async" not in instruction.parts:
        return lambda on: None

    def step(on: Mask) -> None:
        shared = cta.shared
        cells = np.flatnonzero(shared.unfenced)
        if not len(cells):
            return
        record = shared.tracker.written[cells]
        who, time = record & (1 << CODE_BITS) - 1, record >> CODE_BITS
        lanes = cta.lanes(on)
        own = (who < cta.threads) & lanes[np.minimum(who, cta.threads - 1)]
        warps = np.flatnonzero(lanes.reshape(-1, 32).any(1))
        agent = np.minimum(who // 32, cta.warps - 1)
        seen = (time <= cta.clocks.seen[warps].max(0)[agent]) & (who < cta.threads)
        shared.unfenced[cells[own | seen]] = False

    return step


# ---- tensor maps in memory
def replace_field(instruction: Instruction, bind: Binding) -> Step:
    """tensormap.replace: one field of a map in shared or global memory (9.7.9.28)."""
    parts, cta = instruction.parts, bind.cta
    field = next(p for p in parts if p in tensor_maps.REPLACED)
    attribute, is_list, more = tensor_maps.REPLACED[field]
    address = bind.address(instruction.operands[0])
    index = instruction.operands[1] if is_list else None
    if index is not None and not isinstance(index, Immediate):
        raise bind.error("takes a constant index")
    at, size = tensor_maps.position(attribute, index.value if isinstance(index, Immediate) else 0)
    value = bind.source(instruction.operands[2 if is_list else 1], f"b{8 * size}")
    in_shared = any(p.startswith("shared") for p in parts)

    def step(on: Mask) -> None:
        threads = cta.ids if on is None else cta.ids[on]
        where = address()[threads] & (SHARED_WINDOW - 1 if in_shared else -1)
        rows = (np.broadcast_to(value, cta.threads)[threads] + np.array(more, f"u{size}"))[:, None]
        (cta.shared if in_shared else cta.launch.memory).write(where + at, threads, rows.astype(f"u{size}"))

    return step


def copy_map(instruction: Instruction, bind: Binding) -> Step:
    """tensormap.cp_fenceproxy: a map from shared to global memory, by a warp, and seen by the tensormap proxy."""
    cta = bind.cta
    to, source = bind.address(instruction.operands[0]), bind.address(instruction.operands[1])

    def step(on: Mask) -> None:
        threads = cta.ids if on is None else cta.ids[on]
        for warp in np.unique(threads >> 5):
            thread = int(threads[threads >> 5 == warp][0])
            words = np.arange(0, tensor_maps.SIZE, 4)
            who = np.full(len(words), thread)
            origin = int(source()[thread]) & SHARED_WINDOW - 1
            cta.shared.check(origin + words, 4, who, "a tensor map")
            data = cta.shared.data.view(np.uint32)[(origin + words) // 4].copy()
            cta.launch.memory.write(int(to()[thread]) + words, who, data[:, None])

    return step
