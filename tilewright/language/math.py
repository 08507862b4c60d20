"""`tl.math`: elementary functions; `tl` re-exports them (semantics §8).

exp, log, sin, ... take fp32 and fp64 only, and Python floats; other types are an error with the cure, as in triton.
Tests: tests/lang/test_math.py.
"""

from __future__ import annotations

from typing import Any

from tilewright.language import operators
from tilewright.language.broadcasting import broadcast_all
from tilewright.language.builder import Builder
from tilewright.language.builtin import Builtin, builtin, tensor_member
from tilewright.language.constexpr import unwrap
from tilewright.language.errors import LanguageTypeError, argument
from tilewright.language.tensor import tensor
from tilewright.language.types import dtype, float32, float64, pointer_type
from tilewright.language.values import element_type, emit, is_literal, known_bool, refuse_pointer, to_tensor


def need_types(x: tensor, allowed: tuple[dtype, ...], what: str) -> None:
    """The quoted message of triton, and what to do."""
    refuse_pointer(x, f"tl.{what}", argument(what, 0, "x"))
    if x.dtype not in allowed:
        names = [str(t) for t in allowed]
        raise LanguageTypeError(f"Expected dtype {names} but got {x.dtype}: tl.{what} computes in these types only; "
                                f"write {_cure(x.dtype, allowed)}")


def _cure(given: dtype | pointer_type, allowed: tuple[dtype, ...]) -> str:
    """The cast to one of the types that keeps most of the number, or all of its bits."""
    if float32 in allowed:
        return "x.to(tl.float32)"
    same = [t for t in allowed if isinstance(given, dtype) and t.primitive_bitwidth == given.primitive_bitwidth]
    if same and given.is_int():
        return f"x.to(tl.{same[0]}, bitcast=True)"
    return f"x.to(tl.{_SPELLINGS.get(str(allowed[0]), allowed[0])})"


_SPELLINGS = {"fp16": "float16", "bf16": "bfloat16", "fp64": "float64"}


def _float_operand(builder: Builder, x: Any, what: str, allowed: tuple[dtype, ...] = (float32, float64)) -> tensor:
    value = unwrap(x)
    given = to_tensor(builder, value)
    need_types(given, allowed, what)
    return given


def _elementary(name: str, doc: str, op: str | None = None, only: tuple[dtype, ...] = (float32, float64)) -> Builtin:
    """The builtin `name` whose meaning is one op of the IR."""

    def meaning(x: Any, *, _builder: Builder) -> tensor:
        value = _float_operand(_builder, x, name, only)
        return emit(_builder, op or name, (value,), value.type)

    meaning.__name__ = meaning.__qualname__ = name
    meaning.__doc__ = doc
    return tensor_member(Builtin(meaning))


exp = _elementary("exp", "e to the power x, of fp32 or fp64.")
exp2 = _elementary("exp2", "2 to the power x, of fp32 or fp64.")
log = _elementary("log", "Natural logarithm of fp32 or fp64.")
log2 = _elementary("log2", "Logarithm to base 2 of fp32 or fp64.")
sin = _elementary("sin", "Sine of fp32 or fp64, in radians.")
cos = _elementary("cos", "Cosine of fp32 or fp64, in radians.")
sqrt = _elementary("sqrt", "Square root of fp32 or fp64.")
sqrt_rn = _elementary("sqrt_rn", "Square root of fp32, correctly rounded.", only=(float32,))
rsqrt = _elementary("rsqrt", "1 / sqrt(x), of fp32 or fp64.")
erf = _elementary("erf", "The error function, of fp32 or fp64.")
floor = _elementary("floor", "The greatest integer <= x, as a float, of fp32 or fp64.")
ceil = _elementary("ceil", "The least integer >= x, as a float, of fp32 or fp64.")


@builtin
def abs(x: Any, *, _builder: Builder) -> tensor:
    """The absolute value, of floats (NaN and -0 lose their sign) and integers; unsigned ones stay as they are."""
    value = to_tensor(_builder, x)
    refuse_pointer(value, "tl.abs", argument("abs", 0, "x"))
    element = value.dtype
    assert isinstance(element, dtype)
    if element.is_floating():
        return emit(_builder, "abs_f", (value,), value.type)
    return emit(_builder, "abs_s", (value,), value.type) if element.is_int_signed() else value


tensor_member(abs)


@builtin
def fma(x: Any, y: Any, z: Any, *, _builder: Builder) -> tensor:
    """x * y + z with one rounding; floats, promoted and broadcast together.  Integers are refused."""
    target = operators.common_type_of((x, y, z), "tl.fma")
    if not target.is_floating():
        raise LanguageTypeError(f"tl.fma works on floats, but got {target}; write x * y + z for integers")
    a, b, c = broadcast_all(_builder, [operators.as_type(_builder, v, target) for v in (x, y, z)])
    return emit(_builder, "fma", (a, b, c), a.type)


@builtin
def umulhi(x: Any, y: Any, *, _builder: Builder) -> tensor:
    """The high half of the unsigned product of two integers of 32 or 64 bits, also of signed types."""
    a, b = operators.prepare(_builder, x, y, "tl.umulhi")
    if not (isinstance(a.dtype, dtype) and a.dtype.is_int() and a.dtype.int_bitwidth >= 32):
        raise LanguageTypeError(f"Expected dtype ['int32', 'int64', 'uint32', 'uint64'] but got {a.dtype}: tl.umulhi "
                                "takes integers of 32 or 64 bits")
    return emit(_builder, "mulhi_u", (a, b), a.type)


@builtin
def div_rn(x: Any, y: Any, *, _builder: Builder) -> tensor:
    """x / y of fp32, correctly rounded.  Other types are refused."""
    result_type = operators.common_type(x, y, "tl.div_rn")
    if result_type != float32:
        raise LanguageTypeError(f"Expected dtype ['fp32'] but got {result_type}: tl.div_rn divides fp32; write "
                                "x.to(tl.float32)")
    return operators.true_divide(_builder, x, y, "div_rn")


@builtin
def fdiv(x: Any, y: Any, ieee_rounding: Any = False, approx: Any = False, *, _builder: Builder) -> tensor:
    """x / y of floats, in fp32 or fp64, promoted and broadcast as by `/`.

    `ieee_rounding=True` rounds correctly; `approx` allows a rougher result and is a hint.  Integers are refused: use
    `/`.
    """
    known_bool(approx, "approx")
    for given, position, name in ((x, 0, "x"), (y, 1, "y")):
        refuse_pointer(given, "tl.fdiv", argument("fdiv", position, name))
    kinds = [element_type(x), element_type(y)]
    for given, kind in zip((x, y), kinds, strict=True):
        if not (isinstance(kind, dtype) and kind.is_floating()) and not is_literal(given):
            raise LanguageTypeError(f"both operands of fdiv must have floating scalar type, but got {kinds[0]} and "
                                    f"{kinds[1]}; use `/`")
    exact = known_bool(ieee_rounding, "ieee_rounding")
    return operators.true_divide(_builder, x, y, "div_rn" if exact else "div_f")


def sigmoid_of(builder: Builder, x: tensor) -> tensor:
    """1 / (1 + exp(-x))."""
    need_types(x, (float32, float64), "sigmoid")
    power = emit(builder, "exp", (operators.negate(builder, x),), x.type)
    bottom = operators.arithmetic(builder, "Add", 1.0, power)
    return operators.true_divide(builder, 1.0, bottom)


__all__ = ["abs", "ceil", "cos", "div_rn", "erf", "exp", "exp2", "fdiv", "floor", "fma", "log", "log2", "rsqrt",
           "sin", "sqrt", "sqrt_rn", "umulhi"]
