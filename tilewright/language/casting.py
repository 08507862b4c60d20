"""Conversions between types (semantics §4): the choice of the strict IR casts.

The sign of an integer extension follows the source, to int1 is `!= 0`, floats narrow to nearest even by default.
Tests: tests/lang/test_casting.py.
"""

from __future__ import annotations

from typing import Any

from tilewright.ir.ops.attributes import Rounding
from tilewright.language.builder import Builder
from tilewright.language.errors import LanguageTypeError, LanguageValueError
from tilewright.language.tensor import tensor
from tilewright.language.types import (
    Scalar,
    dtype,
    float32,
    int1,
    int64,
    pointer_type,
    uint64,
)
from tilewright.language.values import emit, full_of, known, shape, with_dtype


def rounding_mode(name: Any) -> Rounding | None:
    """The rounding that an argument `fp_downcast_rounding` asks for."""
    name = known(name, "fp_downcast_rounding")
    if name is None:
        return None
    if name not in ("rtne", "rtz"):
        raise LanguageValueError(f"fp_downcast_rounding must be 'rtne' (to nearest even) or 'rtz' (toward zero), "
                                 f"not {name!r}")
    return Rounding(name)


def cast(builder: Builder, x: tensor, to: Scalar, rounding: Rounding | None = None) -> tensor:
    """`x` converted to elements of `to`; the same value if it has them already."""
    source = x.dtype
    narrows = (isinstance(source, dtype) and isinstance(to, dtype) and source.is_floating() and to.is_floating()
               and source.primitive_bitwidth > to.primitive_bitwidth)
    if rounding is not None and not narrows:
        raise LanguageValueError(f"fp_downcast_rounding applies to a float cast to a narrower float, not to a cast "
                                 f"from {source} to {to}")
    if source == to:
        return x
    if isinstance(source, pointer_type) or isinstance(to, pointer_type):
        return _cast_pointer(builder, x, to)
    if source.is_floating() and to.is_floating():
        return _cast_floats(builder, x, to, rounding)
    if to.is_int1():
        return is_nonzero(builder, x)
    if source.is_int() and to.is_int():
        return _cast_ints(builder, x, to)
    if source.is_fp8() or to.is_fp8():
        raise LanguageTypeError(f"cannot cast {source} to {to}: fp8 converts to and from floats only; go through "
                                "tl.float32")
    if source.is_floating():
        signed = to.is_int_signed()
        wide = cast(builder, x, float32) if source.primitive_bitwidth < 32 else x
        return _op(builder, "fp_to_int_s" if signed else "fp_to_int_u", wide, to)
    return _op(builder, "int_to_fp_s" if source.is_int_signed() else "int_to_fp_u", x, to)


def _op(builder: Builder, name: str, x: tensor, to: Scalar, **attrs: Any) -> tensor:
    return emit(builder, name, (x,), with_dtype(x, to), {"to": to.to_ir(), **attrs})


def _cast_floats(builder: Builder, x: tensor, to: dtype, rounding: Rounding | None) -> tensor:
    source = x.dtype
    if to.primitive_bitwidth > source.primitive_bitwidth:
        return _op(builder, "fp_ext", x, to)
    if to.primitive_bitwidth == source.primitive_bitwidth and not to.is_fp8():
        # fp16 and bf16: through fp32, which holds both
        return _op(builder, "fp_trunc", _op(builder, "fp_ext", x, float32), to)
    return _op(builder, "fp_trunc", x, to, rounding=rounding or Rounding.RTNE)


def _cast_ints(builder: Builder, x: tensor, to: dtype) -> tensor:
    source = x.dtype
    assert isinstance(source, dtype)
    if source.int_bitwidth == to.int_bitwidth:
        return tensor(x.handle, with_dtype(x, to), builder)     # IR integers are signless
    if source.int_bitwidth > to.int_bitwidth:
        return _op(builder, "trunc", x, to)
    return _op(builder, "ext_s" if source.is_int_signed() else "ext_u", x, to)


def is_nonzero(builder: Builder, x: tensor) -> tensor:
    """`x != 0` as int1; true for a NaN."""
    element = x.dtype
    if element == int1:
        return x
    if isinstance(element, pointer_type):
        x = _op(builder, "ptr_to_int", x, int64)
        element = int64
    zero = full_of(builder, 0, element, shape(x))
    return emit(builder, "cmp_une" if element.is_floating() else "cmp_ne", (x, zero), with_dtype(x, int1))


def _cast_pointer(builder: Builder, x: tensor, to: Scalar) -> tensor:
    source = x.dtype
    if isinstance(source, pointer_type):
        if isinstance(to, pointer_type):
            return bitcast(builder, x, to)
        if to == int1:
            return is_nonzero(builder, x)
        if to in (int64, uint64):
            return _op(builder, "ptr_to_int", x, to)
        raise LanguageTypeError(f"cannot cast {source} to {to}: a pointer converts to int64, uint64 or another "
                                "pointer type only; for the numbers that it points to use tl.load")
    if source.is_int() and not source.is_int1():
        return _op(builder, "int_to_ptr", cast(builder, x, int64), to)
    raise LanguageTypeError(f"cannot cast {source} to {to}: only integers convert to pointers")


def bitcast(builder: Builder, x: tensor, to: Scalar) -> tensor:
    """The same bits as another type of the same width; between pointers, another element type."""
    source = x.dtype
    if source == to:
        return x
    if isinstance(source, pointer_type) != isinstance(to, pointer_type):
        return _cast_pointer(builder, x, to)
    have, want = source.primitive_bitwidth, to.primitive_bitwidth
    if have != want:
        raise LanguageValueError(f"Cannot bitcast data-type of size {have} to data-type of size {want} ({source} to "
                                 f"{to}); a bitcast keeps the width, use .to({to}) to convert values")
    if source.to_ir() == to.to_ir():
        return tensor(x.handle, with_dtype(x, to), builder)
    return _op(builder, "bitcast", x, to)


def widen_half(builder: Builder, x: tensor) -> tensor:
    """fp16, bf16 and fp8 as fp32; others as they are."""
    element = x.dtype
    if isinstance(element, dtype) and element.is_floating() and element.primitive_bitwidth < 32:
        return cast(builder, x, float32)
    return x

