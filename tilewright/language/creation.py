"""Where tiles come from: program ids, ranges, constants; and conversion, `tl.cast` and `x.to` (semantics §3, §4).

Tests: tests/lang/test_creation.py, tests/lang/test_casting.py.
"""

from __future__ import annotations

from typing import Any

from tilewright.language import casting
from tilewright.language.builder import Builder
from tilewright.language.builtin import builtin, tensor_member
from tilewright.language.constexpr import unwrap
from tilewright.language.errors import LanguageTypeError, LanguageValueError, as_written
from tilewright.language.tensor import tensor
from tilewright.language.types import TRITON_MAX_TENSOR_NUMEL, block_type, check_shape, dtype, int32
from tilewright.language.values import (
    constant,
    describe,
    emit,
    full_of,
    how_to_know,
    is_literal,
    known_bool,
    known_dtype,
    known_int,
    known_shape,
    literal_value,
    shape,
    splat,
)
from tilewright.language.values import to_tensor as to_tensor_value


@builtin
def program_id(axis: Any, *, _builder: Builder) -> tensor:
    """The index of this program along `axis` of the grid: an int32 scalar.

    `axis` is 0, 1 or 2, known at compile time; along an axis that the grid does not name the index is 0.
    """
    return emit(_builder, "program_id", (), int32, {"axis": _grid_axis(axis, "program_id")})


@builtin
def num_programs(axis: Any, *, _builder: Builder) -> tensor:
    """The size of the grid along `axis` (0, 1 or 2, known at compile time): an int32 scalar, at least 1."""
    return emit(_builder, "num_programs", (), int32, {"axis": _grid_axis(axis, "num_programs")})


def _grid_axis(axis: Any, name: str) -> int:
    value = known_int(axis, f"axis of tl.{name}")
    if value not in (0, 1, 2):
        raise LanguageValueError(f"{name} axis must be 0, 1, or 2 but got {value}")
    return value


@builtin
def arange(start: Any, end: Any, *, _builder: Builder) -> tensor:
    """The int32 tile [end - start] of start, start + 1, ..., end - 1.

    Both ends are compile-time ints; any length is allowed, a power of two or not.  Refused: end <= start, a run-time
    end (take a larger constexpr and a mask), numbers beyond int32, more elements than a tile may have.
    """
    values = [unwrap(start), unwrap(end)]
    for name, value in zip(("start", "end"), values, strict=True):
        if isinstance(value, tensor):
            text = as_written(f"arange.{name}", name)
            cure = how_to_know(value) or ("annotate the parameter that it comes from as tl.constexpr, or, if it is a "
                                          f"size of data, take a constexpr range and mask it with `< {text}`")
            raise LanguageValueError(f"arange's arguments must be of type tl.constexpr: `{text}` is {describe(value)}; "
                                     f"{cure}")
    low, high = (known_int(v, f"`{n}` of tl.arange") for n, v in zip(("start", "end"), values, strict=True))
    if high <= low:
        raise LanguageValueError(f"arange's end argument must be greater than the start argument: got {low} and {high}")
    if low < -(1 << 31) or high > 1 << 31:
        raise LanguageValueError(f"arange must fit in int32: got {low} and {high}")
    if high - low > TRITON_MAX_TENSOR_NUMEL:
        raise LanguageValueError(f"arange's length {high - low} exceeds the largest tile, {TRITON_MAX_TENSOR_NUMEL} "
                                 "elements")
    return emit(_builder, "iota", (), block_type(int32, (high - low,)), {"start": low, "end": high})


@builtin
def full(shape: Any, value: Any, dtype: Any, *, _builder: Builder) -> tensor:
    """A tile of `shape`, a tuple of compile-time ints, filled with `value`, in `dtype`.

    A number is rounded once, to `dtype`; an int keeps its low bits, with a warning where others are lost (300 in int8
    is 44, as in triton).  A scalar, or a tile of one element, is converted as by `tl.cast`.  Shape () gives a scalar.
    Refused: a float for an integer dtype, 0.0 excepted; an int as shape (write `(n,)`).
    """
    return make_full(_builder, known_shape(shape), value, known_dtype(dtype))


def make_full(builder: Builder, sizes: tuple[int, ...], value: Any, element: Any) -> tensor:
    """A tile (or a scalar, for ()) of one value."""
    if sizes:
        check_shape(sizes)
    if is_literal(value):
        number = literal_value(value)
        if isinstance(element, dtype) and element.is_int() and isinstance(number, float):
            if number != 0.0:
                raise LanguageTypeError(f"tl.full of type {element} takes an int, not {number!r}; write "
                                        f"int({number!r}) or a float dtype")
            number = 0
        if isinstance(element, dtype):
            _tell_of_lost_bits(builder, number, element)
            return full_of(builder, number, element, sizes)
    scalar = casting.cast(builder, _one_element(builder, to_tensor_value(builder, value)), element)
    return splat(builder, scalar, sizes)


def _one_element(builder: Builder, x: tensor) -> tensor:
    if not shape(x):
        return x
    if x.numel.value != 1:
        raise LanguageValueError(f"the value of tl.full must be a scalar or a tile of one element, not {x}")
    return emit(builder, "reshape", (x,), x.dtype, {"shape": ()})


@builtin
def zeros(shape: Any, dtype: Any, *, _builder: Builder) -> tensor:
    """A tile of `shape`, a tuple of compile-time ints, filled with zeros of `dtype`."""
    return make_full(_builder, known_shape(shape), 0, known_dtype(dtype))


@builtin
def zeros_like(input: Any, *, _builder: Builder) -> tensor:
    """Zeros of the shape and type of `input`."""
    x = to_tensor_value(_builder, input)
    return make_full(_builder, shape(x), 0, x.dtype)


@builtin
def to_tensor(x: Any, *, _builder: Builder) -> tensor:
    """`x` as a run-time value: a tensor as it is, a number as a scalar of its literal type.

    That is int1 for a bool; the first of int32, uint32, int64, uint64 that holds an int; fp32 for a float, or fp64
    where the float is out of the normal range of fp32.
    """
    return to_tensor_value(_builder, x)


@builtin
def cast(input: Any, dtype: Any, fp_downcast_rounding: Any = None, bitcast: Any = False, *,
         _builder: Builder) -> tensor:
    """`input` converted to `dtype`, element by element; the shape stays.

    Floats become integers by truncation toward zero (fp16, bf16 through fp32), integers are cut or extended by
    their own sign (with a warning where a number that is known loses bits: `tl.cast(300, tl.int8)` is 44), anything
    becomes int1 by `!= 0` (a NaN is true), int1 becomes 0 or 1.  A float narrows to nearest, ties to even, or as
    `fp_downcast_rounding` ("rtne", "rtz") says; fp8 saturates to its largest number.  Pointers convert to int64,
    uint64, int1 and other pointers, integers to pointers.  `bitcast=True` keeps the bits.  Refused: fp8 to or from
    integers; a bitcast to another width; `fp_downcast_rounding` where no float narrows.
    """
    element = known_dtype(dtype)
    rounding = casting.rounding_mode(fp_downcast_rounding)
    if is_literal(input) and not known_bool(bitcast, "bitcast"):
        _tell_of_lost_bits(_builder, literal_value(input), element)
        converted = _cast_literal(_builder, literal_value(input), element)
        if converted is not None and rounding is None:
            return converted
    x = to_tensor_value(_builder, input)
    if known_bool(bitcast, "bitcast"):
        return casting.bitcast(_builder, x, element)
    return casting.cast(_builder, x, element, rounding)


def _tell_of_lost_bits(builder: Builder, value: bool | int | float, element: Any) -> None:
    """Warn where the integer type `element` has no room for all bits of `value`, whatever its sign."""
    if isinstance(element, dtype) and element.is_int() and isinstance(value, int) and element.int_bitwidth > 1:
        bits = element.int_bitwidth
        if not -(1 << (bits - 1)) <= value < 1 << bits:
            kept = value & ((1 << bits) - 1)
            kept -= (kept > element.get_int_max_value()) << bits
            builder.warn(f"{value} does not fit into {element}: its low {bits} bits are kept, which is {kept}")


def _cast_literal(builder: Builder, value: bool | int | float, element: Any) -> tensor | None:
    """A literal rounded once to a float type, or an int that fits an integer type; None if it goes the long way."""
    if not isinstance(element, dtype):
        return None
    if element.is_floating() and not (element.is_fp8() and isinstance(value, int)):
        return constant(builder, value, element)
    if element.is_int() and isinstance(value, int) and not isinstance(value, bool):
        fits = element.get_int_min_value() <= value <= element.get_int_max_value()
        return constant(builder, value, element) if fits and element.int_bitwidth > 1 else None
    return None


tensor_member(cast, "to", "cast")
