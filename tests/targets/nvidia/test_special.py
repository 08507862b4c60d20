"""Rows with instructions of a GPU's own, on the PTX machine: special values, and the bounds at random places."""

import math

import numpy as np
import pytest

import tilewright as triton
import tilewright.language as tl
from tilewright.targets.nvidia import NvidiaTarget
from tilewright.testing import ptx_machine

NAN, INF = float("nan"), float("inf")
EDGES = [0.0, -0.0, 1.0, -1.0, 1e-30, -1e-40, 88.0, 88.72, 88.73, 100.0, -87.0, -87.4, -100.0, -103.9, -104.1, -110.0,
         127.0, 127.99, 128.0, -126.0, -127.5, -149.0, -149.9, -151.0, INF, -INF, NAN, 3e38, -3e38]


@triton.jit
def apply(x, y, out, n, WHAT: tl.constexpr, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    a, b = tl.load(x + i, mask=i < n), tl.load(y + i, mask=i < n)
    if WHAT == "exp":
        c = tl.exp(a)
    elif WHAT == "exp2":
        c = tl.exp2(a)
    elif WHAT == "div":
        c = a / b
    elif WHAT == "sqrt":
        c = tl.sqrt(a)
    elif WHAT == "tanh":
        c = tl.extra.libdevice.tanh(a)
    else:
        c = tl.rsqrt(a)
    tl.store(out + i, c, mask=i < n)


def of(what, x, y=None):
    x = np.asarray(x, np.float32)
    out = np.zeros_like(x)
    ptx_machine.run(apply, (1,), (x, np.ones_like(x) if y is None else np.asarray(y, np.float32), out, len(x)),
                    {"WHAT": what, "BLOCK": triton.next_power_of_2(len(x))})
    return out


def ulps(got, want):
    """How many units of the last place of `want`, a float64, `got` is off."""
    unit = np.spacing(np.maximum(np.abs(want), np.finfo(np.float32).tiny).astype(np.float32)).astype(np.float64)
    return np.abs(got.astype(np.float64) - want) / unit


@pytest.mark.parametrize("what, reference, bound", [
    ("exp", np.exp, 1), ("exp2", np.exp2, 1), ("sqrt", np.sqrt, 1), ("rsqrt", lambda x: 1 / np.sqrt(x), 2),
    ("tanh", np.tanh, 2)])
def test_bounds_and_special_values(what, reference, bound):
    x = np.concatenate([EDGES, np.random.default_rng(0).uniform(-110, 130, 400)]).astype(np.float32)
    with np.errstate(all="ignore"):
        want = reference(x.astype(np.float64))
        rounded = want.astype(np.float32)
    got = of(what, x)
    limit = np.abs(want) >= 3.4028235677973366e38
    np.testing.assert_array_equal(got[limit], rounded[limit])
    np.testing.assert_array_equal(np.isnan(got), np.isnan(want))
    usual = np.isfinite(want) & ~limit
    if what == "exp2":      # small results are zero, as ex2.approx.ftz gives them
        small = np.abs(want) < np.finfo(np.float32).tiny
        assert small.any() and not got[small].any()
        usual &= ~small
    assert ulps(got[usual], want[usual]).max() <= bound


def test_division():
    rng = np.random.default_rng(1)
    x, y = (np.concatenate([v, rng.standard_normal(200)]) for v in np.meshgrid(
        [0.0, -0.0, 1.0, -3.0, INF, NAN], [0.0, 2.0, -7.0, INF, NAN])[0:2] and (
            np.repeat([0.0, -0.0, 1.0, -3.0, INF, NAN], 5), np.tile([0.0, 2.0, -7.0, INF, NAN], 6)))
    with np.errstate(all="ignore"):
        want = x.astype(np.float32).astype(np.float64) / y.astype(np.float32).astype(np.float64)
    got = of("div", x, y)
    usual = np.isfinite(want)
    assert ulps(got[usual], want[usual]).max() <= 2
    np.testing.assert_array_equal(got[~usual], want[~usual].astype(np.float32))


@triton.jit
def by_one(x, y, out, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(out + i, tl.load(x + i, mask=i < n) / tl.load(y), mask=i < n)


@pytest.mark.parametrize("divisor", [1.0, -3.0, 7e-20, 3e-39, 1e-45, 5e19, 3e38, 0.0, INF, NAN, 2.0**-126, 2.0**126,
                                     1.999999 * 2.0**-127, -1.0000001 * 2.0**126, 2.0**-128, -INF, -0.0])
def test_division_by_one_number(divisor):
    powers = 10.0 ** np.arange(-38, 38).repeat(3)[:200]
    x = np.concatenate([EDGES, np.random.default_rng(1).standard_normal(200) * powers])
    x, y = np.resize(x.astype(np.float32), 256), np.array([divisor], np.float32)
    out = np.zeros_like(x)
    ptx = ptx_machine.run(by_one, (1,), (x, y, out, len(x)), {"BLOCK": 1024, "num_warps": 1}).texts["ptx"]
    assert ptx.count("rcp.approx.ftz.f32") == 1 and "div." not in ptx
    with np.errstate(all="ignore"):
        want = x.astype(np.float64) / y.astype(np.float64)
    inside = np.isfinite(want) & (np.abs(want) < 3.4e38)
    assert ulps(out[inside], want[inside]).max(initial=0) <= 2
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(out[~inside], want[~inside].astype(np.float32))


@triton.jit
def inverses(x, y, out, N: tl.constexpr):
    i = tl.arange(0, N)
    a, b = tl.load(x + i), tl.load(y + i)
    tl.store(out + i, tl.extra.libdevice.pow(a, b))
    tl.store(out + N + i, tl.extra.libdevice.atan(a))
    tl.store(out + 2 * N + i, tl.extra.libdevice.asinh(a))
    tl.store(out + 3 * N + i, tl.extra.libdevice.atanh(a))
    tl.store(out + 4 * N + i, tl.extra.libdevice.log1p(a))


def test_functions_with_reciprocals():
    """One approximate instruction instead of a quotient, nothing in f64; and what that gives at the ends."""
    ends = np.array([*EDGES[:-3], 0.5, -0.75, 2.0, 3.0, 1.5e38, INF, -INF, NAN], np.float32)
    x, y = (v.ravel() for v in np.meshgrid(ends, ends))
    n = triton.next_power_of_2(len(x))
    x, y = np.resize(x, n), np.resize(y, n)
    got = np.zeros(5 * n, np.float32)
    code = ptx_machine.run(inverses, (1,), (x, y, got), {"N": n})
    with np.errstate(all="ignore"):
        a, b = x.astype(np.float64), y.astype(np.float64)
        want = np.concatenate([np.power(a, b), np.arctan(a), np.arcsinh(a), np.arctanh(a), np.log1p(a)])
        exact = want.astype(np.float32)
    usual = np.isfinite(exact)
    assert ulps(got[usual], want[usual]).max() <= 4
    np.testing.assert_array_equal(got[~usual], exact[~usual])
    zeros = want == 0
    np.testing.assert_array_equal(np.signbit(got[zeros]), np.signbit(exact[zeros]))
    ptx = code.texts["ptx"]
    assert ".f64" not in ptx and "div.rn" not in ptx and "rcp.approx.ftz.f32" in ptx


@triton.jit
def errors(x, out, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(out + i, tl.erf(tl.load(x + i)))


def test_erf_takes_its_power_from_the_hardware():
    x = np.concatenate([np.linspace(-4, 4, 1024 - len(EDGES) - 64), np.linspace(0.999, 1.001, 64), EDGES])
    x, out = x.astype(np.float32), np.zeros(1024, np.float32)
    ptx = ptx_machine.run(errors, (1,), (x, out), {"N": 1024}).texts["ptx"]
    want = np.array([math.erf(v) for v in x.astype(np.float64)])
    known = ~np.isnan(x)
    assert ulps(out[known], want[known]).max() <= 2
    np.testing.assert_array_equal(np.isnan(out), ~known)
    assert ptx.count("ex2.approx") == 8 and ptx.count("fma.rn.f32") <= 8 * 14     # two polynomials of each element


@triton.jit
def angles(x, out, N: tl.constexpr):
    i = tl.arange(0, N)
    a = tl.load(x + i)
    tl.store(out + i, tl.sin(a))
    tl.store(out + N + i, tl.cos(a))
    tl.store(out + 2 * N + i, tl.extra.libdevice.tan(a))


def test_large_angles_are_turned_in_integers():
    rng = np.random.default_rng(2)
    x = np.ldexp(rng.uniform(1, 2, 512), rng.integers(15, 128, 512)) * rng.choice([-1, 1], 512)
    x[:6] = [INF, -INF, NAN, 2.0**20, 3.4028234663852886e38, 16367173 * 2.0**72]     # the last: 2**-29 beside n*pi/2
    x = x.astype(np.float32)
    got = np.zeros(3 * len(x), np.float32)
    code = ptx_machine.run(angles, (1,), (x, got), {"N": len(x)})
    with np.errstate(all="ignore"):
        want = np.concatenate([function(x.astype(np.float64)) for function in (np.sin, np.cos, np.tan)])
    usual = np.isfinite(want)
    assert (ulps(got[usual], want[usual]) <= np.repeat([2, 2, 4], len(x))[usual]).all()
    assert np.isnan(got[~usual]).all() and not usual[:3].any()
    assert ".f64" not in code.texts["ptx"]


@triton.jit
def extremes(x, y, out, N: tl.constexpr):
    i = tl.arange(0, N)
    a, b = tl.load(x + i), tl.load(y + i)
    tl.store(out + i, tl.maximum(a, b))
    tl.store(out + N + i, tl.minimum(a, b))
    tl.store(out + 2 * N + i, tl.maximum(a, b, propagate_nan=tl.PropagateNan.ALL))
    tl.store(out + 3 * N + i, tl.minimum(a, b, propagate_nan=tl.PropagateNan.ALL))


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_extremes(dtype):
    values = np.array([0.0, -0.0, 1.0, -1.0, INF, -INF, NAN, 0.5], dtype)
    x, y = values.repeat(8), np.tile(values, 8)
    want, got = np.zeros(256, dtype), np.zeros(256, dtype)
    extremes[(1,)](x, y, want, N=64)
    ptx_machine.run(extremes, (1,), (x, y, got), {"N": 64})
    np.testing.assert_array_equal(got, want)
    np.testing.assert_array_equal(np.signbit(got[~np.isnan(got)]), np.signbit(want[~np.isnan(want)]))


@triton.jit
def extremum(x, out, N: tl.constexpr, LARGEST: tl.constexpr):
    row = tl.load(x + tl.program_id(0) * N + tl.arange(0, N)).to(tl.float32)
    tl.store(out + tl.program_id(0), tl.max(row, 0) if LARGEST else tl.min(row, 0))


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("warps", [1, 2])
@pytest.mark.parametrize("largest", [True, False])
def test_the_extremum_of_narrow_numbers_is_taken_in_pairs(dtype, warps, largest):
    torch = pytest.importorskip("torch")
    x = torch.randn(8, 256, generator=torch.Generator().manual_seed(0)).to(getattr(torch, dtype))
    x[1], x[2], x[3], x[4] = NAN, -0.0, -INF, INF
    x[2, 77] = 0.0
    x[5, 3::7] = NAN
    x[6, ::2] = NAN
    out, want = torch.zeros(8), torch.zeros(8)
    constants = {"N": 256, "LARGEST": largest, "num_warps": warps}
    code = ptx_machine.run(extremum, (8,), (x, out), constants)
    extremum[(8,)](x, want, **constants)
    np.testing.assert_array_equal(out, want)
    np.testing.assert_array_equal(np.signbit(out[2:3]), np.signbit(want[2:3]))
    assert f"{'max' if largest else 'min'}.{'bf16' if dtype == 'bfloat16' else 'f16'}x2" in code.texts["ptx"]


@triton.jit
def round_trip(x, out, N: tl.constexpr, TO: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(out + i, tl.load(x + i).to(TO).to(tl.float32))


@pytest.mark.parametrize("capability", [80, 90])
@pytest.mark.parametrize("to", [tl.float8e4nv, tl.float8e5, tl.bfloat16, tl.float16])
def test_narrow_floats_round_alike_everywhere(to, capability):
    rng = np.random.default_rng(2)
    powers = 10.0 ** rng.integers(-8, 6, 200)
    x = np.concatenate([EDGES, rng.standard_normal(200) * powers, [448, 464, 465, 57344, 6e4]])
    x = np.resize(x.astype(np.float32), 256)
    want, got = np.zeros_like(x), np.zeros_like(x)
    round_trip[(1,)](x, want, N=256, TO=to)
    ptx_machine.run(round_trip, (1,), (x, got), {"N": 256, "TO": to}, NvidiaTarget(capability, assemble=False))
    np.testing.assert_array_equal(got, want)


@triton.jit
def quotients(x, y, q, r, N: tl.constexpr):
    i = tl.arange(0, N)
    a, b = tl.load(x + i), tl.load(y + i)
    tl.store(q + i, a // b)
    tl.store(r + i, a % b)


@pytest.mark.parametrize("dtype", [np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint32, np.uint64])
def test_division_by_zero_is_zero_and_leaves_the_dividend(dtype):
    """As on every engine; the hardware gives all ones."""
    x = np.array([7, 0, 100, 1], dtype)
    y = np.array([0, 0, 7, 0], dtype)
    q, r = np.ones_like(x), np.ones_like(x)
    ptx_machine.run(quotients, (1,), (x, y, q, r), {"N": 4})
    assert q.tolist() == [0, 0, 14, 0] and r.tolist() == [7, 0, 2, 1]


@triton.jit
def tanh_of_halves(x, out, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(out + i, tl.extra.libdevice.tanh(tl.load(x + i).to(tl.float32)).to(tl.float16))


def test_a_hyperbolic_tangent_takes_two_approximate_instructions_and_no_branch():
    x = np.linspace(-12, 12, 1024).astype(np.float16)
    out = np.zeros_like(x)
    code = ptx_machine.run(tanh_of_halves, (1,), (x, out), {"BLOCK": 1024, "num_warps": 4})
    want = np.tanh(x.astype(np.float64))
    np.testing.assert_allclose(out, want, rtol=1e-3)
    text = code.texts["ptx"]
    assert text.count("ex2.approx") == text.count("rcp.approx") == text.count("copysign") == 8
    assert text.count("fma.rn.f32") <= 8 * 6 and "bra" not in text
