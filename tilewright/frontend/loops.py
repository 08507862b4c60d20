"""Loops at run time, and loops that are unrolled at compile time.

A loop carries the variables that its body assigns, that exist before it and that are needed at its head
(`liveness.py`).  The body is traced once, with the carried tensors as arguments; at its end each must have the type
that it began with.  Only then is it known which exits the body has, so only then is the op chosen:

* no `break`, no `return`: a `for` op;
* else a `while` op over the trip count, which also carries the exit's flag and the returned value.

A compile-time number that the body turns out to change cannot stay one: the body is traced again with that variable
as a run-time scalar (`Retrace`), and what the first trace would have printed is dropped.

A step that is zero at run time runs no iteration and fails an assertion; the trip count of a loop with exits never
overflows, since it is unsigned: (upper - lower - 1) / step + 1.
Tests: tests/frontend/test_loops.py, tests/errors/loops.py.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

import tilewright.language as tl
from tilewright.diagnostics import CompilationError
from tilewright.frontend.branches import drop_unset
from tilewright.frontend.exits import Exit, Exits
from tilewright.frontend.expressions import Expressions
from tilewright.frontend.graph import Retrace
from tilewright.frontend.liveness import Loop, Names, assigned_names, assignments_of
from tilewright.frontend.python_builtins import items_of, static_range_of
from tilewright.frontend.scope import Locals
from tilewright.frontend.values import (
    handles,
    is_number,
    is_static,
    is_tuple,
    leaves,
    same_static,
    to_python,
    type_name,
    with_handles,
)
from tilewright.ir.node import Op, Value
from tilewright.ir.types import I32, I64, Type
from tilewright.language import semantic
from tilewright.language.casting import cast
from tilewright.language.core import constexpr, dtype, int32, tensor


@dataclass(slots=True)
class Carried:
    """A variable that a loop carries: its value before the loop, and the value with the region's arguments in it."""

    name: str
    before: Any
    inside: Any

    @property
    def inits(self) -> list[Value]:
        return handles(self.before)

    @property
    def args(self) -> list[Value]:
        return handles(self.inside)


@dataclass(slots=True)
class Body:
    """A traced loop body: its ops, variables and exits at its end."""

    ops: list[Op]
    variables: Locals
    exits: Exits


@dataclass(frozen=True, slots=True)
class Bounds:
    """Run-time bounds of a counted loop, of one integer type."""

    type: dtype
    lower: tensor
    upper: tensor
    step: tensor
    step_value: int | None      # of a compile-time step


class Loops(Expressions):
    """The part of a tracer that compiles loops."""

    def block(self, statements: Sequence[ast.stmt]) -> None:
        """Trace statements (`statements.py`)."""
        raise NotImplementedError

    # -- for --------------------------------------------------------------------------------------------------------

    def for_loop(self, node: ast.For) -> None:
        if node.orelse:
            raise self.unsupported(node.orelse[0], "`else` on a loop; set a flag before `break` and test it after")
        iterable = self.expression(node.iter)
        self.at(node.iter)
        if isinstance(iterable, tl.static_range):
            with self.placed(node.iter):
                items: Sequence[Any] = [constexpr(i) for i in static_range_of(iterable)]
            self._unroll(node, items)
        elif isinstance(iterable, tl.range):
            with self.placed(node.iter):
                bounds = self._bounds(iterable)
            self._speculate(node, lambda decayed: self._counted(node, bounds, iterable, decayed))
        elif is_tuple(iterable):
            self._unroll(node, items_of(iterable))
        else:
            raise self.error(node.iter, f"a `for` goes over range, tl.range, tl.static_range or a tuple, not over "
                                        f"{type_name(iterable)}")

    def _unroll(self, node: ast.For, items: Sequence[Any]) -> None:
        """One copy of the body for each item; after a run-time `break` the rest is guarded."""
        if items:
            self.bind(node.target, items[0])
            self.block(node.body)
            drop_unset(self.locals, self.exits.end(Exit.CONTINUE), self._skipped(node, "continue"))
            if self.exits.falls:
                self.guarded(node, self.live.after(node), lambda: self._unroll(node, items[1:]))
        else:
            return
        drop_unset(self.locals, self.exits.end(Exit.BREAK), self._skipped(node, "break"))

    def _skipped(self, node: ast.AST, exit_name: str) -> str:
        return f"a `{exit_name}` in the loop at {self.line(node)} may skip its assignment; assign it before the loop"

    def _bounds(self, r: Any) -> Bounds:
        """The bounds as tensors of one type: int32, or int64, uint32, uint64 if one of them is (semantics §11)."""
        kind: Any = int32
        parts = []
        for name, value in (("start", r.start), ("end", r.end), ("step", r.step)):
            part = semantic.to_tensor(self.builder, value)
            if part.shape or not isinstance(part.dtype, dtype) or not part.dtype.is_int():
                raise TypeError(f"the {name} of a range must be an integer scalar, not {type_name(part)}")
            kind = semantic.join_types(kind, part.dtype)
            parts.append(part)
        step_value = int(to_python(r.step)) if is_static(r.step) else None
        if step_value == 0:
            raise ValueError("the step of a range must not be zero")
        lower, upper, step = (cast(self.builder, part, kind) for part in parts)
        return Bounds(kind, lower, upper, step, step_value)

    def _counted(self, node: ast.For, bounds: Bounds, hints: Any, decayed: Names) -> None:
        if not isinstance(node.target, ast.Name):
            raise self.error(node.target, "the target of a run-time loop is one name: it counts integers")
        if bounds.step_value is None:
            self._assert_step(node, bounds)
        names = self.live.loop(node)
        name = node.target.id
        assigned = assigned_names(node.body) - {name}
        index = Value(bounds.lower.handle.type, name)
        counter = tensor(index, bounds.type, self.builder)
        carried = self._carried(node, assigned & names.at_head, decayed)
        last = self._last_index(name, bounds) if name in names.after else None
        body = self._trace_body(node, carried, decayed, lambda: self.locals.assign(name, counter, node.target))
        self._check_carried(node, carried, body, decayed)
        carried_values = [self._final(c, body) for c in carried]
        if last is not None:
            final = body.variables.values.get(name)
            same = isinstance(final, tensor) and final.type == bounds.type
            carried, carried_values = [*carried, last], [*carried_values, final if same else counter]
        self.at(node)
        if {Exit.BREAK, Exit.RETURN} & body.exits.flags.keys():
            self._for_with_exits(node, bounds, index, carried, carried_values, body)
        else:
            self._plain_for(node, bounds, hints, index, carried, carried_values, body)
        self._drop_inner(node, assigned | {name}, {c.name for c in carried})

    def _last_index(self, name: str, bounds: Bounds) -> Carried:
        """The loop variable after the loop: the last index; what it was before, or the start, if there was none."""
        before = self.locals.values.get(name)
        if not (isinstance(before, tensor) and before.type == bounds.type):
            before = bounds.lower
        return Carried(name, before, with_handles(before, [Value(before.handle.type, name)]))

    def _assert_step(self, node: ast.For, bounds: Bounds) -> None:
        (zero,) = self.builder.emit("constant", (), {"value": 0, "type": bounds.step.handle.type})
        (fine,) = self.builder.emit("cmp_ne", (bounds.step.handle, zero))
        self.builder.emit("device_assert", (fine,), {"message": f"the step of the range at {self.line(node)} is zero"})

    def _plain_for(self, node: ast.For, bounds: Bounds, hints: Any, index: Value, carried: list[Carried],
                   final: list[Any], body: Body) -> None:
        args = [index, *(a for c in carried for a in c.args)]
        block = self.builder.closed(body.ops, args, [h for v in final for h in handles(v)])
        stages = getattr(hints, "num_stages", None)
        attrs = {"unsigned": bounds.type.is_int_unsigned(), "stages": int(to_python(stages) or 0)}
        inits = [i for c in carried for i in c.inits]
        results = self.builder.emit("for", (bounds.lower.handle, bounds.upper.handle, bounds.step.handle, *inits),
                                    attrs, [block])
        self._assign_results(carried, results)

    def _for_with_exits(self, node: ast.For, bounds: Bounds, index: Value, carried: list[Carried], final: list[Any],
                        body: Body) -> None:
        """A `while` over the number of iterations left."""
        trips = self._trip_count(bounds)
        kind: Type = trips.type
        zero, one = (self.builder.emit("constant", (), {"value": v, "type": kind})[0] for v in (0, 1))
        count = Value(kind, "iteration")
        with self.builder.resume(body.ops):
            (next_count,) = self.builder.emit("add", (count, one))
            (next_index,) = self.builder.emit("add", (index, bounds.step.handle))
        state = _WhileState(self, carried, final, body)
        state.add(zero, count, next_count)
        state.add(bounds.lower.handle, index, next_index)

        def more(args: Sequence[Value]) -> Value:
            return self.builder.emit("cmp_lt_u", (args[0], trips))[0]

        self._emit_while(state, more)

    def _trip_count(self, bounds: Bounds) -> Value:
        """How many iterations, as an unsigned integer of the bounds' width."""
        emit, kind = self.builder.emit, bounds.lower.handle.type
        lower, upper, step = bounds.lower.handle, bounds.upper.handle, bounds.step.handle
        zero, one = (emit("constant", (), {"value": v, "type": kind})[0] for v in (0, 1))
        less = "cmp_lt_u" if bounds.type.is_int_unsigned() else "cmp_lt_s"

        def count(first: Value, last: Value, stride: Value) -> Value:
            (some,) = emit(less, (first, last))
            (distance,) = emit("sub", emit("sub", (last, first)) + (one,))
            (trips,) = emit("add", emit("div_u", (distance, stride)) + (one,))
            return emit("select", (some, trips, zero))[0]

        def negative() -> Value:
            return count(upper, lower, emit("sub", (zero, step))[0])

        if bounds.step_value is not None:
            return count(lower, upper, step) if bounds.step_value > 0 else negative()
        (up,) = emit("cmp_gt_s", (step, zero))
        (down,) = emit("cmp_lt_s", (step, zero))
        (backward,) = emit("select", (down, negative(), zero))
        return emit("select", (up, count(lower, upper, step), backward))[0]

    # -- while ------------------------------------------------------------------------------------------------------

    def while_loop(self, node: ast.While) -> None:
        if node.orelse:
            raise self.unsupported(node.orelse[0], "`else` on a loop; set a flag before `break` and test it after")
        self._speculate(node, lambda decayed: self._while(node, decayed))

    def _while(self, node: ast.While, decayed: Names) -> None:
        assigned = assigned_names([node.test, *node.body])
        names = self.live.loop(node)
        carried = self._carried(node, assigned & names.at_head, decayed)
        test_ops, test_variables, _, flag = self.traced(lambda: self._test(node), self._entered(carried))
        if not isinstance(flag, tensor) and not flag:
            self.builder.replay(test_ops)
            return
        inside = [Carried(c.name, c.inside, _fresh(c.inside)) for c in carried]
        # names that the condition assigns first (by a walrus) are carried as zeros
        new = [n for n in sorted(assigned_names([node.test]) & names.after | assigned_names([node.test]))
               if n in test_variables.values and n not in self.locals.values]
        body = self._trace_while_body(node, test_variables, inside, new, decayed)
        raise NotImplementedError


class _WhileState:
    def __init__(self, *a: Any) -> None: ...
    def add(self, *a: Any) -> None: ...


def _fresh(value: Any) -> Any:
    """The value with fresh region arguments as its tensors."""
    return with_handles(value, [Value(h.type, h.hint) for h in handles(value)])


_ = (Callable, nullcontext, CompilationError, Retrace, Loop, assignments_of, is_number, leaves, same_static, I32, I64)
