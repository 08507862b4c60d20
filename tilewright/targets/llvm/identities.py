"""Numbers that change nothing when a reduction's region combines them with another.

With one, accumulators need no first element, and what is no part of a tile can take part in its reduction.
Tests: tests/conform/test_reduce.py.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

import numpy as np

from tilewright.ir import fp
from tilewright.ir.node import Op
from tilewright.ir.types import Scalar, element_of
from tilewright.targets.llvm import convert
from tilewright.targets.llvm.types import Value, constant

# Bit for bit, for regions of one op (floats: max_f ignores a NaN, -0 + x is x).
_IDENTITIES: Mapping[str, Callable[[Scalar], float]] = {
    "add": lambda t: 0, "or": lambda t: 0, "xor": lambda t: 0, "and": lambda t: -1, "mul": lambda t: 1,
    "max_s": lambda t: -(1 << (t.bits - 1)), "min_s": lambda t: (1 << (t.bits - 1)) - 1, "max_u": lambda t: 0,
    "min_u": lambda t: -1, "add_f": lambda t: -0.0, "mul_f": lambda t: 1.0, "max_f": lambda t: math.nan,
    "min_f": lambda t: math.nan, "max_nan_f": lambda t: -math.inf, "min_nan_f": lambda t: math.inf,
}


def identity_of(op: Op) -> float | None:
    """The number that changes nothing in a `reduce`, if its region is one op that has one."""
    region, element = op.regions[0], element_of(op.operands[0].type)
    body = region.ops
    if len(body) != 2 or body[0].name not in _IDENTITIES or set(body[0].operands) != set(region.args) or (
            body[1].operands != body[0].results):
        return None
    assert isinstance(element, Scalar)
    return _IDENTITIES[body[0].name](element)


def identity_constant(op: Op, lanes: int = 0) -> Value | None:
    """The same in register form, in `lanes` lanes (0: a scalar)."""
    number, element = identity_of(op), element_of(op.operands[0].type)
    if number is None:
        return None
    assert isinstance(element, Scalar)
    t = convert.register_type(element, lanes)
    if element.is_float and not t.is_float:
        (number,) = fp.encode(np.array([number]), element).tolist()
    return constant(t, number)
