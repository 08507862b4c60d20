"""PTX of a body: what is alive, moves for phis, branches, `.loc` directives.

Before: a `Flow` that is closed.  After: the lines between the braces of a kernel.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from tilewright.targets.nvidia.translate.body import WIDTHS, Body, Operand, Record, UntranslatableError
from tilewright.targets.nvidia.translate.flow import Block, Flow
from tilewright.targets.nvidia.translate.joining import join
from tilewright.targets.nvidia.translate.sinking import sink

Move = tuple[str, Operand]


def lines_of(body: Body, flow: Flow, places: Sequence[str]) -> list[str]:
    """The kernel's instructions; `places` are the `.loc` directives that records of one number speak of."""
    alive = _alive(body, flow)
    if len(flow.blocks) > 1:
        sink(flow.blocks, alive)
    join(flow.blocks, alive)
    lines: list[str] = []
    order = flow.order()
    edges = _Edges(body, flow, alive, lines)
    for k, block in enumerate(order):
        following = order[k + 1] if k + 1 < len(order) else None
        edges.label(block)
        _write(block.code, alive, lines, places)
        edges.leave(block, [flow.by_label[label] for label in block.ways], following)
    return lines


def _alive(body: Body, flow: Flow) -> set[Operand]:
    """The registers that effects and branches need, and all that these are made of."""
    alive: set[Operand] = set()
    makers = body.makers
    pending: list[Operand] = []
    for block in flow.blocks:
        if block.condition is not None:
            pending.append(block.condition)
        for record in block.code:
            if len(record) == 5 and record[3]:
                pending.extend(record[4])
    while pending:
        register = pending.pop()
        if register in alive:
            continue
        alive.add(register)
        made = makers.get(register)
        if made is not None:
            pending.extend(made[-1])
    return alive


def _write(code: Iterable[Record], alive: set[Operand], lines: list[str], places: Sequence[str]) -> None:
    place = last = ""
    for record in code:
        size = len(record)
        if size == 3:
            name, opcode, operands = record
            if name not in alive:
                continue
            text = f"\t{opcode} \t{name}, {', '.join(map(str, operands))};"
        elif size == 5:
            registers, template, names, effect, _ = record
            if not effect and alive.isdisjoint(registers):
                continue
            text = "\t" + template % names
        else:
            place = places[record[0]]
            continue
        if place is not last:
            lines.append(place)
            last = place
        lines.append(text)


class _Edges:
    """Labels, branches and what is moved on the way."""

    def __init__(self, body: Body, flow: Flow, alive: set[Operand], lines: list[str]) -> None:
        self._body, self._flow, self._alive, self._lines = body, flow, alive, lines
        self._count = 0

    def label(self, block: Block) -> None:
        if block.number:
            self._lines.append(f"${block.label}:")
            if block.stays_a_loop:
                self._lines.append('\t.pragma "nounroll";')

    def leave(self, block: Block, ways: Sequence[Block], following: Block | None) -> None:
        """The end of a block, in front of the block `following`."""
        if not ways:
            self._lines.append("\tret;")
            return
        if len(ways) == 1:
            self._move(block, ways[0])
            self._go(ways[0], following)
            return
        yes, no, condition = *ways, block.condition
        first, second = self._moves(block, yes), self._moves(block, no)
        if first and self._may_be_early(block, yes, first, second):
            self._sequence(first)
            first = []
        if not first and (second or yes is not following):
            self._lines.append(f"\t@{condition} bra \t${yes.label};")
            self._sequence(second)
            self._go(no, following)
        elif not second:
            self._lines.append(f"\t@!{condition} bra \t${no.label};")
            self._sequence(first)
            self._go(yes, following)
        else:
            if yes is following:
                yes, no, first, second, condition = no, yes, second, first, f"!{condition}"
            self._count += 1
            edge = f"$edge_{self._count}"
            negated = condition[1:] if condition.startswith("!") else f"!{condition}"
            self._lines.append(f"\t@{negated} bra \t{edge};")
            self._sequence(first)
            self._lines.append(f"\tbra.uni \t${yes.label};")
            self._lines.append(f"{edge}:")
            self._sequence(second)
            self._go(no, following)

    def _go(self, block: Block, following: Block | None) -> None:
        if block is not following:
            self._lines.append(f"\tbra.uni \t${block.label};")

    def _move(self, source: Block, target: Block) -> None:
        self._sequence(self._moves(source, target))

    def _may_be_early(self, block: Block, head: Block, moves: list[Move], others: list[Move]) -> bool:
        """Whether the moves on the way back to a loop's head may happen also when the loop is left, which keeps it one
        block: if nobody reads there what they set."""
        targets = {target for target, _ in moves}
        if head.number > block.number or block.condition in targets or \
                not targets.isdisjoint(source for _, source in others):
            return False
        inside = range(head.number, block.number + 1)
        for other in self._flow.blocks[block.number + 1:]:
            if other.condition in targets or any(not targets.isdisjoint(record[-1]) for record in other.code
                                                 if len(record) > 1):
                return False
        return not any(number not in inside and operand in targets
                       for other in self._flow.blocks for phi in other.phis if phi.register in self._alive
                       for number, operand in phi.operands.items())

    def _moves(self, source: Block, target: Block) -> list[Move]:
        return [(phi.register, phi.operands[source.number]) for phi in target.phis
                if phi.register in self._alive and phi.operands[source.number] != phi.register]

    def _sequence(self, moves: list[Move]) -> None:
        """Write moves that happen at once: a register is read before it is set."""
        sources = {source for _, source in moves}
        if sources.isdisjoint(target for target, _ in moves):
            self._lines.extend(_moved(*move) for move in moves)
        else:
            self._lines.extend(_moved(*move) for move in self._in_order(moves))

    def _in_order(self, moves: list[Move]) -> Iterator[Move]:
        pending = dict(moves)
        while pending:
            needed = set(pending.values())
            free = [target for target in pending if target not in needed]
            for target in free:
                yield target, pending.pop(target)
            if not free:        # a ring: one of it waits elsewhere
                target = next(iter(pending))
                kept = self._body.fresh(target.rstrip("0123456789"))
                yield kept, target
                pending = {t: kept if s == target else s for t, s in pending.items()}


def _moved(target: str, source: Operand) -> str:
    prefix = target.rstrip("0123456789")
    if prefix == "%p":
        if type(source) is int:
            return f"\tsetp.{'eq' if source & 1 else 'ne'}.s32 \t{target}, 0, 0;"
        return f"\tmov.pred \t{target}, {source};"
    if type(source) not in (int, str):
        raise UntranslatableError(f"a move of {source!r}")
    return f"\tmov.b{WIDTHS[prefix]} \t{target}, {source};"
