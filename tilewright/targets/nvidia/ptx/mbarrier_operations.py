"""Meanings of the mbarrier instructions (PTX ISA 9.7.13.15).

Addresses are shared::cta ones, or shared::cluster ones of another CTA for remote arrivals.
Tests: tests/targets/nvidia/ptx/test_asynchronous.py.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tilewright.targets.nvidia.ptx.binding import Binding, Control, Mask, Step
from tilewright.targets.nvidia.ptx.mbarriers import Mbarrier, Mbarriers
from tilewright.targets.nvidia.ptx.memory import CTA_BITS, SHARED_WINDOW
from tilewright.targets.nvidia.ptx.operands import Address, Instruction, Operand, Sink
from tilewright.targets.nvidia.ptx.report import Fault
from tilewright.targets.nvidia.ptx.strands import Strand

Array = np.ndarray[Any, Any]
_INSIDE = (1 << CTA_BITS) - 1


def split_operands(instruction: Instruction) -> tuple[Operand, Address, tuple[Operand, ...]]:
    """(result or sink, the object's address, what follows)."""
    operands = instruction.operands
    if operands and isinstance(operands[0], Address):
        return Sink(), operands[0], operands[1:]
    assert isinstance(operands[1], Address)
    return operands[0], operands[1], operands[2:]


def owner(bind: Binding, address: int, remote: bool) -> tuple[Mbarriers, int]:
    """The mbarriers that an address points into, and the byte in that CTA's shared memory."""
    cta, rank = bind.cta, bind.cta.rank
    if address >= SHARED_WINDOW:
        address -= SHARED_WINDOW
    if remote:
        rank = address >> CTA_BITS
        if rank >= len(cta.peers):
            raise Fault("out of bounds", f"the shared memory of CTA {rank} of a cluster of {len(cta.peers)}")
    return cta.peers[rank].copies.barriers, address & _INSIDE


def _groups(address: Array, on: Mask, ids: Array) -> list[tuple[int, Array]]:
    """(address, threads) for each distinct address among the lanes."""
    threads = ids if on is None else ids[on]
    where = address[threads]
    if len(where) and (where == where[0]).all():
        return [(int(where[0]), threads)]
    return [(int(a), threads[where == a]) for a in np.unique(where)]


def _is_remote(instruction: Instruction, bind: Binding) -> bool:
    return "shared::cluster" in instruction.parts and len(bind.cta.peers) > 1


def initialise(instruction: Instruction, bind: Binding) -> Step:
    """mbarrier.init, mbarrier.inval."""
    cta, address = bind.cta, bind.address(instruction.operands[0])
    invalidates = "inval" in instruction.parts
    count = None if invalidates else bind.source(instruction.operands[1], "u32")

    def step(on: Mask) -> None:
        for where, threads in _groups(address(), on, cta.ids):
            barriers, inside = owner(bind, where, False)
            cta.shared.check(np.array([inside]), 8, threads[:1], "an mbarrier")
            if count is None:
                barriers.get(inside, int(threads[0]))
                del barriers.at[inside]
                continue
            cells, who = cta.shared.tracker.cells_of(np.array([inside]), 8, threads[:1])
            if cta.launch.checks.races:
                cta.shared.tracker.on_write(cells, who)
            else:
                cta.shared.tracker.written[cells] = 1
            barriers.init(inside, int(np.broadcast_to(count, cta.threads)[threads[0]]), int(threads[0]))

    return step


def known(bind: Binding, barriers: Mbarriers, inside: int, threads: Array) -> Mbarrier:
    """The object at an address, whose initialisation is ordered before this use of it."""
    shared = barriers.cta.shared
    if bind.cta is barriers.cta and bind.cta.launch.checks.races:
        cells, who = shared.tracker.cells_of(np.full(len(threads), inside), 8, threads)
        shared.tracker.on_read(cells, who, note=False)
    return barriers.get(inside, int(threads[0]))


def arrive(instruction: Instruction, bind: Binding) -> Step:
    """mbarrier.arrive, .arrive.expect_tx, .arrive_drop."""
    cta, parts = bind.cta, instruction.parts
    target, place, rest = split_operands(instruction)
    address, remote = bind.address(place), _is_remote(instruction, bind)
    put = bind.put_rows(target, "b64")
    number = bind.source(rest[0], "u32") if rest else np.array(1, np.uint32)
    expects, drops = "expect_tx" in parts, "arrive_drop" in parts
    state = np.zeros(cta.threads, np.uint64)

    def step(on: Mask) -> None:
        for where, threads in _groups(address(), on, cta.ids):
            barriers, inside = owner(bind, where, remote)
            barrier = known(bind, barriers, inside, threads)
            numbers = np.broadcast_to(number, cta.threads)[threads]
            if expects:
                barrier.bytes += int(numbers.sum())
            count = len(threads) if expects else int(numbers.sum())
            if drops:
                barrier.count -= count
            state[threads] = barriers.arrive(barrier, count, np.unique(threads >> 5), cta.clocks)
        put(state if on is None else state[on], on)

    return step


def expect(instruction: Instruction, bind: Binding) -> Step:
    """mbarrier.expect_tx, mbarrier.complete_tx: bytes announced, or said to have come."""
    cta, address = bind.cta, bind.address(instruction.operands[0])
    size, remote = bind.source(instruction.operands[1], "u32"), _is_remote(instruction, bind)
    completes = "complete_tx" in instruction.parts

    def step(on: Mask) -> None:
        for where, threads in _groups(address(), on, cta.ids):
            barriers, inside = owner(bind, where, remote)
            barrier = known(bind, barriers, inside, threads)
            total = int(np.broadcast_to(size, cta.threads)[threads].sum())
            (barriers.complete if completes else barriers.expect)(barrier, total)

    return step


def wait(instruction: Instruction, bind: Binding) -> Control:
    """mbarrier.test_wait, .try_wait: is the phase over?  A second try in vain waits until it is."""
    cta, parts = bind.cta, instruction.parts
    operands = instruction.operands
    address, put = bind.address(operands[1]), bind.put(operands[0], "pred")
    wanted = bind.source(operands[2], "u32" if "parity" in parts else "u64")
    by_parity, blocks = "parity" in parts, "try_wait" in parts
    answer = np.zeros(cta.threads, bool)

    def run(strand: Strand) -> int:
        on = strand.on
        missing: list[tuple[Mbarrier, int]] = []
        for where, threads in _groups(address(), on, cta.ids):
            barriers, inside = owner(bind, where, False)
            barrier = known(bind, barriers, inside, threads)
            value = np.broadcast_to(wanted, cta.threads)[threads]
            over = (value & 1) != (barrier.phase & 1) if by_parity else value != barrier.phase
            answer[threads] = over
            if over.any():
                barriers.observe(barrier, np.unique(threads[over] >> 5))
            if not over.all():
                missing.append((barrier, barrier.phase))
        if missing and blocks:
            if strand.tried == strand.pc:
                return _wait_for(strand, missing)
            strand.tried = strand.pc        # a try may give up (9.7.13.15.16); the program is to try again
        put(answer, on)
        return strand.pc + 1

    def _wait_for(strand: Strand, missing: list[tuple[Mbarrier, int]]) -> int:
        lanes = cta.lanes(strand.on)
        through = lanes & answer
        count = int(np.count_nonzero(through))
        if count:       # those whose phase is over need not wait for the others
            put(answer, through)
            cta.put(Strand(strand.pc + 1, through, count, strand.stack, turn=strand.turn))
            strand.on, strand.count = lanes & ~answer, strand.count - count
        cta.copies.barriers.waiting.append((strand, missing))
        return -1

    return Control(run)


