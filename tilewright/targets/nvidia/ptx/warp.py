"""Meanings of instructions of a whole warp: shuffles, votes, matches, reductions (PTX ISA 9.7.9.6, 9.7.13.9 to .14).

Lanes that a membermask names meet at the instruction, whatever way they came; lanes that have left count as there.
Tests: tests/targets/nvidia/ptx/test_warp.py.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tilewright.targets.nvidia.ptx.binding import DTYPE, Binding, Control, Mask, Step
from tilewright.targets.nvidia.ptx.control import needed_lanes
from tilewright.targets.nvidia.ptx.operands import Immediate, Instruction, Operand, Pair, Register, Sink
from tilewright.targets.nvidia.ptx.report import Fault
from tilewright.targets.nvidia.ptx.strands import Strand

Array = np.ndarray[Any, Any]


def meeting(bind: Binding, members: Operand | None, act: Step) -> Control:
    """`act` for lanes of each warp together: those of `members` (None: all of the warp that are left)."""
    cta = bind.cta
    mask = bind.source(members, "u32") if members is not None else np.array(0xFFFFFFFF, np.uint32)
    lane_bit = np.uint32(1) << (np.arange(cta.threads, dtype=np.uint32) & np.uint32(31))
    whole = members is None or (isinstance(members, Immediate) and members.value & 0xFFFFFFFF == 0xFFFFFFFF)

    def run(strand: Strand) -> int:
        if strand.on is None and whole:
            act(None)
            return strand.pc + 1
        strands = cta.together(strand, needed_lanes(cta, cta.lanes(strand.on), mask, lane_bit))
        if strands is None:
            return -1
        if len(strands) == 1 and strands[0] is strand:
            act(strand.on)
            return strand.pc + 1
        union = np.logical_or.reduce([cta.lanes(one.on) for one in strands])
        act(cta.mask(union))
        for one in strands:
            one.pc = strand.pc + 1
            cta.put(one)
        return -1

    return Control(run)


def _targets(operand: Operand) -> tuple[Operand, Operand]:
    return (operand.first, operand.second) if isinstance(operand, Pair) else (operand, Sink())


def warp_barrier(instruction: Instruction, bind: Binding) -> Control:
    """bar.warp.sync: lanes of the mask meet, and see each other's writes."""
    cta = bind.cta

    def act(on: Mask) -> None:
        cta.clocks.sync_lanes(np.flatnonzero(cta.lanes(on).reshape(-1, 32).any(1)))

    return meeting(bind, instruction.operands[0], act)


# ---- shuffles
def _source_lane(mode: str, lane: Array, b: Array, c: Array) -> tuple[Array, Array]:
    """(lane that the value comes from, is it in range): the ISA's own description, in 9.7.9.6."""
    by, clamp, segment = (x.astype(np.int64) for x in (b & 31, c & 31, c >> 8 & 31))
    most = lane & segment | clamp & ~segment
    j = {"up": lane - by, "down": lane + by, "bfly": lane ^ by, "idx": lane & segment | by & ~segment}[mode]
    inside = j >= most if mode == "up" else j <= most
    return np.where(inside, j, lane), inside


def shuffle(instruction: Instruction, bind: Binding) -> Control | Step:
    """shfl.sync.up, .down, .bfly, .idx."""
    parts, cta = instruction.parts, bind.cta
    mode = next(p for p in parts if p in ("up", "down", "bfly", "idx"))
    target, a_op, b_op, c_op, *members = instruction.operands
    a, b, c = bind.source(a_op, "b32"), bind.source(b_op, "b32"), bind.source(c_op, "b32")
    first, second = _targets(target)
    put, put_inside = bind.put(first, "b32"), bind.put(second, "pred")
    ids = cta.ids
    lane, base = ids & 31, ids & ~31
    fixed = (*_source_lane(mode, lane, b, c),) if b.ndim == 0 and c.ndim == 0 else None
    counters = cta.launch.counters
    known_a = bind.known.get(a_op.name) if isinstance(a_op, Register) else None
    known_d = bind.known.get(first.name) if isinstance(first, Register) else None
    known_p = bind.known.get(second.name) if isinstance(second, Register) else None

    def act(on: Mask) -> None:
        j, inside = fixed if fixed is not None else _source_lane(mode, lane, b, c)
        source = base + j
        if on is not None:
            bad = on & ~on[source]
            if bad.any():
                at = int(np.flatnonzero(bad)[0])
                raise Fault("uninitialised", f"a shuffle from lane {int(source[at]) & 31}, which takes no part", (at,))
        counters.counts["shuffles"] += 1
        put(np.broadcast_to(a, cta.threads)[source], on)
        put_inside(inside, on)
        if known_d is not None:
            np.copyto(known_d, True if known_a is None else known_a[source], where=True if on is None else on)
        if known_p is not None:
            known_p[... if on is None else on] = True

    return meeting(bind, members[0] if members else None, act)


# ---- votes
def _by_warp(values: Array) -> Array:
    return values.reshape(-1, 32)


def ballot(bits: Array) -> Array:
    """A word a warp of a flag a thread, given back to every thread."""
    words = np.packbits(_by_warp(bits), axis=1, bitorder="little").view(np.uint32)[:, 0]
    return np.repeat(words, 32)


def vote(instruction: Instruction, bind: Binding) -> Control:
    """vote.sync.all, .any, .uni, .ballot."""
    kind, cta = next(p for p in instruction.parts if p in ("all", "any", "uni", "ballot")), bind.cta
    predicate = bind.predicate(instruction.operands[1])
    put = bind.put(instruction.operands[0], "b32" if kind == "ballot" else "pred")
    members = instruction.operands[2] if len(instruction.operands) > 2 else None

    def act(on: Mask) -> None:
        lanes = cta.lanes(on)
        holds = np.broadcast_to(predicate(), cta.threads) & lanes
        if kind == "ballot":
            put(ballot(holds), on)
            return
        some, every = _by_warp(holds).any(1), _by_warp(holds | ~lanes).all(1)
        put(np.repeat({"any": some, "all": every, "uni": every | ~some}[kind], 32), on)

    return meeting(bind, members, act)


def active_mask(instruction: Instruction, bind: Binding) -> Step:
    put, cta = bind.put(instruction.operands[0], "b32"), bind.cta
    return lambda on: put(ballot(cta.lanes(on)), on)


def match(instruction: Instruction, bind: Binding) -> Control:
    """match.any.sync, match.all.sync: which lanes have my value (9.7.13.11)."""
    type, cta, everyone = instruction.parts[-1], bind.cta, "all" in instruction.parts
    first, second = _targets(instruction.operands[0])
    a, put, put_same = bind.source(instruction.operands[1], type), bind.put(first, "b32"), bind.put(second, "pred")

    def act(on: Mask) -> None:
        lanes = _by_warp(cta.lanes(on))
        value = _by_warp(np.ascontiguousarray(np.broadcast_to(a, cta.threads)))
        same = (value[:, :, None] == value[:, None, :]) & lanes[:, None, :]
        words = np.packbits(same, axis=2, bitorder="little").view(np.uint32)[:, :, 0]
        if everyone:
            agree = (same | ~lanes[:, None, :]).all(2)
            put_same(agree.reshape(-1), on)
            words = np.where(agree, words, np.uint32(0))
        put(words.reshape(-1), on)

    return meeting(bind, instruction.operands[2], act)


def elect(instruction: Instruction, bind: Binding) -> Control:
    """elect.sync: the lowest lane leads (9.7.13.14)."""
    cta = bind.cta
    first, second = _targets(instruction.operands[0])
    put, put_leads = bind.put(first, "b32"), bind.put(second, "pred")

    def act(on: Mask) -> None:
        leader = np.repeat(_by_warp(cta.lanes(on)).argmax(1), 32).astype(np.uint32)
        put(leader, on)
        put_leads(leader == (cta.ids & 31), on)

    return meeting(bind, instruction.operands[1], act)


_REDUCE: dict[str, tuple[Callable[..., Any], Callable[[np.dtype[Any]], Any]]] = {
    "add": (np.add.reduce, lambda t: t.type(0)), "or": (np.bitwise_or.reduce, lambda t: t.type(0)),
    "xor": (np.bitwise_xor.reduce, lambda t: t.type(0)), "and": (np.bitwise_and.reduce, lambda t: ~np.zeros((), t)),
    "min": (np.minimum.reduce, lambda t: np.iinfo(t).max if t.kind in "iu" else t.type(np.inf)),
    "max": (np.maximum.reduce, lambda t: np.iinfo(t).min if t.kind in "iu" else t.type(-np.inf)),
}


def reduce(instruction: Instruction, bind: Binding) -> Control:
    """redux.sync: over the lanes of the mask; of floats min and max, with .abs and .NaN (9.7.13.13)."""
    parts, type, cta = instruction.parts, instruction.parts[-1], bind.cta
    operation, neutral = _REDUCE[next(p for p in parts[1:] if p in _REDUCE)]
    a, put, dtype = bind.source(instruction.operands[1], type), bind.put(instruction.operands[0], type), DTYPE[type]
    if type == "f32" and "NaN" not in parts:
        operation = np.fmin.reduce if "min" in parts else np.fmax.reduce

    def act(on: Mask) -> None:
        value = np.abs(a) if "abs" in parts else a
        held = np.where(cta.lanes(on), value, neutral(dtype)).astype(dtype)
        put(np.repeat(operation(_by_warp(held), axis=1).astype(dtype), 32), on)

    return meeting(bind, instruction.operands[2], act)
