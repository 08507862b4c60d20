"""`value.name` in a kernel: of tensors, modules, types, tuples and compile-time values.

Tests: tests/frontend/test_expressions.py, tests/errors/names.py.
"""

from __future__ import annotations

import types
from collections.abc import Callable
from typing import Any

from tilewright.frontend.elsewhere import language_function, method
from tilewright.frontend.values import from_python, is_tuple, type_name
from tilewright.frontend.wording import suggestion
from tilewright.language.core import constexpr, tensor
from tilewright.language.errors import LanguageAttributeError
from tilewright.language.structures import structure


class AttributeErrorInKernel(LanguageAttributeError):
    """An attribute that a value does not have, in words for the kernel's author."""


def attribute(value: Any, name: str) -> Any:
    """The language value of `value.name`; AttributeError with a hint if there is none."""
    if isinstance(value, tensor):
        if name.startswith("_") or name in ("handle", "builder"):
            raise AttributeErrorInKernel(f"a tensor has no attribute {name!r}")
        return _found(value, name, tensor_names)
    if isinstance(value, constexpr):
        if name == "value":
            return from_python(value.value)
        if name == "type":
            return value.type
        return _found(value.value, name)
    return _found(value, name)


def tensor_names() -> list[str]:
    """What a kernel's author may write after `x.`."""
    own = [n for n in dir(tensor) if not n.startswith("_")]
    return sorted({*own, *tensor.members} - {"handle", "builder", "members", "meaning"})


def _found(value: Any, name: str, known: Callable[[], list[str]] | None = None) -> Any:
    """The attribute; `known` lists what could have been meant, if not all that Python lists, for a message."""
    try:
        return from_python(getattr(value, name))
    except AttributeError as error:
        if isinstance(value, structure):        # it says itself what it has
            raise AttributeErrorInKernel(str(error)) from None
        hint = _elsewhere(value, name)
        hint = f"; {hint}" if hint else suggestion(name, dir(value) if known is None else known())
        raise AttributeErrorInKernel(f"{_kind(value)} has no attribute {name!r}{hint}") from None


def _elsewhere(value: Any, name: str) -> str:
    """What the language has for a name that modules, arrays or lists of Python have; nothing if nothing is known."""
    if isinstance(value, tensor):
        return method(name)
    if isinstance(value, types.ModuleType):
        return language_function(name)
    if is_tuple(value) and name in ("append", "extend", "insert"):
        return "a list in a kernel is a tuple, which does not change: write items = items + (x,), in a loop over " \
               "tl.static_range"
    return ""


def _kind(value: Any) -> str:
    if isinstance(value, tensor):
        return f"a tensor ({type_name(value)})"
    if isinstance(value, types.ModuleType):
        return f"module {value.__name__}"
    if is_tuple(value):
        fields = getattr(value, "fields", None)
        return f"a tuple with the fields {', '.join(fields)}" if fields else "a tuple"
    return f"{value!r}" if value is None else f"{type(value).__name__} {getattr(value, '__name__', value)}"
