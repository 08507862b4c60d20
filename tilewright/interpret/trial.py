"""Whether the compiler would put the right side of an `and` or `or` under a branch.

It does where the right side touches memory or calls a function and both sides are scalars (`frontend.expressions`):
then a left side that decides keeps the right one from running.  Whether that is so, and of which type the right side
is, is known only when it has been traced.  So the eager engine asks the frontend: it traces the expression, as it
stands in the source, with the types that the variables have now, and forgets what was recorded.
Tests: tests/interpret/test_eager_logic.py.
"""

from __future__ import annotations

import ast
from collections.abc import Hashable, Mapping
from typing import Any

from tilewright.frontend.graph import GraphBuilder, Retrace
from tilewright.frontend.liveness import read_names
from tilewright.frontend.scope import Locals
from tilewright.frontend.statements import Tracer
from tilewright.frontend.values import leaves, rebuilt, static_key
from tilewright.ir.node import Value
from tilewright.language.core import tensor
from tilewright.language.function import SourceFunction


class Trials:
    """The answers of one launch; each is asked for once for the same types and compile-time values."""

    def __init__(self, graph: GraphBuilder, any_global: bool) -> None:
        self._graph = graph
        self._any_global = any_global
        self._known: dict[Hashable, bool] = {}

    def is_lazy(self, fn: SourceFunction, operand: ast.expr, variables: Mapping[str, Any]) -> bool:
        """Whether `operand`, in `fn` with these variables, runs only if the left side, a scalar, does not decide."""
        read = {n: variables[n] for n in sorted(read_names([operand])) if n in variables}
        key = (operand, *((n, static_key(v)) for n, v in read.items()))
        if key not in self._known:
            self._known[key] = self._traced(fn, operand, read)
        return self._known[key]

    def _traced(self, fn: SourceFunction, operand: ast.expr, read: Mapping[str, Any]) -> bool:
        values = {name: self._recorded(value) for name, value in read.items()}
        tracer = Tracer(self._graph, fn, Locals(values, dict.fromkeys(values)), False, self._any_global)
        place, right = self._graph.location, None
        try:
            with self._graph.speculation(), self._graph.collect() as ops:
                right = tracer.expression(operand)
                raise Retrace(frozenset())      # which forgets what was said meanwhile
        except Retrace:
            is_tile = isinstance(right, tensor) and bool(right.shape)
            return not is_tile and not all(op.row.is_pure for op in ops)
        except Exception:
            return False        # it is wrong: evaluating it will say why
        finally:
            self._graph.location = place

    def _recorded(self, value: Any) -> Any:
        """A value of the same types in the graph builder."""
        return rebuilt(value, iter([tensor(Value(t.handle.type), t.type, self._graph) for t in leaves(value)]))
