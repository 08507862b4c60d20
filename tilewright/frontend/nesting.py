"""Source that nests deeply: long chains of operators, which are walked by a loop, and what to say of the rest.

Both engines walk a kernel's syntax tree by recursion, which Python ends at some depth.
Tests: tests/frontend/test_nesting.py.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

_MANY = 40      # what nests deeper in the text is to blame; all else goes deep by recursion or by unrolling


def left_chain(node: ast.BinOp) -> list[ast.BinOp]:
    """The operators of `a + b + c`, the first to be computed first: each is the left operand of the next."""
    chain = [node]
    while isinstance(chain[-1].left, ast.BinOp):
        chain.append(chain[-1].left)
    return chain[::-1]


def too_deep(function: ast.FunctionDef, node: ast.AST) -> tuple[ast.AST, str]:
    """Where and why `function` nests too deeply, when Python refused to go deeper at `node`."""
    start = "this nests too deeply"
    branch, branches = max(_elif_chains(function), key=lambda found: found[1], default=(node, 0))
    expression, depth = max(_expressions(function), key=lambda found: found[1], default=(node, 0))
    if max(branches, depth) < _MANY:
        return node, f"{start} for the compiler: by recursion, or by `if` within `if`"
    if branches >= depth:
        return branch, (f"{start}: this chain of `if` and `elif` has {branches} branches, and each is inside the one "
                        "before (about 100 are possible); divide it into several, or look the result up in memory")
    return expression, (f"{start}: this expression is {depth} levels deep; give a name to parts of it")


def _elif_chains(function: ast.FunctionDef) -> Iterator[tuple[ast.AST, int]]:
    """Each `if` that is no `elif`, with the number of conditions in its chain."""
    inner = set()
    for node in ast.walk(function):     # an outer `if` comes before its `elif`s
        if isinstance(node, ast.If) and node not in inner:
            count, last = 1, node
            while len(last.orelse) == 1 and isinstance(last.orelse[0], ast.If):
                last = last.orelse[0]
                inner.add(last)
                count += 1
            yield node, count


def _expressions(function: ast.FunctionDef) -> Iterator[tuple[ast.AST, int]]:
    """Each expression that is no part of another, with its depth."""
    for statement in ast.walk(function):
        if isinstance(statement, ast.stmt):
            for child in ast.iter_child_nodes(statement):
                if isinstance(child, ast.expr):
                    yield child, _depth(child)


def _depth(expression: ast.expr) -> int:
    level: list[ast.AST] = [expression]
    depth = 0
    while level:
        level = [child for node in level for child in ast.iter_child_nodes(node)]
        depth += 1
    return depth
