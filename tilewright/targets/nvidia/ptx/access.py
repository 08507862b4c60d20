"""Meanings of loads, stores, prefetches (PTX ISA 9.7.9), and the spaces that addresses point into.

Cache hints are read and have no effect.
Tests: tests/targets/nvidia/ptx/test_memory.py.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import numpy as np

from tilewright.targets.nvidia.ptx import ordering
from tilewright.targets.nvidia.ptx.binding import DTYPE, Binding, Mask, Step
from tilewright.targets.nvidia.ptx.counting import count_access
from tilewright.targets.nvidia.ptx.memory import CTA_BITS, WINDOW_BITS
from tilewright.targets.nvidia.ptx.operands import Address, Instruction, Operand, Symbol
from tilewright.targets.nvidia.ptx.report import Fault

Array = np.ndarray[Any, Any]

SPACES = ("global", "shared", "local", "const", "param")
_STRONG = ("volatile", "relaxed", "acquire", "release", "acq_rel", "mmio")
_BITS = {1: "b8", 2: "b16", 4: "b32", 8: "b64"}


class Memory(Protocol):
    """What a space offers."""

    space: str

    def read(self, address: Array, threads: Array, item: int, count: int, strong: bool = False) -> Array: ...
    def write(self, address: Array, threads: Array, values: Array, strong: bool = False) -> None: ...
    def update(self, address: Array, threads: Array, item: int, step: Callable[[Array, Array], Array]) -> Array: ...


class Parts:
    """Memory behind addresses that may lie in several spaces, or in several CTAs of a cluster."""

    def __init__(self, space: str, pick: Callable[[int], Memory | None], shift: int) -> None:
        self.space, self.pick, self.shift = space, pick, shift

    def _each(self, address: Array) -> list[tuple[Memory, Array | slice, Array]]:
        window = address >> self.shift
        low = int(window.min())
        inside = (1 << self.shift) - 1
        if low == int(window.max()):
            return [(self._memory(low), slice(None), address & inside)]
        out: list[tuple[Memory, Array | slice, Array]] = []
        for number in np.unique(window):
            lanes = np.flatnonzero(window == number)
            out.append((self._memory(int(number)), lanes, address[lanes] & inside))
        return out

    def _memory(self, window: int) -> Memory:
        memory = self.pick(window)
        if memory is None:
            raise Fault("out of bounds", f"an address in window {window:#x} of {self.space} space, where nothing is")
        return memory

    def read(self, address: Array, threads: Array, item: int, count: int, strong: bool = False) -> Array:
        pieces = self._each(address)
        if len(pieces) == 1:
            return pieces[0][0].read(pieces[0][2], threads, item, count, strong)
        out: Array | None = None
        for memory, lanes, inner in pieces:
            found = memory.read(inner, threads[lanes], item, count, strong)
            if out is None:
                out = np.empty((len(address), found.shape[1]), found.dtype)
            out[lanes] = found
        assert out is not None
        return out

    def write(self, address: Array, threads: Array, values: Array, strong: bool = False) -> None:
        for memory, lanes, inner in self._each(address):
            memory.write(inner, threads[lanes], values[lanes], strong)

    def update(self, address: Array, threads: Array, item: int, step: Callable[[Array, Array], Array]) -> Array:
        out: Array | None = None
        for memory, lanes, inner in self._each(address):
            chosen = np.arange(len(address))[lanes]

            def mine(old: Array, some: Array, chosen: Array = chosen) -> Array:
                return step(old, chosen[some])

            found = memory.update(inner, threads[lanes], item, mine)
            if out is None:
                out = np.empty((len(address), *found.shape[1:]), found.dtype)
            out[lanes] = found
        assert out is not None
        return out


def space_of(instruction: Instruction) -> str:
    """The state space in an opcode, "" for generic addressing."""
    return next((p for p in instruction.parts[1:] if p.split("::")[0] in SPACES), "")


def memory_of(instruction: Instruction, bind: Binding, operand: Operand) -> Memory:
    """The memory that an instruction's addresses point into."""
    cta, space = bind.cta, space_of(instruction)
    kind = space.split("::")[0]
    launch = cta.launch
    if kind in ("global", "const"):
        return launch.memory
    if space == "shared::cluster":
        return Parts("shared", lambda rank: cta.peers[rank].shared if 0 <= rank < len(cta.peers) else None, CTA_BITS)
    if kind == "shared":
        return cta.shared
    if kind == "local":
        return cta.local
    base = operand.base if isinstance(operand, Address) else None
    if kind == "param" and isinstance(base, Symbol) and base.name not in cta.program.parameters:
        return cta.local
    if kind == "param":
        return launch.memory
    windows: dict[int, Memory] = {0: launch.memory, 1: cta.shared, 2: cta.local}
    return Parts("generic", windows.get, WINDOW_BITS)




def _elements(bind: Binding, operand: Operand) -> tuple[Operand, ...]:
    """What a load or store moves: one register, or a vector."""
    items = bind.items(operand)
    if len(items) not in (1, 2, 4, 8):
        raise bind.error(f"moves 1, 2, 4 or 8 elements, not {len(items)}")
    return items


def load(instruction: Instruction, bind: Binding) -> Step:
    """ld, ldu: one element or a vector."""
    type, parts = instruction.parts[-1], instruction.parts
    if type not in DTYPE and type != "b128":
        raise bind.error(f"{type!r} is no type of a load")
    targets = _elements(bind, instruction.operands[0])
    operand = instruction.operands[1]
    if space_of(instruction).startswith("param") and isinstance(operand, Address) and \
            isinstance(operand.base, Symbol) and operand.base.name in bind.cta.program.parameters:
        return _load_parameter(instruction, bind, operand)
    memory, address = memory_of(instruction, bind, operand), bind.address(operand)
    item = 16 if type == "b128" else DTYPE[type].itemsize
    puts = [bind.put_rows(t, type) for t in targets]
    # LLVM opens a loop of compare-and-swaps with a plain load of the same place; a stale value only costs a turn
    strong = any(p in _STRONG for p in parts) or operand in bind.cta.program.compared
    ids, line, cta = bind.cta.ids, instruction.line, bind.cta
    counted = cta.launch.checks.memory_counters
    dtype, count = DTYPE.get(type, np.dtype(np.uint64)), len(targets)
    ordered = ordering.after_load(instruction, bind) if strong else None
    read_only = "nc" in parts and cta.launch.checks.races

    def step(on: Mask) -> None:
        where, who = (address(), ids) if on is None else (address()[on], ids[on])
        if counted:
            count_access(cta.launch.counters, memory.space, "load", where, item * count, who, line)
        if read_only:
            cta.launch.memory.check_never_written(where, item * count, who)
        rows = memory.read(where, who, item, count, strong)
        if item == 16:
            puts[0](rows, on)
        else:
            typed = rows.view(dtype)
            for i, put in enumerate(puts):
                put(typed[:, i], on)
        if ordered is not None:
            ordered(where, who)

    return step


def _load_parameter(instruction: Instruction, bind: Binding, operand: Address) -> Step:
    """A kernel parameter: the same for all threads, and checked now."""
    type, base = instruction.parts[-1], operand.base
    assert isinstance(base, Symbol)
    dtype = DTYPE[type]
    targets = bind.items(instruction.operands[0])
    place = bind.cta.program.parameters[base.name]
    size = dtype.itemsize * len(targets)
    if operand.offset < 0 or operand.offset + size > place.variable.size:
        raise bind.error(f"reads {size} bytes at {operand.offset} of parameter {base.name}, which has "
                         f"{place.variable.size}")
    start = place.offset + operand.offset
    if start % size:
        raise bind.error(f"reads {size} bytes at {start}, which is no multiple of {size}")
    values = bind.cta.launch.parameters[start:start + size].view(dtype)
    puts = [bind.put(t, type) for t in targets]

    def step(on: Mask) -> None:
        for i, put in enumerate(puts):
            put(values[i], on)

    return step


def store(instruction: Instruction, bind: Binding) -> Step:
    """st: one element or a vector."""
    type, parts = instruction.parts[-1], instruction.parts
    if type not in DTYPE and type != "b128":
        raise bind.error(f"{type!r} is no type of a store")
    operand = instruction.operands[0]
    memory, address = memory_of(instruction, bind, operand), bind.address(operand)
    if space_of(instruction) == "const":
        raise bind.error("constant memory is not written")
    item = 16 if type == "b128" else DTYPE[type].itemsize
    sources = [bind.source(s, "b128" if item == 16 else _BITS[item]) if item == 16 or type[0] in "bus" else
               bind.source(s, type).view(f"u{item}") for s in _elements(bind, instruction.operands[1])]
    strong = any(p in _STRONG for p in parts)
    cta, ids, line = bind.cta, bind.cta.ids, instruction.line
    counted = cta.launch.checks.memory_counters
    rows = np.empty((bind.threads, len(sources) * (2 if item == 16 else 1)), np.uint64 if item == 16 else f"u{item}")
    ordered = ordering.before_store(instruction, bind) if strong else None

    def step(on: Mask) -> None:
        if item == 16:
            rows[:] = sources[0]
        else:
            for i, source in enumerate(sources):
                rows[:, i] = source
        where, who, values = (address(), ids, rows) if on is None else (address()[on], ids[on], rows[on])
        if counted:
            count_access(cta.launch.counters, memory.space, "store", where, item * len(sources), who, line)
        memory.write(where, who, values, strong)
        if ordered is not None:
            ordered(where, who)

    return step


def prefetch(instruction: Instruction, bind: Binding) -> Step:
    """prefetch, prefetchu, applypriority, discard of cache lines: no effect on values (9.7.9.15 to .18)."""
    def step(on: Mask) -> None:
        return None

    return step


def make_policy(instruction: Instruction, bind: Binding) -> Step:
    """createpolicy: a cache policy, which has no effect on values (9.7.9.18)."""
    put = bind.put(instruction.operands[0], "b64")
    return lambda on: put(0, on)


def map_to_peer(instruction: Instruction, bind: Binding) -> Step:
    """mapa: the address of a shared variable in another CTA of the cluster (9.7.9.23)."""
    type = instruction.parts[-1]
    a = bind.source(instruction.operands[1], type)
    rank = bind.source(instruction.operands[2], "u32")
    put, dtype = bind.put(instruction.operands[0], type), DTYPE[type]
    inside = dtype.type((1 << CTA_BITS) - 1)
    if not any(p.startswith("shared") for p in instruction.parts):
        inside = dtype.type((1 << CTA_BITS) - 1 | 0xFF << WINDOW_BITS)

    def step(on: Mask) -> None:
        put(a & inside | (rank.astype(dtype) << dtype.type(CTA_BITS)), on)

    return step


def peer_rank(instruction: Instruction, bind: Binding) -> Step:
    """getctarank: whose shared memory an address points into (9.7.9.24)."""
    type = instruction.parts[-1]
    a, put = bind.source(instruction.operands[1], type), bind.put(instruction.operands[0], "u32")
    return lambda on: put(a >> DTYPE[type].type(CTA_BITS) & DTYPE[type].type(0xFF), on)
