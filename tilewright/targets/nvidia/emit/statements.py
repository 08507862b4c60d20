"""Statements of inline assembly as calls of LLVM, but for their operands, which go in between.

Before: a row of the table of instructions, or a text with its constraints.  After: what stands in front of the operands
and behind them.  Tests: tests/targets/nvidia/.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence

from tilewright.targets.llvm.types import VOID, Type, Value, float_value, integer_value
from tilewright.targets.nvidia.emit.instructions import Instruction

NEW_LINE = r"\0A\09"         # in a string of LLVM's
CONSTRAINTS = {"i1": "b", "i16": "h", "half": "h", "i32": "r", "float": "f", "i64": "l", "ptr": "l", "double": "d"}


def result_type(outputs: Sequence[Type]) -> Type:
    """The type of a statement's results: none, one, or a structure."""
    if len(outputs) < 2:
        return outputs[0] if outputs else VOID
    return Type("{ " + ", ".join(map(str, outputs)) + " }")


def literals_of(initial: Sequence[Value]) -> tuple[str, ...]:
    """Instructions, but for their results, that set results to these constants; none where one is not known to PTX."""
    found = []
    for value in initial:
        number = integer_value(value) if value.is_constant else None
        real = float_value(value) if value.is_constant and value.type.is_float else None
        if real is not None:
            number = int.from_bytes(struct.pack("<f" if value.type.bits == 32 else "<d", real), "little")
        if number is None:
            return ()
        found.append(f"mov.b{value.type.bits} {{}}, {number};")
    return tuple(found)


def statement_of(row: Instruction, outputs: Sequence[Type], inputs: Sequence[Type], guarded: bool,
                 initial: int | Sequence[str], groups: Sequence[int],
                 modifiers: Mapping[str, str]) -> tuple[str, str]:
    """An instruction as a call, but for its operands.

    `initial` are the instructions of `literals_of`, which cost LLVM nothing, or how many values come as operands.
    """
    assert row.text is not None
    names = [f"${k}" for k in range(len(outputs) + len(inputs) + 1)]
    out, given = names[:len(outputs)], names[len(outputs):]
    listed = {f"list{k}": "{" + ", ".join(names) + "}" for k, names in enumerate((out, given[1:len(inputs)]))}
    for k, count in enumerate(groups):
        start = sum(groups[:k])
        listed[f"group{k}"] = "{" + ", ".join(given[start:start + count]) + "}"
    text = row.text.format(*given, out=_group(out), values=_group(given[1:len(inputs)]), **listed, **modifiers)
    constraints = [*("=" + CONSTRAINTS[t.element] for t in outputs), *(CONSTRAINTS[t.element] for t in inputs)]
    if guarded:
        text = f"@{given[len(inputs)]} {text}"
        constraints.append(CONSTRAINTS["i1"])
    if isinstance(initial, int):
        constraints += map(str, range(initial))
    else:       # which are set before the operands are read
        text = NEW_LINE.join((*(line.format(o) for line, o in zip(initial, out, strict=True)), text))
    if row.early or not isinstance(initial, int):
        constraints[:len(out)] = [f"=&{c[1:]}" for c in constraints[:len(out)]]
    return assembly(text, constraints, outputs, row.pure, row.convergent)


def assembly(text: str, constraints: Sequence[str], outputs: Sequence[Type], pure: bool,
              convergent: bool) -> tuple[str, str]:
    """A statement of assembly as a call, but for its operands."""
    listed = ",".join(constraints if pure else (*constraints, "~{memory}"))
    effects, marks = "" if pure else "sideeffect ", "convergent nounwind" if convergent else "nounwind"
    return f'call {result_type(outputs)} asm {effects}"{text}", "{listed}"(', f") {marks}"


def _group(names: Sequence[str]) -> str:
    """Operands of a vector access in braces; a single one bare."""
    return names[0] if len(names) == 1 else "{" + ", ".join(names) + "}" if names else ""
