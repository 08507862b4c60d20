"""Elementary functions as inline LLVM text, on scalars and vectors of f32 and f64.

`emit(f, name, x)` writes the function of the op row `name`; `FUNCTIONS` lists them.  No library is called, so that
results do not depend on the system and a vector stays in registers.  The bounds are those of the op table, with and
without FMA.  The polynomials' coefficients come from tools/fit_math.py.  Tests: tests/targets/llvm/test_mathlib.py.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from tilewright.targets.llvm.mathlib.exponential import exp, exp2
from tilewright.targets.llvm.mathlib.logarithm import log, log2
from tilewright.targets.llvm.mathlib.roots import ceil, floor, rsqrt, sqrt, truncate
from tilewright.targets.llvm.mathlib.sigmoidal import erf, tanh
from tilewright.targets.llvm.mathlib.trigonometric import cos, sin
from tilewright.targets.llvm.text import FunctionWriter
from tilewright.targets.llvm.types import Value

__all__ = ["FUNCTIONS", "emit", "truncate"]

FUNCTIONS: Mapping[str, Callable[[FunctionWriter, Value], Value]] = {
    "exp": exp, "exp2": exp2, "log": log, "log2": log2, "sin": sin, "cos": cos, "tanh": tanh, "erf": erf,
    "sqrt": sqrt, "sqrt_rn": sqrt, "rsqrt": rsqrt, "floor": floor, "ceil": ceil,
}


def emit(f: FunctionWriter, name: str, x: Value) -> Value:
    """The function `name` of `x`, a float or double or a vector of them."""
    return FUNCTIONS[name](f, x)
