"""Forward analysis over structured control flow: one walk in program order, loops until nothing changes.

An analysis gives a `transfer` for ops without regions, a `join` where values meet, and what is known of parameters and
loop indices.  Facts of loop-carried values start from the initial value alone and only get weaker, by `join` with what
the iteration yields, so a loop ends when facts can weaken finitely often; `widen` makes that so where they cannot.
Used by `alias`, `axis` and `ranges`; tests: tests/analysis.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Sequence
from typing import Generic, TypeVar

from tilewright.ir.node import Block, Op, Value

F = TypeVar("F")

_ROUNDS_BEFORE_WIDENING = 2


class Forward(ABC, Generic[F]):
    """Facts of the values of one function; values that are not `relevant` have none."""

    def __init__(self) -> None:
        self._facts: dict[Value, F] = {}

    @abstractmethod
    def relevant(self, value: Value) -> bool:
        """Whether the analysis says anything of values of this type."""

    @abstractmethod
    def unknown(self, value: Value) -> F:
        """The fact that always holds."""

    @abstractmethod
    def transfer(self, op: Op) -> Sequence[F] | None:
        """Facts of the results of an op without regions; None: unknown."""

    @abstractmethod
    def join(self, a: F, b: F) -> F:
        """What holds of a value that has fact `a` or fact `b`."""

    def index(self, loop: Op) -> F:
        """What holds of the index of a `for`."""
        return self.unknown(loop.regions[0].args[0])

    def carried(self, loop: Op, position: int) -> F | None:
        """What holds of carried value `position` of a `for` in all iterations and after, if that is known at once."""
        return None

    def widen(self, value: Value, old: F, new: F) -> F:
        """A fact weaker than `new`, to end a loop in which `old` became `new`."""
        return new

    def fact(self, value: Value) -> F:
        """What holds of `value`."""
        known = self._facts.get(value)
        return self.unknown(value) if known is None else known

    def set_fact(self, value: Value, fact: F) -> None:
        if self.relevant(value):
            self._facts[value] = fact

    def walk(self, block: Block) -> None:
        """Facts of all values in `block` and below; those of its arguments are set."""
        for op in block.ops:
            if op.regions:
                self._control(op)
            elif op.results:
                self._straight(op)

    def _straight(self, op: Op) -> None:
        """Facts of the results of an op without regions."""
        facts: Sequence[F] | None = None
        asked = False
        for k, result in enumerate(op.results):
            if self.relevant(result):
                if not asked:
                    facts, asked = self.transfer(op), True
                self._facts[result] = self.unknown(result) if facts is None else facts[k]

    def _walk_again(self, block: Block, changed: set[Value]) -> None:
        """`walk` of a block that was walked before, since when the facts of `changed` alone have changed: what does
        not depend on them stays as it is."""
        known = self._facts
        for op in block.ops:
            if not op.regions and changed.isdisjoint(op.operands):
                continue
            before = [known.get(result) for result in op.results]
            if op.regions:
                self._control(op)
            else:
                self._straight(op)
            changed.update(r for r, fact in zip(op.results, before, strict=True) if known.get(r) != fact)

    def _control(self, op: Op) -> None:
        if op.name == "for":
            self._for(op)
        elif op.name == "while":
            self._while(op)
        elif op.name == "if":
            self._if(op)
        else:
            for region in op.regions:
                self._set_all(region.args, [self.unknown(a) for a in region.args])
                self.walk(region)
            self._set_all(op.results, [self.unknown(r) for r in op.results])

    def _set_all(self, values: Sequence[Value], facts: Sequence[F]) -> None:
        for value, fact in zip(values, facts, strict=True):
            self.set_fact(value, fact)

    def _facts_of(self, values: Sequence[Value]) -> list[F]:
        return [self.fact(v) for v in values]

    def _if(self, op: Op) -> None:
        for region in op.regions:
            self.walk(region)
        branches = [self._facts_of(region.terminator.operands) for region in op.regions]
        self._set_all(op.results, [self.join(a, b) for a, b in zip(*branches, strict=True)])

    def _for(self, op: Op) -> None:
        body = op.regions[0]
        carried = body.args[1:]
        self.set_fact(body.args[0], self.index(op))
        self._set_all(carried, self._facts_of(op.operands[3:]))
        known = {}
        for position, arg in enumerate(carried):
            fact = self.carried(op, position) if self.relevant(arg) else None
            if fact is not None:
                known[arg] = fact
                self.set_fact(arg, fact)
        self.walk(body)
        rounds = 0
        while grown := self._flow_back(carried, body.terminator.operands, known.keys(), rounds):
            self._walk_again(body, grown)
            rounds += 1
        self._set_all(op.results, self._facts_of(carried))

    def _while(self, op: Op) -> None:
        before, body = op.regions
        self._set_all(before.args, self._facts_of(op.operands))
        rounds = 0
        growing: Collection[Value] = before.args
        while growing or not rounds:
            self.walk(before)
            passed = self._facts_of(before.terminator.operands[1:])
            self._set_all(body.args, passed)
            self.walk(body)
            growing = self._flow_back(before.args, body.terminator.operands, (), rounds)
            rounds += 1
        self._set_all(op.results, passed)

    def _flow_back(self, carried: Sequence[Value], yielded: Sequence[Value], settled: Collection[Value],
                   rounds: int) -> set[Value]:
        """Joins what an iteration yields into the carried values; those of them that got weaker."""
        grown: set[Value] = set()
        for arg, following in zip(carried, yielded, strict=True):
            if arg in settled or not self.relevant(arg):
                continue
            old = self.fact(arg)
            new = self.join(old, self.fact(following))
            if new != old:
                grown.add(arg)
                self._facts[arg] = new if rounds < _ROUNDS_BEFORE_WIDENING else self.widen(arg, old, new)
        return grown
