"""Instrumentation: a kernel's source, rewritten so that Python runs it with the language's meaning.

Python alone would give `v = load(int8) + i` the type int8 and `-7 // 2` the value -4.  So every assignment, operator,
comparison, subscript, call, branch and loop of the kernel becomes a call of a method of a `Steps` object
(`interpret.steps`), which is the function's first argument, `__tw`.  The statements stay statements and the names stay
Python locals, compiled under the user's file name, lines and columns, so that `print`, `breakpoint()` and a step
debugger work.  Syntax that has no meaning in a kernel becomes a step that raises when it is reached.

Temporaries are assignment expressions, `__tw1`, `__tw2`, ..., so nothing is evaluated twice and no closure is made.
Tests: tests/interpret/test_instrument.py.
"""

from __future__ import annotations

import ast
import sys
import types
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from tilewright.diagnostics import Location
from tilewright.frontend.liveness import Liveness
from tilewright.frontend.refusals import (
    KEYWORDS_OF_DICT,
    LOOP_ELSE,
    MEMBERSHIP,
    SEVERAL_LOOPS,
    STARRED_TARGET,
    literal_refusal,
    target_refusal,
    unsupported_message,
)
from tilewright.frontend.statements import says_constexpr
from tilewright.language.function import SourceFunction

STEPS = "__tw"
Node = TypeVar("Node", bound=ast.AST)


@dataclass(frozen=True, slots=True)
class BranchFacts:
    """Names that the two sides of an `if` assign, those needed after it, whether a side has a `return`.

    `go_on`: whether each side may reach its end.
    """

    then: tuple[str, ...]
    otherwise: tuple[str, ...]
    live: frozenset[str]
    returns: bool
    go_on: tuple[bool, bool]


@dataclass(frozen=True, slots=True)
class LoopFacts:
    """Names that a loop changes and needs at its head, those that it assigns, and those that decay in it.

    `target` is the name of the index, empty for other targets.
    """

    carried: tuple[str, ...]
    inner: tuple[str, ...]
    decaying: frozenset[str]
    returns: bool
    target: str = ""


@dataclass(frozen=True, slots=True, eq=False)
class Instrumented:
    """An instrumented function: call it with a `Steps` and the argument values.

    Steps get numbers that stand for places and for the facts of branches and loops.
    """

    source: SourceFunction
    function: Callable[..., Any]
    locations: tuple[Location, ...]
    facts: tuple[BranchFacts | LoopFacts, ...]


def instrument(fn: SourceFunction) -> Instrumented:
    """The instrumented form of `fn`.

    Names from outside are looked up by steps; it has the globals of `fn` all the same, for the debugger's prompt.
    """
    rewriter = _Rewriter(fn)
    code = compile(rewriter.rewritten(), fn.file, "exec", dont_inherit=True)
    namespace: dict[str, Any] = {}
    exec(code, namespace)
    function = types.FunctionType(namespace[fn.__name__].__code__, fn.globals, fn.__name__)
    return Instrumented(fn, function, tuple(rewriter.locations), tuple(rewriter.facts))


def assigned_names(nodes: Iterable[ast.AST]) -> tuple[str, ...]:
    """Names that the statements bind, in order of appearance; those of nested functions are not among them."""
    found: dict[str, None] = {}
    for node in nodes:
        for inner in _walk_own(node):
            if isinstance(inner, ast.Name) and isinstance(inner.ctx, ast.Store):
                found.setdefault(inner.id)
    return tuple(found)


def _walk_own(node: ast.AST) -> Iterable[ast.AST]:
    """`node` and what is below it, but nothing inside functions, classes, lambdas and comprehensions."""
    yield node
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Lambda | ast.comprehension):
        return
    for child in ast.iter_child_nodes(node):
        yield from _walk_own(child)


class _Rewriter:
    """Rewrites one function.  Methods named `_stmt_x` and `_expr_x` treat the node class X."""

    def __init__(self, fn: SourceFunction) -> None:
        self.fn = fn
        self.locations: list[Location] = []
        self.facts: list[BranchFacts | LoopFacts] = []
        self._temporaries = 0
        self._declared: set[str] = set()        # names of `name: tl.constexpr` that have no value yet
        tree = fn.tree()
        self._live = Liveness(tree.body)
        arguments = tree.args
        parameters = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
        if arguments.vararg is not None:
            parameters.append(arguments.vararg)
        self._locals = {*(p.arg for p in parameters), *assigned_names(tree.body)}

    def rewritten(self) -> ast.Module:
        """A module that defines the instrumented function."""
        tree = self.fn.tree()
        names = [p.name for p in self.fn.params]
        args = ast.arguments(posonlyargs=[], args=[ast.arg(n) for n in (STEPS, *names)], vararg=None, kwonlyargs=[],
                             kw_defaults=[], kwarg=None, defaults=[])
        new = ast.FunctionDef(name=tree.name, args=args, body=self._block(tree.body), decorator_list=[], returns=None,
                              type_comment=None)
        if sys.version_info >= (3, 12):
            new.type_params = []
        return ast.fix_missing_locations(ast.Module(body=[ast.copy_location(new, tree)], type_ignores=[]))

    # -- making nodes -------------------------------------------------------------------------------------------------

    def _place(self, node: ast.AST) -> ast.expr:
        """The number of the node's location, as a constant."""
        self.locations.append(self.fn.location(node))
        return ast.Constant(len(self.locations) - 1)

    def _step(self, node: ast.AST, name: str, *args: Any, placed: bool = True) -> ast.expr:
        """`__tw.name(place, *args)`, located at `node`; args are expressions, or constants as they are."""
        function = ast.Attribute(ast.Name(STEPS, ast.Load()), name, ast.Load())
        made = [a if isinstance(a, ast.expr) else ast.Constant(a) for a in args]
        return _at(node, ast.Call(function, [self._place(node), *made] if placed else made, []))

    def _temporary(self) -> str:
        self._temporaries += 1
        return f"{STEPS}{self._temporaries}"

    def _kept(self, name: str, value: ast.expr) -> ast.expr:
        """`(name := value)`."""
        return _at(value, ast.NamedExpr(_at(value, ast.Name(name, ast.Store())), value))

    # -- statements ---------------------------------------------------------------------------------------------------

    def _block(self, body: Sequence[ast.stmt]) -> list[ast.stmt]:
        made: list[ast.stmt] = []
        for statement in body:
            handler = getattr(self, f"_stmt_{type(statement).__name__.lower()}", None)
            made += handler(statement) if handler is not None else self._refused(statement)
        return made or [ast.Pass()]

    def _refused(self, node: ast.expr | ast.stmt, what: str | None = None) -> list[ast.stmt]:
        """A statement that raises when it is reached."""
        return [_at(node, ast.Expr(self._step(node, "unsupported", unsupported_message(node, what))))]

    def _stmt_expr(self, node: ast.Expr) -> list[ast.stmt]:
        if isinstance(node.value, ast.Constant):        # docstrings and `...`
            return [node]
        return [_at(node, ast.Expr(self._expr(node.value)))]

    def _stmt_pass(self, node: ast.Pass) -> list[ast.stmt]:
        return [node]

    def _stmt_assign(self, node: ast.Assign) -> list[ast.stmt]:
        value = self._expr(node.value)
        if len(node.targets) == 1:
            return self._assign(node, node.targets[0], value)
        name = self._temporary()
        first: list[ast.stmt] = [_at(node, ast.Assign([ast.Name(name, ast.Store())], value))]
        return first + [s for t in node.targets for s in self._assign(node, t, ast.Name(name, ast.Load()))]

    def _assign(self, node: ast.stmt, target: ast.expr, value: ast.expr, decays: bool = True) -> list[ast.stmt]:
        if isinstance(target, ast.Name):
            step = "assign" if decays else "bind"
            if decays and target.id in self._declared:      # a bare `name: tl.constexpr` stands before it
                self._declared.discard(target.id)
                step = "known"
            return [_at(node, ast.Assign([target], self._step(node, step, target.id, value)))]
        if not isinstance(target, ast.Tuple | ast.List):
            return self._refused(target, target_refusal(target))
        name = self._temporary()
        parts = self._step(target, "unpack", value, len(target.elts))
        made: list[ast.stmt] = [_at(node, ast.Assign([ast.Name(name, ast.Store())], parts))]
        for index, inner in enumerate(target.elts):
            if isinstance(inner, ast.Starred):
                return self._refused(inner, STARRED_TARGET)
            item = ast.Subscript(ast.Name(name, ast.Load()), ast.Constant(index), ast.Load())
            made += self._assign(node, inner, item, decays)
        return made

    def _stmt_augassign(self, node: ast.AugAssign) -> list[ast.stmt]:
        if not isinstance(node.target, ast.Name):
            return self._assign(node, node.target, ast.Constant(None))
        left = self._expr(_at(node.target, ast.Name(node.target.id, ast.Load())))
        value = self._step(node, "binary", type(node.op).__name__, left, self._expr(node.value))
        return self._assign(node, node.target, value)

    def _stmt_annassign(self, node: ast.AnnAssign) -> list[ast.stmt]:
        if not isinstance(node.target, ast.Name):
            return self._refused(node.target, target_refusal(node.target))
        name = node.target.id
        if not says_constexpr(self.fn, node.annotation):
            return [] if node.value is None else self._assign(node, node.target, self._expr(node.value))
        defined = self._step(node.target, "declare", name, self._locals_now())
        made: list[ast.stmt] = [_at(node, ast.Expr(defined))]
        if node.value is None:
            self._declared.add(name)
        else:
            value = self._step(node.value, "known", name, self._expr(node.value))
            made.append(_at(node, ast.Assign([node.target], value)))
        return made

    def _stmt_return(self, node: ast.Return) -> list[ast.stmt]:
        value = self._expr(node.value) if node.value is not None else ast.Constant(None)
        return [_at(node, ast.Return(self._step(node, "returned", value)))]

    def _stmt_assert(self, node: ast.Assert) -> list[ast.stmt]:
        message = self._expr(node.msg) if node.msg is not None else ast.Constant(None)
        return [_at(node, ast.Expr(self._step(node, "assertion", self._expr(node.test), message)))]

    def _stmt_if(self, node: ast.If) -> list[ast.stmt]:
        branch, then, other = self._temporary(), assigned_names(node.body), assigned_names(node.orelse)
        facts = self._fact(BranchFacts(then, other, self._live.after(node), _has_return([*node.body, *node.orelse]),
                                       (_may_end(node.body), _may_end(node.orelse))))
        opened = self._step(node.test, "branch", self._expr(node.test), facts, self._locals_now())
        taken = ast.Attribute(ast.Name(branch, ast.Load()), "taken", ast.Load())
        rest = self._block(node.orelse) if node.orelse else []
        return [_at(node, ast.Assign([ast.Name(branch, ast.Store())], opened)),
                _at(node, ast.If(taken, self._block(node.body), rest)),
                *self._joined(node, branch, dict.fromkeys((*then, *other)))]

    def _fact(self, facts: BranchFacts | LoopFacts) -> int:
        self.facts.append(facts)
        return len(self.facts) - 1

    def _loop_facts(self, node: ast.For | ast.While) -> LoopFacts:
        target = node.target.id if isinstance(node, ast.For) and isinstance(node.target, ast.Name) else ""
        changed = assigned_names(node.body if isinstance(node, ast.For) else [node.test, *node.body])
        # the condition of a `while` runs in any case, and `while True` runs its body, so what they assign stays
        stays = assigned_names([node.test, *(node.body if _is_true(node.test) else ())]) \
            if isinstance(node, ast.While) else ()
        head = self._live.loop(node).at_head
        inner = (n for statement in node.body for n in _walk_own(statement))
        decaying = assigned_names(n for n in inner if isinstance(n, ast.Assign | ast.AugAssign))
        carried = tuple(n for n in changed if n in head and n != target)
        ends = tuple(n for n in changed if n not in stays)
        return LoopFacts(carried, ends, frozenset(decaying), _has_return(node.body), target)

    def _stmt_for(self, node: ast.For) -> list[ast.stmt]:
        if node.orelse:
            return self._refused(node.orelse[0], LOOP_ELSE)
        loop, index, facts = self._temporary(), self._temporary(), self._loop_facts(node)
        opened = self._step(node.iter, "for_loop", self._expr(node.iter), self._fact(facts), self._locals_now())
        body = [*self._bind(node, node.target, ast.Name(index, ast.Load())), *self._loop_body(node, loop)]
        new = ast.For(ast.Name(index, ast.Store()), ast.Name(loop, ast.Load()), body, [], None)
        return [_at(node, ast.Assign([ast.Name(loop, ast.Store())], opened)),
                *self._rebound(node, loop, facts.carried), _at(node, new),
                *self._joined(node, loop, dict.fromkeys((*facts.inner, *filter(None, [facts.target]))))]

    def _bind(self, node: ast.stmt, target: ast.expr, value: ast.expr) -> list[ast.stmt]:
        """Give `value`, as it is, to the names of a target."""
        return [_at(target, s) for s in self._assign(node, target, value, decays=False)]

    def _stmt_while(self, node: ast.While) -> list[ast.stmt]:
        if node.orelse:
            return self._refused(node.orelse[0], LOOP_ELSE)
        loop, facts = self._temporary(), self._loop_facts(node)
        opened = self._step(node, "while_loop", self._fact(facts), self._locals_now())
        return [_at(node, ast.Assign([ast.Name(loop, ast.Store())], opened)),
                *self._rebound(node, loop, facts.carried),
                _at(node, ast.While(self._step(node.test, "goes_on", self._expr(node.test)),
                                    self._loop_body(node, loop), [])),
                *self._joined(node, loop, facts.inner)]

    def _loop_body(self, node: ast.For | ast.While, loop: str) -> list[ast.stmt]:
        """The body; at its end and before each `break` and `continue` the carried values are checked."""
        body = _Jumps(lambda at: self._check(at, loop)).applied(self._block(node.body))
        return [*body, self._check(node, loop)]

    def _check(self, node: ast.stmt, loop: str) -> ast.stmt:
        step = self._step(node, "end_of_iteration", ast.Name(loop, ast.Load()), self._locals_now())
        return _at(node, ast.Expr(step))

    def _stmt_break(self, node: ast.Break) -> list[ast.stmt]:
        return [node]

    def _stmt_continue(self, node: ast.Continue) -> list[ast.stmt]:
        return [node]

    def _locals_now(self) -> ast.expr:
        return ast.Call(ast.Name("locals", ast.Load()), [], [])

    def _rebound(self, node: ast.stmt, frame: str, names: Iterable[str]) -> list[ast.stmt]:
        """`if frame.has("v"): v = frame.value("v")` for each name: what a loop carries is a tensor from here on."""
        return [_at(node, ast.If(_method(frame, "has", name),
                                 [ast.Assign([ast.Name(name, ast.Store())], _method(frame, "value", name))], []))
                for name in names]

    def _joined(self, node: ast.stmt, frame: str, names: Iterable[str]) -> list[ast.stmt]:
        """After a branch or loop: values that both ways give, and the end of names that only one way binds."""
        close = _at(node, ast.Expr(self._step(node, "close", ast.Name(frame, ast.Load()), self._locals_now())))
        made: list[ast.stmt] = [close]
        for name in names:
            dropped = ast.If(_method(frame, "drops", name), [ast.Delete([ast.Name(name, ast.Del())])], [])
            rebind = ast.Assign([ast.Name(name, ast.Store())], _method(frame, "value", name))
            made.append(_at(node, ast.If(_method(frame, "has", name), [rebind], [dropped])))
        return made

    # -- expressions --------------------------------------------------------------------------------------------------

    def _expr(self, node: ast.expr) -> ast.expr:
        handler = getattr(self, f"_expr_{type(node).__name__.lower()}", None)
        if handler is None:
            return self._step(node, "unsupported", unsupported_message(node))
        made = handler(node)
        assert isinstance(made, ast.expr)
        return made

    def _expr_constant(self, node: ast.Constant) -> ast.expr:
        refusal = literal_refusal(node.value)
        if refusal is not None:
            return self._step(node, "unsupported", unsupported_message(node, refusal))
        return self._step(node, "literal", node)

    def _expr_name(self, node: ast.Name) -> ast.expr:
        return node if node.id in self._locals else self._step(node, "name", node.id)

    def _expr_binop(self, node: ast.BinOp) -> ast.expr:
        return self._step(node, "binary", type(node.op).__name__, self._expr(node.left), self._expr(node.right))

    def _expr_unaryop(self, node: ast.UnaryOp) -> ast.expr:
        return self._step(node, "unary", type(node.op).__name__, self._expr(node.operand))

    def _expr_boolop(self, node: ast.BoolOp) -> ast.expr:
        made = self._expr(node.values[0])
        for value in node.values[1:]:
            calls = any(isinstance(n, ast.Call) for n in _walk_own(value))
            made = self._logical(node, type(node.op).__name__, made, self._expr(value), calls)
        return made

    def _logical(self, node: ast.expr, op: str, left: ast.expr, right: ast.expr, calls: bool) -> ast.expr:
        """`left op right`; `right` is not evaluated when `left` decides."""
        name = self._temporary()
        decided = self._step(node, "decides", op, calls, self._kept(name, left))
        both = self._step(node, "logical", op, ast.Name(name, ast.Load()), right)
        return _at(node, ast.IfExp(decided, ast.Name(name, ast.Load()), both))

    def _chained(self, node: ast.Compare, before: ast.expr, link: ast.expr) -> ast.expr:
        """`before and link` of a chained comparison; `link` is not evaluated when `before` decides."""
        name = self._temporary()
        decided = self._step(node, "decides", "And", False, self._kept(name, before))
        both = self._step(node, "chain", ast.Name(name, ast.Load()), link)
        return _at(node, ast.IfExp(decided, ast.Name(name, ast.Load()), both))

    def _expr_compare(self, node: ast.Compare) -> ast.expr:
        made: ast.expr | None = None
        left = self._expr(node.left)
        for position, (op, comparator) in enumerate(zip(node.ops, node.comparators, strict=True)):
            if isinstance(op, ast.In | ast.NotIn):
                return self._step(node, "unsupported", unsupported_message(node, MEMBERSHIP))
            right, following = self._expr(comparator), left
            if position + 1 < len(node.ops):
                name = self._temporary()
                right, following = self._kept(name, right), ast.Name(name, ast.Load())
            one = self._step(node, "compare", type(op).__name__, left, right)
            made = one if made is None else self._chained(node, made, one)
            left = following
        assert made is not None
        return made

    def _expr_ifexp(self, node: ast.IfExp) -> ast.expr:
        name = self._temporary()
        opened = self._kept(name, self._step(node.test, "choice", self._expr(node.test)))
        taken = ast.Attribute(opened, "taken", ast.Load())
        chosen = _at(node, ast.IfExp(taken, self._expr(node.body), self._expr(node.orelse)))
        # the arguments of a call are evaluated in order, so the choice has to be the first
        return self._step(node, "chosen", chosen, ast.Name(name, ast.Load()))

    def _expr_subscript(self, node: ast.Subscript) -> ast.expr:
        return self._step(node, "subscript", self._expr(node.value), self._index(node.slice))

    def _index(self, node: ast.expr) -> ast.expr:
        if isinstance(node, ast.Tuple):
            return _at(node, ast.Tuple([self._index(e) for e in node.elts], ast.Load()))
        if isinstance(node, ast.Slice):
            parts = [ast.Constant(None) if p is None else self._expr(p) for p in (node.lower, node.upper, node.step)]
            return self._step(node, "slice", *parts)
        return self._expr(node)

    def _expr_attribute(self, node: ast.Attribute) -> ast.expr:
        return self._step(node, "attribute", self._expr(node.value), node.attr)

    def _expr_call(self, node: ast.Call) -> ast.expr:
        if isinstance(node.func, ast.Name) and node.func.id == "breakpoint" and "breakpoint" not in self._locals:
            return _at(node, ast.Call(node.func, [], []))      # not through a step: it stops in the caller's frame
        args: list[ast.expr] = []
        for arg in node.args:
            if isinstance(arg, ast.Starred):
                args.append(_at(arg, ast.Starred(self._step(arg, "spread", self._expr(arg.value)), ast.Load())))
            else:
                args.append(self._expr(arg))
        if any(k.arg is None for k in node.keywords):
            return self._step(node, "unsupported", unsupported_message(node, KEYWORDS_OF_DICT))
        keys: list[ast.expr | None] = [ast.Constant(k.arg) for k in node.keywords]
        keywords = ast.Dict(keys, [self._expr(k.value) for k in node.keywords])
        return self._step(node, "call", self._expr(node.func), ast.List(args, ast.Load()), keywords)

    def _expr_tuple(self, node: ast.Tuple | ast.List) -> ast.expr:
        items: list[ast.expr] = []
        for item in node.elts:
            if isinstance(item, ast.Starred):
                items.append(_at(item, ast.Starred(self._step(item, "spread", self._expr(item.value)), ast.Load())))
            else:
                items.append(self._expr(item))
        return self._step(node, "tuple", ast.List(items, ast.Load()))

    _expr_list = _expr_tuple

    def _expr_namedexpr(self, node: ast.NamedExpr) -> ast.expr:
        value = self._step(node, "assign", node.target.id, self._expr(node.value))
        return _at(node, ast.NamedExpr(node.target, value))

    def _expr_joinedstr(self, node: ast.JoinedStr) -> ast.expr:
        parts = [v if isinstance(v, ast.Constant) else self._formatted(v) for v in node.values]
        return self._step(node, "joined", ast.List(list(parts), ast.Load()))

    def _formatted(self, node: ast.expr) -> ast.expr:
        assert isinstance(node, ast.FormattedValue)
        spec = self._expr(node.format_spec) if node.format_spec is not None else ast.Constant(None)
        return self._step(node, "formatted", self._expr(node.value), node.conversion, spec)

    def _expr_listcomp(self, node: ast.ListComp) -> ast.expr:
        (generator, *more) = node.generators
        if more or generator.is_async:
            return self._step(node, "unsupported", unsupported_message(node, SEVERAL_LOOPS))
        outer = self._locals
        iterated = self._step(generator.iter, "spread", self._expr(generator.iter))
        self._locals = outer | set(assigned_names([generator.target]))
        tests = [self._step(t, "known_choice", self._expr(t)) for t in generator.ifs]
        items = self._temporary()       # an iterable may not hold assignment expressions, so it is evaluated before
        made = ast.ListComp(self._expr(node.elt), [
            ast.comprehension(generator.target, ast.Name(items, ast.Load()), list(tests), 0)])
        self._locals = outer
        both = ast.Tuple([self._kept(items, iterated), _at(node, made)], ast.Load())
        return self._step(node, "tuple", ast.Subscript(both, ast.Constant(1), ast.Load()))


class _Jumps(ast.NodeTransformer):
    """Puts a statement before the `break`s and `continue`s of one loop; those of loops inside are not its own."""

    def __init__(self, before: Callable[[ast.stmt], ast.stmt]) -> None:
        self._before = before

    def applied(self, body: list[ast.stmt]) -> list[ast.stmt]:
        made: list[ast.stmt] = []
        for statement in body:
            result = self.visit(statement)
            made += result if isinstance(result, list) else [result]
        return made

    def visit_Break(self, node: ast.Break) -> list[ast.stmt]:
        return [self._before(node), node]

    def visit_Continue(self, node: ast.Continue) -> list[ast.stmt]:
        return [self._before(node), node]

    def visit_For(self, node: ast.For) -> ast.For:
        return node

    def visit_While(self, node: ast.While) -> ast.While:
        return node


def _has_return(body: Iterable[ast.stmt]) -> bool:
    return any(isinstance(n, ast.Return) for s in body for n in _walk_own(s))


def _may_end(body: Sequence[ast.stmt]) -> bool:
    """Whether control may reach the end of `body`, as far as exits without a condition tell."""
    for s in body:
        if isinstance(s, ast.Return | ast.Break | ast.Continue):
            return False
        if isinstance(s, ast.If) and not _may_end(s.body) and not _may_end(s.orelse):
            return False
    return True


def _is_true(test: ast.expr) -> bool:
    return isinstance(test, ast.Constant) and bool(test.value)


def _method(frame: str, method: str, name: str) -> ast.expr:
    return ast.Call(ast.Attribute(ast.Name(frame, ast.Load()), method, ast.Load()), [ast.Constant(name)], [])


def _at(node: ast.AST, made: Node) -> Node:
    """`made` on the first line of `node`: code that spans lines would make a debugger go back and forth."""
    ast.copy_location(made, node)
    assert isinstance(made, ast.expr | ast.stmt)
    if made.end_lineno != made.lineno:
        made.end_lineno, made.end_col_offset = made.lineno, made.col_offset
    return made
