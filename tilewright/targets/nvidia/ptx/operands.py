"""Operands, instructions, variables and functions of PTX text, as the parser gives them.

Before: nothing; this is vocabulary.  After: every name in an operand is unique in its function (registers and labels of
inner scopes are renamed), so nothing below needs to know of scopes.
Tests: tests/targets/nvidia/ptx/test_text.py.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from tilewright.diagnostics import Location


@dataclass(frozen=True, slots=True)
class Register:
    """A register; `name` is unique in the function."""

    name: str
    negated: bool = False       # `!%p1`


@dataclass(frozen=True, slots=True)
class Special:
    """A special register, `%tid.x` (PTX ISA 10)."""

    name: str


@dataclass(frozen=True, slots=True)
class Immediate:
    """A constant.  `kind`: "int", or "f32"/"f64" with `value` its bits (PTX ISA 4.5.2)."""

    value: int
    kind: str = "int"


@dataclass(frozen=True, slots=True)
class Symbol:
    """The address of a variable, or the name of a label or function."""

    name: str
    offset: int = 0


@dataclass(frozen=True, slots=True)
class Vector:
    """`{a, b, ...}`."""

    items: tuple[Operand, ...]


@dataclass(frozen=True, slots=True)
class Pair:
    """`d|p`: two results of one instruction."""

    first: Operand
    second: Operand


@dataclass(frozen=True, slots=True)
class Address:
    """`[base + offset]`, and `[base, {coordinates}]` of a tensor copy."""

    base: Operand
    offset: int = 0
    coordinates: tuple[Operand, ...] | None = None


@dataclass(frozen=True, slots=True)
class Group:
    """`(a, b)`: arguments or results of a call."""

    items: tuple[Operand, ...]


@dataclass(frozen=True, slots=True)
class Sink:
    """`_`: a result that nobody wants."""


Operand = Register | Special | Immediate | Symbol | Vector | Pair | Address | Group | Sink


@dataclass(frozen=True, slots=True)
class Guard:
    """`@p` or `@!p` before an instruction."""

    register: str
    negated: bool


@dataclass(slots=True)
class Instruction:
    """One instruction: `opcode` is its whole dotted name, `parts` that name split."""

    opcode: str
    parts: tuple[str, ...]
    operands: tuple[Operand, ...]
    guard: Guard | None
    line: int
    location: Location | None = None

    @property
    def family(self) -> str:
        return self.parts[0]


@dataclass(slots=True)
class Variable:
    """A declared variable of a state space.  `size` is in bytes, 0 for an `[]` whose size the launch gives."""

    name: str
    space: str
    type: str
    align: int
    size: int
    initial: tuple[Operand, ...] = ()
    external: bool = False


@dataclass(slots=True)
class Function:
    """An `.entry` or `.func`; `labels` maps a label to the index of the instruction that it stands before."""

    name: str
    entry: bool
    parameters: list[Variable] = field(default_factory=list)
    results: list[Variable] = field(default_factory=list)
    registers: dict[str, str] = field(default_factory=dict)      # name -> type
    families: dict[str, str] = field(default_factory=dict)       # `%r<9>`: `%r` -> type
    variables: dict[str, Variable] = field(default_factory=dict)
    code: list[Instruction] = field(default_factory=list)
    labels: dict[str, int] = field(default_factory=dict)
    tables: dict[str, tuple[str, ...]] = field(default_factory=dict)     # `.branchtargets`
    directives: dict[str, tuple[int, ...]] = field(default_factory=dict)
    undefined: dict[int, list[str]] = field(default_factory=dict)        # `// implicit-def:`, before instruction


@dataclass(slots=True)
class Module:
    """A PTX module."""

    version: str
    target: str
    functions: dict[str, Function]
    variables: dict[str, Variable]
    lines: tuple[str, ...]
