"""Values that a loop carries stay in one register: what the next turn gets is written where this turn's was.

That is right where nobody reads the old value any more.  It spares a move for each value, and ptxas, which finds most
of these itself, comes out with fewer registers.
Before: blocks without dead instructions.  After: the same, with other names for some registers.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tilewright.targets.nvidia.translate.body import Operand, Record
from tilewright.targets.nvidia.translate.flow import Block, Phi


def join(blocks: list[Block], alive: set[Operand]) -> None:
    """See above."""
    names: dict[Operand, Operand] = {}
    for head in blocks:
        ends = [before for before in head.before if before.number >= head.number]
        phis = [phi for phi in head.phis if phi.register in alive]
        if phis and len(ends) == 1 and not any(_is_another_end(ends[0], head, block) for block in blocks):
            names.update(_joined(blocks, head, ends[0], phis, alive))
    if names:
        for block in blocks:
            block.code = [_renamed(record, names) for record in block.code]
            block.condition = names.get(block.condition, block.condition)
            for phi in block.phis:
                phi.operands = {number: names.get(operand, operand) for number, operand in phi.operands.items()}


def _is_another_end(end: Block, head: Block, block: Block) -> bool:
    return block is not head and block.number <= end.number and end in block.before


def _joined(blocks: list[Block], head: Block, end: Block, phis: list[Phi],
            alive: set[Operand]) -> dict[Operand, Operand]:
    """New names for what the block `end` computes for the next turn."""
    old = {phi.register for phi in phis}
    last, made = _places(end, old)
    inside = range(head.number, end.number + 1)
    busy: set[Operand] = {end.condition}
    for block in blocks:
        if block.number not in inside:
            busy.add(block.condition)
            for record in block.code:
                if len(record) > 1:
                    busy.update(record[-1])
        for phi in block.phis:
            busy.update(operand for number, operand in phi.operands.items()
                        if phi.register in alive and (number == end.number or number not in inside))
    names: dict[Operand, Operand] = {}
    for phi in phis:
        following = phi.operands[end.number]
        place = made.get(following)
        if place is None or phi.register in busy or following in names:
            continue
        read = last.get(phi.register, -1)
        if read < place or (read == place and _is_single(end.code[place])):
            names[following] = phi.register
    return names


def _places(block: Block, registers: set[str]) -> tuple[dict[Operand, int], dict[Operand, int]]:
    """Where each of `registers` is read for the last time, and where each register is made."""
    last: dict[Operand, int] = {}
    made: dict[Operand, int] = {}
    for k, record in enumerate(block.code):
        if len(record) == 1:
            continue
        for operand in record[-1]:
            if operand in registers:
                last[operand] = k
        if len(record) == 3:
            made[record[0]] = k
        else:
            made.update(dict.fromkeys(record[0], k))
    return last, made


def _is_single(record: Record) -> bool:
    """Whether a record is one instruction, which reads all before it writes."""
    return len(record) == 3 or record[1].count(";") == 1


def _renamed(record: Record, names: Mapping[Any, Any]) -> Record:
    if len(record) == 3:
        return names.get(record[0], record[0]), record[1], tuple(names.get(o, o) for o in record[2])
    if len(record) == 5:
        registers, template, texts, effect, uses = record
        return (tuple(names.get(r, r) for r in registers), template,
                tuple(_address(text, names) for text in texts), effect, tuple(names.get(u, u) for u in uses))
    return record


def _address(text: Any, names: Mapping[Any, Any]) -> Any:
    found = names.get(text)
    if found is not None:
        return found
    if type(text) is str and "+" in text:
        base, _, offset = text.partition("+")
        return f"{names.get(base, base)}+{offset}"
    return text
