"""Comparisons, truth and selection.

Comparisons promote like arithmetic and give int1; floats compare ordered but for `!=`, which is true on a NaN
(semantics §2).  Tests: tests/lang/test_comparison.py.
"""

from __future__ import annotations

from typing import Any

from tilewright.language.broadcasting import broadcast_all
from tilewright.language.builder import Builder
from tilewright.language.casting import is_nonzero
from tilewright.language.constexpr import unwrap
from tilewright.language.errors import IncompatibleTypeErrorImpl, LanguageTypeError, LanguageValueError
from tilewright.language.operators import as_type, common_type, need_bool, prepare
from tilewright.language.tensor import tensor
from tilewright.language.types import int1, make_type, pointer_type
from tilewright.language.values import (
    describe,
    element_type,
    emit,
    is_pointer,
    read_first,
    shape,
    to_tensor,
    with_dtype,
)

_SYMBOLS = {"Lt": "<", "LtE": "<=", "Gt": ">", "GtE": ">=", "Eq": "==", "NotEq": "!="}
_CODES = {"Lt": "lt", "LtE": "le", "Gt": "gt", "GtE": "ge", "Eq": "eq", "NotEq": "ne"}


def compare(builder: Builder, operator: str, lhs: Any, rhs: Any) -> tensor:
    """`lhs op rhs` as int1; at least one side is a tensor."""
    symbol, code = _SYMBOLS[operator], _CODES[operator]
    for side in (lhs, rhs):
        if unwrap(side) is None:
            raise LanguageTypeError(f"`{symbol}` compares a tensor with None; use `is None` or `is not None`")
    left, right = element_type(lhs), element_type(rhs)
    if isinstance(left, pointer_type) or isinstance(right, pointer_type):
        both = isinstance(left, pointer_type) and isinstance(right, pointer_type)
        pointer, which = (lhs, "left") if isinstance(left, pointer_type) else (rhs, "right")
        cure = ("pointers do not compare; compare the numbers that they point to, by tl.load, or the addresses, cast "
                "to tl.int64" if both else f"`{symbol}` takes numbers, but {read_first(unwrap(pointer), which)}")
        raise IncompatibleTypeErrorImpl(left, right, cure)
    a, b = prepare(builder, lhs, rhs, symbol)
    if a.dtype.is_floating():
        name = "cmp_une" if code == "ne" else f"cmp_o{code}"
    elif code in ("eq", "ne"):
        name = f"cmp_{code}"
    else:
        name = f"cmp_{code}_{'s' if a.dtype.is_int_signed() else 'u'}"
    return emit(builder, name, (a, b), with_dtype(a, int1))


def logical(builder: Builder, operator: str, lhs: Any, rhs: Any) -> Any:
    """`and` / `or` of evaluated operands.

    A compile-time one that decides is the result, also behind a run-time one; one that does not leaves the other.
    """
    name = "and" if operator == "And" else "or"
    left, right = unwrap(lhs), unwrap(rhs)
    for known, x, other in ((left, lhs, rhs), (right, rhs, lhs)):
        if not isinstance(known, tensor):
            decides = bool(known) != (name == "and")
            return x if decides else other
    if shape(left) or (isinstance(right, tensor) and shape(right)):
        builder.warn(f"`{name}` on tiles works element by element and evaluates both sides; write "
                     f"`{'&' if name == 'and' else '|'}` to say so")
    return _on_bools(builder, name, left, right)


def one_side(builder: Builder, operator: str, x: Any) -> Any:
    """The value of an `and` or `or` whose other side, at run time, does not decide: a run-time one must be int1."""
    if isinstance(unwrap(x), tensor):
        return need_bool(builder, unwrap(x), "and" if operator == "And" else "or")
    return logical(builder, operator, x, operator == "And")


def chain(builder: Builder, before: Any, link: Any) -> Any:
    """The next link of a chained comparison `a < b < c`: `and` of what held so far and the new comparison."""
    left, right = unwrap(before), unwrap(link)
    if isinstance(left, tensor) and isinstance(right, tensor):
        return _on_bools(builder, "and", left, right)
    return logical(builder, "And", before, link)


def _on_bools(builder: Builder, name: str, left: Any, right: Any) -> tensor:
    a = need_bool(builder, left, name)
    b = need_bool(builder, to_tensor(builder, right), name)
    a, b = broadcast_all(builder, (a, b))
    return emit(builder, name, (a, b), a.type)


def truth(builder: Builder, x: Any) -> Any:
    """What `if`, `while` and the conditional expression decide on: a Python bool or an int1 scalar."""
    x = unwrap(x)
    if not isinstance(x, tensor):
        if x is None or isinstance(x, bool | int):
            return bool(x)
        raise LanguageTypeError(f"a compile-time condition must be a bool, an int or None, not {describe(x)}; compare "
                                "it with something, as in `x != 0` or `len(x) > 0`")
    if shape(x):
        if x.numel.value != 1:
            raise LanguageValueError(f"Boolean value of Tensor with more than one value is ambiguous: the condition is "
                                     f"{x}; reduce it to a scalar, e.g. tl.max(cond.to(tl.int32), axis=0) != 0, or use "
                                     "tl.where or a mask")
        builder.warn(f"the condition is a tile of one element ({x}); a scalar is expected")
        x = emit(builder, "reshape", (x,), make_type((), x.dtype), {"shape": ()})
    return holds(builder, x)


def holds(builder: Builder, x: tensor) -> tensor:
    """`x != 0` of a condition; a pointer is told of, since it holds wherever it leads (triton takes it, too)."""
    if is_pointer(x):
        builder.warn("the condition is a pointer, which holds whatever it points to; for the number there write "
                     "tl.load(pointer), and to ask whether an argument was given, `is not None`")
    return is_nonzero(builder, x)


def where(builder: Builder, condition: Any, x: Any, y: Any) -> tensor:
    """Elements of `x` where the condition holds, else of `y`; all broadcast, both sides are evaluated."""
    flag = to_tensor(builder, condition)
    if flag.dtype != int1 and not is_pointer(flag):
        builder.warn(f"tl.where with a condition of type {flag.dtype}: it is taken as `condition != 0`; write that")
    flag = holds(builder, flag)
    a, b = _pointer_pair(builder, x, y) or _number_pair(builder, x, y)
    flag, a, b = broadcast_all(builder, (flag, a, b), ("condition", "x", "y"))
    return emit(builder, "select", (flag, a, b), a.type)


def _pointer_pair(builder: Builder, x: Any, y: Any) -> tuple[tensor, tensor] | None:
    """Both sides, if they are pointers; they must be of one type."""
    left, right = element_type(x), element_type(y)
    if not (isinstance(left, pointer_type) or isinstance(right, pointer_type)):
        return None
    if left != right:
        pointer, which = (x, "where.1|where.x") if isinstance(left, pointer_type) else (y, "where.2|where.y")
        cure = ("" if isinstance(left, pointer_type) and isinstance(right, pointer_type) else
                f"; {read_first(unwrap(pointer), which)}")
        raise IncompatibleTypeErrorImpl(left, right, f"tl.where takes two pointers of one type, or two numbers{cure}")
    return to_tensor(builder, x), to_tensor(builder, y)


def _number_pair(builder: Builder, x: Any, y: Any) -> tuple[tensor, tensor]:
    target = common_type(x, y, "tl.where")
    return as_type(builder, x, target), as_type(builder, y, target)

