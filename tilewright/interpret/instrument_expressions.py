"""Instrumented expressions: from a kernel's expressions to calls of steps (`instrument.py` says what for).

Temporaries are assignment expressions, `__tw1`, `__tw2`, ..., so nothing is evaluated twice and no closure is made.
Tests: tests/interpret/test_instrument.py.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

from tilewright.diagnostics import Location
from tilewright.frontend.nesting import left_chain
from tilewright.frontend.precedence import slip_in
from tilewright.frontend.refusals import (
    KEYWORDS_OF_DICT,
    MEMBERSHIP,
    SEVERAL_LOOPS,
    STARRED_TARGET,
    literal_refusal,
    target_refusal,
    unsupported_message,
)
from tilewright.language.function import SourceFunction

STEPS = "__tw"
MAX_NESTED = 16     # operators of a chain that stay nested
Node = TypeVar("Node", bound=ast.AST)


def assigned_names(nodes: Iterable[ast.AST]) -> tuple[str, ...]:
    """Names that the nodes bind, in order of appearance; those of nested functions are not among them."""
    found: dict[str, None] = {}
    for node in nodes:
        for inner in walk_own(node):
            if isinstance(inner, ast.Name) and isinstance(inner.ctx, ast.Store):
                found.setdefault(inner.id)
    return tuple(found)


def walk_own(node: ast.AST) -> Iterable[ast.AST]:
    """`node` and what is below it, but nothing inside functions, classes and lambdas."""
    waiting = [node]
    while waiting:
        node = waiting.pop()
        yield node
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Lambda):
            waiting.extend(reversed(list(ast.iter_child_nodes(node))))


def at(node: ast.AST, made: Node) -> Node:
    """`made` on the first line of `node`: code that spans lines would make a debugger go back and forth."""
    ast.copy_location(made, node)
    assert isinstance(made, ast.expr | ast.stmt)
    if made.end_lineno != made.lineno:
        made.end_lineno, made.end_col_offset = made.lineno, made.col_offset
    return made


def _of_steps(name: str) -> ast.expr:
    return ast.Attribute(ast.Name(STEPS, ast.Load()), name, ast.Load())


def _without_tracing() -> list[ast.expr]:
    """The last arguments of each step: the trace function, which is then taken away (`tracing.py`)."""
    off = ast.Call(_of_steps("settrace"), [ast.Constant(None)], [])
    return [ast.Call(_of_steps("gettrace"), [], []),
            ast.BoolOp(ast.And(), [ast.Call(_of_steps("gettrace"), [], []), off])]


class ExpressionRewriter:
    """Rewrites expressions of one function.  Methods named `_expr_x` treat the node class X.

    `locations` grows by a place for each step, `operands` by each right side of `and` and `or` that has calls; `names`
    are the function's local names.
    """

    def __init__(self, fn: SourceFunction, names: Iterable[str]) -> None:
        self.fn = fn
        self.locations: list[Location] = []
        self.operands: list[ast.expr] = []
        self._locals = set(names)
        self.starts_debugger = False        # whether a `breakpoint()` was seen
        self._temporaries = 0

    # -- making nodes -------------------------------------------------------------------------------------------------

    def _place(self, node: ast.AST) -> ast.expr:
        """The number of the node's location, as a constant."""
        self.locations.append(self.fn.location(node))
        return ast.Constant(len(self.locations) - 1)

    def step(self, node: ast.AST, name: str, *args: Any) -> ast.expr:
        """`__tw.name(place, *args, ...)`, located at `node`; args are expressions, or constants as they are."""
        made = [a if isinstance(a, ast.expr) else ast.Constant(a) for a in args]
        return at(node, ast.Call(_of_steps(name), [self._place(node), *made, *_without_tracing()], []))

    def temporary(self) -> str:
        self._temporaries += 1
        return f"{STEPS}{self._temporaries}"

    def kept(self, name: str, value: ast.expr) -> ast.expr:
        """`(name := value)`."""
        return at(value, ast.NamedExpr(at(value, ast.Name(name, ast.Store())), value))

    # -- expressions --------------------------------------------------------------------------------------------------

    def expression(self, node: ast.expr) -> ast.expr:
        handler = getattr(self, f"_expr_{type(node).__name__.lower()}", None)
        if handler is None:
            return self.step(node, "unsupported", unsupported_message(node))
        made = handler(node)
        assert isinstance(made, ast.expr)
        return made

    def _expr_constant(self, node: ast.Constant) -> ast.expr:
        refusal = literal_refusal(node.value)
        if refusal is not None:
            return self.step(node, "unsupported", unsupported_message(node, refusal))
        return self.step(node, "literal", node)

    def _expr_name(self, node: ast.Name) -> ast.expr:
        return node if node.id in self._locals else self.step(node, "name", node.id)

    def _expr_binop(self, node: ast.BinOp) -> ast.expr:
        chain = left_chain(node)
        if len(chain) <= MAX_NESTED:
            left, right = self.expression(node.left), self.expression(node.right)
            return self.step(node, "binary", type(node.op).__name__, left, right)
        return self._flat(node, chain)

    def _flat(self, node: ast.BinOp, chain: Sequence[ast.BinOp]) -> ast.expr:
        """A long chain as `(t := a + b, t := t + c, ...)[-1]`, since Python refuses code that nests deeply."""
        name = self.temporary()
        parts = [self.kept(name, self.expression(chain[0].left))]
        for link in chain:
            left = at(link, ast.Name(name, ast.Load()))
            made = self.step(link, "binary", type(link.op).__name__, left, self.expression(link.right))
            parts.append(self.kept(name, made))
        return at(node, ast.Subscript(ast.Tuple(parts, ast.Load()), ast.Constant(-1), ast.Load()))

    def _expr_unaryop(self, node: ast.UnaryOp) -> ast.expr:
        return self.step(node, "unary", type(node.op).__name__, self.expression(node.operand))

    def _expr_boolop(self, node: ast.BoolOp) -> ast.expr:
        made = self.expression(node.values[0])
        for value in node.values[1:]:
            made = self._logical(node, type(node.op).__name__, made, value)
        return made

    def _logical(self, node: ast.expr, op: str, left: ast.expr, right: ast.expr) -> ast.expr:
        """`left op right`; `right` is not evaluated when `left` decides, for which it may have to be looked at."""
        if any(isinstance(n, ast.Call) for n in walk_own(right)):
            self.operands.append(right)
            left = self.step(node, "decision", op, left, len(self.operands) - 1, self.locals_now())
        else:
            left = self.step(node, "decision", op, left)
        return self._unless_made(node, left, lambda name: self.step(node, "logical", op, name, self.expression(right)))

    def _chained(self, node: ast.Compare, before: ast.expr, link: ast.expr) -> ast.expr:
        """`before and link` of a chained comparison; `link` is not evaluated when `before` decides."""
        decision = self.step(node, "decision", "And", before)
        return self._unless_made(node, decision, lambda name: self.step(node, "chain", name, link))

    def _unless_made(self, node: ast.expr, decision: ast.expr, both: Callable[[ast.expr], ast.expr]) -> ast.expr:
        """`d.value if (d := decision).made else both(d)`."""
        name = self.temporary()
        made = ast.Attribute(self.kept(name, decision), "made", ast.Load())
        value = ast.Attribute(ast.Name(name, ast.Load()), "value", ast.Load())
        return at(node, ast.IfExp(made, value, both(ast.Name(name, ast.Load()))))

    def locals_now(self) -> ast.expr:
        return ast.Call(ast.Name("locals", ast.Load()), [], [])

    def _expr_compare(self, node: ast.Compare) -> ast.expr:
        slip = slip_in(self.fn, node)
        if slip is not None and slip.refused:
            return self.step(node, "unsupported", slip.message)
        made: ast.expr | None = None
        left = self.expression(node.left)
        if slip is not None:
            left = self.step(node, "told", left, slip.message)
        for position, (op, comparator) in enumerate(zip(node.ops, node.comparators, strict=True)):
            if isinstance(op, ast.In | ast.NotIn):
                return self.step(node, "unsupported", unsupported_message(node, MEMBERSHIP))
            right, following = self.expression(comparator), left
            if position + 1 < len(node.ops):
                name = self.temporary()
                right, following = self.kept(name, right), ast.Name(name, ast.Load())
            one = self.step(node, "compare", type(op).__name__, left, right)
            made = one if made is None else self._chained(node, made, one)
            left = following
        assert made is not None
        return made

    def _expr_ifexp(self, node: ast.IfExp) -> ast.expr:
        name = self.temporary()
        opened = self.kept(name, self.step(node.test, "choice", self.expression(node.test)))
        taken = ast.Attribute(opened, "taken", ast.Load())
        chosen = at(node, ast.IfExp(taken, self.expression(node.body), self.expression(node.orelse)))
        # the arguments of a call are evaluated in order, so the choice has to be the first
        return self.step(node, "chosen", chosen, ast.Name(name, ast.Load()))

    def _expr_subscript(self, node: ast.Subscript) -> ast.expr:
        return self.step(node, "subscript", self.expression(node.value), self._index(node.slice))

    def _index(self, node: ast.expr) -> ast.expr:
        if isinstance(node, ast.Tuple):
            return at(node, ast.Tuple([self._index(e) for e in node.elts], ast.Load()))
        if isinstance(node, ast.Slice):
            parts = [ast.Constant(None) if part is None else self.expression(part)
                     for part in (node.lower, node.upper, node.step)]
            return self.step(node, "slice", *parts)
        return self.expression(node)

    def _expr_attribute(self, node: ast.Attribute) -> ast.expr:
        return self.step(node, "attribute", self.expression(node.value), node.attr)

    def _expr_call(self, node: ast.Call) -> ast.expr:
        if self._starts_debugger(node):
            self.starts_debugger = True
            return node                     # not through a step: it stops in the caller's frame
        args: list[ast.expr] = []
        for arg in node.args:
            if isinstance(arg, ast.Starred):
                args.append(at(arg, ast.Starred(self.step(arg, "spread", self.expression(arg.value)), ast.Load())))
            else:
                args.append(self.expression(arg))
        if any(k.arg is None for k in node.keywords):
            return self.step(node, "unsupported", unsupported_message(node, KEYWORDS_OF_DICT))
        keys: list[ast.expr | None] = [ast.Constant(k.arg) for k in node.keywords]
        keywords = ast.Dict(keys, [self.expression(k.value) for k in node.keywords])
        return self.step(node, "call", self.expression(node.func), ast.List(args, ast.Load()), keywords)

    def _starts_debugger(self, node: ast.Call) -> bool:
        """`breakpoint()`, and `pdb.set_trace()` of any debugger, whose arguments are Python's."""
        if any(not isinstance(a, ast.Constant) for a in (*node.args, *(k.value for k in node.keywords))):
            return False
        if isinstance(node.func, ast.Name):
            return node.func.id in ("breakpoint", "set_trace") and node.func.id not in self._locals
        return isinstance(node.func, ast.Attribute) and node.func.attr == "set_trace" and (
            isinstance(node.func.value, ast.Name) and node.func.value.id not in self._locals)

    def _expr_tuple(self, node: ast.Tuple | ast.List) -> ast.expr:
        items: list[ast.expr] = []
        for item in node.elts:
            if isinstance(item, ast.Starred):
                items.append(at(item, ast.Starred(self.step(item, "spread", self.expression(item.value)), ast.Load())))
            else:
                items.append(self.expression(item))
        return self.step(node, "tuple", ast.List(items, ast.Load()))

    _expr_list = _expr_tuple

    def _expr_namedexpr(self, node: ast.NamedExpr) -> ast.expr:
        value = self.step(node, "assign", node.target.id, self.expression(node.value))
        return at(node, ast.NamedExpr(node.target, value))

    def _expr_joinedstr(self, node: ast.JoinedStr) -> ast.expr:
        parts = [v if isinstance(v, ast.Constant) else self._formatted(v) for v in node.values]
        return self.step(node, "joined", ast.List(list(parts), ast.Load()))

    def _formatted(self, node: ast.expr) -> ast.expr:
        assert isinstance(node, ast.FormattedValue)
        spec = self.expression(node.format_spec) if node.format_spec is not None else ast.Constant(None)
        return self.step(node, "formatted", self.expression(node.value), node.conversion, spec)

    def _expr_listcomp(self, node: ast.ListComp) -> ast.expr:
        (generator, *more) = node.generators
        if more or generator.is_async:
            return self.step(node, "unsupported", unsupported_message(node, SEVERAL_LOOPS))
        iterated = self.step(generator.iter, "spread", self.expression(generator.iter))
        items, item = self.temporary(), self.temporary()
        # an iterable may not hold assignment expressions, so it is evaluated before; the target is the function's own
        # name, which keeps its value, so it is assigned in the first condition, a tuple with elements, which holds
        first = at(node, ast.Tuple(self._bound(generator.target, ast.Name(item, ast.Load())), ast.Load()))
        tests = [self.step(t, "known_choice", self.expression(t)) for t in generator.ifs]
        made = ast.ListComp(self.expression(node.elt), [
            ast.comprehension(ast.Name(item, ast.Store()), ast.Name(items, ast.Load()), [first, *tests], 0)])
        both = ast.Tuple([self.kept(items, iterated), at(node, made)], ast.Load())
        return self.step(node, "tuple", ast.Subscript(both, ast.Constant(1), ast.Load()))

    def _bound(self, target: ast.expr, value: ast.expr) -> list[ast.expr]:
        """Assignment expressions that give `value`, as it is, to the names of a target."""
        if isinstance(target, ast.Name):
            return [self.kept(target.id, self.step(target, "bind", target.id, value))]
        if not isinstance(target, ast.Tuple | ast.List):
            return [self.step(target, "unsupported", unsupported_message(target, target_refusal(target)))]
        name = self.temporary()
        made: list[ast.expr] = [self.kept(name, self.step(target, "unpack", value, len(target.elts)))]
        for index, inner in enumerate(target.elts):
            if isinstance(inner, ast.Starred):
                return [self.step(inner, "unsupported", unsupported_message(inner, STARRED_TARGET))]
            made += self._bound(inner, ast.Subscript(ast.Name(name, ast.Load()), ast.Constant(index), ast.Load()))
        return made
