"""Regions that give one of their two sides: what decides, and the few comparisons that say it.

The region of an argmax asks half a dozen questions (greater, equal, is either a NaN, which index is smaller) to choose
a side, and a thread asks them for each pair.  Here the condition is read as a table: for each way in which two numbers
can be related, and two indices, is the left side taken?  From the table come the fewest instructions that give it, and
what is known besides (the left index is the smaller one) makes it smaller still.
Before: a region of a `reduce` or `scan`.  Tests: tests/targets/nvidia/test_picks.py.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import product

from tilewright.ir.node import Block, Op, Value
from tilewright.ir.types import F32, F64, Scalar, shape_of
from tilewright.targets.llvm.types import I1, constant
from tilewright.targets.llvm.types import Value as LlvmValue
from tilewright.targets.nvidia.state import Kernel

# How a number is related to another: less, equal, greater, only the left one a NaN, only the right one, both.
LESS, EQUAL, GREATER, LEFT_NAN, RIGHT_NAN, BOTH_NAN = RELATIONS = range(6)
_OF_INTEGERS = RELATIONS[:3]
_TURNED = {LESS: GREATER, GREATER: LESS, EQUAL: EQUAL, LEFT_NAN: RIGHT_NAN, RIGHT_NAN: LEFT_NAN, BOTH_NAN: BOTH_NAN}
_NANS = frozenset({LEFT_NAN, RIGHT_NAN, BOTH_NAN})
_HOLDS = {"eq": {EQUAL}, "lt": {LESS}, "le": {LESS, EQUAL}, "gt": {GREATER}, "ge": {GREATER, EQUAL},
          "ne": {LESS, GREATER}}
Set = frozenset[int]


@dataclass(frozen=True)
class Pick:
    """A region that takes the left side of operand numbers `first` and `second` (None: only one is compared) in the
    relations of `table`: pairs of a relation of the first operand's sides and one of the second's."""

    first: int
    second: int | None
    table: frozenset[tuple[int, int]]
    floats: tuple[bool, bool]
    unsigned: tuple[bool, bool]

    def taken(self, relation: int) -> Set:
        """The relations of the first operand in which the left side is taken, for one of the second."""
        return frozenset(a for a, b in self.table if b == relation)

    @property
    def is_symmetric(self) -> bool:
        """Whether exchanging the sides takes the same one, where the second operand's sides differ."""
        sides = (product(RELATIONS if self.floats[0] else _OF_INTEGERS, (LESS, GREATER)))
        return self.second is not None and not self.floats[1] and all(
            ((a, b) in self.table) != ((_TURNED[a], _TURNED[b]) in self.table) for a, b in sides)


def pick_of(region: Block) -> Pick | None:
    """What a region is, if it gives the left or the right side by comparisons of one or two operands' sides."""
    count = len(region.args) // 2
    made = {op.result: op for op in region.ops if len(op.results) == 1}
    ends = [made.get(v) for v in region.terminator.operands]
    if not ends or any(op is None or op.name != "select" for op in ends):
        return None
    conditions = {op.operands[0] for op in ends if op is not None}
    straight = [op.operands[1:] == (region.args[k], region.args[count + k]) for k, op in enumerate(ends) if op]
    turned = [op.operands[1:] == (region.args[count + k], region.args[k]) for k, op in enumerate(ends) if op]
    if len(conditions) != 1 or not (all(straight) or all(turned)):
        return None
    reader = _Reader(region, made)
    (condition,) = conditions
    return reader.pick(condition, all(turned))


class _Reader:
    """The condition of one region, read as a table."""

    def __init__(self, region: Block, made: Mapping[Value, Op]) -> None:
        self._made, self._count = made, len(region.args) // 2
        self._place = {arg: k for k, arg in enumerate(region.args)}
        self._signs: dict[int, set[str]] = {}

    def pick(self, condition: Value, turned: bool) -> Pick | None:
        if not self._reads(condition):
            return None
        operands = sorted(self._signs, key=lambda k: not self._is_float(k))
        if not 1 <= len(operands) <= 2 or any(len(signs - {""}) > 1 for signs in self._signs.values()):
            return None
        ways = [RELATIONS if self._is_float(k) else _OF_INTEGERS for k in operands]
        table = {(way[0], way[1] if len(way) == 2 else EQUAL) for way in product(*ways)
                 if self._value(condition, dict(zip(operands, way, strict=True))) != turned}
        first, second = operands[0], operands[1] if len(operands) == 2 else None
        both = [k for k in (first, second) if k is not None]
        floats = [self._is_float(k) for k in both] + [False]
        unsigned = ["u" in self._signs[k] for k in both] + [False]
        return Pick(first, second, frozenset(table), (floats[0], floats[1]), (unsigned[0], unsigned[1]))

    def _is_float(self, operand: int) -> bool:
        arg = next(a for a, k in self._place.items() if k == operand)
        return isinstance(arg.type, Scalar) and arg.type.is_float

    def _reads(self, value: Value) -> bool:
        """Whether all that decides is comparisons of sides; notes whose, and with which sign."""
        op = self._made.get(value)
        if op is None:
            return False
        if op.name == "constant":
            return True
        if op.name in ("and", "or", "xor", "select"):
            return all(self._reads(v) for v in op.operands)
        if not op.name.startswith("cmp_") or not all(v in self._place for v in op.operands):
            return False
        a, b = (self._place[v] % self._count for v in op.operands)
        t = op.operands[0].type
        if a != b or not isinstance(t, Scalar) or (t.is_float and t not in (F32, F64)):
            return False
        self._signs.setdefault(a, set()).add(op.name[-1] if op.name[-2:] in ("_s", "_u") else "")
        return True

    def _value(self, value: Value, relations: Mapping[int, int]) -> bool:
        op = self._made[value]
        if op.name == "constant":
            return bool(op.attrs["value"])
        if op.name.startswith("cmp_"):
            return self._compared(op, relations)
        operands = [self._value(v, relations) for v in op.operands]
        if op.name == "select":
            return operands[1] if operands[0] else operands[2]
        return {"and": all(operands), "or": any(operands), "xor": operands[0] != operands[-1]}[op.name]

    def _compared(self, op: Op, relations: Mapping[int, int]) -> bool:
        left, right = (self._place[v] for v in op.operands)
        relation = relations[left % self._count]
        if left == right:
            is_nan = relation == BOTH_NAN or relation == (LEFT_NAN if left < self._count else RIGHT_NAN)
            relation = BOTH_NAN if is_nan else EQUAL
        elif left > right:
            relation = _TURNED[relation]
        name = op.name[4:].removesuffix("_s").removesuffix("_u")
        if name in ("une", "oeq", "olt", "ole", "ogt", "oge"):
            return relation in _HOLDS[name[1:]] or (name[0] == "u" and relation in _NANS)
        return relation in _HOLDS[name]


# --- comparisons that say whether a relation is one of some


@dataclass(frozen=True)
class _Test:
    """An instruction's predicate, of both sides (""), or of one with itself."""

    predicate: str
    of: str = ""


def _tests() -> Iterator[tuple[_Test, Set]]:
    for name, holds in _HOLDS.items():
        ordered = "one" if name == "ne" else "o" + name
        yield _Test(ordered), frozenset(holds)
        yield _Test("u" + name), frozenset(holds) | _NANS
    yield _Test("ord"), frozenset(_OF_INTEGERS)
    yield _Test("uno"), _NANS
    for side, own in (("left", LEFT_NAN), ("right", RIGHT_NAN)):
        yield _Test("une", side), frozenset({own, BOTH_NAN})
        yield _Test("oeq", side), frozenset(RELATIONS) - {own, BOTH_NAN}


_FLOATS = tuple(_tests())


@lru_cache(maxsize=256)
def _plan(wanted: Set) -> tuple[tuple[str, _Test], ...] | None:
    """Tests, each with how it joins those before it, that together hold in just the `wanted` relations."""
    for test, holds in _FLOATS:
        if holds == wanted:
            return (("", test),)
    for (a, in_a), (b, in_b) in product(_FLOATS, _FLOATS):
        for how, both in (("and", in_a & in_b), ("or", in_a | in_b)):
            if both == wanted:
                return (("", a), (how, b))
    return None


class Region:
    """The region of a `reduce` or `scan` as code combines two elements with it.

    With `ordered` the left side always comes before the right one along the axis (behind it, if `reverse`): where the
    second operand is known to rise along it, nobody compares its sides.
    """

    def __init__(self, kernel: Kernel, op: Op, ordered: bool = False, reverse: bool = False) -> None:
        self.block = op.regions[0]
        self._kernel, self._pick = kernel, pick_of(self.block)
        second = self._pick.second if self._pick is not None else None
        self.rises = second is not None and _rises(kernel, op, second)
        self._known = (GREATER if reverse else LESS) if ordered and self.rises else None

    @property
    def is_symmetric(self) -> bool:
        """Whether exchanging two elements gives the same one of them."""
        return self.rises and self._pick is not None and self._pick.is_symmetric

    def combine(self, left: Sequence[LlvmValue], right: Sequence[LlvmValue]) -> list[LlvmValue]:
        """What the region gives for two elements."""
        flag = None if self._pick is None else self._condition(self._pick, left, right)
        if flag is None:
            return self._kernel.combine(self.block, [*left, *right])
        if isinstance(flag, bool):
            return list(left if flag else right)
        return [self._kernel.code.select(flag, a, b) for a, b in zip(left, right, strict=True)]

    def _condition(self, pick: Pick, left: Sequence[LlvmValue], right: Sequence[LlvmValue]) -> LlvmValue | bool | None:
        """Whether the left side is taken; None if no few comparisons say it."""
        less, equal, greater = (pick.taken(r) for r in (LESS, EQUAL, GREATER))
        if pick.second is None:
            return self._among(pick, equal, left, right)
        if pick.floats[1]:
            return None
        if self._known is not None:
            return self._among(pick, pick.taken(self._known), left, right)
        if less == equal == greater:
            return self._among(pick, less, left, right)
        few, many = sorted((less, greater), key=len)
        if not few <= many or equal not in (few, many):
            return None
        wide, narrow = self._among(pick, many, left, right), self._among(pick, few, left, right)
        if wide is None or narrow is None:
            return None
        predicate = {(True, False): "lt", (True, True): "le", (False, False): "gt", (False, True): "ge"}[
            many == less, equal == many]
        tie = self._kernel.code.icmp(("u" if pick.unsigned[1] else "s") + predicate, left[pick.second],
                                     right[pick.second])
        return self._joined("or", narrow, self._joined("and", tie, wide))

    def _joined(self, how: str, a: LlvmValue | bool, b: LlvmValue | bool) -> LlvmValue | bool:
        if isinstance(a, bool) or isinstance(b, bool):
            known, other = (a, b) if isinstance(a, bool) else (b, a)
            return known if known == (how == "or") else other
        return self._kernel.code.op(how, a, b)

    def _among(self, pick: Pick, wanted: Set, left: Sequence[LlvmValue],
               right: Sequence[LlvmValue]) -> LlvmValue | bool | None:
        """Whether the first operand's sides are related in one of the `wanted` ways."""
        code = self._kernel.code
        a, b = left[pick.first], right[pick.first]
        if not pick.floats[0]:
            if len(wanted) in (0, 3):
                return bool(wanted)
            name = next(n for n, holds in _HOLDS.items() if holds == wanted)
            sign = "" if name in ("eq", "ne") else "u" if pick.unsigned[0] else "s"
            return code.icmp(sign + name, a, b)
        if len(wanted) in (0, len(RELATIONS)):
            return bool(wanted)
        plan = _plan(wanted)
        if plan is None:
            return None
        flag = constant(I1, 0)
        for how, test in plan:
            x, y = {"": (a, b), "left": (a, a), "right": (b, b)}[test.of]
            found = code.fcmp(test.predicate, x, y)
            flag = code.op(how, found, flag) if how else found
        return flag


def _rises(kernel: Kernel, op: Op, operand: int) -> bool:
    """Whether an operand of `op` grows by one from element to element along the axis, without wrapping round: runs that
    begin at a multiple of a power of two no shorter than they are do not."""
    value, axis = op.operands[operand], op.attrs["axis"]
    size, fact = shape_of(value.type)[axis], kernel.axis.fact(value)
    run, first = fact.contiguity[axis], fact.divisibility[axis]
    return bool(run % size == 0 and first % (1 << (size - 1).bit_length()) == 0)
