"""Meanings of cp.async, its groups, and its arrival at mbarriers (PTX ISA 9.7.9.25.3).

Tests: tests/targets/nvidia/ptx/test_asynchronous.py.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tilewright.targets.nvidia.ptx.binding import Binding, Mask, Step
from tilewright.targets.nvidia.ptx.counting import count_access
from tilewright.targets.nvidia.ptx.mbarrier_operations import known, owner
from tilewright.targets.nvidia.ptx.memory import UNSIGNED
from tilewright.targets.nvidia.ptx.operands import Immediate, Instruction, Register

Array = np.ndarray[Any, Any]


def copy(instruction: Instruction, bind: Binding) -> Step:
    """cp.async.ca, .cg: 4, 8 or 16 bytes; those behind the source size are zero."""
    cta = bind.cta
    operands = instruction.operands
    to, source = bind.address(operands[0]), bind.address(operands[1])
    if not isinstance(operands[2], Immediate) or operands[2].value not in (4, 8, 16):
        raise bind.error("copies 4, 8 or 16 bytes")
    size = operands[2].value
    if "cg" in instruction.parts and size != 16:
        raise bind.error("copies 16 bytes with .cg")
    take = _source_size(instruction, bind, size)
    item = min(size, 8)
    count = size // item
    counted, line = cta.launch.checks.memory_counters, instruction.line

    def step(on: Mask) -> None:
        threads = cta.ids if on is None else cta.ids[on]
        where, origin, taken = to()[threads], source()[threads], take()[threads]
        cta.shared.check(where, size, threads, "an asynchronous copy")
        rows = np.zeros((len(threads), count), UNSIGNED[item])
        full = taken >= size
        if full.any():
            rows[full] = cta.launch.memory.read(origin[full], threads[full], item, count)
        for partial in np.unique(taken[(taken > 0) & ~full]):
            some = np.flatnonzero(taken == partial)
            raw = np.zeros((len(some), size), np.uint8)
            for byte in range(int(partial)):
                raw[:, byte] = cta.launch.memory.read(origin[some] + byte, threads[some], 1, 1)[:, 0]
            rows[some] = raw.view(UNSIGNED[item])
        if counted:
            count_access(cta.launch.counters, "global", "load", origin[taken > 0], size, threads[taken > 0], line)
            count_access(cta.launch.counters, "shared", "store", where, size, threads, line)
        cta.copies.start(threads, where, rows)

    return step


def _source_size(instruction: Instruction, bind: Binding, size: int) -> Any:
    """How many bytes each thread reads: all, a register's number, or none where a predicate says so."""
    constant = np.full(bind.threads, size, np.int64)
    if len(instruction.operands) < 4 or ("cache_hint" in instruction.opcode and len(instruction.operands) == 4):
        return lambda: constant
    operand = instruction.operands[3]
    if isinstance(operand, Register) and bind.register(operand.name).dtype == bool:
        ignores = bind.predicate(operand)
        return lambda: np.where(ignores(), 0, size)
    number = bind.source(operand, "u32")
    return lambda: np.minimum(np.broadcast_to(number, bind.threads).astype(np.int64), size)


def commit(instruction: Instruction, bind: Binding) -> Step:
    cta = bind.cta
    return lambda on: cta.copies.commit(cta.lanes(on))


def wait(instruction: Instruction, bind: Binding) -> Step:
    """cp.async.wait_group n, cp.async.wait_all."""
    cta = bind.cta
    if "wait_all" in instruction.parts:
        return lambda on: cta.copies.wait_all(cta.lanes(on))
    operand = instruction.operands[0]
    if not isinstance(operand, Immediate):
        raise bind.error("waits for a constant number of groups")
    left = operand.value
    return lambda on: cta.copies.wait(cta.lanes(on), left)


def arrive(instruction: Instruction, bind: Binding) -> Step:
    """cp.async.mbarrier.arrive, with .noinc counted among those that the barrier awaits."""
    cta, address = bind.cta, bind.address(instruction.operands[0])
    counted = "noinc" in instruction.parts
    pc = next(i for i, other in enumerate(cta.program.code) if other is instruction)

    def step(on: Mask) -> None:
        threads = cta.ids if on is None else cta.ids[on]
        where = address()[threads]
        for place in np.unique(where):
            barriers, inside = owner(bind, int(place), False)
            mine = threads[where == place]
            cta.copies.arrive_after_copies(barriers, known(bind, barriers, inside, mine), mine, counted, pc)

    return step
