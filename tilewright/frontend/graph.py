"""The builder that records IR: the language's `Builder` with `ir.node.Value` as handles.

It adds to `ir.build.Builder` what the language asks for (`call_function`, `warn`, options) and what tracing needs:
blocks whose ops are collected first and get their terminator later (`collect`, `resume`), the table of device
functions that were traced, and speculation: what is printed while a loop's body is traced on an assumption is held
back until the assumption is known to be right, so that `tl.static_print` prints once.
Tests: tests/frontend/test_graph.py.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any

from tilewright.diagnostics import CompilationError, Location
from tilewright.ir import build
from tilewright.ir.node import Block, Function, Op, Value
from tilewright.ir.types import I1, Element, Tile, Type, element_of
from tilewright.language.function import SourceFunction
from tilewright.language.options import Options

Warned = tuple[str, Location]       # a warning, and the place in the user's source that it speaks of
CallRule = Callable[["GraphBuilder", SourceFunction, Sequence[Any], Mapping[str, Any]], Any]


class GraphBuilder:
    """Records ops in the innermost open block.  `call` is the rule for calls of jit functions (`calls.py`)."""

    def __init__(self, options: Options, call: CallRule) -> None:
        self.options = options
        self.functions: dict[str, Function] = {}
        self.specialisations: dict[Any, Any] = {}     # owned by `calls.py`
        self.call_chain: list[SourceFunction] = []    # functions being traced, outermost first
        self._call = call
        self._ir = build.Builder()
        self._held: list[list[Callable[[], None]]] = []
        self.warned: list[Warned] = []      # what was warned of, in order

    @property
    def location(self) -> Location:
        return self._ir.location

    @location.setter
    def location(self, location: Location) -> None:
        self._ir.location = location

    # -- language.builder.Builder ---------------------------------------------------------------------------------

    def emit(self, name: str, operands: Sequence[Value] = (), attrs: Mapping[str, Any] | None = None,
             regions: Sequence[Block] = ()) -> tuple[Value, ...]:
        return self._ir.create(name, operands, attrs, regions)

    def type_of(self, handle: Value) -> Type:
        return handle.type

    def region(self, arg_types: Sequence[Type], body: Callable[..., Sequence[Value]],
               terminator: str = "yield") -> Block:
        return self._ir.region(arg_types, body, terminator)

    def region_builder(self) -> GraphBuilder:
        return self

    def call_function(self, fn: SourceFunction, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        """Call a jit function; an error in it is shown with this call in its chain of call sites."""
        site = self.location
        try:
            return self._call(self, fn, args, kwargs)
        except CompilationError as error:
            if error.location is not None:      # else the call itself is wrong, and the place around it is filled in
                error.location = error.location.called_from(site)
            raise
        finally:
            self.location = site

    def warn(self, message: str) -> None:
        location = self.location

        def say() -> None:
            self.warned.append((message, location))
            warnings.warn_explicit(message, UserWarning, location.file, location.line)

        self.tell(say)

    def tell(self, say: Callable[[], None]) -> None:
        """Do something that the user sees while compiling: now, or when the speculation that it is part of holds."""
        if self._held:
            self._held[-1].append(say)
        else:
            say()

    def values(self, handle: Value, type: Any) -> None:
        """What a recorded value is, is not known."""

    # -- what tracing needs ---------------------------------------------------------------------------------------

    @contextmanager
    def speculation(self) -> Iterator[None]:
        """Hold back what is told in the block; drop it if the block raises `Retrace`, else tell it."""
        self._held.append([])
        try:
            yield
        except Retrace:
            self._held.pop()
            raise
        except BaseException:
            self._release()
            raise
        self._release()

    def _release(self) -> None:
        for say in self._held.pop():
            self.tell(say)

    def collect(self) -> AbstractContextManager[list[Op]]:
        """Open a nested block; the list that it yields collects the ops."""
        return self._ir.block()

    def resume(self, ops: list[Op]) -> AbstractContextManager[list[Op]]:
        """Go on at the end of a block that `collect` gave."""
        return self._ir.block(ops)

    def replay(self, ops: Sequence[Op]) -> None:
        """Append collected ops to the open block."""
        for op in ops:
            self._ir.append(op)

    def closed(self, ops: list[Op], args: Sequence[Value], results: Sequence[Value],
               terminator: str = "yield") -> Block:
        """The finished block of collected ops."""
        with self.resume(ops):
            self.emit(terminator, results)
        return Block(tuple(args), tuple(ops))

    def boolean(self, value: bool) -> Value:
        """An i1 constant."""
        return self.emit("constant", (), {"value": value, "type": I1})[0]

    def any_of(self, flags: Sequence[Value]) -> Value:
        """Whether one of several flags holds."""
        result = flags[0]
        for flag in flags[1:]:
            (result,) = self.emit("or", (result, flag))
        return result

    def negated(self, flag: Value) -> Value:
        return self.emit("xor", (flag, self.boolean(True)))[0]

    def zero(self, type: Type) -> Value:
        """A value for a path on which it is not looked at."""
        element = element_of(type)
        (scalar,) = self.emit("constant", (), {"value": _zero_of(element), "type": element})
        return self.emit("splat", (scalar,), {"shape": type.shape})[0] if isinstance(type, Tile) else scalar


def _zero_of(element: Element) -> int | float | bool:
    if element == I1:
        return False
    return 0.0 if element.is_float else 0


class Retrace(Exception):
    """The assumption on which a loop's body was traced is wrong: these names are no compile-time values in it."""

    def __init__(self, names: frozenset[str]) -> None:
        self.names = names
        super().__init__(*names)
