"""`cdiv` for grids and compile-time values (`tl.cdiv` is the one for tensors).  Tests: tests/runtime/test_face.py."""

from __future__ import annotations

from typing import Any


def cdiv(x: Any, y: Any) -> Any:
    """x / y, rounded up, for y > 0; also of a negative x (so `cdiv(-36, 5)` is -7).

    A plain function, since grids call it at every launch; kernels may call plain functions of the language.
    """
    return (x + y - 1) // y     # CPython takes less time for this than for -(-x // y)
