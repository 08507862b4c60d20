"""What each elementwise row gives on one list of operands, by `exact` arithmetic (mpmath for elementary functions).

`expected(name, elements, to, attrs)` is a function from Python operands to the exact result: an int, a float, or a
Fraction that is still to be rounded to the result's type.  Operands arrive as signed Python ints, bools or floats.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

from tests.conform import exact
from tilewright.ir.ops.attributes import Rounding
from tilewright.ir.types import Pointer

# rows that move bits: a NaN comes out as it went in
MOVES_BITS = ("select", "bitcast", "neg_f", "abs_f")


def _int_rows(bits: int) -> dict[str, Callable]:
    u = lambda x: exact.unsigned(x, bits)  # noqa: E731
    w = lambda x: exact.wrap(x, bits)  # noqa: E731
    order = {"lt": lambda a, b: a < b, "le": lambda a, b: a <= b, "gt": lambda a, b: a > b, "ge": lambda a, b: a >= b}
    rows = {
        "add": lambda a, b: w(a + b), "sub": lambda a, b: w(a - b), "mul": lambda a, b: w(a * b),
        "and": lambda a, b: a & b, "or": lambda a, b: a | b, "xor": lambda a, b: a ^ b,
        "div_s": lambda a, b: w(exact.truncated_division(a, b)[0]) if b else 0,
        "rem_s": lambda a, b: exact.truncated_division(a, b)[1] if b else a,
        "div_u": lambda a, b: w(u(a) // u(b)) if b else 0, "rem_u": lambda a, b: w(u(a) % u(b)) if b else a,
        "shl": lambda a, b: w(a << (b % bits)), "shr_s": lambda a, b: a >> (b % bits),
        "shr_u": lambda a, b: w(u(a) >> (b % bits)),
        "min_s": min, "max_s": max, "min_u": lambda a, b: min(a, b, key=u), "max_u": lambda a, b: max(a, b, key=u),
        "mulhi_u": lambda a, b: w(u(a) * u(b) >> bits), "abs_s": lambda a: w(abs(a)),
        "cmp_eq": lambda a, b: a == b, "cmp_ne": lambda a, b: a != b,
    }
    for name, test in order.items():
        rows[f"cmp_{name}_s"] = test
        rows[f"cmp_{name}_u"] = lambda a, b, test=test: test(u(a), u(b))
    return rows


_BIT = {    # i1: arithmetic modulo 2, true is 1
    "add": lambda a, b: a != b, "sub": lambda a, b: a != b, "mul": lambda a, b: a and b, "and": lambda a, b: a and b,
    "or": lambda a, b: a or b, "xor": lambda a, b: a != b, "cmp_eq": lambda a, b: a == b, "cmp_ne": lambda a, b: a != b,
    "cmp_lt_u": lambda a, b: a < b, "cmp_le_u": lambda a, b: a <= b, "cmp_gt_u": lambda a, b: a > b,
    "cmp_ge_u": lambda a, b: a >= b,
}

_FLOAT = {
    "add_f": exact.exact_sum, "sub_f": lambda a, b: exact.exact_sum(a, -b), "mul_f": exact.exact_product,
    "div_rn": exact.exact_quotient, "div_f": exact.exact_quotient, "rem_f": exact.fmod, "fma": exact.exact_fma,
    "max_f": lambda a, b: exact.maximum(a, b, False), "min_f": lambda a, b: -exact.maximum(-a, -b, False),
    "max_nan_f": lambda a, b: exact.maximum(a, b, True), "min_nan_f": lambda a, b: -exact.maximum(-a, -b, True),
    "neg_f": lambda a: -a, "abs_f": abs,
    "cmp_olt": lambda a, b: a < b, "cmp_ole": lambda a, b: a <= b, "cmp_ogt": lambda a, b: a > b,
    "cmp_oge": lambda a, b: a >= b, "cmp_oeq": lambda a, b: a == b, "cmp_une": lambda a, b: a != b,
    "sqrt": exact.square_root, "sqrt_rn": exact.square_root,
    "floor": lambda a: a if not math.isfinite(a) or a == 0 else Fraction(math.floor(a)),
    "ceil": lambda a: a if not math.isfinite(a) or a == 0 else (Fraction(math.ceil(a)) or math.copysign(0.0, a)),
    "select": lambda c, a, b: a if c else b,
}


def _casts(source, to, attrs) -> dict[str, Callable]:
    bits = to.bits
    low = lambda x: exact.unsigned(int(x), 1 if source.bits == 1 else source.bits)  # noqa: E731
    integer = lambda x: -int(x) if source.bits == 1 else x  # noqa: E731  a signed bit is 0 or -1
    whole = lambda x: bool(x & 1) if bits == 1 else exact.wrap(x, bits)  # noqa: E731
    return {
        "trunc": whole, "ext_s": integer, "ext_u": lambda x: exact.wrap(low(x), bits),
        "fp_ext": lambda x: x, "fp_trunc": lambda x: x,
        "int_to_fp_s": lambda x: Fraction(integer(x)), "int_to_fp_u": lambda x: Fraction(low(x)),
        "fp_to_int_s": lambda x: exact.saturated_int(x, bits, True),
        "fp_to_int_u": lambda x: exact.saturated_int(x, bits, False),
        "ptr_to_int": lambda x: x, "int_to_ptr": lambda x: x,
    }


def elementary() -> dict[str, Callable]:
    """Elementary functions to 250 bits."""
    import mpmath
    mp = mpmath.mp.clone()
    mp.prec = 250

    def fraction(y):
        sign, mantissa, exponent, _ = y._mpf_
        return (-1 if sign else 1) * Fraction(int(mantissa)) * Fraction(2) ** exponent

    def on(function, special):
        """`special` maps inf, -inf, 0.0 (with its sign) to the result; None: as any other value."""
        def apply(x):
            if math.isnan(x):
                return math.nan
            found = special(x)
            return found if found is not None else fraction(function(mp.mpf(x)))
        return apply

    def log_special(x):
        if x < 0:
            return math.nan
        return -math.inf if x == 0 else x if x == math.inf else Fraction(0) if x == 1 else None

    def exp_special(x):
        if math.isinf(x):
            return x if x > 0 else 0.0
        return Fraction(1) if x == 0 else Fraction(2)**2000 if x > 1100 else Fraction(1, 2**2000) if x < -1100 else None

    def binary(function, special):
        """The same for two operands; `special` decides whether an operand is no finite number, too."""
        def apply(x, y):
            found = special(x, y)
            return found if found is not None else fraction(function(mp.mpf(x), mp.mpf(y)))
        return apply

    def pow_special(x, y):
        if x == 1 or y == 0:
            return Fraction(1)
        if math.isnan(x) or math.isnan(y):
            return math.nan
        whole = math.isfinite(y) and y == int(y)
        sign = -1 if whole and int(y) % 2 and math.copysign(1.0, x) < 0 else 1
        if x == 0 or math.isinf(x):
            return sign * (0.0 if (x == 0) == (y > 0) else math.inf)
        if math.isinf(y):
            return Fraction(1) if x == -1 else math.inf if (abs(x) > 1) == (y > 0) else 0.0
        if x < 0 and not whole:
            return math.nan
        size = mp.mpf(y) * mp.log(abs(mp.mpf(x)), 2)
        return sign * (Fraction(2)**2000 if size > 3000 else Fraction(1, 2**2000) if size < -3000
                       else fraction(mp.power(abs(mp.mpf(x)), mp.mpf(y))))

    def atan2_special(y, x):
        if math.isnan(x) or math.isnan(y):
            return math.nan
        side, left = math.copysign(1.0, y), math.copysign(1.0, x) < 0
        if math.isinf(x) or math.isinf(y) or x == 0 or y == 0:
            flat = y == 0 or (math.isinf(x) and not math.isinf(y))
            quarters = (4 if left else 0) if flat else 2 if not math.isinf(x) else 3 if left else 1
            return Fraction(int(side)) * fraction(mp.pi * quarters / 4) if quarters else side * 0.0
        return None

    def hypot_special(x, y):
        if math.isinf(x) or math.isinf(y):
            return math.inf
        return math.nan if math.isnan(x) or math.isnan(y) else 0.0 if x == y == 0 else None

    def inside_one(x, at_one):
        return math.nan if abs(x) > 1 else x if x == 0 else math.copysign(at_one, x) if abs(x) == 1 and at_one else None

    def large(x):
        """Where sinh and cosh leave every format."""
        return abs(x) if math.isinf(x) else Fraction(2)**2000 if abs(x) > 1100 else None

    def sinh_special(x):
        return x if x == 0 else (lambda v: v and (v if x > 0 else -v))(large(x))

    def power_special(base):
        limit = 1100 / math.log2(base)
        return lambda x: (exp_special(x) if not math.isfinite(x) or x == 0 else
                          Fraction(2)**2000 if x > limit else Fraction(1, 2**2000) if x < -limit else None)

    odd = lambda at_inf: lambda x: x if x == 0 else math.copysign(at_inf, x) if math.isinf(x) else None  # noqa: E731
    return {
        "exp": on(mp.exp, exp_special), "exp2": on(lambda x: mp.power(2, x), exp_special),
        "log": on(mp.log, log_special), "log2": on(lambda x: mp.log(x, 2), log_special),
        "sin": on(mp.sin, odd(math.nan)),
        "cos": on(mp.cos, lambda x: math.nan if math.isinf(x) else Fraction(1) if x == 0 else None),
        "tanh": on(mp.tanh, lambda x: math.copysign(1.0, x) if abs(x) > 60 else odd(1.0)(x)),
        "erf": on(mp.erf, lambda x: math.copysign(1.0, x) if abs(x) > 30 else odd(1.0)(x)),
        "rsqrt": on(lambda x: 1 / mp.sqrt(x), lambda x: math.nan if x < 0 else math.copysign(math.inf, x) if x == 0
                    else 0.0 if x == math.inf else None),
        "tan": on(mp.tan, odd(math.nan)), "asin": on(mp.asin, lambda x: inside_one(x, 0)),
        "acos": on(mp.acos, lambda x: math.nan if abs(x) > 1 else 0.0 if x == 1 else None),
        "atan": on(mp.atan, lambda x: x if x == 0 else None), "sinh": on(mp.sinh, sinh_special),
        "cosh": on(mp.cosh, lambda x: Fraction(1) if x == 0 else large(x)), "asinh": on(mp.asinh, odd(math.inf)),
        "acosh": on(mp.acosh, lambda x: math.nan if x < 1 else 0.0 if x == 1 else x if x == math.inf else None),
        "atanh": on(mp.atanh, lambda x: inside_one(x, math.inf)),
        "exp10": on(lambda x: mp.power(10, x), power_special(10.0)),
        "expm1": on(mp.expm1, lambda x: x if x == 0 or x == math.inf else Fraction(2)**2000 if x > 1100
                    else Fraction(-1) if x < -1100 else None),
        "log10": on(lambda x: mp.log(x, 10), log_special),
        "log1p": on(mp.log1p, lambda x: math.nan if x < -1 else -math.inf if x == -1 else x if x in (0, math.inf)
                    else None),
        "cbrt": on(lambda x: mp.cbrt(x) if x > 0 else -mp.cbrt(-x), odd(math.inf)),
        "pow": binary(mp.power, pow_special), "atan2": binary(mp.atan2, atan2_special),
        "hypot": binary(mp.hypot, hypot_special),
    }


ELEMENTARY = ("exp", "exp2", "log", "log2", "sin", "cos", "tanh", "erf", "rsqrt", "tan", "asin", "acos", "atan", "sinh",
              "cosh", "asinh", "acosh", "atanh", "exp10", "expm1", "log10", "log1p", "cbrt", "pow", "atan2", "hypot")


def statement(name, elements, to, attrs) -> Callable | None:
    """The exact statement of an elementwise row, or None where there is no independent one."""
    if name in ELEMENTARY:
        return elementary()[name]
    if name in _FLOAT:
        return _FLOAT[name]
    if name == "ptr_add":
        size = elements[0].element.bytes
        return lambda p, n: exact.wrap(p + n * size, 64)
    source = elements[0]
    if not isinstance(source, Pointer) and source.bits == 1 and name in _BIT:
        return _BIT[name]
    if not isinstance(source, Pointer) and source.is_int and name in _int_rows(source.bits):
        return _int_rows(source.bits)[name]
    return _casts(source, to, attrs).get(name)


def rounded(value, to, attrs):
    """An exact result as the result type has it: an int, a bool or a float."""
    if isinstance(to, Pointer) or to.is_int:
        return value
    toward_zero = attrs.get("rounding") is Rounding.RTZ
    return exact.nearest(value, to.name, toward_zero)
