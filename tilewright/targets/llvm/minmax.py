"""Float maximum and minimum with the op table's bits: -0 < +0, and NaN ignored or propagated.

LLVM 22 lowers its IEEE intrinsics to about six instructions a vector on AVX-512 and AVX2, and to no call anywhere;
on x86 not all of its code for those that ignore NaNs is right, so they are written out (`_by_compares`).  On AVX-512
`vrangeps` does it in one, after a product with 1 has made NaNs quiet that may not be so.  With a constant operand one
instruction does: `select(x > c, x, c)` is x86's vmaxps, which gives its second operand on a NaN and on equal zeros.
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
    if name in _RANGES and not f.isa.number_extrema:
        return _by_compares(f, name, a, b)
    return f.binary_intrinsic(_INTRINSICS[name], a, b)


def _by_compares(f: FunctionWriter, name: str, a: Value, b: Value) -> Value:
    """`maximumnum` or `minimumnum` of what compares greater or less, as many instructions as LLVM's own on AVX2.

    LLVM 22 on x86 gives a NaN for these of a NaN and a value that it knows to be none: one converted from an integer,
    or a lane of a vector with constants in its other lanes.
    """
    chosen = f.select(f.fcmp(_COMPARES[name], a, b), a, b)      # b if they are equal, or one is a NaN
    chosen = f.select(f.fcmp("uno", b, b), a, chosen)
    bits = a.type.of(f"i{a.type.bits}")
    both = f.op("and" if name == "max_f" else "or", f.cast("bitcast", a, bits), f.cast("bitcast", b, bits))
    return f.select(f.fcmp("oeq", a, b), f.cast("bitcast", both, a.type), chosen)      # zeros of either sign


def _wrong_zero(name: str, limit: float) -> bool:
    """Whether the limit is the zero that must give way to the other one, which compares equal."""
    return limit == 0 and (math.copysign(1.0, limit) < 0) == name.startswith("max")
