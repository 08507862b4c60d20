"""The nodes of tile IR: values, ops, blocks, functions, modules.

Typed SSA with structured control flow.  A `Value` is a token: a type and a name hint, with identity, no owner and no
list of uses (`ir.walk` computes those for one function).  An `Op` names its row, its operands and results, its
attributes and its regions.  **Nothing here is changed after construction**: a pass makes a new `Op` where something
changes, reusing the *same result values*, so users of an unchanged value stay as they are and unchanged subtrees are
shared between the module before and after the pass ("identity means unchanged").

A region is one `Block`: arguments, ops, the last op being its terminator (`yield`, `condition` or `return`).
Values of an enclosing block are visible in nested blocks, but not in combine regions (`reduce`): those see their
arguments only (`ir.walk.is_isolated`).
Tests: tests/ir/test_node.py, tests/ir/test_verify.py.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from tilewright.diagnostics import UNKNOWN, Location
from tilewright.ir.types import Type

if TYPE_CHECKING:
    from tilewright.ir.ops.table import OpRow

_NO_ATTRS: Mapping[str, Any] = MappingProxyType({})


class Value:
    """An SSA value: the result of one op or the argument of one block.  Compared by identity."""

    __slots__ = ("hint", "type")

    def __init__(self, type: Type, hint: str = "") -> None:
        self.type = type
        self.hint = hint

    def __repr__(self) -> str:
        return f"<value {self.hint or '?'}: {self.type}>"


class Op:
    """One operation.  Treat as frozen; `updated` makes a changed copy with the same results."""

    __slots__ = ("attrs", "loc", "name", "operands", "regions", "results", "row")

    def __init__(self, row: OpRow, operands: Sequence[Value], results: Sequence[Value],
                 attrs: Mapping[str, Any] = _NO_ATTRS, regions: Sequence[Block] = (),
                 loc: Location = UNKNOWN) -> None:
        self.row = row
        self.name = row.name        # asked for more often than anything else
        self.operands = tuple(operands)
        self.results = tuple(results)
        self.attrs = attrs
        self.regions = tuple(regions)
        self.loc = loc

    @property
    def result(self) -> Value:
        """The only result."""
        (value,) = self.results
        return value

    def operand(self, name: str) -> Value | None:
        """The operand called `name` in the row; None for an absent optional one (see `OpRow.operand_index`)."""
        index = self.row.operand_index(name, self.attrs, len(self.operands))
        return None if index is None else self.operands[index]

    def updated(self, operands: Sequence[Value] | None = None, attrs: Mapping[str, Any] | None = None,
                regions: Sequence[Block] | None = None) -> Op:
        """A copy with some parts replaced and the same results."""
        return Op(self.row, self.operands if operands is None else operands, self.results,
                  self.attrs if attrs is None else attrs, self.regions if regions is None else regions, self.loc)

    def __repr__(self) -> str:
        return f"<op {self.name}>"


@dataclass(frozen=True, slots=True, eq=False)
class Block:
    """A straight list of ops with arguments; the last op is the terminator."""

    args: tuple[Value, ...]
    ops: tuple[Op, ...]

    @property
    def terminator(self) -> Op:
        return self.ops[-1]


@dataclass(frozen=True, slots=True)
class ParamFacts:
    """What a launch promises of one parameter: `divisible_by` (of the address in bytes, or of the integer)."""

    divisible_by: int = 1


@dataclass(frozen=True, slots=True, eq=False)
class Function:
    """A function: the entry (no results) or a device function.  Parameters are the block's arguments."""

    name: str
    param_names: tuple[str, ...]
    body: Block
    result_types: tuple[Type, ...] = ()
    param_facts: tuple[ParamFacts, ...] = ()
    noinline: bool = False
    loc: Location = UNKNOWN

    @property
    def params(self) -> tuple[Value, ...]:
        return self.body.args

    def with_body(self, body: Block) -> Function:
        return self if body is self.body else replace(self, body=body)


@dataclass(frozen=True, slots=True, eq=False)
class Module:
    """A kernel: the entry's name, all functions by name, and the launch facts that hold for the whole module.

    `disjoint`: no memory reached by a written argument overlaps that of another argument.
    `wide`: some argument reaches 2**30 elements or more.
    `most_programs`: no axis of the grid has more programs; 0 if nothing is known of them.
    """

    entry_name: str
    functions: Mapping[str, Function] = field(default_factory=dict)
    disjoint: bool = False
    wide: bool = False
    most_programs: int = 0

    @property
    def entry(self) -> Function:
        return self.functions[self.entry_name]

    def with_functions(self, functions: Mapping[str, Function]) -> Module:
        """The same module if every function is the same object, else a new one."""
        same = functions.keys() == self.functions.keys() and all(
            functions[n] is self.functions[n] for n in functions)
        return self if same else replace(self, functions=dict(functions))
