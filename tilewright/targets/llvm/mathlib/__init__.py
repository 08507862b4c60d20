"""Elementary functions as inline LLVM text, on scalars and vectors of f32 and f64.

`emit(f, name, *args)` writes the function of the op row `name`; `FUNCTIONS` lists those of one operand, `BINARY`
those of two.  No library is called, so that
results do not depend on the system and a vector stays in registers.  The bounds are those of the op table, with and
without FMA.  f32 is computed in f32 (but without FMA pow, exp10 and the reduction of angles), where one number
has too few digits as a sum of two.  The polynomials' coefficients come from tools/fit_math.py.
Tests: tests/targets/llvm/test_mathlib.py.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from tilewright.targets.llvm import avx512
from tilewright.targets.llvm.mathlib import exp_parts
from tilewright.targets.llvm.mathlib.exponential import exp, exp2, exp10_single
from tilewright.targets.llvm.mathlib.hyperbolic import acosh, asinh, atanh, cosh, sinh, tan
from tilewright.targets.llvm.mathlib.hyperbolic_single import (
    acosh_single,
    asinh_single,
    atanh_single,
    cosh_single,
    sinh_single,
)
from tilewright.targets.llvm.mathlib.inverse import acos, asin, atan, atan2
from tilewright.targets.llvm.mathlib.inverse_single import acos_single, asin_single, atan2_single, atan_single
from tilewright.targets.llvm.mathlib.logarithm import log, log1p_single, log2, log10_single
from tilewright.targets.llvm.mathlib.power import exp10, expm1, expm1_single, log1p, log10, pow
from tilewright.targets.llvm.mathlib.power_single import pow_single
from tilewright.targets.llvm.mathlib.roots import cbrt, cbrt_single, ceil, floor, hypot, rsqrt, sqrt, truncate
from tilewright.targets.llvm.mathlib.sigmoidal import erf, tanh
from tilewright.targets.llvm.mathlib.trigonometric import cos, sin, tan_single
from tilewright.targets.llvm.mathlib.wide import by_width, fused
from tilewright.targets.llvm.text import FunctionWriter
from tilewright.targets.llvm.types import Type, Value

_LEAST_BITS = 128       # of the smallest vector registers

__all__ = ["BINARY", "FUNCTIONS", "emit", "truncate"]

FUNCTIONS: Mapping[str, Callable[[FunctionWriter, Value], Value]] = {
    "exp": exp, "exp2": exp2, "log": log, "log2": log2, "sin": sin, "cos": cos, "tanh": tanh, "erf": erf,
    "sqrt": sqrt, "sqrt_rn": sqrt, "rsqrt": rsqrt, "floor": floor, "ceil": ceil,
    "acos": by_width(acos_single, acos), "asin": by_width(asin_single, asin), "atan": by_width(atan_single, atan),
    "acosh": by_width(acosh_single, acosh), "asinh": by_width(asinh_single, asinh),
    "atanh": by_width(atanh_single, atanh), "cosh": by_width(cosh_single, cosh), "sinh": by_width(sinh_single, sinh),
    "tan": by_width(tan_single, tan), "cbrt": by_width(cbrt_single, cbrt), "exp10": fused(exp10_single, exp10),
    "expm1": by_width(expm1_single, expm1), "log1p": by_width(log1p_single, log1p),
    "log10": by_width(log10_single, log10),
}
BINARY: Mapping[str, Callable[[FunctionWriter, Value, Value], Value]] = {
    "atan2": by_width(atan2_single, atan2), "hypot": hypot, "pow": fused(pow_single, pow),
}


def emit(f: FunctionWriter, name: str, *args: Value) -> Value:
    """The function `name` of floats or doubles, or of vectors of them."""
    function: Callable[..., Value] = FUNCTIONS[name] if name in FUNCTIONS else BINARY[name]
    if name in ("exp", "exp2") and not args[0].type.lanes and not exp_parts.serves(f, args[0].type):
        whole = Type(args[0].type.element, _LEAST_BITS // args[0].type.bits)
        if avx512.serves(f, whole):     # in a register of one number it has no form that is as short
            return f.extract(function(f, f.splat(args[0], whole.lanes)), 0)
    return function(f, *args)
