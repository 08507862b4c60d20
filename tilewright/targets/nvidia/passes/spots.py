"""How the layout of one value follows from that of another, by shape operations: chains of steps.

Tests: tests/targets/nvidia/test_assign.py.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass

from tilewright.ir.layout_rules import grown_dims
from tilewright.ir.node import Op
from tilewright.layout import Layout, views
from tilewright.targets.nvidia.passes.assignment import operand_layout, result_layout


class Way(enum.Enum):
    """What a step leads to."""

    RESULT = "the result of a shape op, from its operand"
    OPERAND = "what a shape op needs of its operand, from its result"
    SLICED = "the result of a reduction"
    JOINED = "the result of a join"
    HALVED = "the results of a split"
    FIXED = "one layout, whatever it comes from"


@dataclass(frozen=True)
class Step:
    way: Way
    op: Op
    layout: Layout | None = None    # of a fixed step

    def apply(self, given: Layout) -> Layout:
        if self.way is Way.RESULT:
            return result_layout(self.op, given)
        if self.way is Way.OPERAND:
            return operand_layout(self.op, 0, given)
        if self.way is Way.SLICED:
            return views.sliced(given, self.op.attrs["axis"])
        if self.way is Way.FIXED:
            assert self.layout is not None
            return self.layout
        return views.joined(given) if self.way is Way.JOINED else views.halved(given)

    def undo(self, wanted: Layout) -> Layout | None:
        """What gives `wanted`, or nearly so; None where that is not known."""
        if self.way is Way.RESULT:
            return operand_layout(self.op, 0, wanted)
        if self.way is Way.OPERAND and not (self.op.name == "broadcast" and grown_dims(self.op)):
            return result_layout(self.op, wanted)
        if self.way is Way.JOINED:
            return views.halved(wanted) if views.split_register(wanted) is not None else None
        return views.joined(wanted) if self.way is Way.HALVED else None


Chain = tuple[Step, ...]


def applied(chain: Chain, layout: Layout) -> Layout:
    for step in chain:
        layout = step.apply(layout)
    return layout


def undone(chain: Chain, layout: Layout) -> Layout | None:
    """A layout that the chain leads to `layout`, or near it."""
    found: Layout | None = layout
    for step in reversed(chain):
        found = None if found is None else step.undo(found)
    return found


def inverse(chain: Chain) -> Chain:
    """The way back, of a chain of shape ops that repeat nothing."""
    other = {Way.RESULT: Way.OPERAND, Way.OPERAND: Way.RESULT}
    return tuple(Step(other[step.way], step.op) for step in reversed(chain))


def joined_chain(first: Chain, then: Chain) -> Chain:
    """One after the other; a step and the way back cancel."""
    while first and then and inverse_of(first[-1]) == then[0]:
        first, then = first[:-1], then[1:]
    return first + then


def inverse_of(step: Step) -> Step | None:
    return inverse((step,))[0] if step.way in (Way.RESULT, Way.OPERAND) else None
