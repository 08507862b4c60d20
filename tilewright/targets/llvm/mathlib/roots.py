"""sqrt, rsqrt, floor, ceil: what machines have, and what they lack written out.  Tests: test_mathlib.py."""

from __future__ import annotations

from tilewright.targets.llvm.mathlib.kit import MANTISSA, magnitude, number, with_sign_of
from tilewright.targets.llvm.text import FunctionWriter
from tilewright.targets.llvm.types import Value


def sqrt(f: FunctionWriter, x: Value) -> Value:
    """Correctly rounded."""
    return f.unary_intrinsic("sqrt", x)


def rsqrt(f: FunctionWriter, x: Value) -> Value:
    """1 / sqrt(x): two roundings, at most 1.5 ulp; +-0 gives +-inf."""
    return f.op("fdiv", number(x, 1.0), sqrt(f, x))


def floor(f: FunctionWriter, x: Value) -> Value:
    return f.unary_intrinsic("floor", x) if f.isa.round else _rounded(f, x, "ogt", -1.0)


def ceil(f: FunctionWriter, x: Value) -> Value:
    return f.unary_intrinsic("ceil", x) if f.isa.round else _rounded(f, x, "olt", 1.0)


def truncate(f: FunctionWriter, x: Value) -> Value:
    """Toward zero."""
    if f.isa.round:
        return f.unary_intrinsic("trunc", x)
    a = magnitude(f, x)
    return with_sign_of(f, _rounded(f, a, "ogt", -1.0), x)


def _rounded(f: FunctionWriter, x: Value, wrong: str, step: float) -> Value:
    """The nearest integer, moved by `step` where it lies on the wrong side of x; large numbers are integers."""
    large = number(x, 2.0 ** MANTISSA[x.type.element])
    a = magnitude(f, x)
    nearest = with_sign_of(f, f.op("fsub", f.op("fadd", a, large), large), x)
    moved = f.op("fadd", nearest, number(x, step))
    whole = f.select(f.fcmp(wrong, nearest, x), moved, nearest)
    return f.select(f.fcmp("olt", a, large), with_sign_of(f, whole, x), x)
