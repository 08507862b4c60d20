"""The fitted functions of tl.extra.libdevice: reference values, identities, ends, and every engine.

References: Python's math (correct to about one ulp) where it has the function, integrals for Bessel functions,
and values computed with 40 digits (mpmath, 2026-11-30).
"""

import math

import numpy as np
import pytest

import tilewright as triton
import tilewright.language as tl
from tests.lang.recorder import call, evaluate
from tilewright.language.extra import libdevice

NAN, INF = float("nan"), float("inf")
X = np.concatenate([np.linspace(-6, 26, 257), np.linspace(-1, 1, 101) * 0.99, [1e-300, -1e-20, 1e-8]])


def of(name, *arguments, kind="fp64"):
    return evaluate(lambda b, *x: call(b, getattr(libdevice, name), *x),
                    *((a if isinstance(a, tuple) else (a, kind)) for a in arguments))


def ulps(got, want):
    """Distances in units of the last place of `want`; special values must be equal."""
    want = np.asarray(want, np.float64)
    usual = np.isfinite(want) & (want != 0)
    np.testing.assert_array_equal(np.asarray(got)[~usual], want[~usual])
    unit = np.array([math.ulp(v) for v in want[usual]])
    return np.max(np.abs(np.asarray(got)[usual] - want[usual]) / unit, initial=0)


def ulps32(got, want):
    """The same for results rounded to fp32, against the unrounded reference."""
    want = np.asarray(want, np.float64)
    usual = np.isfinite(want) & (np.abs(want) > 1e-37) & (np.abs(want) < 3e38)
    unit = np.spacing(np.abs(want[usual]).astype(np.float32)).astype(np.float64)
    return np.max(np.abs(np.asarray(got)[usual] - want[usual]) / unit, initial=0)


def gamma(x):
    try:
        return math.gamma(x)
    except OverflowError:
        return INF
    except ValueError:
        return NAN


@pytest.mark.parametrize("name, reference, bound", [
    ("erfc", math.erfc, 5 + 1), ("tgamma", gamma, 10 + 1),
    ("sinpi", lambda x: math.sin(math.pi * math.fmod(x, 2)), None),
    ("cospi", lambda x: math.cos(math.pi * math.fmod(x, 2)), None),
])
def test_against_math(name, reference, bound):
    given = X[np.abs(X) > 1e-250] if name == "tgamma" else X
    want = [reference(v) for v in given.tolist()]
    if bound is None:
        np.testing.assert_allclose(of(name, given), want, atol=4e-15)
    else:
        assert ulps(of(name, given), want) <= bound
    single = given.astype(np.float32)
    if bound is not None:
        assert ulps32(of(name, single, kind="fp32"), [reference(v) for v in single.tolist()]) <= 1


def test_signs_of_the_poles_of_gamma():
    np.testing.assert_array_equal(of("tgamma", [0.0, -0.0]), [INF, -INF])


def test_lgamma():
    given = np.concatenate([np.linspace(0.01, 40, 400), [1e-300, 1e100, 1e6, 2.0**-70, 1.0, 2.0]])
    want = [math.lgamma(v) for v in given.tolist()]
    got = of("lgamma", given)
    np.testing.assert_allclose(got, want, rtol=1e-15, atol=1e-15)     # near 1 and 2 math.lgamma is no better
    negative = np.linspace(-29.9, -0.01, 300)
    np.testing.assert_allclose(of("lgamma", negative), [math.lgamma(v) for v in negative.tolist()], rtol=1e-14,
                               atol=1e-14)
    np.testing.assert_array_equal(of("lgamma", [0.0, -0.0, -1.0, -7.0, INF, -INF, NAN, 1.0, 2.0]),
                                  [INF, INF, INF, INF, INF, INF, NAN, 0.0, 0.0])


# with 40 digits, rounded
KNOWN = {
    "lgamma": {1.0000000009313226: -5.375739784311044e-10, 1.9999999999990905: -3.845201127643794e-13,
               0.5: 0.5723649429247001, 3.5: 1.2009736023470743, -0.5: 1.2655121234846454,
               -2.25: 0.5555015450206475, 1e-200: 460.51701859880916},
    "erfcx": {0.5: 0.6156903441929259, 3.0: 0.17900115118138996, 20.0: 0.02817434874105132,
              100000.0: 5.6418958351954685e-06, 1e+200: 5.641895835477563e-201, -2.0: 108.94090438997797,
              -20.0: 1.0442939379528289e+174, -27.0: INF, INF: 0.0, -INF: INF},
    "erfinv": {0.1: 0.08885599049425769, 0.5: 0.4769362762044699, -0.75: -0.8134198475976185,
               0.999: 2.3267537655135246, 1.0: INF, -1.0: -INF, 1.5: NAN, 0.0: 0.0},
    "erfcinv": {0.1: 1.163087153676674, 1e-10: 4.572824967389486, 1e-300: 26.209469960516124,
                1.9: -1.1630871536766738, 1.0: 0.0, 0.0: INF, 2.0: -INF, -0.5: NAN, 2.5: NAN},
    "normcdf": {0.0: 0.5, 1.0: 0.8413447460685429, -1.0: 0.15865525393145705, -5.0: 2.866515718791939e-07,
                -37.0: 5.725571222524577e-300, 10.0: 1.0, -INF: 0.0, INF: 1.0},
    "normcdfinv": {0.5: 0.0, 0.1: -1.2815515655446004, 0.975: 1.9599639845400538, 1e-20: -9.262340089798407,
                   0.0: -INF, 1.0: INF, 1.5: NAN},
    "tgamma": {-1.0: NAN, -INF: NAN, INF: INF, 171.5: 9.4833675668248e+307, 172.0: INF,
               -170.5: -3.3127395215386074e-308, 1e-308: 1e+308, -1e-308: -1e+308},
    "erfc": {INF: 0.0, -INF: 2.0, 27.0: 5.23705e-319, 40.0: 0.0},
    "sinpi": {0.5: 1.0, 1.0: 0.0, -1.5: 1.0, 0.25: 0.7071067811865476, 1.152921504606847e+18: 0.0, INF: NAN,
              1.25: -0.7071067811865476},
    "cospi": {0.5: 0.0, 1.0: -1.0, 2.0: 1.0, 0.25: 0.7071067811865476, 1.152921504606847e+18: 1.0, -INF: NAN,
              1.25: -0.7071067811865476},
    "cyl_bessel_i0": {0.0: 1.0, 1.0: 1.2660658777520084, -8.0: 427.5641157218048, 20.0: 43558282.559553534,
                      700.0: 1.5295933476718737e+302, 720.0: INF, INF: INF},
    "cyl_bessel_i1": {0.0: 0.0, 1.0: 0.565159103992485, -8.0: -399.8731367825601, 20.0: 42454973.38512777,
                      -INF: -INF},
    "j0": {0.0: 1.0, 1.0: 0.7651976865579666, 2.404825557695773: -6.10876525973673e-17, 8.0: 0.1716508071375539,
           -3.0: -0.26005195490193345, INF: 0.0},
    "j1": {0.0: 0.0, 1.0: 0.4400505857449335, 3.8317059702075125: -6.149807356994906e-17, -3.0: -0.3390589585259365},
    "y0": {0.0: -INF, -1.0: NAN, 1.0: 0.08825696421567696, 0.1: -1.5342386513503667, 5.0: -0.30851762524903376,
           INF: 0.0},
    "y1": {0.0: -INF, -1.0: NAN, 1.0: -0.7812128213002887, 0.1: -6.4589510947020266, 5.0: 0.14786314339122683},
}


@pytest.mark.parametrize("name", KNOWN)
def test_known_values(name):
    table = KNOWN[name]
    assert ulps(of(name, list(table)), list(table.values())) <= 10
    assert math.isnan(of(name, [NAN])[0])


def test_inverses_undo():
    q = np.concatenate([np.linspace(0.001, 1.999, 200), np.exp(np.linspace(-700, -1, 100))])
    np.testing.assert_allclose([math.erfc(v) for v in of("erfcinv", q).tolist()], q, rtol=4e-13)
    x = np.linspace(-0.9999, 0.9999, 301)
    np.testing.assert_allclose([math.erf(v) for v in of("erfinv", x).tolist()], x, rtol=1e-14, atol=1e-300)
    p = np.linspace(0.001, 0.999, 200)
    np.testing.assert_allclose(of("normcdf", of("normcdfinv", p)), p, rtol=1e-14)


def bessel_j(order, x):
    """Bessel's integral by the trapezoidal rule, which converges like a geometric series (DLMF 10.9.2)."""
    nodes = np.arange(200) * (2 * np.pi / 200)
    return np.cos(order * nodes - np.multiply.outer(x, np.sin(nodes))).mean(axis=-1)


def bessel_y0(x):
    """Neumann's expansion (DLMF 10.8.3 with 10.23)."""
    terms = sum((-1) ** k * bessel_j(2 * k, x) / k for k in range(1, 45))
    return 2 / np.pi * (np.log(x / 2) + np.euler_gamma) * bessel_j(0, x) - 4 / np.pi * terms


def test_bessel_functions_against_their_integrals():
    x = np.concatenate([np.linspace(0.01, 60, 150), np.linspace(7.9, 8.1, 5)])
    j0, j1, y0, y1 = (of(name, x) for name in ("j0", "j1", "y0", "y1"))
    np.testing.assert_allclose(j0, bessel_j(0, x), rtol=0, atol=3e-15)
    np.testing.assert_allclose(j1, bessel_j(1, x), rtol=0, atol=3e-15)
    near = x < 30
    np.testing.assert_allclose(y0[near], bessel_y0(x[near]), rtol=0, atol=3e-14)
    np.testing.assert_allclose((j1 * y0 - j0 * y1) * x * np.pi / 2, 1, rtol=0, atol=2e-14)     # the Wronskian
    single = x.astype(np.float32)
    for order in (0, 1):
        np.testing.assert_allclose(of(f"j{order}", single, kind="fp32"), bessel_j(order, single.astype(np.float64)),
                                   rtol=1e-7, atol=1e-14)


def test_modified_bessel_functions_against_their_integral():
    nodes = np.arange(200) * (2 * np.pi / 200)
    x = np.concatenate([np.linspace(0, 40, 300), [100.0, 300.0]])
    for order in (0, 1):
        want = (np.exp(np.multiply.outer(x, np.cos(nodes))) * np.cos(order * nodes)).mean(axis=-1)
        np.testing.assert_allclose(of(f"cyl_bessel_i{order}", x), want, rtol=3e-14, atol=1e-15)


def test_near_a_zero_the_digits_stay():
    """J0 near its first zero z is -J1(z) (x - z): that is known to all digits."""
    zero, rest = 2.404825557695773, -1.176691651530894e-16
    x = zero + np.array([-3, -1, 1, 2, 5]) * 2.0**-48
    slope, bend = -0.5191474972894669, 0.5191474972894669 / 2.404825557695773
    d = (x - zero) - rest
    np.testing.assert_allclose(of("j0", x), slope * d + bend * d * d / 2, rtol=1e-14)


def test_lengths_and_roots():
    for name, count, want in (("norm3d", 3, 13.0), ("norm4d", 4, math.hypot(3, 4, 12, 84)), ("rnorm3d", 3, 1 / 13),
                              ("rnorm4d", 4, 1 / math.hypot(3, 4, 12, 84)), ("rhypot", 2, 0.2)):
        given = [np.array([v, v * 2.0**1015, v * 2.0**-1060]) for v in (3.0, 4.0, 12.0, 84.0)[:count]]
        got = of(name, *given)
        inverse = name.startswith("r")
        np.testing.assert_allclose(got[:2], [want, want * (2.0**-1015 if inverse else 2.0**1015)], rtol=1e-15)
        assert inverse or abs(got[2] / (want * 2.0**-1060) - 1) < 1e-3
        assert of(name, [INF], *([[NAN]] * (count - 1))).tolist() == [0.0 if inverse else INF]
        assert np.isnan(of(name, [1.0], *([[NAN]] * (count - 1))))[0]
    np.testing.assert_allclose(of("rcbrt", [8.0, -27.0, 1e-300]), [0.5, -1 / 3, 1e100], rtol=1e-15)
    np.testing.assert_array_equal(of("rcbrt", [0.0, INF]), [INF, 0.0])


@triton.jit
def orders(out, n, x, N: tl.constexpr):
    i = tl.arange(0, N)
    k, v = tl.load(n + i), tl.load(x + i)
    tl.store(out + i, libdevice.jn(k, v))
    tl.store(out + N + i, libdevice.yn(k, v))


def test_bessel_functions_of_any_order(launch):
    n = np.array([0, 1, 2, 3, 10, 50, 2, 7, 5, -1, 3, 100, 2, 2, 3, 4], np.int32)
    x = np.array([1.5, 1.5, 1.5, -1.5, 20.0, 1.0, 1e-8, 30.0, 5.0, 1.0, 0.0, 100.0, INF, NAN, 7.0, 4.0])
    out = np.empty((2, 16))
    launch(orders, (1,), out, n, x, N=16)
    j = [0.5118276717359181, 0.5579365079100996, 0.23208767214421472, -0.06096395114113963, 0.1864825580239451,
         2.9060049481732392e-80, 1.25e-17, 0.1451851895723283, 0.26114054612017007, NAN, 0.0, 0.09636667329586156,
         0.0, NAN, -0.16755558799533424, 0.2811290649613601]
    y = [0.38244892379775886, -0.4123086269739113, -0.9321937597629739, NAN, -0.0438946535156584,
         -2.191142812605339e+77, -1.2732395447351626e+16, 0.02720211839520559, -0.4536948224911019, NAN, -INF,
         -0.1669214114175765, 0.0, NAN, 0.26808060304231507, -0.4889367685338425]
    np.testing.assert_allclose(out[0], j, rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(out[1], y, rtol=1e-12, atol=1e-14)


@triton.jit
def special(out, x, p, N: tl.constexpr):
    i = tl.arange(0, N)
    v, q = tl.load(x + i), tl.load(p + i)
    tl.store(out + i, libdevice.erfc(v))
    tl.store(out + N + i, libdevice.normcdfinv(q))
    tl.store(out + 2 * N + i, libdevice.tgamma(v))
    tl.store(out + 3 * N + i, libdevice.lgamma(v))
    tl.store(out + 4 * N + i, libdevice.j0(v))
    tl.store(out + 5 * N + i, libdevice.y1(v))
    tl.store(out + 6 * N + i, libdevice.cyl_bessel_i0(v))
    tl.store(out + 7 * N + i, libdevice.cospi(v))


@pytest.mark.parametrize("kind, dtype, rtol", [("fp32", np.float32, 1.3e-7), ("fp64", np.float64, 4e-15)])
def test_engines_agree(launch, kind, dtype, rtol):
    x = np.array([0.3, 1.1, 2.9, 5.5, 7.7, 12.3, 20.1, 26.0], dtype)
    q = np.array([0.01, 0.1, 0.3, 0.49, 0.6, 0.8, 0.95, 1e-20], dtype)
    out = np.empty((8, 8), dtype)
    launch(special, (1,), out, x, q, N=8)
    names = ("erfc", "normcdfinv", "tgamma", "lgamma", "j0", "y1", "cyl_bessel_i0", "cospi")
    for name, row in zip(names, out, strict=True):
        want = of(name, q if name == "normcdfinv" else x, kind=kind)
        np.testing.assert_allclose(row, want, rtol=rtol, atol=1e-15, err_msg=name)
