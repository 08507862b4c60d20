"""What a run-time loop carries from iteration to iteration, and the loop ops made of it.

A loop carries the variables that its body assigns, that exist before it and that are needed at its head
(`liveness.py`).  The body is traced once, with the carried tensors as region arguments; at its end each must have the
type that it began with.  A compile-time number that the body turns out to change cannot stay one: the body is traced
again with that variable as a run-time scalar (`Retrace`), and what the first trace would have told is dropped.

A `while` op is made from `Slot`s, one for each value that goes round: variables, and, for a loop that is left by
`break` or `return`, the exit's flag and the returned value (zeros until it is known).
Tests: tests/frontend/test_loops.py, tests/errors/loops.py.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from tilewright.diagnostics import CompilationError
from tilewright.frontend.exits import Exit, Exits
from tilewright.frontend.expressions import Expressions
from tilewright.frontend.graph import Retrace
from tilewright.frontend.liveness import Loop, Names
from tilewright.frontend.scope import Locals
from tilewright.frontend.values import (
    handles,
    is_number,
    is_static,
    is_tuple,
    same_static,
    spelled,
    static_key,
    type_name,
    with_handles,
)
from tilewright.ir.node import Op, Value
from tilewright.ir.types import I1
from tilewright.language import semantic
from tilewright.language.core import tensor
from tilewright.language.promotion import literal_type
from tilewright.language.values import to_tensor


def fresh(value: Any, hint: str = "") -> Any:
    """The value with fresh region arguments as its tensors."""
    return with_handles(value, [Value(h.type, hint or h.hint) for h in handles(value)])


@dataclass(slots=True)
class Carried:
    """A variable that a loop carries: its value before the loop, and the same with the region's arguments in it."""

    name: str
    before: Any
    inside: Any
    origin: ast.AST | None = None


@dataclass(slots=True)
class Body:
    """A traced loop body: its ops, variables and exits at its end."""

    ops: list[Op]
    variables: Locals
    exits: Exits

    @property
    def leaves_loop(self) -> bool:
        return Exit.BREAK in self.exits.flags or Exit.RETURN in self.exits.flags


@dataclass(slots=True)
class Slot:
    """One value of a `while` op: before the loop, argument of the test, what the test passes on, argument of the
    body, value at the body's end."""

    init: Value
    head: Value
    passed: Value
    inside: Value
    next: Value


@dataclass(slots=True)
class Test:
    """A traced loop condition; `flag` is an i1 that `ops` compute from the slots' heads, or True."""

    ops: list[Op]
    flag: Value | bool


class CarriedValues(Expressions):
    """The part of a tracer that loops of both kinds share."""

    def block(self, statements: Sequence[ast.stmt]) -> None:
        """Trace statements (`statements.py`)."""
        raise NotImplementedError

    # -- variables --------------------------------------------------------------------------------------------------

    def speculate(self, trace: Callable[[Names], None]) -> None:
        """Trace a loop; again, with more variables at run time, while it turns out to change compile-time numbers."""
        decayed: Names = frozenset()
        while True:
            around = self.locals.copy(), self.exits, dict(self.declared)
            try:
                with self.builder.speculation(), self.builder.collect() as ops:
                    trace(decayed)
                self.builder.replay(ops)
                return
            except Retrace as wrong:
                self.locals, self.exits, self.declared = around
                decayed |= wrong.names

    def carried(self, names: Names, decayed: Names) -> list[Carried]:
        """The variables among `names` that exist here, those in `decayed` as run-time values."""
        found = []
        for name in [n for n in self.locals.values if n in names]:
            value = self.locals.values[name]
            if name in decayed:
                value = semantic.decay(self.builder, value)
            found.append(Carried(name, value, fresh(value, name), self.locals.origins.get(name)))
        return found

    def entered(self, carried: Sequence[Carried], variables: Locals) -> Locals:
        """`variables` with the carried ones as they are inside the loop."""
        inside = variables.copy()
        for c in carried:
            inside.assign(c.name, c.inside, c.origin)
        return inside

    def trace_body(self, node: Loop, carried: Sequence[Carried], variables: Locals,
                   start: Callable[[], None] = lambda: None) -> Body:
        """Trace the body; an error that a wrong assumption may have caused leads to `Retrace`."""

        def trace() -> None:
            start()
            try:
                self.block(node.body)
            except CompilationError:
                changed = self._changed_numbers(carried)
                if changed:
                    raise Retrace(changed) from None
                raise

        ops, variables, exits, _ = self.traced(trace, self.entered(carried, variables))
        exits.end(Exit.CONTINUE)
        return Body(ops, variables, exits)

    def _changed_numbers(self, carried: Sequence[Carried]) -> Names:
        """Compile-time numbers that the body has assigned something else to, so far."""
        return frozenset(c.name for c in carried if is_static(c.before) and _has_number(c.before)
                         and static_key(self.locals.values.get(c.name)) != static_key(c.before))

    def final_values(self, node: Loop, carried: Sequence[Carried], body: Body) -> list[Any]:
        """The value of each carried variable at the body's end, checked against its type at the head."""
        names = self.live.loop(node)
        if body.exits.falls:
            needed = names.at_head | names.after
        else:       # no iteration comes to the head again; after the loop nobody looks if all of them return
            needed = names.after if body.exits.reaches_variables else frozenset()
        return [self._final_value(node, c, body) if c.name in needed else c.inside for c in carried]

    def _final_value(self, node: Loop, c: Carried, body: Body) -> Any:
        if c.name not in body.variables.values:
            reason = body.variables.gone.get(c.name, "it has no value at the end of the body")
            raise self.error(node, f"{c.name} has a value before the loop, but not after each iteration: {reason}")
        value = body.variables.values[c.name]
        if is_static(c.before) and is_static(value) and same_static(c.before, value):
            return c.before
        if is_static(c.before) and _has_number(c.before) and _can_decay(value):
            raise Retrace(frozenset({c.name}))
        if is_number(value):
            with self.builder.resume(body.ops):
                value = to_tensor(self.builder, value)
        if not same_type(c.before, value):
            raise self._type_change(node, c, value, body.variables.origins.get(c.name))
        return value

    def _type_change(self, node: Loop, c: Carried, value: Any, origin: ast.AST | None) -> CompilationError:
        where = f"assigned at {self.line(c.origin)}" if c.origin is not None else "a parameter"
        guilty = origin if origin is not None and origin is not c.origin else node
        return self.error(guilty, type_change_message(c.name, c.before, where, value, self.line(node)))

    def assign_results(self, carried: Sequence[Carried], results: Sequence[Value], body: Body) -> None:
        """The carried variables after the loop."""
        remaining = list(results)
        for c in carried:
            count = len(handles(c.before))
            origin = body.variables.origins.get(c.name, c.origin)
            self.locals.assign(c.name, with_handles(c.before, remaining[:count]), origin)
            del remaining[:count]

    def drop_inner(self, node: Loop, assigned: Names, kept: set[str]) -> None:
        """Other variables that the loop assigns have no value after it."""
        for name in sorted(assigned - kept):
            self.locals.drop(name, f"it is assigned inside the loop at {self.line(node)}, whose body may not run; "
                                   "assign it before the loop as well")

    # -- the while op -----------------------------------------------------------------------------------------------

    def variable_slots(self, carried: Sequence[Carried], heads: Sequence[Any], passed: Sequence[Any],
                       final: Sequence[Any]) -> list[Slot]:
        """The slots of carried variables; `heads` are their values in the test, `passed` after it."""
        slots = []
        for c, head, after_test, last in zip(carried, heads, passed, final, strict=True):
            parts = (handles(v) for v in (c.before, head, after_test, c.inside, last))
            slots += [Slot(*five) for five in zip(*parts, strict=True)]
        return slots

    def exit_slots(self, body: Body) -> tuple[list[Slot], list[Slot]]:
        """Slots for the flags of BREAK and RETURN, and for the returned tensors."""
        flags = []
        for kind in (Exit.BREAK, Exit.RETURN):
            flag = body.exits.flags.get(kind)
            if flag is not None:
                with self.builder.resume(body.ops):
                    taken = self.builder.boolean(True) if flag is True else flag
                flags.append(self._new_slot(self.builder.boolean(False), taken, kind.value))
        returned = handles(body.exits.value) if Exit.RETURN in body.exits.flags else []
        return flags, [self._new_slot(self.builder.zero(h.type), h, "returned") for h in returned]

    def zero_slot(self, final: Value, passed: Value | None = None) -> Slot:
        """A slot for a value that only exists from the first iteration on."""
        slot = self._new_slot(self.builder.zero(final.type), final, final.hint)
        return slot if passed is None else Slot(slot.init, slot.head, passed, slot.inside, slot.next)

    def _new_slot(self, init: Value, final: Value, hint: str) -> Slot:
        head, inside = Value(init.type, hint), Value(init.type, hint)
        return Slot(init, head, head, inside, final)

    def emit_while(self, slots: Sequence[Slot], flags: Sequence[Slot], test: Test, body: Body) -> tuple[Value, ...]:
        """The loop: while no flag is set and the test holds.  Once a flag is set the test is not evaluated again."""
        with self.builder.collect() as ops:
            going, passed = self._tested(slots, [s.head for s in flags], test)
        before = self.builder.closed(ops, [s.head for s in slots], [going, *passed], "condition")
        after = self.builder.closed(body.ops, [s.inside for s in slots], [s.next for s in slots])
        return self.builder.emit("while", [s.init for s in slots], None, [before, after])

    def _tested(self, slots: Sequence[Slot], flags: Sequence[Value], test: Test) -> tuple[Value, list[Value]]:
        passed = [s.passed for s in slots]
        if not flags:
            self.builder.replay(test.ops)
            return (self.builder.boolean(True) if test.flag is True else _value(test.flag)), passed
        stop = self.builder.any_of(flags)
        if test.flag is True:
            return self.builder.negated(stop), passed
        changed = [s for s in slots if s.passed is not s.head]
        if not changed and all(op.row.is_pure for op in test.ops):
            self.builder.replay(test.ops)
            return self.builder.emit("and", (_value(test.flag), self.builder.negated(stop)))[0], passed
        with self.builder.collect() as stopped:
            false = self.builder.boolean(False)
        left = self.builder.closed(stopped, (), [false, *(s.head for s in changed)])
        evaluated = self.builder.closed(test.ops, (), [_value(test.flag), *(s.passed for s in changed)])
        going, *others = self.builder.emit("if", (stop,), None, [left, evaluated])
        renamed = dict(zip([s.passed for s in changed], others, strict=True))
        return going, [renamed.get(p, p) for p in passed]

    def set_exits(self, body: Body, flags: Sequence[Value], returned: Sequence[Value]) -> None:
        """Exits after a loop: a `return` in it is pending."""
        kinds = [k for k in (Exit.BREAK, Exit.RETURN) if k in body.exits.flags]
        for kind, flag in zip(kinds, flags, strict=True):
            if kind is Exit.RETURN:
                self.exits.flags[kind] = flag
                self.exits.value = with_handles(body.exits.value, list(returned))
                self.exits.where = body.exits.where


def type_change_message(name: str, before: Any, where: str, now: Any, loop: str) -> str:
    """What is wrong with a loop that changes the type of `name`; `where` it began, `loop` is the loop's line."""
    was, becomes = type_name(before), type_name(now)
    if before is None:
        cure = (f"None cannot become a run-time value in a loop: give {name} a value of type {becomes} before it, "
                "e.g. with tl.zeros")
    elif isinstance(before, tensor) and isinstance(now, tensor) and not before.shape and now.shape:
        cure = (f"begin with a tile of the shape that the loop makes: {name} = tl.zeros({_sizes(now)}, "
                f"{spelled(now.dtype)})")
    else:
        cure = f"begin with a value of type {becomes}, or convert in the loop with .to(...), or use another name"
    return (f"Loop-carried variable {name} has initial type {was} ({where}) but is re-assigned to {becomes} in the "
            f"loop at {loop}; the type must stay the same: {cure}")


def _value(flag: Value | bool) -> Value:
    assert isinstance(flag, Value) and flag.type == I1
    return flag


def _has_number(value: Any) -> bool:
    """Whether a static value is or holds a number."""
    return any(map(_has_number, value)) if is_tuple(value) else is_number(value)


def _can_decay(value: Any) -> bool:
    return all(map(_can_decay, value)) if is_tuple(value) else isinstance(value, tensor) or is_number(value)


def same_type(a: Any, b: Any) -> bool:
    """Whether a loop may carry `b` where it began with `a`."""
    if isinstance(a, tensor) and isinstance(b, tensor):
        return bool(a.type == b.type)
    if isinstance(a, tensor) and is_number(b):
        return bool(literal_type(b.value) == a.type)
    if is_tuple(a) and is_tuple(b):
        return len(a) == len(b) and all(same_type(x, y) for x, y in zip(a, b))
    return not isinstance(a, tensor) and not isinstance(b, tensor) and same_static(a, b)


def _sizes(value: tensor) -> str:
    sizes = [s.value for s in value.shape]
    return f"({sizes[0]},)" if len(sizes) == 1 else str(tuple(sizes))
