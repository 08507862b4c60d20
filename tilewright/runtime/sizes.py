"""Small functions on sizes, for grids and compile-time values.  Tests: tests/runtime/test_face.py."""

from __future__ import annotations

from operator import index
from typing import Any

from tilewright.language.ceiling import cdiv
from tilewright.language.function import ConstexprFunction

__all__ = ["cdiv", "constexpr_function", "next_power_of_2"]


def _next_power_of_2(n: int) -> int:
    """The smallest power of two that is not below n (1 for n <= 1)."""
    try:
        return 1 << max(0, index(n) - 1).bit_length()
    except TypeError:
        raise TypeError(f"next_power_of_2 takes a whole number, not {n!r} of type {type(n).__name__}; use // or "
                        "triton.cdiv for a division") from None


def constexpr_function(fn: Any) -> ConstexprFunction:
    """Let kernels call a plain Python function with compile-time values: `@constexpr_function`."""
    return ConstexprFunction(fn)


_next_power_of_2.__name__ = _next_power_of_2.__qualname__ = "next_power_of_2"
next_power_of_2 = constexpr_function(_next_power_of_2)


def must_use_result(x: Any, s: bool = True) -> Any:
    """Mark a function whose result has to be used; here nobody looks at the mark."""
    if isinstance(x, str):
        return lambda fn: must_use_result(fn, True)
    x._must_use_result = s
    return x
