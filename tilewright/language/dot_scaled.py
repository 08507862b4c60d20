"""`tl.dot_scaled`: the product of tiles in microscaling formats (OCP MX v1.0), in fp32 (semantics §6).

Each run of elements along K has a scale: a power of two in the format e8m0, 2**(byte - 127), 255 being NaN, or a number
of e4m3, as in NVFP4.  Elements are multiplied with their scales in fp32, which is exact for normal numbers, and the
products are summed in fp32.  The scaled elements enter the product as bf16 or tf32, for which GPUs have units, where
all their bits fit; only below 2**-126, where bf16 has fewer bits, can that be seen.
Tests: tests/lang/test_values_dot_scaled.py.
"""

from __future__ import annotations

from typing import Any

from tilewright.language import comparison, shape_ops
from tilewright.language.broadcasting import broadcast_to
from tilewright.language.builder import Builder
from tilewright.language.builtin import builtin
from tilewright.language.casting import bitcast, cast
from tilewright.language.constexpr import unwrap
from tilewright.language.dot import dot
from tilewright.language.errors import LanguageTypeError, LanguageValueError
from tilewright.language.tensor import tensor
from tilewright.language.types import bfloat16, float8e4nv, float8e5, float16, float32, int32, uint8
from tilewright.language.values import describe, known, known_bool, known_dtype, refuse_pointer, shape

# Bits of a number, the leading one included (OCP MX 1.0, section 5.3; IEEE 754; PTX ISA 5.2.3 for tf32).
_BITS = {"e2m1": 2, "e4m3": 4, "e5m2": 3, "bf16": 8, "fp16": 11}
_BF16_BITS, _TF32_BITS, _E4M3_BITS = 8, 11, 4
_FORMATS = {"e4m3": float8e4nv, "e5m2": float8e5, "bf16": bfloat16, "fp16": float16}


@builtin
def dot_scaled(lhs: Any, lhs_scale: Any, lhs_format: Any, rhs: Any, rhs_scale: Any, rhs_format: Any, acc: Any = None,
               fast_math: Any = False, lhs_k_pack: Any = True, rhs_k_pack: Any = True, out_dtype: Any = float32, *,
               _builder: Builder) -> tensor:
    """`(lhs * lhs_scale) @ (rhs * rhs_scale) + acc`, of tiles [M, K] and [K, N] in microscaling formats, in fp32.

    `lhs_format` and `rhs_format` are "e2m1" (two elements in a uint8, the first in the low half; packed along K, or
    along M or N where `lhs_k_pack` or `rhs_k_pack` is False), "e4m3", "e5m2" (fp8 or uint8), "bf16" or "fp16".  Scales
    are uint8 exponents (e8m0: 2**(byte - 127), 255 is NaN) or fp8e4nv numbers, as in NVFP4, of the shapes
    [M, K / group] and [N, K / group], or None.  `fast_math` is a hint.  The formats are those of OCP Microscaling (MX)
    1.0.
    """
    known_bool(fast_math, "fast_math")
    if known_dtype(out_dtype, "out_dtype") != float32:
        raise LanguageValueError("out_dtype of tl.dot_scaled must be tl.float32")
    left = _elements(_builder, lhs, lhs_format, 1 if known_bool(lhs_k_pack, "lhs_k_pack") else 0, "lhs")
    right = _elements(_builder, rhs, rhs_format, 0 if known_bool(rhs_k_pack, "rhs_k_pack") else 1, "rhs")
    left = _scaled(_builder, left, lhs_scale, "lhs_scale")
    turned = shape_ops.make_permute(_builder, right, (1, 0))
    right = shape_ops.make_permute(_builder, _scaled(_builder, turned, rhs_scale, "rhs_scale"), (1, 0))
    bits = max(_bits_of(lhs_format, lhs_scale), _bits_of(rhs_format, rhs_scale))
    if bits <= _BF16_BITS:
        left, right = cast(_builder, left, bfloat16), cast(_builder, right, bfloat16)
    precision = "tf32" if bits <= _TF32_BITS else "ieee"
    result: tensor = dot.call(_builder, (left, right), {"acc": acc, "input_precision": precision})
    return result


def _bits_of(format: Any, scale: Any) -> int:
    """How many bits an element may have once it is scaled; a power of two adds none."""
    s = unwrap(scale)
    return _BITS[known(format, "format")] + (_E4M3_BITS if s is not None and s.dtype == float8e4nv else 0)


def _elements(builder: Builder, value: Any, format: Any, packed: int, name: str) -> tensor:
    """The elements of an operand as fp32."""
    x, kind = unwrap(value), known(format, f"{name}_format")
    refuse_pointer(x, "tl.dot_scaled", f"dot_scaled.{name}")
    if not isinstance(x, tensor) or len(shape(x)) != 2:
        raise LanguageTypeError(f"{name} of tl.dot_scaled must be a tile of two dimensions, not {describe(value)}")
    if kind == "e2m1":
        if x.dtype != uint8:
            raise LanguageTypeError(f"{name} in the format e2m1 is packed in uint8, but it is {x}")
        return _unpacked(builder, x, packed)
    if kind not in _FORMATS:
        raise LanguageValueError(f"{name}_format {kind!r} is not supported; allowed are 'e2m1', "
                                 f"{', '.join(map(repr, _FORMATS))}")
    want = _FORMATS[kind]
    if x.dtype == uint8 and want.is_fp8():
        x = bitcast(builder, x, want)
    if x.dtype != want:
        raise LanguageTypeError(f"{name} in the format {kind} must hold {want}{' or uint8' if want.is_fp8() else ''}, "
                                f"but it is {x}")
    return cast(builder, x, float32)


def _unpacked(builder: Builder, x: tensor, axis: int) -> tensor:
    """Pairs of e2m1 (a sign, two bits of exponent, one of mantissa) side by side along `axis`."""
    wide = cast(builder, x, int32)
    pairs = shape_ops.join.call(builder, (_fp4(builder, wide & 15), _fp4(builder, wide >> 4)))
    if axis == 0:
        pairs = shape_ops.make_permute(builder, pairs, (0, 2, 1))
    rows, columns = shape(x)
    return shape_ops.make_reshape(builder, pairs, (2 * rows, columns) if axis == 0 else (rows, 2 * columns))


def _fp4(builder: Builder, code: tensor) -> tensor:
    """0, 0.5, 1, 1.5, 2, 3, 4, 6 with a sign: the bits of fp32, but for 0.5, which is no normal number in e2m1."""
    size = code & 7
    bits = comparison.where(builder, size < 2, size * 0x3F000000, (size << 22) + ((127 - 1) << 23))
    return bitcast(builder, bits | ((code & 8) << 28), float32)


def _scaled(builder: Builder, x: tensor, scale: Any, name: str) -> tensor:
    """The rows of `x` with the scale of each group of columns."""
    s = unwrap(scale)
    if s is None:
        return x
    rows, columns = shape(x)
    if not isinstance(s, tensor) or s.dtype not in (uint8, float8e4nv) or len(shape(s)) != 2:
        raise LanguageTypeError(f"{name} of tl.dot_scaled must be a tile of uint8 (e8m0) or fp8e4nv with two "
                                f"dimensions, not {describe(scale)}")
    groups = shape(s)[1]
    if shape(s)[0] != rows or columns % groups:
        raise LanguageValueError(f"{name} of tl.dot_scaled must have the shape [{rows}, {columns} / group], but it is "
                                 f"{list(shape(s))}")
    factor = _power_of_two(builder, s) if s.dtype == uint8 else cast(builder, s, float32)
    spread = broadcast_to(builder, shape_ops.make_expand_dims(builder, factor, 2), (rows, groups, columns // groups))
    result: tensor = x * shape_ops.make_reshape(builder, spread, (rows, columns))
    return result


def _power_of_two(builder: Builder, scale: tensor) -> tensor:
    """The numbers of e8m0."""
    code = cast(builder, scale, int32)
    bits = comparison.where(builder, code == 0, 0x400000, code << 23)       # 2**-127 is no normal number
    return bitcast(builder, comparison.where(builder, code == 255, 0x7FC00000, bits), float32)
