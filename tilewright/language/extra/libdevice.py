"""`tl.extra.libdevice`: the C library's functions on fp32 and fp64, those that the op table can say.

Each is an op of the IR or an exact combination of ops; predicates give int1.  The names of libdevice that are not here
yet can be imported and raise when they are used.  Operands have one type, fp32 or fp64; Python numbers take it.
Tests: tests/lang/test_libdevice.py.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tilewright.ir.ops import TABLE
from tilewright.language import comparison, operators
from tilewright.language import math as tl_math
from tilewright.language.broadcasting import broadcast_all
from tilewright.language.builder import Builder
from tilewright.language.builtin import Builtin
from tilewright.language.casting import bitcast, cast
from tilewright.language.elementwise import extremum
from tilewright.language.pending import pending
from tilewright.language.tensor import tensor
from tilewright.language.types import dtype, float32, float64, get_int_dtype, int32, int64, uint32, uint64
from tilewright.language.values import emit, full_of, shape, to_tensor

Meaning = Callable[..., tensor]

_FLOATS = (float32, float64)


def _operands(builder: Builder, name: str, values: tuple[Any, ...], allowed: tuple[dtype, ...]) -> list[tensor]:
    """The operands of one call, all of one allowed type and one shape."""
    target = operators.common_type_of(values, f"libdevice.{name}") if len(values) > 1 else None
    given = [operators.as_type(builder, v, target) if target else to_tensor(builder, v) for v in values]
    for x in given:
        tl_math.need_types(x, allowed, f"extra.libdevice.{name}")
    return broadcast_all(builder, given)


def _function(name: str, count: int, doc: str, meaning: Meaning, allowed: tuple[dtype, ...] = _FLOATS) -> Builtin:
    """A libdevice function of `count` operands."""
    def one(arg0: Any, *, _builder: Builder) -> tensor:
        return meaning(_builder, *_operands(_builder, name, (arg0,), allowed))

    def two(arg0: Any, arg1: Any, *, _builder: Builder) -> tensor:
        return meaning(_builder, *_operands(_builder, name, (arg0, arg1), allowed))

    def three(arg0: Any, arg1: Any, arg2: Any, *, _builder: Builder) -> tensor:
        return meaning(_builder, *_operands(_builder, name, (arg0, arg1, arg2), allowed))

    function = (one, two, three)[count - 1]
    function.__name__ = function.__qualname__ = name
    function.__doc__ = doc
    return Builtin(function)


def _op(op: str) -> Meaning:
    return lambda builder, *x: emit(builder, op, x, x[0].type)


def _bits(builder: Builder, x: tensor) -> tensor:
    return bitcast(builder, x, get_int_dtype(x.dtype.primitive_bitwidth, signed=True))


def _signbit(b: Builder, x: tensor) -> tensor:
    return comparison.compare(b, "Lt", _bits(b, x), 0)


def _copysign(b: Builder, x: tensor, y: tensor) -> tensor:
    size = emit(b, "abs_f", (x,), x.type)
    return comparison.where(b, _signbit(b, y), operators.negate(b, size), size)


def _trunc(b: Builder, x: tensor) -> tensor:
    down, up = emit(b, "floor", (x,), x.type), emit(b, "ceil", (x,), x.type)
    return comparison.where(b, _signbit(b, x), up, down)


def _rint(b: Builder, x: tensor) -> tensor:
    """To the nearest integer, ties to even: at 2**p, p the significant bits but one, a sum rounds like that."""
    assert isinstance(x.dtype, dtype)
    large = full_of(b, 2.0**x.dtype.fp_mantissa_width, x.dtype, shape(x))
    size = emit(b, "abs_f", (x,), x.type)
    rounded = emit(b, "sub_f", (emit(b, "add_f", (size, large), x.type), large), x.type)
    return _copysign(b, comparison.where(b, comparison.compare(b, "Lt", size, large), rounded, size), x)


def _round(b: Builder, x: tensor) -> tensor:
    """To the nearest integer, ties away from zero."""
    whole = _trunc(b, x)
    rest = emit(b, "abs_f", (emit(b, "sub_f", (x, whole), x.type),), x.type)
    one = _copysign(b, full_of(b, 1.0, operators.number_types((x,), "round")[0], shape(x)), x)
    return comparison.where(b, comparison.compare(b, "GtE", rest, 0.5), emit(b, "add_f", (whole, one), x.type), whole)


def _isnan(b: Builder, x: tensor) -> tensor:
    return comparison.compare(b, "NotEq", x, x)


def _isinf(b: Builder, x: tensor) -> tensor:
    return comparison.compare(b, "Eq", emit(b, "abs_f", (x,), x.type), float("inf"))


def _isfinite(b: Builder, x: tensor) -> tensor:
    return comparison.compare(b, "Lt", emit(b, "abs_f", (x,), x.type), float("inf"))


def _fdim(b: Builder, x: tensor, y: tensor) -> tensor:
    """x - y where x > y, NaN where one is, else +0."""
    difference = emit(b, "sub_f", (x, y), x.type)
    return comparison.where(b, comparison.compare(b, "LtE", x, y), 0.0, difference)


def _reciprocal(b: Builder, x: tensor) -> tensor:
    return operators.true_divide(b, 1.0, x, "div_rn")


def _saturate(b: Builder, x: tensor) -> tensor:
    """Limited to 0 .. 1; a NaN gives 0."""
    zero, one = (full_of(b, v, float32, shape(x)) for v in (0.0, 1.0))
    return extremum(b, "min", extremum(b, "max", x, zero), one)


def _quotient_toward_zero(b: Builder, x: tensor, y: tensor) -> tensor:
    """The nearest quotient, one unit nearer to zero where it is too large: where x - q*y points back."""
    q = operators.true_divide(b, x, y, "div_rn")
    rest = emit(b, "fma", (operators.negate(b, q), y, x), x.type)
    back = _signbit(b, rest) ^ _signbit(b, y) ^ _signbit(b, q)
    too_large = back & comparison.compare(b, "NotEq", rest, 0.0) & _isfinite(b, rest)
    overflows = _isinf(b, q) & _isfinite(b, x) & comparison.compare(b, "NotEq", y, 0.0)
    bits = _bits(b, q)
    return bitcast(b, comparison.where(b, too_large | overflows, bits - 1, bits), q.dtype)


def _to_integer(rounding: Meaning, target: dtype) -> Meaning:
    return lambda builder, x: cast(builder, rounding(builder, x), target)


def _reinterpret(target: dtype) -> Meaning:
    return lambda builder, x: bitcast(builder, x, target)


_ROUNDINGS: dict[str, tuple[Meaning, str]] = {
    "rn": (_rint, "to the nearest, ties to even"), "rd": (_op("floor"), "down"), "ru": (_op("ceil"), "up"),
    "rz": (_trunc, "toward zero"),
}


def _add_conversions(add: Callable[..., None]) -> None:
    """float2int_rn and its relatives; integers to floats where that is rounded to the nearest."""
    integers = (("int", int32), ("uint", uint32), ("ll", int64), ("ull", uint64))
    for source, kind in (("float", float32), ("double", float64)):
        for target, integer in integers:
            for suffix, (meaning, words) in _ROUNDINGS.items():
                add(f"{source}2{target}_{suffix}", 1, f"The {kind} x as {integer}, rounded {words}.",
                    _to_integer(meaning, integer), (kind,))
    for source, integer in integers:
        for target, kind in (("float", float32), ("double", float64)):
            add(f"{source}2{target}_rn", 1, f"The {integer} x as {kind}, rounded to the nearest.",
                _to_integer(lambda builder, x: x, kind), (integer,))


def _table() -> dict[str, Builtin]:
    """All functions of this module by name."""
    table: dict[str, Builtin] = {}

    def add(name: str, count: int, doc: str, meaning: Meaning, allowed: tuple[dtype, ...] = _FLOATS) -> None:
        table[name] = _function(name, count, doc, meaning, allowed)

    for name in ("exp", "exp2", "log", "log2", "sin", "cos", "tanh", "sqrt", "rsqrt", "erf", "floor", "ceil", "tan",
                 "asin", "acos", "atan", "sinh", "cosh", "asinh", "acosh", "atanh", "exp10", "expm1", "log10", "log1p",
                 "cbrt"):
        add(name, 1, f"{name}(x): {TABLE[name].doc}.", _op(name))
    for name in ("pow", "atan2", "hypot"):
        add(name, 2, f"C's {name}: {TABLE[name].doc}.", _op(name))
    for name, op in (("fast_expf", "exp"), ("fast_logf", "log"), ("fast_log2f", "log2"), ("fast_sinf", "sin"),
                     ("fast_cosf", "cos"), ("fast_tanhf", "tanh"), ("fast_tanf", "tan"), ("fast_exp10f", "exp10"),
                     ("fast_log10f", "log10")):
        add(name, 1, f"{op}(x) of fp32; no rougher than libdevice.{op}.", _op(op), (float32,))
    for name, op, sign in (("add_rn", "add_f", "+"), ("sub_rn", "sub_f", "-"), ("mul_rn", "mul_f", "*"),
                           ("div_rn", "div_rn", "/")):
        add(name, 2, f"x {sign} y, correctly rounded.", _op(op))
    add("fmod", 2, "The exact remainder of x / y truncated; it has the sign of x.", _op("rem_f"))
    add("fast_powf", 2, "pow of fp32.", _op("pow"), (float32,))
    add("fast_dividef", 2, "x / y of fp32.", _op("div_f"), (float32,))
    for name in ("fma", "fma_rn"):
        add(name, 3, "x * y + z with one rounding.", _op("fma"))
    add("sqrt_rn", 1, "The square root, correctly rounded.", _op("sqrt_rn"))
    add("rcp_rn", 1, "1 / x, correctly rounded.", _reciprocal)
    add("trunc", 1, "x rounded toward zero.", _trunc)
    for name in ("rint", "nearbyint"):
        add(name, 1, "x rounded to the nearest integer, ties to even.", _rint)
    add("round", 1, "x rounded to the nearest integer, ties away from zero.", _round)
    add("isnan", 1, "Whether x is a NaN, as int1.", _isnan)
    add("isinf", 1, "Whether x is infinite, as int1.", _isinf)
    add("finitef", 1, "Whether the fp32 x is finite, as int1.", _isfinite, (float32,))
    add("isfinited", 1, "Whether the fp64 x is finite, as int1.", _isfinite, (float64,))
    add("signbit", 1, "Whether the sign bit of x is set, as int1.", _signbit)
    add("copysign", 2, "The size of x with the sign of y.", _copysign)
    add("fdim", 2, "x - y where that is positive, else 0.", _fdim)
    add("saturatef", 1, "The fp32 x limited to 0 .. 1; a NaN gives 0.", _saturate, (float32,))
    add("div_rz", 2, "x / y, rounded toward zero.", _quotient_toward_zero)
    _add_conversions(add)
    add("float_as_int", 1, "The bits of an fp32 as int32.", _reinterpret(int32), (float32,))
    add("float_as_uint", 1, "The bits of an fp32 as uint32.", _reinterpret(uint32), (float32,))
    add("int_as_float", 1, "An int32 as the fp32 with these bits.", _reinterpret(float32), (int32,))
    add("uint_as_float", 1, "A uint32 as the fp32 with these bits.", _reinterpret(float32), (uint32,))
    table["abs"] = tl_math.abs
    return table


FUNCTIONS = _table()
_NOT_YET = (
    "add_rd", "add_ru", "add_rz", "brev", "byte_perm", "clz", "cospi", "cyl_bessel_i0", "cyl_bessel_i1", "div_rd",
    "div_ru", "double2float_rd", "double2float_rn", "double2float_ru", "double2float_rz", "double2hiint",
    "double2loint", "double_as_longlong", "erfc", "erfcinv", "erfcx", "erfinv", "ffs", "fma_rd", "fma_ru", "fma_rz",
    "hadd", "hiloint2double", "ilogb", "int2float_rd", "int2float_ru", "int2float_rz", "j0", "j1", "jn", "ldexp",
    "lgamma", "ll2double_rd", "ll2double_ru", "ll2double_rz", "ll2float_rd", "ll2float_ru", "ll2float_rz", "llrint",
    "llround", "logb", "longlong_as_double", "mul24", "mul_rd", "mul_ru", "mul_rz", "mulhi", "nextafter", "norm3d",
    "norm4d", "normcdf", "normcdfinv", "popc", "rcbrt", "rcp64h", "rcp_rd", "rcp_ru", "rcp_rz", "remainder", "rhadd",
    "rhypot", "rnorm3d", "rnorm4d", "rsqrt_rn", "sad", "scalbn", "sinpi", "sqrt_rd", "sqrt_ru", "sqrt_rz", "sub_rd",
    "sub_ru", "sub_rz", "tgamma", "uint2float_rd", "uint2float_ru", "uint2float_rz", "ull2double_rd", "ull2double_ru",
    "ull2double_rz", "ull2float_rd", "ull2float_ru", "ull2float_rz", "y0", "y1", "yn",
)
PENDING = {name: pending(f"extra.libdevice.{name}") for name in _NOT_YET}


def __getattr__(name: str) -> Builtin:
    found = FUNCTIONS.get(name) or PENDING.get(name)
    if found is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return found


def __dir__() -> list[str]:
    return sorted([*globals(), *FUNCTIONS, *PENDING])
