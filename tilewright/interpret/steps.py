"""What an instrumented function does: one method a piece of syntax, each with the language's meaning.

The first argument of a step is the number of its place in the source.  An error that has no place yet gets it, with the
original error as `__cause__`, as in the frontend.  Meanings are the frontend's and the language's own functions, given
the eager builder; nothing of the language is defined here.

`print` is made for debugging: with a text first and tensors after it, it is `tl.device_print`; anything else is shown
as Python would, tensors with their numbers.
Tests: tests/interpret/test_eager.py, tests/interpret/test_eager_traps.py.
"""

from __future__ import annotations

import bdb
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import tilewright.language as tl
from tilewright.diagnostics import (
    CompilationError,
    KernelAssertionError,
    Location,
    TritonError,
    UnsupportedLanguageConstruct,
    render,
)
from tilewright.frontend.attributes import attribute
from tilewright.frontend.calls import call_value
from tilewright.frontend.python_builtins import items_of, static_range_of
from tilewright.frontend.scope import Locals, lookup
from tilewright.frontend.state import said
from tilewright.frontend.values import as_tuple, from_python, is_number, is_static, is_tuple, to_python, type_name
from tilewright.frontend.wording import no_bound
from tilewright.frontend.written import node_at
from tilewright.interpret.eager import EagerBuilder
from tilewright.interpret.flow import Branch, Choice, CountedLoop, History, Loop, TypeChange, Unrolled, scalar_value
from tilewright.interpret.instrument import BranchFacts, Instrumented, LoopFacts
from tilewright.interpret.tracing import Tracing
from tilewright.interpret.trial import Trials
from tilewright.language import semantic
from tilewright.language.casting import cast
from tilewright.language.core import LanguageTypeError, constexpr, dtype, int32, tensor
from tilewright.language.values import to_tensor

Method = TypeVar("Method", bound=Callable[..., Any])
Variables = Mapping[str, Any]
_CONVERSIONS: dict[str, Callable[[object], str]] = {"r": repr, "s": str, "a": ascii}


def step(method: Method) -> Method:
    """A method whose errors get the place that is its first argument; its last two have turned off the tracing."""

    def placed(self: Steps, place: int, *args: Any) -> Any:
        *own, self.tracing.tracer, _ = args
        self.builder.location = self.code.locations[place]
        try:
            return method(self, *own)
        except CompilationError as error:
            if error.location is None:
                location = self.code.locations[place]
                error.location, error.line_text = location, self.code.source.line_text(location.line)
            raise
        except (TritonError, TimeoutError, bdb.BdbQuit):
            raise
        except Exception as error:
            location, source = self.code.locations[place], self.code.source
            raise self.error(location, said(error, source, node_at(source, location))) from error
        finally:
            self.tracing.resume()

    return placed  # type: ignore[return-value]


@dataclass(frozen=True, slots=True)
class Decision:
    """The left side of `and` or `or`: whether it is the result, and whether it is a condition of evaluating the right.
    """

    value: Any
    made: bool
    is_lazy: bool


class Steps:
    """One activation of an instrumented function."""

    gettrace = staticmethod(sys.gettrace)
    settrace = staticmethod(sys.settrace)

    def __init__(self, code: Instrumented, builder: EagerBuilder, tracing: Tracing, trials: Trials,
                 any_global: bool) -> None:
        self.code = code
        self.builder = builder
        self.tracing = tracing
        self._trials = trials
        self.history = History()
        self._any_global = any_global
        self._may_have_returned = False         # a run-time branch or loop with a `return` was entered

    def error(self, location: Location, message: str,
              kind: type[CompilationError] = CompilationError) -> CompilationError:
        source = self.code.source
        return kind(message, location, src=source.source, line_text=source.line_text(location.line))

    @step
    def unsupported(self, message: str) -> None:
        raise UnsupportedLanguageConstruct(message, self.builder.location)

    @step
    def told(self, value: Any, message: str) -> Any:
        """Warn of something, and give `value`."""
        self.builder.warn(message)
        return value

    # -- leaves -------------------------------------------------------------------------------------------------------

    @step
    def literal(self, value: Any) -> Any:
        return from_python(value)

    @step
    def name(self, name: str) -> Any:
        return from_python(lookup(self.code.source, self.variables(), name, self._any_global))

    def variables(self) -> Locals:
        """The names that have a value now, and those that had one, for messages; the values are Python's."""
        gone = self.history.gone
        assigned = (*(p.name for p in self.code.source.params), *self.history.assigned)
        return Locals({n: None for n in assigned if n not in gone}, gone=gone)

    @step
    def attribute(self, value: Any, name: str) -> Any:
        return attribute(value, name)

    @step
    def tuple(self, items: Sequence[Any]) -> Any:
        return as_tuple(items)

    @step
    def spread(self, value: Any) -> Sequence[Any]:
        return items_of(value)

    # -- operators ----------------------------------------------------------------------------------------------------

    @step
    def binary(self, operator: str, left: Any, right: Any) -> Any:
        return semantic.binary(self.builder, operator, left, right)

    @step
    def unary(self, operator: str, x: Any) -> Any:
        return semantic.unary(self.builder, operator, x)

    @step
    def compare(self, operator: str, left: Any, right: Any) -> Any:
        return semantic.compare(self.builder, operator, left, right)

    @step
    def decision(self, operator: str, left: Any, number: int | None = None, now: Variables | None = None) -> Decision:
        """What the left side of an `and` or `or` decides; `number` is that of a right side with calls."""
        if is_static(left):
            return Decision(left, bool(to_python(left)) != (operator == "And"), False)
        if number is None or now is None or not isinstance(left, tensor) or left.shape:
            return Decision(left, False, False)
        if not self._trials.is_lazy(self.code.source, self.code.operands[number], now):
            return Decision(left, False, False)
        flag = scalar_value(to_tensor(self.builder, semantic.truth(self.builder, left)))
        return Decision(to_tensor(self.builder, flag), flag != (operator == "And"), True)

    @step
    def logical(self, operator: str, left: Decision, right: Any) -> Any:
        if left.is_lazy:
            return semantic.one_side(self.builder, operator, right)
        return right if is_static(left.value) else semantic.logical(self.builder, operator, left.value, right)

    @step
    def chain(self, before: Decision, link: Any) -> Any:
        return semantic.chain(self.builder, before.value, link)

    @step
    def subscript(self, value: Any, index: Any) -> Any:
        return from_python(semantic.subscript(self.builder, value, index))

    @step
    def slice(self, lower: Any, upper: Any, stride: Any) -> Any:
        return slice(lower, upper, stride)

    @step
    def choice(self, test: Any) -> Choice:
        return Choice(self.builder, test)

    @step
    def known_choice(self, test: Any) -> bool:
        """The `if` of a comprehension."""
        made = Choice(self.builder, test)
        if made.run_time:
            raise LanguageTypeError("the `if` of a comprehension must be known at compile time, but it is "
                                    f"{type_name(test)}: how many elements a tuple has cannot depend on it")
        return made.taken

    @step
    def chosen(self, value: Any, choice: Choice) -> Any:
        """The value of a conditional expression: a number chosen at run time is a run-time scalar."""
        return to_tensor(self.builder, value) if choice.run_time and is_number(value) else value

    @step
    def formatted(self, value: Any, conversion: int, spec: Any) -> str:
        """A part of an f-string: the compiler knows compile-time values only, but here `print` shows any."""
        plain = value if isinstance(value, tensor) and conversion == ord("r") else shown(value)
        if conversion >= 0:
            plain = _CONVERSIONS[chr(conversion)](plain)
        return format(plain, to_python(spec) if spec is not None else "")

    @step
    def joined(self, parts: Sequence[Any]) -> Any:
        return constexpr("".join(map(str, parts)))

    # -- calls --------------------------------------------------------------------------------------------------------

    @step
    def call(self, callee: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        if callee is print:
            return self._print(args, kwargs)
        return call_value(self.builder, callee, args, kwargs)  # type: ignore[arg-type]

    def _print(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
        is_text = bool(args) and isinstance(args[0], constexpr) and isinstance(args[0].value, str)
        if is_text and all(isinstance(a, tensor) for a in args[1:]) and not kwargs:
            tl.device_print.call(self.builder, args, kwargs)
            return
        plain = {k: to_python(v) for k, v in kwargs.items()}
        self.builder.machine.write(plain.get("sep", " ").join(str(shown(a)) for a in args) + plain.get("end", "\n"))

    # -- assignments --------------------------------------------------------------------------------------------------

    @step
    def assign(self, name: str, value: Any) -> Any:
        """A plain assignment, by which numbers become run-time scalars."""
        self.history.assign(name, self.builder.location)
        return semantic.decay(self.builder, value, name)

    @step
    def bind(self, name: str, value: Any) -> Any:
        """`name` is `value`, as it is: the target of a loop."""
        self.history.assign(name, self.builder.location)
        return value

    @step
    def declare(self, name: str, now: Variables) -> None:
        """`name: tl.constexpr`, which must be new, but for the same declaration in a loop."""
        place = self.builder.location
        if name in now and self.history.declared.get(name) is not place:
            was = self.history.line(name).replace("a parameter", "a parameter of the function")
            raise LanguageTypeError(f"{name} is already defined. constexpr cannot be reassigned: it was {was}; use "
                                    "another name")
        self.history.declared[name] = place

    @step
    def known(self, name: str, value: Any) -> Any:
        """The value of a name declared `tl.constexpr`."""
        if isinstance(value, tensor):
            self.builder.warn(f"{name} is declared tl.constexpr, but its value is {type_name(value)}, which is known "
                              "only at run time; the annotation has no effect, leave it out")
        self.history.assign(name, self.builder.location)
        return from_python(value)

    @step
    def assertion(self, condition: Any, message: Any) -> None:
        """`assert`: at compile time where the condition is known, else `tl.device_assert`."""
        if not is_static(condition):
            tl.device_assert.call(self.builder, (condition, constexpr("") if message is None else message))
        elif not semantic.truth(self.builder, condition):
            text = str(to_python(message)) if message is not None and is_static(message) else ""
            raise AssertionError(text or "this assertion is false at compile time")

    @step
    def unpack(self, value: Any, count: int) -> Sequence[Any]:
        if not is_tuple(value):
            raise LanguageTypeError(f"cannot unpack {type_name(value)} into {count} names; only tuples can be unpacked")
        if len(value) != count:
            raise LanguageTypeError(f"cannot unpack a tuple of {len(value)} into {count} names")
        return list(value)

    @step
    def returned(self, value: Any) -> Any:
        """The value of a `return`; where another one could have been taken at run time a number is a scalar."""
        if self._may_have_returned and is_number(value):
            return to_tensor(self.builder, value)
        return value

    # -- branches and loops -------------------------------------------------------------------------------------------

    @step
    def branch(self, test: Any, number: int, now: Variables) -> Branch:
        facts = self.code.facts[number]
        assert isinstance(facts, BranchFacts)
        made = Branch(self.builder, test, facts, now, self.builder.location.line, self.history)
        self._may_have_returned |= made.run_time and facts.returns
        return made

    def _loop(self, number: int) -> LoopFacts:
        facts = self.code.facts[number]
        assert isinstance(facts, LoopFacts)
        self._may_have_returned |= facts.returns
        return facts

    @step
    def for_loop(self, iterable: Any, number: int, now: Variables) -> Loop | Unrolled:
        loop = self._for_loop(iterable, number, now)
        loop.place = self.builder.location
        return loop

    def _for_loop(self, iterable: Any, number: int, now: Variables) -> Loop | Unrolled:
        if isinstance(iterable, tl.static_range):
            return Unrolled([constexpr(i) for i in static_range_of(iterable)])
        if is_tuple(iterable):
            return Unrolled(items_of(iterable))
        if not isinstance(iterable, tl.range):
            raise LanguageTypeError("a `for` goes over range, tl.range, tl.static_range or a tuple, not over "
                            f"{type_name(iterable)}")
        facts, line = self._loop(number), self.builder.location.line
        if not facts.target:
            raise LanguageTypeError("the target of a run-time loop is one name: it counts integers")
        start, indices = self._indices(iterable)
        return CountedLoop(self.builder, facts, now, line, self.history, start, indices)

    @step
    def item(self, loop: CountedLoop | Unrolled, item: Any) -> Any:
        """What the target of a loop is in an iteration."""
        return loop.item(item)

    def _indices(self, r: Any) -> Any:
        """The start, of the type that the bounds of a run-time range have together, and its indices (semantics §11)."""
        kind: Any = int32
        parts = []
        for name, value in (("start", r.start), ("end", r.end), ("step", r.step)):
            part = to_tensor(self.builder, value)
            if part.shape or not isinstance(part.dtype, dtype) or not part.dtype.is_int():
                raise LanguageTypeError(no_bound(name, type_name(part)))
            kind = semantic.join_types(kind, part.dtype)
            parts.append(part)
        start, end, stride = (cast(self.builder, part, kind) for part in parts)
        by = int(to_python(r.step)) if is_static(r.step) else _signed(stride)
        if by == 0:
            place, program = f"line {self.builder.location.line}", self.builder.machine.current_program()
            message = f"device assertion failed in program {program}: the step of the range at {place} is zero"
            raise KernelAssertionError(render(message, self.builder.location))
        return start, range(_whole(start), _whole(end), by)

    @step
    def while_loop(self, number: int, now: Variables) -> Loop:
        place = self.builder.location
        loop = Loop(self.builder, self._loop(number), now, place.line, self.history)
        loop.place = place
        return loop

    @step
    def goes_on(self, test: Any) -> bool:
        """Whether a `while` loop runs its body."""
        if isinstance(test, tl.condition):
            test = test.condition
        flag = semantic.truth(self.builder, test)
        return scalar_value(flag) if isinstance(flag, tensor) else bool(flag)

    @step
    def end_of_iteration(self, loop: Loop | Unrolled, now: Variables) -> None:
        machine = self.builder.machine
        machine.deadline.check(machine.current_program(), loop.place)
        try:
            loop.end_of_iteration(now)
        except TypeChange as error:
            raise self.error(self.history.assigned[error.name], str(error)) from error

    @step
    def close(self, frame: Branch | Loop | Unrolled, now: Variables) -> None:
        frame.close(now)


def _signed(x: tensor) -> int:
    """The number in an integer scalar, seen as signed: the step of a loop."""
    return int(x.handle.numbers())


def _whole(x: tensor) -> int:
    """The number in an integer scalar, with its sign."""
    value = int(x.handle.numbers())
    return value & ((1 << x.dtype.int_bitwidth) - 1) if x.dtype.is_int_unsigned() else value


def shown(value: Any) -> Any:
    """What a person sees of a value: the numbers of a tensor, the Python value of anything else."""
    if not isinstance(value, tensor):
        return tuple(map(shown, value)) if is_tuple(value) else to_python(value)
    numbers: Any = value.builder.values(value.handle, value.type)
    return numbers if numbers.shape else numbers.item()
