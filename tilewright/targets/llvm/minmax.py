"""Float maximum and minimum with the op table's bits: -0 < +0, and NaN ignored or propagated.

LLVM 22 lowers its IEEE intrinsics to about six instructions a vector on AVX-512 and AVX2, and to no call anywhere.
On AVX-512 `vrangeps` does it in one, after a product with 1 has made NaNs quiet that may not be so.  With a constant
operand one instruction does: `select(x > c, x, c)` is x86's vmaxps, which gives its second operand on a NaN and on
equal zeros.
Tests: tests/targets/llvm/test_minmax.py.
"""

from __future__ import annotations

import math

from tilewright.targets.llvm import avx512
from tilewright.targets.llvm.text import FunctionWriter
from tilewright.targets.llvm.types import Value, float_value

_INTRINSICS = {"max_f": "maximumnum", "min_f": "minimumnum", "max_nan_f": "maximum", "min_nan_f": "minimum"}
_RANGES = {"max_f": avx512.MAXIMUM, "min_f": avx512.MINIMUM}
_COMPARES = {"max_f": "ogt", "min_f": "olt", "max_nan_f": "ugt", "min_nan_f": "ult"}


def emit(f: FunctionWriter, name: str, a: Value, b: Value) -> Value:
    """The op row `name` on floats or doubles."""
    if float_value(b) is None:
        a, b = b, a
    limit = float_value(b)
    if limit is not None and not math.isnan(limit) and not _wrong_zero(name, limit):
        return f.select(f.fcmp(_COMPARES[name], a, b), a, b)
    if name in _RANGES and avx512.serves(f, a.type):
        quiet_a, quiet_b = (v if f.is_quiet(v) else f.unary_intrinsic("canonicalize", v) for v in (a, b))
        return f.note_quiet(avx512.select_by_size(f, quiet_a, quiet_b, _RANGES[name]))
    if name in ("max_f", "min_f") and a.type.lanes == 0:
        a, b = _without_nan(f, a, b)
    return f.binary_intrinsic(_INTRINSICS[name], a, b)


def _without_nan(f: FunctionWriter, a: Value, b: Value) -> tuple[Value, Value]:
    """Each operand, or the other one where it is a NaN.

    LLVM 22 on x86 gives a NaN for a scalar `maximumnum` or `minimumnum` of a NaN and a value that it knows to be none
    (converted from an integer, say); vectors are right.
    """
    a = f.select(f.fcmp("uno", a, a), b, a)
    return a, f.select(f.fcmp("uno", b, b), a, b)


def _wrong_zero(name: str, limit: float) -> bool:
    """Whether the limit is the zero that must give way to the other one, which compares equal."""
    return limit == 0 and (math.copysign(1.0, limit) < 0) == name.startswith("max")
