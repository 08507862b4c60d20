"""The value of a tile expression at a group of lanes: elementwise chains and rearrangements are fused here.

`Evaluator.at(value, index)` gives the `Lane` of `value` at `index`, one i64 lane a dimension; at most one of them is
not uniform.  Rearrangements (broadcast, permute, reshape, ...) only change the index.  `offset` evaluates integers
that are added to pointers: there, and only there, sums of int32 indices are taken in 64 bits (a launch promises that
they do not wrap, `analysis.offsets`).  Loads are shared within the nest whose level is `floor`.

Before: `value` and everything that it is made from is bound.  Tests: tests/targets/cpu/test_nests.py.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from tilewright.ir import fp
from tilewright.ir.node import Op, Value
from tilewright.ir.types import I1, I8, I32, I64, Pointer, element_of, shape_of
from tilewright.targets.cpu import access
from tilewright.targets.cpu.code import Code
from tilewright.targets.cpu.elementwise import Elementwise
from tilewright.targets.cpu.lanes import Form, Lane, integer, uniform, vector, wrap
from tilewright.targets.cpu.state import Buffer, Kernel, Virtual
from tilewright.targets.llvm import convert
from tilewright.targets.llvm.types import PTR, Type, constant, constant_lanes, integer_value
from tilewright.targets.llvm.types import Value as LlvmValue

Index = tuple[Lane, ...]
_NEAR = 1 << 30


@dataclass(slots=True)
class Facts:
    """What holds in the version or part of a nest that is being written: comparisons that are true, or false, at every
    index, and the uniform quotients (i64) of divisions and remainders."""

    true: set[Value] = field(default_factory=set)
    false: set[Value] = field(default_factory=set)
    quotients: dict[Value, LlvmValue] = field(default_factory=dict)


class Evaluator(Elementwise):
    """Evaluates tiles at groups of `width` lanes (see the module's docstring)."""

    def __init__(self, kernel: Kernel, width: int, floor: int, facts: Facts | None = None,
                 ahead: Mapping[Op, LlvmValue] | None = None) -> None:
        super().__init__(kernel.code, width)
        self.kernel = kernel
        self.floor = floor
        self.facts = facts if facts is not None else Facts()
        self.ahead = ahead if ahead is not None else {}     # loads that prefetch, and how many bytes ahead
        self.gate: Lane | None = None       # the lanes that are to be stored, where not all are
        self.computed: dict[tuple[Value, Index], Lane] = {}
        self._half: Evaluator | None = None

    def at(self, value: Value, index: Index) -> Lane:
        """`value` at `index`."""
        binding = self.kernel.bindings[value]
        if isinstance(binding, Lane):
            return binding
        key = (value, index)
        lane = self.computed.get(key)
        if lane is None:
            if isinstance(binding, Buffer):
                lane = access.load_lane(self, self.buffer_pointer(binding, index), binding.element, None, None)
            else:
                outer, self.code.mark = self.code.mark, self.kernel.mark(binding.op)
                lane = self._virtual(binding.op, binding.index, value, index)
                self.code.mark = outer
            self.computed[key] = lane
        return lane

    def lanes_below(self, count: LlvmValue) -> Lane:
        """The mask of the first `count` (i64) lanes."""
        lanes, most = constant_lanes("i32", range(self.width)), self.code.cast("trunc", count, Type("i32"))
        return vector(I1, self.code.icmp("ult", lanes, self.code.splat(most, self.width)))

    def gated(self, mask: Lane | None) -> Lane | None:
        """The mask of a store, of the lanes that this evaluator is to store."""
        if self.gate is None or mask is None:
            return self.gate if mask is None else mask
        return self.both(mask, self.gate)

    def half(self) -> Evaluator:
        """An evaluator of half the width for the same nest."""
        if self._half is None:
            self._half = Evaluator(self.kernel, self.width // 2, self.floor, self.facts)
        return self._half

    def buffer_pointer(self, buffer: Buffer, index: Index) -> Lane:
        """The address of an element of scratch."""
        size = buffer.element.bytes
        start, offset = (self.kernel.scratch_base, buffer.offset) if buffer.start is None else (buffer.start, 0)
        pointer = Lane(Pointer(I8), Form.UNIFORM, start, offset)
        total = integer(I64, 0)
        for lane, stride in zip(index, buffer.strides, strict=True):
            term = self.multiply(lane, integer(I64, stride))
            total = self.plus(total, term)
        return self.advance(pointer, total, size)

    def scalar_result(self, op: Op, result: int) -> Lane:
        """Result `result` of an op whose results are scalars."""
        leaf = _LEAVES.get(op.name)
        if leaf is not None:
            return leaf(self.kernel, op)
        return self._virtual(op, result, op.results[result], ())

    # --- i64 index arithmetic that always succeeds

    def plus(self, a: Lane, b: Lane) -> Lane:
        result = self.add(a, b)
        return result if result is not None else vector(
            a.element, self.code.op("add", self.full(a), self.full(b)))

    def multiply(self, a: Lane, b: Lane) -> Lane:
        result = self.mul(a, b)
        return result if result is not None else vector(
            a.element, self.code.op("mul", self.full(a), self.full(b)))

    def split_index(self, lane: Lane, size: int) -> tuple[Lane, Lane]:
        """Quotient and remainder of an index by a size."""
        parts = self.divide(lane, size)
        if parts is not None:
            return parts
        whole, by = self.full(lane), self.full(integer(I64, size))
        high = (lane.high if lane.high is not None else wrap(-1, I64)) // size
        return (vector(I64, self.code.op("udiv", whole, by))._replace(low=0, high=max(0, high)),
                vector(I64, self.code.op("urem", whole, by))._replace(low=0, high=size - 1))

    # --- virtual values

    def _virtual(self, op: Op, result: int, value: Value, index: Index) -> Lane:
        rearrange = _REARRANGEMENTS.get(op.name)
        if rearrange is not None:
            return rearrange(self, op, result, index)
        if op.name == "load":
            return access.load(self, op, index)
        if value in self.facts.true or value in self.facts.false:
            return integer(I1, int(value in self.facts.true))
        if value in self.facts.quotients:
            return self._by_quotient(op, value, index)
        if op.name == "ptr_add":
            pointer = element_of(op.operands[0].type)
            assert isinstance(pointer, Pointer)
            return self.advance(self.at(op.operands[0], index), self.offset(op.operands[1], index),
                                pointer.element.bytes)
        return self.apply(op, [self.at(v, index) for v in op.operands])

    def _by_quotient(self, op: Op, value: Value, index: Index) -> Lane:
        """A division or remainder whose quotient is one number in the whole nest."""
        element = element_of(value.type)
        wide = uniform(I64, self.facts.quotients[value])
        quotient = wide if element == I64 else self.narrow(wide, element)
        assert quotient is not None
        if op.name.startswith("div"):
            return quotient
        dividend, divisor = (self.at(v, index) for v in op.operands)
        product = self.mul(quotient, divisor)
        rest = self.add(dividend, product, subtract=True) if product is not None else None
        return rest if rest is not None else self.apply(op, [dividend, divisor])

    def offset(self, value: Value, index: Index) -> Lane:
        """An integer that is added to a pointer, in 64 bits."""
        through = self.kernel.offsets.through(value)
        if element_of(value.type) != I32 or value in through:
            return self._chain(value, index, through)
        # An offset of an element is below 2**30 in magnitude.  So one that wraps while it moves by less than that
        # names no element, whether it wraps or not.
        lane = self.at(value, index)
        near = not lane.is_vector and abs(lane.offset) + abs(lane.stride) * (self.width - 1) < _NEAR
        return self._extended(lane, near)

    def _chain(self, value: Value, index: Index, through: frozenset[Value]) -> Lane:
        """An integer below an offset, in 64 bits: the int32 values `through` do not wrap, all others do."""
        binding = self.kernel.bindings[value]
        trusted = value in through
        if isinstance(binding, Virtual) and (trusted or element_of(value.type) == I64):
            op = binding.op
            if op.name in ("add", "sub", "mul"):
                a, b = (self._chain(v, index, through) for v in op.operands)
                result = self.mul(a, b) if op.name == "mul" else self.add(a, b, op.name == "sub")
                if result is not None:
                    return result
                return vector(I64, self.code.op(op.name, self.full(a), self.full(b)))
            if op.name == "ext_s" and op.operands[0] in through:
                return self._chain(op.operands[0], index, through)
            if op.name == "iota":
                return self.plus(index[0], integer(I64, op.attrs["start"]))
            moved = _moved_index(self, op, index)
            if moved is not None:
                return self._chain(op.operands[0], moved, through)
        return self._extended(self.at(value, index), trusted)

    def _extended(self, lane: Lane, trusted: bool) -> Lane:
        """An integer in 64 bits; `trusted`: its lanes do not wrap."""
        if lane.element == I64:
            return lane
        wide = self.widen(lane, I64, trusted=trusted)
        return wide if wide is not None else vector(
            I64, self.code.cast("sext", self.full(lane), self.full(lane).type.of("i64")))


def _moved_index(e: Evaluator, op: Op, index: Index) -> Index | None:
    """Where a rearrangement of one operand reads it; None for other ops."""
    move = _MOVES.get(op.name)
    return move(e, op, index) if move is not None else None


def _broadcast(e: Evaluator, op: Op, index: Index) -> Index:
    zero = integer(I64, 0)
    return tuple(zero if size == 1 else i for i, size in zip(index, shape_of(op.operands[0].type), strict=True))


def _expand_dims(e: Evaluator, op: Op, index: Index) -> Index:
    axis = op.attrs["axis"]
    return (*index[:axis], *index[axis + 1:])


def _permute(e: Evaluator, op: Op, index: Index) -> Index:
    source = list(index)
    for i, d in enumerate(op.attrs["order"]):
        source[d] = index[i]
    return tuple(source)


def _reshape(e: Evaluator, op: Op, index: Index) -> Index:
    have, want = shape_of(op.operands[0].type), shape_of(op.results[0].type)
    position = flatten(e, index, want)
    return unflatten(e, position, have)


def _slice(e: Evaluator, op: Op, index: Index) -> Index:
    axis = op.attrs["axis"]
    place = e.plus(e.multiply(index[axis], integer(I64, op.attrs["step"])), integer(I64, op.attrs["start"]))
    return (*index[:axis], place, *index[axis + 1:])


def flatten(e: Evaluator, index: Index, shape: Sequence[int]) -> Lane:
    """The row-major position of `index` in `shape`."""
    position = integer(I64, 0)
    for lane, size in zip(index, shape, strict=True):
        position = e.plus(e.multiply(position, integer(I64, size)), lane)
    return position


def unflatten(e: Evaluator, position: Lane, shape: Sequence[int]) -> Index:
    """The index in `shape` of a row-major position."""
    parts: list[Lane] = []
    for size in reversed(shape[1:]):
        position, inside = e.split_index(position, size)
        parts.append(inside)
    return (position, *reversed(parts)) if shape else ()


_MOVES: dict[str, Callable[[Evaluator, Op, Index], Index]] = {
    "broadcast": _broadcast, "expand_dims": _expand_dims, "permute": _permute, "reshape": _reshape,
    "slice": _slice, "hint": lambda e, op, index: index, "splat": lambda e, op, index: (),
}


def _move(e: Evaluator, op: Op, result: int, index: Index) -> Lane:
    return e.at(op.operands[0], _MOVES[op.name](e, op, index))


def _reshape_lane(e: Evaluator, op: Op, result: int, index: Index) -> Lane:
    """A reshape; the rows of a `join` laid side by side are two half vectors, shuffled together."""
    source = e.kernel.bindings[op.operands[0]]
    if not isinstance(source, Virtual) or source.op.name != "join" or e.width == 1:
        return _move(e, op, result, index)
    place = flatten(e, index, shape_of(op.results[0].type))
    if place.form is not Form.AFFINE or place.stride != 1 or (place.multiple | place.offset) % 2:
        return _move(e, op, result, index)
    half = e.half()
    base = e.code.op("lshr", place.value, constant(place.value.type, 1)) \
        if integer_value(place.value) is None else constant(place.value.type, (integer_value(place.value) or 0) // 2)
    at = Lane(I64, Form.AFFINE if half.width > 1 else Form.UNIFORM, base, place.offset // 2, int(half.width > 1),
              max(1, place.multiple // 2), (place.low or 0) // 2, (place.high or 0) // 2)
    parts = source.op.operands
    where = unflatten(half, at, shape_of(parts[0].type))
    a, b = (half.full(half.at(v, where)) for v in parts)
    if half.width == 1:
        both = e.code.insert(LlvmValue(a.type._replace(lanes=2), "poison"), a, 0)
        return vector(element_of(op.results[0].type), e.code.insert(both, b, 1))
    lanes = [k // 2 + (half.width if k % 2 else 0) for k in range(e.width)]
    return vector(element_of(op.results[0].type), e.code.shuffle(a, b, lanes))


def _iota(e: Evaluator, op: Op, result: int, index: Index) -> Lane:
    position = e.plus(index[0], integer(I64, op.attrs["start"]))
    element = element_of(op.results[0].type)
    lane = e.narrow(position, element)
    return lane if lane is not None else vector(
        element, e.code.cast("trunc", position.value, position.value.type.of("i32")))


def _join(e: Evaluator, op: Op, result: int, index: Index) -> Lane:
    a, b = (e.at(v, index[:-1]) for v in op.operands)
    which = index[-1]
    if which.known is not None:
        return b if which.known else a
    odd = vector(I1, e.code.icmp("ne", e.full(which), e.full(integer(I64, 0))))
    return e.select(odd, b, a)


def _split(e: Evaluator, op: Op, result: int, index: Index) -> Lane:
    return e.at(op.operands[0], (*index, integer(I64, result)))


_REARRANGEMENTS: dict[str, Callable[[Evaluator, Op, int, Index], Lane]] = {
    **dict.fromkeys(_MOVES, _move), "reshape": _reshape_lane, "iota": _iota, "join": _join, "split": _split,
}
VIRTUAL_SHAPES = frozenset(_REARRANGEMENTS)


def constant_lane(code: Code, op: Op) -> Lane:
    """The lane of a `constant` op."""
    element, value = op.attrs["type"], op.attrs["value"]
    if isinstance(element, Pointer):
        bits = constant(convert.register_type(I64), value)
        return uniform(element, code.emit(PTR, f"inttoptr {bits} to ptr"))
    if element.is_int:
        return integer(element, int(value))
    t = convert.register_type(element)
    (encoded,) = fp.encode(np.array([value], np.float64), element)
    if t.is_float:
        return uniform(element, constant(t, float(encoded)))
    return uniform(element, constant(t, int(encoded)))


def _program_id(kernel: Kernel, op: Op) -> Lane:
    return _small(kernel, kernel.program[op.attrs["axis"]])


def _num_programs(kernel: Kernel, op: Op) -> Lane:
    return _small(kernel, kernel.context_word(op.attrs["axis"], convert.register_type(I64)))


def _small(kernel: Kernel, value: LlvmValue) -> Lane:
    """A number of programs, which a launch keeps below 2**31, as i32."""
    return Lane(I32, Form.UNIFORM, kernel.code.cast("trunc", value, convert.register_type(I32)), low=0,
                high=(1 << 31) - 1)


_LEAVES: dict[str, Callable[[Kernel, Op], Lane]] = {
    "constant": lambda kernel, op: constant_lane(kernel.code, op),
    "program_id": _program_id, "num_programs": _num_programs,
}
