"""Statements: assignments, branches, exits, assertions.

`block` goes through statements in order.  Code behind an unconditional exit is not compiled; what follows an exit that
may have been taken is put under its flag (`exits.py`).  A compile-time `if` compiles the branch that is taken, in the
variables around it.
Tests: tests/frontend/test_statements.py.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from typing import Any

from tilewright.diagnostics import CompileTimeAssertionFailure
from tilewright.frontend.exits import Exit
from tilewright.frontend.loops import Loops
from tilewright.frontend.values import from_python, is_static, to_python, type_name
from tilewright.frontend.wording import dropped_return
from tilewright.language import debug, semantic
from tilewright.language.constexpr import unwrap
from tilewright.language.core import tensor
from tilewright.language.function import SourceFunction, is_constexpr_annotation


class Tracer(Loops):
    """Traces one function (see `state.py`)."""

    def function(self) -> None:
        """Trace the whole body; afterwards `exits` has the returned value."""
        self.block(self.fn.tree().body)
        exits = self.exits
        if exits.falls and Exit.RETURN in exits.flags and exits.value is not None:
            assert exits.where is not None
            raise self.error(exits.where, f"this returns {type_name(exits.value)}, but {self.fn.__name__} may also "
                                          "reach its end, where it returns None; end it with a `return` of that type")

    def block(self, statements: Sequence[ast.stmt]) -> None:
        for index, statement in enumerate(statements):
            rest = statements[index + 1:]
            if self._statement(statement, rest):
                return
            if not self.exits.falls:
                return
            if self.exits.pending:
                if rest:
                    self._go_on(statement, rest)
                return

    def _go_on(self, node: ast.stmt, rest: Sequence[ast.stmt]) -> None:
        """Trace `rest`, which is reached unless an exit has been taken."""
        self.guarded(node, self.live.needs(rest[-1]), lambda: self.block(rest))

    def _statement(self, node: ast.stmt, rest: Sequence[ast.stmt]) -> bool:
        """Trace one statement; True if it has dealt with `rest` as well."""
        self.at(node)
        if isinstance(node, ast.If):
            return self._if(node, rest)
        rule = _RULES.get(type(node))
        if rule is None:
            raise self.unsupported(node)
        with self.placed(node):
            rule(self, node)
        return False

    # -- branches and exits -----------------------------------------------------------------------------------------

    def _if(self, node: ast.If, rest: Sequence[ast.stmt]) -> bool:
        flag = self._truth(node.test)
        while flag is False and len(node.orelse) == 1 and isinstance(node.orelse[0], ast.If):
            node = node.orelse[0]       # a chain of `elif` may be longer than Python recurses
            flag = self._truth(node.test)
        if not isinstance(flag, tensor):
            self.block(node.body if flag else node.orelse)
            return False
        then = self.trace_side(lambda: self.block(node.body))
        otherwise = self.trace_side(lambda: self.block(node.orelse))
        last: ast.stmt = node
        consumed = bool(rest) and then.exits.falls != otherwise.exits.falls
        if consumed:
            last = rest[-1]
            self.resume_side(then if then.exits.falls else otherwise, lambda: self._go_on(node, rest))
        self.at(node)
        self.join(node, flag.handle, then, otherwise, self.live.needs(last))
        return consumed

    def _truth(self, condition: ast.expr) -> tensor | bool:
        """A condition: an int1 scalar, or a bool known at compile time."""
        value = self.expression(condition)
        self.at(condition)
        with self.placed(condition):
            truth: tensor | bool = semantic.truth(self.builder, value)
            return truth

    def _return(self, node: ast.Return) -> None:
        value = None if node.value is None else self.expression(node.value)
        if self.is_entry and unwrap(value) is not None:
            self.at(node)
            self.builder.warn(dropped_return(self.fn.__name__))
        self.exits.take(Exit.RETURN, None if self.is_entry else value, node)

    def _break(self, node: ast.Break) -> None:
        self.exits.take(Exit.BREAK)

    def _continue(self, node: ast.Continue) -> None:
        self.exits.take(Exit.CONTINUE)

    # -- assignments ------------------------------------------------------------------------------------------------

    def _assign(self, node: ast.Assign) -> None:
        value = self.expression(node.value)
        for target in node.targets:
            self._assign_to(target, value, node)

    def _assign_to(self, target: ast.expr, value: Any, node: ast.stmt) -> None:
        """Plain assignment: numbers become run-time values, unless the name was declared a constexpr."""
        if isinstance(target, ast.Name):
            with self.placed(node):
                self.at(node)
                bare = self.declared.get(target.id)
                if isinstance(bare, ast.AnnAssign) and bare.value is None and target.id not in self.locals.values:
                    value = self._known(target.id, value)
                else:
                    value = semantic.decay(self.builder, value, target.id)
            self.locals.assign(target.id, value, target)
        elif isinstance(target, ast.Tuple | ast.List):
            for part, item in zip(target.elts, self.unpacked(target, value), strict=True):
                self._assign_to(part, item, node)
        else:
            raise self.refused_target(target)

    def _known(self, name: str, value: Any) -> Any:
        """The value of a name declared `tl.constexpr`; in a tuple run-time values may stand beside known ones."""
        if isinstance(value, tensor):
            self.builder.warn(f"{name} is declared tl.constexpr, but its value is {type_name(value)}, which is known "
                              "only at run time; the annotation has no effect, leave it out")
        return from_python(value)

    def _annotated(self, node: ast.AnnAssign) -> None:
        if not isinstance(node.target, ast.Name):
            raise self.refused_target(node.target)
        if not says_constexpr(self.fn, node.annotation):
            if node.value is not None:
                self._assign_to(node.target, self.expression(node.value), node)
            return
        name = node.target.id
        if name in self.locals.values and self.declared.get(name) is not node:
            raise self.error(node.target, f"{name} is already defined. constexpr cannot be reassigned: it was assigned "
                                          f"at {self.line(self.locals.origins.get(name))}; use another name")
        self.declared[name] = node
        if node.value is not None:
            value = self.expression(node.value)
            with self.placed(node.value):
                self.locals.assign(name, self._known(name, value), node.target)
        else:
            self.locals.drop(name, "it is declared, but nothing was assigned to it yet")

    def _augmented(self, node: ast.AugAssign) -> None:
        if not isinstance(node.target, ast.Name):
            raise self.refused_target(node.target)
        old = self.expression(ast.copy_location(ast.Name(node.target.id, ast.Load()), node.target))
        value = self.expression(node.value)
        self.at(node)
        value = semantic.binary(self.builder, type(node.op).__name__, old, value)
        self.locals.assign(node.target.id, semantic.decay(self.builder, value, node.target.id), node.target)

    # -- the rest ---------------------------------------------------------------------------------------------------

    def _expression_statement(self, node: ast.Expr) -> None:
        if not isinstance(node.value, ast.Constant):      # docstrings and `...`
            self.expression(node.value)

    def _assert(self, node: ast.Assert) -> None:
        condition = self.expression(node.test)
        message = "" if node.msg is None else self.expression(node.msg)
        self.at(node)
        if not is_static(condition):
            debug.device_assert.call(self.builder, (condition, message))
        elif not semantic.truth(self.builder, condition):
            text = str(to_python(message)) if is_static(message) else ""
            raise self.error(node.test, text or "this assertion is false at compile time", CompileTimeAssertionFailure)

    def _pass(self, node: ast.Pass) -> None:
        return None


def says_constexpr(fn: SourceFunction, annotation: ast.expr) -> bool:
    """Whether the annotation of a variable of `fn` is `tl.constexpr`, also under another name."""
    if isinstance(annotation, ast.Constant):
        return is_constexpr_annotation(annotation.value)
    if isinstance(annotation, ast.Name | ast.Attribute):
        return is_constexpr_annotation(ast.unparse(annotation)) or is_constexpr_annotation(
            _annotation_value(fn, annotation))
    return False


def _annotation_value(fn: SourceFunction, annotation: ast.expr) -> Any:
    """What an annotation evaluates to, as far as a name does; annotations without a meaning are ignored."""
    outside = {**fn.globals, **fn.closure}
    return outside.get(annotation.id) if isinstance(annotation, ast.Name) else None


_RULES: dict[type[ast.stmt], Callable[[Any, Any], None]] = {
    ast.Assign: Tracer._assign,
    ast.AnnAssign: Tracer._annotated,
    ast.AugAssign: Tracer._augmented,
    ast.Expr: Tracer._expression_statement,
    ast.For: Tracer.for_loop,
    ast.While: Tracer.while_loop,
    ast.Return: Tracer._return,
    ast.Break: Tracer._break,
    ast.Continue: Tracer._continue,
    ast.Assert: Tracer._assert,
    ast.Pass: Tracer._pass,
}
