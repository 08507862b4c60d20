"""Float maximum and minimum with the op table's bits: -0 < +0, and NaN ignored or propagated.

Tests: tests/targets/llvm/test_minmax.py.
"""

from __future__ import annotations

from tilewright.targets.llvm.text import FunctionWriter
from tilewright.targets.llvm.types import Value

_INTRINSICS = {"max_f": "maximumnum", "min_f": "minimumnum", "max_nan_f": "maximum", "min_nan_f": "minimum"}


def emit(f: FunctionWriter, name: str, a: Value, b: Value) -> Value:
    """The op row `name` on floats or doubles."""
    return f.binary_intrinsic(_INTRINSICS[name], a, b)
