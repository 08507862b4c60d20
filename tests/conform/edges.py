"""Edge values of every element type, and operand lists made of them."""

from __future__ import annotations

import itertools

import numpy as np

from tilewright.ir import fp
from tilewright.ir.types import I1, STORED_ONLY, Pointer, storage_dtype

_F64 = [0.0, 1.0, 2.0, 0.5, 1.5, 3.0, 7.0, 10.0, 0.1, 1 / 3, 2.5, 255.0, 256.0, 65504.0, 65520.0, 1e-3, 2.0**-24,
        2.0**-9, 2.0**31, 2.0**32, 2.0**53 + 2, 2.0**63, 2.0**64, 448.0, 464.0, 57344.0]
_EXTREMES = {   # smallest denormal, largest denormal, smallest normal, next to one, largest finite
    "f16": [2.0**-24, 2.0**-14 - 2.0**-24, 2.0**-14, 1 + 2.0**-10, 65504.0],
    "bf16": [2.0**-133, 2.0**-126 - 2.0**-133, 2.0**-126, 1 + 2.0**-7, 2.0**128 - 2.0**120],
    "f32": [2.0**-149, 2.0**-126 - 2.0**-149, 2.0**-126, 1 + 2.0**-23, 2.0**128 - 2.0**104],
    "f64": [5e-324, 2.2250738585072009e-308, 2.2250738585072014e-308, 1 + 2.0**-52, 1.7976931348623157e308],
    "f8e4m3": [2.0**-9, 7 * 2.0**-9, 2.0**-6, 1.125, 448.0],
    "f8e5m2": [2.0**-16, 3 * 2.0**-16, 2.0**-14, 1.25, 57344.0],
    "f8e4m3fnuz": [2.0**-10, 7 * 2.0**-10, 2.0**-7, 1.125, 240.0],
    "f8e5m2fnuz": [2.0**-17, 3 * 2.0**-17, 2.0**-15, 1.25, 57344.0],
    "f8e4m3b15": [2.0**-17, 7 * 2.0**-17, 2.0**-14, 1.125, 1.875],
}


def values(element, extra=()):
    """Storage array of edge values of a type."""
    if isinstance(element, Pointer):
        return np.array([0, 4096, 4099, 2**47 - 16, -16], np.int64)
    if element == I1:
        return np.array([False, True])
    if element.is_int:
        low, high = -(1 << (element.bits - 1)), (1 << (element.bits - 1)) - 1
        some = [0, 1, -1, 2, -2, 3, 5, 7, -7, 8, 15, 16, 31, 32, 63, 64, 100, -100, high, high - 1, low, low + 1,
                high // 2 + 1, low // 3, 0x5A]
        return np.unique(np.array([v for v in (*some, *extra) if low <= v <= high], storage_dtype(element)))
    plain = np.array([*_F64, *_EXTREMES[element.name], *extra])
    both = np.concatenate([plain, -plain, [np.inf, -np.inf, np.nan]])
    encoded = np.concatenate([fp.encode(both, element), _other_nans(element)])
    _, first = np.unique(np.ascontiguousarray(encoded).view(f"u{element.bytes}"), return_index=True)
    return encoded[np.sort(first)]


def _other_nans(element):
    """A negative quiet NaN with a payload, and both signs of a signalling one (e4m3 has one NaN of each sign)."""
    if element.name == "f8e4m3":
        return np.array([0xFF], np.uint8)
    if element in STORED_ONLY:      # no other, or none at all
        return np.array([0x80], np.uint8)
    mantissa = {"f16": 10, "bf16": 7, "f32": 23, "f64": 52, "f8e5m2": 2}[element.name]
    exponent = ((1 << element.bits) - 1) >> (mantissa + 1) << mantissa
    sign, quiet = 1 << (element.bits - 1), 1 << (mantissa - 1)
    patterns = [sign | exponent | quiet | 1, exponent | 1, sign | exponent | 1]
    return np.array(patterns, f"u{element.bytes}").view(storage_dtype(element))


def random_values(element, count, seed):
    """Random bit patterns (addresses in range for pointers), so every exponent and many NaNs occur."""
    rng = np.random.default_rng(seed)
    if isinstance(element, Pointer):
        return rng.integers(0, 2**40, count)
    if element == I1:
        return rng.integers(0, 2, count).astype(np.bool_)
    size = element.bytes
    return rng.integers(0, 256, count * size, dtype=np.uint8).view(f"u{size}").view(storage_dtype(element))


def core(element):
    """Indices, in `values`, of those that decide special cases: zeros, ones, limits, denormals, infinities, NaN."""
    stored = values(element)
    if isinstance(element, Pointer) or element.is_int:
        return sorted({0, 1, len(stored) - 2, len(stored) - 1, *(i for i, v in enumerate(stored.tolist())
                                                                 if v in (-1, 0, 1, 2, 8, element.bits))} - {-1})
    plain = fp.decode(stored, element)
    extremes = _EXTREMES[element.name]
    return [i for i, v in enumerate(plain.tolist()) if v != v or abs(v) in (0, 1, 3, extremes[0], extremes[4], np.inf)]


def operand_lists(elements, limit=400, extra=()):
    """Operand arrays of one length: every value of a single operand; of several all combinations of the core values,
    a fixed choice of others, and random patterns."""
    lists = [values(e, extra) for e in elements]
    if len(lists) == 1:
        chosen = lists
    else:
        rng = np.random.default_rng(12)
        others = np.stack([rng.integers(0, len(v), limit) for v in lists], axis=1)
        together = np.array(list(itertools.product(*(core(e) for e in elements))))
        picks = np.concatenate([together, others])
        chosen = [v[picks[:, i]] for i, v in enumerate(lists)]
    return [np.concatenate([c, random_values(e, 40, 20 + i)])
            for i, (c, e) in enumerate(zip(chosen, elements, strict=True))]
