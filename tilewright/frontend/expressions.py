"""Expressions: from syntax to language values.

Operands are evaluated in Python's order; then the place is set and the meaning is asked (`language.semantic`).
Compile-time operands decide `and`, `or`, conditional expressions and chained comparisons at once, those of `and` and
`or` also behind run-time ones: what is not reached is not compiled.  At run time both sides of `and`/`or` are
evaluated, except that a side which touches memory or calls a function is put under an `if` when the other is a scalar.
Tests: tests/frontend/test_expressions.py.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from typing import Any

from tilewright.diagnostics import UnsupportedLanguageConstruct
from tilewright.frontend.attributes import attribute
from tilewright.frontend.branches import Branches, Side
from tilewright.frontend.calls import call_value
from tilewright.frontend.nesting import left_chain
from tilewright.frontend.precedence import slip_in
from tilewright.frontend.python_builtins import items_of
from tilewright.frontend.refusals import (
    KEYWORDS_OF_DICT,
    MEMBERSHIP,
    SEVERAL_LOOPS,
    STARRED_TARGET,
    literal_refusal,
    target_refusal,
    unsupported_message,
)
from tilewright.frontend.scope import lookup
from tilewright.frontend.values import as_tuple, from_python, is_static, is_tuple, to_python, type_name
from tilewright.ir.node import Op
from tilewright.language import semantic
from tilewright.language.core import constexpr, tensor

_CONVERSIONS: dict[str, Callable[[object], str]] = {"r": repr, "s": str, "a": ascii}


class Expressions(Branches):
    """The part of a tracer that evaluates expressions."""

    def expression(self, node: ast.expr) -> Any:
        """The language value of `node`."""
        rule = _RULES.get(type(node))
        with self.placed(node):
            if rule is None:
                raise self.unsupported(node)
            return rule(self, node)

    def unsupported(self, node: ast.AST, what: str | None = None) -> UnsupportedLanguageConstruct:
        error = self.error(node, unsupported_message(node, what), UnsupportedLanguageConstruct)
        assert isinstance(error, UnsupportedLanguageConstruct)
        return error

    # -- leaves -----------------------------------------------------------------------------------------------------

    def _constant(self, node: ast.Constant) -> Any:
        refusal = literal_refusal(node.value)
        if refusal is not None:
            raise self.unsupported(node, refusal)
        return from_python(node.value)

    def _name(self, node: ast.Name) -> Any:
        return from_python(lookup(self.fn, self.locals, node.id, self.any_global))

    def _attribute(self, node: ast.Attribute) -> Any:
        value = self.expression(node.value)
        self.at(node)
        return attribute(value, node.attr)

    def _sequence(self, node: ast.Tuple | ast.List) -> Any:
        items: list[Any] = []
        for element in node.elts:
            if isinstance(element, ast.Starred):
                items.extend(items_of(self.expression(element.value)))
            else:
                items.append(self.expression(element))
        return as_tuple(items)

    # -- operators --------------------------------------------------------------------------------------------------

    def _binary(self, node: ast.BinOp) -> Any:
        """A chain such as `a + b + c` nests to the left, as deep as it is long; so that is a loop."""
        chain = left_chain(node)
        result = self.expression(chain[0].left)
        for link in chain:
            with self.placed(link):
                right = self.expression(link.right)
                self.at(link)
                result = from_python(semantic.binary(self.builder, type(link.op).__name__, result, right))
        return result

    def _unary(self, node: ast.UnaryOp) -> Any:
        operand = self.expression(node.operand)
        self.at(node)
        return from_python(semantic.unary(self.builder, type(node.op).__name__, operand))

    def _compare(self, node: ast.Compare) -> Any:
        slip = slip_in(self.fn, node)
        if slip is not None:
            if slip.refused:
                raise self.error(node, slip.message, UnsupportedLanguageConstruct)
            self.at(node)
            self.builder.warn(slip.message)
        left = self.expression(node.left)
        result: Any = None
        for operator, comparator in zip(node.ops, node.comparators, strict=True):
            if isinstance(operator, ast.In | ast.NotIn):
                raise self.unsupported(node, MEMBERSHIP)
            right = self.expression(comparator)
            self.at(node)
            one = from_python(semantic.compare(self.builder, type(operator).__name__, left, right))
            result = one if result is None else semantic.chain(self.builder, result, one)
            if is_static(result) and not to_python(result):
                return result
            left = right
        return result

    def _logical(self, node: ast.BoolOp) -> Any:
        name = type(node.op).__name__
        result = self.expression(node.values[0])
        for operand in node.values[1:]:
            if is_static(result):
                if bool(to_python(result)) != (name == "And"):
                    return result
                result = self.expression(operand)
            else:
                result = self._logical_pair(node, name, result, operand)
        return result

    def _logical_pair(self, node: ast.BoolOp, name: str, left: Any, operand: ast.expr) -> Any:
        """`left and operand` with a run-time left; see the module's docstring for what is evaluated when."""
        ops, variables, _, right = self.traced(lambda: self.expression(operand), self.locals.copy())
        lazy = any(map(_touches_memory, ops)) and not any(x.shape for x in (left, right) if isinstance(x, tensor))
        if not lazy:
            self.builder.replay(ops)
            self.locals = variables
            self.at(node)
            return semantic.logical(self.builder, name, left, right)
        self.at(node)
        flag = semantic.truth(self.builder, left)
        evaluated = Side(ops, variables)
        with self.builder.resume(evaluated.ops):
            right = from_python(semantic.one_side(self.builder, name, right))
        skipped = Side([], self.locals.copy())
        decided = constexpr(name == "Or")
        kept = self.kept_names(node)
        if name == "And":
            (result,) = self.join(node, flag.handle, evaluated, skipped, kept, [(right, decided)])
        else:
            (result,) = self.join(node, flag.handle, skipped, evaluated, kept, [(decided, right)])
        return result

    def _conditional(self, node: ast.IfExp) -> Any:
        test = self.expression(node.test)
        self.at(node)
        flag = semantic.truth(self.builder, test)
        if not isinstance(flag, tensor):
            return self.expression(node.body if flag else node.orelse)
        then, on_true = self._conditional_side(node.body)
        otherwise, on_false = self._conditional_side(node.orelse)
        self.at(node)
        (result,) = self.join(node, flag.handle, then, otherwise, self.kept_names(node), [(on_true, on_false)])
        return result

    def _conditional_side(self, node: ast.expr) -> tuple[Side, Any]:
        ops, variables, _, value = self.traced(lambda: self.expression(node), self.locals.copy())
        return Side(ops, variables), value

    def _walrus(self, node: ast.NamedExpr) -> Any:
        value = self.expression(node.value)
        self.at(node)
        value = semantic.decay(self.builder, value, node.target.id)
        self.locals.assign(node.target.id, value, node.target)
        return value

    # -- parts of values --------------------------------------------------------------------------------------------

    def _subscript(self, node: ast.Subscript) -> Any:
        value = self.expression(node.value)
        index = self._index(node.slice)
        self.at(node)
        return from_python(semantic.subscript(self.builder, value, index))

    def _index(self, node: ast.expr) -> Any:
        if isinstance(node, ast.Slice):
            return slice(*(None if part is None else self.expression(part)
                           for part in (node.lower, node.upper, node.step)))
        if isinstance(node, ast.Tuple):
            return tuple(self._index(element) for element in node.elts)
        return self.expression(node)

    def _call(self, node: ast.Call) -> Any:
        callee = self.expression(node.func)
        args: list[Any] = []
        for arg in node.args:
            if isinstance(arg, ast.Starred):
                args.extend(items_of(self.expression(arg.value)))
            else:
                args.append(self.expression(arg))
        kwargs: dict[str, Any] = {}
        for keyword in node.keywords:
            if keyword.arg is None:
                raise self.unsupported(keyword.value, KEYWORDS_OF_DICT)
            if keyword.arg in kwargs:
                raise self.error(keyword.value, f"the argument {keyword.arg!r} is given twice")
            kwargs[keyword.arg] = self.expression(keyword.value)
        self.at(node)
        return call_value(self.builder, callee, args, kwargs)

    def _formatted(self, node: ast.JoinedStr) -> Any:
        return constexpr("".join(self._format_part(part) for part in node.values))

    def _format_part(self, part: ast.expr) -> str:
        if isinstance(part, ast.Constant):
            return str(part.value)
        assert isinstance(part, ast.FormattedValue)
        value = self.expression(part.value)
        if not is_static(value):
            raise self.error(part.value, f"an f-string takes compile-time values, but this is {type_name(value)}; "
                                         "pass it to tl.device_print as an argument of its own")
        plain = to_python(value)
        if part.conversion >= 0:
            plain = _CONVERSIONS[chr(part.conversion)](plain)
        spec = to_python(self._formatted(part.format_spec)) if isinstance(part.format_spec, ast.JoinedStr) else ""
        return format(plain, spec)

    def _comprehension(self, node: ast.ListComp) -> Any:
        if len(node.generators) != 1:
            raise self.unsupported(node, SEVERAL_LOOPS)
        (generator,) = node.generators
        items: list[Any] = []
        for item in items_of(self.expression(generator.iter)):
            self.bind(generator.target, item)
            if all(self._known_truth(test) for test in generator.ifs):
                items.append(self.expression(node.elt))
        return as_tuple(items)

    def _known_truth(self, test: ast.expr) -> bool:
        value = semantic.truth(self.builder, self.expression(test))
        if isinstance(value, tensor):
            raise self.error(test, f"the `if` of a comprehension must be known at compile time, but it is "
                                   f"{type_name(value)}: how many elements a tuple has cannot depend on it")
        return bool(value)

    def bind(self, target: ast.expr, value: Any) -> None:
        """Give `value`, as it is, to the names of a target."""
        if isinstance(target, ast.Name):
            self.locals.assign(target.id, value, target)
        elif isinstance(target, ast.Tuple | ast.List):
            for part, item in zip(target.elts, self.unpacked(target, value), strict=True):
                self.bind(part, item)
        else:
            raise self.refused_target(target)

    def unpacked(self, target: ast.Tuple | ast.List, value: Any) -> Sequence[Any]:
        """The elements of `value`, as many as the target has names."""
        for element in target.elts:
            if isinstance(element, ast.Starred):
                raise self.unsupported(element, STARRED_TARGET)
        if not is_tuple(value):
            raise self.error(target, f"cannot unpack {type_name(value)} into {len(target.elts)} names; only tuples "
                                     "can be unpacked")
        if len(value) != len(target.elts):
            raise self.error(target, f"cannot unpack a tuple of {len(value)} into {len(target.elts)} names")
        return list(value)

    def refused_target(self, target: ast.expr) -> UnsupportedLanguageConstruct:
        return self.unsupported(target, target_refusal(target))


def _touches_memory(op: Op) -> bool:
    return not op.row.is_pure


_RULES: dict[type[ast.expr], Callable[[Any, Any], Any]] = {
    ast.Constant: Expressions._constant,
    ast.Name: Expressions._name,
    ast.Attribute: Expressions._attribute,
    ast.Tuple: Expressions._sequence,
    ast.List: Expressions._sequence,
    ast.BinOp: Expressions._binary,
    ast.UnaryOp: Expressions._unary,
    ast.Compare: Expressions._compare,
    ast.BoolOp: Expressions._logical,
    ast.IfExp: Expressions._conditional,
    ast.NamedExpr: Expressions._walrus,
    ast.Subscript: Expressions._subscript,
    ast.Call: Expressions._call,
    ast.JoinedStr: Expressions._formatted,
    ast.ListComp: Expressions._comprehension,
}
