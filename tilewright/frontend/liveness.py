"""Which names are assigned by a piece of syntax, and which are still needed after a statement.

Tracing a loop needs to know, before its body has been seen, which variables it carries: those that the body assigns,
that exist before the loop and that someone may read afterwards or in the next iteration.  Both answers are syntactic
and on the safe side: branches on compile-time values count as if both could run.

`Liveness` walks a function once, backwards; a loop's body is walked twice, which is a fixed point, since the second
walk starts from everything that the first one found.  Nested expressions only add uses (a name that a walrus or a
comprehension assigns is not taken to be always assigned).
Tests: tests/frontend/test_liveness.py.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

Names = frozenset[str]
NOTHING: Names = frozenset()

Loop = ast.For | ast.While
# node types whose bodies are other scopes: their names are not this function's
_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)


def _names(nodes: Iterable[ast.AST], context: type[ast.expr_context]) -> set[str]:
    """Names in a context; the target of an augmented assignment is in both."""
    found: set[str] = set()
    open_nodes = list(nodes)
    while open_nodes:
        node = open_nodes.pop()
        if isinstance(node, ast.Name):
            if isinstance(node.ctx, context):
                found.add(node.id)
            continue
        if isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name):
            found.add(node.target.id)
        if not isinstance(node, _SCOPES):
            for name in node._fields:       # `ast.iter_child_nodes` takes twice as long
                child = getattr(node, name, None)
                if isinstance(child, ast.AST):
                    open_nodes.append(child)
                elif isinstance(child, list):
                    open_nodes += [item for item in child if isinstance(item, ast.AST)]
    return found


def assigned_names(nodes: Iterable[ast.AST]) -> Names:
    """Names that `nodes` may assign, in nested statements and expressions too."""
    return frozenset(_names(nodes, ast.Store))


def read_names(nodes: Iterable[ast.AST]) -> Names:
    """Names that `nodes` may read; an augmented assignment reads its target."""
    return frozenset(_names(nodes, ast.Load))


@dataclass(frozen=True, slots=True)
class LoopNames:
    """Names needed at the head of a loop (by an iteration, or after the loop), and those needed after it."""

    at_head: Names
    after: Names


@dataclass(frozen=True, slots=True)
class _Jumps:
    """What is needed where `break` and `continue` lead."""

    at_break: Names = NOTHING
    at_continue: Names = NOTHING


@dataclass(frozen=True, slots=True)
class Needs:
    """Names needed when a statement has ended, by how it ended: at its end, by `break`, by `continue`."""

    at_end: Names
    at_break: Names = NOTHING
    at_continue: Names = NOTHING

    @property
    def on_any_path(self) -> Names:
        return self.at_end | self.at_break | self.at_continue


class Liveness:
    """Names needed after each statement of a function; after a `return` none is."""

    def __init__(self, body: Sequence[ast.stmt]) -> None:
        self._after: dict[ast.stmt, Needs] = {}
        self._reads: dict[ast.AST, Names] = {}      # a loop's body is walked twice
        self._loops: dict[ast.stmt, LoopNames] = {}
        self._block(body, NOTHING, _Jumps())

    def needs(self, statement: ast.stmt) -> Needs:
        return self._after[statement]

    def after(self, statement: ast.stmt) -> Names:
        """Names that are needed once `statement` has ended, or where a `break` or `continue` in it leads."""
        return self._after[statement].on_any_path

    def loop(self, loop: Loop) -> LoopNames:
        return self._loops[loop]

    def _block(self, statements: Sequence[ast.stmt], live: Names, jumps: _Jumps) -> Names:
        for statement in reversed(statements):
            self._after[statement] = Needs(live, jumps.at_break, jumps.at_continue)
            live = self._statement(statement, live, jumps)
        return live

    def _read(self, node: ast.AST) -> Names:
        if node not in self._reads:
            self._reads[node] = read_names([node])
        return self._reads[node]

    def _statement(self, s: ast.stmt, live: Names, jumps: _Jumps) -> Names:
        """Names needed before `s`, when `live` are needed after it."""
        if isinstance(s, ast.If):
            return self._if(s, live, jumps)
        if isinstance(s, ast.For | ast.While):
            return self._loop(s, live, jumps)
        if isinstance(s, ast.With):
            return self._block(s.body, live, jumps).union(*(self._read(i.context_expr) for i in s.items))
        if isinstance(s, ast.Return):
            return self._read(s)
        if isinstance(s, ast.Break):
            return jumps.at_break
        if isinstance(s, ast.Continue):
            return jumps.at_continue
        return (live - _surely_assigned(s)) | self._read(s)

    def _if(self, s: ast.If, live: Names, jumps: _Jumps) -> Names:
        """A chain of `elif` is walked by a loop: it may be longer than Python recurses."""
        chain = [s]
        while len(chain[-1].orelse) == 1 and isinstance(inner := chain[-1].orelse[0], ast.If):
            self._after[inner] = Needs(live, jumps.at_break, jumps.at_continue)
            chain.append(inner)
        return self._block(chain[-1].orelse, live, jumps).union(
            *(self._block(branch.body, live, jumps) | self._read(branch.test) for branch in chain))

    def _loop(self, loop: Loop, live: Names, jumps: _Jumps) -> Names:
        inputs = self._read(loop.iter if isinstance(loop, ast.For) else loop.test)
        target = assigned_names([loop.target]) if isinstance(loop, ast.For) else NOTHING
        repeated = NOTHING if isinstance(loop, ast.For) else inputs
        head = live | repeated
        for _ in range(2):
            head |= self._block(loop.body, head, _Jumps(live, head)) - target
        self._loops[loop] = LoopNames(head, live)
        after_else = self._block(loop.orelse, live, jumps)
        return head | inputs | after_else


def _surely_assigned(s: ast.stmt) -> Names:
    """Names that a simple statement assigns whatever happens."""
    if isinstance(s, ast.Assign):
        return assigned_names(s.targets)
    if isinstance(s, ast.AnnAssign):
        return assigned_names([s.target]) if s.value is not None else NOTHING
    return NOTHING
