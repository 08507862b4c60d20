"""Products of a warpgroup in one statement of assembly, from fence to commit, whose results are tied to its sums.

LLVM's time goes with the number of its instructions, and each product has up to 128 sums: so a dot's products, and the
descriptors of their blocks, are lines of one statement.  Before `wgmma.fence` nothing of it touches the sums.
Tests: tests/targets/nvidia/test_warpgroup.py.
"""

from __future__ import annotations

from collections.abc import Sequence

from tilewright.targets.llvm.types import Value
from tilewright.targets.nvidia.emit.code import Code
from tilewright.targets.nvidia.emit.instructions import INSTRUCTIONS

_FLAGS = {True: ("one", "eq"), False: ("none", "ne")}      # predicates, and what sets them to themselves


class Statement:
    """A statement under construction.  `fresh`: the sums begin at zero, and are not read."""

    def __init__(self, code: Code, sums: Sequence[Value], fresh: bool = False) -> None:
        self._code, self._sums, self._fresh = code, sums, fresh
        self._inputs: dict[Value, str] = {}
        self._moved: dict[tuple[str, int], str] = {}
        self._before: list[str] = []        # the fence
        self._lines: list[str] = []
        self._flags: dict[bool, str] = {}

    def _line(self, name: str, *operands: str, **modifiers: str) -> str:
        text = INSTRUCTIONS[name].text
        assert text is not None
        return text.format(*operands, **modifiers)

    def input(self, value: Value) -> str:
        """The name of a value that goes in."""
        return self._inputs.setdefault(value, f"${len(self._sums) + len(self._inputs)}")

    def vector(self, values: Sequence[Value]) -> str:
        return "{" + ", ".join(map(self.input, values)) + "}"

    def advanced(self, descriptor: str, by: int) -> str:
        """A descriptor moved by so many units of 16 bytes."""
        key = descriptor, by
        if by and key not in self._moved:
            self._moved[key] = f"d{len(self._moved)}"
            self._before.append(self._line("descriptor.add", descriptor, out=self._moved[key], by=str(by)))
        return self._moved[key] if by else descriptor

    def fence(self) -> None:
        self._lines.append(self._line("wgmma.fence"))

    def multiply(self, sums: Sequence[int], a: str, b: str, *, adds: bool, turned: Sequence[bool], columns: int,
                 depth: int, operand: str, result: str) -> None:
        """Add the product of two blocks to the sums of these numbers, or put it there if not `adds`."""
        listed = "{" + ", ".join(f"${n}" for n in sums) + "}"
        majors = "".join(f", {int(t)}" for t in turned)
        self._lines.append(self._line("wgmma", listed, a, b, self._flag(adds), columns=str(columns), depth=str(depth),
                                      d=result, a=operand, majors=majors))

    def _flag(self, holds: bool) -> str:
        """A predicate that holds, or one that does not."""
        if holds not in self._flags:
            name, how = _FLAGS[holds]
            self._flags[holds] = name
            self._before += [f".reg .pred {name};", self._line("flag.set", out=name, how=how)]
        return self._flags[holds]

    def commit(self) -> None:
        self._lines.append(self._line("wgmma.commit"))

    def wait(self, pending: int) -> None:
        self._lines.append(self._line("wgmma.wait", count=str(pending)))

    def results(self) -> list[Value]:
        """The sums behind the statement."""
        lines = [*self._before, *self._lines]
        if self._moved:
            lines = [f".reg .b64 d<{len(self._moved)}>;", *lines]
        return self._code.tied(lines, self._sums, list(self._inputs), self._fresh)
