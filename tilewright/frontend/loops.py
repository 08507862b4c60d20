"""`for` and `while`: counted loops, loops with a condition, loops unrolled at compile time.

Only when the body has been traced is it known which exits it has, so only then is the op chosen: no `break`, no
`return`: a `for` op; else a `while` op over the number of iterations.  That number is unsigned, (upper - lower - 1) /
step + 1, so neither it nor the last index overflows.  A step that is zero at run time runs no iteration and fails an
assertion, whatever the option `debug` says.

The loop variable is int32, or int64, uint32, uint64 if a bound is (semantics §11).  After the loop it is the last
index; if no iteration ran it is what it was before, or, if it had no value then, the start.
Tests: tests/frontend/test_loops.py, tests/errors/loops.py.
"""

from __future__ import annotations

import ast
import functools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import tilewright.language as tl
from tilewright.diagnostics import UnsupportedLanguageConstruct
from tilewright.frontend.branches import drop_unset
from tilewright.frontend.carried import Body, Carried, CarriedValues, Slot, Test, fresh
from tilewright.frontend.exits import Exit
from tilewright.frontend.liveness import Names, Needs, assigned_names
from tilewright.frontend.python_builtins import items_of, static_range_of
from tilewright.frontend.refusals import LOOP_ELSE, unsupported_message
from tilewright.frontend.values import handles, is_static, is_tuple, to_python, type_name, with_handles
from tilewright.frontend.wording import no_bound
from tilewright.ir.node import Value
from tilewright.language import semantic
from tilewright.language.casting import cast
from tilewright.language.core import constexpr, dtype, int32, tensor
from tilewright.language.errors import LanguageTypeError, LanguageValueError
from tilewright.language.values import to_tensor

# Guards that an unrolled loop puts inside each other; each takes some 12 frames of the 1000 that Python allows.
_MOST_GUARDS = 24


@dataclass(frozen=True, slots=True)
class Bounds:
    """Run-time bounds of a counted loop, all of one integer type; `step_value` is that of a compile-time step."""

    type: dtype
    lower: tensor
    upper: tensor
    step: tensor
    step_value: int | None


class Loops(CarriedValues):
    """The part of a tracer that compiles loops."""

    def for_loop(self, node: ast.For) -> None:
        self._refuse_else(node)
        iterable = self.expression(node.iter)
        self.at(node.iter)
        with self.placed(node.iter):
            if isinstance(iterable, tl.range):
                bounds = self._bounds(iterable)
            elif isinstance(iterable, tl.static_range):
                items: Sequence[Any] = [constexpr(i) for i in static_range_of(iterable)]
            elif is_tuple(iterable):
                items = items_of(iterable)
            else:
                raise LanguageTypeError(f"a `for` goes over range, tl.range, tl.static_range or a tuple, not over "
                                        f"{type_name(iterable)}")
        if isinstance(iterable, tl.range):
            self.speculate(lambda decayed: self._counted(node, bounds, iterable, decayed))
        else:
            self._unroll(node, items)

    def _refuse_else(self, node: ast.For | ast.While) -> None:
        if node.orelse:
            raise self.error(node.orelse[0], unsupported_message(node, LOOP_ELSE), UnsupportedLanguageConstruct)

    # -- unrolled ---------------------------------------------------------------------------------------------------

    def _unroll(self, node: ast.For, items: Sequence[Any], level: int = 0) -> None:
        """One copy of the body for each item; what follows a run-time `break` is guarded.

        Each guard is inside the one before, so that compile-time values stay such; behind `_MOST_GUARDS` they follow
        one another, and a variable that is assigned there is a run-time value: Python's recursion ends somewhere.
        """
        for index, item in enumerate(items):
            self._iteration(node, item)
            if not self.exits.falls:
                break
            if self.exits.pending:
                self._guard_rest(node, items[index + 1:], level + 1)
                break
        drop_unset(self.locals, self.exits.end(Exit.BREAK), self._skipped(node, "break"))

    def _iteration(self, node: ast.For, item: Any) -> None:
        """One copy of an unrolled loop's body."""
        self.bind(node.target, item)
        self.block(node.body)
        drop_unset(self.locals, self.exits.end(Exit.CONTINUE), self._skipped(node, "continue"))

    def _guard_rest(self, node: ast.For, items: Sequence[Any], level: int) -> None:
        """Unroll on where no exit has been taken yet."""
        names = self.live.loop(node)
        if level <= _MOST_GUARDS:
            self.guarded(node, Needs(names.after, names.after), lambda: self._unroll(node, items, level))
            return
        for item in items:
            if self.exits.falls:
                self.guarded(node, Needs(names.at_head | names.after, names.after),
                             functools.partial(self._iteration, node, item))

    def _skipped(self, node: ast.AST, exit_name: str) -> str:
        return f"a `{exit_name}` in the loop at {self.line(node)} may skip its assignment; assign it before the loop"

    # -- counted ----------------------------------------------------------------------------------------------------

    def _bounds(self, r: Any) -> Bounds:
        kind: Any = int32
        parts = []
        for name, value in (("start", r.start), ("end", r.end), ("step", r.step)):
            part = to_tensor(self.builder, value)
            if part.shape or not isinstance(part.dtype, dtype) or not part.dtype.is_int():
                raise LanguageTypeError(no_bound(name, type_name(part)))
            kind = semantic.join_types(kind, part.dtype)
            parts.append(part)
        step_value = int(to_python(r.step)) if is_static(r.step) else None
        if step_value == 0:
            raise LanguageValueError("the step of a range must not be zero")
        lower, upper, step = (cast(self.builder, part, kind) for part in parts)
        return Bounds(kind, lower, upper, step, step_value)

    def _counted(self, node: ast.For, bounds: Bounds, hints: Any, decayed: Names) -> None:
        if not isinstance(node.target, ast.Name):
            raise self.error(node.target, "the target of a run-time loop is one name: it counts integers")
        if bounds.step_value is None:
            self._assert_step(node, bounds)
        name, names = node.target.id, self.live.loop(node)
        assigned = assigned_names(node.body) - {name}
        index = Value(bounds.lower.handle.type, name)
        counter = tensor(index, bounds.type, self.builder)
        carried = self.carried(assigned & names.at_head, decayed)
        body = self.trace_body(node, carried, self.locals,
                               lambda: self.locals.assign(name, counter, node.target))
        final = self.final_values(node, carried, body)
        if name in names.after:
            last = body.variables.values.get(name)
            same = isinstance(last, tensor) and last.type == bounds.type
            carried, final = [*carried, self._last_index(node.target, bounds)], [*final, last if same else counter]
        self.at(node)
        if body.leaves_loop:
            self._leavable_for(bounds, index, carried, final, body)
        else:
            self._plain_for(bounds, hints, index, carried, final, body)
        self.drop_inner(node, assigned | {name}, {c.name for c in carried})

    def _last_index(self, target: ast.Name, bounds: Bounds) -> Carried:
        """The loop variable as a carried one."""
        before = self.locals.values.get(target.id)
        if not (isinstance(before, tensor) and before.type == bounds.type):
            before = bounds.lower
        return Carried(target.id, before, fresh(before, target.id), target)

    def _assert_step(self, node: ast.For, bounds: Bounds) -> None:
        (zero,) = self.builder.emit("constant", (), {"value": 0, "type": bounds.step.handle.type})
        (fine,) = self.builder.emit("cmp_ne", (bounds.step.handle, zero))
        self.builder.emit("device_assert", (fine,), {"message": f"the step of the range at {self.line(node)} is zero"})

    def _plain_for(self, bounds: Bounds, hints: Any, index: Value, carried: Sequence[Carried], final: Sequence[Any],
                   body: Body) -> None:
        args = [index, *(a for c in carried for a in handles(c.inside))]
        block = self.builder.closed(body.ops, args, [h for v in final for h in handles(v)])
        operands = [b.handle for b in (bounds.lower, bounds.upper, bounds.step)]
        attrs = {"unsigned": bounds.type.is_int_unsigned(), "stages": hints.num_stages or 0}
        inits = [i for c in carried for i in handles(c.before)]
        results = self.builder.emit("for", [*operands, *inits], attrs, [block])
        self.assign_results(carried, results, body)

    def _leavable_for(self, bounds: Bounds, index: Value, carried: Sequence[Carried], final: Sequence[Any],
                      body: Body) -> None:
        trips = self._trip_count(bounds)
        zero, one = (self._constant_like(trips, v) for v in (0, 1))
        count, count_at_head = (Value(trips.type, "iteration") for _ in range(2))
        with self.builder.resume(body.ops):
            (next_count,) = self.builder.emit("add", (count, one))
            (next_index,) = self.builder.emit("add", (index, bounds.step.handle))
        index_at_head = Value(index.type, index.hint)
        counters = [Slot(zero, count_at_head, count_at_head, count, next_count),
                    Slot(bounds.lower.handle, index_at_head, index_at_head, index, next_index)]
        with self.builder.collect() as ops:
            (more,) = self.builder.emit("cmp_lt_u", (count_at_head, trips))
        heads = [fresh(c.before, c.name) for c in carried]
        self._finish_while(carried, heads, heads, final, counters, Test(ops, more), body)

    def _finish_while(self, carried: Sequence[Carried], heads: Sequence[Any], passed: Sequence[Any],
                      final: Sequence[Any], others: Sequence[Slot], test: Test, body: Body) -> tuple[Value, ...]:
        """Emit a `while`; variables and exits are set; returns the results of `others`."""
        variables = self.variable_slots(carried, heads, passed, final)
        flags, returned = self.exit_slots(body)
        slots = [*others, *flags, *returned, *variables]
        results = self.emit_while(slots, flags, test, body)
        cuts = [len(others), len(others) + len(flags), len(others) + len(flags) + len(returned)]
        self.assign_results(carried, results[cuts[2]:], body)
        self.set_exits(body, results[cuts[0]:cuts[1]], results[cuts[1]:cuts[2]])
        return results[:cuts[0]]

    def _constant_like(self, value: Value, number: int) -> Value:
        return self.builder.emit("constant", (), {"value": number, "type": value.type})[0]

    def _trip_count(self, bounds: Bounds) -> Value:
        """How many iterations there are, as an unsigned integer of the bounds' width."""
        emit = self.builder.emit
        lower, upper, step = bounds.lower.handle, bounds.upper.handle, bounds.step.handle
        zero, one = (self._constant_like(lower, v) for v in (0, 1))
        less = "cmp_lt_u" if bounds.type.is_int_unsigned() else "cmp_lt_s"

        def count(first: Value, last: Value, stride: Value) -> Value:
            (distance,) = emit("sub", (emit("sub", (last, first))[0], one))
            (trips,) = emit("add", (emit("div_u", (distance, stride))[0], one))
            return emit("select", (emit(less, (first, last))[0], trips, zero))[0]

        def count_down() -> Value:
            return count(upper, lower, emit("sub", (zero, step))[0])

        if bounds.step_value is not None:
            return count(lower, upper, step) if bounds.step_value > 0 else count_down()
        (up,) = emit("cmp_gt_s", (step, zero))
        (down,) = emit("cmp_lt_s", (step, zero))
        (backward,) = emit("select", (down, count_down(), zero))
        return emit("select", (up, count(lower, upper, step), backward))[0]

    # -- while ------------------------------------------------------------------------------------------------------

    def while_loop(self, node: ast.While) -> None:
        self._refuse_else(node)
        self.speculate(lambda decayed: self._while(node, decayed))

    def _while(self, node: ast.While, decayed: Names) -> None:
        in_test = assigned_names([node.test])
        assigned = in_test | assigned_names(node.body)
        names = self.live.loop(node)
        carried = self.carried(assigned & (names.at_head | names.after), decayed)
        heads = [c.inside for c in carried]
        ops, tested, _, flag = self.traced(lambda: self._condition(node), self.entered(carried, self.locals))
        if flag is False:
            self._condition(node)       # of what the variables are, in the place of what they would be in the loop
            return
        passed = [tested.values[c.name] for c in carried]
        carried = [Carried(c.name, c.before, fresh(c.inside, c.name), c.origin) for c in carried]
        walrus = [n for n in tested.values if n in in_test and n not in self.locals.values]
        new = [Carried(n, tested.values[n], fresh(tested.values[n], n), tested.origins[n]) for n in walrus]
        body = self.trace_body(node, carried, self.entered(new, tested))
        final = self.final_values(node, carried, body)
        self.at(node)
        first = self._first_assigned(node, new, body, flag)
        test = Test(ops, flag if flag is True else flag.handle)
        others = self._slots_of_new(new, body)
        others += [self.zero_slot(h) for _, value in first for h in handles(value)]
        results = self._finish_while(carried, heads, passed, final, others, test, body)
        self._assign_new(new, first, results, body)
        self.drop_inner(node, assigned, {c.name for c in carried} | set(walrus) | {n for n, _ in first})
        if flag is True and Exit.BREAK not in body.exits.flags:
            self.exits.falls = False        # it is left by `return` only

    def _condition(self, node: ast.While) -> tensor | bool:
        """The loop's condition: an int1 scalar, or a bool known at compile time."""
        value = self.expression(node.test)
        self.at(node.test)
        with self.placed(node.test):
            if isinstance(value, tl.condition):
                value = value.condition
            truth: tensor | bool = semantic.truth(self.builder, value)
            return truth

    def _first_assigned(self, node: ast.While, new: Sequence[Carried], body: Body,
                        flag: tensor | bool) -> list[tuple[str, Any]]:
        """Variables that a `while True` assigns first and that have a value wherever it is left by `break`."""
        if flag is not True or Exit.BREAK not in body.exits.flags:
            return []
        known = {*self.locals.values, *(c.name for c in new), *body.exits.unset.get(Exit.BREAK, ())}
        return [(n, v) for n, v in body.variables.values.items()
                if n in self.live.loop(node).after and n not in known]

    def _slots_of_new(self, new: Sequence[Carried], body: Body) -> list[Slot]:
        """Slots of the variables that the condition assigns first (by a walrus)."""
        slots = []
        for c in new:
            last = body.variables.values.get(c.name, c.inside)
            same = [h.type for h in handles(last)] == [h.type for h in handles(c.inside)]
            for passed, inside, final in zip(handles(c.before), handles(c.inside), handles(last if same else c.inside)):
                slot = self.zero_slot(final, passed)
                slots.append(Slot(slot.init, slot.head, passed, inside, final))
        return slots

    def _assign_new(self, new: Sequence[Carried], first: Sequence[tuple[str, Any]], results: Sequence[Value],
                    body: Body) -> None:
        remaining = list(results)
        for name, like in [*((c.name, c.before) for c in new), *first]:
            count = len(handles(like))
            self.locals.assign(name, with_handles(like, remaining[:count]), body.variables.origins.get(name))
            del remaining[:count]

