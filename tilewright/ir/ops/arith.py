"""Integer and float arithmetic, bit operations, select.

Integers wrap (two's complement).  Undefined are only x/0, INT_MIN / -1 and shifts by the width or more: they give
*some* value, never a trap; `domain` says where a result is defined.  Division truncates toward zero and the remainder
has the sign of the dividend (C11 6.5.5).  i1 takes part in and/or/xor and add/sub/mul (modulo 2) only.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

import numpy as np

from tilewright.ir import fp
from tilewright.ir.ops.rules import (
    elementwise,
    on_arrays,
    on_floats,
    on_unsigned,
    require,
    scalar_element,
    unsigned,
)
from tilewright.ir.ops.table import (
    EXACT,
    TABLE,
    Algebra,
    Array,
    Call,
    ErrorBound,
    Operand,
    OpRow,
    RefRule,
    Template,
)
from tilewright.ir.types import I1, Type, element_of, shape_of

_LHS_RHS = (Operand("lhs"), Operand("rhs"))
_COMMUTES = Algebra.COMMUTATIVE
_RING = Algebra.COMMUTATIVE | Algebra.ASSOCIATIVE
_LATTICE = Algebra.COMMUTATIVE | Algebra.ASSOCIATIVE | Algebra.IDEMPOTENT
_LLVM = "LLVM LangRef"


def _binary(name: str, kind: str, ref: RefRule, doc: str, source: str = _LLVM, template: Template = None,
            algebra: Algebra = Algebra.NONE, domain: Callable[[Call], Array] | None = None,
            bound: ErrorBound = EXACT) -> None:
    TABLE.add(OpRow(name, _LHS_RHS, elementwise(2, kind), ref, doc, source, elementwise=True, template=template,
                    algebra=algebra, domain=domain, bound=bound))


def _unary(name: str, kind: str, ref: RefRule, doc: str, source: str = _LLVM, template: Template = None,
           bound: ErrorBound = EXACT) -> None:
    TABLE.add(OpRow(name, (Operand("x"),), elementwise(1, kind), ref, doc, source, elementwise=True,
                    template=template, bound=bound))


def _bits(i1: np.ufunc, other: np.ufunc) -> RefRule:
    return on_arrays(lambda a, b: i1(a, b) if a.dtype == np.bool_ else other(a, b))


_binary("add", "int", _bits(np.logical_xor, np.add), "a + b, wrapping", template="add {t} {0}, {1}", algebra=_RING)
_binary("sub", "int", _bits(np.logical_xor, np.subtract), "a - b, wrapping", template="sub {t} {0}, {1}")
_binary("mul", "int", _bits(np.logical_and, np.multiply), "a * b, wrapping", template="mul {t} {0}, {1}",
        algebra=_RING)
_binary("and", "int", on_arrays(np.bitwise_and), "a & b", template="and {t} {0}, {1}", algebra=_LATTICE)
_binary("or", "int", on_arrays(np.bitwise_or), "a | b", template="or {t} {0}, {1}", algebra=_LATTICE)
_binary("xor", "int", on_arrays(np.bitwise_xor), "a ^ b", template="xor {t} {0}, {1}", algebra=_RING)


def _divisor_defined(call: Call) -> Array:
    a, b = call.args
    return np.asarray((b != 0) & ~((a == np.iinfo(a.dtype).min) & (b == -1)))


def _nonzero(call: Call) -> Array:
    return np.asarray(call.args[1] != 0)


def _div_s(a: Array, b: Array) -> Array:
    safe = np.where(b == 0, a.dtype.type(1), b)
    q = np.floor_divide(a, safe)
    inexact = np.remainder(a, safe) != 0
    negative = (a < 0) != (safe < 0)
    # INT_MIN / -1 wraps to INT_MIN; x / 0 gives 0
    q = np.where(inexact & negative, q + a.dtype.type(1), q)
    q = np.where(b == -1, np.negative(a), q)
    return np.where(b == 0, a.dtype.type(0), q).astype(a.dtype)


def _rem_s(a: Array, b: Array) -> Array:
    return np.where(b == 0, a, a - _div_s(a, b) * b).astype(a.dtype)


def _div_u(a: Array, b: Array) -> Array:
    return np.where(b == 0, a.dtype.type(0), a // np.where(b == 0, a.dtype.type(1), b)).astype(a.dtype)


def _rem_u(a: Array, b: Array) -> Array:
    return np.where(b == 0, a, a % np.where(b == 0, a.dtype.type(1), b)).astype(a.dtype)


_C11 = "C11 6.5.5; never traps: docs/design.md, Numbers"
_binary("div_s", "wide_int", on_arrays(_div_s), "signed quotient, truncated", _C11, domain=_divisor_defined)
_binary("div_u", "wide_int", on_unsigned(_div_u), "unsigned quotient", _C11, domain=_nonzero)
_binary("rem_s", "wide_int", on_arrays(_rem_s), "signed remainder, sign of the dividend", _C11,
        domain=_divisor_defined)
_binary("rem_u", "wide_int", on_unsigned(_rem_u), "unsigned remainder", _C11, domain=_nonzero)


def _shift_defined(call: Call) -> Array:
    return np.asarray(unsigned(call.args[1]) < 8 * call.args[1].itemsize)


def _shift(function: Callable[[Array, Array], Array]) -> Callable[[Array, Array], Array]:
    """Shift amounts are taken modulo the width, so that every engine gives one value."""
    return lambda a, b: function(a, b & b.dtype.type(8 * b.itemsize - 1))


_SHIFT = "LLVM LangRef; amount >= width undefined there, taken modulo the width here"
_binary("shl", "wide_int", on_unsigned(_shift(np.left_shift)), "a << b", _SHIFT, domain=_shift_defined)
_binary("shr_s", "wide_int", on_arrays(_shift(np.right_shift)), "a >> b, arithmetic", _SHIFT, domain=_shift_defined)
_binary("shr_u", "wide_int", on_unsigned(_shift(np.right_shift)), "a >> b, logical", _SHIFT, domain=_shift_defined)

for _name, _ref, _intrinsic in (("min_s", on_arrays(np.minimum), "smin"), ("max_s", on_arrays(np.maximum), "smax"),
                                ("min_u", on_unsigned(np.minimum), "umin"),
                                ("max_u", on_unsigned(np.maximum), "umax")):
    _binary(_name, "wide_int", _ref, f"integer {_name}", algebra=_LATTICE,
            template="call {t} @llvm." + _intrinsic + ".{s}({t} {0}, {t} {1})")


def _mulhi_u(a: Array, b: Array) -> Array:
    bits = a.dtype.itemsize * 8
    if bits < 64:
        return ((a.astype(np.uint64) * b.astype(np.uint64)) >> np.uint64(bits)).astype(a.dtype)
    half, low = np.uint64(32), np.uint64(0xFFFFFFFF)
    ah, al, bh, bl = a >> half, a & low, b >> half, b & low
    middle = ah * bl + ((al * bl) >> half)
    carry = al * bh + (middle & low)
    return np.asarray(ah * bh + (middle >> half) + (carry >> half))


_binary("mulhi_u", "wide_int", on_unsigned(_mulhi_u), "high half of the unsigned product", "PTX ISA mul.hi",
        algebra=_COMMUTES)
_unary("abs_s", "wide_int", on_arrays(np.abs), "|x|, INT_MIN stays",
       template="call {t} @llvm.abs.{s}({t} {0}, i1 false)")

_IEEE = "IEEE 754-2019 5.4.1"
_binary("add_f", "float", on_floats(np.add), "a + b", _IEEE, "fadd {t} {0}, {1}", _COMMUTES)
_binary("sub_f", "float", on_floats(np.subtract), "a - b", _IEEE, "fsub {t} {0}, {1}")
_binary("mul_f", "float", on_floats(np.multiply), "a * b", _IEEE, "fmul {t} {0}, {1}", _COMMUTES)
_binary("div_rn", "float", on_floats(np.divide), "a / b, correctly rounded", _IEEE, "fdiv {t} {0}, {1}")
_binary("div_f", "float", on_floats(np.divide), "a / b, within 2 ulp in f32 (PTX div.full)", "PTX ISA div",
        "fdiv {t} {0}, {1}", bound=ErrorBound(ulp=2))
_binary("rem_f", "float", on_floats(np.fmod), "C fmod, exact", "C11 7.12.10.1")


def _negate(call: Call) -> tuple[Array, ...]:
    (a,) = call.args
    integer = a if a.dtype.kind in "iu" else a.view(f"i{a.itemsize}")
    sign = integer.dtype.type(1) << integer.dtype.type(8 * a.itemsize - 1)
    return ((integer ^ sign).view(a.dtype),)


def _absolute(call: Call) -> tuple[Array, ...]:
    (a,) = call.args
    integer = a if a.dtype.kind == "u" else a.view(f"u{a.itemsize}")
    mask = integer.dtype.type((1 << (8 * a.itemsize - 1)) - 1)
    return ((integer & mask).view(a.dtype),)


_unary("neg_f", "float", _negate, "sign bit flipped", "IEEE 754-2019 5.5.1", "fneg {t} {0}")
_unary("abs_f", "float", _absolute, "sign bit cleared", "IEEE 754-2019 5.5.1")


def _ordered_max(a: Array, b: Array) -> Array:
    """maximum with -0 < +0, NaN not considered."""
    return np.where(a == b, np.where(np.signbit(a), b, a), np.where(a > b, a, b))


def _max_number(a: Array, b: Array) -> Array:
    return np.where(np.isnan(a), b, np.where(np.isnan(b), a, _ordered_max(a, b)))


def _max_propagating(a: Array, b: Array) -> Array:
    return np.where(np.isnan(a) | np.isnan(b), np.nan, _ordered_max(a, b))


_MAXIMUM = "IEEE 754-2019 9.6 with -0 < +0"
_binary("max_f", "float", on_floats(_max_number), "maximumNumber: a NaN operand is ignored", _MAXIMUM,
        algebra=_LATTICE)
_binary("min_f", "float", on_floats(lambda a, b: -_max_number(-a, -b)), "minimumNumber", _MAXIMUM, algebra=_LATTICE)
_binary("max_nan_f", "float", on_floats(_max_propagating), "maximum: NaN propagates", _MAXIMUM, algebra=_LATTICE)
_binary("min_nan_f", "float", on_floats(lambda a, b: -_max_propagating(-a, -b)), "minimum: NaN propagates", _MAXIMUM,
        algebra=_LATTICE)


def _fma64(a: Array, b: Array, c: Array) -> Array:
    """a*b + c rounded to odd in float64, for operands of at most 24 bits, so that a*b is exact in float64.

    Rounding to odd first makes the second rounding, to at most 24 bits, correct (Boldo and Melquiond, "Emulation of
    FMA and correctly rounded sums", 2008).
    """
    p = a * b
    s = p + c
    back = s - p
    error = (p - (s - back)) + (c - back)
    bits = s.view(np.int64)
    toward = np.where((error > 0) == (s > 0), 1, -1)
    odd = np.where((error != 0) & np.isfinite(s) & ((bits & 1) == 0), bits + toward, bits)
    return np.where(np.isfinite(s) & np.isfinite(error), odd.view(np.float64), s)


def _fma(call: Call) -> tuple[Array, ...]:
    t = scalar_element(call.result_types[0])
    with np.errstate(all="ignore"):
        a, b, c = (fp.decode(x, t) for x in call.args)
        if t.name == "f64":
            return (_fma_double(a, b, c),)
        return (fp.encode(_fma64(a, b, c), t),)


def _fma_double(a: Array, b: Array, c: Array) -> Array:
    """float64 fma by exact rational arithmetic, an element at a time (an oracle, not a fast path)."""

    def one(x: float, y: float, z: float) -> float:
        if not (math.isfinite(x) and math.isfinite(y)):
            return x * y + z            # inf, nan, or z's nan: no rounding
        if not math.isfinite(z):
            return z                    # also where x*y alone would overflow
        exact = Fraction(x) * Fraction(y) + Fraction(z)
        if exact == 0:
            return x * y + z            # the sign of a zero sum
        try:
            return float(exact)         # int / int rounds once, denormals too
        except OverflowError:
            return math.inf if exact > 0 else -math.inf

    return np.asarray(np.vectorize(one, otypes=[np.float64])(a, b, c))


TABLE.add(OpRow("fma", (Operand("a"), Operand("b"), Operand("c")), elementwise(3, "float"), _fma,
                "a*b + c with one rounding", "IEEE 754-2019 5.4.1", elementwise=True))


def _infer_select(types: list[Type], attrs: object, regions: object) -> tuple[Type, ...]:
    condition, a, b = types
    require(a == b, f"values differ in type: {a} and {b}")
    require(element_of(condition) == I1 and shape_of(condition) == shape_of(a),
            f"the condition {condition} is not i1 of the values' shape {shape_of(a)}")
    return (a,)


TABLE.add(OpRow("select", (Operand("condition"), Operand("on_true"), Operand("on_false")),
                _infer_select,  # type: ignore[arg-type]
                lambda call: (np.where(*call.args),), "on_true where condition else on_false; bits are kept", _LLVM,
                elementwise=True, template="select {c} {0}, {t} {1}, {t} {2}"))

