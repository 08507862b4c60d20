"""Elementary functions on f32 and f64.

`ref` computes in float64 and rounds once, so f32 is correctly rounded but for cases within 2**-28 ulp of a tie.  For
f64 it computes in the C library's long double, which has 64 or 113 bits on Linux (error below 0.51 ulp); where that
is float64 itself (Windows, Arm macOS), and for erf, the f64 meaning is within 1 ulp.  The bounds for engines are
those of docs/design.md, Numbers.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from tilewright.ir import fp
from tilewright.ir.ops.rules import on_floats, require, same_types, scalar_element
from tilewright.ir.ops.table import EXACT, TABLE, Array, Call, ErrorBound, Operand, OpRow, RefRule
from tilewright.ir.types import F32, F64, Type, element_of

if TYPE_CHECKING:
    from tilewright.ir.node import Block


def _infer_f32_f64(types: Sequence[Type], attrs: Mapping[str, Any], regions: Sequence[Block]) -> tuple[Type, ...]:
    t = same_types(types, "float")
    require(element_of(t) in (F32, F64), f"works on f32 and f64, not {element_of(t)}")
    return (t,)


def _rounded(function: Callable[..., Array]) -> RefRule:
    """`function` in a wider format than the operands', rounded once."""

    def ref(call: Call) -> tuple[Array, ...]:
        t = scalar_element(call.types[0])
        given = [fp.decode(a, t) for a in call.args]
        with np.errstate(all="ignore"):
            y = function(*(x.astype(np.longdouble) if t == F64 else x for x in given))
            return (fp.encode(y.astype(np.float64), t),)

    return ref


def _math(name: str, ref: RefRule, doc: str, bound: ErrorBound, source: str = "C11 7.12",
          template: str | None = None, domain: Callable[[Call], Array] | None = None,
          operands: tuple[str, ...] = ("x",)) -> None:
    TABLE.add(OpRow(name, tuple(map(Operand, operands)), _infer_f32_f64, ref, doc, source, elementwise=True,
                    bound=bound, template=template, domain=domain))


def _erf(x: Array) -> Array:
    """erf in float64: the C library's through `math.erf`, an element at a time."""
    return np.asarray(np.vectorize(math.erf, otypes=[np.float64])(x.astype(np.float64)))


def _power(x: Array, y: Array) -> Array:
    """x**y; of 0 and infinity in float64, since a wider C library errs there ((-inf)**-2**63 in glibc 2.36)."""
    ends = np.power(x.astype(np.float64), y.astype(np.float64))
    return np.where(np.isfinite(x) & (x != 0), np.power(x, y), ends)


def _not_huge(call: Call) -> Array:
    """Where sine and cosine are bounded; beyond, the reduction of the argument may cost an engine all digits."""
    x = fp.decode(call.args[0], scalar_element(call.types[0]))
    return np.asarray((np.abs(x) <= 2.0**20) | ~np.isfinite(x))


_IEEE = "IEEE 754-2019 5.9, 5.4.1"
_math("floor", on_floats(np.floor), "greatest integer <= x", EXACT, _IEEE, "call {t} @llvm.floor.{s}({t} {0})")
_math("ceil", on_floats(np.ceil), "least integer >= x", EXACT, _IEEE, "call {t} @llvm.ceil.{s}({t} {0})")
_math("sqrt_rn", on_floats(np.sqrt), "square root, correctly rounded", EXACT, _IEEE, "call {t} @llvm.sqrt.{s}({t} {0})")
_math("sqrt", on_floats(np.sqrt), "square root (PTX sqrt.approx)", ErrorBound(ulp=1), "PTX ISA sqrt",
      "call {t} @llvm.sqrt.{s}({t} {0})")
_math("rsqrt", _rounded(lambda x: 1.0 / np.sqrt(x)), "1 / sqrt(x)", ErrorBound(ulp=2), "PTX ISA rsqrt")
_math("exp", _rounded(np.exp), "e**x", ErrorBound(ulp=1))
_math("exp2", _rounded(np.exp2), "2**x", ErrorBound(ulp=1))
_math("log", _rounded(np.log), "natural logarithm", ErrorBound(ulp=1))
_math("log2", _rounded(np.log2), "logarithm to base 2", ErrorBound(ulp=1))
_math("sin", _rounded(np.sin), "sine, |x| <= 2**20", ErrorBound(ulp=2), domain=_not_huge)
_math("cos", _rounded(np.cos), "cosine, |x| <= 2**20", ErrorBound(ulp=2), domain=_not_huge)
_math("tanh", _rounded(np.tanh), "hyperbolic tangent", ErrorBound(ulp=2))
_math("erf", _rounded(_erf), "error function", ErrorBound(ulp=2))
_math("tan", _rounded(np.tan), "tangent, |x| <= 2**20", ErrorBound(ulp=4), domain=_not_huge)
_math("asin", _rounded(np.arcsin), "arc sine", ErrorBound(ulp=2))
_math("acos", _rounded(np.arccos), "arc cosine", ErrorBound(ulp=2))
_math("atan", _rounded(np.arctan), "arc tangent", ErrorBound(ulp=2))
_math("sinh", _rounded(np.sinh), "hyperbolic sine", ErrorBound(ulp=3))
_math("cosh", _rounded(np.cosh), "hyperbolic cosine", ErrorBound(ulp=3))
_math("asinh", _rounded(np.arcsinh), "inverse hyperbolic sine", ErrorBound(ulp=4))
_math("acosh", _rounded(np.arccosh), "inverse hyperbolic cosine", ErrorBound(ulp=4))
_math("atanh", _rounded(np.arctanh), "inverse hyperbolic tangent", ErrorBound(ulp=4))
_math("exp10", _rounded(lambda x: np.power(x.dtype.type(10), x)), "10**x", ErrorBound(ulp=2))
_math("expm1", _rounded(np.expm1), "e**x - 1", ErrorBound(ulp=2))
_math("log10", _rounded(np.log10), "logarithm to base 10", ErrorBound(ulp=2))
_math("log1p", _rounded(np.log1p), "log(1 + x)", ErrorBound(ulp=2))
_math("cbrt", _rounded(np.cbrt), "cube root", ErrorBound(ulp=2))
_math("pow", _rounded(_power), "x**y", ErrorBound(ulp=4), operands=("x", "y"))
_math("atan2", _rounded(np.arctan2), "angle of the point (x, y)", ErrorBound(ulp=3), operands=("y", "x"))
_math("hypot", _rounded(np.hypot), "sqrt(x*x + y*y)", ErrorBound(ulp=2), operands=("x", "y"))
