"""Arithmetic, bit and pointer operators on tensors: promotion, broadcasting, the choice of the strict op.

`prepare` is what all binary operations share: weak literals take the other side's type, both sides are cast to the
promoted type and broadcast.  int1 has no division or shift in the IR, so those are done in uint8.
Tests: tests/lang/test_operators.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tilewright.language.broadcasting import broadcast_pair
from tilewright.language.builder import Builder
from tilewright.language.casting import bitcast, cast
from tilewright.language.constexpr import unwrap
from tilewright.language.errors import IncompatibleTypeErrorImpl, LanguageTypeError, LanguageValueError, as_written
from tilewright.language.overflow import check_overflow
from tilewright.language.promotion import check_literal_fits, promote
from tilewright.language.tensor import tensor
from tilewright.language.types import Scalar, dtype, float32, int1, int32, int64, uint8
from tilewright.language.values import (
    constant,
    element_type,
    emit,
    full_of,
    is_literal,
    is_pointer,
    literal_value,
    read_first,
    refuse_pointer,
    shape,
    to_tensor,
)

SYMBOLS = {"Add": "+", "Sub": "-", "Mult": "*", "Div": "/", "FloorDiv": "//", "Mod": "%", "BitAnd": "&", "BitOr": "|",
           "BitXor": "^", "LShift": "<<", "RShift": ">>"}
SHOWN = {**SYMBOLS, "Pow": "**", "MatMult": "@"}
_BITWISE = ("BitAnd", "BitOr", "BitXor", "LShift", "RShift")


def number_types(values: Sequence[Any], what: str) -> list[dtype]:
    """The element types of number operands of `what`, a symbol or a function; pointers are refused."""
    types = [element_type(v) for v in values]
    numbers = [t for t in types if isinstance(t, dtype)]
    if len(numbers) < len(types):
        at = next(i for i, v in enumerate(values) if is_pointer(v))
        which = _operand(what, at)
        first = max(0, at - 1)
        raise IncompatibleTypeErrorImpl(types[first], types[min(first + 1, len(types) - 1)],
                                        f"`{what}` takes numbers, but {read_first(unwrap(values[at]), which)}")
    return numbers


def _operand(what: str, position: int) -> str:
    """What `as_written` calls an operand of `what`, a symbol or a function."""
    bare = what.rpartition(".")[2]
    return f"{bare}.{position}" if bare.isidentifier() else ("left", "right")[position]


def _sides(what: str) -> list[str]:
    return [as_written(_operand(what, i), name) for i, name in enumerate(("left", "right"))]


def common_type(lhs: Any, rhs: Any, symbol: str, division: bool = False) -> dtype:
    """The promoted type of two operands, either of which may be a literal."""
    left, right = number_types((lhs, rhs), symbol)
    return promote(left, is_literal(lhs), right, is_literal(rhs), division)


def common_type_of(values: Sequence[Any], what: str) -> dtype:
    """The promoted type of several operands: tensors among themselves, then the literals as weak ones."""
    number_types(values, what)
    ordered = sorted(values, key=is_literal)
    types = number_types(ordered, what)
    target, weak = types[0], is_literal(ordered[0])
    for value, element in zip(ordered[1:], types[1:], strict=True):
        target = promote(target, weak, element, is_literal(value))
    return target


def as_type(builder: Builder, value: Any, target: dtype) -> tensor:
    """A literal as a constant of `target` (checked to fit), a tensor cast to it."""
    if is_literal(value):
        number = literal_value(value)
        check_literal_fits(number, target)
        return constant(builder, number, target)
    return cast(builder, to_tensor(builder, value), target)


def prepare(builder: Builder, lhs: Any, rhs: Any, symbol: str, division: bool = False) -> tuple[tensor, tensor]:
    """Both operands in their promoted type and common shape."""
    target = common_type(lhs, rhs, symbol, division)
    return broadcast_pair(builder, as_type(builder, lhs, target), as_type(builder, rhs, target), _sides(symbol))


def _same(builder: Builder, name: str, a: tensor, b: tensor) -> tensor:
    return emit(builder, name, (a, b), a.type)


def arithmetic(builder: Builder, operator: str, lhs: Any, rhs: Any) -> tensor:
    """One of the binary operators of Python, on at least one tensor."""
    if is_pointer(lhs) or is_pointer(rhs):
        return _pointer_arithmetic(builder, operator, lhs, rhs)
    if operator in _BITWISE:
        return bitwise(builder, operator, lhs, rhs)
    if operator == "Div":
        return true_divide(builder, lhs, rhs)
    if operator in ("FloorDiv", "Mod"):
        return divide(builder, operator, lhs, rhs)
    names = {"Add": ("add", "add_f"), "Sub": ("sub", "sub_f"), "Mult": ("mul", "mul_f")}
    if operator not in names:
        shown = SHOWN.get(operator, operator)
        cure = "use tl.dot" if operator == "MatMult" else "multiply, or use tl.exp2(y * tl.log2(x))"
        raise LanguageTypeError(f"`{shown}` is not available on tensors; {cure}")
    return add_sub_mul(builder, operator, lhs, rhs)


def add_sub_mul(builder: Builder, operator: str, lhs: Any, rhs: Any, sanitize: bool = True) -> tensor:
    """`+`, `-`, `*`; with the options `debug` and `sanitize_overflow` an integer overflow is asserted against."""
    a, b = prepare(builder, lhs, rhs, SYMBOLS[operator])
    integer, floating = {"Add": ("add", "add_f"), "Sub": ("sub", "sub_f"), "Mult": ("mul", "mul_f")}[operator]
    if a.dtype.is_floating():
        return _same(builder, floating, a, b)
    if sanitize and builder.options.debug and builder.options.sanitize_overflow:
        check_overflow(builder, integer, a, b)
    return _same(builder, integer, a, b)


def true_divide(builder: Builder, lhs: Any, rhs: Any, op: str = "div_f") -> tensor:
    """`/`: always a float, of 32 bits at least (rule 3); integers are divided as fp32."""
    target = common_type(lhs, rhs, "/", division=True)
    if target.is_int():
        target = float32
    a, b = broadcast_pair(builder, as_type(builder, lhs, target), as_type(builder, rhs, target), _sides("/"))
    return _same(builder, op, a, b)


def divide(builder: Builder, operator: str, lhs: Any, rhs: Any) -> tensor:
    """`//` (integers only, truncating) and `%` (C remainder; of floats C fmod)."""
    symbol = SYMBOLS[operator]
    a, b = prepare(builder, lhs, rhs, symbol, division=True)
    if a.dtype.is_floating():
        if operator == "FloorDiv":
            raise LanguageTypeError(f"unexpected type {a.dtype}: `//` takes integers only; use tl.floor(x / y)")
        return _same(builder, "rem_f", a, b)
    name = "div" if operator == "FloorDiv" else "rem"
    if a.dtype == int1:
        return _in_uint8(builder, f"{name}_u", a, b)
    return _same(builder, f"{name}_{'s' if a.dtype.is_int_signed() else 'u'}", a, b)


def _in_uint8(builder: Builder, name: str, a: tensor, b: tensor) -> tensor:
    """An op that int1 lacks, on 0 and 1 in uint8; the low bit is the result."""
    wide = _same(builder, name, cast(builder, a, uint8), cast(builder, b, uint8))
    return emit(builder, "trunc", (wide,), a.type, {"to": int1.to_ir()})


def bitwise(builder: Builder, operator: str, lhs: Any, rhs: Any) -> tensor:
    """`&`, `|`, `^`, `<<`, `>>` on integers; `>>` is arithmetic if the left operand itself is signed."""
    symbol = SYMBOLS[operator]
    left, right = element_type(lhs), element_type(rhs)
    for element in (left, right):
        if not (isinstance(element, dtype) and element.is_int()):
            raise IncompatibleTypeErrorImpl(left, right, f"`{symbol}` takes integers only; .to(tl.int32, bitcast=True) "
                                                         "shows the bits of a float")
    a, b = prepare(builder, lhs, rhs, symbol)
    if operator in ("LShift", "RShift"):
        _warn_wide_shift(builder, rhs, a.dtype)
        name = "shl" if operator == "LShift" else ("shr_s" if left.is_int_signed() else "shr_u")
        return _in_uint8(builder, name, a, b) if a.dtype == int1 else _same(builder, name, a, b)
    return _same(builder, {"BitAnd": "and", "BitOr": "or", "BitXor": "xor"}[operator], a, b)


def _warn_wide_shift(builder: Builder, amount: Any, target: Scalar) -> None:
    if is_literal(amount) and not 0 <= literal_value(amount) < target.primitive_bitwidth:
        builder.warn(f"shift by {unwrap(amount)} of a value with {target.primitive_bitwidth} bits: the result is "
                     "undefined")


# -- pointers ----------------------------------------------------------------------------------------------------------


def _pointer_arithmetic(builder: Builder, operator: str, lhs: Any, rhs: Any) -> tensor:
    """pointer + int, int + pointer, pointer - int."""
    a, b = to_tensor(builder, lhs), to_tensor(builder, rhs)
    symbol, which = SHOWN.get(operator, operator), "left"
    if not is_pointer(a):
        which = "right"
        if operator == "Add":
            a, b = b, a
    allowed = operator == "Add" or (operator == "Sub" and is_pointer(a))
    if not allowed:
        pointer = a if is_pointer(a) else b
        raise IncompatibleTypeErrorImpl(a.dtype, b.dtype, f"`{symbol}` takes numbers, but {read_first(pointer, which)}")
    if not (isinstance(b.dtype, dtype) and b.dtype.is_int()):
        raise IncompatibleTypeErrorImpl(
            a.dtype, b.dtype, f"`{symbol}` moves a pointer by an integer number of elements, not by {b.dtype}; for the "
                              f"numbers that it points to write tl.load({as_written(which, 'pointer')})")
    offset = _offset(builder, b)
    if operator == "Sub":
        offset = negate(builder, offset)
    pointer, offset = broadcast_pair(builder, a, offset, _sides("+") if which == "left" else _sides("+")[::-1])
    return emit(builder, "ptr_add", (pointer, offset), pointer.type)


def _offset(builder: Builder, x: tensor) -> tensor:
    """An offset as int32 or int64: unsigned ones of less than 64 bits are zero-extended, signed sign-extended."""
    element = x.dtype
    assert isinstance(element, dtype)
    if element.int_bitwidth == 64:
        return bitcast(builder, x, int64)
    if element.is_int_unsigned() and element.int_bitwidth == 32:
        return cast(builder, x, int64)
    return cast(builder, x, int32)


# -- unary -------------------------------------------------------------------------------------------------------------


def negate(builder: Builder, x: tensor) -> tensor:
    """`-x`: wraps for integers, flips the sign bit of floats."""
    refuse_pointer(x, "wrong type argument to unary minus: `-`", "operand")
    element = x.dtype
    assert isinstance(element, dtype)
    if element.is_floating():
        return emit(builder, "neg_f", (x,), x.type)
    return _same(builder, "sub", full_of(builder, 0, element, shape(x)), x)


def invert(builder: Builder, x: tensor) -> tensor:
    """`~x` of an integer."""
    refuse_pointer(x, "wrong type argument to unary invert: `~`", "operand")
    element = x.dtype
    if not (isinstance(element, dtype) and element.is_int()):
        raise LanguageTypeError(f"wrong type argument to unary invert ({element}): `~` takes integers only")
    ones = full_of(builder, element == int1 or -1, element, shape(x))
    return _same(builder, "xor", x, ones)


def need_bool(builder: Builder, x: tensor, what: str) -> tensor:
    """`x`, which must be int1, for `not`, `and`, `or`."""
    refuse_pointer(x, f"`{what}`", "operand")
    if x.dtype != int1:
        raise LanguageValueError(f"Cannot bitcast data-type of size {x.dtype.primitive_bitwidth} to data-type of size "
                                 f"1: `{what}` takes int1 (a comparison), not {x}; write x != 0")
    return x


def logical_not(builder: Builder, x: tensor) -> tensor:
    return invert(builder, need_bool(builder, x, "not"))
