"""Elementary functions on f32 and f64.

`ref` computes in float64 and rounds once, so f32 is correctly rounded but for cases within 2**-29 ulp of a tie; the
bounds are those of docs/design.md, Numbers.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from tilewright.ir.ops.rules import on_floats, require, same_types
from tilewright.ir.ops.table import EXACT, TABLE, Array, ErrorBound, Operand, OpRow
from tilewright.ir.types import F32, F64, Type, element_of

if TYPE_CHECKING:
    from tilewright.ir.node import Block


def _infer_f32_f64(types: Sequence[Type], attrs: Mapping[str, Any], regions: Sequence[Block]) -> tuple[Type, ...]:
    require(len(types) == 1, f"takes one operand, not {len(types)}")
    t = same_types(types, "float")
    require(element_of(t) in (F32, F64), f"works on f32 and f64, not {element_of(t)}")
    return (t,)


def _math(name: str, function: Callable[[Array], Array], doc: str, bound: ErrorBound, source: str = "C11 7.12",
          template: str | None = None) -> None:
    TABLE.add(OpRow(name, (Operand("x"),), _infer_f32_f64, on_floats(function), doc, source, elementwise=True,
                    bound=bound, template=template))


def _erf(x: Array) -> Array:
    """erf in float64: the C library's through `math.erf`, an element at a time."""
    return np.asarray(np.vectorize(math.erf, otypes=[np.float64])(x)) if x.size else x


_IEEE = "IEEE 754-2019 5.9, 5.4.1"
_math("floor", np.floor, "greatest integer <= x", EXACT, _IEEE, "call {t} @llvm.floor.{s}({t} {0})")
_math("ceil", np.ceil, "least integer >= x", EXACT, _IEEE, "call {t} @llvm.ceil.{s}({t} {0})")
_math("sqrt_rn", np.sqrt, "square root, correctly rounded", EXACT, _IEEE, "call {t} @llvm.sqrt.{s}({t} {0})")
_math("sqrt", np.sqrt, "square root (PTX sqrt.approx)", ErrorBound(ulp=1), "PTX ISA sqrt",
      "call {t} @llvm.sqrt.{s}({t} {0})")
_math("rsqrt", lambda x: 1.0 / np.sqrt(x), "1 / sqrt(x)", ErrorBound(ulp=2), "PTX ISA rsqrt")
_math("exp", np.exp, "e**x", ErrorBound(ulp=1))
_math("exp2", np.exp2, "2**x", ErrorBound(ulp=1))
_math("log", np.log, "natural logarithm", ErrorBound(ulp=1))
_math("log2", np.log2, "logarithm to base 2", ErrorBound(ulp=1))
_math("sin", np.sin, "sine, |x| <= 2**20", ErrorBound(ulp=2))
_math("cos", np.cos, "cosine, |x| <= 2**20", ErrorBound(ulp=2))
_math("tanh", np.tanh, "hyperbolic tangent", ErrorBound(ulp=2))
_math("erf", _erf, "error function", ErrorBound(ulp=2))
