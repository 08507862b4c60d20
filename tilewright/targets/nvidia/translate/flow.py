"""Blocks, phis and branches: what dominates what, and the moves that phis become on the edges into their blocks.

Blocks come in an order in which each follows those that lead to it, but for branches back to a block that dominates the
branch; anything else is left to LLVM.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from tilewright.targets.nvidia.translate.body import PREFIXES, Body, Operand, Record, UntranslatableError


@dataclass(slots=True)
class Phi:
    """A register, and its value on the way from each block; in LLVM's terms until `Flow.close` has looked them up."""

    register: str
    type: str
    arms: dict[str, str]
    operands: dict[int, Operand] = field(default_factory=dict)


@dataclass(slots=True)
class Block:
    """`ways` are the labels that it may go on with: the first if `condition` holds."""

    label: str
    number: int
    code: list[Record]
    dominators: int
    before: list[Block]
    phis: list[Phi] = field(default_factory=list)
    condition: Operand = None
    ways: tuple[str, ...] = ()
    stays_a_loop: bool = False


class Flow:
    """The blocks of a body; `blocks` are those that can be reached, in the text's order."""

    def __init__(self, body: Body) -> None:
        self._body = body
        self.blocks: list[Block] = []
        self.by_label: dict[str, Block] = {}
        self.unlikely: set[str] = set()
        self._coming: dict[str, list[Block]] = {}
        self.block: Block | None = None
        self._start("entry", [])

    def place(self, label: str) -> None:
        """The block `label` begins; None is current if nothing leads there."""
        before = self._coming.pop(label, [])
        if before:
            self._start(label, before)
        else:
            self.block = None

    def _start(self, label: str, before: list[Block]) -> None:
        number = len(self.blocks)
        dominators = -1 if before else 0
        for block in before:
            dominators &= block.dominators
        dominators |= 1 << number
        self.block = Block(label, number, [], dominators, before)
        self.blocks.append(self.block)
        self.by_label[label] = self.block
        body = self._body
        body.code, body.block, body.dominators = self.block.code, number, dominators

    # --- phis

    def phi(self, name: str, words: Sequence[str]) -> None:
        """`%c = phi float [ %a, %entry ], [ %b, %body ]`, given as words."""
        body, block = self._body, self.block
        t = words[3]
        if t not in PREFIXES or block is None:
            raise UntranslatableError(" ".join(words))
        arms = {words[k + 1][1:]: words[k][:-1] for k in range(5, len(words), 4)}
        known = [b.label for b in block.before]
        if len(known) == len(arms):     # all ways are known: no loop
            operands = [body.get(arms[label], t) for label in known]
            if all(o == operands[0] for o in operands[1:]):
                body.values[name] = operands[0]
                return
        register = body.values[name] = body.fresh(PREFIXES[t])
        phi = Phi(register, t, arms)
        block.phis.append(phi)

    # --- branches

    def branch(self, line: str) -> None:
        """`br label %a`, or `br i1 %c, label %a, label %b, !prof !0`."""
        words = line.split()
        if len(words) == 3:
            self._go(None, (words[2][1:],))
            return
        condition = self._body.get(words[2][:-1], "i1")
        yes, no = words[4][1:].rstrip(","), words[6][1:].rstrip(",")
        if "!prof" in words:
            self.unlikely.add(yes)
        if type(condition) is int:
            self._go(None, (yes if condition & 1 else no,))
        elif yes == no:
            self._go(None, (yes,))
        else:
            self._go(condition, (yes, no))
        if "!llvm.loop" in words:
            self.by_label[yes].stays_a_loop = True

    def leave(self) -> None:
        """`ret void`"""
        self.block = None

    def _go(self, condition: Operand, ways: tuple[str, ...]) -> None:
        block = self.block
        assert block is not None
        body = self._body
        if condition is not None and body.opcode_of(condition) == "not.pred":
            condition, ways = body.makers[condition][2][0], (ways[1], ways[0])
        block.condition, block.ways = condition, ways
        for label in ways:
            target = self.by_label.get(label)
            if target is None:
                self._coming.setdefault(label, []).append(block)
            elif block.dominators >> target.number & 1:
                target.before.append(block)
            else:
                raise UntranslatableError(f"a branch to {label}")
        self.block = None

    # --- the end

    def close(self) -> None:
        """Look up what phis take; nothing else is to come."""
        if self._coming:
            raise UntranslatableError(f"no block {next(iter(self._coming))}")
        for block in self.blocks:
            for phi in block.phis:
                for before in block.before:
                    phi.operands[before.number] = self._body.get(phi.arms[before.label], phi.type)
                self._body.makers[phi.register] = (phi.register, "phi", tuple(phi.operands.values()))

    def order(self) -> list[Block]:
        """The blocks as they are written: what hardly ever runs comes last."""
        last = 0
        for label in self.unlikely:
            block = self.by_label.get(label)
            if block is not None and block.number:
                last |= 1 << block.number
        if not last:
            return self.blocks
        return [*(b for b in self.blocks if not b.dominators & last), *(b for b in self.blocks if b.dominators & last)]


