"""Number formats: every 8- and 16-bit pattern, every tie, both roundings, against exact arithmetic and torch."""

from bisect import bisect_right
from fractions import Fraction

import numpy as np
import pytest

from tests.conform.rows import bits_of
from tilewright.ir import fp
from tilewright.ir.types import (
    BF16,
    F8E4M3,
    F8E4M3B15,
    F8E4M3FNUZ,
    F8E5M2,
    F8E5M2FNUZ,
    F16,
    F32,
    F64,
    storage_dtype,
)

# exponent bits, mantissa bits, bias, has infinities (IEEE 754-2019 3.4; OCP 8-bit Floating Point 1.0)
LAYOUT = {"f16": (5, 10, 15, True), "bf16": (8, 7, 127, True), "f8e5m2": (5, 2, 15, True),
          "f8e4m3": (4, 3, 7, False), "f8e4m3fnuz": (4, 3, 8, False), "f8e5m2fnuz": (5, 2, 16, False),
          "f8e4m3b15": (4, 3, 15, False)}
# without negative zero and infinities, NaN in the place of the former; and without any of them but -0
FNUZ, ALL_NUMBERS = ("f8e4m3fnuz", "f8e5m2fnuz"), ("f8e4m3b15",)
SMALL = [F16, BF16, F8E5M2, F8E4M3, F8E4M3FNUZ, F8E5M2FNUZ, F8E4M3B15]
small = pytest.mark.parametrize("t", SMALL, ids=str)


def value_of(pattern, t):
    """The value of a bit pattern from its fields, as a Fraction, or an inf or nan as a float."""
    exponent_bits, mantissa_bits, bias, infinities = LAYOUT[t.name]
    sign = -1 if pattern >> (exponent_bits + mantissa_bits) else 1
    exponent = (pattern >> mantissa_bits) & ((1 << exponent_bits) - 1)
    mantissa = pattern & ((1 << mantissa_bits) - 1)
    if t.name in FNUZ and sign < 0 and exponent == mantissa == 0:
        return float("nan")
    if exponent == (1 << exponent_bits) - 1 and t.name not in (*FNUZ, *ALL_NUMBERS):
        if infinities:
            return float("nan") if mantissa else sign * float("inf")
        if mantissa == (1 << mantissa_bits) - 1:
            return float("nan")
    if exponent == 0:
        return sign * Fraction(mantissa, 1 << mantissa_bits) * Fraction(2) ** (1 - bias)
    return sign * (1 + Fraction(mantissa, 1 << mantissa_bits)) * Fraction(2) ** (exponent - bias)


def all_patterns(t):
    return np.arange(1 << t.bits, dtype=np.uint32).astype(f"u{t.bytes}").view(storage_dtype(t))


def finite_values(t):
    """The finite values >= 0 in ascending order, by pattern."""
    values = [value_of(p, t) for p in range(1 << (t.bits - 1))]
    return [v for v in values if isinstance(v, Fraction)]


@small
def test_decode_gives_the_value_of_every_pattern(t):
    got = fp.decode(all_patterns(t), t)
    want = np.array([float(value_of(p, t)) for p in range(1 << t.bits)])
    np.testing.assert_array_equal(got, want)
    sign = np.arange(1 << t.bits) >= 1 << (t.bits - 1)
    zero = want == 0
    np.testing.assert_array_equal(np.signbit(got)[zero], sign[zero])


@small
@pytest.mark.parametrize("toward_zero", [False, True])
def test_encode_inverts_decode(t, toward_zero):
    patterns = all_patterns(t)
    value = fp.decode(patterns, t)
    back = fp.encode(value, t, toward_zero)
    nan = np.isnan(value)
    saturated = np.isinf(value) if t == F8E5M2 else np.zeros_like(nan)
    keeps = ~nan & ~saturated
    np.testing.assert_array_equal(bits_of(back)[keeps], bits_of(patterns)[keeps])
    canonical = {"f16": 0x7E00, "bf16": 0x7FC0, **dict.fromkeys(FNUZ, 0x80)}.get(t.name, 0x7F)
    assert set(bits_of(back)[nan].tolist()) == ({canonical} if t.name not in ALL_NUMBERS else set())
    assert bits_of(fp.encode(np.array([np.nan, -np.nan]), t, toward_zero)).tolist() == [canonical] * 2
    assert set(fp.decode(back[saturated], t).tolist()) <= {57344.0, -57344.0}


@small
@pytest.mark.parametrize("toward_zero", [False, True])
def test_every_tie_and_its_neighbours(t, toward_zero):
    """Between each two neighbours: the middle and the float64 next to it on both sides, and next to each value."""
    values = np.array([float(v) for v in finite_values(t)])
    middle = (values[:-1] + values[1:]) / 2
    lower = np.arange(len(middle))
    to_even = lower + (lower & 1)
    cases = [(middle, to_even), (np.nextafter(middle, 0), lower), (np.nextafter(middle, np.inf), lower + 1),
             (np.nextafter(values[:-1], np.inf), lower), (np.nextafter(values[1:], 0), lower + 1)]
    for x, nearest in cases:
        want = lower if toward_zero else nearest
        for sign, flag in ((1, 0), (-1, 1 << (t.bits - 1))):
            got = bits_of(fp.encode(sign * x, t, toward_zero))
            unsigned_zero = t.name in FNUZ
            np.testing.assert_array_equal(got, np.where((want == 0) & unsigned_zero, 0, want | flag))
            np.testing.assert_array_equal(fp.round_to(sign * x, t, toward_zero), sign * values[want])


@pytest.mark.parametrize("t,largest,first_over", [
    (F16, 65504.0, 65520.0), (BF16, 2.0**127 * (2 - 2**-7), 2.0**128 - 2.0**119),
    (F32, 2.0**127 * (2 - 2**-23), 2.0**128 - 2.0**103)], ids=str)
def test_overflow_is_infinite_or_stops_at_the_largest(t, largest, first_over):
    x = np.array([np.nextafter(first_over, 0), first_over, 1e300, np.inf])
    for sign in (1, -1):
        assert fp.decode(fp.encode(sign * x, t), t).tolist() == [sign * v for v in (largest, np.inf, np.inf, np.inf)]
        assert fp.decode(fp.encode(sign * x, t, True), t).tolist() == [sign * v for v in (largest,) * 3 + (np.inf,)]


@pytest.mark.parametrize("t,largest", [(F8E4M3, 448.0), (F8E5M2, 57344.0)], ids=str)
@pytest.mark.parametrize("toward_zero", [False, True])
def test_fp8_saturates(t, largest, toward_zero):
    x = np.array([largest, np.nextafter(largest, np.inf), largest * 1.2, 1e300, np.inf])
    for sign in (1, -1):
        assert set(fp.decode(fp.encode(sign * x, t, toward_zero), t).tolist()) == {sign * largest}


@pytest.mark.parametrize("t", [*SMALL, F32, F64], ids=str)
def test_zeros_keep_their_sign_and_nan_is_canonical(t):
    x = np.array([0.0, -0.0, 1e-300, -1e-300])
    got = fp.decode(fp.encode(x, t), t)
    keeps = t.name not in FNUZ
    assert np.signbit(got).tolist() == [False, keeps, False, keeps]
    assert t == F64 or not got.any()
    payload = np.array([0xFFF8000000000001, 0x7FF0000000000001], np.uint64).view(np.float64)
    patterns = bits_of(fp.encode(payload, t))
    assert patterns[0] == patterns[1] == bits_of(fp.encode(np.array([np.nan]), t))[0]
    assert not np.signbit(fp.decode(fp.encode(payload, t), t)).any()


def exact_round(x, values, toward_zero):
    """Index of the value >= 0 nearest to the Fraction x, ties to an even index."""
    low = bisect_right(values, x) - 1
    if toward_zero or low + 1 == len(values) or x == values[low]:
        return low
    below, above = x - values[low], values[low + 1] - x
    return low + (above < below or (above == below and low % 2 == 1))


@small
@pytest.mark.parametrize("toward_zero", [False, True])
def test_random_values_against_fractions(t, toward_zero):
    values = finite_values(t)
    rng = np.random.default_rng(3)
    x = np.ldexp(rng.uniform(1, 2, 400), rng.integers(LAYOUT[t.name][2] * -1 - 12, 8, 400))
    want = [exact_round(Fraction(float(v)), values, toward_zero) for v in x]
    np.testing.assert_array_equal(bits_of(fp.encode(x, t, toward_zero)), want)


def test_f32_toward_zero_never_leaves_its_neighbour():
    rng = np.random.default_rng(4)
    x = np.ldexp(rng.uniform(-2, 2, 5000), rng.integers(-160, 128, 5000))
    got = fp.encode(x, F32, True).astype(np.float64)
    assert (np.abs(got) <= np.abs(x)).all()
    next_out = np.nextafter(got.astype(np.float32), np.copysign(np.float32(np.inf), x.astype(np.float32)))
    assert (np.abs(next_out.astype(np.float64)) > np.abs(x)).all()


def test_f32_nearest_on_ties_and_denormals():
    base = np.array([1.0, 1.5, 2.0**-126, 2.0**-149, 3 * 2.0**-149, 2.0**127])
    up = np.nextafter(base.astype(np.float32), np.float32(np.inf)).astype(np.float64)
    middle = (base + up) / 2
    got = fp.encode(middle, F32)
    assert (bits_of(got) % 2 == 0).all()
    np.testing.assert_array_equal(fp.round_to(middle, F32), got.astype(np.float64))
    np.testing.assert_array_equal(fp.encode(np.nextafter(middle, 0), F32), base.astype(np.float32))


# -- torch, an independent implementation -----------------------------------------------------------------------------

def torch_dtype(t):
    torch = pytest.importorskip("torch")
    return {"f16": torch.float16, "bf16": torch.bfloat16, "f8e5m2": torch.float8_e5m2,
            "f8e4m3": torch.float8_e4m3fn, "f8e4m3fnuz": torch.float8_e4m3fnuz,
            "f8e5m2fnuz": torch.float8_e5m2fnuz}[t.name]


def torch_patterns(tensor):
    torch = pytest.importorskip("torch")
    return tensor.view(torch.uint8 if tensor.element_size() == 1 else torch.int16).numpy().view(
        f"u{tensor.element_size()}")


in_torch = pytest.mark.parametrize("t", [t for t in SMALL if t != F8E4M3B15], ids=str)


@in_torch
def test_decode_agrees_with_torch(t):
    torch = pytest.importorskip("torch")
    raw = torch.from_numpy(bits_of(all_patterns(t)).view(f"i{t.bytes}")).view(torch_dtype(t))
    np.testing.assert_array_equal(fp.decode(all_patterns(t), t), raw.to(torch.float32).double().numpy())


@in_torch
def test_encode_agrees_with_torch(t):
    """All f16 and bf16 values, and random f32 in the format's range (torch's fp8 casts do not saturate)."""
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(5)
    x = np.concatenate([fp.decode(all_patterns(s), s) for s in (F16, BF16)] + [
        np.ldexp(rng.uniform(-2, 2, 20000), rng.integers(-30, 15, 20000))])
    x = x[~np.isnan(x)].astype(np.float32)
    if t not in (F16, BF16):
        x = x[np.abs(x) <= {F8E4M3: 448, F8E4M3FNUZ: 240}.get(t, 57344)]
    got = bits_of(fp.encode(x.astype(np.float64), t))
    np.testing.assert_array_equal(got, torch_patterns(torch.from_numpy(x).to(torch_dtype(t))))
