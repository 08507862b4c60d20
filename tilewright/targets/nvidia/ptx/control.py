"""Meanings of control flow: branches, exits, traps, runtime calls, CTA barriers (PTX ISA 9.7.12, 9.7.13.1 to .3).

A control instruction gets the strand that has come to it and gives the next instruction, or -1 when it has taken care
of the strand.  Guards are put around by `bound.py`, but for branches.
Tests: tests/targets/nvidia/ptx/test_control.py.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tilewright.targets.nvidia.ptx.binding import Binding, Control, Mask, Step
from tilewright.targets.nvidia.ptx.operands import Group, Instruction, Operand, Symbol
from tilewright.targets.nvidia.ptx.report import Fault
from tilewright.targets.nvidia.ptx.runtime_calls import assert_fail, print_formatted
from tilewright.targets.nvidia.ptx.strands import Strand

Array = np.ndarray[Any, Any]


def branch(instruction: Instruction, bind: Binding) -> Control:
    """bra: threads whose guard holds go to the label."""
    cta, target = bind.cta, instruction.operands[0]
    assert isinstance(target, Symbol)
    to = cta.program.target(target.name)
    guard = instruction.guard
    if guard is None:
        return Control(lambda strand: to)
    predicate, negated, joins = bind.guard(guard.register), guard.negated, cta.program.joins
    counters = cta.launch.counters

    def run(strand: Strand) -> int:
        chosen = ~predicate if negated else predicate
        if strand.on is not None:
            chosen = chosen & strand.on
        count = int(np.count_nonzero(chosen))
        if count == 0:
            return strand.pc + 1
        if count == strand.count:
            return to
        by_warp = chosen.reshape(-1, 32).sum(1)
        all_of = cta.lanes(strand.on).reshape(-1, 32).sum(1)
        counters.add("divergent_branches", int(((by_warp > 0) & (by_warp < all_of)).sum()))
        pc = strand.pc
        cta.part(strand, chosen if negated or strand.on is not None else chosen.copy(), count, to, joins[pc], pc + 1)
        return -1

    return Control(run)


def branch_indexed(instruction: Instruction, bind: Binding) -> Control:
    """brx.idx: to the label that a register numbers."""
    cta, table = bind.cta, instruction.operands[1]
    assert isinstance(table, Symbol)
    targets = [cta.program.target(name) for name in cta.program.function.tables[table.name]]
    index = bind.source(instruction.operands[0], "u32")
    guard = instruction.guard
    predicate = bind.guard(guard.register) if guard is not None else None

    def run(strand: Strand) -> int:
        lanes = cta.lanes(strand.on)
        goes = np.where(lanes, index.astype(np.int64), -1)
        if predicate is not None and guard is not None:
            goes = np.where(predicate ^ guard.negated, goes, np.where(lanes, len(targets), -1))
        elif (goes >= len(targets)).any():
            raise Fault("operand", f"brx.idx with index {int(goes.max())} into {len(targets)} labels")
        ways = [int(w) for w in np.unique(goes[lanes])]
        places = [*targets, strand.pc + 1]
        if len(ways) == 1:
            return places[ways[0]]
        join = cta.program.joins.get(strand.pc)
        for way in ways[:-1]:
            _part_off(bind, strand, goes == way, places[way], join)
        strand.pc = places[ways[-1]]
        cta.put(strand)
        return -1

    return Control(run)


def _part_off(bind: Binding, strand: Strand, on: Array, to: int, join: int | None) -> None:
    """Lanes in `on` leave the strand for `to`."""
    cta, count = bind.cta, int(np.count_nonzero(on))
    if join is not None and (not strand.stack or strand.stack[-1] != join):
        strand.stack = (*strand.stack, join)
    cta.put(Strand(to, on, count, strand.stack, turn=strand.turn))
    strand.on, strand.count = cta.lanes(strand.on) & ~on, strand.count - count


def leave(instruction: Instruction, bind: Binding) -> Control:
    """ret of the kernel, exit."""
    cta = bind.cta

    def run(strand: Strand) -> int:
        cta.leave(strand)
        return -1

    return Control(run)


def trap(instruction: Instruction, bind: Binding) -> Control:
    cta = bind.cta

    def run(strand: Strand) -> int:
        raise Fault("trap", "trap was executed", tuple(int(t) for t in np.flatnonzero(cta.lanes(strand.on))[:3]))

    return Control(run)


def nothing(instruction: Instruction, bind: Binding) -> Step:
    """Instructions that have no effect here: nanosleep, setmaxnreg, griddepcontrol, pmevent, brkpt."""
    def step(on: Mask) -> None:
        return None

    return step


def call(instruction: Instruction, bind: Binding) -> Step:
    """Calls of the runtime; calls of the module's own functions were inlined."""
    names = [o.name for o in instruction.operands if isinstance(o, Symbol)]
    groups = [o for o in instruction.operands if isinstance(o, Group)]
    arguments = [_parameter(bind, item) for item in groups[-1].items] if groups else []
    if names[0] == "vprintf":
        result = _parameter(bind, groups[0].items[0]) if len(groups) == 2 else None
        return print_formatted(bind, arguments, result)
    if names[0] == "__assertfail":
        return assert_fail(bind, arguments)
    raise bind.error(f"a call of {names[0]}, which has no meaning here")


def _parameter(bind: Binding, operand: Operand) -> int:
    if not isinstance(operand, Symbol):
        raise bind.error("arguments of a call are .param variables here")
    return bind.symbol_address(operand)


# ---- CTA barriers
def barrier(instruction: Instruction, bind: Binding) -> Control:
    """bar.sync, bar.arrive, bar.red, barrier likewise, barrier.cluster."""
    parts, cta = instruction.parts, bind.cta
    if "cluster" in parts:
        return _cluster_barrier(instruction, bind)
    if "red" in parts:
        return _reducing_barrier(instruction, bind)
    ident = bind.source(instruction.operands[0], "u32")
    count = bind.source(instruction.operands[1], "u32") if len(instruction.operands) > 1 else None
    waits = "sync" in parts
    if not waits and count is None:
        raise bind.error("arriving takes the number of threads")

    def run(strand: Strand) -> int:
        pc = strand.pc
        for one in cta.together(strand, cta.alive) or ():
            for number, on in _by_value(cta.lanes(one.on), ident):
                piece = Strand(pc, cta.mask(on), int(np.count_nonzero(on)), one.stack, turn=one.turn)
                expected = None if count is None else int(np.broadcast_to(count, cta.threads)[on][0])
                cta.barriers.arrive(number, expected, piece, waits)
                if not waits:
                    piece.pc = pc + 1
                    cta.put(piece)
        return -1

    return Control(run)


def _by_value(lanes: Array, value: Array) -> list[tuple[int, Array]]:
    """Lanes grouped by a value."""
    if value.ndim == 0:
        return [(int(value), lanes)]
    numbers = np.unique(value[lanes])
    if len(numbers) == 1:
        return [(int(numbers[0]), lanes)]
    return [(int(n), lanes & (value == n)) for n in numbers]


def _reducing_barrier(instruction: Instruction, bind: Binding) -> Control:
    """bar.red.popc, .and, .or: a vote over the threads of the barrier."""
    parts, cta = instruction.parts, bind.cta
    kind = next(p for p in parts if p in ("popc", "and", "or"))
    target, first, *rest = instruction.operands
    ident = bind.source(first, "u32")
    count = bind.source(rest[0], "u32") if len(rest) == 2 else None
    predicate, put = bind.predicate(rest[-1]), bind.put(target, "u32" if kind == "popc" else "pred")
    votes: dict[int, list[tuple[Array, Array]]] = {}

    def run(strand: Strand) -> int:
        for one in cta.together(strand, cta.alive) or ():
            number = int(np.broadcast_to(ident, cta.threads)[cta.lanes(one.on)][0])
            lanes = cta.lanes(one.on).copy()
            votes.setdefault(number, []).append((lanes, predicate() & lanes))

            def finish(number: int = number) -> None:
                for on, _ in votes.get(number, ()):
                    holds = [(v, o) for o, v in votes[number]]
                    total = sum(int(np.count_nonzero(v)) for v, _ in holds)
                    every = sum(int(np.count_nonzero(o)) for _, o in holds)
                    put({"popc": np.uint32(total), "and": total == every, "or": total > 0}[kind], on)
                votes.pop(number, None)

            expected = None if count is None else int(np.broadcast_to(count, cta.threads)[lanes][0])
            cta.barriers.arrive(number, expected, Strand(strand.pc, one.on, one.count, one.stack, turn=one.turn), True,
                                finish)
        return -1

    return Control(run)


def needed_lanes(cta: Any, lanes: Array, members: Array, lane_bit: Array) -> Array:
    """Which threads a warp instruction waits for: those in the masks of its lanes that are still there."""
    if members.ndim == 0:
        wanted = (np.uint32(members) & lane_bit) != 0
    else:
        by_warp = np.bitwise_or.reduce(np.where(lanes, members, np.uint32(0)).reshape(-1, 32), 1)
        wanted = (np.repeat(by_warp, 32) & lane_bit) != 0
    if (lanes & ~wanted).any():
        at = int(np.flatnonzero(lanes & ~wanted)[0])
        raise Fault("membermask", "a lane executes a warp instruction whose mask leaves it out", (at,))
    return np.asarray(wanted & cta.alive)


def _cluster_barrier(instruction: Instruction, bind: Binding) -> Control:
    """barrier.cluster.arrive, .wait (9.7.13.3): all threads of the cluster's CTAs."""
    cta, arrives = bind.cta, "arrive" in instruction.parts

    def run(strand: Strand) -> int:
        cluster = cta.launch.cluster_barrier
        if arrives:
            cluster.arrive(cta, cta.lanes(strand.on))
            return strand.pc + 1
        if cluster.passed(cta, cta.lanes(strand.on)):
            return strand.pc + 1
        cluster.wait(cta, strand)
        return -1

    return Control(run)
