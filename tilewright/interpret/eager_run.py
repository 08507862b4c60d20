"""A launch in the eager engine: instrumented functions, run for one program after the other, in ascending order.

`EagerProgram` belongs to one kernel and keeps the instrumented form of it and of the functions that it calls.  A
launch makes a builder and a machine over the arguments' memory, and calls the kernel once a program.  Values enter as
the signature says, so that an argument which is compiled in is a constexpr here, too.
Tests: tests/interpret/test_eager.py.
"""

from __future__ import annotations

import re
import types
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from tilewright.diagnostics import CompilationError, Location
from tilewright.frontend.calls import bind_arguments
from tilewright.frontend.functions import DeviceFunctions
from tilewright.frontend.graph import GraphBuilder
from tilewright.frontend.scope import Locals, NameErrorInKernel, lookup
from tilewright.frontend.values import as_tuple, from_python
from tilewright.interpret.eager import EagerBuilder, EagerMachine, EagerValue
from tilewright.interpret.instrument import Instrumented, instrument
from tilewright.interpret.memory import Extent, Memory
from tilewright.interpret.steps import Steps
from tilewright.interpret.tracing import Tracing
from tilewright.ir.types import Pointer, storage_dtype
from tilewright.language.core import tensor
from tilewright.language.function import SourceFunction
from tilewright.language.options import Arg, ConstantArg, Options, RuntimeArg, Signature

Grid = tuple[int, int, int]


class EagerProgram:
    """A kernel in the eager engine."""

    def __init__(self, fn: SourceFunction) -> None:
        self.fn = fn
        self._instrumented: dict[SourceFunction, Instrumented] = {}

    def run(self, signature: Signature, options: Options, grid: Grid, slots: Sequence[int],
            extents: Sequence[Extent], write: Callable[[str], object] | None = None) -> None:
        """Run every program of `grid`; `slots` are the 64-bit patterns of the run-time arguments in order."""
        machine = EagerMachine(self.fn.__name__, grid, Memory(extents), write)
        launch = _Launch(self._code, options, machine)
        patterns = iter(slots)
        values = {name: entry_value(arg, patterns, launch.builder) for name, arg in signature.args.items()}
        launch.tracing.begin()
        try:
            for program in range(grid[0] * grid[1] * grid[2]):
                machine.program = np.array([program], np.int64)
                launch.call(self.fn, values)
        finally:
            launch.tracing.end()

    def _code(self, fn: SourceFunction) -> Instrumented:
        code = self._instrumented.get(fn)
        if code is None:
            code = self._instrumented[fn] = instrument(fn)
        return code


class _Launch:
    """The builder of one launch, and the rule by which it calls jit functions."""

    def __init__(self, code: Callable[[SourceFunction], Instrumented], options: Options, machine: EagerMachine) -> None:
        self._code = code
        self._any_global = dict(options.extra).get("allow_non_constexpr_globals", False)
        recorder = GraphBuilder(options, DeviceFunctions(self._any_global).call)
        self.tracing = Tracing()
        self.builder = EagerBuilder(options, machine, self._call, recorder)

    def _call(self, fn: SourceFunction, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        return self.call(fn, bind_arguments(fn, args, kwargs))

    def call(self, fn: SourceFunction, values: Mapping[str, Any]) -> Any:
        """Run `fn` with a value for each parameter."""
        code = self._code(fn)
        steps = Steps(code, self.builder, self.tracing, self._any_global)
        try:
            return self.tracing.user_code(code.function, steps, *values.values())
        except UnboundLocalError as error:
            raise _undefined(steps, error) from error
        except RecursionError as error:
            raise CompilationError(f"{fn.__name__} calls itself too deeply", self.builder.location) from error


def _undefined(steps: Steps, error: UnboundLocalError) -> CompilationError:
    """The error for a local name that has no value at this place."""
    found = re.search(r"'(\w+)'", str(error))
    name = found.group(1) if found else "a name"
    try:
        lookup(steps.code.source, Locals(gone=steps.history.gone), name)
        message = f"{name} is not defined here"
    except NameErrorInKernel as said:
        message = str(said)
    return steps.error(_line_of(error.__traceback__, steps.code), message)


def _line_of(trace: types.TracebackType | None, code: Instrumented) -> Location:
    """The line of the instrumented function that a traceback goes through last."""
    line = 0
    while trace is not None:
        if trace.tb_frame.f_code is code.function.__code__:
            line = trace.tb_lineno
        trace = trace.tb_next
    return Location(code.source.file, line, function=code.source.__name__)


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
