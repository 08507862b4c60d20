"""What a kernel cannot contain, and what to write instead: the words for both engines that read source.

Tests: tests/errors/statements.py.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping

# node type: the construct; what to write instead
UNSUPPORTED: Mapping[type[ast.AST], str] = {
    ast.Lambda: "a lambda; write a function with @triton.jit and pass its name",
    ast.Dict: "a dict; use separate variables or a namedtuple",
    ast.Set: "a set; use a tuple",
    ast.DictComp: "a dict comprehension; use a tuple",
    ast.SetComp: "a set comprehension; use a list comprehension, which makes a tuple",
    ast.GeneratorExp: "a generator expression; use a list comprehension, which makes a tuple",
    ast.Await: "await; a kernel is not asynchronous",
    ast.Yield: "yield; a kernel stores its results with tl.store",
    ast.YieldFrom: "yield from; a kernel stores its results with tl.store",
    ast.Starred: "a starred expression here; `*` unpacks a tuple in the arguments of a call only",
    ast.FunctionDef: "a nested function; define it outside, decorated with @triton.jit",
    ast.AsyncFunctionDef: "an async function; define a @triton.jit function outside",
    ast.ClassDef: "a class; define it outside of the kernel",
    ast.Delete: "del; a variable ends with the function, so leave it out",
    ast.AsyncFor: "async for; a kernel is not asynchronous",
    ast.AsyncWith: "async with; a kernel is not asynchronous",
    ast.With: "with; there is no context to enter in a kernel",
    ast.Raise: "raise; use tl.device_assert, or tl.static_assert for compile-time conditions",
    ast.Try: "try; there are no exceptions at run time, test conditions with `if`",
    ast.Import: "an import; import at the top of the module",
    ast.ImportFrom: "an import; import at the top of the module",
    ast.Global: "global; pass the value as an argument and store results with tl.store",
    ast.Nonlocal: "nonlocal; pass the value as an argument and return results",
    **({ast.Match: "match; use if and elif"} if hasattr(ast, "Match") else {}),
}
MEMBERSHIP = "`in`; compare one by one, as in `x == a or x == b`"
KEYWORDS_OF_DICT = "`**` in a call; name the arguments"
SEVERAL_LOOPS = "a comprehension with several `for`; nest list comprehensions"
STARRED_TARGET = "a starred target; slice the tuple: a, rest = t[0], t[1:]"
LOOP_ELSE = "`else` on a loop; set a flag before `break` and test it afterwards"


def literal_refusal(value: object) -> str | None:
    """Why a literal has no meaning; None if it has one."""
    if isinstance(value, bytes | complex):
        return f"a literal of type {type(value).__name__}; use int, float, bool or str"
    return None


def target_refusal(target: ast.expr) -> str:
    """Why nothing can be assigned to `target`, which is neither a name nor a tuple of names."""
    if isinstance(target, ast.Subscript):
        return ("an assignment to an element; tiles and tuples are values: write memory with tl.store, or make a new "
                "tile with tl.where")
    if isinstance(target, ast.Attribute):
        return "an assignment to an attribute; values cannot be changed, make a new one"
    return f"an assignment to {type(target).__name__}"


def unsupported_message(node: ast.AST, what: str | None = None) -> str:
    """The message for a node without meaning; `what` says it in words where the node's type is not enough."""
    if what is None:
        default = f"the statement {type(node).__name__}" if isinstance(node, ast.stmt) else type(node).__name__
        what = UNSUPPORTED.get(type(node), default)
    construct, _, instead = what.partition("; ")
    message = f"unsupported AST node type: {type(node).__name__}. A kernel cannot contain {construct}"
    return message + (f"; {instead}" if instead else "")
