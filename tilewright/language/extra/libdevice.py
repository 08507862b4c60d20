"""`tl.extra.libdevice`: the names of NVIDIA's device library, on every engine and target.

Each is an op of the IR, an exact composition of ops (`float_bits`, `directed`, `integer_functions`, `elementary`) or a
fitted one (`special_functions`, `bessel`).  Predicates give int1.  Operands have the types of one signature in the
table, all of one shape after broadcasting; Python numbers take the type that is asked for.
Tests: tests/lang/test_libdevice.py, test_libdevice_exact.py, test_libdevice_special.py.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from tilewright.ir.ops import TABLE
from tilewright.language import math as tl_math
from tilewright.language import operators
from tilewright.language.bounds import COMPOSED
from tilewright.language.broadcasting import broadcast_all
from tilewright.language.builder import Builder
from tilewright.language.builtin import Builtin
from tilewright.language.constexpr import unwrap
from tilewright.language.errors import LanguageTypeError
from tilewright.language.extra import bessel, directed, elementary, float_bits, integer_functions, special_functions
from tilewright.language.extra.float_bits import converted, op
from tilewright.language.tensor import tensor
from tilewright.language.types import dtype, float32, float64, int32, int64, uint32, uint64
from tilewright.language.values import element_type, is_literal, to_tensor

Meaning = Callable[..., tensor]
Signature = tuple[dtype, ...]

_FLOATS = (float32, float64)
_WORDS = (int32, uint32)
_SIGNED = (int32, int64)


def _same_operands(builder: Builder, name: str, values: tuple[Any, ...], allowed: tuple[dtype, ...]) -> list[tensor]:
    """Operands that are all of one allowed type, after promotion."""
    target = operators.common_type_of(values, f"libdevice.{name}") if len(values) > 1 else None
    given = [operators.as_type(builder, v, target) if target else to_tensor(builder, v) for v in values]
    for x in given:
        tl_math.need_types(x, allowed, f"extra.libdevice.{name}")
    return given


def _mixed_operands(builder: Builder, name: str, values: tuple[Any, ...], allowed: Sequence[Signature]) -> list[tensor]:
    """Operands of the first signature that has the types of the tensors among them; literals are converted to it."""
    for signature in allowed:
        if all(is_literal(v) or element_type(v) == t for v, t in zip(values, signature, strict=True)):
            return [operators.as_type(builder, v, t) for v, t in zip(values, signature, strict=True)]
    came = ", ".join("a number" if is_literal(v) else str(element_type(v)) for v in values)
    choice = " or ".join(f"({', '.join(map(str, s))})" for s in allowed)
    raise LanguageTypeError(f"tl.extra.libdevice.{name} takes operands of the types {choice}, but got ({came}); "
                            "convert with x.to(...)")


def _parameters(count: int) -> inspect.Signature:
    """What users may pass: arg0, arg1, ..., as in triton."""
    names = [inspect.Parameter(f"arg{k}", inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation=Any)
             for k in range(count)]
    return inspect.Signature(names, return_annotation=tensor)


def _function(name: str, count: int, doc: str, meaning: Meaning,
              allowed: tuple[dtype, ...] | tuple[Signature, ...]) -> Builtin:
    """A function of `count` operands; `allowed` are types of all operands, or signatures."""
    signature = _parameters(count)
    types = tuple(t for t in allowed if isinstance(t, dtype))
    signatures = tuple(s for s in allowed if isinstance(s, tuple))

    def function(*args: Any, _builder: Builder, **kwargs: Any) -> tensor:
        values = tuple(unwrap(v) for v in signature.bind(*args, **kwargs).arguments.values())
        operands = (_mixed_operands(_builder, name, values, signatures) if signatures else
                    _same_operands(_builder, name, values, types))
        return meaning(*broadcast_all(_builder, operands))

    function.__name__ = function.__qualname__ = name
    function.__doc__ = doc
    function.__signature__ = signature      # type: ignore[attr-defined]
    return Builtin(function)


class _Names:
    """The functions by name, as they are added."""

    def __init__(self) -> None:
        self.table: dict[str, Builtin] = {}

    def add(self, name: str, count: int, doc: str, meaning: Meaning,
            allowed: tuple[dtype, ...] | tuple[Signature, ...] = _FLOATS) -> None:
        self.table[name] = _function(name, count, doc, meaning, allowed)


def _op(name: str) -> Meaning:
    return partial(op, name)


def _in_double(meaning: Meaning) -> Meaning:
    """`meaning`, which computes in fp64, on fp32 as well: converted, and rounded once."""
    def both(*x: tensor) -> tensor:
        kind = float_bits.kind_of(x[-1])
        wide = [converted(v, float64) if float_bits.kind_of(v).is_floating() else v for v in x]
        return converted(meaning(*wide), kind)

    return both


def _then(rounding: Meaning, target: dtype) -> Meaning:
    return lambda x: converted(rounding(x), target)


def _reinterpret(target: dtype) -> Meaning:
    return lambda x: integer_functions.reinterpreted(x, target)


def _add_elementary(names: _Names) -> None:
    """What is one op of the IR."""
    for name in ("exp", "exp2", "log", "log2", "sin", "cos", "tanh", "sqrt", "rsqrt", "erf", "floor", "ceil", "tan",
                 "asin", "acos", "atan", "sinh", "cosh", "asinh", "acosh", "atanh", "exp10", "expm1", "log10", "log1p",
                 "cbrt"):
        names.add(name, 1, f"{name}(x): {TABLE[name].doc}.", _op(name))
    for name in ("pow", "atan2", "hypot"):
        names.add(name, 2, f"C's {name}: {TABLE[name].doc}.", _op(name))
    for name, row in (("fast_expf", "exp"), ("fast_logf", "log"), ("fast_log2f", "log2"), ("fast_sinf", "sin"),
                      ("fast_cosf", "cos"), ("fast_tanhf", "tanh"), ("fast_tanf", "tan"), ("fast_exp10f", "exp10"),
                      ("fast_log10f", "log10")):
        names.add(name, 1, f"{row}(x) of fp32; no rougher than libdevice.{row}.", _op(row), (float32,))
    names.add("fmod", 2, "The exact remainder of x / y truncated; it has the sign of x.", _op("rem_f"))
    names.add("fast_powf", 2, "pow of fp32.", _op("pow"), (float32,))
    names.add("fast_dividef", 2, "x / y of fp32.", _op("div_f"), (float32,))
    names.add("fma", 3, "x * y + z with one rounding.", _op("fma"))


_TOWARD = {"rd": "down", "ru": "up", "rz": "toward zero"}


def _add_directed(names: _Names) -> None:
    """Arithmetic in each rounding mode; all exact in their mode, subnormals included."""
    nearest = "rounded to the nearest, ties to even"
    for name, row, what, directed_meaning, count in (
            ("add", "add_f", "x + y", directed.added, 2), ("sub", "sub_f", "x - y", directed.subtracted, 2),
            ("mul", "mul_f", "x * y", directed.multiplied, 2), ("div", "div_rn", "x / y", directed.divided, 2),
            ("fma", "fma", "x * y + z", directed.fused, 3), ("sqrt", "sqrt_rn", "sqrt(x)", directed.root, 1)):
        names.add(f"{name}_rn", count, f"{what}, {nearest}.", _op(row))
        for mode, words in _TOWARD.items():
            names.add(f"{name}_{mode}", count, f"{what}, rounded {words}.", partial(directed_meaning, mode=mode))
    names.add("rcp_rn", 1, f"1 / x, {nearest}.", elementary.reciprocal)
    for mode, words in _TOWARD.items():
        names.add(f"rcp_{mode}", 1, f"1 / x, rounded {words}.", _reciprocal(mode))
        names.add(f"double2float_{mode}", 1, f"The fp64 x as fp32, rounded {words}.",
                  partial(directed.narrowed, mode=mode), (float64,))
    names.add("double2float_rn", 1, f"The fp64 x as fp32, {nearest}.", elementary.to_fp32_first, (float64,))
    names.add("rsqrt_rn", 1, f"1 / sqrt(x) of fp32, {nearest}.", directed.reciprocal_root, (float32,))


def _reciprocal(mode: str) -> Meaning:
    return lambda x: directed.divided(float_bits.constant_like(x, 1.0), x, mode)


_ROUNDINGS: dict[str, tuple[Meaning, str]] = {
    "rn": (float_bits.rounded, "to the nearest, ties to even"), "rd": (_op("floor"), "down"), "ru": (_op("ceil"), "up"),
    "rz": (float_bits.truncated, "toward zero"),
}


def _add_conversions(names: _Names) -> None:
    """float2int_rn and its relatives, and integers to floats."""
    integers = (("int", int32), ("uint", uint32), ("ll", int64), ("ull", uint64))
    for source, kind in (("float", float32), ("double", float64)):
        for target, integer in integers:
            for suffix, (meaning, words) in _ROUNDINGS.items():
                names.add(f"{source}2{target}_{suffix}", 1, f"The {kind} x as {integer}, rounded {words}.",
                          _then(meaning, integer), (kind,))
    for source, integer in integers:
        for target, kind in (("float", float32), ("double", float64)):
            names.add(f"{source}2{target}_rn", 1, f"The {integer} x as {kind}, rounded to the nearest.",
                      _then(lambda x: x, kind), (integer,))
            if kind == float32 or integer.int_bitwidth == 64:       # others are exact, and have no other names
                for mode, words in _TOWARD.items():
                    names.add(f"{source}2{target}_{mode}", 1, f"The {integer} x as {kind}, rounded {words}.",
                              directed.from_integer(kind, mode), (integer,))


def _add_parts_of_floats(names: _Names) -> None:
    """Predicates, whole parts, exponents, neighbours."""
    names.add("trunc", 1, "x rounded toward zero.", float_bits.truncated)
    for name in ("rint", "nearbyint"):
        names.add(name, 1, "x rounded to the nearest integer, ties to even.", float_bits.rounded)
    names.add("round", 1, "x rounded to the nearest integer, ties away from zero.", float_bits.rounded_away)
    names.add("llrint", 1, "x as int64, rounded to the nearest, ties to even.", _then(float_bits.rounded, int64))
    names.add("llround", 1, "x as int64, rounded to the nearest, ties away from zero.",
              _then(float_bits.rounded_away, int64))
    names.add("isnan", 1, "Whether x is a NaN, as int1.", float_bits.is_nan)
    names.add("isinf", 1, "Whether x is infinite, as int1.", float_bits.is_infinite)
    names.add("finitef", 1, "Whether the fp32 x is finite, as int1.", float_bits.is_finite, (float32,))
    names.add("isfinited", 1, "Whether the fp64 x is finite, as int1.", float_bits.is_finite, (float64,))
    names.add("signbit", 1, "Whether the sign bit of x is set, as int1.", float_bits.has_sign)
    names.add("copysign", 2, "The size of x with the sign of y.", float_bits.with_sign)
    names.add("fdim", 2, "x - y where that is positive, else 0.", elementary.positive_difference)
    names.add("saturatef", 1, "The fp32 x limited to 0 .. 1; a NaN gives 0.", elementary.saturated, (float32,))
    names.add("nextafter", 2, "The next float after x toward y.", elementary.neighbour)
    names.add("remainder", 2, "The exact x - n * y, n the integer nearest to x / y, even of two.",
              elementary.remainder)
    for name in ("ldexp", "scalbn"):
        names.add(name, 2, "x * 2**n, n an int32, with one rounding.", float_bits.scaled,
                  ((float32, int32), (float64, int32)))
    names.add("ilogb", 1, "The exponent of x as int32; of 0 and NaN the least int32, of inf the greatest.",
              elementary.exponent)
    names.add("logb", 1, "The exponent of x as a float; of 0 -inf, of infinities inf.", elementary.float_exponent)


def _add_integers(names: _Names) -> None:
    """Bits and integers."""
    names.add("popc", 1, "The number of set bits, as int32.", integer_functions.set_bits, _SIGNED)
    names.add("clz", 1, "The number of zeros above the highest set bit, as int32.", integer_functions.leading_zeros,
              _SIGNED)
    names.add("ffs", 1, "The number of the lowest set bit counted from 1, 0 for 0, as int32.",
              integer_functions.first_set, _SIGNED)
    names.add("brev", 1, "The bits in reverse order.", integer_functions.reversed_bits, _SIGNED)
    names.add("byte_perm", 3, "Four of the eight bytes of y:x, each named by the low 3 bits of a nibble of z.",
              integer_functions.permuted_bytes, (int32,))
    names.add("mulhi", 2, "The high half of the product.", integer_functions.high_half, (*_WORDS, int64, uint64))
    names.add("mul24", 2, "The low 32 bits of the product of the low 24 bits of x and y.",
              integer_functions.product_of_24_bits, _WORDS)
    names.add("sad", 3, "|x - y| + z, modulo 2**32; z is a uint32.", integer_functions.distance_plus,
              ((int32, int32, uint32), (uint32, uint32, uint32)))
    names.add("hadd", 2, "(x + y) >> 1 without overflow.", integer_functions.half_of_sum, _WORDS)
    names.add("rhadd", 2, "(x + y + 1) >> 1 without overflow.", integer_functions.half_of_sum_up, _WORDS)
    names.add("double2hiint", 1, "The high 32 bits of an fp64, as int32.", integer_functions.high_word, (float64,))
    names.add("double2loint", 1, "The low 32 bits of an fp64, as int32.", integer_functions.low_word, (float64,))
    names.add("hiloint2double", 2, "The fp64 whose high bits are x and whose low bits are y.",
              integer_functions.from_words, (int32,))
    for name, source, target in (("float_as_int", float32, int32), ("float_as_uint", float32, uint32),
                                 ("int_as_float", int32, float32), ("uint_as_float", uint32, float32),
                                 ("double_as_longlong", float64, int64), ("longlong_as_double", int64, float64)):
        names.add(name, 1, f"The {target} with the bits of a {source}.", _reinterpret(target), (source,))


def _add_norms(names: _Names) -> None:
    """Roots and lengths; fp32 is computed in fp64."""
    names.add("rcp64h", 1, "1 / x of fp64 with the low 32 bits cleared.", elementary.coarse_reciprocal, (float64,))
    names.add("rcbrt", 1, f"1 / cbrt(x), {COMPOSED['rcbrt']}.", elementary.cube_root_reciprocal)
    for count in (3, 4):
        names.add(f"norm{count}d", count, f"The root of the sum of the squares, {COMPOSED[f'norm{count}d']}; no square "
                                          "overflows.", elementary.norm)
        names.add(f"rnorm{count}d", count, f"1 / the root of the sum of the squares, {COMPOSED[f'rnorm{count}d']}.",
                  elementary.norm_reciprocal)
    names.add("rhypot", 2, f"1 / hypot(x, y), {COMPOSED['rhypot']}.", elementary.norm_reciprocal)
    names.add("sinpi", 1, f"sin(pi x), {COMPOSED['sinpi']}; whole numbers give 0 exactly.",
              _in_double(lambda x: special_functions.sine_and_cosine_of_pi(x)[0]))
    names.add("cospi", 1, f"cos(pi x), {COMPOSED['cospi']}; halves give 0 exactly.",
              _in_double(lambda x: special_functions.sine_and_cosine_of_pi(x)[1]))


def _add_special(names: _Names) -> None:
    """Error functions, gamma and Bessel functions; fp32 is computed in fp64."""
    for name, what in (
            ("erfc", "1 - erf(x)"), ("erfcx", "exp(x**2) erfc(x)"), ("erfinv", "The y with erf(y) = x"),
            ("erfcinv", "The y with erfc(y) = x"), ("normcdf", "The normal distribution"),
            ("normcdfinv", "The y with normcdf(y) = x"), ("tgamma", "The gamma function"),
            ("lgamma", "log |gamma(x)|")):
        names.add(name, 1, f"{what}, {COMPOSED[name]}.", _in_double(getattr(special_functions, name)))
    for name in ("j0", "j1", "y0", "y1"):
        names.add(name, 1, f"The Bessel function {name.upper()[0]} of order {name[1]}, {COMPOSED[name]}.",
                  _in_double(getattr(bessel, name)))
    for name in ("i0", "i1"):
        full = f"cyl_bessel_{name}"
        names.add(full, 1, f"The modified Bessel function I of order {name[1]}, {COMPOSED[full]}.",
                  _in_double(getattr(bessel, name)))
    for name in ("jn", "yn"):
        names.add(name, 2, f"The Bessel function {name.upper()[0]} of order n, an int32, of x, by recurrence; NaN for "
                           "negative n.", _in_double(getattr(bessel, name)), ((int32, float32), (int32, float64)))


def _table() -> dict[str, Builtin]:
    """All functions of this module by name."""
    names = _Names()
    for add in (_add_elementary, _add_directed, _add_conversions, _add_parts_of_floats, _add_integers, _add_norms,
                _add_special):
        add(names)
    names.add("abs", 1, "|x|; NaN and -0 lose their sign.", lambda x: tl_math.abs.call(x.builder, (x,)),
              (*_SIGNED, *_FLOATS))
    return names.table


FUNCTIONS = _table()


def __getattr__(name: str) -> Builtin:
    found = FUNCTIONS.get(name)
    if found is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return found


def __dir__() -> list[str]:
    return sorted([*globals(), *FUNCTIONS])
