"""Instructions without effects go down to where they are needed: into branches, and behind loops.

ptxas moves little of that kind, and what waits for its use takes a register meanwhile, or one of seven predicates.  The
place is the nearest block that dominates all uses, in no loop that the instruction was not in.  Loads stay where they
are.
Before: blocks, and the registers that are alive.  After: the same blocks without dead instructions, some moved.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from tilewright.targets.nvidia.translate.body import MOVABLE, Operand, Record
from tilewright.targets.nvidia.translate.flow import Block


def sink(blocks: list[Block], alive: set[Operand]) -> None:
    """See above.  A register's uses are all seen before the instruction that makes it."""
    common: dict[Operand, int] = {}      # the blocks that dominate all uses of a register, as bits
    moved: dict[int, list[Record]] = {}
    loops = loops_of(blocks)

    def use(operands: Iterable[Operand], dominators: int) -> None:
        for operand in operands:
            common[operand] = common.get(operand, -1) & dominators

    for block in blocks:
        for phi in block.phis:
            if phi.register in alive:
                for number, operand in phi.operands.items():
                    use((operand,), blocks[number].dominators)
    for block in reversed(blocks):
        here, inside = block.number, loops[block.number]
        kept: list[Record] = []
        use((block.condition,), block.dominators)
        for record in reversed(block.code):
            size = len(record)
            if size == 3 or (size == 5 and record[3] is MOVABLE):
                name = _name_of(record)
                if name not in alive:
                    continue
                below = common[name] >> here + 1
                while below:
                    target = here + below.bit_length()
                    if not loops[target] & ~inside:
                        break
                    below &= (1 << below.bit_length() - 1) - 1
                if below:
                    moved.setdefault(target, []).append(record)
                    use(record[-1], blocks[target].dominators)
                    continue
                use(record[-1], block.dominators)
            elif size == 5:
                if not record[3] and alive.isdisjoint(record[0]):
                    continue
                use(record[4], block.dominators)
            kept.append(record)
        kept.reverse()
        block.code = kept
    for number, records in moved.items():
        blocks[number].code = list(_placed({_name_of(record): record for record in reversed(records)},
                                           blocks[number].code))


def _name_of(record: Record) -> str:
    name: str = record[0] if len(record) == 3 else record[0][0]
    return name


def loops_of(blocks: list[Block]) -> list[int]:
    """For each block the heads of the loops that it may be in, as bits."""
    inside = [0] * len(blocks)
    for head in blocks:
        last = max((before.number for before in head.before), default=0)
        for number in range(head.number, last + 1):
            inside[number] |= 1 << head.number
    return inside


def _placed(pending: dict[str, Record], code: Iterable[Record]) -> Iterator[Record]:
    """`code` with each pending record in front of the first that uses it."""
    def needed(operands: Iterable[Operand]) -> Iterator[Record]:
        for operand in operands:
            record = pending.pop(operand, None)
            if record is not None:
                yield from needed(record[-1])
                yield record

    for record in code:
        if pending and len(record) > 1:
            yield from needed(record[-1])
        yield record
    yield from pending.values()
