"""The form of an op row, and the table of all rows.

**One op, one row.**  A row is everything that its consumers share: operands, attributes, type rule, effects, algebra,
domain of defined inputs, error bound, NumPy meaning (`ref`), scalar LLVM template.  The builder, verifier, folder,
both interpreters and the code generators read it; none of them may define what an op means.

Rows are strict: no op promotes, broadcasts or guesses signedness.  `infer` gets the operand types and returns the
result types or raises `TypeRuleError`.  `ref` gets a `Call` and returns one array per result.  **Every array has a
leading program axis**: a value of type `tile<4x8xf32>` in a batch of P programs is an array of shape (P, 4, 8), a
scalar one of shape (P,); storage by `ir.types.storage_dtype`.  **A program axis of size 1 stands for all programs**
(constants, iota, what follows from them): every `ref` takes operands whose program axes are each 1 or P, may return
either, and never writes into an operand, which may be a broadcast view.

The table is filled when `tilewright.ir.ops` is imported and is not changed afterwards.
Tests: tests/ir/test_ops_table.py, tests/conform/.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import numpy as np

from tilewright.diagnostics import Location
from tilewright.ir.types import Type

if TYPE_CHECKING:
    from tilewright.ir.node import Block

Array = np.ndarray[Any, Any]


class TypeRuleError(TypeError):
    """Operand types or attributes that a row's type rule rejects."""


F = TypeVar("F", bound=enum.Flag)


def _and(a: F, b: F) -> F:
    """`a & b`: known combinations are looked up, in a third of the time that `enum.Flag` takes."""
    try:
        return type(a)._value2member_map_[a._value_ & b._value_]     # type: ignore[return-value]
    except KeyError:
        return enum.Flag.__and__(a, b)


def _or(a: F, b: F) -> F:
    """`a | b`, in the same way."""
    try:
        return type(a)._value2member_map_[a._value_ | b._value_]     # type: ignore[return-value]
    except KeyError:
        return enum.Flag.__or__(a, b)


class Stage(enum.Flag):
    """In which stages of the module an op may stand (docs/design.md, Stages)."""

    __and__, __or__ = _and, _or         # (`enum` puts its own into each class that has none)

    TILE = enum.auto()
    LAID_OUT = enum.auto()
    STAGED = enum.auto()
    ANY = TILE | LAID_OUT | STAGED


class Effect(enum.Flag):
    """What an op does beside computing its results."""

    __and__, __or__ = _and, _or

    NONE = 0
    READS = enum.auto()
    WRITES = enum.auto()
    PRINTS = enum.auto()
    ORDERS = enum.auto()       # no memory access moves across it
    ASSERTS = enum.auto()      # may end the program
    CONTROL = enum.auto()      # terminators
    NESTED = enum.auto()       # as its regions do (loops, if) or as its callee does (call)


class Algebra(enum.Flag):
    """Laws that hold *bit for bit* on every input."""

    __and__, __or__ = _and, _or

    NONE = 0
    COMMUTATIVE = enum.auto()
    ASSOCIATIVE = enum.auto()
    IDEMPOTENT = enum.auto()


@dataclass(frozen=True, slots=True)
class Operand:
    """One operand; a row may have one variadic operand, the last, and optional ones.

    Which optional operands are present is told by the attribute `has_<name>` (a bool).
    """

    name: str
    doc: str = ""
    optional: bool = False
    variadic: bool = False


@dataclass(frozen=True, slots=True)
class Attribute:
    """One attribute: its value is an instance of `kind` (an Enum, int, bool, float, str, tuple, a Type)."""

    name: str
    kind: Any
    default: Any = None
    required: bool = True


class Machine(Protocol):
    """What effectful and structured rows ask of the interpreter that runs them.  Arrays lead with programs.

    `location` is that of the op that runs.  `signed` has a flag for each printed value: whether its integers are
    shown as signed.  `atomic` puts `update(old, *values)` in the place of each element, one lane after the other, and
    gives what it found, zero where the mask is false.
    """

    location: Location

    def program_id(self, axis: int) -> Array: ...
    def num_programs(self, axis: int) -> Array: ...
    def load(self, address: Array, mask: Array | None, other: Array | None, element: Type) -> Array: ...
    def store(self, address: Array, value: Array, mask: Array | None, element: Type) -> None: ...
    def atomic(self, address: Array, values: Sequence[Array], mask: Array | None, element: Type,
               update: Callable[..., Array]) -> Array: ...
    def run_region(self, region: Block, args: Sequence[Array]) -> tuple[Array, ...]: ...
    def device_print(self, prefix: str, hex: bool, signed: Sequence[bool], args: Sequence[Array],
                     types: Sequence[Type]) -> None: ...
    def device_assert(self, condition: Array, message: str) -> None: ...


@dataclass(slots=True)
class Call:
    """One evaluation of an op: what `ref` sees."""

    args: Sequence[Array]
    types: Sequence[Type]
    result_types: Sequence[Type]
    attrs: Mapping[str, Any]
    regions: Sequence[Block]
    machine: Machine


@dataclass(frozen=True, slots=True)
class ErrorBound:
    """How far an engine may be from the exact result.

    `ulp` 0: all engines give the same bits.  `sum_eps` c > 0: |error| <= c * eps * sum of |terms| (sum, dot, scan).
    """

    ulp: float = 0
    sum_eps: float = 0

    @property
    def exact(self) -> bool:
        return self.ulp == 0 and self.sum_eps == 0


EXACT = ErrorBound()

InferRule = Callable[[Sequence[Type], Mapping[str, Any], "Sequence[Block]"], tuple[Type, ...]]
RefRule = Callable[[Call], "tuple[Array, ...]"]
# LLVM text of one element: format string over {0} {1} ... (operand values), {t} (operand's LLVM type, possibly a
# vector), {r} (result's LLVM type), {s} (the operand type's suffix in an intrinsic's name), and for select {c} (the
# condition's type); or None when a target's own code is needed (floats in narrow types, math).
Template = str | None


@dataclass(frozen=True, slots=True)
class OpRow:
    """The definition of one op; see the module's docstring."""

    name: str
    operands: tuple[Operand, ...]
    infer: InferRule
    ref: RefRule | None                     # None: control flow, run by the interpreters themselves
    doc: str
    source: str                             # where the rule comes from
    attributes: tuple[Attribute, ...] = ()
    regions: int = 0
    effects: Effect = Effect.NONE
    stages: Stage = Stage.ANY
    algebra: Algebra = Algebra.NONE
    elementwise: bool = False               # same shape in and out, element by element
    terminator: bool = False
    bound: ErrorBound = EXACT
    # operand arrays -> bool array: where the result is defined by the rule; None: everywhere
    domain: Callable[[Call], Array] | None = None
    template: Template = None
    aliases: Mapping[str, Any] = field(default_factory=dict)

    @property
    def is_pure(self) -> bool:
        """No effect and no dependence on memory."""
        return self.effects is Effect.NONE

    def operand_counts(self, attrs: Mapping[str, Any]) -> tuple[float, float]:
        """The least and the largest number of operands that the attributes allow."""
        fixed = sum(not o.variadic and (not o.optional or bool(attrs.get(f"has_{o.name}"))) for o in self.operands)
        return fixed, math.inf if any(o.variadic for o in self.operands) else fixed

    def operand_index(self, name: str, attrs: Mapping[str, Any], count: int) -> int | None:
        """Index of the operand `name` among `count` given ones, or None if it is absent."""
        index = 0
        for spec in self.operands:
            present = not spec.optional or bool(attrs.get(f"has_{spec.name}"))
            if spec.name == name:
                return index if present and index < count else None
            index += present
        raise KeyError(f"op {self.name} has no operand {name!r}")


def _guarded(row: OpRow) -> InferRule:
    """The row's type rule behind the checks that every row needs: numbers of operands and regions, kinds of attributes.

    So a rule may unpack its operands, and whatever it refuses, also by building an impossible type, is a
    `TypeRuleError`.
    """

    always = None if any(o.optional for o in row.operands) else row.operand_counts({})
    specs = [(a.name, a.default, a.kind, a.kind is int) for a in row.attributes]
    rule, wanted = row.infer, row.regions

    def infer(types: Sequence[Type], attrs: Mapping[str, Any], regions: Sequence[Block]) -> tuple[Type, ...]:
        least, most = always or row.operand_counts(attrs)
        if not least <= len(types) <= most:
            raise TypeRuleError(f"takes {least}{'' if most == least else ' or more'} operands, not {len(types)}")
        if len(regions) != wanted:
            raise TypeRuleError(f"takes {wanted} regions, not {len(regions)}")
        for name, default, kind, is_number in specs:
            value = attrs.get(name, default)
            if not isinstance(value, kind) or (is_number and isinstance(value, bool)):
                raise TypeRuleError(f"attribute {name} cannot be {value!r}")
        try:
            return rule(types, attrs, regions)
        except ValueError as error:
            raise TypeRuleError(str(error)) from error

    return infer


class OpTable(Mapping[str, OpRow]):
    """All rows by name; refuses doubles, incomplete rows, and additions after `freeze`."""

    def __init__(self) -> None:
        self._rows: dict[str, OpRow] = {}       # their `infer` is guarded, see `_guarded`
        self._frozen = False

    def add(self, row: OpRow) -> OpRow:
        if self._frozen:
            raise RuntimeError(f"the op table is frozen; row {row.name!r} comes too late")
        if row.name in self._rows:
            raise ValueError(f"op {row.name!r} has two rows")
        if not row.doc or not row.source:
            raise ValueError(f"op {row.name!r} needs a doc line and a source")
        if row.ref is None and not (row.effects & (Effect.NESTED | Effect.CONTROL)):
            raise ValueError(f"op {row.name!r} needs a NumPy meaning")
        row = replace(row, infer=_guarded(row))
        self._rows[row.name] = row
        return row

    def freeze(self) -> None:
        self._frozen = True

    def __getitem__(self, name: str) -> OpRow:
        return self._rows[name]

    def __iter__(self):  # type: ignore[no-untyped-def]
        return iter(self._rows)

    def __len__(self) -> int:
        return len(self._rows)


TABLE = OpTable()
