"""Messages in the words of the source: the text of operands where an error of the language leaves room for it.

A meaning does not know what its operands are called; `language.errors.as_written` marks the place in its message, and
what knows the node fills it in here.  Tests: tests/frontend/test_written.py, tests/errors/.
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator
from typing import Any

from tilewright import language
from tilewright.diagnostics import Location
from tilewright.language.builtin import is_builtin
from tilewright.language.errors import LanguageError, with_operands
from tilewright.language.function import SourceFunction

_LONGEST = 40       # characters; a longer operand is named in general words


def said_of(error: LanguageError, fn: SourceFunction, node: ast.AST | None) -> str:
    """The text of an error that `node` of `fn` has caused."""
    texts = {} if node is None else {name: ast.unparse(part) for name, part in _operands(fn, node)}
    return with_operands(error.template, {name: text for name, text in texts.items() if len(text) <= _LONGEST})


def node_at(fn: SourceFunction, location: Location | None) -> ast.AST | None:
    """The expression at a place; the inner one of two."""
    found = None
    for node in ast.walk(fn.tree()):
        if isinstance(node, ast.expr | ast.AugAssign) and fn.location(node) == location:
            found = node
    return found


def _operands(fn: SourceFunction, node: ast.AST) -> Iterator[tuple[str, ast.expr]]:
    """The operands of a node under the names that `as_written` has for them."""
    if isinstance(node, ast.BinOp):
        yield from (("left", node.left), ("right", node.right))
    elif isinstance(node, ast.AugAssign):
        yield from (("left", node.target), ("right", node.value))
    elif isinstance(node, ast.Compare) and len(node.ops) == 1:
        yield from (("left", node.left), ("right", node.comparators[0]))
    elif isinstance(node, ast.UnaryOp):
        yield "operand", node.operand
    elif isinstance(node, ast.Subscript):
        yield "value", node.value
        if not isinstance(node.slice, ast.Slice | ast.Tuple):
            yield "index", node.slice
    elif isinstance(node, ast.Call):
        yield from _arguments(fn, node)
    if isinstance(node, ast.expr):
        yield "condition", node.test if isinstance(node, ast.IfExp) else node


def _arguments(fn: SourceFunction, node: ast.Call) -> Iterator[tuple[str, ast.expr]]:
    """`sum.0`, `sum.axis`: of a method the first one is what stands before the dot."""
    callee, given = node.func, list(node.args)
    if isinstance(callee, ast.Attribute):
        name, root = callee.attr, callee.value
        while isinstance(root, ast.Attribute):
            root = root.value
        if not isinstance(root, ast.Name) or root.id in fn.fn.__code__.co_varnames:
            given = [callee.value, *given]
    elif isinstance(callee, ast.Name):
        name = callee.id
    else:
        return
    params = _parameters(name)
    for index, argument in enumerate(given):
        if isinstance(argument, ast.Starred):
            break
        yield f"{name}.{index}", argument
        if index < len(params):
            yield f"{name}.{params[index]}", argument
    yield from ((f"{name}.{keyword.arg}", keyword.value) for keyword in node.keywords if keyword.arg is not None)
    sequences = [a for a in (*given, *(k.value for k in node.keywords)) if isinstance(a, ast.Tuple | ast.List)]
    if len(sequences) == 1:
        yield from ((f"element.{index}", element) for index, element in enumerate(sequences[0].elts))


def _parameters(name: str) -> list[str]:
    """The names of the parameters of a function of the language."""
    function: Any = getattr(language, name, None)
    return [p for p in inspect.signature(function).parameters if p != "_builder"] if is_builtin(function) else []
