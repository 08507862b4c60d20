"""Formats and rounding by themselves: all patterns of the small ones, against exact values."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from tilewright.targets.nvidia.ptx import floats


@pytest.mark.parametrize("format, codes", [("e4m3", 256), ("e5m2", 256), ("e2m1", 16), ("e2m3", 64), ("e3m2", 64),
                                           ("bf16", 65536), ("f16", 65536)])
def test_every_value_comes_back(format: str, codes: int) -> None:
    raw = np.arange(codes).astype("u2" if codes > 256 else "u1")
    raw = raw.view("f2") if format == "f16" else raw
    value = floats.decode(raw, format)
    finite = np.isfinite(value)
    back = floats.encode(value, format, saturate=False)
    bits = "u1" if codes <= 256 else "u2"
    assert (np.asarray(back).view(bits)[finite] == raw.view(bits)[finite]).all()


@pytest.mark.parametrize("format", ["e4m3", "e5m2", "bf16", "f16", "f32", "tf32"])
@pytest.mark.parametrize("mode", ["nearest", "zero", "down", "up"])
def test_rounding_is_exact(format: str, mode: str) -> None:
    rng = np.random.default_rng(1)
    scale = {"e4m3": 6, "e5m2": 12, "f16": 14}.get(format, 120)
    x = rng.standard_normal(400) * 2.0**rng.integers(-scale - 8, scale + 2, 400)
    got = floats.round_to(x, format, mode)
    want = [floats.round_exact(Fraction(v), format, mode) for v in x]
    assert got.tolist() == want


def test_fused_multiply_add_of_doubles() -> None:
    rng = np.random.default_rng(2)
    a, b = rng.standard_normal((2, 2000)) * 2.0**rng.integers(-60, 60, (2, 2000))
    near = -(a * b) * (1 + rng.integers(-4, 5, 2000) * 2.0**-52)
    c = np.where(rng.random(2000) < 0.5, near, rng.standard_normal(2000))
    want = [floats.round_exact(Fraction(x) * Fraction(y) + Fraction(z), "f64", "nearest") for x, y, z in zip(a, b, c)]
    assert floats.fma64(a, b, c).tolist() == want


def test_fused_multiply_add_of_singles() -> None:
    rng = np.random.default_rng(3)
    a, b = (rng.standard_normal((2, 2000)) * 2.0**rng.integers(-30, 30, (2, 2000))).astype("f4")
    c = np.where(rng.random(2000) < 0.5, -(a * b), rng.standard_normal(2000)).astype("f4")
    want = [floats.round_exact(Fraction(float(x)) * Fraction(float(y)) + Fraction(float(z)), "f32", "nearest")
            for x, y, z in zip(a, b, c)]
    assert floats.fma32(a, b, c).tolist() == want
