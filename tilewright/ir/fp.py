"""Number formats in NumPy: decode storage to float64, round float64 to a format and encode it.

Every IR float type but f64 has at most 24 significant bits, so it is exact in float64; and rounding the float64
result of one +, -, *, / or sqrt once more to such a format gives the correctly rounded result (Figueroa, "When is
double rounding innocuous?", SIGNUM 1995: 53 >= 2*24 + 2).  fp8 encoders saturate to the largest finite value
(PTX ISA cvt.satfinite), NaN stays NaN; e4m3 has no infinity, its NaN is 0x7f.
Tests: tests/ir/test_fp.py (all 8- and 16-bit patterns).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tilewright.ir.types import Scalar, storage_dtype

Array = np.ndarray[Any, Any]

# name: (significant bits, exponent of the smallest normal, largest finite value); f8e4m3 is OCP's E4M3 ("fn"), whose
# largest value has a mantissa of 6 as 7 is NaN (OCP 8-bit Floating Point Specification 1.0, table 1)
_FORMATS: dict[str, tuple[int, int, float]] = {
    "f16": (11, -14, 65504.0),
    "bf16": (8, -126, 3.3895313892515355e38),
    "f32": (24, -126, 3.4028234663852886e38),
    "f8e4m3": (4, -6, 448.0),
    "f8e5m2": (3, -14, 57344.0),
    "f8e4m3fnuz": (4, -7, 240.0),
    "f8e5m2fnuz": (3, -15, 57344.0),
    "f8e4m3b15": (4, -14, 1.875),
}
_SATURATES = ("f8e4m3", "f8e5m2", "f8e4m3fnuz", "f8e5m2fnuz", "f8e4m3b15")
# Without infinities and a negative zero, whose code 0x80 is the only NaN ("finite, NaN, unsigned zero" in MLIR); and
# triton's own e4m3 of bias 15, all of whose codes are numbers: a NaN becomes the largest of them.
_FNUZ = ("f8e4m3fnuz", "f8e5m2fnuz")
_NANS = {"bf16": 0x7FC0, "f8e4m3": 0x7F, "f8e5m2": 0x7F, "f8e4m3fnuz": 0x80, "f8e5m2fnuz": 0x80, "f8e4m3b15": 0x7F}


def decode(array: Array, t: Scalar) -> Array:
    """Storage of float type `t` as float64, exactly (NaN payloads are not kept)."""
    if t.name == "f64":
        return array
    with np.errstate(all="ignore"):
        if t.name in ("f16", "f32"):
            return array.astype(np.float64)
        if t.name == "bf16":
            return (array.astype(np.uint32) << np.uint32(16)).view(np.float32).astype(np.float64)
        if t.name == "f8e5m2":
            return (array.astype(np.uint16) << np.uint16(8)).view(np.float16).astype(np.float64)
        if t.name != "f8e4m3":
            return _decode_by_scaling(array, t)
        half = ((array.astype(np.uint16) & np.uint16(0x80)) << np.uint16(8)) | (
            (array.astype(np.uint16) & np.uint16(0x7F)) << np.uint16(7))
        value = half.view(np.float16).astype(np.float64) * 256.0
        return np.where((array & np.uint8(0x7F)) == 0x7F, np.nan, value)


def _place_in_f32(t: Scalar) -> tuple[int, float]:
    """How far the code of an 8-bit format lies below its place in an f32, and the power of two between the values."""
    bits, min_exponent, _ = _FORMATS[t.name]
    return 24 - bits, 2.0 ** (126 + min_exponent)


def _decode_by_scaling(array: Array, t: Scalar) -> Array:
    """An 8-bit format by its bits in an f32's place, whose exponent has another bias: exact, denormals too."""
    shift, scale = _place_in_f32(t)
    size = ((array.astype(np.uint32) & np.uint32(0x7F)) << np.uint32(shift)).view(np.float32).astype(np.float64) * scale
    value = np.where(array & np.uint8(0x80), -size, size)
    return np.where(array == 0x80, np.nan, value) if t.name in _FNUZ else value


def _encode_by_scaling(y: Array, t: Scalar) -> Array:
    """The opposite, of numbers of the format."""
    shift, scale = _place_in_f32(t)
    bits = (np.abs(y) / scale).astype(np.float32).view(np.uint32) >> np.uint32(shift)
    code = bits.astype(np.uint8) | np.where(np.signbit(y), np.uint8(0x80), np.uint8(0))
    return np.where(y == 0, np.uint8(0), code) if t.name in _FNUZ else code


def round_to(x: Array, t: Scalar, toward_zero: bool = False) -> Array:
    """`x` (float64) rounded to the format of `t`, as float64; ties to even, or truncated."""
    if t.name == "f64":
        return x
    bits, min_exponent, largest = _FORMATS[t.name]
    x = np.asarray(x, np.float64)
    with np.errstate(all="ignore"):
        _, exponent = np.frexp(x)
        quantum_exponent = np.maximum(exponent - 1, min_exponent) - (bits - 1)
        scaled = np.ldexp(x, -quantum_exponent)
        whole = np.trunc(scaled) if toward_zero else np.rint(scaled)
        y = np.where(np.isfinite(x), np.ldexp(whole, quantum_exponent), x)
        over = np.abs(y) > largest
        limit = largest if toward_zero or t.name in _SATURATES else np.inf
        clipped = np.isfinite(x) if t.name not in _SATURATES else ~np.isnan(x)
        return np.where(over & clipped, np.copysign(limit, y), y)


def encode(x: Array, t: Scalar, toward_zero: bool = False) -> Array:
    """`x` (float64) rounded to `t` and put in storage; every NaN becomes the canonical quiet NaN, sign clear."""
    x = np.asarray(x, np.float64)
    nan = np.isnan(x)
    with np.errstate(all="ignore"):
        out = _encode_numbers(x, t, toward_zero)
    if nan.any():
        out = np.where(nan, _canonical_nan(t), out)
    return out


def _canonical_nan(t: Scalar) -> Array:
    if t.name in ("f16", "f32", "f64"):
        return np.array(np.nan, storage_dtype(t))
    return np.array(_NANS[t.name], storage_dtype(t))


def _encode_numbers(x: Array, t: Scalar, toward_zero: bool) -> Array:
    """`encode` without NaN, whose bits may come out as any."""
    if t.name == "f64":
        return x
    if t.name in ("f16", "f32") and not toward_zero:
        return x.astype(storage_dtype(t))       # NumPy rounds once, to nearest even
    y = round_to(x, t, toward_zero)
    if t.name in ("f16", "f32"):
        return y.astype(storage_dtype(t))
    if t.name == "bf16":
        return (y.astype(np.float32).view(np.uint32) >> np.uint32(16)).astype(np.uint16)
    if t.name == "f8e5m2":
        return (y.astype(np.float16).view(np.uint16) >> np.uint16(8)).astype(np.uint8)
    if t.name != "f8e4m3":
        return _encode_by_scaling(y, t)
    # e4m3 has the bias 7, f16 has 15: 2**-8 lines the exponents up, denormals too
    half = (y / 256.0).astype(np.float16).view(np.uint16)
    return (((half >> np.uint16(8)) & np.uint16(0x80)) | ((half & np.uint16(0x7FFF)) >> np.uint16(7))).astype(np.uint8)
