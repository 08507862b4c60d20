"""A launch in the eager engine: instrumented functions, run for one program after the other, in ascending order.

`EagerProgram` belongs to one kernel and keeps the instrumented form of it and of the functions that it calls.  A
launch makes a builder and a machine over the arguments' memory, and calls the kernel once a program.  Values enter as
the signature says, so that an argument which is compiled in is a constexpr here, too.
Tests: tests/interpret/test_eager.py.
"""

from __future__ import annotations

import ast
import re
import sys
import types
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

import numpy as np

from tilewright.diagnostics import Location, render
from tilewright.frontend.calls import bind_arguments
from tilewright.frontend.functions import (
    MAX_CALL_DEPTH,
    DeviceFunctions,
    endless_recursion,
    specialisation_key,
    too_deep,
)
from tilewright.frontend.graph import GraphBuilder
from tilewright.frontend.scope import NameErrorInKernel, lookup
from tilewright.frontend.values import as_tuple, from_python
from tilewright.frontend.wording import dropped_return
from tilewright.interpret.deadline import Deadline
from tilewright.interpret.eager import EagerBuilder, EagerMachine, EagerValue
from tilewright.interpret.instrument import Instrumented, instrument
from tilewright.interpret.memory import Extent, Memory
from tilewright.interpret.steps import Steps
from tilewright.interpret.tracing import Tracing
from tilewright.interpret.trial import Trials
from tilewright.ir.types import Pointer, storage_dtype
from tilewright.language.constexpr import unwrap
from tilewright.language.core import tensor
from tilewright.language.function import SourceFunction
from tilewright.language.options import Arg, ConstantArg, Options, RuntimeArg, Signature

Grid = tuple[int, int, int]


class EagerProgram:
    """A kernel in the eager engine."""

    def __init__(self, fn: SourceFunction) -> None:
        self.fn = fn
        self._instrumented: dict[SourceFunction, Instrumented] = {}
        self._warned: dict[Any, Any] = {}      # a warning is one for all programs and launches, as in compiled code

    def run(self, signature: Signature, options: Options, grid: Grid, slots: Sequence[int],
            extents: Sequence[Extent], write: Callable[[str], object] | None = None, wide: bool = False,
            timeout_s: float = 0.0) -> None:
        """Run every program of `grid`; `slots` are the 64-bit patterns of the run-time arguments in order.

        `wide`: an argument reaches 2**30 elements, so offsets must not wrap at 32 bits.  TimeoutError after
        `timeout_s` (0: never), with the loop in which that was.
        """
        machine = EagerMachine(self.fn.__name__, grid, Memory(extents), write, wide)
        machine.deadline = Deadline(self.fn.__name__, timeout_s)
        launch = _Launch(self._code, options, machine, self._warned)
        patterns = iter(slots)
        values = {name: entry_value(arg, patterns, launch.builder) for name, arg in signature.args.items()}
        launch.tracing.begin()
        try:
            for program in range(grid[0] * grid[1] * grid[2]):
                machine.program = np.array([program], np.int64)
                machine.deadline.check(machine.current_program())
                is_dropped = unwrap(launch.call(self.fn, values)) is not None
                if is_dropped and not program:
                    launch.builder.warn(dropped_return(self.fn.__name__))
        except KeyboardInterrupt as error:
            said = f"{self.fn.__name__} was interrupted; program {machine.current_program()} was here"
            interrupt = KeyboardInterrupt(render(said, launch.builder.location))
            raise interrupt.with_traceback(error.__traceback__) from None
        finally:
            launch.tracing.end()

    def _code(self, fn: SourceFunction) -> Instrumented:
        code = self._instrumented.get(fn)
        if code is None:
            code = self._instrumented[fn] = instrument(fn)
        return code


class _Launch:
    """The builder of one launch, and the rule by which it calls jit functions."""

    def __init__(self, code: Callable[[SourceFunction], Instrumented], options: Options, machine: EagerMachine,
                 warned: dict[Any, Any]) -> None:
        self._code = code
        self._any_global = dict(options.extra).get("allow_non_constexpr_globals", False)
        recorder = GraphBuilder(options, DeviceFunctions(self._any_global).call)
        self._active: set[Hashable] = set()     # what is being called
        self.tracing = Tracing()
        self._trials = Trials(recorder, self._any_global)
        self.builder = EagerBuilder(options, machine, self._call, recorder, warned)

    def _call(self, fn: SourceFunction, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        """A call in a kernel; recursion ends where the compiler ends it."""
        values = bind_arguments(fn, args, kwargs)
        key = specialisation_key(fn, values)
        if key in self._active:
            raise endless_recursion(fn, values)
        if len(self._active) >= MAX_CALL_DEPTH:
            raise too_deep(fn)
        self._active.add(key)
        try:
            return self.call(fn, values)
        finally:
            self._active.remove(key)

    def call(self, fn: SourceFunction, values: Mapping[str, Any]) -> Any:
        """Run `fn` with a value for each parameter."""
        code = self._code(fn)
        steps = Steps(code, self.builder, self.tracing, self._trials, self._any_global)
        try:
            return self.tracing.user_code(code.bound(steps), *values.values())
        except UnboundLocalError as error:
            unbound = error
        cause = _undefined(steps, unbound)
        place = _place_of(unbound.__traceback__, steps.code)
        raise steps.error(place, str(cause)).with_traceback(unbound.__traceback__) from cause


def _undefined(steps: Steps, error: UnboundLocalError) -> NameErrorInKernel:
    """What there is to say of a local name that has no value at this place."""
    found = re.search(r"'(\w+)'", str(error))
    name = found.group(1) if found else "a name"
    try:
        lookup(steps.code.source, steps.variables(), name)
    except NameErrorInKernel as said:
        return said
    return NameErrorInKernel(f"{name} is not defined here")


def _place_of(trace: types.TracebackType | None, code: Instrumented) -> Location:
    """Where the instrumented function is, in which a traceback goes through it last; from Python 3.11 on exactly."""
    place, source = Location(code.source.file, 0), code.source
    while trace is not None:
        if trace.tb_frame.f_code is code.code:
            place = Location(source.file, trace.tb_lineno, function=source.__name__)
            if sys.version_info >= (3, 11):
                instruction = trace.tb_lasti // 2
                found: Any = next(islice(trace.tb_frame.f_code.co_positions(), instruction, None))
                line, end_line, column, end = found
                place = source.location(ast.Pass(lineno=line, end_lineno=end_line, col_offset=column,
                                                 end_col_offset=end))
        trace = trace.tb_next
    return place


def entry_value(arg: Arg, patterns: Iterator[int], builder: EagerBuilder) -> Any:
    """The language value with which a parameter of the kernel begins."""
    if isinstance(arg, ConstantArg):
        return from_python(arg.value)
    if isinstance(arg, RuntimeArg):
        kind = arg.type.to_ir()
        array = pattern_array(next(patterns), kind)
        pointers = frozenset((int(array[0]),)) if isinstance(kind, Pointer) else None
        return tensor(EagerValue(kind, array, pointers), arg.type, builder)
    return as_tuple([entry_value(item, patterns, builder) for item in arg.items], arg.rebuild or ())


def pattern_array(pattern: int, kind: Any) -> Any:
    """A 64-bit pattern as an array of one in the storage form of a scalar type."""
    dtype = storage_dtype(kind)
    if dtype == np.bool_:
        return np.array([bool(pattern & 1)])
    return np.array([pattern & ((1 << 8 * dtype.itemsize) - 1)], f"u{dtype.itemsize}").view(dtype)
