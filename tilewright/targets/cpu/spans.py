"""How far a tile of addresses reaches, as a few scalar instructions.

`Spans.address(pointer)` bounds the byte offsets of a pointer or tile of pointers from the argument that it is based
on, over the lanes on which a mask is true: comparisons in the mask narrow the spans of what they compare, where that
stands at one place of the tile only (`placements`).  The spans hold where all `conditions` do: that what is computed in
32 bits (operands of `%`, of comparisons) has not wrapped, and that nothing left 64 bits.  Sums are of numbers that are
far from that, which is tested where they are made, mostly outside of loops: sums that saturate took twice as many
instructions in a K loop.  Index arithmetic counts as 64-bit chains, as `Evaluator.offset` computes it.  If a span comes
out with low > high, no lane is active.

Before: the pointer and all that it is made from is bound.  Tests: tests/targets/cpu/test_extents.py.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from tilewright.ir.node import Op, Value
from tilewright.ir.types import I1, Pointer, Scalar, element_of
from tilewright.ir.types import I64 as LONG
from tilewright.targets.cpu.lanes import Form, Lane, LaneMath
from tilewright.targets.cpu.placements import in_several_places
from tilewright.targets.cpu.state import Kernel, Virtual
from tilewright.targets.llvm.types import I64, constant, integer_value
from tilewright.targets.llvm.types import Value as LlvmValue

_EXACT = 62         # what is bounded by 2**62 cannot have left 64 bits
_ANY = 63
_ROOMY = 56         # bits of what has to be tested: several sums of such numbers need no further test
_SMALL = 16         # bits of a factor that leaves the other one enough
# i64 scalars are required to lie within 2**40, distances of pointers within 2**47, what user space can address
_NUMBER_BITS, _DISTANCE_BITS = 40, 47
_ALL = -(1 << 63), (1 << 63) - 1

_MOVES = frozenset({"splat", "broadcast", "expand_dims", "permute", "reshape", "hint"})
_POINTER_MOVES = _MOVES | {"bitcast"}


Chain = frozenset[Value]        # the int32 values that are taken without wrapping (`analysis.offsets`)
_NONE: Chain = frozenset()


@dataclass(frozen=True, slots=True)
class Span:
    """From `low` to `high`, both i64 scalars of magnitude at most 2**`bits`."""

    low: LlvmValue
    high: LlvmValue
    bits: int

    @property
    def is_one(self) -> bool:
        """Whether all lanes hold one number."""
        return self.low == self.high


class Spans:
    """Spans under one mask; None stands for what no span is known of."""

    def __init__(self, kernel: Kernel, mask: Value | None, pointer: Value) -> None:
        """Of `pointer`, or of what it is made from."""
        self.kernel = kernel
        self.code = kernel.code
        self._conditions: list[LlvmValue] = []
        self._ranges: dict[LlvmValue, tuple[int, int]] = {}     # of numbers that were narrower
        self._required: dict[LlvmValue, tuple[int, int]] = {}
        self.gates: list[LlvmValue] = []        # no lane is active where one of these i1 scalars is false
        self._narrowed: dict[Value, Span] = {}
        self._ambiguous = in_several_places(kernel, [pointer, mask]) if mask is not None else set()
        self._known: dict[tuple[Value, Chain], Span | None] = {}
        if mask is not None:
            self._under(mask)
            self._known.clear()     # narrower now

    @property
    def conditions(self) -> list[LlvmValue]:
        """The i1 scalars that must be true."""
        ends = []
        for number, (least, most) in self._required.items():
            low, high = self._ranges.get(number, _ALL)
            if least > low:
                ends.append(self.code.fold_icmp("sge", number, constant(I64, least)))
            if most < high:
                ends.append(self.code.fold_icmp("sle", number, constant(I64, most)))
        return [*self._conditions, *ends]

    def require(self, number: LlvmValue, least: int, most: int) -> None:
        """The spans hold only where `number` lies between `least` and `most`."""
        low, high = self._required.get(number, _ALL)
        self._required[number] = max(low, least), min(high, most)

    # --- numbers

    def constant(self, value: int) -> Span:
        number = constant(I64, value)
        return Span(number, number, max(1, abs(value).bit_length()))

    def number(self, value: Value, chain: Chain = _NONE) -> Span | None:
        """The span of an integer; `chain`: as part of an offset with these int32 values."""
        if element_of(value.type) != LONG and value not in chain:
            chain = _NONE
        key = value, chain
        if value in self._narrowed:
            return self._narrowed[value]
        if key not in self._known:
            self._known[key] = self._find(value, chain)
        return self._known[key]

    def _find(self, value: Value, chain: Chain) -> Span | None:
        element = element_of(value.type)
        if not isinstance(element, Scalar) or not element.is_int or element == I1:
            return None
        binding = self.kernel.bindings[value]
        if isinstance(binding, Lane):
            return self._scalar(binding, element, chain)
        if not isinstance(binding, Virtual):
            return None
        op = binding.op
        if op.name == "iota":
            return self.between(op.attrs["start"], op.attrs["end"] - 1)
        if op.name in _MOVES:
            return self.number(op.operands[0], chain)
        if op.name in _CHAINS:
            return self._sum_or_product(op, element, chain)
        rule = _RULES.get(op.name)
        return rule(self, op, chain) if rule is not None else None

    def between(self, low: int, high: int) -> Span:
        """A span with known ends."""
        bits = max(1, abs(low).bit_length(), abs(high).bit_length())
        return Span(constant(I64, low), constant(I64, high), bits)

    def _scalar(self, lane: Lane, element: Scalar, chain: Chain) -> Span:
        if lane.known is not None:
            return self.constant(lane.known)
        if lane.offset and chain and element.bits < 64:
            base = self._extended(lane.value, element)
            return self.add(Span(base, base, element.bits), self.constant(lane.offset))
        number = self._extended(LaneMath(self.code, 1).scalar(lane), element)
        bits = element.bits - 1
        if lane.low is not None and lane.high is not None:
            bits = min(bits, max(1, abs(lane.low).bit_length(), abs(lane.high).bit_length()))
        return self._within(number, bits, _NUMBER_BITS)

    def _extended(self, value: LlvmValue, element: Scalar) -> LlvmValue:
        """In 64 bits."""
        number, half = self.code.cast("sext", value, I64), 1 << (element.bits - 1)
        self._ranges[number] = -half, half - 1
        return number

    def _within(self, number: LlvmValue, bits: int, most: int) -> Span:
        """A run-time number, required to be within 2**`most`."""
        if bits <= most:
            return Span(number, number, bits)
        shifted = self.code.op("add", number, constant(I64, 1 << most))
        self._conditions.append(self.code.icmp("ult", shifted, constant(I64, 2 << most)))
        return Span(number, number, most)

    def _sum_or_product(self, op: Op, element: Scalar, chain: Chain) -> Span | None:
        a, b = (self.number(v, chain) for v in op.operands)
        if a is None or b is None:
            return None
        result = _CHAINS[op.name](self, a, b)
        self.require_fit(result, LONG if op.result in chain else element)
        return result

    def require_fit(self, span: Span, element: Scalar) -> None:
        """The span holds only where no number of it wraps in `element`."""
        if span.bits < element.bits - 1:
            return
        if element == LONG:         # it has saturated: then an end of the type stands there
            least, most = -(1 << 63) + 1, (1 << 63) - 2
        else:
            least, most = -(1 << (element.bits - 1)), (1 << (element.bits - 1)) - 1
        self.require(span.low, least, _ALL[1])
        self.require(span.high, _ALL[0], most)

    # --- arithmetic that stays within 64 bits

    def _limited(self, span: Span, bits: int) -> Span:
        """A span whose ends are within 2**`bits`, or required to be, with room for what is added to them."""
        if span.bits <= bits:
            return span
        bits = min(bits, _ROOMY)
        if span.is_one:
            return self._within(span.low, span.bits, bits)
        self.require(span.low, -(1 << bits), _ALL[1])
        self.require(span.high, _ALL[0], 1 << bits)
        return Span(span.low, span.high, bits)

    def add(self, a: Span, b: Span) -> Span:
        a, b = (self._limited(part, _EXACT - 1) for part in (a, b))
        return self._span("add", a.low, b.low, a.high, b.high, max(a.bits, b.bits) + 1)

    def sub(self, a: Span, b: Span) -> Span:
        a, b = (self._limited(part, _EXACT - 1) for part in (a, b))
        return self._span("sub", a.low, b.high, a.high, b.low, max(a.bits, b.bits) + 1)

    def _span(self, name: str, a: LlvmValue, b: LlvmValue, c: LlvmValue, d: LlvmValue, bits: int) -> Span:
        low = self.code.fold(name, a, b)
        return Span(low, low if (a, b) == (c, d) else self.code.fold(name, c, d), bits)

    def mul(self, a: Span, b: Span) -> Span:
        """Products of numbers of which both are large saturate."""
        if a.bits <= _SMALL:
            b = self._limited(b, _EXACT - a.bits)
        elif b.bits <= _SMALL:
            a = self._limited(a, _EXACT - b.bits)
        bits = a.bits + b.bits
        products: dict[LlvmValue, None] = {}
        for x in (a.low, a.high):
            for y in (b.low, b.high):
                products[self._product(x, y, bits)] = None
        low, high = self.least(products), self.most(products)
        return Span(low, high, min(bits, _ANY))

    def _product(self, a: LlvmValue, b: LlvmValue, bits: int) -> LlvmValue:
        if bits <= _EXACT or 1 in (integer_value(a), integer_value(b)):
            return self.code.fold("mul", a, b)
        return self.code.intrinsic("smul.fix.sat", I64, (a, b, constant(I64.of("i32"), 0)), (I64,))

    def least(self, values: Mapping[LlvmValue, None]) -> LlvmValue:
        """The least of some numbers."""
        return self._extremum(list(values), "smin", min)

    def most(self, values: Mapping[LlvmValue, None]) -> LlvmValue:
        """The greatest of some numbers."""
        return self._extremum(list(values), "smax", max)

    def _extremum(self, values: list[LlvmValue], name: str, fold: Callable[..., int]) -> LlvmValue:
        known = [k for k in map(integer_value, values) if k is not None]
        rest = [v for v in values if integer_value(v) is None]
        result = constant(I64, fold(known)) if known else rest.pop()
        for v in rest:
            result = self.code.binary_intrinsic(name, result, v)
        return result

    def union(self, a: Span, b: Span) -> Span:
        return Span(self.least({a.low: None, b.low: None}), self.most({a.high: None, b.high: None}),
                    max(a.bits, b.bits))

    # --- pointers

    def address(self, pointer: Value, base: Value) -> Span | None:
        """The byte offsets of `pointer` from the parameter `base` that it is based on."""
        if pointer is base:
            return self.constant(0)
        binding = self.kernel.bindings[pointer]
        if isinstance(binding, Lane):
            return self._distance(binding, base) if binding.form is Form.UNIFORM else None
        if not isinstance(binding, Virtual):
            return None
        op = binding.op
        if op.name in _POINTER_MOVES:
            return self.address(op.operands[0], base)
        if op.name == "ptr_add":
            start, offset = self.address(op.operands[0], base), self.number(
                op.operands[1], self.kernel.offsets.through(op.operands[1]))
            if start is None or offset is None:
                return None
            size = element_of(op.operands[0].type)
            assert isinstance(size, Pointer)
            result = self.add(start, self.mul(offset, self.constant(size.element.bytes)))
            self.require_fit(result, LONG)
            return result
        if op.name == "select":
            a, b = (self.address(v, base) for v in op.operands[1:])
            return None if a is None or b is None else self.union(a, b)
        return None

    def _distance(self, lane: Lane, base: Value) -> Span:
        math = LaneMath(self.code, 1)
        here, there = (self.code.cast("ptrtoint", math.scalar(v), I64) for v in (lane, self.kernel.scalar(base)))
        return self._within(self.code.op("sub", here, there), _ANY, _DISTANCE_BITS)

    # --- masks

    def _under(self, mask: Value) -> None:
        """Narrow by what holds where `mask` is true."""
        binding = self.kernel.bindings[mask]
        if isinstance(binding, Lane):
            if binding.form is Form.UNIFORM:
                self.gates.append(LaneMath(self.code, 1).scalar(binding))
            return
        if not isinstance(binding, Virtual):
            return
        op = binding.op
        if (op.name == "and" and element_of(mask.type) == I1) or op.name in _MOVES:
            for operand in op.operands:
                self._under(operand)
        elif op.name in _RELATIONS:
            self._compare(op)

    def _compare(self, op: Op) -> None:
        smaller, greater = op.operands if _RELATIONS[op.name][0] else reversed(op.operands)
        a, b = self.number(smaller), self.number(greater)
        if a is None or b is None:
            return
        strict = _RELATIONS[op.name][1]
        if op.name.endswith("_u"):      # then 0 <= smaller < greater, if greater is not negative
            self.require(b.low, 0, _ALL[1])
            self._at_least(smaller, self.constant(0))
        if not a.is_one:
            self._at_most(smaller, self.sub(b, self.constant(1)) if strict else b)
        if not b.is_one:
            self._at_least(greater, self.add(a, self.constant(1)) if strict else a)

    def _at_most(self, value: Value, bound: Span) -> None:
        """Active lanes of `value` are at most `bound.high`."""
        known = self.number(value)
        if known is None or bound.bits > _EXACT or value in self._ambiguous:
            return
        high = self.least({known.high: None, bound.high: None})
        self._narrowed[value] = Span(known.low, high, max(known.bits, bound.bits))
        self._below(value, bound, self._at_most, self._at_least)

    def _at_least(self, value: Value, bound: Span) -> None:
        """Active lanes of `value` are at least `bound.low`."""
        known = self.number(value)
        if known is None or bound.bits > _EXACT or value in self._ambiguous:
            return
        low = self.most({known.low: None, bound.low: None})
        self._narrowed[value] = Span(low, known.high, max(known.bits, bound.bits))
        self._below(value, bound, self._at_least, self._at_most)

    def _below(self, value: Value, bound: Span, same: Callable[[Value, Span], None],
               opposite: Callable[[Value, Span], None]) -> None:
        """Pass a bound on to what `value` is made from."""
        binding = self.kernel.bindings[value]
        if not isinstance(binding, Virtual):
            return
        op = binding.op
        if op.name in _MOVES or op.name == "ext_s":
            same(op.operands[0], bound)
        elif op.name in ("add", "sub"):
            x, y = op.operands
            a, b = self.number(x), self.number(y)
            if a is None or b is None:
                return
            if op.name == "add":
                if not a.is_one:
                    same(x, self.sub(bound, b))
                if not b.is_one:
                    same(y, self.sub(bound, a))
            else:
                if not a.is_one:
                    same(x, self.add(bound, b))
                if not b.is_one:
                    opposite(y, self.sub(a, bound))


# name -> (whether the first operand is the smaller one, whether they differ)
_RELATIONS: Mapping[str, tuple[bool, bool]] = {
    "cmp_lt_s": (True, True), "cmp_le_s": (True, False), "cmp_gt_s": (False, True), "cmp_ge_s": (False, False),
    "cmp_lt_u": (True, True), "cmp_le_u": (True, False), "cmp_gt_u": (False, True), "cmp_ge_u": (False, False)}


def _by_positive(spans: Spans, op: Op) -> tuple[Span, Span] | None:
    """The operands of a division, the divisor being one number that is required to be positive."""
    a, b = (spans.number(v) for v in op.operands)
    if a is None or b is None or not b.is_one:
        return None
    known = integer_value(b.low)
    if known is not None:
        return (a, b) if known > 0 else None
    one = constant(I64, 1)
    positive = spans.code.fold_icmp("sge", b.low, one)
    spans.require(b.low, 1, _ALL[1])
    divisor = spans.code.select(positive, b.low, one)
    return a, Span(divisor, divisor, b.bits)


def _not_negative(spans: Spans, a: Span) -> None:
    spans.require(a.low, 0, _ALL[1])


def _divide(spans: Spans, op: Op, chain: Chain) -> Span | None:
    parts = _by_positive(spans, op)
    if parts is None:
        return None
    a, b = parts
    if op.name == "div_u":
        _not_negative(spans, a)
    low = spans.code.op("sdiv", a.low, b.low)
    return Span(low, low if a.is_one else spans.code.op("sdiv", a.high, b.low), a.bits)


def _remainder(spans: Spans, op: Op, chain: Chain) -> Span | None:
    """Of numbers that are required not to be negative."""
    parts = _by_positive(spans, op)
    if parts is None:
        return None
    a, b = parts
    _not_negative(spans, a)
    if a.is_one:
        rest = spans.code.op("srem", a.low, b.low)
        return Span(rest, rest, b.bits)
    most = spans.least({a.high: None, spans.sub(b, spans.constant(1)).high: None})
    return Span(constant(I64, 0), most, min(max(a.bits, b.bits) + 1, _ANY))


def _extremum(name: str) -> Callable[[Spans, Op, Chain], Span | None]:
    def rule(spans: Spans, op: Op, chain: Chain) -> Span | None:
        a, b = (spans.number(v) for v in op.operands)
        if a is None or b is None:
            return None
        choose = spans.least if name == "smin" else spans.most
        return Span(choose({a.low: None, b.low: None}), choose({a.high: None, b.high: None}), max(a.bits, b.bits))

    return rule


def _select(spans: Spans, op: Op, chain: Chain) -> Span | None:
    a, b = (spans.number(v) for v in op.operands[1:])
    return None if a is None or b is None else spans.union(a, b)


def _extend(spans: Spans, op: Op, chain: Chain) -> Span | None:
    if element_of(op.operands[0].type) == I1:
        return None
    a = spans.number(op.operands[0], chain if op.name == "ext_s" else _NONE)
    if a is not None and op.name == "ext_u":
        _not_negative(spans, a)
    return a


def _and(spans: Spans, op: Op, chain: Chain) -> Span | None:
    """A known mask that is not negative."""
    for value in op.operands:
        span = spans.number(value)
        known = integer_value(span.low) if span is not None and span.is_one else None
        if known is not None and known >= 0:
            return spans.between(0, known)
    return None


def _shift_left(spans: Spans, op: Op, chain: Chain) -> Span | None:
    a, b = (spans.number(v) for v in op.operands)
    known = integer_value(b.low) if b is not None and b.is_one else None
    element = element_of(op.results[0].type)
    if a is None or known is None or not 0 <= known < 31 or not isinstance(element, Scalar):
        return None
    result = spans.mul(a, spans.constant(1 << known))
    spans.require_fit(result, element)
    return result


_CHAINS: Mapping[str, Callable[[Spans, Span, Span], Span]] = {"add": Spans.add, "sub": Spans.sub, "mul": Spans.mul}
_RULES: Mapping[str, Callable[[Spans, Op, Chain], Span | None]] = {
    "div_s": _divide, "div_u": _divide, "rem_s": _remainder, "rem_u": _remainder, "min_s": _extremum("smin"),
    "max_s": _extremum("smax"), "select": _select, "ext_s": _extend, "ext_u": _extend, "and": _and,
    "shl": _shift_left,
}
