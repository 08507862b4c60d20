"""Meanings of atom and red: every operation, type and vector (PTX ISA 9.7.13.5 to .7).

Lanes at one address act one after another, in the order of lanes.
Tests: tests/targets/nvidia/ptx/test_atomics.py.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tilewright.targets.nvidia.ptx import floats, ordering
from tilewright.targets.nvidia.ptx.access import memory_of
from tilewright.targets.nvidia.ptx.binding import DTYPE, PACKED, Binding, Mask, Put, Step, storage
from tilewright.targets.nvidia.ptx.operands import Instruction, Operand

Array = np.ndarray[Any, Any]
Operation = Callable[[Array, Array], Array]

_OPERATIONS = ("and", "or", "xor", "cas", "exch", "add", "inc", "dec", "min", "max")


def _float_operation(operation: str, name: str) -> Operation:
    """add, min, max on storage of a float format."""
    def combined(old: Array, value: Array) -> Array:
        x, y = floats.decode(old, name), floats.decode(value, name)
        if operation == "add":
            return floats.encode(x + y, name)
        return floats.encode((np.fmax if operation == "max" else np.fmin)(x, y), name)

    return combined


_INTEGER: dict[str, Operation] = {
    "and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor, "add": np.add, "min": np.minimum,
    "max": np.maximum, "exch": lambda old, value: value,
    "inc": lambda old, value: np.where(old >= value, 0, old + np.uint32(1)).astype(old.dtype),
    "dec": lambda old, value: np.where((old == 0) | (old > value), value, old - np.uint32(1)).astype(old.dtype),
}


def _reduction(name: str) -> Callable[[Array, Array, str], Array]:
    """A bulk reduction of elements of a type, on unsigned storage."""
    def reduce(old: Array, value: Array, type: str) -> Array:
        if type in ("f16", "bf16", "f32", "f64"):
            typed = np.uint16 if type == "bf16" else DTYPE[type]
            out = _float_operation(name, type)(old.view(typed), value.view(typed))
            return np.ascontiguousarray(out).view(old.dtype)
        dtype = DTYPE[type]
        return np.ascontiguousarray(_INTEGER[name](old.view(dtype), value.view(dtype))).view(old.dtype)

    return reduce


# of cp.reduce.async.bulk (9.7.9.25.4.2)
REDUCTIONS = {name: _reduction(name) for name in ("add", "min", "max", "and", "or", "xor", "inc", "dec")}


def _operation(instruction: Instruction, bind: Binding) -> tuple[str, str, int, Operation]:
    """(name, type, bytes of one element, function on typed storage)."""
    parts, type = instruction.parts, instruction.parts[-1]
    name = next((p for p in parts[1:] if p in _OPERATIONS), "")
    if not name:
        raise bind.error("names no operation that has a meaning here")
    if type == "b128":
        return name, type, 16, _INTEGER["exch"]
    element = type[:-2] if type in PACKED else type
    size = (PACKED[type].itemsize * 2) if type in PACKED else DTYPE[type].itemsize
    if element in ("f16", "bf16", "f32", "f64") and name != "exch":
        return name, type, size, _float_operation(name, element)
    return name, type, size, _INTEGER.get(name, _INTEGER["exch"])


def atomic(instruction: Instruction, bind: Binding) -> Step:
    """atom (the old value comes back) and red (it does not)."""
    if "async" in instruction.parts:
        raise bind.error("red.async has no meaning here")
    returns = instruction.parts[0] == "atom"
    operands = instruction.operands if returns else (None, *instruction.operands)
    assert operands[1] is not None and operands[2] is not None
    name, type, size, operation = _operation(instruction, bind)
    memory, address = memory_of(instruction, bind, operands[1]), bind.address(operands[1])
    unit = storage(type) or np.dtype(np.uint64)
    sources = [_rows(bind, s, type) for s in bind.items(operands[2])]
    compare = sources
    if name == "cas":
        assert operands[3] is not None
        sources = [_rows(bind, operands[3], type)]
    puts = [_put_old(bind, t, type) for t in bind.items(operands[0])] if operands[0] is not None else []
    note, ids = ordering.around_atomic(instruction, bind), bind.cta.ids

    def step(on: Mask) -> None:
        where, who = (address(), ids) if on is None else (address()[on], ids[on])
        for i, source in enumerate(sources):
            value = source() if on is None else source()[on]
            wanted = compare[i]() if name == "cas" else value
            wanted = wanted if on is None or name != "cas" else wanted[on]

            def change(old: Array, lanes: Array, value: Array = value, wanted: Array = wanted) -> Array:
                if name == "cas":
                    same = old == wanted[lanes]
                    return np.where(same.all(-1, keepdims=True) if old.ndim > 1 else same, value[lanes], old)
                if size == 16:
                    return value[lanes]
                mine = np.ascontiguousarray(value[lanes]).view(unit)
                new = operation(np.ascontiguousarray(old).view(unit), mine)
                return np.asarray(np.ascontiguousarray(new, unit).view(old.dtype))

            old = memory.update(where + i * size, who, size, change)
            if puts:
                puts[i](old, on)
        note(where, who)

    return step


def _rows(bind: Binding, operand: Operand, type: str) -> Callable[[], Array]:
    """A source of all threads, as unsigned elements."""
    if type == "b128":
        array = bind.source(operand, type)
        return lambda: array
    bits = type if type not in PACKED and DTYPE[type].kind == "f" else \
        f"b{8 * (2 * PACKED[type].itemsize if type in PACKED else DTYPE[type].itemsize)}"
    array = bind.source(operand, bits)
    unsigned = np.dtype(f"u{array.dtype.itemsize}")
    return lambda: np.ascontiguousarray(np.broadcast_to(array, bind.threads)).view(unsigned)


def _put_old(bind: Binding, operand: Operand, type: str) -> Put:
    if type == "b128":
        return bind.put_rows(operand, type)
    size = 2 * PACKED[type].itemsize if type in PACKED else DTYPE[type].itemsize
    put = bind.put_rows(operand, f"b{8 * size}")
    signed = type[0] == "s" and type not in PACKED
    if signed:
        typed = bind.put_rows(operand, type)
        return lambda values, on: typed(np.ascontiguousarray(values).view(DTYPE[type]), on)
    return put
