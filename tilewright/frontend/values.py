"""The structure of language values: which run-time leaves a value has, how to put others in their place, keys.

A value is a tensor, a tuple of values, or static: known at compile time (a constexpr, None, a type, a function, a
module, an enum).  Only tensors exist at run time; everything else is part of the specialisation.
Tests: tests/frontend/test_values.py.
"""

from __future__ import annotations

import struct
from collections.abc import Hashable, Iterator, Sequence
from typing import Any

from tilewright.ir.node import Value
from tilewright.language import core
from tilewright.language.core import constexpr, tensor
from tilewright.language.errors import LanguageValueError
from tilewright.language.structures import part_name

_NUMBERS = (bool, int, float)


def is_tuple(value: Any) -> bool:
    """Whether `value` is a tuple of values (a list is one, too)."""
    return isinstance(value, tuple | list)


def as_tuple(items: Sequence[Any], like: Any = ()) -> core.tuple:
    """A language tuple of `items`, with the field names of `like` if it has some; of a structure, one again."""
    if isinstance(like, core.structure):
        return like.rebuilt(items)
    if isinstance(like, type) and issubclass(like, core.structure):
        return like.rebuilt(items)
    made = core.tuple(items)
    made.fields = getattr(like, "_fields", None) or getattr(like, "fields", None)
    return made


def from_python(value: Any) -> Any:
    """A Python object as a language value: numbers and strings become constexprs, sequences tuples."""
    if isinstance(value, bool | int | float | str):
        return constexpr(value)
    if isinstance(value, constexpr) and (value.value is None or is_tuple(value.value)):
        return from_python(value.value)
    if is_tuple(value):
        return as_tuple([from_python(v) for v in value], value)
    return value


def to_python(value: Any) -> Any:
    """The Python object of a static value; an error if part of it is known at run time only."""
    if isinstance(value, tensor):
        raise LanguageValueError(f"{value} is known only at run time")
    if isinstance(value, constexpr):
        return to_python(value.value)
    if is_tuple(value):
        return tuple(to_python(v) for v in value)
    return value


def is_static(value: Any) -> bool:
    """Whether nothing of the value is known at run time only."""
    return not any(True for _ in leaves(value))


def leaves(value: Any) -> Iterator[tensor]:
    """The tensors in `value`, in order."""
    if isinstance(value, tensor):
        yield value
    elif is_tuple(value):
        for item in value:
            yield from leaves(item)


def handles(value: Any) -> list[Value]:
    return [t.handle for t in leaves(value)]


def leaf_names(name: str, value: Any) -> list[str]:
    """The names of the leaves of the argument `name`, in the order of `leaves`."""
    if isinstance(value, tensor):
        return [name]
    if not is_tuple(value):
        return []
    return [leaf for i, item in enumerate(value) for leaf in leaf_names(part_name(name, type(value), i), item)]


def rebuilt(value: Any, tensors: Iterator[tensor]) -> Any:
    """The same structure with its tensors replaced by the next ones of `tensors`."""
    if isinstance(value, tensor):
        return next(tensors)
    if is_tuple(value):
        return as_tuple([rebuilt(item, tensors) for item in value], value)
    return value


def with_handles(value: Any, new: Sequence[Value]) -> Any:
    """The same structure and types with other handles."""
    old = list(leaves(value))
    return rebuilt(value, iter([tensor(h, t.type, t.builder) for h, t in zip(new, old, strict=True)]))


def static_key(value: Any) -> Hashable:
    """A key of a value for specialisation: a tensor's type, a static value's type and exact value."""
    if isinstance(value, tensor):
        return ("tensor", value.type)
    if isinstance(value, constexpr):
        return ("constexpr", static_key(value.value))
    if isinstance(value, core.structure):
        return (type(value), tuple(static_key(v) for v in value))
    if is_tuple(value):
        fields = getattr(value, "fields", None) or getattr(value, "_fields", None)
        return ("tuple", fields, tuple(static_key(v) for v in value))
    if isinstance(value, float):    # -0.0 == 0.0 and nan != nan, so by bits
        return ("float", struct.pack("<d", value))
    try:
        hash(value)
    except TypeError:
        return ("object", id(value))
    return (type(value), value)


def same_static(a: Any, b: Any) -> bool:
    """Whether two static values are the same compile-time value."""
    return a is b or static_key(a) == static_key(b)


def is_number(value: Any) -> bool:
    """Whether a static value can become a scalar tensor."""
    return isinstance(value, constexpr) and isinstance(value.value, _NUMBERS)


def spelled(type: Any) -> str:
    """How a kernel writes an element type: `tl.float32`."""
    names = (n for n in core.__all__ if isinstance(getattr(core, n), core.base_type) and getattr(core, n) == type)
    return f"tl.{next(names, type)}"


def type_name(value: Any) -> str:
    """What a value is, for messages: `int32`, `fp32[16]`, `None`, `constexpr 4`, `(int32, None)`."""
    if isinstance(value, tensor):
        return str(value.type) if not value.shape else f"{value.dtype}[{', '.join(str(s.value) for s in value.shape)}]"
    if isinstance(value, constexpr):
        return f"constexpr {value.value!r}"
    if is_tuple(value):
        return f"({', '.join(map(type_name, value))}{',' if len(value) == 1 else ''})"
    if value is None:
        return "None"
    name = getattr(value, "__name__", None)
    return f"{type(value).__name__} {name}" if name else str(value)

