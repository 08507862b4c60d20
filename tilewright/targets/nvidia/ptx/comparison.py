"""Meanings of comparisons and selections (PTX ISA 9.7.5, 9.7.6).

Tests: tests/targets/nvidia/ptx/test_integer.py, test_floating.py.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tilewright.targets.nvidia.ptx import floats
from tilewright.targets.nvidia.ptx.binding import DTYPE, PACKED, Binding, Mask, Step, elementwise
from tilewright.targets.nvidia.ptx.floating import element, flush
from tilewright.targets.nvidia.ptx.operands import Instruction, Pair, Sink

Array = np.ndarray[Any, Any]
Compare = Callable[[Array, Array], Any]

_ORDERED: dict[str, Compare] = {
    "eq": np.equal, "lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal,
    "lo": np.less, "ls": np.less_equal, "hi": np.greater, "hs": np.greater_equal,
}
_FLOAT: dict[str, Compare] = {
    **_ORDERED, "ne": lambda a, b: (a < b) | (a > b), "equ": lambda a, b: ~((a < b) | (a > b)),
    "neu": np.not_equal, "ltu": lambda a, b: ~(a >= b), "leu": lambda a, b: ~(a > b), "gtu": lambda a, b: ~(a <= b),
    "geu": lambda a, b: ~(a < b), "num": lambda a, b: ~(np.isnan(a) | np.isnan(b)),
    "nan": lambda a, b: np.isnan(a) | np.isnan(b),
}
_INTEGER: dict[str, Compare] = {**_ORDERED, "ne": np.not_equal}
_COMBINE: dict[str, Any] = {"and": np.logical_and, "or": np.logical_or, "xor": np.logical_xor}


def _comparison(parts: tuple[str, ...], type: str, bind: Binding) -> Compare:
    """The comparison among the modifiers, on storage of `type`."""
    name = element(type)
    table = _FLOAT if name in ("f16", "bf16", "f32", "f64") else _INTEGER
    compare = table.get(parts[1])
    if compare is None:
        raise bind.error(f"no comparison {parts[1]!r} of {type}")
    if name == "bf16":
        return lambda a, b: compare(floats.decode(a, name), floats.decode(b, name))
    if "ftz" in parts and name in ("f16", "f32"):
        return lambda a, b: compare(flush(a, name), flush(b, name))
    return compare


def set_predicate(instruction: Instruction, bind: Binding) -> Step:
    """setp, with a predicate combined in, and its complement as second result (9.7.5.2, 9.7.6.2)."""
    parts, type = instruction.parts, instruction.parts[-1]
    target, a_op, b_op, *rest = instruction.operands
    a, b = bind.source(a_op, type), bind.source(b_op, type)
    compare = _comparison(parts, type, bind)
    if type in PACKED:
        return _set_packed(instruction, bind, compare, a, b)
    if not rest and not isinstance(target, Pair):
        put = bind.put(target, "pred")
        return lambda on: put(compare(a, b), on)
    first, second = (target.first, target.second) if isinstance(target, Pair) else (target, Sink())
    put, put_other = bind.put(first, "pred"), bind.put(second, "pred")
    combine = next((_COMBINE[p] for p in parts[2:] if p in _COMBINE), None)
    extra = bind.predicate(rest[0]) if rest else None

    def step(on: Mask) -> None:
        holds = compare(a, b)
        not_holds = ~np.asarray(holds)
        if extra is not None and combine is not None:
            with_ = np.array(extra())
            holds, not_holds = combine(holds, with_), combine(not_holds, with_)
        put(holds, on)
        put_other(not_holds, on)

    return step


def _set_packed(instruction: Instruction, bind: Binding, compare: Compare, a: Array, b: Array) -> Step:
    """setp.f16x2 p|q: of the lower and the upper element."""
    target = instruction.operands[0]
    if not isinstance(target, Pair) or len(instruction.operands) > 3:
        raise bind.error("takes p|q, and no third source, here")
    put, put_other = bind.put(target.first, "pred"), bind.put(target.second, "pred")

    def step(on: Mask) -> None:
        both = np.asarray(compare(a, b)).reshape(-1, 2)
        put(both[:, 0].copy(), on)
        put_other(both[:, 1].copy(), on)

    return step


def set_value(instruction: Instruction, bind: Binding) -> Step:
    """set: all ones or 1.0 where the comparison holds (9.7.5.1, 9.7.6.1)."""
    parts = instruction.parts
    result, type = parts[-2], parts[-1]
    compare = _comparison(parts, type, bind)
    combine = next((_COMBINE[p] for p in parts[2:-2] if p in _COMBINE), None)
    name = element(result)
    true: Any = {"f32": np.float32(1), "f16": np.float16(1), "bf16": np.uint16(0x3F80)}.get(name)
    if true is None:
        true = DTYPE[name].type(-1) if name[0] == "s" else ~np.array(0, DTYPE[name])
    extra = bind.predicate(instruction.operands[3]) if len(instruction.operands) == 4 else None
    a, b = (bind.source(o, type) for o in instruction.operands[1:3])
    put = bind.put(instruction.operands[0], result)

    def step(on: Mask) -> None:
        holds = compare(a, b)
        if extra is not None and combine is not None:
            holds = combine(holds, extra())
        put(np.where(holds, true, np.zeros_like(true)), on)

    return step


def select(instruction: Instruction, bind: Binding) -> Step:
    """selp: a where the predicate holds, else b (9.7.5.3)."""
    type = instruction.parts[-1]
    a, b = (bind.source(o, type) for o in instruction.operands[1:3])
    choose, put = bind.predicate(instruction.operands[3]), bind.put(instruction.operands[0], type)
    return lambda on: put(np.where(choose(), a, b), on)


def select_by_sign(instruction: Instruction, bind: Binding) -> Step:
    """slct: a where c >= 0, else b (9.7.5.4)."""
    type, by = instruction.parts[-2:]
    return elementwise(bind, instruction, lambda a, b, c: np.where(c >= 0, a, b), type, types=(type, type, by))
