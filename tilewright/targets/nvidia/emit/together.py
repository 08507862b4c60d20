"""Several instructions of the table in one statement of assembly, for chains of which LLVM can make nothing better.

An instruction of its own takes LLVM some 20 microseconds, whatever it is; a line of a statement takes it none.
Tests: tests/targets/nvidia/test_special.py.
"""

from __future__ import annotations

from collections.abc import Sequence

from tilewright.targets.llvm.types import Type, Value
from tilewright.targets.nvidia.emit.code import Code
from tilewright.targets.nvidia.emit.instructions import INSTRUCTIONS


class Together:
    """A statement under construction: 32-bit values go in, results of its instructions are names until `result`."""

    def __init__(self, code: Code, inputs: Sequence[Value]) -> None:
        self._code, self._inputs = code, inputs
        self._lines: list[tuple[str, str, Sequence[str], dict[str, str]]] = []      # text, result, operands, modifiers
        self._convergent = False

    @property
    def inputs(self) -> list[str]:
        """The names of what goes in."""
        return [f"${k}" for k in range(1, len(self._inputs) + 1)]

    def add(self, name: str, *operands: str, **modifiers: str) -> str:
        """One instruction more; the name of its result."""
        row = INSTRUCTIONS[name]
        assert row.text is not None and (row.pure or row.convergent)
        self._convergent |= row.convergent
        result = f"t{len(self._lines)}"
        self._lines.append((row.text, result, operands, modifiers))
        return result

    def result(self, t: Type) -> Value:
        """The result of the last instruction."""
        last = len(self._lines) - 1
        lines = [text.format(*operands, out="$0" if k == last else result, **modifiers)
                 for k, (text, result, operands, modifiers) in enumerate(self._lines)]
        declared = f".reg .b32 t<{last}>; " if last else ""
        (found,) = self._code.statement(f"{{ {declared}{' '.join(lines)} }}", [t], self._inputs, self._convergent)
        return found
