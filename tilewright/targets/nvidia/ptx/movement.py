"""Meanings of mov, cvta and isspacep (PTX ISA 9.7.9.1, .20, .21).

Tests: tests/targets/nvidia/ptx/test_memory.py.
"""

from __future__ import annotations

import numpy as np

from tilewright.targets.nvidia.ptx.binding import DTYPE, Binding, Mask, Step, generic_window
from tilewright.targets.nvidia.ptx.memory import LOCAL_WINDOW, SHARED_WINDOW, WINDOW_BITS
from tilewright.targets.nvidia.ptx.operands import Instruction, Special, Vector

_CLOCKS = frozenset({"%clock", "%clock64", "%clock_hi", "%globaltimer", "%globaltimer_lo", "%globaltimer_hi"})


def move(instruction: Instruction, bind: Binding) -> Step:
    """mov: a register, constant, address or special register; packing and unpacking of vectors."""
    type = instruction.parts[-1]
    target, source = instruction.operands
    if isinstance(source, Vector):
        return _pack(instruction, bind, source)
    if isinstance(target, Vector):
        return _unpack(instruction, bind, target)
    put = bind.put(target, type)
    if type == "pred":
        value = bind.predicate(source)
        return lambda on: put(value(), on)
    if isinstance(source, Special) and source.name in _CLOCKS:
        return _read_clock(bind, source.name, put)
    array = bind.source(source, type)
    return lambda on: put(array, on)


def _read_clock(bind: Binding, name: str, put: object) -> Step:
    """Clocks count instructions: monotonic, and nothing more is promised (PTX ISA 10.24 to 10.27)."""
    cta, write = bind.cta, put
    high = name.endswith("_hi")

    def step(on: Mask) -> None:
        cta.ticks += 1
        write(np.uint64(cta.ticks >> 32 if high else cta.ticks), on)    # type: ignore[operator]

    return step


def _part_type(whole: str, count: int, bind: Binding) -> tuple[int, str]:
    size = 16 if whole == "b128" else DTYPE[whole].itemsize
    if size % count or size // count not in (1, 2, 4, 8):
        raise bind.error(f"{count} elements do not make {whole}")
    return size // count, f"b{8 * size // count}"


def _pack(instruction: Instruction, bind: Binding, source: Vector) -> Step:
    whole = instruction.parts[-1]
    size, part = _part_type(whole, len(source.items), bind)
    parts = [bind.source(item, part) for item in source.items]
    put = bind.put(instruction.operands[0], whole)
    buffer = np.empty((bind.threads, len(parts)), f"u{size}")
    joined = buffer.view(np.uint64) if whole == "b128" else buffer.view(DTYPE[whole])[:, 0]

    def step(on: Mask) -> None:
        for i, value in enumerate(parts):
            buffer[:, i] = value
        put(joined, on)

    if whole != "b128":
        return step

    array = bind.source(instruction.operands[0], whole)

    def pair(on: Mask) -> None:
        for i, value in enumerate(parts):
            buffer[:, i] = value
        array[... if on is None else on] = joined if on is None else joined[on]

    return pair


def _unpack(instruction: Instruction, bind: Binding, target: Vector) -> Step:
    whole = instruction.parts[-1]
    size, part = _part_type(whole, len(target.items), bind)
    source = bind.source(instruction.operands[1], whole)
    puts = [bind.put(item, part) for item in target.items]
    shape = (bind.threads, 2) if whole == "b128" else bind.threads

    def step(on: Mask) -> None:
        pieces = np.ascontiguousarray(np.broadcast_to(source, shape)).view(f"u{size}").reshape(bind.threads, -1)
        for i, put in enumerate(puts):
            put(pieces[:, i], on)

    return step


def _space(instruction: Instruction) -> str:
    return next((p.split("::")[0] for p in instruction.parts[1:]
                 if p.split("::")[0] in ("global", "shared", "local", "const", "param")), "")


def to_generic(instruction: Instruction, bind: Binding) -> Step:
    """cvta, cvta.to: between the addresses of a space and generic ones."""
    type, window = instruction.parts[-1], generic_window(_space(instruction))
    put = bind.put(instruction.operands[0], type)
    dtype = DTYPE[type]
    if dtype.itemsize == 4:
        window = 0
    distance = dtype.type(window)
    back = "to" in instruction.parts
    source = bind.source(instruction.operands[1], type)

    if back:
        return lambda on: put(source - distance, on)
    return lambda on: put(source + distance, on)


def is_in_space(instruction: Instruction, bind: Binding) -> Step:
    """isspacep: does a generic address point into the space?"""
    window = {"global": 0, "const": 0, "param": 0, "shared": SHARED_WINDOW, "local": LOCAL_WINDOW}[_space(instruction)]
    operand = instruction.operands[1]
    source = bind.source(operand, "u64")
    put = bind.put(instruction.operands[0], "pred")
    return lambda on: put(source >> np.uint64(WINDOW_BITS) == np.uint64(window >> WINDOW_BITS), on)
