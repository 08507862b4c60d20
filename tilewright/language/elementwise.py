"""Elementwise names that are no elementary functions: `where`, `maximum`, `minimum`, `clamp`, `add`, `sub`, `mul`.

Float maximum and minimum ignore a NaN operand unless `propagate_nan=tl.PropagateNan.ALL`; -0 is below +0.
Tests: tests/lang/test_math.py, test_values_elementwise.py.
"""

from __future__ import annotations

import enum
from typing import Any

from tilewright.language import comparison, operators
from tilewright.language.broadcasting import broadcast_all
from tilewright.language.builder import Builder
from tilewright.language.builtin import builtin, tensor_member
from tilewright.language.constexpr import unwrap
from tilewright.language.errors import LanguageTypeError
from tilewright.language.tensor import tensor
from tilewright.language.types import dtype, int1
from tilewright.language.values import describe, emit, is_pointer, known, known_bool, to_tensor


class PropagateNan(enum.Enum):
    """What maximum, minimum and clamp do with a NaN: NONE ignores it, ALL makes it the result."""

    NONE = 0
    ALL = 0xFFFF


def _propagates(value: Any) -> bool:
    value = known(value, "propagate_nan")
    if not isinstance(value, PropagateNan):
        raise LanguageTypeError(f"propagate_nan must be tl.PropagateNan.NONE or tl.PropagateNan.ALL, not "
                                f"{describe(value)}")
    return value is PropagateNan.ALL


def extremum(builder: Builder, name: str, a: tensor, b: tensor, propagate: bool = False) -> tensor:
    """`max` or `min` (name) of two tensors of one type and shape."""
    element = a.dtype
    assert isinstance(element, dtype)
    if element.is_floating():
        op = f"{name}_nan_f" if propagate else f"{name}_f"
    elif element == int1:
        op = "or" if name == "max" else "and"
    else:
        op = f"{name}_{'s' if element.is_int_signed() else 'u'}"
    return emit(builder, op, (a, b), a.type)


def maximum_of(builder: Builder, name: str, x: Any, y: Any, propagate: bool = False) -> tensor:
    a, b = operators.prepare(builder, x, y, f"tl.{name}imum")
    return extremum(builder, name, a, b, propagate)


@builtin
def maximum(x: Any, y: Any, propagate_nan: Any = PropagateNan.NONE, *, _builder: Builder) -> tensor:
    """The greater of x and y, element by element; types and shapes as for `+`.

    Of a NaN and a number it is the number, with `propagate_nan=tl.PropagateNan.ALL` the NaN; +0 is greater than -0.
    """
    return maximum_of(_builder, "max", x, y, _propagates(propagate_nan))


@builtin
def minimum(x: Any, y: Any, propagate_nan: Any = PropagateNan.NONE, *, _builder: Builder) -> tensor:
    """The lesser of x and y, element by element; types and shapes as for `+`.

    Of a NaN and a number it is the number, with `propagate_nan=tl.PropagateNan.ALL` the NaN; -0 is less than +0.
    """
    return maximum_of(_builder, "min", x, y, _propagates(propagate_nan))


@builtin
def clamp(x: Any, min: Any, max: Any, propagate_nan: Any = PropagateNan.NONE, *, _builder: Builder) -> tensor:
    """x limited to min .. max, of ints or floats; the three are promoted and broadcast together.

    A NaN in x gives min, or stays with `propagate_nan=tl.PropagateNan.ALL`.  If min > max the result is undefined.
    """
    target = operators.common_type_of((x, min, max), "tl.clamp")
    propagate = _propagates(propagate_nan)
    values = [operators.as_type(_builder, v, target) for v in (x, min, max)]
    value, low, high = broadcast_all(_builder, values, ("x", "min", "max"))
    return extremum(_builder, "min", extremum(_builder, "max", value, low, propagate), high, propagate)


@builtin
def where(condition: Any, x: Any, y: Any, *, _builder: Builder) -> tensor:
    """Elements of x where `condition` holds, else of y; the three broadcast, x and y are promoted as by `+`.

    A condition that is no int1 warns and counts as `!= 0`.  x and y may be pointers of one type.  Both sides are
    evaluated: to leave out a memory access use the `mask` of `tl.load` and `tl.store`.
    """
    return comparison.where(_builder, condition, x, y)


@builtin
def add(x: Any, y: Any, sanitize_overflow: Any = True, *, _builder: Builder) -> tensor:
    """x + y; `sanitize_overflow=False` leaves it out of the overflow check."""
    return _arithmetic(_builder, "Add", x, y, sanitize_overflow)


@builtin
def sub(x: Any, y: Any, sanitize_overflow: Any = True, *, _builder: Builder) -> tensor:
    """x - y; `sanitize_overflow=False` leaves it out of the overflow check."""
    return _arithmetic(_builder, "Sub", x, y, sanitize_overflow)


@builtin
def mul(x: Any, y: Any, sanitize_overflow: Any = True, *, _builder: Builder) -> tensor:
    """x * y; `sanitize_overflow=False` leaves it out of the overflow check."""
    return _arithmetic(_builder, "Mult", x, y, sanitize_overflow)


def _arithmetic(builder: Builder, operator: str, x: Any, y: Any, sanitize: Any) -> tensor:
    left, right = unwrap(x), unwrap(y)
    if is_pointer(left) or is_pointer(right):
        return operators.arithmetic(builder, operator, left, right)
    return operators.add_sub_mul(builder, operator, left, right, known_bool(sanitize, "sanitize_overflow"))


@builtin
def logical_and(input: Any, other: Any, *, _builder: Builder) -> Any:
    """`and` of two int1 values, element by element."""
    return _logical(_builder, "And", input, other)


@builtin
def logical_or(input: Any, other: Any, *, _builder: Builder) -> Any:
    """`or` of two int1 values, element by element."""
    return _logical(_builder, "Or", input, other)


def _logical(builder: Builder, name: str, a: Any, b: Any) -> tensor:
    word = name.lower()
    left, right = (operators.need_bool(builder, to_tensor(builder, v), word) for v in (a, b))
    left, right = broadcast_all(builder, (left, right))
    return emit(builder, word, (left, right), left.type)


tensor_member(logical_and)
tensor_member(logical_or)
