"""`constexpr`: a value known when the kernel is compiled.

Arithmetic of constexprs is Python's (`-7 // 2 == -4`) and gives constexprs.  In an operation with a tensor, a
constexpr is a weak literal (`promotion.py`).  As an annotation, `tl.constexpr` marks a compile-time parameter.
Tests: tests/lang/test_constexpr.py.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from typing import Any

from tilewright.language.types import base_type


class constexpr_type(base_type):
    """The type of a constexpr: its value."""

    def __init__(self, value: Any) -> None:
        self.value = value

    def mangle(self) -> str:
        return f"c{self.value!r}"

    def __eq__(self, other: object) -> bool:
        return (isinstance(other, constexpr_type) and type(self.value) is type(other.value)
                and bool(self.value == other.value))

    def __hash__(self) -> int:
        return hash((type(self.value), self.value))

    def __repr__(self) -> str:
        return f"constexpr_type[{self.value}]"


def unwrap(value: Any) -> Any:
    """The Python value of a constexpr; any other value as it is."""
    return value.value if isinstance(value, constexpr) else value


def _is_run_time(value: Any) -> bool:
    """Whether `value` is a tensor, which then has the say in a mixed operation."""
    return hasattr(value, "handle") and hasattr(value, "builder")


def _binary(function: Callable[[Any, Any], Any]) -> Callable[[constexpr, Any], Any]:
    def method(self: constexpr, other: Any) -> Any:
        if _is_run_time(other):
            return NotImplemented
        return constexpr(function(self.value, unwrap(other)))

    return method


def _reflected(function: Callable[[Any, Any], Any]) -> Callable[[constexpr, Any], Any]:
    def method(self: constexpr, other: Any) -> Any:
        return constexpr(function(unwrap(other), self.value))

    return method


class constexpr:
    """A compile-time value: `tl.constexpr(4)`.  `.value` is the Python value; other names are the value's own."""

    value: Any

    def __init__(self, value: Any) -> None:
        self.value = unwrap(value)

    @property
    def type(self) -> constexpr_type:
        return constexpr_type(self.value)

    def __repr__(self) -> str:
        return f"constexpr[{self.value}]"

    def __hash__(self) -> int:
        return hash((constexpr, type(self.value), self.value))

    def __bool__(self) -> bool:
        return bool(self.value)

    def __index__(self) -> int:
        return operator.index(self.value)

    def __int__(self) -> int:
        return int(self.value)

    def __float__(self) -> float:
        return float(self.value)

    def __len__(self) -> int:
        return len(self.value)

    def __iter__(self) -> Iterator[Any]:
        return iter(self.value)

    def __getitem__(self, index: Any) -> Any:
        return self.value[unwrap(index)]

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.value(*args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or name == "value":
            raise AttributeError(name)
        return getattr(self.value, name)

    __add__, __radd__ = _binary(operator.add), _reflected(operator.add)
    __sub__, __rsub__ = _binary(operator.sub), _reflected(operator.sub)
    __mul__, __rmul__ = _binary(operator.mul), _reflected(operator.mul)
    __truediv__, __rtruediv__ = _binary(operator.truediv), _reflected(operator.truediv)
    __floordiv__, __rfloordiv__ = _binary(operator.floordiv), _reflected(operator.floordiv)
    __mod__, __rmod__ = _binary(operator.mod), _reflected(operator.mod)
    __pow__, __rpow__ = _binary(operator.pow), _reflected(operator.pow)
    __and__, __rand__ = _binary(operator.and_), _reflected(operator.and_)
    __or__, __ror__ = _binary(operator.or_), _reflected(operator.or_)
    __xor__, __rxor__ = _binary(operator.xor), _reflected(operator.xor)
    __lshift__, __rlshift__ = _binary(operator.lshift), _reflected(operator.lshift)
    __rshift__, __rrshift__ = _binary(operator.rshift), _reflected(operator.rshift)
    __lt__, __gt__ = _binary(operator.lt), _binary(operator.gt)
    __le__, __ge__ = _binary(operator.le), _binary(operator.ge)

    def __eq__(self, other: Any) -> Any:
        return NotImplemented if _is_run_time(other) else constexpr(self.value == unwrap(other))

    def __ne__(self, other: Any) -> Any:
        return NotImplemented if _is_run_time(other) else constexpr(self.value != unwrap(other))

    def __neg__(self) -> constexpr:
        return constexpr(-self.value)

    def __pos__(self) -> constexpr:
        return constexpr(+self.value)

    def __invert__(self) -> constexpr:
        return constexpr(~self.value)

    def __not__(self) -> constexpr:
        return constexpr(not self.value)

    def logical_and(self, other: Any) -> constexpr:
        return constexpr(self.value and unwrap(other))

    def logical_or(self, other: Any) -> constexpr:
        return constexpr(self.value or unwrap(other))
