"""Float formats and rounding, in NumPy.

float64 holds every narrower format exactly, and one +, *, / or sqrt of formats with at most 25 bits rounds right when
it is computed in float64 and rounded again (Figueroa, SIGNUM 1995).  A fused multiply-add does not: its float64 sum is
rounded *to odd* first, after which rounding again is right (Boldo, Melquiond, IEEE TC 2008).
Tests: tests/targets/nvidia/ptx/test_floats.py.
"""

from __future__ import annotations

from fractions import Fraction
from math import isfinite
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]

# format: (significant bits, exponent of the smallest normal, largest finite value)
FORMATS: dict[str, tuple[int, int, float]] = {
    "f64": (53, -1022, 1.7976931348623157e308), "f32": (24, -126, 3.4028234663852886e38), "f16": (11, -14, 65504.0),
    "bf16": (8, -126, 3.3895313892515355e38), "tf32": (11, -126, 3.4011621342146535e38),
    "e4m3": (4, -6, 448.0), "e5m2": (3, -14, 57344.0), "e2m1": (2, 0, 6.0), "e2m3": (4, 0, 7.5), "e3m2": (3, -2, 28.0),
}
MODES = {"rn": "nearest", "rz": "zero", "rm": "down", "rp": "up", "rna": "away", "rni": "nearest", "rzi": "zero",
         "rmi": "down", "rpi": "up", "rs": "zero"}
_INTEGERS = {"nearest": np.rint, "zero": np.trunc, "down": np.floor, "up": np.ceil,
             "away": lambda x: np.where(np.abs(x) < 2**52, np.trunc(x + np.copysign(0.5, x)), x)}


def to_integer(x: Array, mode: str) -> Array:
    """Rounded to an integer, as float; `mode` is one of the values of `MODES`."""
    return np.asarray(_INTEGERS[mode](x))     # type: ignore[operator]


def round_to(x: Array, format: str, mode: str = "nearest", saturate: bool = False) -> Array:
    """float64 `x` rounded to a format's values; `saturate` keeps what is too large at the largest finite value."""
    bits, smallest, largest = FORMATS[format]
    x = np.asarray(x, np.float64)
    if format == "f64":
        return x
    _, exponent = np.frexp(x)
    quantum = np.maximum(exponent - 1, smallest) - (bits - 1)
    y = np.where(np.isfinite(x), np.ldexp(to_integer(np.ldexp(x, -quantum), mode), quantum), x)
    over = np.abs(y) > largest
    if over.any():
        if saturate:
            y = np.where(over, np.copysign(largest, y), y)
        else:
            kept = {"zero": np.ones_like(over), "down": y > 0, "up": y < 0}.get(mode, np.zeros_like(over))
            y = np.where(over, np.copysign(np.where(kept & np.isfinite(x), largest, np.inf), y), y)
    return y


def decode(raw: Array, format: str) -> Array:
    """Storage of a format as float64, exactly."""
    if format in ("f64", "f32", "f16"):
        return raw.astype(np.float64)
    if format == "tf32":
        return raw.astype(np.float64)
    if format == "bf16":
        return (raw.astype(np.uint32) << np.uint32(16)).view(np.float32).astype(np.float64)
    if format == "e5m2":
        return (raw.astype(np.uint16) << np.uint16(8)).view(np.float16).astype(np.float64)
    return TABLES[format][raw]


def _table(format: str, exponent_bits: int, fraction_bits: int, bias: int) -> Array:
    """All values of a small format by its bits."""
    code = np.arange(256)
    fraction = code & ((1 << fraction_bits) - 1)
    exponent = code >> fraction_bits & ((1 << exponent_bits) - 1)
    sign = np.where(code >> (fraction_bits + exponent_bits) & 1, -1.0, 1.0)
    scale = np.ldexp(1.0, np.maximum(exponent, 1) - bias - fraction_bits)
    value = sign * (fraction + np.where(exponent > 0, 1 << fraction_bits, 0)) * scale
    return np.where((code & 0x7F) == 0x7F, np.nan, value) if format == "e4m3" else value


TABLES = {"e4m3": _table("e4m3", 4, 3, 7), "e2m1": _table("e2m1", 2, 1, 1), "e2m3": _table("e2m3", 2, 3, 1),
          "e3m2": _table("e3m2", 3, 2, 3)}


def encode(x: Array, format: str, mode: str = "nearest", saturate: bool = False) -> Array:
    """float64 `x` rounded and put in storage.  NaN becomes the canonical NaN (PTX ISA 9.7.3: 0x7fffffff, 0x7fff)."""
    x = np.asarray(x, np.float64)
    if format == "f64":
        return x
    nan = np.isnan(x)
    if mode == "nearest" and not saturate and format in ("f32", "f16"):
        out = x.astype(np.float32 if format == "f32" else np.float16)
    else:
        out = _store(np.where(nan, 0.0, round_to(x, format, mode, saturate)), format)
    if nan.any():
        out = np.array(out)
        out[nan] = CANONICAL_NAN[format]
    return out


CANONICAL_NAN: dict[str, Any] = {
    "f32": np.array(0x7FFFFFFF, np.uint32).view(np.float32), "f16": np.array(0x7FFF, np.uint16).view(np.float16),
    "tf32": np.array(0x7FFFFFFF, np.uint32).view(np.float32), "bf16": 0x7FFF, "e4m3": 0x7F, "e5m2": 0x7F, "e2m1": 7,
    "e2m3": 0x1F, "e3m2": 0x1F,
}


def _store(y: Array, format: str) -> Array:
    """Values of the format as storage."""
    if format in ("f32", "tf32"):
        return y.astype(np.float32)
    if format == "f16":
        return y.astype(np.float16)
    if format == "bf16":
        return (y.astype(np.float32).view(np.uint32) >> np.uint32(16)).astype(np.uint16)
    if format == "e5m2":
        return (y.astype(np.float16).view(np.uint16) >> np.uint16(8)).astype(np.uint8)
    table = TABLES[format]
    half = len(table) // 2 if format == "e4m3" else {"e2m1": 8, "e2m3": 32, "e3m2": 32}[format]
    positive = np.where(np.isnan(table[:half]), np.inf, table[:half])
    code = np.searchsorted(positive, np.abs(y)).clip(0, half - 1)
    infinite = np.isinf(y)
    code = np.where(infinite, half - 1, code)
    return (code + np.where(np.signbit(y), half, 0)).astype(np.uint8)


# ---- fused multiply-add
def sum_to_odd(a: Array, b: Array) -> Array:
    """a + b in float64, rounded to odd: the last bit says that something was cut off."""
    s = a + b
    t = s - a
    error = (a - (s - t)) + (b - t)
    off = (error != 0) & np.isfinite(s) & np.isfinite(error)
    if not off.any():
        return np.asarray(s)
    bits = np.ascontiguousarray(s).view(np.int64)
    even = off & (bits & 1 == 0)
    return np.asarray(np.where(even, bits + np.where((error > 0) == (s > 0), 1, -1), bits)).view(np.float64)


def fma32(a: Array, b: Array, c: Array) -> Array:
    """float32 fused multiply-add, rounded once: the product is exact in float64."""
    wide = np.float64
    p, d = a.astype(wide) * b.astype(wide), c.astype(wide)
    s = np.asarray(p + d)
    out = s.astype(np.float32)
    # the second rounding errs only where the float64 sum is a tie, or the result is subnormal
    suspicious = (s.view(np.int64) & 0x1FFFFFFF == 0x10000000) | (np.abs(s) < 1.2e-38)
    if suspicious.any():
        out = np.where(suspicious, sum_to_odd(*np.broadcast_arrays(p, d)).astype(np.float32), out)
    return out


def _split(a: Array) -> tuple[Array, Array]:
    high = a * 134217729.0
    high = high - (high - a)
    return high, a - high


def fma64(a: Array, b: Array, c: Array) -> Array:
    """float64 fused multiply-add: error-free product and sums, to odd before the last (Boldo, Melquiond 2008)."""
    a, b, c = np.broadcast_arrays(a, b, c)
    p = a * b
    a1, a0 = _split(a)
    b1, b0 = _split(b)
    e = ((a1 * b1 - p) + a1 * b0 + a0 * b1) + a0 * b0
    uh, ul = _two_sum(c, e)
    th, tl = _two_sum(p, uh)
    out = th + sum_to_odd(tl, ul)
    big = np.maximum(np.abs(a), np.maximum(np.abs(b), np.abs(c))) > 1e150
    odd = big | ((np.abs(p) < 1e-250) & (p != 0)) | ((p == 0) & (a != 0) & (b != 0)) | (np.abs(out) < 1e-290)
    if odd.any():
        out = np.array(out)
        for i in np.flatnonzero(odd):
            out.flat[i] = _exact_fma(float(a.flat[i]), float(b.flat[i]), float(c.flat[i]))
    return np.asarray(out)


def _two_sum(a: Array, b: Array) -> tuple[Array, Array]:
    s = a + b
    t = s - a
    return s, (a - (s - t)) + (b - t)


def _exact_fma(a: float, b: float, c: float) -> float:
    if isfinite(a) and isfinite(b) and not isfinite(c):
        return c        # also where a * b alone would overflow
    if not (isfinite(a) and isfinite(b) and isfinite(c)):
        return float(np.float64(a) * np.float64(b) + np.float64(c))
    exact = Fraction(a) * Fraction(b) + Fraction(c)
    if exact == 0:
        return a * b + c if a == 0 or b == 0 else 0.0
    try:
        return exact.numerator / exact.denominator
    except OverflowError:
        return float("inf") if exact > 0 else float("-inf")


def round_exact(value: Fraction, format: str, mode: str) -> float:
    """An exact number rounded to a format by a directed mode."""
    bits, smallest, largest = FORMATS[format]
    if value == 0:
        return 0.0
    size = abs(value)
    exponent = size.numerator.bit_length() - size.denominator.bit_length()
    exponent -= size < Fraction(2) ** exponent
    quantum = Fraction(2) ** (max(exponent, smallest) - bits + 1)
    low, rest = divmod(size, quantum)
    up = rest != 0 and ((mode == "up" and value > 0) or (mode == "down" and value < 0))
    if mode == "nearest":
        up = 2 * rest > quantum or (2 * rest == quantum and low % 2 == 1)
    size = (low + up) * quantum
    if size > Fraction(largest):
        grows = mode == "nearest" or (mode == "up" and value > 0) or (mode == "down" and value < 0)
        return (1 if value > 0 else -1) * (float("inf") if grows else largest)
    return float(size) if value > 0 else -float(size)
