"""Contiguity, divisibility and constancy of all integers and pointers (`axis_info` says what the facts mean).

    %r = program_id                 contiguous 1,  divisible 1
    %s = mul %r, 96                 divisible 32: it may wrap, so of 96 only the power of two is left
    %t = splat %s : tile<96>        constant 96
    %u = iota 0..96                 contiguous 96, divisible 0
    %v = add %t, %u                 contiguous 96, divisible 32

Sources are constants, `iota`, what the launch promises of parameters (`ParamFacts`) and the user's hints.

Integer arithmetic wraps modulo a power of two, which keeps divisibility by powers of two alone; other divisors stay
where `ranges` shows that nothing wraps.  Contiguity is modulo 2**bits.  Where an i32 becomes an i64, a run that crosses
2**31 breaks, so runs are kept as far as they are proved not to.  Where an i32 is added to a pointer they are kept as
they are unless the module is `wide`: no argument reaches that many elements, so no lane that may be accessed has such a
neighbour.  Contiguity of *addresses* therefore speaks of the lanes that lie within the arguments.
Tests: tests/analysis/.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import gcd

from tilewright.analysis import axis_info
from tilewright.analysis.axis_info import AxisInfo, nothing_known, of_scalar, power_of_two_in, stride_of
from tilewright.analysis.axis_rules import RULES, pointwise
from tilewright.analysis.forward import Forward
from tilewright.analysis.ranges import Ranges, whole
from tilewright.ir.node import Function, Module, Op, Value
from tilewright.ir.types import Pointer, element_of


class Axis(Forward[AxisInfo]):
    """Facts of one function of a module (its entry, if none is named); `fact(value)` gives those of a value.

    With `signs` they hold if no dividend and nothing that is shifted right is negative; `assumed` then are the numbers
    that have to be tested at run time.  Indices taken modulo a size are the reason: that program_id * BLOCK does not
    wrap cannot be proved, and nearly always holds.
    """

    def __init__(self, module: Module, function: Function | None = None, signs: bool = False,
                 sure: Axis | None = None) -> None:
        super().__init__()
        self._signs = signs
        self._sure = sure
        self.assumed: set[Value] = set()        # integers that are supposed not to be negative
        self.doubtful: set[Op] = set()          # ops of which more were known if something were not negative
        function = module.entry if function is None else function
        self.ranges: Ranges = Ranges(function, module.most_programs) if sure is None else sure.ranges
        self._wide = module.wide
        for param, facts in zip(function.params, function.param_facts):
            self.set_fact(param, of_scalar(facts.divisible_by, param.type))
        self.walk(function.body)

    @classmethod
    def likely(cls, module: Module, sure: Axis) -> Axis:
        """The facts with `signs` of the entry, whose facts without them are `sure`; the same, if they are no more."""
        return cls(module, signs=True, sure=sure) if sure.doubtful else sure

    def relevant(self, value: Value) -> bool:
        element = element_of(value.type)
        return element.is_int or element.__class__ is Pointer

    def unknown(self, value: Value) -> AxisInfo:
        return nothing_known(value.type)

    def join(self, a: AxisInfo, b: AxisInfo) -> AxisInfo:
        return axis_info.join(a, b)

    def index(self, loop: Op) -> AxisInfo:
        """Lower bound plus a multiple of the step; it never passes the upper bound, so it does not wrap."""
        lower, step = self.fact(loop.operands[0]), self.fact(loop.operands[2])
        return of_scalar(gcd(lower.divisor, step.divisor), loop.operands[0].type)

    def transfer(self, op: Op) -> Sequence[AxisInfo] | None:
        self._op = op
        sure = self._sure
        if sure is not None and op not in sure.doubtful and all(
                self._facts.get(v) == sure._facts.get(v) for v in op.operands):
            return [sure.fact(r) for r in op.results]
        rule = RULES.get(op.name)
        if rule is not None:
            found = rule(self, op)
        elif op.row.elementwise and all(self.relevant(v) for v in op.operands):
            found = pointwise([self.fact(v) for v in op.operands], stride_of(op.result.type))
        else:
            found = None
        return None if found is None else [found] * len(op.results)

    # What the rules ask

    def no_wrap(self, value: Value) -> bool:
        """Whether `value` was computed without wrapping: its interval is not the whole type (`ranges`)."""
        return self.ranges.fact(value) != whole(value.type)

    def not_negative(self, value: Value) -> bool:
        if self.ranges.fact(value).low >= 0:
            return True
        if self._signs:
            self.assumed.add(value)
        else:
            self.doubtful.add(self._op)
        return self._signs

    def bounds(self, value: Value) -> tuple[int, int]:
        """Least and greatest value."""
        interval = self.ranges.fact(value)
        return interval.low, interval.high

    def widened_runs(self, value: Value, as_unsigned: bool) -> tuple[int, ...]:
        """Contiguity of an integer behind its extension; `as_unsigned`: it is a zero extension of what may be negative.

        A run that is no multiple of a power of two apart from the wrap may cross it; runs of a power of two that
        start at a multiple of it do not.
        """
        fact = self.fact(value)
        if self.no_wrap(value) and not as_unsigned:
            return fact.contiguity
        return tuple(c if g == 0 else gcd(c, power_of_two_in(g))
                     for c, g in zip(fact.contiguity, fact.divisibility, strict=True))

    def address_runs(self, offset: Value) -> tuple[int, ...]:
        """Contiguity of an offset as part of an address."""
        if not self._wide or element_of(offset.type).bits == 64:
            return self.fact(offset).contiguity
        return self.widened_runs(offset, False)
