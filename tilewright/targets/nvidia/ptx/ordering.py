"""Order through memory: acquire, release, fences (PTX ISA 8.7 to 8.10), as clocks kept at addresses.

A release hands the warp's clock on to the addresses that it writes; an acquire that reads them takes it over.  A fence
makes later strong writes releases and earlier strong reads acquires.  Lanes of one instruction share one clock, so
order may be seen where only another lane has it: races can be missed here, none is invented. Before, after: nothing
but clocks changes.
Tests: tests/targets/nvidia/ptx/test_ordering.py.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from tilewright.targets.nvidia.ptx.clocks import merge
from tilewright.targets.nvidia.ptx.operands import Instruction

if TYPE_CHECKING:
    from tilewright.targets.nvidia.ptx.binding import Binding, Mask, Step
    from tilewright.targets.nvidia.ptx.cta import Cta

Array = np.ndarray[Any, Any]
Note = Callable[[Array, Array], None]


@dataclass(frozen=True)
class Released:
    """What happened before a release: in its CTA, by `clock`; and the CTAs that it knew of."""

    cta: int
    clock: Array
    ctas: frozenset[int]


def _key(bind: Binding, instruction: Instruction) -> int:
    """Shared addresses of different CTAs are different places."""
    shared = any(p in ("shared", "shared::cta") for p in instruction.parts)
    return (bind.cta.rank + 1) << 60 if shared else 0


def _distinct(cta: Cta, keys: list[int]) -> list[Released]:
    table = cta.launch.released
    found = {id(r): r for r in map(table.get, keys) if r is not None}
    return list(found.values())


def _acquire(cta: Cta, keys: list[int], threads: Array) -> None:
    warps = np.unique(threads >> 5)
    for released in _distinct(cta, keys):
        _take(cta, released, warps)


def _take(cta: Cta, released: Released, warps: Array) -> None:
    memory = cta.launch.memory
    if released.cta == cta.number:
        cta.clocks.take_over(warps, released.clock)
    else:
        memory.ordered.add(released.cta)
    memory.ordered.update(released.ctas)


def _release(cta: Cta, keys: list[int], threads: Array, clock: Array | None = None) -> None:
    warps = np.unique(threads >> 5)
    if clock is None:
        clock = cta.clocks.hand_on(warps)
    ctas = set(cta.launch.memory.ordered)
    for released in _distinct(cta, keys):        # releases of one place make one sequence
        ctas |= released.ctas
        if released.cta == cta.number:
            clock = merge(clock, released.clock)
        else:
            ctas.add(released.cta)
    cta.launch.released.update(dict.fromkeys(keys, Released(cta.number, clock, frozenset(ctas))))


def _relaxed_write(cta: Cta, keys: list[int], threads: Array) -> None:
    """A release if a fence came before it."""
    for warp in np.unique(threads >> 5):
        clock = cta.clocks.fenced.get(int(warp))
        if clock is not None:
            _release(cta, keys, threads[threads >> 5 == warp], clock)


def _relaxed_read(cta: Cta, keys: list[int], threads: Array) -> None:
    """An acquire if a fence comes after it."""
    if not cta.launch.released:
        return
    found = _distinct(cta, keys)
    for warp in np.unique(threads >> 5) if found else ():
        cta.clocks.pending.setdefault(int(warp), []).extend(found)


def after_load(instruction: Instruction, bind: Binding) -> Note:
    """What a strong load does to clocks."""
    cta, key, acquires = bind.cta, _key(bind, instruction), "acquire" in instruction.parts

    def note(address: Array, threads: Array) -> None:
        (_acquire if acquires else _relaxed_read)(cta, (address + key).tolist(), threads)

    return note


def before_store(instruction: Instruction, bind: Binding) -> Note:
    """What a strong store does to clocks."""
    cta, key, releases = bind.cta, _key(bind, instruction), "release" in instruction.parts

    def note(address: Array, threads: Array) -> None:
        (_release if releases else _relaxed_write)(cta, (address + key).tolist(), threads)

    return note


def around_atomic(instruction: Instruction, bind: Binding) -> Note:
    """What an atomic operation does to clocks; without .acquire, .release or .acq_rel it is relaxed."""
    cta, key, parts = bind.cta, _key(bind, instruction), instruction.parts
    acquires = "acquire" in parts or "acq_rel" in parts
    releases = "release" in parts or "acq_rel" in parts

    def note(address: Array, threads: Array) -> None:
        keys = (address + key).tolist()
        (_acquire if acquires else _relaxed_read)(cta, keys, threads)
        (_release if releases else _relaxed_write)(cta, keys, threads)

    return note


def fence(instruction: Instruction, bind: Binding) -> Step:
    """membar, fence.acq_rel, fence.sc (9.7.13.4)."""
    cta = bind.cta

    def step(on: Mask) -> None:
        for warp in np.flatnonzero(cta.lanes(on).reshape(-1, 32).any(1)):
            warps = np.array([warp])
            for released in cta.clocks.pending.pop(int(warp), ()):
                _take(cta, released, warps)
            cta.clocks.fenced[int(warp)] = cta.clocks.hand_on(warps)

    return step
