"""The verifier: what holds of every module, between all passes.

* Functions: the entry exists and has no results; parameter names and facts match the parameters; callees exist, call
  types match, no recursion.
* Blocks: not empty, ended by the one terminator that their owner asks for.  Every value is defined once; an operand is
  visible where it is used and defined before.  Combine regions (`walk.is_isolated`) see their arguments only.
* Ops: the row's number of operands and regions, attributes known, complete and of the declared kind, the row may stand
  in this stage, and its type rule, run again, gives the types of the results.  Before layouts no tile has one;
  with them every tile does, as `ir.layout_rules` allows.

A failure is a `VerifyError`: a fault of the compiler, never of the user.  Linear in the size of the module.
Tests: tests/ir/test_verify.py (one wrong op a case).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from tilewright.diagnostics import InternalError
from tilewright.ir.layout_rules import NAMES_LAYOUT, check_layouts, infer_without_layouts, without_layout
from tilewright.ir.node import Block, Function, Module, Op, Value
from tilewright.ir.ops.table import Effect, OpRow, Stage
from tilewright.ir.types import Tile, Type
from tilewright.ir.walk import is_isolated, ops_in

# What a type rule may raise when it is given what it never should see.
_RULE_FAILURES = (TypeError, ValueError, KeyError, IndexError, AttributeError)


class VerifyError(InternalError):
    """IR that breaks a rule; names the function, the op and its position in the order of `walk.ops_in`."""

    def __init__(self, message: str, function: Function | None = None, op: Op | None = None,
                 position: int | None = None) -> None:
        self.message, self.function, self.op, self.position = message, function, op, position
        where = []
        if function is not None:
            where.append(f"function @{function.name}")
        if op is not None:
            where.append(f"op {position}, {op.name}")
            if op.loc.line:
                where.append(f"from {op.loc}")
        super().__init__(f"{', '.join(where)}: {message}" if where else message)


def verify(module: Module, stage: Stage = Stage.TILE) -> None:
    """Raise `VerifyError` unless `module` obeys the rules of `stage`."""
    if module.entry_name not in module.functions:
        raise VerifyError(f"the entry @{module.entry_name} does not exist")
    if module.entry.result_types:
        raise VerifyError("the entry returns nothing", module.entry)
    for name, function in module.functions.items():
        if name != function.name:
            raise VerifyError(f"stands in the module as @{name}", function)
        _FunctionVerifier(module, function, stage).verify()
    _refuse_recursion(module)


def _refuse_recursion(module: Module) -> None:
    done: set[str] = set()
    active: list[str] = []

    def visit(name: str) -> None:
        if name in active:
            raise VerifyError("recursion: " + " calls ".join(f"@{n}" for n in [*active[active.index(name):], name]),
                              module.functions[name])
        if name in done:
            return
        active.append(name)
        for op in ops_in(module.functions[name].body):
            if op.name == "call":
                visit(op.attrs["callee"])
        active.pop()
        done.add(name)

    for name in module.functions:
        visit(name)


def expected_terminator(owner: Op | None, region: int) -> str:
    """The name of the terminator of region `region` of `owner`; None owns a function's body."""
    if owner is None:
        return "return"
    return "condition" if owner.name == "while" and region == 0 else "yield"


class _FunctionVerifier:
    """One walk over a function, with the set of values that are visible."""

    def __init__(self, module: Module, function: Function, stage: Stage) -> None:
        self._module = module
        self._function = function
        self._stage = stage
        self._layouts = not stage & Stage.TILE
        self._position = -1
        self._op: Op | None = None
        self._defined: set[Value] = set()       # every value so far, to refuse a second definition
        self._visible: set[Value] = set()
        self._rows: dict[str, tuple[int, int | None]] = {}

    def _fail(self, message: str) -> VerifyError:
        return VerifyError(message, self._function, self._op, self._position)

    def verify(self) -> None:
        function = self._function
        count = len(function.params)
        if len(function.param_names) != count:
            raise self._fail(f"{len(function.param_names)} parameter names for {count} parameters")
        if len(set(function.param_names)) != count:
            raise self._fail("two parameters have one name")
        if function.param_facts and len(function.param_facts) != count:
            raise self._fail(f"{len(function.param_facts)} parameter facts for {count} parameters")
        self._block(function.body, None, 0)

    def _block(self, block: Block, owner: Op | None, region: int) -> None:
        mine: list[Value] = []
        for arg in block.args:
            self._define(arg, mine)
        if not block.ops:
            raise self._fail("a region without a terminator")
        last = block.ops[-1]
        for op in block.ops:
            self._op = op
            self._position += 1
            if op.row.terminator is not (op is last):
                raise self._fail("a terminator stands before the end of its block" if op.row.terminator
                                 else "a block ends in an op that is no terminator")
            self._check_op(op, mine)
        self._op = last
        expected = expected_terminator(owner, region)
        if last.name != expected:
            raise self._fail(f"this region ends in {expected}")
        if owner is None:
            self._check_return(last)
        self._visible.difference_update(mine)

    def _define(self, value: Value, mine: list[Value]) -> None:
        if value in self._defined:
            raise self._fail(f"{value!r} is defined twice")
        if self._layouts is False and isinstance(value.type, Tile) and value.type.layout is not None:
            raise self._fail(f"{value.type} has a layout in a stage without layouts")
        self._defined.add(value)
        self._visible.add(value)
        mine.append(value)

    def _check_op(self, op: Op, mine: list[Value]) -> None:
        row = op.row
        visible = self._visible
        for index, operand in enumerate(op.operands):
            if operand not in visible:
                raise self._fail(self._unseen(index, operand))
        if not row.stages & self._stage:
            raise self._fail(f"may not stand in stage {self._stage.name}")
        self._check_counts(op)
        check_attributes(row, op.attrs, self._fail)
        if len(op.regions) != row.regions:
            raise self._fail(f"has {len(op.regions)} regions, its row {row.regions}")
        position = self._position
        for index, region in enumerate(op.regions):
            with self._isolation(op):
                self._block(region, op, index)
        self._op = op
        self._check_types(op, position)
        if row.effects & Effect.NESTED and "callee" in op.attrs:
            self._check_call(op)
        for result in op.results:
            self._define(result, mine)

    def _unseen(self, index: int, operand: Value) -> str:
        if operand in self._defined:
            return f"operand {index}, {operand!r}, is not visible here"
        return f"operand {index}, {operand!r}, is used before its definition, or has none"

    def _check_counts(self, op: Op) -> None:
        row, attrs = op.row, op.attrs
        limits = self._rows.get(row.name)
        if limits is None:
            required = sum(not o.optional and not o.variadic for o in row.operands)
            variadic = any(o.variadic for o in row.operands)
            limits = self._rows[row.name] = (required, None if variadic else required)
        least, most = limits
        count = len(op.operands)
        for operand in row.operands:
            if operand.optional and attrs.get(f"has_{operand.name}"):
                least += 1
                most = None if most is None else most + 1
        if count < least or (most is not None and count > most):
            raise self._fail(f"has {count} operands, its row {'at least ' if most is None else ''}{least}")

    @contextmanager
    def _isolation(self, op: Op) -> Iterator[None]:
        if not is_isolated(op):
            yield
            return
        outer, self._visible = self._visible, set()
        yield
        self._visible = outer

    def _check_types(self, op: Op, position: int) -> None:
        have = tuple(r.type for r in op.results)
        given = [v.type for v in op.operands]
        try:
            if self._layouts:
                types = infer_without_layouts(op.row, given, op.attrs, op.regions)
                check_layouts(op)
            else:
                types = op.row.infer(given, op.attrs, op.regions)
        except _RULE_FAILURES as error:
            self._position = position
            raise self._fail(f"type rule: {error}") from error
        if self._layouts and not op.row.effects & Effect.NESTED and op.name not in NAMES_LAYOUT:
            have = tuple(map(without_layout, have))
        if types != have:
            self._position = position
            raise self._fail(f"results are ({_join(have)}), its type rule gives ({_join(types)})")

    def _check_call(self, op: Op) -> None:
        callee = self._module.functions.get(op.attrs["callee"])
        if callee is None:
            raise self._fail(f"callee @{op.attrs['callee']} does not exist")
        if callee.name == self._module.entry_name:
            raise self._fail("the entry cannot be called")
        given, wanted = tuple(v.type for v in op.operands), tuple(p.type for p in callee.params)
        if given != wanted:
            raise self._fail(f"passes ({_join(given)}), @{callee.name} takes ({_join(wanted)})")
        if op.attrs["result_types"] != callee.result_types:
            raise self._fail(f"results are ({_join(op.attrs['result_types'])}), @{callee.name} returns "
                             f"({_join(callee.result_types)})")

    def _check_return(self, op: Op) -> None:
        given = tuple(v.type for v in op.operands)
        if given != self._function.result_types:
            raise self._fail(f"returns ({_join(given)}), the function is declared with "
                             f"({_join(self._function.result_types)})")


def _join(types: tuple[Type, ...]) -> str:
    return ", ".join(map(str, types))


def has_kind(value: Any, kind: Any) -> bool:
    """Whether an attribute's value is of its declared kind; True is no int unless bool is named."""
    if isinstance(value, bool):
        return kind is bool or (isinstance(kind, tuple) and bool in kind)
    return isinstance(value, kind)


def check_attributes(row: OpRow, attrs: Mapping[str, Any], fail: Any) -> None:
    """Raise `fail(message)` unless `attrs` are those of `row`, complete and of the declared kinds."""
    known = 0
    for spec in row.attributes:
        if spec.name in attrs:
            known += 1
            if not has_kind(attrs[spec.name], spec.kind):
                raise fail(f"attribute {spec.name} = {attrs[spec.name]!r} is not of its declared kind")
        else:
            raise fail(f"attribute {spec.name} is missing")
    for operand in row.operands:
        if operand.optional:
            present = attrs.get(f"has_{operand.name}")
            if not isinstance(present, bool):
                raise fail(f"attribute has_{operand.name} is missing or no bool")
            known += 1
    if known != len(attrs):
        names = {s.name for s in row.attributes} | {f"has_{o.name}" for o in row.operands if o.optional}
        raise fail(f"unknown attribute {', '.join(sorted(attrs.keys() - names))}")
