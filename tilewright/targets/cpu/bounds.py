"""Run-time tests under which a whole tile is simple: a mask that is true everywhere, a `%` that does not wrap.

`assume(kernel, ops)` looks at the virtual ops of a nest and returns facts about them with one scalar condition under
which they hold.  The nest is then written twice: with the facts (contiguous, unmasked) and without.  Bounds are exact
i64 scalars computed from the bounds of indices and from scalars, so the test costs a few scalar instructions a tile.
Tests: tests/targets/cpu/test_bounds.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from tilewright.ir.node import Op, Value
from tilewright.ir.types import I1, I64, Scalar, element_of, shape_of
from tilewright.targets.cpu.evaluate import Facts
from tilewright.targets.cpu.lanes import Lane
from tilewright.targets.cpu.state import Kernel, Virtual
from tilewright.targets.llvm.types import I64 as LLVM_I64
from tilewright.targets.llvm.types import Value as LlvmValue
from tilewright.targets.llvm.types import constant, integer_value

Bounds = tuple[LlvmValue, LlvmValue]

_PASSES_BOUNDS = ("splat", "broadcast", "expand_dims", "permute", "reshape", "hint", "ext_s")
MASK_MOVES = ("splat", "broadcast", "expand_dims", "permute", "reshape", "slice", "hint")


class Assumptions:
    """Facts under construction, and the scalar conditions that they need."""

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self.code = kernel.code
        self.facts = Facts()
        self.conditions: list[LlvmValue] = []
        self._bounds: dict[Value, Bounds | None] = {}
        self._in_type: dict[LlvmValue, int] = {}    # numbers that lie in the range of an integer of so many bits

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
            if binding.known is not None:
                exact = constant(LLVM_I64, binding.known)
                return exact, exact
            scalar = self.code.cast("sext", binding.value, LLVM_I64)
            self._in_type[scalar] = element.bits
            whole = self.code.fold("add", scalar, constant(LLVM_I64, binding.offset))
            return whole, whole
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

    def fits(self, b: Bounds, element: Scalar) -> list[LlvmValue]:
        """Conditions under which numbers within `b` did not wrap in `element`."""
        if element == I64:
            return []
        half = 1 << (element.bits - 1)
        low, high = (self._in_type.get(v, I64.bits) <= element.bits for v in b)
        return [*([] if low else [self.code.fold_icmp("sge", b[0], constant(LLVM_I64, -half))]),
                *([] if high else [self.code.fold_icmp("slt", b[1], constant(LLVM_I64, half))])]

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
        a, b = (self.bounds(v) for v in op.operands)
        element = element_of(op.operands[0].type)
        if a is None or b is None or not isinstance(element, Scalar):
            return
        holds = self._holds(op.name, a, b)
        if holds and self.suppose([*holds, *self.fits(a, element), *self.fits(b, element)]):
            self.facts.true.add(mask)

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
                self.suppose_one_quotient(op)

    def suppose_one_quotient(self, op: Op) -> None:
        """Suppose that a division or remainder has one quotient in the whole tile."""
        a, b = (self.bounds(v) for v in op.operands)
        value, element = op.results[0], element_of(op.results[0].type)
        if a is None or b is None or b[0] != b[1] or not isinstance(element, Scalar):
            return
        if integer_value(b[0]) is not None and integer_value(a[0]) is not None and integer_value(a[1]) is not None:
            return      # known now: the lanes see it by themselves
        code, zero = self.code, constant(LLVM_I64, 0)
        positive = code.fold_icmp("sgt", b[0], zero)
        divisor = code.select(positive, b[0], constant(LLVM_I64, 1)) if integer_value(positive) is None else b[0]
        if integer_value(divisor) is not None and (integer_value(divisor) or 0) <= 0:
            return
        low = code.select(code.fold_icmp("sge", a[0], zero), a[0], zero)
        first = code.op("udiv", low, divisor)
        last = code.op("udiv", a[1], divisor)
        if self.suppose([positive, code.fold_icmp("sge", a[0], zero), code.icmp("eq", first, last),
                         *self.fits(a, element)]):
            self.facts.quotients[value] = first
            product = code.fold("mul", first, b[0])
            self._bounds[value] = (first, first) if op.name.startswith("div") else (
                code.fold("sub", a[0], product), code.fold("sub", a[1], product))

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


def _add(a: Assumptions, op: Op, parts: list[Bounds]) -> Bounds:
    x, y = parts
    return a.code.fold("add", x[0], y[0]), a.code.fold("add", x[1], y[1])


def _sub(a: Assumptions, op: Op, parts: list[Bounds]) -> Bounds:
    x, y = parts
    return a.code.fold("sub", x[0], y[1]), a.code.fold("sub", x[1], y[0])


def _mul(a: Assumptions, op: Op, parts: list[Bounds]) -> Bounds | None:
    """Products of i32 numbers are exact in i64; of wider ones only small constant factors are taken."""
    x, y = parts
    if element_of(op.results[0].type) == I64 and integer_value(y[0]) is None and integer_value(x[0]) is None:
        return None
    if x[0] == x[1] and y[0] == y[1]:
        product = a.code.fold("mul", x[0], y[0])
        return product, product
    products = [a.code.fold("mul", p, q) for p in x for q in y]
    known = [integer_value(p) for p in products]
    if None not in known:
        numbers = [k for k in known if k is not None]
        return constant(LLVM_I64, min(numbers)), constant(LLVM_I64, max(numbers))
    low = high = products[0]
    for p in products[1:]:
        low, high = a.code.binary_intrinsic("smin", low, p), a.code.binary_intrinsic("smax", high, p)
    return low, high


def _extremum(name: str) -> Callable[[Assumptions, Op, list[Bounds]], Bounds]:
    return lambda a, op, parts: (a.code.binary_intrinsic(name, parts[0][0], parts[1][0]),
                                 a.code.binary_intrinsic(name, parts[0][1], parts[1][1]))


def _ext_u(a: Assumptions, op: Op, parts: list[Bounds]) -> Bounds | None:
    element = element_of(op.operands[0].type)
    assert isinstance(element, Scalar)
    positive = [a.code.fold_icmp("sge", parts[0][0], constant(LLVM_I64, 0)), *a.fits(parts[0], element)]
    return parts[0] if a.suppose(positive) else None


_RULES: dict[str, Callable[[Assumptions, Op, list[Bounds]], Bounds | None]] = {
    "add": _add, "sub": _sub, "mul": _mul, "min_s": _extremum("smin"), "max_s": _extremum("smax"), "ext_u": _ext_u,
}
