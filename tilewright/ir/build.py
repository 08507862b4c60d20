"""Building IR: an insertion point, and `create`, which infers result types from the row.

`Builder.create(name, operands, attrs, regions)` looks the row up, fills default attributes, checks that every
attribute is known, runs the type rule and appends the op.  An op with wrong types therefore cannot be built: a type
rule's refusal is an `InternalError` here (the language layer has to check before, with the user's words).
Tests: tests/ir/test_build.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from tilewright.diagnostics import UNKNOWN, InternalError, Location
from tilewright.ir.node import Block, Op, Value
from tilewright.ir.ops import TABLE
from tilewright.ir.ops.table import Attribute, OpRow, TypeRuleError
from tilewright.ir.types import Type


def complete_attrs(row: OpRow, attrs: Mapping[str, Any]) -> dict[str, Any]:
    """`attrs` with the row's defaults; KeyError on a missing or unknown one."""
    specs, flags = _known_attrs(row)
    full: dict[str, Any] = {}
    for spec in specs:
        if spec.name in attrs:
            full[spec.name] = attrs[spec.name]
        elif spec.required:
            raise KeyError(f"op {row.name} needs the attribute {spec.name}")
        else:
            full[spec.name] = spec.default
    for flag in flags:
        full[flag] = bool(attrs.get(flag, False))
    if not attrs.keys() <= full.keys():
        raise KeyError(f"op {row.name} has no attribute {', '.join(sorted(attrs.keys() - full.keys()))}")
    return full


_KNOWN: dict[str, tuple[tuple[Attribute, ...], tuple[str, ...]]] = {}


def _known_attrs(row: OpRow) -> tuple[tuple[Attribute, ...], tuple[str, ...]]:
    """The attributes of a row, and those that say which optional operands are there."""
    known = _KNOWN.get(row.name)
    if known is None:
        known = _KNOWN[row.name] = row.attributes, tuple(f"has_{o.name}" for o in row.operands if o.optional)
    return known


def make_op(name: str, operands: Sequence[Value], attrs: Mapping[str, Any] | None = None,
            regions: Sequence[Block] = (), loc: Location = UNKNOWN, hint: str = "") -> Op:
    """A new op with fresh result values, its types inferred by the row."""
    row = TABLE[name]
    full = complete_attrs(row, attrs or {})
    try:
        types = row.infer([v.type for v in operands], full, regions)
    except TypeRuleError as error:
        given = ", ".join(str(v.type) for v in operands)
        raise InternalError(f"{loc}: cannot build {name}({given}): {error}") from error
    return Op(row, operands, [Value(t, hint) for t in types], full, regions, loc)


class Builder:
    """An insertion point: ops are appended to the innermost open block."""

    def __init__(self) -> None:
        self._open: list[list[Op]] = []
        self.location: Location = UNKNOWN

    def create(self, name: str, operands: Sequence[Value] = (), attrs: Mapping[str, Any] | None = None,
               regions: Sequence[Block] = (), hint: str = "") -> tuple[Value, ...]:
        """Append an op at the current location; returns its results."""
        op = make_op(name, operands, attrs, regions, self.location, hint)
        self._open[-1].append(op)
        return op.results

    def append(self, op: Op) -> tuple[Value, ...]:
        """Append an op that exists already."""
        self._open[-1].append(op)
        return op.results

    @contextmanager
    def block(self, ops: list[Op] | None = None) -> Iterator[list[Op]]:
        """Open a nested insertion point; the list that it yields collects the ops.  `ops`: go on at the end of it."""
        ops = [] if ops is None else ops
        self._open.append(ops)
        try:
            yield ops
        finally:
            self._open.pop()

    def region(self, arg_types: Sequence[Type], body: Callable[..., Sequence[Value]],
               terminator: str = "yield", hints: Sequence[str] = ()) -> Block:
        """A block with arguments of `arg_types`, filled by `body(*args)`, whose results its terminator takes."""
        args = [Value(t, hints[i] if i < len(hints) else "") for i, t in enumerate(arg_types)]
        with self.block() as ops:
            results = body(*args)
            self.create(terminator, list(results))
        return Block(tuple(args), tuple(ops))
