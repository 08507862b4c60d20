"""Signed intervals of integers: of a scalar, or of all elements of a tile.

Where exact arithmetic on intervals may leave the type, the result may have wrapped and is taken as anything; so an
interval that is not the whole type also says that the value was computed without wrapping.  i1 counts as 0 and 1.
Sources: constants, `iota`, `program_id` (>= 0), loop bounds; a carried value that grows by a bounded step in a `for`
stays within step times iterations.  Tests: tests/analysis/.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from tilewright.analysis.forward import Forward
from tilewright.ir.node import Function, Op, Value
from tilewright.ir.types import Type, element_of
from tilewright.ir.walk import defining_ops, ops_in


class Interval(NamedTuple):
    """All integers from `low` to `high`, both included."""

    low: int
    high: int

    def __contains__(self, value: object) -> bool:
        return isinstance(value, int) and self.low <= value <= self.high

    def __str__(self) -> str:
        return f"{self.low}..{self.high}"

    def union(self, other: Interval) -> Interval:
        return Interval(min(self.low, other.low), max(self.high, other.high))

    def within(self, other: Interval) -> bool:
        return other.low <= self.low and self.high <= other.high


# CUDA's limit of a grid axis, and what an i32 index can hold: program ids stay below it.
_MAX_PROGRAMS = (1 << 31) - 1


_NO_INTEGER = Interval(0, 0)     # stands for values that have no interval; nothing reads it


_WHOLE = {bits: Interval(0, 1) if bits == 1 else Interval(-(1 << (bits - 1)), (1 << (bits - 1)) - 1)
          for bits in (1, 8, 16, 32, 64)}


def whole(t: Type) -> Interval:
    """All values of an integer type."""
    return _WHOLE[element_of(t).bits]


def _corners(f: Callable[[int, int], int], a: Interval, b: Interval) -> Interval:
    """The hull of a function that is monotone in each argument."""
    values = [f(x, y) for x in (a.low, a.high) for y in (b.low, b.high)]
    return Interval(min(values), max(values))


def _truncated(x: int, y: int) -> int:
    """C's quotient."""
    q = abs(x) // abs(y)
    return q if (x < 0) == (y < 0) else -q


def _div_s(a: Interval, b: Interval) -> Interval:
    """x / 0 is 0, as the row says; division of INT_MIN by -1 leaves the type and is caught there."""
    if 0 not in b:
        return _corners(_truncated, a, b)
    by = [k for k in (b.low, -1, 1, b.high) if k and k in b]
    values = [0, *(_truncated(x, k) for x in a for k in by)]
    return Interval(min(values), max(values))


def _rem_s(a: Interval, b: Interval) -> Interval:
    """x % 0 is x."""
    if 0 in b:
        return Interval(min(a.low, 0), max(a.high, 0))
    most = max(abs(b.low), abs(b.high)) - 1
    return Interval(max(a.low, -most) if a.low < 0 else 0, min(a.high, most) if a.high > 0 else 0)


def _unsigned(rule: Callable[[Interval, Interval], Interval | None]) -> Callable[[Interval, Interval],
                                                                                  Interval | None]:
    """An unsigned op is the signed one where both operands are not negative."""
    return lambda a, b: rule(a, b) if a.low >= 0 and b.low >= 0 else None


def _and(a: Interval, b: Interval) -> Interval | None:
    """A mask that is not negative bounds the result."""
    bounds = [x.high for x in (a, b) if x.low >= 0]
    return Interval(0, min(bounds)) if bounds else None


def _or(a: Interval, b: Interval) -> Interval | None:
    """Neither operand reaches a power of two that the result does not reach."""
    if a.low < 0 or b.low < 0:
        return None
    return Interval(max(a.low, b.low), (1 << max(a.high.bit_length(), b.high.bit_length())) - 1)


def _xor(a: Interval, b: Interval) -> Interval | None:
    if a.low < 0 or b.low < 0:
        return None
    return Interval(0, (1 << max(a.high.bit_length(), b.high.bit_length())) - 1)


def _shift_by_less_than(bits: int, f: Callable[[int, int], int], a: Interval, b: Interval) -> Interval | None:
    return _corners(f, a, b) if b.low >= 0 and b.high < bits else None


_BINARY: dict[str, Callable[[Interval, Interval], Interval | None]] = {
    "add": lambda a, b: Interval(a.low + b.low, a.high + b.high),
    "sub": lambda a, b: Interval(a.low - b.high, a.high - b.low),
    "mul": lambda a, b: _corners(lambda x, y: x * y, a, b),
    "div_s": _div_s, "rem_s": _rem_s, "div_u": _unsigned(_div_s), "rem_u": _unsigned(_rem_s),
    "and": _and, "or": _or, "xor": _xor,
    "min_s": lambda a, b: Interval(min(a.low, b.low), min(a.high, b.high)),
    "max_s": lambda a, b: Interval(max(a.low, b.low), max(a.high, b.high)),
    "min_u": _unsigned(lambda a, b: Interval(min(a.low, b.low), min(a.high, b.high))),
    "max_u": _unsigned(lambda a, b: Interval(max(a.low, b.low), max(a.high, b.high))),
}
_SHIFTS: dict[str, Callable[[int, int], int]] = {
    "shl": lambda x, y: x << y, "shr_s": lambda x, y: x >> y, "shr_u": lambda x, y: x >> y}
# Rows whose result holds elements of the operands at these positions.
_FOLLOWS: dict[str, Sequence[int]] = {
    "splat": (0,), "broadcast": (0,), "expand_dims": (0,), "reshape": (0,), "permute": (0,), "hint": (0,),
    "convert": (0,),
    "split": (0,), "join": (0, 1), "cat": (0, 1), "select": (1, 2), "gather": (0,),
}


class Ranges(Forward[Interval]):
    """Intervals of all integers of one function; `fact(value)` gives one.  `most_programs` as in `Module`."""

    def __init__(self, function: Function, most_programs: int = 0) -> None:
        super().__init__()
        self._most_programs = most_programs or _MAX_PROGRAMS
        self._ops = defining_ops(function.body)
        self.walk(function.body)

    def relevant(self, value: Value) -> bool:
        return element_of(value.type).is_int

    def unknown(self, value: Value) -> Interval:
        element = element_of(value.type)
        return _WHOLE[element.bits] if element.is_int else _NO_INTEGER

    def join(self, a: Interval, b: Interval) -> Interval:
        return a.union(b)

    def widen(self, value: Value, old: Interval, new: Interval) -> Interval:
        """A bound that moves goes to 0, where many stay, and then to the end of the type."""
        limits = whole(value.type)
        low, high = new.low, new.high
        if low < old.low:
            low = 0 if low >= 0 else limits.low
        if high > old.high:
            high = 0 if high <= 0 else limits.high
        return Interval(low, high)

    def index(self, loop: Op) -> Interval:
        lower, upper, step = (self.fact(v) for v in loop.operands[:3])
        limits = whole(loop.operands[0].type)
        if loop.attrs["unsigned"] and (lower.low < 0 or upper.low < 0):
            return limits
        if step.low >= 0:
            return Interval(lower.low, max(lower.low, upper.high - 1))
        if step.high < 0:
            return Interval(min(lower.high, upper.low + 1), lower.high)
        return Interval(min(lower.low, upper.low + 1), max(lower.high, upper.high - 1))

    def most_iterations(self, loop: Op) -> int:
        """No execution of a `for` has more iterations."""
        lower, upper, step = (self.fact(v) for v in loop.operands[:3])
        if loop.attrs["unsigned"] and (lower.low < 0 or upper.low < 0):
            return 1 << element_of(loop.operands[0].type).bits
        if step.low > 0:
            return max(0, -((lower.low - upper.high) // step.low))
        if step.high < 0:
            return max(0, -((upper.low - lower.high) // -step.high))
        return max(0, upper.high - lower.low, lower.high - upper.low)

    def carried(self, loop: Op, position: int) -> Interval | None:
        """x = x + s + ...: within iterations times step, if that fits the type."""
        body = loop.regions[0]
        arg = body.args[1 + position]
        inside = {result for op in ops_in(body) for result in op.results} | set(body.args[1:])
        step = self._step(body.terminator.operands[position], arg, inside)
        if step is None:
            return None
        first, most = self.fact(loop.operands[3 + position]), self.most_iterations(loop)
        reached = Interval(first.low + min(0, step.low * most), first.high + max(0, step.high * most))
        return reached if reached.within(whole(arg.type)) else None

    def _step(self, value: Value, arg: Value, inside: set[Value]) -> Interval | None:
        """By how much `value` exceeds `arg`, if it is a chain of sums that starts from it."""
        total = Interval(0, 0)
        while value is not arg:
            op = self._ops.get(value)
            if op is None or op.name != "add" or value not in inside:
                return None
            links = [i for i, v in enumerate(op.operands) if v is arg or (v in inside and self._is_sum(v))]
            if len(links) != 1:
                return None
            added = self._bound(op.operands[1 - links[0]], inside)
            total = Interval(total.low + added.low, total.high + added.high)
            value = op.operands[links[0]]
        return total

    def _is_sum(self, value: Value) -> bool:
        op = self._ops.get(value)
        return op is not None and op.name == "add"

    def _bound(self, value: Value, inside: set[Value]) -> Interval:
        """What holds of `value` in every iteration.  The walk has yet to come to what is `inside` of the loop."""
        if value not in inside:
            return self.fact(value)
        op = self._ops.get(value)
        if op is not None and op.name == "constant":
            return self.fact_of_constant(op)
        # (an extended flag is 0 or -1, not 0 or 1)
        if op is not None and op.name in ("ext_s", "splat") and element_of(op.operands[0].type).bits > 1:
            return self._bound(op.operands[0], inside)
        return whole(value.type)

    @staticmethod
    def fact_of_constant(op: Op) -> Interval:
        value = int(op.attrs["value"])
        return Interval(value, value)

    def transfer(self, op: Op) -> Sequence[Interval] | None:
        if op.name in _FOLLOWS:
            first, *others = (self.fact(op.operands[i]) for i in _FOLLOWS[op.name])
            for other in others:
                first = first.union(other)
            return [first] * len(op.results)
        found = self._computed(op) if len(op.results) == 1 else None
        return [found] if found is not None and found.within(whole(op.result.type)) else None

    def _computed(self, op: Op) -> Interval | None:
        """The interval of the one result in exact arithmetic; None: anything."""
        if op.name == "constant":
            return self.fact_of_constant(op)
        if op.name == "iota":
            return Interval(op.attrs["start"], op.attrs["end"] - 1)
        if op.name in ("program_id", "block_id"):
            return Interval(0, self._most_programs - 1)
        if op.name in ("num_programs", "num_blocks"):
            return Interval(1, self._most_programs)
        facts = [self.fact(v) for v in op.operands]
        bits = element_of(op.result.type).bits
        if op.name in _BINARY and bits > 1:
            return _BINARY[op.name](*facts)
        if op.name in _SHIFTS:
            if op.name == "shr_u" and facts[0].low < 0:
                return None
            return _shift_by_less_than(bits, _SHIFTS[op.name], *facts)
        return self._cast(op, facts)

    def _cast(self, op: Op, facts: Sequence[Interval]) -> Interval | None:
        if op.name == "trunc" and element_of(op.result.type).bits > 1:
            return facts[0]                 # `transfer` drops it where it does not fit
        if op.name == "ext_u":
            source = element_of(op.operands[0].type)
            return facts[0] if facts[0].low >= 0 else Interval(0, (1 << source.bits) - 1)
        if op.name == "ext_s":
            flag = element_of(op.operands[0].type).bits == 1
            return Interval(-facts[0].high, -facts[0].low) if flag else facts[0]
        if op.name == "abs_s":
            x = facts[0]
            least = 0 if 0 in x else min(abs(x.low), abs(x.high))
            return Interval(least, max(abs(x.low), abs(x.high)))
        return None
