"""Elementary functions as inline LLVM text, on scalars and vectors of f32 and f64.

`emit(f, name, *args)` writes the function of the op row `name`; `FUNCTIONS` lists those of one operand, `BINARY`
those of two.  No library is called, so that
results do not depend on the system and a vector stays in registers.  The bounds are those of the op table, with and
without FMA.  The polynomials' coefficients come from tools/fit_math.py.  Tests: tests/targets/llvm/test_mathlib.py.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from tilewright.targets.llvm import avx512
from tilewright.targets.llvm.mathlib import exp_parts
from tilewright.targets.llvm.mathlib.exponential import exp, exp2
from tilewright.targets.llvm.mathlib.hyperbolic import acosh, asinh, atanh, cosh, sinh, tan
from tilewright.targets.llvm.mathlib.inverse import acos, asin, atan, atan2
from tilewright.targets.llvm.mathlib.logarithm import log, log1p_single, log2
from tilewright.targets.llvm.mathlib.power import exp10, expm1, expm1_single, log1p, log10, pow
from tilewright.targets.llvm.mathlib.roots import cbrt, ceil, floor, hypot, rsqrt, sqrt, truncate
from tilewright.targets.llvm.mathlib.sigmoidal import erf, tanh
from tilewright.targets.llvm.mathlib.trigonometric import cos, sin
from tilewright.targets.llvm.mathlib.wide import by_width, through_double
from tilewright.targets.llvm.text import FunctionWriter
from tilewright.targets.llvm.types import Type, Value

_LEAST_BITS = 128       # of the smallest vector registers

__all__ = ["BINARY", "FUNCTIONS", "emit", "truncate"]

FUNCTIONS: Mapping[str, Callable[[FunctionWriter, Value], Value]] = {
    "exp": exp, "exp2": exp2, "log": log, "log2": log2, "sin": sin, "cos": cos, "tanh": tanh, "erf": erf,
    "sqrt": sqrt, "sqrt_rn": sqrt, "rsqrt": rsqrt, "floor": floor, "ceil": ceil,
    **{function.__name__: through_double(function) for function in (
        acos, acosh, asin, asinh, atan, atanh, cbrt, cosh, exp10, log10, sinh, tan)},
    "expm1": by_width(expm1_single, expm1), "log1p": by_width(log1p_single, log1p),
}
BINARY: Mapping[str, Callable[[FunctionWriter, Value, Value], Value]] = {
    function.__name__: through_double(function) for function in (atan2, hypot, pow)}


def emit(f: FunctionWriter, name: str, *args: Value) -> Value:
    """The function `name` of floats or doubles, or of vectors of them."""
    function: Callable[..., Value] = FUNCTIONS[name] if name in FUNCTIONS else BINARY[name]
    if name in ("exp", "exp2") and not args[0].type.lanes and not exp_parts.serves(f, args[0].type):
        whole = Type(args[0].type.element, _LEAST_BITS // args[0].type.bits)
        if avx512.serves(f, whole):     # in a register of one number it has no form that is as short
            return f.extract(function(f, f.splat(args[0], whole.lanes)), 0)
    return function(f, *args)
