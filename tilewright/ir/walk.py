"""Walks over IR: ops nested in a block, definitions, uses, free values, and where a value is visible.

Values carry no owner and no list of uses (`ir.node`), so what a pass needs of them is computed here, in one linear
walk over the block it works on.  Nothing here changes IR.
Tests: tests/ir/test_walk.py.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tilewright.ir.node import Block, Op, Value
from tilewright.ir.ops.table import Effect


def ops_in(block: Block) -> Iterator[Op]:
    """Every op of `block` and of the regions below it, an op before what is nested in it, in program order."""
    for op in block.ops:
        yield op
        for region in op.regions:
            yield from ops_in(region)


def blocks_in(block: Block) -> Iterator[Block]:
    """`block` and every region below it, outer before inner."""
    yield block
    for op in block.ops:
        for region in op.regions:
            yield from blocks_in(region)


def is_isolated(op: Op) -> bool:
    """Whether the regions of `op` see nothing but their own arguments.

    So it is for combine regions (`reduce`): they run on elements, many at once, while a value from outside has the
    shape of the program.  Regions of control flow (`for`, `while`, `if`) see all values of the blocks around them.
    """
    return bool(op.regions) and not op.row.effects & Effect.NESTED


@dataclass(frozen=True, slots=True)
class Definition:
    """Where a value comes from: result `index` of `op`, or argument `index` of `block` (`op`: the block's owner)."""

    index: int
    op: Op | None
    block: Block | None = None

    @property
    def is_argument(self) -> bool:
        return self.block is not None


def definitions(block: Block, owner: Op | None = None) -> dict[Value, Definition]:
    """Every value that `block` and the regions below it define; a function's body has no owner."""
    found: dict[Value, Definition] = {}
    _collect_definitions(block, owner, found)
    return found


def _collect_definitions(block: Block, owner: Op | None, found: dict[Value, Definition]) -> None:
    for index, arg in enumerate(block.args):
        found[arg] = Definition(index, owner, block)
    for op in block.ops:
        for index, result in enumerate(op.results):
            found[result] = Definition(index, op)
        for region in op.regions:
            _collect_definitions(region, op, found)


def carried_sources(op: Op, definition: Definition) -> Iterator[Value]:
    """What control flow passes on to a result of `op`, or to an argument of its regions; of a loop's index nothing."""
    index = definition.index
    if op.name == "for":
        position = index - 1 if definition.is_argument else index
        if position >= 0:
            yield op.operands[3 + position]
            yield op.regions[0].terminator.operands[position]
    elif op.name == "while":
        before, body = op.regions
        if definition.block is before:
            yield op.operands[index]
            yield body.terminator.operands[index]
        else:
            yield before.terminator.operands[1 + index]
    elif op.name == "if" and not definition.is_argument:
        yield from (region.terminator.operands[index] for region in op.regions)


def defining_ops(block: Block) -> dict[Value, Op]:
    """The op of every op result in `block` and below; block arguments are not in it."""
    return {result: op for op in ops_in(block) for result in op.results}


@dataclass(frozen=True, slots=True)
class Use:
    """Operand `index` of `op`."""

    op: Op
    index: int


def uses(block: Block) -> dict[Value, list[Use]]:
    """All uses in `block` and below, in program order; a value without a use is not in it."""
    found: dict[Value, list[Use]] = {}
    for op in ops_in(block):
        for index, operand in enumerate(op.operands):
            found.setdefault(operand, []).append(Use(op, index))
    return found


def use_counts(block: Block) -> dict[Value, int]:
    """How many operands in `block` and below name each value."""
    counts: dict[Value, int] = {}
    for op in ops_in(block):
        for operand in op.operands:
            counts[operand] = counts.get(operand, 0) + 1
    return counts


def free_values(block: Block) -> tuple[Value, ...]:
    """Values that `block` uses and does not define, in the order of their first use."""
    free: dict[Value, None] = {}
    _collect_free(block, set(), free)
    return tuple(free)


def free_values_of(op: Op) -> tuple[Value, ...]:
    """The operands of `op` and the free values of its regions, each once."""
    free = dict.fromkeys(op.operands)
    for region in op.regions:
        _collect_free(region, set(), free)
    return tuple(free)


def _collect_free(block: Block, defined: set[Value], free: dict[Value, None]) -> None:
    """Adds the free values of `block` to `free`; values have one definition, so `defined` may only grow."""
    defined.update(block.args)
    for op in block.ops:
        for operand in op.operands:
            if operand not in defined:
                free.setdefault(operand)
        for region in op.regions:
            _collect_free(region, defined, free)
        defined.update(op.results)


class Visibility:
    """Where in a function each value may be used.

    Ops are numbered in the order of `ops_in`.  A result is visible from behind its op (regions included) to the end
    of its block, an argument in all of its block; both include nested regions, except behind the wall of an isolated
    op.  In structured control flow that is dominance.
    """

    def __init__(self, block: Block) -> None:
        self._number: dict[Op, int] = {}
        self._span: dict[Value, tuple[int, int]] = {}
        self._walls: dict[Op, int] = {}     # op -> number of the first op of the innermost isolated region around it
        self._visit(block, 0, 0)

    def _visit(self, block: Block, next_number: int, wall: int) -> int:
        first = next_number
        starts: list[tuple[Op, int]] = []
        for op in block.ops:
            self._number[op] = next_number
            self._walls[op] = wall
            next_number += 1
            for region in op.regions:
                next_number = self._visit(region, next_number, next_number if is_isolated(op) else wall)
            starts.append((op, next_number))
        for arg in block.args:
            self._span[arg] = (first, next_number)
        for op, start in starts:
            for result in op.results:
                self._span[result] = (start, next_number)
        return next_number

    def visible_at(self, value: Value, op: Op) -> bool:
        """Whether `op` may take `value` as an operand."""
        start, end = self._span[value]
        return start <= self._number[op] < end and start >= self._walls[op]

    def is_before(self, a: Op, b: Op) -> bool:
        """Whether `a` stands before `b` in the text."""
        return self._number[a] < self._number[b]
