"""Float instructions against exact fractions and NumPy, on edge values."""

from __future__ import annotations

from fractions import Fraction
from math import isfinite

import numpy as np
import pytest

from tests.targets.nvidia.ptx.harness import FLOATS, apply, pairs, run_body
from tilewright.targets.nvidia.ptx import floats


def same(got: np.ndarray, want: np.ndarray) -> None:
    """Equal bits, all NaN alike."""
    got, want = np.asarray(got), np.asarray(want, got.dtype)
    unsigned = f"u{got.dtype.itemsize}"
    nan = np.isnan(want)
    assert (np.isnan(got) == nan).all()
    assert (got.view(unsigned)[~nan] == want.view(unsigned)[~nan]).all()


def exact(meaning, format: str, mode: str, *sources: np.ndarray) -> np.ndarray:
    """Rounded once, from exact fractions; what is not finite as float64 has it."""
    out = []
    for row in zip(*(s.astype(np.float64).tolist() for s in sources)):
        with np.errstate(all="ignore"):
            plain = float(meaning(*map(np.float64, row)))
        if all(map(isfinite, row)):
            value = meaning(*map(Fraction, row))
            rounded = floats.round_exact(value, format, mode) if value else plain
            out.append(rounded if rounded or not value else np.copysign(0.0, value > 0 or -1))
        else:
            out.append(plain)
    return np.array(out)


MODES = {"rn": "nearest", "rz": "zero", "rm": "down", "rp": "up"}
TERNARY = [FLOATS[::2], FLOATS[1::2], FLOATS[::3]]


def triples() -> list[np.ndarray]:
    grid = np.meshgrid(*TERNARY)
    return [g.ravel().copy() for g in grid]


@pytest.mark.parametrize("mode", MODES)
def test_f32_products_and_sums(mode: str) -> None:
    a, b = pairs(FLOATS)
    same(apply(f"mul.{mode}.f32", "f4", a, b), exact(lambda x, y: x * y, "f32", MODES[mode], a, b))
    for name, sign in (("add", 1), ("sub", -1)):
        want = exact(lambda x, y, sign=sign: x + sign * y, "f32", MODES[mode], a, b)
        cancelled = (a == -sign * b) & (a != 0)      # x - x is -0 when rounding down
        same(apply(f"{name}.{mode}.f32", "f4", a, b), np.where(cancelled & (mode == "rm") & np.isfinite(a), -0.0, want))


@pytest.mark.parametrize("mode", ["rn", "rz"])
def test_f32_fused(mode: str) -> None:
    a, b, c = triples()
    same(apply(f"fma.{mode}.f32", "f4", a, b, c), exact(lambda x, y, z: x * y + z, "f32", MODES[mode], a, b, c))


def test_f32_fused_ties() -> None:
    """Where rounding twice gives another number than rounding once."""
    a = np.array([1 + 2**-12, 1 + 2**-23, 3.0, 1 + 2**-12] * 8, "f4")
    b = np.array([1 + 2**-12, 1 - 2**-23, 1 / 3, 1 + 2**-11] * 8, "f4")
    c = np.array([2.0**-60, 2.0**-80, -1, -(2.0**-70)] * 8, "f4")
    same(apply("fma.rn.f32", "f4", a, b, c), exact(lambda x, y, z: x * y + z, "f32", "nearest", a, b, c))


@pytest.mark.parametrize("mode", ["rn", "rz", "rp"])
def test_f64(mode: str) -> None:
    values = np.concatenate([FLOATS.astype("f8"), [1e300, -1e300, 5e-324, 1e-300, 2.2250738585072014e-308, 0.1]])
    a, b = pairs(values)
    c = a[::-1].copy()
    same(apply(f"mul.{mode}.f64", "f8", a, b), exact(lambda x, y: x * y, "f64", MODES[mode], a, b))
    same(apply(f"add.{mode}.f64", "f8", a, b), exact(lambda x, y: x + y, "f64", MODES[mode], a, b))
    same(apply(f"fma.{mode}.f64", "f8", a, b, c), exact(lambda x, y, z: x * y + z, "f64", MODES[mode], a, b, c))


def test_division_and_roots() -> None:
    a, b = pairs(FLOATS)
    with np.errstate(all="ignore"):
        same(apply("div.rn.f32", "f4", a, b), a / b)
        same(apply("div.full.f32", "f4", a, b), a / b)
        same(apply("sqrt.rn.f32", "f4", FLOATS), np.sqrt(FLOATS))
        same(apply("rcp.rn.f32", "f4", FLOATS), np.float32(1) / FLOATS)
        same(apply("rsqrt.approx.f32", "f4", FLOATS),
             np.where(FLOATS == 0, np.copysign(np.inf, FLOATS), 1 / np.sqrt(FLOATS.astype("f8"))).astype("f4"))
    two, three = np.full(32, 2, "f4"), np.full(32, 3, "f4")
    assert apply("div.rz.f32", "f4", two, three)[0] < apply("div.rp.f32", "f4", two, three)[0]
    assert apply("sqrt.rm.f32", "f4", two)[0] < apply("sqrt.rp.f32", "f4", two)[0]
    assert apply("sqrt.rp.f32", "f4", np.full(32, 4, "f4"))[0] == 2


@pytest.mark.parametrize("opcode, meaning", [
    ("ex2.approx.f32", np.exp2), ("lg2.approx.f32", np.log2), ("sin.approx.f32", np.sin), ("cos.approx.f32", np.cos),
    ("tanh.approx.f32", np.tanh)])
def test_approximate_functions_are_rounded_right(opcode: str, meaning) -> None:
    with np.errstate(all="ignore"):
        same(apply(opcode, "f4", FLOATS), meaning(FLOATS.astype("f8")).astype("f4"))


def test_flushing() -> None:
    tiny = np.array([1e-40, -1e-40, 1.2e-38, 0.0] * 8, "f4")
    one = np.ones_like(tiny)
    same(apply("mul.ftz.f32", "f4", tiny, one), np.array([0.0, -0.0, 1.2e-38, 0.0] * 8, "f4"))
    same(apply("fma.rn.ftz.f32", "f4", tiny, one, one), np.array([1, 1, 1, 1] * 8, "f4"))
    same(apply("add.sat.f32", "f4", one, one), one)
    same(apply("add.ftz.sat.f32", "f4", -one, tiny), np.zeros_like(one))
    assert (apply("setp.eq.ftz.f32", "u2", tiny, tiny * 0, predicate=True) == [1, 1, 0, 1] * 8).all()


@pytest.mark.parametrize("kind", ["min", "max"])
def test_extrema(kind: str) -> None:
    a, b = pairs(FLOATS)
    pick = np.fmin if kind == "min" else np.fmax
    want = pick(a, b)
    zero = (a == 0) & (b == 0)
    negative = np.signbit(a) | np.signbit(b) if kind == "min" else np.signbit(a) & np.signbit(b)
    want = np.where(zero, np.where(negative, np.float32(-0.0), np.float32(0.0)), want)
    same(apply(f"{kind}.f32", "f4", a, b), want)
    same(apply(f"{kind}.f64", "f8", a.astype("f8"), b.astype("f8")), want.astype("f8"))
    same(apply(f"{kind}.NaN.f32", "f4", a, b), np.where(np.isnan(a) | np.isnan(b), np.float32(np.nan), want))
    sizes = apply(f"{kind}.xorsign.abs.f32", "f4", a, b)
    same(np.abs(sizes), pick(np.abs(a), np.abs(b)))
    finite = ~np.isnan(a) & ~np.isnan(b)
    assert (np.signbit(sizes) == (np.signbit(a) ^ np.signbit(b)))[finite].all()


def test_signs() -> None:
    a, b = pairs(FLOATS)
    same(apply("abs.f32", "f4", FLOATS), np.abs(FLOATS))
    same(apply("neg.f32", "f4", FLOATS), -FLOATS)
    same(apply("copysign.f32", "f4", a, b), np.copysign(b, a))


@pytest.mark.parametrize("what", ["finite", "infinite", "number", "notanumber", "normal", "subnormal"])
def test_properties(what: str) -> None:
    tiny = np.float32(2.0**-126)
    want = {"finite": np.isfinite(FLOATS), "infinite": np.isinf(FLOATS), "number": ~np.isnan(FLOATS),
            "notanumber": np.isnan(FLOATS), "normal": np.isfinite(FLOATS) & (np.abs(FLOATS) >= tiny),
            "subnormal": (FLOATS != 0) & (np.abs(FLOATS) < tiny)}[what]
    assert (apply(f"testp.{what}.f32", "u2", FLOATS, predicate=True) == want).all()


@pytest.mark.parametrize("name", ["eq", "ne", "lt", "le", "gt", "ge", "equ", "neu", "ltu", "leu", "gtu", "geu", "num",
                                  "nan"])
def test_comparisons(name: str) -> None:
    a, b = pairs(FLOATS)
    nan = np.isnan(a) | np.isnan(b)
    plain = {"eq": a == b, "ne": a != b, "lt": a < b, "le": a <= b, "gt": a > b, "ge": a >= b, "num": ~nan, "nan": nan}
    want = plain[name[:2]] & ~nan if name in ("eq", "ne", "lt", "le", "gt", "ge") else \
        plain[name] if name in ("num", "nan") else plain[name[:2]] | nan
    assert (apply(f"setp.{name}.f32", "u2", a, b, predicate=True) == want).all()


with np.errstate(over="ignore"):
    HALVES = FLOATS.astype("f2")


def bf16(x: np.ndarray) -> np.ndarray:
    return floats.encode(x.astype("f8"), "bf16")


def test_f16() -> None:
    a, b = pairs(HALVES)
    c = a[::-1].copy()
    same(apply("add.f16", "f2", a, b), exact(lambda x, y: x + y, "f16", "nearest", a, b))
    same(apply("mul.rn.f16", "f2", a, b), exact(lambda x, y: x * y, "f16", "nearest", a, b))
    same(apply("fma.rn.f16", "f2", a, b, c), exact(lambda x, y, z: x * y + z, "f16", "nearest", a, b, c))
    relu = exact(lambda x, y, z: x * y + z, "f16", "nearest", a, b, c)
    same(apply("fma.rn.relu.f16", "f2", a, b, c), np.where(np.isnan(relu), np.nan, np.where(relu > 0, relu, 0.0)))


def test_bf16() -> None:
    a, b = pairs(bf16(FLOATS))
    wide = [floats.decode(x, "bf16") for x in (a, b)]
    with np.errstate(all="ignore"):
        for opcode, want in (("add.rn.bf16", wide[0] + wide[1]), ("mul.rn.bf16", wide[0] * wide[1])):
            got = floats.decode(apply(opcode, "u2", a, b), "bf16")
            same(got, floats.decode(floats.encode(want, "bf16"), "bf16"))
    got = floats.decode(apply("max.bf16", "u2", a, b), "bf16")
    assert (np.isnan(got) == (np.isnan(wide[0]) & np.isnan(wide[1]))).all()


@pytest.mark.parametrize("type", ["f16x2", "bf16x2"])
def test_packed(type: str) -> None:
    """Two elements at once, as one at a time."""
    element = type[:-2]
    values = HALVES.view("u2") if element == "f16" else bf16(FLOATS)
    a, b = pairs(values)
    joined = [np.ascontiguousarray(np.stack([x, x[::-1]], 1)).view("u4")[:, 0] for x in (a, b)]
    for opcode in ("add.rn", "mul.rn", "max", "min.NaN"):
        both = apply(f"{opcode}.{type}", "u4", *joined).view("u2").reshape(-1, 2)
        single = apply(f"{opcode}.{element}", "u2", a, b)
        other = apply(f"{opcode}.{element}", "u2", a[::-1].copy(), b[::-1].copy())
        assert (both[:, 0] == single).all()
        assert (both[:, 1] == other).all()


def test_f32x2() -> None:
    a, b = pairs(FLOATS)
    joined = [np.ascontiguousarray(np.stack([x, x[::-1]], 1)).view("u8")[:, 0] for x in (a, b)]
    both = apply("add.rn.f32x2", "u8", *joined).view("f4").reshape(-1, 2)
    with np.errstate(all="ignore"):
        same(both[:, 0].copy(), a + b)
        same(both[:, 1].copy(), (a + b)[::-1])


def test_combined_predicates() -> None:
    """setp with a third source and two results; selp; set; slct."""
    x = np.arange(32, dtype="i4")
    out = np.zeros((4, 32), "u4")
    run_body("""mul.wide.u32 %rd1, %r100, 4; add.u64 %rd2, %rd100, %rd1; ld.global.b32 %r1, [%rd2];
        setp.lt.s32 %p1, %r1, 10; setp.gt.and.s32 %p2|%p3, %r1, 4, !%p1; add.u64 %rd3, %rd101, %rd1;
        selp.b32 %r2, 1, 0, %p2; selp.b32 %r3, 1, 0, %p3; st.global.b32 [%rd3], %r2; st.global.b32 [%rd3+128], %r3;
        set.lt.u32.s32 %r4, %r1, 7; st.global.b32 [%rd3+256], %r4; sub.s32 %r5, %r1, 5;
        slct.b32.s32 %r6, 3, 4, %r5; st.global.b32 [%rd3+384], %r6; ret;""", x, out, block=32)
    assert (out[0] == ((x > 4) & (x >= 10))).all()
    assert (out[1] == ((x <= 4) & (x >= 10))).all()
    assert (out[2] == np.where(x < 7, 2**32 - 1, 0)).all()
    assert (out[3] == np.where(x >= 5, 3, 4)).all()
