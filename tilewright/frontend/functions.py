"""From a function and its argument values to IR functions: the entry, and device functions by specialisation.

A device function is traced once for each combination of run-time types and compile-time values, whatever the call
site; the call passes its tensors and gets tensors back, everything static is in the specialisation.  `Specialisation`
keeps the shape of the returned value, so that a constexpr result stays one.
Tests: tests/frontend/test_calls.py.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tilewright.diagnostics import CompilationError
from tilewright.frontend.calls import bind_arguments
from tilewright.frontend.graph import GraphBuilder
from tilewright.frontend.scope import Locals
from tilewright.frontend.statements import Tracer
from tilewright.frontend.values import handles, leaf_names, static_key, type_name, with_handles
from tilewright.ir.node import Block, Function, ParamFacts, Value
from tilewright.language.errors import LanguageTypeError
from tilewright.language.function import SourceFunction

MAX_CALL_DEPTH = 40      # each level takes about 15 frames of the 1000 that Python allows


def specialisation_key(fn: SourceFunction, values: Mapping[str, Any]) -> Hashable:
    """What calls with the same code have in common: the function, types and compile-time values."""
    return (fn, tuple(static_key(v) for v in values.values()))


def endless_recursion(fn: SourceFunction, values: Mapping[str, Any]) -> CompilationError:
    """The error for a call within a call of the same specialisation."""
    shown = ", ".join(f"{n}: {type_name(v)}" for n, v in values.items())
    return CompilationError(f"{fn.__name__} calls itself with the same types and compile-time values ({shown}), so the "
                            "recursion never ends at compile time; recurse on a constexpr that changes, or write a "
                            "loop")


def too_deep(fn: SourceFunction) -> CompilationError:
    """The error for calls that nest deeper than `MAX_CALL_DEPTH`."""
    return CompilationError(f"calls nest more than {MAX_CALL_DEPTH} deep at {fn.__name__}; a recursion over a "
                            "constexpr must end, and functions cannot call each other without end")


@dataclass(frozen=True, slots=True)
class Specialisation:
    """A traced device function: its name in the module and a value of the shape that it returns."""

    name: str
    returned: Any


def trace_function(builder: GraphBuilder, fn: SourceFunction, name: str, values: Mapping[str, Any], is_entry: bool,
                   any_global: bool, facts: Sequence[ParamFacts] = ()) -> tuple[Function, Any]:
    """The IR function of `fn` with these parameter values, whose tensors become its parameters; and what it returns."""
    variables = Locals()
    params: list[Value] = []
    names: list[str] = []
    for param, value in values.items():
        new = [Value(h.type, param) for h in handles(value)]
        params += new
        names += leaf_names(param, value)
        variables.assign(param, with_handles(value, new), None)
    tracer = Tracer(builder, fn, variables, is_entry, any_global)
    with builder.collect() as ops:
        tracer.function()
        returned = tracer.exits.value
        builder.location = fn.location(fn.tree().body[-1])
        builder.emit("return", handles(returned))
    function = Function(name, tuple(names), Block(tuple(params), tuple(ops)), tuple(h.type for h in handles(returned)),
                        tuple(facts), fn.noinline, fn.location(fn.tree()))
    return function, returned


class DeviceFunctions:
    """The rule for calls of jit functions: binds arguments, traces each specialisation once, emits the call."""

    def __init__(self, any_global: bool) -> None:
        self._any_global = any_global
        self._known: dict[Hashable, Specialisation | None] = {}     # None: being traced
        self._depth = 0

    def call(self, builder: GraphBuilder, fn: SourceFunction, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        try:
            values = bind_arguments(fn, args, kwargs)
        except LanguageTypeError as error:
            raise CompilationError(str(error)) from error
        site = builder.location
        specialisation = self._specialised(builder, fn, values)
        builder.location = site         # tracing the function has moved it
        passed = [h for v in values.values() for h in handles(v)]
        types = tuple(h.type for h in handles(specialisation.returned))
        results = builder.emit("call", passed, {"callee": specialisation.name, "result_types": types})
        return with_handles(specialisation.returned, results)

    def _specialised(self, builder: GraphBuilder, fn: SourceFunction, values: Mapping[str, Any]) -> Specialisation:
        key = specialisation_key(fn, values)
        known = self._known.get(key)
        if known is not None:
            return known
        if key in self._known:
            raise endless_recursion(fn, values)
        if self._depth >= MAX_CALL_DEPTH:
            raise too_deep(fn)
        self._known[key] = None
        self._depth += 1
        try:
            name = self._fresh_name(builder, fn)
            function, returned = trace_function(builder, fn, name, values, False, self._any_global)
        except BaseException:
            del self._known[key]
            raise
        finally:
            self._depth -= 1
        builder.functions[name] = function
        self._known[key] = found = Specialisation(name, returned)
        return found

    def _fresh_name(self, builder: GraphBuilder, fn: SourceFunction) -> str:
        count = len(self._known)
        return f"{fn.__name__}.{count}"
