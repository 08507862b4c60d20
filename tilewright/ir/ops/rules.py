"""Building blocks of rows: type rules and the wrapping of a NumPy function as a row's meaning."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from tilewright.ir import fp
from tilewright.ir.ops.table import Array, Call, InferRule, RefRule, TypeRuleError
from tilewright.ir.types import I1, STORED_ONLY, Element, Pointer, Scalar, Type, element_of, shape_of, with_element

if TYPE_CHECKING:
    from tilewright.ir.node import Block


def require(condition: bool, message: str) -> None:
    """Raise `TypeRuleError(message)` unless `condition`."""
    if not condition:
        raise TypeRuleError(message)


def is_kind(element: Element, kind: str) -> bool:
    """Whether `element` belongs to a kind: int (with i1), wide_int (without), float, i1, ptr, scalar, any.

    `float` is what has arithmetic, `format` all floats, also those that are only stored.
    """
    if kind == "any":
        return True
    if isinstance(element, Pointer):
        return kind == "ptr"
    if kind == "i1":
        return element == I1
    if kind == "wide_int":
        return element.is_int and element != I1
    if kind == "float":
        return element.is_float and element not in STORED_ONLY
    return kind == "scalar" or (kind == "int" and element.is_int) or (kind == "format" and element.is_float)


def same_types(types: Sequence[Type], kind: str) -> Type:
    """The one type that all of `types` are, of `kind`."""
    first = types[0]
    if not is_kind(element_of(first), kind):        # the text is made only here: so many ops are built
        require(False, f"element type {element_of(first)} is not of kind {kind}")
    for t in types:
        if t is not first and t != first:
            require(False, "operand types differ: " + ", ".join(map(str, types)))
    return first


def elementwise(count: int, kind: str, result: Element | None = None) -> InferRule:
    """`count` operands of one type of `kind`; the result has that type, or element `result`."""

    def infer(types: Sequence[Type], attrs: Mapping[str, Any], regions: Sequence[Block]) -> tuple[Type, ...]:
        if len(types) != count:
            require(False, f"takes {count} operands, not {len(types)}")
        t = same_types(types, kind)
        return (t if result is None else with_element(t, result),)

    return infer


def scalar_element(t: Type) -> Scalar:
    """The element of `t`, which must be a scalar."""
    e = element_of(t)
    if not isinstance(e, Scalar):       # the text is made only here: code generation asks for each register
        require(False, f"{t} does not hold scalars")
    assert isinstance(e, Scalar)
    return e


def on_arrays(function: Callable[..., Array]) -> RefRule:
    """A meaning on storage arrays as they are (integers, bits)."""

    def ref(call: Call) -> tuple[Array, ...]:
        with np.errstate(all="ignore"):
            return (function(*call.args),)

    return ref


def on_unsigned(function: Callable[..., Array]) -> RefRule:
    """A meaning on integers seen as unsigned; an integer result is stored signed again."""

    def ref(call: Call) -> tuple[Array, ...]:
        with np.errstate(all="ignore"):
            out = function(*(unsigned(a) for a in call.args))
        return (out if out.dtype == np.bool_ else signed(out),)

    return ref


def on_floats(function: Callable[..., Array]) -> RefRule:
    """A meaning in float64, rounded once to the result's type (see `ir.fp` for why this is correct)."""

    def ref(call: Call) -> tuple[Array, ...]:
        with np.errstate(all="ignore"):
            out = function(*(fp.decode(a, scalar_element(t)) for a, t in zip(call.args, call.types, strict=True)))
        if out.dtype == np.bool_:
            return (out,)
        return (fp.encode(out, scalar_element(call.result_types[0])),)

    return ref


def unsigned(a: Array) -> Array:
    """A signed integer array (or bool) seen as unsigned."""
    return a.view(np.uint8) if a.dtype == np.bool_ else a.view(f"u{a.dtype.name}")


def signed(a: Array) -> Array:
    """An unsigned integer array seen as signed."""
    return a.view(a.dtype.name.lstrip("u"))


def batched_shape(call: Call, t: Type) -> tuple[int, ...]:
    """The array shape of a value of type `t` in this call's batch: programs, then the tile."""
    return (call.args[0].shape[0], *shape_of(t))
