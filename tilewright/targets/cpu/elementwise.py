"""Elementwise rows on lanes: integers stay scalar and affine where they can, all else follows the row's rule.

`Elementwise.apply(op, lanes)` is the only place where an elementwise row becomes code.  The rule of a row is in
`targets.llvm.elementwise`: the row's own template, or a function.
Before: one lane an operand.  After: the result's lane.
Tests: tests/targets/cpu/test_rules.py.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tilewright.ir.node import Op
from tilewright.ir.types import F32, I1, Element, Scalar, element_of
from tilewright.targets.cpu.lanes import Form, Lane, LaneMath, integer, uniform, vector
from tilewright.targets.llvm import convert
from tilewright.targets.llvm.convert import is_narrow_float
from tilewright.targets.llvm.elementwise import narrow, rule_of
from tilewright.targets.llvm.types import Value, constant


class Elementwise(LaneMath):
    """Elementwise rows at one width."""

    def apply(self, op: Op, lanes: Sequence[Lane]) -> Lane:
        """The result of an elementwise op on `lanes`."""
        shortcut = _SHORTCUTS.get(op.name)
        if shortcut is not None:
            lane = shortcut(self, op, lanes)
            if lane is not None:
                return lane
        element = element_of(op.results[0].type)
        if op.name == "div_f" and not lanes[0].is_uniform and lanes[1].is_uniform and self._may_multiply(element):
            return vector(element, self._by_reciprocal(element, self.full(lanes[0]), self.scalar(lanes[1])))
        if all(lane.is_uniform for lane in lanes):
            return uniform(element, rule_of(op)(self.code, op, [self.scalar(lane) for lane in lanes]))
        return vector(element, rule_of(op)(self.code, op, [self.full(lane) for lane in lanes]))

    @staticmethod
    def _may_multiply(element: Element) -> bool:
        """Whether `div_f`, whose bound is 2 ulp, may multiply by a rounded reciprocal in f32: off by 1.5 ulp."""
        return element == F32 or is_narrow_float(element)

    def _by_reciprocal(self, element: Element, dividend: Value, divisor: Value) -> Value:
        """A vector divided by one number.

        A division takes as long as 8 to 32 multiplications (Intel and AMD, vdivps of 512 bits).  A divisor whose
        reciprocal is no normal number is scaled by a power of two first, as the dividend is then; that rounds nothing
        unless the quotient rounds to 0 or infinity anyway.
        """
        assert isinstance(element, Scalar)
        code = self.code
        x, d = (convert.widen(code, v, element) for v in (dividend, divisor))
        size, one = code.unary_intrinsic("fabs", d), constant(d.type, 1.0)
        large = code.fcmp("ogt", size, constant(d.type, 2.0**126))
        small = code.fcmp("olt", size, constant(d.type, 2.0**-126))
        power = code.select(large, constant(d.type, 2.0**-24), code.select(small, constant(d.type, 2.0**24), one))
        reciprocal = code.op("fdiv", one, code.op("fmul", d, power))
        scaled = code.op("fmul", x, code.splat(power, self.width))
        return narrow(code, code.op("fmul", scaled, code.splat(reciprocal, self.width)), element)

    def select(self, condition: Lane, a: Lane, b: Lane) -> Lane:
        """`a` where `condition`, else `b`."""
        if condition.known is not None:
            return a if condition.known else b
        if condition.is_uniform and a.is_uniform and b.is_uniform:
            value = self.code.select(self.scalar(condition), self.scalar(a), self.scalar(b))
            return uniform(a.element, value)
        return vector(a.element, self.code.select(self.full(condition), self.full(a), self.full(b)))

    def compare(self, predicate: str, a: Lane, b: Lane) -> Lane:
        """An integer comparison."""
        if a.is_uniform and b.is_uniform:
            return uniform(I1, self.code.icmp(predicate, self.scalar(a), self.scalar(b)))
        return vector(I1, self.code.icmp(predicate, self.full(a), self.full(b)))

    def both(self, a: Lane, b: Lane) -> Lane:
        """The conjunction of two masks."""
        if a.known is not None:
            return b if a.known else a
        if b.known is not None:
            return a if b.known else b
        if a.is_uniform and b.is_uniform:
            return uniform(I1, self.code.op("and", self.scalar(a), self.scalar(b)))
        return vector(I1, self.code.op("and", self.full(a), self.full(b)))


def _and(e: Elementwise, op: Op, lanes: Sequence[Lane]) -> Lane | None:
    """Masks; and the low bits of a number that is not negative, which are a remainder."""
    if lanes[0].element == I1:
        return e.both(*lanes)
    for number, bits in (lanes, reversed(lanes)):
        if bits.known is not None and bits.known >= 0 and bits.known & (bits.known + 1) == 0:
            parts = e.divide(number, bits.known + 1)
            return None if parts is None else parts[1]
    return None


def _shift_left(e: Elementwise, op: Op, lanes: Sequence[Lane]) -> Lane | None:
    amount = lanes[1].known
    if amount is None or not 0 <= amount < lanes[0].element.bits - 1:
        return None
    return e.mul(lanes[0], integer(lanes[0].element, 1 << amount))


def _shift_right(e: Elementwise, op: Op, lanes: Sequence[Lane]) -> Lane | None:
    amount = lanes[1].known
    if amount is None or not 0 <= amount < lanes[0].element.bits - 1:
        return None
    parts = e.divide(lanes[0], 1 << amount)
    return None if parts is None else parts[0]


def _bool_or(e: Elementwise, op: Op, lanes: Sequence[Lane]) -> Lane | None:
    if lanes[0].element != I1:
        return None
    for a, b in (lanes, reversed(lanes)):
        if a.known is not None:
            return a if a.known else b
    return None


def _extend(signed: bool) -> Callable[[Elementwise, Op, Sequence[Lane]], Lane | None]:
    return lambda e, op, lanes: e.widen(lanes[0], element_of(op.results[0].type), signed)


def _divide(quotient: bool) -> Callable[[Elementwise, Op, Sequence[Lane]], Lane | None]:
    def shortcut(e: Elementwise, op: Op, lanes: Sequence[Lane]) -> Lane | None:
        divisor = lanes[1].known
        if divisor is None or lanes[0].form is Form.VECTOR:
            return None
        parts = e.divide(lanes[0], divisor)
        return None if parts is None else parts[0 if quotient else 1]

    return shortcut


_SHORTCUTS: dict[str, Callable[[Elementwise, Op, Sequence[Lane]], Lane | None]] = {
    "add": lambda e, op, lanes: e.add(lanes[0], lanes[1]),
    "sub": lambda e, op, lanes: e.add(lanes[0], lanes[1], subtract=True),
    "mul": lambda e, op, lanes: e.mul(*lanes),
    "and": _and,
    "shl": _shift_left,
    "shr_s": _shift_right,
    "shr_u": _shift_right,
    "or": _bool_or,
    "ext_s": _extend(True),
    "ext_u": _extend(False),
    "trunc": lambda e, op, lanes: e.narrow(lanes[0], element_of(op.results[0].type)),
    "div_s": _divide(True),
    "div_u": _divide(True),
    "rem_s": _divide(False),
    "rem_u": _divide(False),
    "select": lambda e, op, lanes: e.select(*lanes),
}
