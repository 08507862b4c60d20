"""Loads and stores of a group of lanes.

An address that is uniform is one scalar access; one that steps by an element, up or down, is one contiguous vector
access, under a mask a masked one; one that steps by a few elements is a wide masked access and a shuffle.  Only
addresses that are known no better gather and scatter.  A lane whose mask is false never touches memory.  Alignment is
that of the element: nothing more is known of a user's memory.
Of equal addresses the last lane wins (LLVM LangRef, llvm.masked.scatter).
Tests: tests/targets/cpu/test_nests.py, test_bounds.py.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from tilewright.diagnostics import InternalError
from tilewright.ir.node import Op
from tilewright.ir.types import I1, Element, element_of, shape_of
from tilewright.targets.cpu.lanes import Form, Lane, uniform, vector
from tilewright.targets.llvm import convert
from tilewright.targets.llvm.types import PTR, Type, Value, constant, constant_lanes, zero

if TYPE_CHECKING:
    from tilewright.targets.cpu.evaluate import Evaluator, Index

_WIDEST_STEP = 4
_LINE = 64
_NEAR_BYTES = 1 << 14       # tiles up to this are prefetched into the first cache, beside the one that is worked on


def load(e: Evaluator, op: Op, index: Index) -> Lane:
    """A `load` op at `index`."""
    if e.kernel.checks_bounds and op not in e.kernel.tested:
        raise InternalError(f"{op.loc}: code of a load is generated before its test against the argument's extent")
    pointer, mask, other = op.operands[0], op.operand("mask"), op.operand("other")
    at, on = e.at(pointer, index), None if mask is None else e.at(mask, index)
    distance = e.ahead.get(op)
    if distance is not None and (on is None or on.known == 1):
        _prefetch(e, at, op, distance)
    return load_lane(e, at, element_of(op.results[0].type), on, None if other is None else e.at(other, index))


def _prefetch(e: Evaluator, pointer: Lane, op: Op, distance: Value) -> None:
    """Ask for the line that lies `distance` bytes behind a contiguous vector, if the vector is the first in it."""
    size = element_of(op.results[0].type).bytes
    if not is_first_of_line(e, pointer, size):
        return
    level = level_for(math.prod(shape_of(op.results[0].type)) * size)
    e.code.prefetch(e.code.gep(e.scalar(pointer), distance, Type("i8")), level)


def is_first_of_line(e: Evaluator, pointer: Lane, size: int) -> bool:
    """Whether a contiguous vector of elements of `size` bytes is the first in its line, if tiles begin at lines."""
    return pointer.form is Form.AFFINE and pointer.stride == size and pointer.offset % _LINE < e.width * size


def level_for(size: int) -> int:
    """Where a tile of `size` bytes is prefetched to, as LLVM counts: 3 is the first cache, 2 the second."""
    return 3 if size <= _NEAR_BYTES else 2


def load_lane(e: Evaluator, pointer: Lane, element: Element, mask: Lane | None, other: Lane | None) -> Lane:
    """The elements at `pointer`; where `mask` is false `other`, else zero."""
    if other is None:
        other = uniform(element, zero(convert.register_type(element)))
    if mask is not None and mask.known is not None:
        if not mask.known:
            return other
        mask = None
    if pointer.is_uniform:
        return _load_uniform(e, pointer, element, mask, other)
    size = element.bytes
    if pointer.form is Form.AFFINE and pointer.stride == size:
        return vector(element, _load_contiguous(e, e.scalar(pointer), element, mask, other))
    if pointer.form is Form.AFFINE and pointer.stride == -size:
        first = e.code.emit(PTR, f"getelementptr i8, {e.scalar(pointer)}, i64 {-size * (e.width - 1)}")
        mirrored = None if mask is None else vector(I1, reverse(e, e.full(mask)))
        back = vector(element, reverse(e, e.full(other))) if mask is not None else other
        return vector(element, reverse(e, _load_contiguous(e, first, element, mirrored, back)))
    if _stride_of(pointer, size):
        return vector(element, _load_strided(e, pointer, element, mask, other))
    return vector(element, _gather(e, e.full(pointer), element, mask, other))


def _stride_of(pointer: Lane, size: int) -> int:
    """The step in elements of lanes that one wide masked access serves well; else 0."""
    step = pointer.stride // size
    return step if pointer.form is Form.AFFINE and pointer.stride % size == 0 and 2 <= step <= _WIDEST_STEP else 0


def _spread(e: Evaluator, mask: Lane | None, step: int) -> Value:
    """The mask of a vector `step` times as wide, whose every `step`-th lane is one of ours."""
    count = step * e.width
    if mask is None:
        return constant_lanes("i1", [k % step == 0 for k in range(count)])
    on = e.full(mask)
    off = zero(on.type)
    return e.code.shuffle(on, off, [k // step if k % step == 0 else e.width for k in range(count)])


def _load_strided(e: Evaluator, pointer: Lane, element: Element, mask: Lane | None, other: Lane) -> Value:
    """Lanes a few elements apart: one wide load that touches these lanes only, and a shuffle."""
    code, step = e.code, _stride_of(pointer, element.bytes)
    t, on = convert.memory_type(element, step * e.width), _spread(e, mask, step)
    name = f"llvm.masked.load.{t.mangled}.p0"
    code.module.declare(name, t, [PTR, on.type, t])
    text = f"call {t} @{name}(ptr align {element.bytes} {e.scalar(pointer).name}, {on}, {zero(t)})"
    wide = code.shared_load(text, t, e.floor)
    value = _decode(e, code.shuffle(wide, wide, range(0, step * e.width, step)), element)
    return value if mask is None else code.select(e.full(mask), value, e.full(other))


def reverse(e: Evaluator, value: Value) -> Value:
    """The lanes of a vector from last to first."""
    return e.code.shuffle(value, value, range(e.width - 1, -1, -1))


def _load_uniform(e: Evaluator, pointer: Lane, element: Element, mask: Lane | None, other: Lane) -> Lane:
    """One scalar load.  Under a mask its address is a scratch byte while no lane is on, so that it never branches."""
    code, address = e.code, e.scalar(pointer)
    on = None
    if mask is not None:
        on = e.scalar(mask) if mask.is_uniform else code.any_lane(e.full(mask))
        address = code.select(on, address, e.kernel.scratch_base)
    t = convert.memory_type(element)
    value = _decode(e, code_load(e, address, t, element), element)
    loaded = uniform(element, value)
    return loaded if mask is None else e.select(mask, loaded, other)


def code_load(e: Evaluator, address: Value, t: Type, element: Element) -> Value:
    """A plain load, shared within the nest."""
    return e.code.shared_load(f"load {t}, {address}, align {element.bytes}", t, e.floor)


def _decode(e: Evaluator, value: Value, element: Element) -> Value:
    return e.code.icmp("ne", value, zero(value.type)) if element == I1 else value


def _load_contiguous(e: Evaluator, address: Value, element: Element, mask: Lane | None, other: Lane) -> Value:
    t = convert.memory_type(element, e.width)
    if mask is None:
        return _decode(e, code_load(e, address, t, element), element)
    rest = _stored_form(e, e.full(other), element)
    code = e.code
    name = f"llvm.masked.load.{t.mangled}.p0"
    on = e.full(mask)
    code.module.declare(name, t, [PTR, on.type, t])
    text = f"call {t} @{name}(ptr align {element.bytes} {address.name}, {on}, {rest})"
    return _decode(e, code.shared_load(text, t, e.floor), element)


def _stored_form(e: Evaluator, value: Value, element: Element) -> Value:
    """The form that `value` has in memory: i1 is a byte."""
    return e.code.cast("zext", value, value.type.of("i8")) if element == I1 else value


def _gather(e: Evaluator, pointers: Value, element: Element, mask: Lane | None, other: Lane) -> Value:
    code, t = e.code, convert.memory_type(element, e.width)
    if element.bytes >= 4:
        on = constant(Type("i1", e.width), -1) if mask is None else e.full(mask)
        name = f"llvm.masked.gather.{t.mangled}.{pointers.type.mangled}"
        code.module.declare(name, t, [pointers.type, on.type, t])
        rest = zero(t) if mask is None else e.full(other)
        text = f"call {t} @{name}({pointers.type} align {element.bytes} {pointers.name}, {on}, {rest})"
        return code.shared_load(text, t, e.floor)
    if mask is not None:
        safe = code.splat(e.kernel.scratch_base, e.width)
        pointers = code.select(e.full(mask), pointers, safe)
    value = Value(t, "poison")
    for k in range(e.width):
        value = code.insert(value, code_load(e, code.extract(pointers, k), t.scalar, element), k)
    value = _decode(e, value, element)
    return value if mask is None else code.select(e.full(mask), value, e.full(other))


# --- stores


def store_lane(e: Evaluator, pointer: Lane, lane: Lane, mask: Lane | None, streams: bool = False) -> None:
    """Write `lane` where `mask` is true; with `streams`, whole registers bypass the caches."""
    if mask is not None and mask.known is not None:
        if not mask.known:
            return
        mask = None
    code, element = e.code, lane.element
    if e.width == 1:
        value = _stored_form(e, e.scalar(lane), element)
        _when(e, mask, lambda: code.store(value, e.scalar(pointer), element.bytes))
        return
    if pointer.is_uniform and (mask is None or mask.is_uniform):
        last = e.scalar(lane) if lane.is_uniform else code.extract(e.full(lane), e.width - 1)
        last = _stored_form(e, last, element)
        _when(e, mask, lambda: code.store(last, e.scalar(pointer), element.bytes))
        return
    value = _stored_form(e, e.full(lane), element)
    if pointer.form is Form.AFFINE and abs(pointer.stride) == element.bytes:
        _store_contiguous(e, pointer, value, mask, element, streams)
    elif _stride_of(pointer, element.bytes):
        step = _stride_of(pointer, element.bytes)
        wide = code.shuffle(value, value, [k // step if k % step == 0 else -1 for k in range(step * e.width)])
        code.masked_store(wide, e.scalar(pointer), _spread(e, mask, step), element.bytes)
    elif element.bytes >= 4:
        on = constant(Type("i1", e.width), -1) if mask is None else e.full(mask)
        code.scatter(value, e.full(pointer), on, element.bytes)
    else:
        _store_each(e, e.full(pointer), value, mask, element)


def _when(e: Evaluator, mask: Lane | None, write: object) -> None:
    assert callable(write)
    if mask is None:
        write()
        return

    def way() -> tuple[Value, ...]:
        write()
        return ()

    e.code.branch(e.scalar(mask), way)


def _store_contiguous(e: Evaluator, pointer: Lane, value: Value, mask: Lane | None, element: Element,
                      streams: bool) -> None:
    code, address, on = e.code, e.scalar(pointer), None if mask is None else e.full(mask)
    if pointer.stride < 0:
        address = code.emit(PTR, f"getelementptr i8, {address}, i64 {-element.bytes * (e.width - 1)}")
        value = reverse(e, value)
        on = None if on is None else reverse(e, on)
    if on is None and streams and element.bytes * e.width >= e.kernel.least_streamed:
        once = code.module.metadata("i32 1")
        code.store(value, address, element.bytes * e.width, suffix=f", !nontemporal {once}")
    elif on is None:
        code.store(value, address, element.bytes)
    else:
        code.masked_store(value, address, on, element.bytes)


def _store_each(e: Evaluator, pointers: Value, value: Value, mask: Lane | None, element: Element) -> None:
    """Small elements to scattered addresses: a loop over the lanes."""
    code = e.code
    on = None if mask is None else e.full(mask)

    def body(k: Value, _: tuple[Value, ...]) -> tuple[Value, ...]:
        def write() -> tuple[Value, ...]:
            code.store(code.extract(value, k), code.extract(pointers, k), element.bytes)
            return ()

        if on is None:
            write()
        else:
            code.branch(code.extract(on, k), write)
        return ()

    code.counted(e.width, 1, body)


