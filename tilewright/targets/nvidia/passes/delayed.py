"""Which product of a loop is begun an iteration late, so that it runs while the next left operand is made.

    before                              after, with copies ahead left out
    for i, acc:                         for i, acc, left (zeros):
        s = dot q, k(i), 0                  s = begin dot q, k(i), 0
        p, f = ... s ...                    sums = begin dot left, v(i - 1), acc
        acc = dot p, v(i), acc * f          p, f = ... wait s ...
                                            acc = wait sums
                                            yield acc * f, p
                                        acc = dot left, v(last), acc

Else the tensor cores rest while p is made, and the threads while it is multiplied.  The first product adds zeros, of
`left` and of v, to what the loop begins with.  What is gained depends on how long the product takes beside what is made
meanwhile, that is on its columns; and `left` needs registers, so that fewer programs may fit on an SM, which loses more
than this gains.  TFLOP/s on an H200, 2026-12-01, without and with it, as many programs fitting: attention with heads of
128, 64 x 64, 451 and 509; 128 x 128, 8 warps, 506 and 519; with heads of 64, 128 x 64, 400 and 393; 64 x 64, 411 and
407; rows scaled before they are multiplied, 128 x 128 x 64, 474 and 488; 64 x 64 x 32, 286 and 275.

Before: the body of a loop that `pipeline` stages.  After: a record; `staged_loop` rebuilds the loop.
Tests: tests/targets/nvidia/test_delayed.py.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from tilewright.ir.layout_rules import layout_of
from tilewright.ir.node import Block, Op, Value
from tilewright.ir.types import Tile
from tilewright.ir.walk import Use
from tilewright.layout.linear import REGISTER
from tilewright.targets.nvidia.registers import most_registers
from tilewright.targets.nvidia.wgmma import BESIDE

LEAST_COLUMNS = 128     # of a product that is delayed
_WORD = 4       # bytes of a register


@dataclass(frozen=True)
class Delayed:
    """A product that is begun an iteration late; `carried` is the place of its sums among the carried values."""

    dot: Op
    carried: int
    load: Op                    # of the right operand
    turns: tuple[Op, ...]       # by which the right operand is made of what is loaded
    between: tuple[Op, ...]     # by which the accumulator is made of what is carried


def delayed_of(body: Block, dots: Sequence[Op], ops: Mapping[Value, Op], uses: Mapping[Value, Sequence[Use]],
               copied: Collection[Op], num_warps: int) -> Delayed | None:
    """The last one of `dots`, all of them products of warpgroups, if its sums go round the loop and its left operand
    is made in it.

    `copied` are the loads that are copied ahead to where these products read them.
    """
    dot = dots[-1]
    turns, load = _loaded(dot.operands[1], ops)
    ends = uses.get(dot.result, ())
    if dot not in body.ops or load not in copied or len(ends) != 1 or ends[0].op is not body.terminator:
        return None
    assert load is not None
    place = ends[0].index
    between = _between(body, body.args[1 + place], dot, uses)
    if between is None or not _is_made(dot.operands[0], body, ops) or not _has_room(dots, num_warps):
        return None
    return Delayed(dot, place, load, turns, between)


def _loaded(value: Value, ops: Mapping[Value, Op]) -> tuple[tuple[Op, ...], Op | None]:
    """The permutations above a value, in order, and the load above these."""
    turns: list[Op] = []
    op = ops.get(value)
    while op is not None and op.name == "permute":
        turns.insert(0, op)
        op = ops.get(op.operands[0])
    return tuple(turns), op if op is not None and op.name == "load" else None


def _between(body: Block, carried: Value, dot: Op, uses: Mapping[Value, Sequence[Use]]) -> tuple[Op, ...] | None:
    """All ops that a carried value goes into; None if that is not only the accumulator of `dot`, by pure ops."""
    found: set[Op] = set()
    work = [carried]
    while work:
        for use in uses.get(work.pop(), ()):
            if use.op is dot and use.index == 2:
                continue
            if use.op not in body.ops or not use.op.row.is_pure or use.op.regions:
                return None
            if use.op not in found:
                found.add(use.op)
                work += use.op.results
    return tuple(op for op in body.ops if op in found)


def _is_made(value: Value, body: Block, ops: Mapping[Value, Op]) -> bool:
    """Whether a value is made in the loop, of something else than a load alone."""
    return value in ops and ops[value] in body.ops and _loaded(value, ops)[1] is None


def _has_room(dots: Sequence[Op], num_warps: int) -> bool:
    """Whether a thread can hold the sums of all products, and the left operand of the last one twice."""
    left = dots[-1].operands[0].type
    assert isinstance(left, Tile)
    words = layout_of(dots[-1].operands[0]).size(REGISTER) * left.element.bytes // _WORD
    sums = sum(layout_of(dot.result).size(REGISTER) for dot in dots)
    return sums + words * (1 if len(dots) > 1 else 2) + BESIDE <= most_registers(num_warps)
