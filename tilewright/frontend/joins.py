"""Where two paths meet: which values must be passed on by the `if`, and what they are afterwards.

`Phis` collects what both sides yield.  `merge(a, b, phis)` decides for one pair of values and returns how to build the
merged value from the results of the `if`: equal static values stay static, tensors of one type become a result,
a number meets a tensor as the scalar that it would be alone.  Types are never promoted.  `ABSENT` stands for a path
on which nobody looks at the value: there a zero is yielded.
Tests: tests/frontend/test_joins.py.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tilewright.frontend.graph import GraphBuilder
from tilewright.frontend.values import as_tuple, is_number, is_tuple, same_static, type_name
from tilewright.ir.node import Value
from tilewright.ir.types import I1, Type
from tilewright.language.core import tensor
from tilewright.language.errors import LanguageTypeError
from tilewright.language.promotion import literal_type
from tilewright.language.values import to_tensor


class Absent:
    """The value of a variable on a path on which it is not looked at."""

    def __repr__(self) -> str:
        return "absent"


ABSENT = Absent()
Recipe = Callable[[Sequence[Value]], Any]


class Disagreement(LanguageTypeError):
    """Two values that cannot meet: `left` and `right` are their types in words."""

    def __init__(self, left: Any, right: Any) -> None:
        self.left, self.right = type_name(left), type_name(right)
        self.both_run_time = isinstance(left, tensor) and isinstance(right, tensor)
        super().__init__(f"{self.left} and {self.right}")


class Phis:
    """What the two sides of an `if` yield, in order."""

    def __init__(self, builder: GraphBuilder) -> None:
        self.builder = builder
        self._pairs: list[tuple[Any, Any]] = []
        self._types: list[Type] = []

    def __len__(self) -> int:
        return len(self._pairs)

    def add(self, a: Any, b: Any, ir_type: Type) -> int:
        """One more result: `a` of one side, `b` of the other (a tensor, a number, a handle, a bool, ABSENT)."""
        self._pairs.append((a, b))
        self._types.append(ir_type)
        return len(self._pairs) - 1

    def handles(self, side: int) -> list[Value]:
        """The values that a side yields; its block must be the open one."""
        return [_handle(self.builder, pair[side], t) for pair, t in zip(self._pairs, self._types, strict=True)]


def _handle(builder: GraphBuilder, source: Any, ir_type: Type) -> Value:
    if source is ABSENT:
        return builder.zero(ir_type)
    if isinstance(source, Value):
        return source
    if isinstance(source, bool):
        return builder.boolean(source)
    handle: Value = to_tensor(builder, source).handle
    return handle


def merge(a: Any, b: Any, phis: Phis, literals: bool = False) -> Recipe:
    """How to build the value that is `a` on one path and `b` on the other; Disagreement if there is none.

    `literals`: two different numbers become a run-time scalar.
    """
    if a is b:
        return lambda results: a
    if is_tuple(a) and is_tuple(b) and len(a) == len(b):
        return _tuple([merge(x, y, phis, literals) for x, y in zip(a, b)], a)
    if a is ABSENT or b is ABSENT:
        return _one_sided(b if a is ABSENT else a, a is ABSENT, phis)
    if isinstance(a, tensor) or isinstance(b, tensor):
        return _run_time(a, b, phis)
    if not is_tuple(a) and not is_tuple(b) and same_static(a, b):
        return lambda results: a
    if literals and is_number(a) and is_number(b):
        return _numbers(a, b, phis)
    raise Disagreement(a, b)


def _tuple(items: list[Recipe], like: Any) -> Recipe:
    return lambda results: as_tuple([item(results) for item in items], like)


def _one_sided(value: Any, absent_first: bool, phis: Phis) -> Recipe:
    if is_tuple(value):
        return _tuple([_one_sided(item, absent_first, phis) for item in value], value)
    if not isinstance(value, tensor):
        return lambda results: value
    pair: tuple[Any, Any] = (ABSENT, value) if absent_first else (value, ABSENT)
    return _result(phis, phis.add(pair[0], pair[1], value.handle.type), value.type)


def _result(phis: Phis, index: int, type: Any) -> Recipe:
    return lambda results: tensor(results[index], type, phis.builder)


def _run_time(a: Any, b: Any, phis: Phis) -> Recipe:
    like = a if isinstance(a, tensor) else b
    for value in (a, b):
        if isinstance(value, tensor):
            fits = value.type == like.type
        else:
            fits = is_number(value) and literal_type(value.value) == like.type
        if not fits:
            raise Disagreement(a, b)
    return _result(phis, phis.add(a, b, like.handle.type), like.type)


def _numbers(a: Any, b: Any, phis: Phis) -> Recipe:
    """Two compile-time numbers that differ: a scalar of the type that both literals have."""
    kind = literal_type(a.value)
    if literal_type(b.value) != kind:
        raise Disagreement(a, b)
    return _result(phis, phis.add(a, b, kind.to_ir()), kind)


def merge_flags(a: Any, b: Any, phis: Phis) -> Recipe:
    """The flag that is `a` on one path and `b` on the other (handles or bools)."""
    if a is b:
        return lambda results: a
    index = phis.add(a, b, I1)
    return lambda results: results[index]
