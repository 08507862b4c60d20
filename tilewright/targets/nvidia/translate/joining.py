"""Values that a loop carries stay in one register: what the next turn gets is written where this turn's was.

That is right where nobody reads the old value any more.  It spares a move for each value, and ptxas, which finds most
of these itself, comes out with fewer registers.
Before: blocks without dead instructions.  After: the same, with other names for some registers.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import inf
from typing import Any

from tilewright.targets.nvidia.translate.body import Operand, Record
from tilewright.targets.nvidia.translate.flow import Block, Phi
from tilewright.targets.nvidia.translate.sinking import loops_of
from tilewright.targets.nvidia.translate.statements import ties, without_own_moves


def join(blocks: list[Block], alive: set[Operand]) -> None:
    """See above.  What a statement of assembly begins a result as is that result, if nobody reads it later."""
    _rename(blocks, _tied(blocks, alive))
    names: dict[Operand, Operand] = {}
    for head in blocks:
        ends = [before for before in head.before if before.number >= head.number]
        phis = [phi for phi in head.phis if phi.register in alive]
        if phis and len(ends) == 1 and not any(_is_another_end(ends[0], head, block) for block in blocks):
            names.update(_joined(blocks, head, ends[0], phis, alive))
    _rename(blocks, names)


def _rename(blocks: list[Block], names: Mapping[Any, Any]) -> None:
    if names:
        for block in blocks:
            block.code = [_renamed(record, names) if _has(record, names) else record for record in block.code]
            block.condition = names.get(block.condition, block.condition)
            for phi in block.phis:
                phi.operands = {number: names.get(operand, operand) for number, operand in phi.operands.items()}


def _tied(blocks: list[Block], alive: set[Operand]) -> dict[Operand, Operand]:
    """New names for results that begin as an operand which nobody reads later."""
    pairs: list[tuple[Block, int, Operand, Operand]] = []
    for block in blocks:
        for place, record in enumerate(block.code):
            if len(record) == 5 and record[1] in ties:
                named = record[2]
                pairs += [(block, place, named[k], named[k + 1]) for k in range(0, 2 * ties[record[1]], 2)]
    if not pairs:
        return {}
    wanted = {operand for _, _, _, operand in pairs if type(operand) is str}
    last, made = _reads(blocks, alive, wanted)
    inside = loops_of(blocks)
    names: dict[Operand, Operand] = {}
    taken: set[Operand] = set()
    for block, place, result, operand in pairs:
        if operand in made and operand not in taken and last[operand] == (block.number, place) and \
                not inside[block.number] & ~inside[made[operand]] and \
                block.code[place][-1].count(operand) == 1:
            names[result] = names.get(operand, operand)
            taken.add(operand)
    return names


def _reads(blocks: list[Block], alive: set[Operand],
           wanted: set[Operand]) -> tuple[dict[Operand, tuple[int, float]], dict[Operand, int]]:
    """The block and the place in it where each of `wanted` is read last, and the block that makes it."""
    last: dict[Operand, tuple[int, float]] = {}
    made: dict[Operand, int] = {}

    def read(operand: Operand, number: int, place: float) -> None:
        if operand in wanted:
            last[operand] = max(last.get(operand, (0, 0)), (number, place))

    for block in blocks:
        read(block.condition, block.number, inf)
        for phi in block.phis:
            made[phi.register] = block.number
            if phi.register in alive:
                for number, operand in phi.operands.items():
                    read(operand, number, inf)
        for place, record in enumerate(block.code):
            if len(record) > 1:
                for operand in record[-1]:
                    read(operand, block.number, place)
                made.update(dict.fromkeys(record[:1] if len(record) == 3 else record[0], block.number))
    return last, made


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
        if block.number not in inside and len(end.ways) > 1:
            busy.add(block.condition)
            for record in block.code:
                if len(record) > 1:
                    busy.update(record[-1])
        for phi in block.phis:
            busy.update(operand for number, operand in phi.operands.items()
                        if phi.register in alive and (number == end.number or (number not in inside
                                                                               and len(end.ways) > 1)))
    names: dict[Operand, Operand] = {}
    pairs: dict[int, _Pairs] = {}
    for phi in phis:
        following = phi.operands[end.number]
        place = made.get(following)
        if place is None or phi.register in busy or following in names:
            continue
        read = last.get(phi.register, -1)
        if read == place and place not in pairs:
            pairs[place] = _Pairs(end.code[place])
        if read < place or (read == place and pairs[place].may_be_one(following, phi.register)):
            names[following] = phi.register
    places = {phi.register: made[phi.operands[end.number]] for phi in phis if phi.operands[end.number] in names}
    return {**names, **_begun([b for b in blocks if b.number in inside], blocks, end, places, alive)}


def _begun(inside: list[Block], blocks: list[Block], end: Block, places: Mapping[Operand, int],
           alive: set[Operand]) -> dict[Operand, Operand]:
    """New names for what statements make of a loop's registers, of which nobody else in the loop reads one later, and
    which are set again at these `places` of the block `end`.

    ptxas may take a move in between for a use of sums that are still under way, and wait for them (C7517).
    """
    found: dict[Operand, tuple[Block, int, Operand]] = {}
    for block in inside:
        for place, record in enumerate(block.code):
            if len(record) == 5 and record[1] in ties and end.dominators >> block.number & 1:
                pairs = record[2][:2 * ties[record[1]]]
                found.update((old, (block, place, new)) for new, old in zip(pairs[::2], pairs[1::2], strict=True)
                             if old in places and record[-1].count(old) == 1)
    if not found:
        return {}
    last, _ = _reads(inside, alive, set(found))
    used, _ = _reads(blocks, alive, {new for _, _, new in found.values()})
    names: dict[Operand, Operand] = {}
    for old, (block, place, new) in found.items():
        at = end.number, places[old]
        read = used.get(new, (0, 0))
        if last[old] == (block.number, place) and (read < at or (read == at and end.code[at[1]][1].count(";") <= 1)):
            names[new] = old
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
            made.setdefault(record[0], k)
        else:
            for register in record[0]:
                made.setdefault(register, k)
    return last, made


class _Pairs:
    """Which results of a record may have the name of an operand: in one instruction, which reads all before it writes,
    any; of a statement one that begins as just this operand, which the statement does not read elsewhere."""

    def __init__(self, record: Record) -> None:
        self._all = len(record) == 3 or record[1].count(";") == 1
        moves = 0 if self._all else 2 * ties.get(record[1], 0)
        names = record[2]
        self._begin = dict(zip(names[0:moves:2], names[1:moves:2]))
        self._read = set(names[moves:])

    def may_be_one(self, result: Operand, operand: Operand) -> bool:
        return self._all or (self._begin.get(result) == operand and operand not in self._read)


def _has(record: Record, names: Mapping[Any, Any]) -> bool:
    """Whether a record reads or sets a register that gets another name."""
    made = record[0] if len(record) == 5 else record[:1]
    return len(record) > 1 and not (names.keys().isdisjoint(record[-1]) and names.keys().isdisjoint(made))


def _renamed(record: Record, names: Mapping[Any, Any]) -> Record:
    if len(record) == 3:
        return names.get(record[0], record[0]), record[1], tuple(names.get(o, o) for o in record[2])
    if len(record) == 5:
        registers, template, texts, effect, uses = record
        template, texts = without_own_moves(template, tuple(_address(text, names) for text in texts))
        return tuple(names.get(r, r) for r in registers), template, texts, effect, tuple(names.get(u, u) for u in uses)
    return record


def _address(text: Any, names: Mapping[Any, Any]) -> Any:
    found = names.get(text)
    if found is not None:
        return found
    if type(text) is str and "+" in text:
        base, _, offset = text.partition("+")
        return f"{names.get(base, base)}+{offset}"
    return text
