"""What checked mode knows of values beside their bits: undefined lanes, and the exact numbers of wrapped integers.

Two notes may be kept of a value (`Frame.notes`), each an array in the form of the value:

* `undefined`: int32, 0 where a lane is defined, else the number of the load whose masked-off lane it came from.
  It spreads through computation as far as the garbage would: a `select` that does not choose it, `& False` or `* 0`
  end it; a reduction over it is undefined as a whole.  `interpret.alternatives` takes it back where it has cancelled.
* `exact`: int64, for integers and pointers that left their type: what they are without wrapping.  It lives along the
  chains that end in addresses (sums, products, shifts to the left, minima, choices, rearrangements, sign extension);
  bit operations, divisions and zero extension begin a new number, since there wrapping may be meant (hashes).

`None` stands for: nothing to note.  Tests: tests/check/test_values.py.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from tilewright.ir.node import Op
from tilewright.ir.ops import Call
from tilewright.ir.types import I1, Pointer, Scalar, element_of, shape_of

Array = np.ndarray[Any, Any]
Note = Array | None

REARRANGES = frozenset({"splat", "broadcast", "expand_dims", "reshape", "permute", "hint", "split", "join", "cat",
                        "slice", "box"})
_SATURATED = 2**62


def full(note: Note, values: Array, sizes: tuple[int, ...], dtype: type = np.int32) -> Array:
    """A note as an array of the value's form; an absent one as zeros, or as the value itself where `dtype` is int64."""
    if note is not None:
        return np.broadcast_to(note, (note.shape[0], *sizes))
    if dtype is np.int64:
        return values.astype(np.int64)
    return np.broadcast_to(np.zeros(1, dtype).reshape((1,) * (1 + len(sizes))), (1, *sizes))


def undefined_results(op: Op, call: Call, notes: Sequence[Note]) -> Sequence[Note]:
    """The `undefined` notes of an op's results; memory ops have their own rules in the engine."""
    if all(n is None for n in notes):
        return (None,) * len(op.results)
    whole = [full(n, a, shape_of(t)) for n, a, t in zip(notes, call.args, call.types, strict=True)]
    if op.name in REARRANGES:
        return _tidy(op.row.ref(replace(call, args=whole)))      # type: ignore[misc]
    rule = _UNDEFINED.get(op.name)
    if rule is not None:
        return _tidy(rule(call, whole))
    if op.row.elementwise or op.name == "map":
        return _tidy((_either(*whole),) * len(op.results))
    return _tidy(_all_of_each(op, whole))


def _tidy(notes: Sequence[Array]) -> Sequence[Note]:
    return tuple(n if n.any() else None for n in notes)


def _either(*notes: Array) -> Array:
    result = notes[0]
    for note in notes[1:]:
        result = np.maximum(result, note)
    return result


def _all_of_each(op: Op, notes: Sequence[Array]) -> tuple[Array, ...]:
    """Results of which every element depends on every element of the operands."""
    flat = _either(*(n.reshape(n.shape[0], -1).max(axis=1) for n in notes))
    return tuple(np.broadcast_to(flat.reshape(-1, *(1 for _ in shape_of(r.type))), (flat.shape[0], *shape_of(r.type)))
                 for r in op.results)


def _select(call: Call, notes: Sequence[Array]) -> tuple[Array, ...]:
    condition, on_true, on_false = notes
    return (np.maximum(condition, np.where(call.args[0], on_true, on_false)),)


def _absorbing(zero: bool) -> Callable[[Call, Sequence[Array]], tuple[Array, ...]]:
    """An op with an element that decides the result alone: zero for `and` and `mul`, True for `or`."""

    def rule(call: Call, notes: Sequence[Array]) -> tuple[Array, ...]:
        decides = [(a == 0) if zero else (a != 0) for a in call.args]
        if not zero and element_of(call.types[0]) != I1:
            return (_either(*notes),)
        alone = [(n == 0) & d for n, d in zip(notes, decides, strict=True)]
        return (np.where(alone[0] | alone[1], np.int32(0), _either(*notes)),)

    return rule


def _reduce(call: Call, notes: Sequence[Array]) -> tuple[Array, ...]:
    note = _either(*(n.max(axis=call.attrs["axis"] + 1) for n in notes))
    return (note,) * len(call.result_types)


def _scan(call: Call, notes: Sequence[Array]) -> tuple[Array, ...]:
    axis, note = call.attrs["axis"] + 1, _either(*notes)
    if call.attrs.get("reverse", False):
        note = np.flip(np.maximum.accumulate(np.flip(note, axis), axis), axis)
    else:
        note = np.maximum.accumulate(note, axis)
    return (note,) * len(call.result_types)


def _sort(call: Call, notes: Sequence[Array]) -> tuple[Array, ...]:
    return (np.broadcast_to(notes[0].max(axis=-1, keepdims=True), notes[0].shape),)


def _histogram(call: Call, notes: Sequence[Array]) -> tuple[Array, ...]:
    note = notes[0] if len(notes) == 1 else np.where(call.args[1], _either(*notes), notes[1])
    flat = note.reshape(note.shape[0], -1).max(axis=1)
    return (np.broadcast_to(flat[:, None], (flat.shape[0], call.attrs["bins"])),)


def _gather(call: Call, notes: Sequence[Array]) -> tuple[Array, ...]:
    axis = call.attrs["axis"] + 1
    source, index = notes[0], call.args[1]
    inside = (index >= 0) & (index < source.shape[axis])
    programs = max(source.shape[0], index.shape[0])
    source = np.broadcast_to(source, (programs, *source.shape[1:]))
    place = np.broadcast_to(np.where(inside, index, 0), (programs, *index.shape[1:])).astype(np.int64)
    return (np.maximum(np.where(inside, np.take_along_axis(source, place, axis), 0), notes[1]),)


def _dot(call: Call, notes: Sequence[Array]) -> tuple[Array, ...]:
    a, b, acc = notes
    return (_either(a.max(axis=-1)[..., :, None], b.max(axis=-2)[..., None, :], acc),)


_UNDEFINED: Mapping[str, Callable[[Call, Sequence[Array]], tuple[Array, ...]]] = {
    "select": _select, "and": _absorbing(True), "mul": _absorbing(True), "or": _absorbing(False), "reduce": _reduce,
    "scan": _scan, "sort": _sort, "histogram": _histogram, "gather": _gather, "dot": _dot}


# -- exact numbers -------------------------------------------------------------------------------------------

def _is_number(t: Any) -> bool:
    element = element_of(t)
    return isinstance(element, Pointer) or (isinstance(element, Scalar) and element.is_int and element != I1)


def exact_results(op: Op, call: Call, results: Sequence[Array], notes: Sequence[Note]) -> Sequence[Note]:
    """The `exact` notes of an op's results."""
    nothing = (None,) * len(op.results)
    if len(op.results) == 0 or not _is_number(op.results[0].type):
        return nothing
    known = any(n is not None for n in notes)
    rule = _EXACT.get(op.name) if all(_is_number(t) for t in call.types) else None
    if rule is not None:
        small = element_of(op.results[0].type).bits < 64
        if not known and not small:
            return nothing
        numbers = [full(n, a, shape_of(t), np.int64) for n, a, t in zip(notes, call.args, call.types, strict=True)]
        with np.errstate(all="ignore"):
            exact = rule(call, numbers)
    elif not known:
        return nothing
    elif op.name in REARRANGES:
        numbers = [full(n, a, shape_of(t), np.int64) for n, a, t in zip(notes, call.args, call.types, strict=True)]
        return tuple(_unless_equal(e, r)
                     for e, r in zip(op.row.ref(replace(call, args=numbers)), results, strict=True))  # type: ignore[misc]
    elif op.name == "select":
        on_true, on_false = (full(n, a, shape_of(t), np.int64) for n, a, t in
                             zip(notes[1:], call.args[1:], call.types[1:], strict=True))
        exact = np.where(call.args[0], on_true, on_false)
    else:
        return nothing
    return (_unless_equal(exact, results[0]),)


def _unless_equal(exact: Array, result: Array) -> Note:
    return None if (exact == result).all() else exact


def _product(a: Array, b: Array) -> Array:
    about = a.astype(np.float64) * b.astype(np.float64)
    return np.where(np.abs(about) < _SATURATED, a * b, np.where(about > 0, _SATURATED, -_SATURATED)).astype(np.int64)


def _shifted(call: Call, numbers: Sequence[Array]) -> Array:
    value, by = numbers
    bits = element_of(call.types[0]).bits
    return np.where((by >= 0) & (by < bits), _product(value, np.int64(1) << np.clip(by, 0, 62)), value << by)


def _pointer_sum(call: Call, numbers: Sequence[Array]) -> Array:
    pointer = element_of(call.types[0])
    assert isinstance(pointer, Pointer)
    return np.asarray(numbers[0] + numbers[1] * np.int64(pointer.element.bytes))


_EXACT: Mapping[str, Callable[[Call, Sequence[Array]], Array]] = {
    "add": lambda call, n: np.asarray(n[0] + n[1]), "sub": lambda call, n: np.asarray(n[0] - n[1]),
    "mul": lambda call, n: _product(n[0], n[1]), "shl": _shifted,
    "min_s": lambda call, n: np.minimum(n[0], n[1]), "max_s": lambda call, n: np.maximum(n[0], n[1]),
    "ext_s": lambda call, n: n[0], "trunc": lambda call, n: n[0], "ptr_add": _pointer_sum}
