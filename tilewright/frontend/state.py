"""What tracing one function keeps: where it is, the variables, the exits; and how an error gets its place.

The tracer of a function is one object, put together from topics: `State` (here), `Expressions`, `Branches`, `Loops`,
`Statements`.  An error without a place that is raised in a language meaning gets that of the innermost expression or
statement around it; it stays as the `__cause__`, which is not printed (`diagnostics.TritonError`).
Tests: tests/errors/.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Any

from tilewright.diagnostics import CompilationError, Location
from tilewright.frontend.exits import Exits
from tilewright.frontend.graph import GraphBuilder, Retrace
from tilewright.frontend.liveness import Liveness
from tilewright.frontend.nesting import too_deep
from tilewright.frontend.scope import Locals
from tilewright.frontend.written import said_of
from tilewright.language.errors import LanguageError
from tilewright.language.function import SourceFunction


class State:
    """See the module's docstring.  `is_entry`: this is the kernel itself, whose return values nobody takes."""

    def __init__(self, builder: GraphBuilder, fn: SourceFunction, variables: Locals, is_entry: bool,
                 any_global: bool) -> None:
        self.builder = builder
        self.fn = fn
        self.locals = variables
        self.is_entry = is_entry
        self.any_global = any_global
        self.exits = Exits()
        self.live = Liveness(fn.tree().body)
        self.declared: dict[str, ast.AST] = {}       # names declared `name: tl.constexpr`, and where

    def place(self, node: ast.AST) -> Location:
        return self.fn.location(node)

    def at(self, node: ast.AST) -> None:
        """Ops that follow belong to `node`."""
        self.builder.location = self.fn.location(node)

    def error(self, node: ast.AST, message: str, kind: type[CompilationError] = CompilationError) -> CompilationError:
        """An error at `node`, to be raised."""
        location = self.place(node)
        return kind(message, location, src=self.fn.source, node=node, line_text=self.fn.line_text(location.line))

    def line(self, node: ast.AST | None) -> str:
        """"line 12", for messages about a second place."""
        return f"line {getattr(node, 'lineno', self.fn.first_line)}"

    def placed(self, node: ast.AST) -> Placed:
        """Errors raised within that have no place yet are errors at `node`."""
        return Placed(self, node)

    def traced(self, trace: Callable[[], Any], variables: Locals) -> tuple[list[Any], Locals, Exits, Any]:
        """Trace something into a block of its own: ops, variables and exits at its end, and its result.

        The state around it is as before afterwards.
        """
        around = self.locals, self.exits
        self.locals, self.exits = variables, Exits()
        try:
            with self.builder.collect() as ops:
                result = trace()
            return ops, self.locals, self.exits, result
        finally:
            self.locals, self.exits = around


class Placed:
    """What `State.placed` gives.  A class, since each expression has one: a generator takes four times as long."""

    __slots__ = ("_node", "_state")

    def __init__(self, state: State, node: ast.AST) -> None:
        self._state, self._node = state, node

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        if error is None or isinstance(error, Retrace) or not isinstance(error, Exception):
            return
        state, node = self._state, self._node
        if isinstance(error, CompilationError):
            if error.location is None:
                error.location, error.line_text = state.place(node), state.fn.line_text(state.place(node).line)
                error.src, error.node = state.fn.source, node
            return
        if isinstance(error, RecursionError):
            place, message = too_deep(state.fn.tree(), node)
            raise state.error(place, message) from None
        raise state.error(node, said(error, state.fn, node)) from error


def said(error: Exception, fn: SourceFunction, node: ast.AST | None) -> str:
    """The text of an error at a node.  One that is not the language's (of a constexpr function, or a fault of the
    compiler) is named as well."""
    return said_of(error, fn, node) if isinstance(error, LanguageError) else f"{type(error).__name__}: {error}"
