"""Run-time tests under which a whole tile is simple: a mask that is true everywhere, a `%` that does not wrap.

`assume(kernel, ops)` looks at the virtual ops of a nest and returns facts about them with one scalar condition under
which they hold.  The nest is then written twice: with the facts (contiguous, unmasked) and without.  Bounds are exact
i64 scalars computed from the bounds of indices and from scalars, so the test costs a few scalar instructions a tile.

Bounds pass through sums, differences and products without regard to the width of their type: numbers that are equal
modulo 2**width stay so.  All else (an extension, a minimum, a division, a comparison) sees the number that is left
after wrapping, so there the operands' bounds must fit their type; and no bound may itself leave 64 bits.
Tests: tests/targets/cpu/test_bounds.py.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Iterable

from tilewright.ir.node import Op, Value
from tilewright.ir.types import I1, I64, Scalar, element_of, shape_of
from tilewright.targets.cpu.evaluate import Facts
from tilewright.targets.cpu.lanes import Lane, LaneMath
from tilewright.targets.cpu.state import Kernel, Virtual
from tilewright.targets.llvm.types import I64 as LLVM_I64
from tilewright.targets.llvm.types import Value as LlvmValue
from tilewright.targets.llvm.types import constant, integer_value

Bounds = tuple[LlvmValue, LlvmValue]

# the least and greatest number that an i64 scalar may be, both included
Range = tuple[int, int]

_ANY: Range = (-(1 << 63), (1 << 63) - 1)
_PASSES_BOUNDS = ("splat", "broadcast", "expand_dims", "permute", "reshape", "hint")
MASK_MOVES = ("splat", "broadcast", "expand_dims", "permute", "reshape", "slice", "hint")


class Assumptions:
    """Facts under construction, and the scalar conditions that they need."""

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self.code = kernel.code
        self.facts = Facts()
        self.conditions: list[LlvmValue] = []
        self._bounds: dict[Value, Bounds | None] = {}
        self._ranges: dict[LlvmValue, Range] = {}       # of numbers, where all `conditions` hold

    def bounds(self, value: Value) -> Bounds | None:
        """The least and greatest element of an integer value, as i64 scalars; None if nothing is known."""
        if value not in self._bounds:
            self._bounds[value] = self._find(value)
        return self._bounds[value]

    def _find(self, value: Value) -> Bounds | None:
        element = element_of(value.type)
        if not isinstance(element, Scalar) or not element.is_int or element == I1:
            return None
        binding = self.kernel.bindings[value]
        if isinstance(binding, Lane):
            return self._scalar(binding, element)
        if not isinstance(binding, Virtual):
            return None
        op = binding.op
        if op.name == "iota":
            return constant(LLVM_I64, op.attrs["start"]), constant(LLVM_I64, op.attrs["end"] - 1)
        if op.name in _PASSES_BOUNDS:
            return self.bounds(op.operands[0])
        rule = _RULES.get(op.name)
        if rule is None:
            return None
        parts = [self.bounds(v) for v in op.operands]
        return rule(self, op, [p for p in parts if p is not None]) if None not in parts else None

    def _scalar(self, lane: Lane, element: Scalar) -> Bounds:
        if lane.known is not None:
            exact = constant(LLVM_I64, lane.known)
            return exact, exact
        half = 1 << (element.bits - 1)
        number = self.code.cast("sext", LaneMath(self.code, 1).scalar(lane), LLVM_I64)
        self._note(number, (-half if lane.low is None else lane.low, half - 1 if lane.high is None else lane.high))
        return number, number

    # --- what is known of the numbers themselves

    def range_of(self, number: LlvmValue) -> Range:
        """Between which numbers an i64 scalar lies where all conditions hold."""
        known = integer_value(number)
        return self._ranges.get(number, _ANY) if known is None else (known, known)

    def _note(self, number: LlvmValue, within: Range) -> LlvmValue:
        low, high = self.range_of(number)
        self._ranges[number] = max(low, within[0]), min(high, within[1])
        return number

    def combine(self, name: str, x: LlvmValue, y: LlvmValue) -> LlvmValue | None:
        """The sum, difference or product of two numbers; None if it may leave 64 bits."""
        operation = _EXACT[name]
        results = [operation(p, q) for p in self.range_of(x) for q in self.range_of(y)]
        if min(results) < _ANY[0] or max(results) > _ANY[1]:
            return None
        return self._note(self.code.fold(name, x, y), (min(results), max(results)))

    def extremum(self, name: str, x: LlvmValue, y: LlvmValue) -> LlvmValue:
        """The `smin` or `smax` of two numbers."""
        choose = min if name == "smin" else max
        (a, b), (c, d) = self.range_of(x), self.range_of(y)
        if a == b and c == d:
            return constant(LLVM_I64, choose(a, c))
        number = x if x == y else self.code.binary_intrinsic(name, x, y)
        return self._note(number, (choose(a, c), choose(b, d)))

    def limit(self, b: Bounds, least: int, most: int) -> bool:
        """Suppose that all numbers within `b` lie between `least` and `most`; False if they cannot."""
        conditions = []
        if self.range_of(b[0])[0] < least:
            conditions.append(self.code.fold_icmp("sge", b[0], constant(LLVM_I64, least)))
        if self.range_of(b[1])[1] > most:
            conditions.append(self.code.fold_icmp("sle", b[1], constant(LLVM_I64, most)))
        if not self.suppose(conditions):
            return False
        for number in b:
            self._note(number, (least, most))
        return True

    def fit(self, b: Bounds, element: Scalar) -> bool:
        """Suppose that numbers within `b` did not wrap in `element`."""
        half = 1 << (element.bits - 1)
        return self.limit(b, -half, half - 1)

    # --- suppositions

    def attempt(self, claim: Callable[[], bool]) -> bool:
        """Whether `claim`, which may suppose what it needs, holds; if not, nothing stays supposed."""
        saved = list(self.conditions), dict(self._ranges), dict(self._bounds)
        if claim():
            return True
        self.conditions, self._ranges, self._bounds = saved
        return False

    def suppose(self, conditions: Iterable[LlvmValue]) -> bool:
        """Require `conditions`; False (and nothing required) if one of them can never hold."""
        new = [c for c in conditions if integer_value(c) is None or not integer_value(c)]
        if any(integer_value(c) == 0 for c in new):
            return False
        self.conditions += new
        return True

    def suppose_true(self, mask: Value) -> None:
        """Suppose that every comparison of the conjunction `mask` holds, where that can be tested."""
        binding = self.kernel.bindings[mask]
        if not isinstance(binding, Virtual) or mask in self.facts.true:
            return
        op = binding.op
        if op.name == "and" or op.name in MASK_MOVES:
            for operand in op.operands:
                self.suppose_true(operand)
            return
        if not op.name.startswith("cmp_"):
            return
        if self.attempt(lambda: self._compares(op)):
            self.facts.true.add(mask)

    def _compares(self, op: Op) -> bool:
        """Suppose that a comparison holds everywhere."""
        a, b = (self.bounds(v) for v in op.operands)
        element = element_of(op.operands[0].type)
        if a is None or b is None or not isinstance(element, Scalar):
            return False
        holds = self._holds(op.name, a, b)
        return bool(holds) and self.suppose(holds) and self.fit(a, element) and self.fit(b, element)

    def _holds(self, name: str, a: Bounds, b: Bounds) -> list[LlvmValue]:
        _, relation, *sign = name.split("_")
        if relation in ("gt", "ge"):
            a, b, relation = b, a, {"gt": "lt", "ge": "le"}[relation]
        if relation not in ("lt", "le"):
            return []
        holds = [self.code.fold_icmp("slt" if relation == "lt" else "sle", a[1], b[0])]
        if sign == ["u"]:
            holds.append(self.code.fold_icmp("sge", a[0], constant(LLVM_I64, 0)))
        return holds

    def suppose_quotients(self, ops: Iterable[Op]) -> None:
        """Suppose that divisions and remainders among `ops` have one quotient each."""
        for op in ops:
            if op.name in ("rem_s", "rem_u", "div_s", "div_u") and shape_of(op.results[0].type):
                self.attempt(functools.partial(self.suppose_one_quotient, op))

    def suppose_one_quotient(self, op: Op) -> bool:
        """Suppose that a division or remainder has one quotient in the whole tile."""
        a, b = (self.bounds(v) for v in op.operands)
        value, element = op.results[0], element_of(op.results[0].type)
        if a is None or b is None or b[0] != b[1] or not isinstance(element, Scalar):
            return False
        if integer_value(b[0]) is not None and integer_value(a[0]) is not None and integer_value(a[1]) is not None:
            return False        # known now: the lanes see it by themselves
        most = (1 << (element.bits - 1)) - 1
        code, one, zero = self.code, constant(LLVM_I64, 1), constant(LLVM_I64, 0)
        # the division stands before the test of its operands: it must not trap
        divisor = b[0] if self.range_of(b[0])[0] > 0 else code.select(code.fold_icmp("sgt", b[0], zero), b[0], one)
        low = a[0] if self.range_of(a[0])[0] >= 0 else code.select(code.fold_icmp("sge", a[0], zero), a[0], zero)
        if not (self.limit(b, 1, most) and self.limit(a, 0, most)):
            return False
        first = self._note(code.op("udiv", low, divisor), (0, most))
        if not self.suppose([code.icmp("eq", first, code.op("udiv", a[1], divisor))]):
            return False
        self.facts.quotients[value] = first
        product = code.fold("mul", first, b[0])
        rest = tuple(self._note(code.fold("sub", end, product), (0, most)) for end in a)
        self._bounds[value] = (first, first) if op.name.startswith("div") else (rest[0], rest[1])
        return True

    def condition(self) -> LlvmValue | None:
        """The conjunction of all conditions; None when nothing is supposed that needs a test."""
        total: LlvmValue | None = None
        for c in dict.fromkeys(self.conditions):
            total = c if total is None else self.code.op("and", total, c)
        return total


def is_certain(kernel: Kernel, mask: Value, facts: Facts) -> bool:
    """Whether `mask` is true everywhere where `facts` hold."""
    binding = kernel.bindings[mask]
    if isinstance(binding, Lane):
        return binding.known == 1
    if not isinstance(binding, Virtual):
        return False
    if binding.op.name == "and" or binding.op.name in MASK_MOVES:
        return all(is_certain(kernel, v, facts) for v in binding.op.operands)
    return mask in facts.true


def assume(kernel: Kernel, ops: Iterable[Op]) -> tuple[Facts, LlvmValue | None]:
    """Facts about virtual `ops` (in program order) and what is to be tested for them."""
    found = Assumptions(kernel)
    ops = list(ops)
    found.suppose_quotients(ops)
    for op in ops:
        if op.name in ("load", "store", "atomic_rmw", "atomic_cas"):
            mask = op.operand("mask")
            if mask is not None:
                found.suppose_true(mask)
    return found.facts, found.condition()


def assume_quotients(kernel: Kernel, ops: Iterable[Op]) -> tuple[Facts, LlvmValue | None]:
    """The facts about divisions and remainders alone."""
    found = Assumptions(kernel)
    found.suppose_quotients(ops)
    return found.facts, found.condition()


def _sum(name: str) -> Callable[[Assumptions, Op, list[Bounds]], Bounds | None]:
    def rule(a: Assumptions, op: Op, parts: list[Bounds]) -> Bounds | None:
        (p, q), (r, s) = parts if name == "add" else (parts[0], parts[1][::-1])
        low, high = a.combine(name, p, r), a.combine(name, q, s)
        if low is None or high is None:         # of halves of the type there is a sum
            if not all(a.limit(part, -_HALF, _HALF - 1) for part in parts):
                return None
            low, high = a.combine(name, p, r), a.combine(name, q, s)
        return None if low is None or high is None else (low, high)

    return rule


def _mul(a: Assumptions, op: Op, parts: list[Bounds]) -> Bounds | None:
    """Of products in i64 only those by known factors are taken."""
    element = element_of(op.results[0].type)
    assert isinstance(element, Scalar)
    if element == I64 and all(integer_value(number) is None for part in parts for number in part):
        return None
    found = _products(a, *parts)
    if found is not None:
        return found
    largest = [max(abs(end) for number in part for end in a.range_of(number)) for part in parts]
    if element == I64:      # so far as the known factor lets the other reach
        most = max(1, _ANY[1] // max(1, min(largest)))
        limited = a.limit(parts[largest.index(max(largest))], -most, most)
    else:                   # what did not wrap has an exact product
        limited = all(a.fit(part, element) for part in parts)
    return _products(a, *parts) if limited else None


def _products(a: Assumptions, x: Bounds, y: Bounds) -> Bounds | None:
    products = dict.fromkeys(a.combine("mul", p, q) for p in x for q in y)
    exact = [p for p in products if p is not None]
    if len(exact) != len(products):
        return None
    low = high = exact[0]
    for p in exact[1:]:
        low, high = a.extremum("smin", low, p), a.extremum("smax", high, p)
    return low, high


def _extremum(name: str) -> Callable[[Assumptions, Op, list[Bounds]], Bounds | None]:
    def rule(a: Assumptions, op: Op, parts: list[Bounds]) -> Bounds | None:
        element = element_of(op.results[0].type)
        assert isinstance(element, Scalar)
        if not all(a.fit(part, element) for part in parts):
            return None
        x, y = parts
        return a.extremum(name, x[0], y[0]), a.extremum(name, x[1], y[1])

    return rule


def _ext_s(a: Assumptions, op: Op, parts: list[Bounds]) -> Bounds | None:
    element = element_of(op.operands[0].type)
    assert isinstance(element, Scalar)
    return parts[0] if a.fit(parts[0], element) else None


def _ext_u(a: Assumptions, op: Op, parts: list[Bounds]) -> Bounds | None:
    element = element_of(op.operands[0].type)
    assert isinstance(element, Scalar)
    return parts[0] if a.limit(parts[0], 0, (1 << (element.bits - 1)) - 1) else None


_HALF = 1 << 62
_EXACT: dict[str, Callable[[int, int], int]] = {"add": operator.add, "sub": operator.sub, "mul": operator.mul}
_RULES: dict[str, Callable[[Assumptions, Op, list[Bounds]], Bounds | None]] = {
    "add": _sum("add"), "sub": _sum("sub"), "mul": _mul, "min_s": _extremum("smin"), "max_s": _extremum("smax"),
    "ext_s": _ext_s, "ext_u": _ext_u,
}
