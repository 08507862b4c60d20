"""Making tensors: from Python values, by ops, and reading compile-time arguments.

`to_tensor` is the one way from a Python value to a tensor.  `known_*` read an argument that must be known at compile
time and say so in the user's words when it is not.  Tests: tests/lang/test_types.py.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tilewright.ir.node import Block
from tilewright.ir.ops import TABLE
from tilewright.language import types
from tilewright.language.builder import Builder
from tilewright.language.constexpr import unwrap
from tilewright.language.errors import LanguageTypeError, LanguageValueError, as_written
from tilewright.language.promotion import literal_type
from tilewright.language.tensor import tensor
from tilewright.language.types import Scalar, ValueType, dtype, make_type, pointer_type, shape_of

Shape = tuple[int, ...]
_STORED_ONLY = frozenset({types.float8e4b8, types.float8e4b15, types.float8e5b16})
_MOVES = frozenset({"select", "bitcast", "fp_ext", "fp_trunc"})


def emit(builder: Builder, name: str, operands: Sequence[tensor], result: ValueType,
         attrs: Mapping[str, Any] | None = None, regions: Sequence[Block] = ()) -> tensor:
    """Do an op with one result, whose language type is `result`."""
    for x in operands:
        if x.type.scalar in _STORED_ONLY and name not in _MOVES and TABLE[name].elementwise:
            raise LanguageTypeError(f"{x.dtype} is a format to store and convert, without arithmetic; compute in "
                                    "x.to(tl.float32)")
    (handle,) = builder.emit(name, [x.handle for x in operands], attrs, regions)
    return tensor(handle, result, builder)


def is_literal(value: Any) -> bool:
    """A Python number, or a constexpr that holds one: weak in promotion."""
    value = unwrap(value)
    return isinstance(value, bool | int | float) or _is_numpy_scalar(value)


def _is_numpy_scalar(value: Any) -> bool:
    return type(value).__module__ == "numpy" and getattr(value, "shape", None) == () and hasattr(value, "item")


def literal_value(value: Any) -> bool | int | float:
    """The Python number of a literal."""
    value = unwrap(value)
    return value.item() if _is_numpy_scalar(value) else value  # type: ignore[no-any-return]


def constant(builder: Builder, value: bool | int | float, type: dtype) -> tensor:
    """A scalar constant of `type`: integers wrap into it, floats round to it."""
    ir_type = type.to_ir()
    if type.is_floating():
        try:
            stored: bool | int | float = float(value)
        except OverflowError:
            raise LanguageValueError(f"{value} is too large for any float type") from None
    elif type.is_int1():
        stored = bool(value)
    else:
        stored = _signed(int(value), type.int_bitwidth)
    return emit(builder, "constant", (), type, {"value": stored, "type": ir_type})


def _signed(value: int, bits: int) -> int:
    """The signed integer with the same low `bits`: how IR writes constants."""
    low = value & ((1 << bits) - 1)
    return low - (1 << bits) if low >> (bits - 1) else low


def to_tensor(builder: Builder, value: Any) -> tensor:
    """A tensor as it is; a number as a scalar of its literal type (semantics §1)."""
    value = unwrap(value)
    if isinstance(value, tensor):
        return value
    if is_literal(value):
        number = literal_value(value)
        return constant(builder, number, literal_type(number))
    raise _no_operand(value)


def element_type(value: Any) -> Scalar:
    """The element type of an operand, a tensor or a literal, without making a constant."""
    value = unwrap(value)
    if isinstance(value, tensor):
        return value.dtype
    if is_literal(value):
        return literal_type(literal_value(value))
    raise _no_operand(value)


def _no_operand(value: Any) -> LanguageTypeError:
    return LanguageTypeError(f"cannot convert {describe(value)} to a tensor; a number or a tensor is needed here")


def describe(value: Any) -> str:
    """A value in words for a message: "the run-time value int32[16]", "4 of type int"."""
    value = unwrap(value)
    if isinstance(value, tensor):
        return f"the run-time value {value}"
    if value is None:
        return "None"
    if isinstance(value, tuple):
        kind = type(value).__name__     # of a structure, such as a tensor descriptor
        return f"a {kind}" if hasattr(value, "part_names") else f"a tuple of {len(value)}"
    if callable(value) and hasattr(value, "__name__"):
        return f"the function {value.__name__!r}"
    return f"{value!r} of type {type(value).__name__}"


def is_pointer(value: Any) -> bool:
    """Whether a value is a pointer or a tile of pointers."""
    value = unwrap(value)
    return isinstance(value, tensor) and isinstance(value.dtype, pointer_type)


def read_first(pointer: tensor, which: str) -> str:
    """What to say of a pointer where a number is wanted; `which` operand it is, see `as_written`."""
    alone = "" if shape(pointer) else "; a tensor of one element can be passed as a number instead, by .item()"
    return (f"{as_written(which, 'this')} is a pointer: read what it points to with "
            f"tl.load({as_written(which, 'pointer')}){alone}")


def refuse_pointer(value: Any, what: str, which: str) -> None:
    """LanguageTypeError for a pointer where `what` takes numbers."""
    if is_pointer(value):
        raise LanguageTypeError(f"{what} takes numbers, but {read_first(unwrap(value), which)}")


def splat(builder: Builder, x: tensor, shape: Shape) -> tensor:
    """A scalar repeated to a tile of `shape`; the scalar itself for ()."""
    if not shape:
        return x
    return emit(builder, "splat", (x,), make_type(shape, x.dtype), {"shape": shape})


def full_of(builder: Builder, value: bool | int | float, type: dtype, shape: Shape) -> tensor:
    """A tile (or scalar) of one constant."""
    return splat(builder, constant(builder, value, type), shape)


def shape(x: tensor) -> Shape:
    """The sizes of `x` as ints."""
    return shape_of(x.type)


def with_dtype(x: tensor, element: Scalar) -> ValueType:
    """The type of `x` with another element."""
    return make_type(shape(x), element)


# -- arguments known at compile time -----------------------------------------------------------------------------------


def known(value: Any, what: str) -> Any:
    """The Python value of a compile-time argument."""
    value = unwrap(value)
    if isinstance(value, tensor):
        raise LanguageTypeError(f"{what} must be known when the kernel is compiled, but "
                                f"{as_written(_argument_called(what), 'it')} is {describe(value)}; "
                                + (how_to_know(value) or "annotate the parameter that it comes from as tl.constexpr, "
                                                         "or write a literal"))
    return value


def _argument_called(what: str) -> str:
    """What `as_written` calls an argument of which a message says `axis of tl.sum` or `element 0 of shape`."""
    first, _, rest = what.replace("`", "").partition(" of ")
    return first.replace(" ", ".") if first.startswith("element ") else f"{rest.rpartition('.')[2]}.{first}"


def how_to_know(x: tensor) -> str:
    """What to write so that a number, which a plain assignment made the run-time value `x`, stays known; or nothing."""
    if not x.assigned:
        return ""
    return (f"the assignment to {x.assigned} made a number a run-time value: write `{x.assigned}2: tl.constexpr = ...` "
            f"there and use {x.assigned}2")


def known_int(value: Any, what: str) -> int:
    value = known(value, what)
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise LanguageTypeError(f"{what} must be an int, not {describe(value)}")
    return int(value)


def known_bool(value: Any, what: str) -> bool:
    value = known(value, what)
    if not isinstance(value, bool | int):
        raise LanguageTypeError(f"{what} must be True or False, not {describe(value)}")
    return bool(value)


def known_ints(value: Any, what: str) -> Shape:
    """A sequence of compile-time ints; one int counts as a sequence of one."""
    value = known(value, what)
    if hasattr(value, "__index__") and not isinstance(value, bool):
        return (int(value),)
    if not isinstance(value, tuple | list):
        raise LanguageTypeError(f"{what} must be a tuple of ints, not {describe(value)}")
    return tuple(known_int(v, f"element {i} of {what}") for i, v in enumerate(value))


def known_shape(value: Any, what: str = "shape") -> Shape:
    """A shape: a tuple or list of compile-time ints >= 1 (an int alone is refused, as in triton)."""
    value = known(value, what)
    if not isinstance(value, tuple | list):
        raise LanguageTypeError(f"{what} must be a tuple or list of ints such as (16, 16), not {describe(value)}; "
                                "write (n,) for one dimension")
    sizes = known_ints(value, what)
    for i, size in enumerate(sizes):
        if size < 1:
            raise LanguageValueError(f"element {i} of {what} is {size}; sizes are 1 or more")
    return sizes


def known_dtype(value: Any, what: str = "dtype") -> Scalar:
    value = known(value, what)
    if not isinstance(value, dtype | pointer_type):
        name = value if isinstance(value, str) else str(getattr(value, "__name__", value)).removeprefix("torch.")
        hint = f"; write tl.{own}" if (own := type_called(name)) else ""
        raise LanguageTypeError(f"{what} must be a type such as tl.float32, not {describe(value)}{hint}")
    return value


def type_called(name: str) -> str:
    """The language's name of an element type that is called `name` there, elsewhere or in short; or nothing."""
    known = {n: t for n, t in vars(types).items() if isinstance(t, dtype)}
    name = {"float": "float32", "int": "int32", "bool": "int1"}.get(name, name)      # Python's
    return name if name in known else next((n for n, t in known.items() if t.name == name), "")


def known_axis(value: Any, rank: int, what: str = "axis") -> int:
    """A dimension index in 0..rank-1; a negative one counts from the end."""
    axis = known_int(value, what)
    if not -rank <= axis < rank:
        name, _, function = what.partition(" of ")
        raise LanguageValueError(f"{name}={axis}{' of ' if function else ''}{function} is out of range for a tile with "
                                 f"{rank} dimension{'s' if rank != 1 else ''}; allowed are {-rank} to {rank - 1}")
    return axis % rank


def need_tile(x: tensor, what: str) -> None:
    if not shape(x):
        raise LanguageValueError(f"{what} needs a tile, but its input is the scalar {x}")
