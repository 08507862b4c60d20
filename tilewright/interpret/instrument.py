"""Instrumentation: a kernel's source, rewritten so that Python runs it with the language's meaning.

Python alone would give `v = load(int8) + i` the type int8 and `-7 // 2` the value -4.  So every assignment, operator,
comparison, subscript, call, branch and loop of the kernel becomes a call of a method of a `Steps` object
(`interpret.steps`), which the function finds in a cell, `__tw`: an argument would be seen by debuggers.  The statements
stay statements and the names stay Python locals, compiled under the user's file name, lines and columns, so that
`print`, `breakpoint()` and a step debugger work.  Syntax that has no meaning in a kernel becomes a step that raises
when it is reached.

Statements are here, expressions in `instrument_expressions.py`.  Tests: tests/interpret/test_instrument.py.
"""

from __future__ import annotations

import ast
import sys
import types
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from tilewright.diagnostics import CompilationError, Location
from tilewright.frontend.liveness import Liveness
from tilewright.frontend.nesting import too_deep
from tilewright.frontend.refusals import LOOP_ELSE, STARRED_TARGET, target_refusal, unsupported_message
from tilewright.frontend.statements import says_constexpr
from tilewright.interpret.instrument_expressions import STEPS, ExpressionRewriter, assigned_names, at, walk_own
from tilewright.interpret.tracing import hide_own_frames
from tilewright.language.function import SourceFunction

DEBUGGERS = frozenset({"pdb", "ipdb", "pudb", "wdb", "debugpy", "bdb", "IPython"})


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
    """An instrumented function: `bound` makes it one of a `Steps`, to be called with the argument values.

    Steps get numbers that stand for places, for the facts of branches and loops, and for operands.
    """

    source: SourceFunction
    code: types.CodeType
    locations: tuple[Location, ...]
    facts: tuple[BranchFacts | LoopFacts, ...]
    operands: tuple[ast.expr, ...]      # right sides of `and` and `or`, as the user wrote them

    def bound(self, steps: object) -> Callable[..., Any]:
        """The function, whose steps are those of `steps`."""
        cells = tuple(types.CellType(steps) for _ in self.code.co_freevars)     # of `__tw`; none if it has no step
        return types.FunctionType(self.code, self.source.globals, self.source.__name__, None, cells)


def instrument(fn: SourceFunction) -> Instrumented:
    """The instrumented form of `fn`.

    Names from outside are looked up by steps; it has the globals of `fn` all the same, for the debugger's prompt.
    """
    try:
        rewriter = _Rewriter(fn)
        code = compile(rewriter.rewritten(), fn.file, "exec", dont_inherit=True)
    except RecursionError:
        node, message = too_deep(fn.tree(), fn.tree())
        location = fn.location(node)
        raise CompilationError(message, location, src=fn.source, node=node,
                               line_text=fn.line_text(location.line)) from None
    if rewriter.starts_debugger:
        hide_own_frames()
    (outer,) = (c for c in code.co_consts if isinstance(c, types.CodeType))
    (own,) = (c for c in outer.co_consts if isinstance(c, types.CodeType))
    return Instrumented(fn, own, tuple(rewriter.locations), tuple(rewriter.facts),
                        tuple(rewriter.operands))


class _Rewriter(ExpressionRewriter):
    """Rewrites one function.  Methods named `_stmt_x` treat the node class X."""

    def __init__(self, fn: SourceFunction) -> None:
        tree = fn.tree()
        super().__init__(fn, [*(p.name for p in fn.params), *assigned_names(tree.body)])
        self.facts: list[BranchFacts | LoopFacts] = []
        self._declared: set[str] = set()        # names of `name: tl.constexpr` that have no value yet
        self._live = Liveness(tree.body)

    def rewritten(self) -> ast.Module:
        """A module that defines the instrumented function, in one whose argument is `__tw`."""
        tree = self.fn.tree()
        names = [p.name for p in self.fn.params]
        new = _definition(tree, names, self._block(tree.body))
        outer = _definition(tree, [STEPS], [new])
        return ast.fix_missing_locations(ast.Module(body=[outer], type_ignores=[]))

    # -- statements ---------------------------------------------------------------------------------------------------

    def _block(self, body: Sequence[ast.stmt]) -> list[ast.stmt]:
        made: list[ast.stmt] = []
        for statement in body:
            handler = getattr(self, f"_stmt_{type(statement).__name__.lower()}", None)
            made += handler(statement) if handler is not None else self._refused(statement)
        return made or [ast.Pass()]

    def _refused(self, node: ast.expr | ast.stmt, what: str | None = None,
                 named: ast.stmt | None = None) -> list[ast.stmt]:
        """A statement that raises when it is reached, about `named` if that is not `node` itself."""
        return [at(node, ast.Expr(self.step(node, "unsupported", unsupported_message(named or node, what))))]

    def _stmt_expr(self, node: ast.Expr) -> list[ast.stmt]:
        if isinstance(node.value, ast.Constant):        # docstrings and `...`
            return [node]
        return [at(node, ast.Expr(self.expression(node.value)))]

    def _stmt_import(self, node: ast.Import | ast.ImportFrom) -> list[ast.stmt]:
        """`import pdb; pdb.set_trace()` is how many people stop; nothing else is imported in a kernel."""
        module = node.module if isinstance(node, ast.ImportFrom) else None
        modules = [module or ""] if isinstance(node, ast.ImportFrom) else [alias.name for alias in node.names]
        return [node] if all(name.partition(".")[0] in DEBUGGERS for name in modules) else self._refused(node)

    _stmt_importfrom = _stmt_import

    def _stmt_pass(self, node: ast.Pass) -> list[ast.stmt]:
        return [node]

    def _stmt_assign(self, node: ast.Assign) -> list[ast.stmt]:
        value = self.expression(node.value)
        if len(node.targets) == 1:
            return self._assign(node, node.targets[0], value)
        name = self.temporary()
        first: list[ast.stmt] = [at(node, ast.Assign([ast.Name(name, ast.Store())], value))]
        return first + [s for t in node.targets for s in self._assign(node, t, ast.Name(name, ast.Load()))]

    def _assign(self, node: ast.stmt, target: ast.expr, value: ast.expr, decays: bool = True) -> list[ast.stmt]:
        if isinstance(target, ast.Name):
            step = "assign" if decays else "bind"
            if decays and target.id in self._declared:      # a bare `name: tl.constexpr` stands before it
                self._declared.discard(target.id)
                step = "known"
            return [at(node, ast.Assign([target], self.step(node, step, target.id, value)))]
        if not isinstance(target, ast.Tuple | ast.List):
            return self._refused(target, target_refusal(target))
        name = self.temporary()
        parts = self.step(target, "unpack", value, len(target.elts))
        made: list[ast.stmt] = [at(node, ast.Assign([ast.Name(name, ast.Store())], parts))]
        for index, inner in enumerate(target.elts):
            if isinstance(inner, ast.Starred):
                return self._refused(inner, STARRED_TARGET)
            item = ast.Subscript(ast.Name(name, ast.Load()), ast.Constant(index), ast.Load())
            made += self._assign(node, inner, item, decays)
        return made

    def _stmt_augassign(self, node: ast.AugAssign) -> list[ast.stmt]:
        if not isinstance(node.target, ast.Name):
            return self._assign(node, node.target, ast.Constant(None))
        left = self.expression(at(node.target, ast.Name(node.target.id, ast.Load())))
        value = self.step(node, "binary", type(node.op).__name__, left, self.expression(node.value))
        return self._assign(node, node.target, value)

    def _stmt_annassign(self, node: ast.AnnAssign) -> list[ast.stmt]:
        if not isinstance(node.target, ast.Name):
            return self._refused(node.target, target_refusal(node.target))
        name = node.target.id
        if not says_constexpr(self.fn, node.annotation):
            return [] if node.value is None else self._assign(node, node.target, self.expression(node.value))
        defined = self.step(node.target, "declare", name, self.locals_now())
        made: list[ast.stmt] = [at(node, ast.Expr(defined))]
        if node.value is None:
            self._declared.add(name)
        else:
            value = self.step(node.value, "known", name, self.expression(node.value))
            made.append(at(node, ast.Assign([node.target], value)))
        return made

    def _stmt_return(self, node: ast.Return) -> list[ast.stmt]:
        value = self.expression(node.value) if node.value is not None else ast.Constant(None)
        return [at(node, ast.Return(self.step(node, "returned", value)))]

    def _stmt_assert(self, node: ast.Assert) -> list[ast.stmt]:
        message = self.expression(node.msg) if node.msg is not None else ast.Constant(None)
        return [at(node, ast.Expr(self.step(node, "assertion", self.expression(node.test), message)))]

    def _stmt_if(self, node: ast.If) -> list[ast.stmt]:
        branch, then, other = self.temporary(), assigned_names(node.body), assigned_names(node.orelse)
        facts = self._fact(BranchFacts(then, other, self._live.after(node), _has_return([*node.body, *node.orelse]),
                                       (_may_end(node.body), _may_end(node.orelse))))
        opened = self.step(node.test, "branch", self.expression(node.test), facts, self.locals_now())
        rest = self._block(node.orelse) if node.orelse else []
        return [at(node, ast.Assign([ast.Name(branch, ast.Store())], opened)),
                at(node, ast.If(_data(branch, "taken"), self._block(node.body), rest)),
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
        inner = (n for statement in node.body for n in walk_own(statement))
        decaying = assigned_names(n for n in inner if isinstance(n, ast.Assign | ast.AugAssign))
        carried = tuple(n for n in changed if n in head and n != target)
        ends = tuple(n for n in changed if n not in stays)
        return LoopFacts(carried, ends, frozenset(decaying), _has_return(node.body), target)

    def _stmt_for(self, node: ast.For) -> list[ast.stmt]:
        if node.orelse:
            return self._refused(node.orelse[0], LOOP_ELSE, node)
        loop, index, facts = self.temporary(), self.temporary(), self._loop_facts(node)
        opened = self.step(node.iter, "for_loop", self.expression(node.iter), self._fact(facts), self.locals_now())
        item = self.step(node, "item", ast.Name(loop, ast.Load()), ast.Name(index, ast.Load()))
        body = [*self._bind(node, node.target, item), *self._loop_body(node, loop)]
        new = ast.For(ast.Name(index, ast.Store()), _data(loop, "items"), body, [], None)
        return [at(node, ast.Assign([ast.Name(loop, ast.Store())], opened)),
                *self._rebound(node, loop, facts.carried), at(node, new),
                *self._joined(node, loop, dict.fromkeys((*facts.inner, *filter(None, [facts.target]))))]

    def _bind(self, node: ast.stmt, target: ast.expr, value: ast.expr) -> list[ast.stmt]:
        """Give `value`, as it is, to the names of a target."""
        return [at(target, s) for s in self._assign(node, target, value, decays=False)]

    def _stmt_while(self, node: ast.While) -> list[ast.stmt]:
        if node.orelse:
            return self._refused(node.orelse[0], LOOP_ELSE, node)
        loop, facts = self.temporary(), self._loop_facts(node)
        opened = self.step(node, "while_loop", self._fact(facts), self.locals_now())
        return [at(node, ast.Assign([ast.Name(loop, ast.Store())], opened)),
                *self._rebound(node, loop, facts.carried),
                at(node, ast.While(self.step(node.test, "goes_on", self.expression(node.test)),
                                    self._loop_body(node, loop), [])),
                *self._joined(node, loop, facts.inner)]

    def _loop_body(self, node: ast.For | ast.While, loop: str) -> list[ast.stmt]:
        """The body; at its end and before each `break` and `continue` the carried values are checked."""
        body = _Jumps(lambda at: self._check(at, loop)).applied(self._block(node.body))
        return [*body, self._check(node, loop)]

    def _check(self, node: ast.stmt, loop: str) -> ast.stmt:
        step = self.step(node, "end_of_iteration", ast.Name(loop, ast.Load()), self.locals_now())
        return at(node, ast.Expr(step))

    def _stmt_break(self, node: ast.Break) -> list[ast.stmt]:
        return [node]

    def _stmt_continue(self, node: ast.Continue) -> list[ast.stmt]:
        return [node]

    def _rebound(self, node: ast.stmt, frame: str, names: Iterable[str]) -> list[ast.stmt]:
        """`if "v" in frame.new: v = frame.new["v"]` for each name: what a loop carries is a tensor from here on."""
        return [at(node, ast.If(_is_in(name, frame, "new"), [_new_value(name, frame)], [])) for name in names]

    def _joined(self, node: ast.stmt, frame: str, names: Iterable[str]) -> list[ast.stmt]:
        """After a branch or loop: values that both ways give, and the end of names that only one way binds."""
        close = at(node, ast.Expr(self.step(node, "close", ast.Name(frame, ast.Load()), self.locals_now())))
        made: list[ast.stmt] = [close]
        for name in names:
            dropped = ast.If(_is_in(name, frame, "gone"), [ast.Delete([ast.Name(name, ast.Del())])], [])
            made.append(at(node, ast.If(_is_in(name, frame, "new"), [_new_value(name, frame)], [dropped])))
        return made


def _definition(tree: ast.FunctionDef, names: Sequence[str], body: list[ast.stmt]) -> ast.FunctionDef:
    """A function with the name and the place of `tree`."""
    args = ast.arguments(posonlyargs=[], args=[ast.arg(n) for n in names], vararg=None, kwonlyargs=[],
                         kw_defaults=[], kwarg=None, defaults=[])
    new = ast.FunctionDef(name=tree.name, args=args, body=body, decorator_list=[], returns=None, type_comment=None)
    if sys.version_info >= (3, 12):
        new.type_params = []
    return ast.copy_location(new, tree)


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
    return any(isinstance(n, ast.Return) for s in body for n in walk_own(s))


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


def _data(frame: str, attribute: str) -> ast.expr:
    return ast.Attribute(ast.Name(frame, ast.Load()), attribute, ast.Load())


def _is_in(name: str, frame: str, attribute: str) -> ast.expr:
    return ast.Compare(ast.Constant(name), [ast.In()], [_data(frame, attribute)])


def _new_value(name: str, frame: str) -> ast.stmt:
    value = ast.Subscript(_data(frame, "new"), ast.Constant(name), ast.Load())
    return ast.Assign([ast.Name(name, ast.Store())], value)
