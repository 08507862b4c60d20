"""Branches at run time: two sides traced apart, then joined by an `if` op.

A side is what was traced on one path: its ops, and variables and exits at its end.  `join` makes the `if`: it yields
what is needed afterwards and differs, and the flags of exits (`exits.py` has the rules).  A variable that has a value
on one side only, or values that cannot meet, has none afterwards; reading it is an error that says why.
Two run-time types that differ are an error at once, if the variable is still needed.
Tests: tests/frontend/test_control_flow.py, tests/frontend/test_structure.py.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from tilewright.frontend.exits import Exit, Exits, Flag
from tilewright.frontend.joins import ABSENT, Disagreement, Phis, Recipe, merge, merge_flags
from tilewright.frontend.liveness import Needs, assigned_names
from tilewright.frontend.scope import Locals
from tilewright.frontend.state import State
from tilewright.ir.node import Op, Value
from tilewright.language.errors import LanguageTypeError

_MISSING = object()


@dataclass(slots=True)
class Side:
    """One path of a branch.  `outside`: its flags and returned value were computed before the branch."""

    ops: list[Op]
    variables: Locals
    exits: Exits = field(default_factory=Exits)
    outside: bool = False


class Branches(State):
    """The part of a tracer that joins paths."""

    def trace_side(self, trace: Callable[[], None]) -> Side:
        """The path that `trace` follows from here."""
        ops, variables, exits, _ = self.traced(trace, self.locals.copy())
        return Side(ops, variables, exits)

    def resume_side(self, side: Side, trace: Callable[[], None]) -> None:
        """Go on at the end of a side."""
        around = self.locals, self.exits
        self.locals, self.exits = side.variables, side.exits
        try:
            with self.builder.resume(side.ops):
                trace()
            side.variables, side.exits = self.locals, self.exits
        finally:
            self.locals, self.exits = around

    def kept_names(self, node: ast.AST) -> Needs:
        """The variables that an expression may assign (by a walrus)."""
        return Needs(assigned_names([node]))

    # -- going on with exits pending --------------------------------------------------------------------------------

    def guarded(self, node: ast.AST, needs: Needs, rest: Callable[[], None]) -> None:
        """Trace `rest` where no exit has been taken yet."""
        pending = self.exits.pending
        if not pending:
            rest()
            return
        self.at(node)
        stop = self.builder.any_of(pending)
        left = Side([], self.locals.copy(), self.exits, outside=True)
        left.exits.falls = False
        if len(pending) == 1:       # where the only flag holds, it always holds
            left.exits.flags = dict.fromkeys(left.exits.flags, True)
        self.exits = Exits()
        going = self.trace_side(rest)
        self.at(node)
        self.join(node, stop, left, going, needs)

    # -- joining ----------------------------------------------------------------------------------------------------

    def join(self, node: ast.AST, flag: Value, then: Side, otherwise: Side, needs: Needs,
             values: Sequence[tuple[Any, Any]] = ()) -> list[Any]:
        """End a branch on `flag`: emit the `if`, set variables and exits; returns the merged `values`."""
        phis = Phis(self.builder)
        with self.placed(node):
            merged_values = [self._merged_value(node, a, b, phis) for a, b in values]
        variables = self._join_variables(node, then, otherwise, needs, phis)
        exits = self._join_exits(flag, then, otherwise, phis)
        results = self._emit_if(flag, then, otherwise, phis)
        self.locals = variables(results)
        self.exits = exits(results)
        return [recipe(results) for recipe in merged_values]

    def _emit_if(self, flag: Value, then: Side, otherwise: Side, phis: Phis) -> Sequence[Value]:
        if not len(phis) and not then.ops and not otherwise.ops:
            return ()
        blocks = []
        for index, side in enumerate((then, otherwise)):
            with self.builder.resume(side.ops):
                handles = phis.handles(index)
            blocks.append(self.builder.closed(side.ops, (), handles))
        return self.builder.emit("if", (flag,), None, blocks)

    def _merged_value(self, node: ast.AST, a: Any, b: Any, phis: Phis) -> Recipe:
        try:
            return merge(a, b, phis, literals=True)
        except Disagreement as error:
            raise LanguageTypeError(f"both sides must have one type, but they are {error.left} when the condition "
                            f"holds and {error.right} when it does not; convert one, e.g. with .to(...), or write a "
                                    "literal of the other's kind") from None

    # -- variables --------------------------------------------------------------------------------------------------

    def _join_variables(self, node: ast.AST, then: Side, otherwise: Side, needs: Needs,
                        phis: Phis) -> Callable[[Sequence[Value]], Locals]:
        joined = Locals(gone={**then.variables.gone, **otherwise.variables.gone})
        recipes: list[tuple[str, Recipe, ast.AST | None]] = []
        if then.exits.reaches_variables or otherwise.exits.reaches_variables:
            for name in dict.fromkeys([*then.variables.values, *otherwise.variables.values]):
                found = self._join_variable(node, name, then, otherwise, needs, phis, joined)
                if found is not None:
                    recipes.append(found)

        def build(results: Sequence[Value]) -> Locals:
            for name, recipe, origin in recipes:
                joined.assign(name, recipe(results), origin)
            return joined

        return build

    def _join_variable(self, node: ast.AST, name: str, then: Side, otherwise: Side, needs: Needs, phis: Phis,
                       joined: Locals) -> tuple[str, Recipe, ast.AST | None] | None:
        """How `name` goes on after the branch; None (and a reason in `joined`) if it does not."""
        sides = (then, otherwise)
        a, b = (side.variables.values.get(name, _MISSING) for side in sides)
        origins = [side.variables.origins.get(name) for side in sides]
        if a is b:
            return name, _constant(a), origins[0]
        needed = [_is_needed(name, side.exits, needs) for side in sides]
        if not any(needed):
            joined.drop(name, f"its value is not kept after the branch at {self.line(node)}")
            return None
        old = self.locals.values.get(name, _MISSING)
        for index, side in enumerate(sides):
            value, other = ((a, b), (b, a))[index]
            if not needed[index]:       # on a path on which nobody reads it, it has no say
                if other is _MISSING:
                    return None
                if other is old:
                    return name, _constant(other), origins[1 - index]
            elif value is _MISSING:
                if side.exits.falls and name in needs.at_end:
                    self._drop_one_sided(node, name, origins[1 - index], index, joined)
                    return None
                for kind in side.exits.flags:
                    side.exits.unset.setdefault(kind, set()).add(name)
            else:
                continue
            a, b = (ABSENT, b) if index == 0 else (a, ABSENT)
        try:
            return name, merge(a, b, phis), origins[1] if origins[1] is not None else origins[0]
        except Disagreement as error:
            self._disagree(node, name, origins, error, joined)
            return None

    def _drop_one_sided(self, node: ast.AST, name: str, origin: ast.AST | None, missing_side: int,
                        joined: Locals) -> None:
        holds = "does not hold" if missing_side == 0 else "holds"
        joined.drop(name, f"it is assigned at {self.line(origin)} only if the condition at {self.line(node)} {holds}, "
                          f"and has no value otherwise; assign it on both paths, or before {self.line(node)}")

    def _disagree(self, node: ast.AST, name: str, origins: list[ast.AST | None], error: Disagreement,
                  joined: Locals) -> None:
        places = [f" ({'assigned at ' if o is not None else 'the parameter at '}{self.line(o)})" for o in origins]
        message = (f"{name} has type {error.left}{places[0]} if the condition at {self.line(node)} holds, and "
                   f"{error.right}{places[1]} if not; a variable has one type after an `if`: convert one of the two, "
                   "or use two names")
        if not error.both_run_time:
            joined.drop(name, message)
            return
        before = self.locals.origins.get(name)
        guilty = next((o for o in reversed(origins) if o is not None and o is not before), node)
        raise self.error(guilty, f"Mismatched type for {name} between then block ({error.left}) and else block "
                                 f"({error.right}): {message}")

    # -- exits ------------------------------------------------------------------------------------------------------

    def _join_exits(self, flag: Value, then: Side, otherwise: Side,
                    phis: Phis) -> Callable[[Sequence[Value]], Exits]:
        a, b = then.exits, otherwise.exits
        recipes: dict[Exit, Recipe] = {}
        for kind in Exit:
            if kind in a.flags or kind in b.flags:
                recipes[kind] = self._join_flag(kind, flag, then, otherwise, phis)
        value = self._join_returned(then, otherwise, phis)
        unset = {kind: a.unset.get(kind, set()) | b.unset.get(kind, set()) for kind in {*a.unset, *b.unset}}
        where = b.where if b.where is not None else a.where

        def build(results: Sequence[Value]) -> Exits:
            flags: dict[Exit, Flag] = {kind: recipe(results) for kind, recipe in recipes.items()}
            return Exits(a.falls or b.falls, flags, value(results), where, unset)

        return build

    def _join_flag(self, kind: Exit, condition: Value, then: Side, otherwise: Side, phis: Phis) -> Recipe:
        """The flag of an exit after the branch; where it is the condition itself no result is needed."""
        a, b = (side.exits.flags.get(kind, False) for side in (then, otherwise))
        if a is b:
            return lambda results: a
        if a is True and b is False:
            return lambda results: condition
        if a is False and b is True:
            return lambda results: self.builder.negated(condition)
        if then.outside and b is False:      # it was taken before, and then the condition holds
            return lambda results: a
        return merge_flags(a, b, phis)

    def _join_returned(self, then: Side, otherwise: Side, phis: Phis) -> Recipe:
        a, b = then.exits, otherwise.exits
        returns = [Exit.RETURN in a.flags, Exit.RETURN in b.flags]
        if not any(returns):
            return lambda results: None
        if then.outside and not returns[1]:
            return lambda results: a.value
        try:
            return merge(a.value if returns[0] else ABSENT, b.value if returns[1] else ABSENT, phis, literals=True)
        except Disagreement as error:
            assert b.where is not None
            raise self.error(b.where, f"this returns {error.right}, but the `return` at {self.line(a.where)} returns "
                                      f"{error.left}; all returns of {self.fn.__name__} must have one type: convert "
                                      "one of them") from None


def _constant(value: Any) -> Recipe:
    return lambda results: value


def _is_needed(name: str, exits: Exits, needs: Needs) -> bool:
    """Whether somebody may read `name` on a path that leaves a side by `exits`."""
    return ((exits.falls and name in needs.at_end)
            or (Exit.BREAK in exits.flags and name in needs.at_break)
            or (Exit.CONTINUE in exits.flags and name in needs.at_continue))


def drop_unset(variables: Locals, names: Iterable[str], reason: str) -> None:
    """Variables that an exit leaves unset have no value where it leads."""
    for name in names:
        if name in variables.values:
            variables.drop(name, reason)
