"""Bits and integers of `libdevice`: popc, clz, brev, byte_perm, mulhi, hadd, ...; exact on every engine.

Tests: tests/lang/test_libdevice_exact.py.
"""

from __future__ import annotations

from tilewright.language.casting import bitcast, cast
from tilewright.language.extra.float_bits import equals, kind_of, minus, op, plus, times, where
from tilewright.language.tensor import tensor
from tilewright.language.types import dtype, float64, get_int_dtype, int32, int64, uint64


def _unsigned(x: tensor) -> tensor:
    return cast(x.builder, x, get_int_dtype(kind_of(x).int_bitwidth, signed=False))


def _pattern(x: tensor, byte: int) -> int:
    """`byte` in every byte of the width of x."""
    return int.from_bytes(bytes([byte]) * (kind_of(x).int_bitwidth // 8), "little")


def set_bits(x: tensor) -> tensor:
    """How many bits are set: sums of 2, 4 and 8 neighbours, then of the bytes by one product."""
    x = _unsigned(x)
    x = minus(x, (x >> 1) & _pattern(x, 0x55))
    x = plus(x & _pattern(x, 0x33), (x >> 2) & _pattern(x, 0x33))
    x = plus(x, x >> 4) & _pattern(x, 0x0F)
    return cast(x.builder, times(x, _pattern(x, 1)) >> (kind_of(x).int_bitwidth - 8), int32)


def leading_zeros(x: tensor) -> tensor:
    """Zeros above the highest set bit; all bits for 0."""
    x = _unsigned(x)
    for k in range(kind_of(x).int_bitwidth.bit_length() - 1):
        x = x | (x >> (1 << k))
    return set_bits(~x)


def first_set(x: tensor) -> tensor:
    """The number of the lowest set bit, counted from 1; 0 for 0."""
    lowest = x & minus(0, x)
    return where(equals(x, 0), 0, plus(set_bits(minus(lowest, 1)), 1))


def reversed_bits(x: tensor) -> tensor:
    """The bits in reverse order."""
    bits = _unsigned(x)
    for k, byte in ((1, 0x55), (2, 0x33), (4, 0x0F)):
        bits = ((bits >> k) & _pattern(bits, byte)) | ((bits & _pattern(bits, byte)) << k)
    width = kind_of(bits).int_bitwidth
    step = 8
    while step < width:
        mask = sum(((1 << step) - 1) << at for at in range(0, width, 2 * step))
        bits = ((bits >> step) & mask) | ((bits & mask) << step)
        step *= 2
    return cast(x.builder, bits, kind_of(x))


def permuted_bytes(x: tensor, y: tensor, selector: tensor) -> tensor:
    """Four of the eight bytes of y:x; each nibble of `selector` names one by its low three bits."""
    bytes_of = (cast(x.builder, _unsigned(y), uint64) << 32) | cast(x.builder, _unsigned(x), uint64)
    result = None
    for k in range(4):
        which = cast(x.builder, (_unsigned(selector) >> (4 * k)) & 7, uint64)
        byte = ((bytes_of >> (which << 3)) & 0xFF) << (8 * k)
        result = byte if result is None else result | byte
    assert result is not None
    return cast(x.builder, result, int32)


def high_half(x: tensor, y: tensor) -> tensor:
    """The high half of the product; of signed operands the unsigned one less the other operand for each sign."""
    high = op("mulhi_u", x, y)
    if not kind_of(x).is_int_signed():
        return high
    return minus(minus(high, where(x < 0, y, 0)), where(y < 0, x, 0))


def product_of_24_bits(x: tensor, y: tensor) -> tensor:
    """The low 32 bits of the product of the low 24 bits of either operand (of signed ones with their sign)."""
    low = [(v << 8) >> 8 for v in (x, y)]
    return op("mul", *low)


def distance_plus(x: tensor, y: tensor, z: tensor) -> tensor:
    """|x - y| + z, modulo 2**32, in the type of x."""
    lower = x < y
    distance = op("sub", where(lower, y, x), where(lower, x, y))
    return op("add", distance, cast(x.builder, z, kind_of(x)))


def half_of_sum(x: tensor, y: tensor) -> tensor:
    """(x + y) >> 1 without overflow."""
    return plus(x & y, (x ^ y) >> 1)


def half_of_sum_up(x: tensor, y: tensor) -> tensor:
    """(x + y + 1) >> 1 without overflow."""
    return minus(x | y, (x ^ y) >> 1)


def high_word(x: tensor) -> tensor:
    """The high 32 bits of an fp64, as int32."""
    return cast(x.builder, bitcast(x.builder, x, int64) >> 32, int32)


def low_word(x: tensor) -> tensor:
    """The low 32 bits of an fp64, as int32."""
    return cast(x.builder, bitcast(x.builder, x, int64), int32)


def from_words(high: tensor, low: tensor) -> tensor:
    """The fp64 with these halves."""
    b = high.builder
    return bitcast(b, (cast(b, high, int64) << 32) | (cast(b, low, int64) & 0xFFFFFFFF), float64)


def reinterpreted(x: tensor, kind: dtype) -> tensor:
    return bitcast(x.builder, x, kind)
