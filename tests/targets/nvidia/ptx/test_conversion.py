"""cvt of all pairs of types, against NumPy and exact rounding."""

from __future__ import annotations

import numpy as np
import pytest

from tests.targets.nvidia.ptx.harness import FLOATS, INTEGERS, apply
from tests.targets.nvidia.ptx.test_floating import HALVES, MODES, bf16, same
from tilewright.targets.nvidia.ptx import floats

INTEGER_TYPES = ["u16", "s16", "u32", "s32", "u64", "s64"]


@pytest.mark.parametrize("to", INTEGER_TYPES)
@pytest.mark.parametrize("source", INTEGER_TYPES)
def test_integers(to: str, source: str) -> None:
    values = INTEGERS[int(source[1:])]
    bits = int(to[1:])
    plain = [int(v) for v in values.view(("i" if source[0] == "s" else "u") + str(values.itemsize))]
    assert apply(f"cvt.{to}.{source}", f"u{bits // 8}", values).tolist() == [p % 2**bits for p in plain]
    low, high = (-(2**(bits - 1)), 2**(bits - 1) - 1) if to[0] == "s" else (0, 2**bits - 1)
    assert apply(f"cvt.sat.{to}.{source}", f"u{bits // 8}", values).tolist() == \
        [max(low, min(high, p)) % 2**bits for p in plain]


@pytest.mark.parametrize("source", ["u8", "s8"])
def test_bytes_of_wider_registers(source: str) -> None:
    values = np.array([0, 1, 127, 128, 255, 256, 0x1234], "u2")
    want = values.astype("u1").view("i1" if source[0] == "s" else "u1").astype("i4")
    assert (apply(f"cvt.s32.{source}", "i4", values) == want).all()


@pytest.mark.parametrize("to", INTEGER_TYPES)
@pytest.mark.parametrize("mode", ["rzi", "rni", "rmi", "rpi"])
def test_float_to_integer(to: str, mode: str) -> None:
    """Out of range goes to the nearest end; NaN to 0, or the highest bit where one of the two has 64 bits."""
    bits = int(to[1:])
    round_ = {"rzi": np.trunc, "rni": np.rint, "rmi": np.floor, "rpi": np.ceil}[mode]
    low, high = (-(2**(bits - 1)), 2**(bits - 1) - 1) if to[0] == "s" else (0, 2**bits - 1)
    for source, values in (("f32", FLOATS), ("f64", np.append(FLOATS.astype("f8"), 1e18))):
        want = []
        for v in values.astype("f8"):
            if np.isnan(v):
                want.append(2**(bits - 1) if bits == 64 or source == "f64" else 0)
            else:
                whole = int(round_(v)) if np.isfinite(v) else (high if v > 0 else low)
                want.append(max(low, min(high, whole)) % 2**bits)
        assert apply(f"cvt.{mode}.{to}.{source}", f"u{bits // 8}", values).tolist() == want


@pytest.mark.parametrize("source", INTEGER_TYPES)
@pytest.mark.parametrize("mode", MODES)
def test_integer_to_float(source: str, mode: str) -> None:
    from fractions import Fraction

    values = INTEGERS[int(source[1:])]
    plain = [int(v) for v in values.view(("i" if source[0] == "s" else "u") + str(values.itemsize))]
    for to, dtype in (("f32", "f4"), ("f64", "f8"), ("f16", "f2")):
        want = [floats.round_exact(Fraction(p), to, MODES[mode]) for p in plain]
        with np.errstate(over="ignore"):
            same(apply(f"cvt.{mode}.{to}.{source}", dtype, values), np.array(want).astype(dtype))


@pytest.mark.parametrize("mode", MODES)
def test_narrowing(mode: str) -> None:
    same(apply(f"cvt.{mode}.f16.f32", "f2", FLOATS), floats.round_to(FLOATS.astype("f8"), "f16", MODES[mode]))
    wide = FLOATS.astype("f8") * 1.1
    same(apply(f"cvt.{mode}.f32.f64", "f4", wide), floats.round_to(wide, "f32", MODES[mode]))
    if mode in ("rn", "rz"):
        got = floats.decode(apply(f"cvt.{mode}.bf16.f32", "u2", FLOATS), "bf16")
        same(got, floats.round_to(FLOATS.astype("f8"), "bf16", MODES[mode]))


def test_widening_is_exact() -> None:
    same(apply("cvt.f32.f16", "f4", HALVES), HALVES.astype("f4"))
    same(apply("cvt.f64.f32", "f8", FLOATS), FLOATS.astype("f8"))
    same(apply("cvt.f32.bf16", "f4", bf16(FLOATS)), floats.decode(bf16(FLOATS), "bf16").astype("f4"))


@pytest.mark.parametrize("mode, round_", [("rni", np.rint), ("rzi", np.trunc), ("rmi", np.floor), ("rpi", np.ceil)])
def test_integral_floats(mode: str, round_) -> None:
    same(apply(f"cvt.{mode}.f32.f32", "f4", FLOATS), round_(FLOATS))


def test_modifiers() -> None:
    x = np.array([-1, 0.25, 2, np.nan, 1e-40, 70000, -70000, 0.5], "f4")
    same(apply("cvt.sat.f32.f32", "f4", x), np.array([0, 0.25, 1, 0, 1e-40, 1, 0, 0.5], "f4"))
    same(apply("cvt.ftz.f32.f32", "f4", x), np.array([-1, 0.25, 2, np.nan, 0, 70000, -70000, 0.5], "f4"))
    same(apply("cvt.rn.relu.f16.f32", "f2", x), np.array([0, 0.25, 2, np.nan, 0, np.inf, 0, 0.5], "f2"))
    tf32 = apply("cvt.rna.tf32.f32", "u4", np.array([1 + 2**-11, 1 + 2**-12, -1 - 2**-11, 3.0] * 8, "f4")).view("f4")
    assert tf32[:4].tolist() == [1 + 2**-10, 1.0, -1 - 2**-10, 3.0]


def test_pairs() -> None:
    a, b = FLOATS, FLOATS[::-1].copy()
    got = apply("cvt.rn.f16x2.f32", "u4", a, b).view("f2").reshape(-1, 2)
    with np.errstate(over="ignore"):
        same(got[:, 1].copy(), a.astype("f2"))
        same(got[:, 0].copy(), b.astype("f2"))
    got = apply("cvt.rn.bf16x2.f32", "u4", a, b).view("u2").reshape(-1, 2)
    assert (got[:, 1] == bf16(a)).all()
    assert (got[:, 0] == bf16(b)).all()


@pytest.mark.parametrize("format", ["e4m3", "e5m2"])
def test_eight_bit_floats(format: str) -> None:
    a, b = np.append(FLOATS, [448, 449, 464, 465, 57344, 61440, 2**-9, 2**-10, 2**-10 * 1.1]).astype("f4"), None
    b = a[::-1].copy()
    got = apply(f"cvt.rn.satfinite.{format}x2.f32", "u2", a, b)
    assert ((got >> 8) == floats.encode(a.astype("f8"), format, saturate=True)).all()
    assert ((got & 255) == floats.encode(b.astype("f8"), format, saturate=True)).all()
    codes = np.arange(0, 65536, 77).astype("u2")
    halves = apply(f"cvt.rn.f16x2.{format}x2", "u4", codes).view("f2").reshape(-1, 2)
    same(halves[:, 0].copy(), floats.decode((codes & 255).astype("u1"), format))
    same(halves[:, 1].copy(), floats.decode((codes >> 8).astype("u1"), format))
    back = apply(f"cvt.rn.satfinite.{format}x2.f16x2", "u2", halves.reshape(-1).view("u4"))
    low = floats.decode((codes & 255).astype("u1"), format)
    finite = np.isfinite(low)
    assert ((back & 255) == (codes & 255))[finite].all()


def test_packing_integers() -> None:
    a, b = np.array([-200, 5, 300, 127] * 8, "i4"), np.array([1, -1, 255, 256] * 8, "i4")
    c = np.full(32, 0xABCD, "u4")
    out = apply("cvt.pack.sat.u8.s32.b32", "u4", a, b, c)
    want = [int(np.clip(x, 0, 255)) << 8 | int(np.clip(y, 0, 255)) | 0xABCD << 16 for x, y in zip(a, b)]
    assert out.tolist() == want
    assert apply("cvt.pack.sat.s16.s32", "u4", a, b).tolist() == \
        [(int(x) & 0xFFFF) << 16 | int(y) & 0xFFFF for x, y in zip(a, b)]
