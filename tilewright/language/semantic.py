"""What Python syntax means on language values: called by the frontend and the eager engine.

Operands are tensors, Python values and constexprs.  If none is a tensor the operation is Python's, and its result a
constexpr if one operand was (semantics §1).  Otherwise it is the language's.
Tests: tests/lang/test_operators.py.
"""

from __future__ import annotations

import builtins
import operator as python
import sys
from collections.abc import Callable
from typing import Any

from tilewright.language import comparison, operators
from tilewright.language.builder import Builder
from tilewright.language.constexpr import constexpr, unwrap
from tilewright.language.errors import IncompatibleTypeErrorImpl, LanguageTypeError, LanguageValueError, as_written
from tilewright.language.promotion import promote
from tilewright.language.shape_ops import make_reshape, make_slice
from tilewright.language.structures import structure
from tilewright.language.tensor import tensor
from tilewright.language.tuples import tuple
from tilewright.language.types import Scalar, base_type, dtype, make_type
from tilewright.language.values import describe, emit, is_literal, is_pointer, shape, to_tensor

_BINARY: dict[str, Callable[[Any, Any], Any]] = {
    "Add": python.add, "Sub": python.sub, "Mult": python.mul, "Div": python.truediv, "FloorDiv": python.floordiv,
    "Mod": python.mod, "Pow": python.pow, "BitAnd": python.and_, "BitOr": python.or_, "BitXor": python.xor,
    "LShift": python.lshift, "RShift": python.rshift, "MatMult": python.matmul,
}
_UNARY: dict[str, Callable[[Any], Any]] = {
    "USub": python.neg, "UAdd": python.pos, "Invert": python.invert, "Not": python.not_,
}
_COMPARE: dict[str, Callable[[Any, Any], Any]] = {
    "Lt": python.lt, "LtE": python.le, "Gt": python.gt, "GtE": python.ge, "Eq": python.eq, "NotEq": python.ne,
}


def _fold(function: Callable[..., Any], *operands: Any) -> Any:
    """Python's own result; a constexpr if an operand was one."""
    values = [unwrap(x) for x in operands]
    try:
        result = unwrap(function(*values))
    except ZeroDivisionError:
        raise LanguageValueError(f"compile-time division of {values[0]!r} by zero") from None
    except TypeError:
        words = " and ".join(describe(v) for v in values)
        raise LanguageTypeError(f"Python does not do `{function.__name__}` on {words}") from None
    return constexpr(result) if any(isinstance(x, constexpr) for x in operands) else result


def binary(builder: Builder, operator: str, lhs: Any, rhs: Any) -> Any:
    """`lhs op rhs`; `operator` is the name of the ast node (`Add`, `FloorDiv`, ...)."""
    left, right = unwrap(lhs), unwrap(rhs)
    if isinstance(left, builtins.tuple | list) or isinstance(right, builtins.tuple | list):
        return _tuple_binary(operator, left, right)
    if not isinstance(left, tensor) and not isinstance(right, tensor):
        return _fold(_BINARY[operator], lhs, rhs)
    _refuse_non_numbers(operator, left, right)
    return operators.arithmetic(builder, operator, left, right)


def _refuse_non_numbers(operator: str, left: Any, right: Any) -> None:
    for value in (left, right):
        if not isinstance(value, tensor) and not is_literal(value):
            symbol = operators.SYMBOLS.get(operator, operator)
            cure = "; where it may be None, ask first: `if x is not None:`" if value is None else ""
            raise LanguageTypeError(f"`{symbol}` takes numbers and tensors, not {describe(value)}{cure}")


def _tuple_binary(operator: str, left: Any, right: Any) -> Any:
    if operator == "Add" and isinstance(left, builtins.tuple | list) and isinstance(right, builtins.tuple | list):
        return tuple((*left, *right))
    if operator == "Mult":
        sequence, count = (left, right) if isinstance(left, builtins.tuple | list) else (right, left)
        if isinstance(count, int):
            return tuple(builtins.tuple(sequence) * count)
    made = next((v for v in (left, right) if isinstance(v, structure)), None)
    cure = "tuples know `tuple + tuple` and `tuple * compile-time int`" if made is None else (
        f"it is no pointer: use its {', '.join(sorted(type(made).members))}")
    raise LanguageTypeError(f"`{operators.SYMBOLS.get(operator, operator)}` does not take {describe(left)} and "
                            f"{describe(right)}; {cure}")


def unary(builder: Builder, operator: str, x: Any) -> Any:
    """`-x`, `+x`, `~x`, `not x` (`USub`, `UAdd`, `Invert`, `Not`)."""
    value = unwrap(x)
    if not isinstance(value, tensor):
        return _fold(_UNARY[operator], x)
    if operator == "UAdd":
        return value
    meaning = {"USub": operators.negate, "Invert": operators.invert, "Not": operators.logical_not}[operator]
    return meaning(builder, value)


def compare(builder: Builder, operator: str, lhs: Any, rhs: Any) -> Any:
    """`lhs op rhs` for one comparison (`Lt` ... `NotEq`, `Is`, `IsNot`)."""
    left, right = unwrap(lhs), unwrap(rhs)
    if operator in ("Is", "IsNot"):
        return constexpr(_is_same(left, right) == (operator == "Is"))
    if not isinstance(left, tensor) and not isinstance(right, tensor):
        return _fold(_COMPARE[operator], lhs, rhs)
    return comparison.compare(builder, operator, left, right)


def _is_same(left: Any, right: Any) -> bool:
    if isinstance(left, base_type) and isinstance(right, base_type):
        return left == right        # types are compared by content, also by `is`
    return left is right


logical = comparison.logical
one_side = comparison.one_side
chain = comparison.chain
truth = comparison.truth


def subscript(builder: Builder, x: Any, index: Any) -> Any:
    """`x[index]`: of a tile None (a new dimension), `:`, compile-time ints and slices; of tuples an int or slice.
    Of a scalar `:` is of no dimension."""
    value = unwrap(x)
    if not isinstance(value, tensor):
        return _subscript_python(x, value, index)
    items = unwrap(index)
    parts = list(items) if isinstance(items, builtins.tuple | list) else [items]
    if is_pointer(value):
        _refuse_element(value, parts)
    axis, is_scalar = 0, not shape(value)
    for part in (unwrap(p) for p in parts):
        sizes = shape(value)
        if part is None:
            value = emit(builder, "expand_dims", (value,),
                         make_type((*sizes[:axis], 1, *sizes[axis:]), value.dtype), {"axis": axis})
            axis += 1
            continue
        bounds = _index_bounds(part)
        if is_scalar and bounds == slice(None):     # kernels say x[:, None] of what is a tile or a scalar by a constant
            continue
        if axis >= len(sizes):
            raise LanguageValueError(f"too many indices: {unwrap(x)} has {len(shape(unwrap(x)))} dimensions")
        if isinstance(bounds, int):
            value = _picked(builder, value, axis, bounds)
        else:
            value = _cut(builder, value, axis, bounds)
            axis += 1
    return value


def _refuse_element(pointer: tensor, index: list[Any]) -> None:
    """The error for an index that looks for elements of memory: a run-time one, or any of a scalar pointer."""
    parts = [unwrap(p) for p in index]
    whole = [p is None or (isinstance(p, slice) and p == slice(None)) for p in parts]
    if not all(whole) and (not shape(pointer) or any(isinstance(p, tensor) for p in parts)):
        text = as_written("value", "pointer")
        raise LanguageTypeError(f"{text} is a pointer, which has no elements: memory is read with "
                                f"tl.load({text} + {as_written('index', 'i')}), and written with tl.store")


def _index_bounds(part: Any) -> int | slice:
    """An index of a tile: a compile-time int or slice."""
    if isinstance(part, slice):
        bounds = [unwrap(p) for p in (part.start, part.stop, part.step)]
        if all(b is None or _is_int(b) for b in bounds):
            return slice(*bounds)
    elif _is_int(part):
        return int(part)
    raise LanguageTypeError(f"unsupported tensor index: {_show_index(part)}; a tile is indexed by `:`, None and ints "
                            "or slices known at compile time. To pick elements by a run-time index use tl.gather, or "
                            "load them at other addresses")


def _is_int(value: Any) -> bool:
    return hasattr(value, "__index__") and not isinstance(value, bool | tensor)


def _picked(builder: Builder, x: tensor, axis: int, index: int) -> tensor:
    """One index of a dimension, which goes away."""
    sizes = shape(x)
    if not -sizes[axis] <= index < sizes[axis]:
        raise LanguageValueError(f"index {index} is out of range for dimension {axis} of {x}, whose size is "
                                 f"{sizes[axis]}")
    one = make_slice(builder, x, axis, index % sizes[axis], 1, 1)
    return make_reshape(builder, one, sizes[:axis] + sizes[axis + 1:])


def _cut(builder: Builder, x: tensor, axis: int, bounds: slice) -> tensor:
    """Part of a dimension, as Python's slices have it."""
    chosen = range(shape(x)[axis])[bounds]
    if not chosen:
        raise LanguageValueError(f"the slice {_show_index(bounds)} of dimension {axis} of {x} is empty")
    if len(chosen) == shape(x)[axis] and chosen.step == 1:
        return x
    return make_slice(builder, x, axis, chosen.start, chosen.step, len(chosen))


def _subscript_python(x: Any, value: Any, index: Any) -> Any:
    plain = unwrap(index)
    if isinstance(plain, tensor):
        raise LanguageTypeError(f"{describe(value)} is indexed by {describe(plain)}; which element is meant must be "
                                "known when the kernel is compiled: use tl.static_range or a literal")
    if isinstance(plain, slice):
        plain = slice(unwrap(plain.start), unwrap(plain.stop), unwrap(plain.step))
    try:
        found = value[plain]
    except (IndexError, KeyError, TypeError) as error:
        cure = "" if value != () else ("; a scalar, and so a pointer, has the shape (): pass the sizes of a tensor as "
                                       "arguments")
        raise LanguageTypeError(f"cannot index {describe(value)} by {plain!r}: {error}{cure}") from None
    return constexpr(found) if isinstance(x, constexpr) and not isinstance(found, tensor) else found


def _show_index(part: Any) -> str:
    if isinstance(part, slice):
        return ":".join("" if unwrap(p) is None else str(unwrap(p)) for p in (part.start, part.stop))
    return "..." if part is Ellipsis else f"{part}"


def decay(builder: Builder, value: Any, name: str = "") -> Any:
    """What a plain assignment (to `name`) makes of a value (semantics §1).

    Numbers become scalar tensors; tensors, None, types and whatever is no number's business stay; tuples decay
    element by element; strings and functions are refused.
    """
    plain = unwrap(value)
    if isinstance(plain, tensor | structure) or plain is None or isinstance(plain, base_type):
        return plain if isinstance(plain, tensor | structure) else value
    if isinstance(plain, builtins.tuple | list):
        parts = tuple(decay(builder, v, name) for v in plain)
        parts.fields = getattr(plain, "_fields", None) or getattr(plain, "fields", None)
        return parts
    if is_literal(plain):
        made = to_tensor(builder, plain)
        made.assigned = name
        return made
    if isinstance(plain, str) or (callable(plain) and not isinstance(plain, type)):
        raise LanguageTypeError(f"cannot convert {describe(plain)} to a tensor: a plain assignment makes a run-time "
                                "value; to keep it known at compile time write `name: tl.constexpr = ...`")
    return value


def join_types(a: Scalar, b: Scalar) -> Scalar:
    """The promoted type of two run-time scalars, e.g. of loop bounds; equal types stay."""
    if a == b:
        return a
    if not (isinstance(a, dtype) and isinstance(b, dtype)):
        raise IncompatibleTypeErrorImpl(a, b, "a pointer does not mix with another type")
    return promote(a, False, b, False)


def transpose(builder: Builder, x: tensor) -> tensor:
    """`x.T`, for rank 2 only."""
    sizes = shape(x)
    if len(sizes) != 2:
        raise LanguageValueError(f"x.T needs two dimensions, but x is {x}; use tl.permute(x, ...) or tl.trans")
    return emit(builder, "permute", (x,), make_type(sizes[::-1], x.dtype), {"order": (1, 0)})


__all__ = ["binary", "chain", "compare", "decay", "join_types", "logical", "subscript", "to_tensor", "transpose",
           "truth", "unary"]

tensor.meaning = sys.modules[__name__]
