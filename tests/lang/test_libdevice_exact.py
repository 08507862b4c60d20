"""The exact functions of tl.extra.libdevice: directed rounding against rational numbers, integers, parts of floats."""

import math
from fractions import Fraction

import numpy as np
import pytest

import tilewright as triton
import tilewright.language as tl
from tests.departures import differs
from tests.lang.recorder import call, evaluate
from tilewright.language.extra import libdevice

NAN, INF = float("nan"), float("inf")
pytestmark = pytest.mark.filterwarnings("ignore:overflow", "ignore:invalid value")
KINDS = {"fp32": np.float32, "fp64": np.float64}
MODES = ("rd", "ru", "rz")


def of(name, *arguments):
    """A function on (values, type) pairs, in the batched interpreter."""
    return evaluate(lambda b, *x: call(b, getattr(libdevice, name), *x), *arguments)


def edges(dtype):
    """Zeros, ends of the range, subnormals, neighbours of 1, of both signs."""
    f = np.finfo(dtype)
    sizes = [0.0, f.smallest_subnormal, 3 * f.smallest_subnormal, f.tiny, np.nextafter(f.tiny, dtype(0)), f.max,
             f.max / 2, f.eps, 1.0, 1 + f.eps, 1 - f.eps / 2, 3.0, 1 / dtype(3), 1e10, f.eps**2 * 5]
    sizes = np.array(sizes, dtype)
    return np.concatenate([sizes, -sizes])


def samples(dtype, count, rng):
    """Numbers of all exponents, most of them small, with edges among them."""
    f = np.finfo(dtype)
    wide = np.ldexp(rng.uniform(1, 2, count), rng.integers(f.minexp - 30, f.maxexp, count)).astype(dtype)
    near = np.ldexp(rng.uniform(1, 2, count), rng.integers(-3, 3, count)).astype(dtype)
    values = np.where(rng.random(count) < 0.5, wide, near) * rng.choice([-1, 1], count).astype(dtype)
    return np.where(rng.random(count) < 0.2, rng.choice(edges(dtype), count), values)


def check(mode, result, dtype, sign_above, words):
    """`result` is the exact value rounded in `mode`; sign_above(v) is the sign of the exact value less v."""
    largest, result = Fraction(float(np.finfo(dtype).max)), dtype(result)

    def not_above(r):
        """r = the greatest float that is not above the exact value."""
        if r == -INF:
            assert sign_above(-largest) < 0, words
        else:
            assert sign_above(Fraction(float(r))) >= 0, words
            if float(r) != float(largest):
                assert sign_above(Fraction(float(np.nextafter(r, dtype(INF))))) < 0, words

    def not_below(r):
        if r == INF:
            assert sign_above(largest) > 0, words
        else:
            assert sign_above(Fraction(float(r))) <= 0, words
            if float(r) != -float(largest):
                assert sign_above(Fraction(float(np.nextafter(r, dtype(-INF))))) > 0, words

    downward = mode == "rd" or (mode == "rz" and sign_above(Fraction(0)) >= 0)
    (not_above if downward else not_below)(result)


def sign(x):
    return (x > 0) - (x < 0)


EXACT = {
    "add": lambda x, y: Fraction(x) + Fraction(y), "sub": lambda x, y: Fraction(x) - Fraction(y),
    "mul": lambda x, y: Fraction(x) * Fraction(y), "div": lambda x, y: Fraction(x) / Fraction(y),
    "fma": lambda x, y, z: Fraction(x) * Fraction(y) + Fraction(z), "rcp": lambda x: 1 / Fraction(x),
}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name, count", [("add", 2), ("sub", 2), ("mul", 2), ("div", 2), ("fma", 3), ("rcp", 1)])
def test_directed_rounding(name, count, kind, mode):
    dtype = KINDS[kind]
    rng = np.random.default_rng(len(name) + count)
    given = [samples(dtype, 700, rng) for _ in range(count)]
    if name == "fma":       # products that nearly cancel
        given[2][:200] = -(given[0] * given[1])[:200] if kind == "fp64" else given[2][:200]
        given[2] = np.where(np.isfinite(given[2]), given[2], dtype(1))
    if name in ("div", "rcp"):
        given[-1] = np.where(given[-1] == 0, dtype(1), given[-1])
    results = of(f"{name}_{mode}", *((x, kind) for x in given))
    for *x, r in zip(*(v.tolist() for v in given), results, strict=True):
        exact = EXACT[name](*x)
        check(mode, r, dtype, lambda v, exact=exact: sign(exact - v), (name, kind, mode, x, r))


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("kind", KINDS)
def test_directed_roots(kind, mode):
    dtype = KINDS[kind]
    given = np.abs(samples(dtype, 700, np.random.default_rng(5)))
    for x, r in zip(given.tolist(), of(f"sqrt_{mode}", (given, kind)), strict=True):
        check(mode, r, dtype, lambda v, x=x: sign(Fraction(x) - v * v) if v >= 0 else 1, (kind, mode, x, r))


@pytest.mark.parametrize("kind", KINDS)
def test_directed_rounding_of_special_values(kind):
    one = np.array([0.0, -0.0, 0.0, 1.0, -1.0, INF, INF, NAN, 5.0], KINDS[kind])
    two = np.array([0.0, -0.0, -0.0, -1.0, 1.0, -INF, 1.0, 1.0, INF], KINDS[kind])
    for mode in MODES:
        total = of(f"add_{mode}", (one, kind), (two, kind))
        np.testing.assert_array_equal(total, one + two)
        zeros = [False, True, mode == "rd", mode == "rd", mode == "rd"]
        assert np.signbit(total)[:5].tolist() == zeros
        fused = of(f"fma_{mode}", (one, kind), (np.ones(9), kind), (two, kind))
        np.testing.assert_array_equal(fused, total)
        assert np.signbit(fused)[:5].tolist() == zeros
        with np.errstate(all="ignore"):
            np.testing.assert_array_equal(of(f"mul_{mode}", (one, kind), (two, kind)), one * two)
            np.testing.assert_array_equal(of(f"div_{mode}", (one, kind), (two, kind)), one / two)
        np.testing.assert_array_equal(of(f"sqrt_{mode}", ([-1.0, INF, NAN, -0.0], kind)), [NAN, INF, NAN, -0.0])
        np.testing.assert_array_equal(of(f"rcp_{mode}", ([INF, -INF, 0.0, -0.0], kind)), [0.0, -0.0, INF, -INF])


@pytest.mark.parametrize("mode", MODES)
def test_directed_conversions(mode):
    rng = np.random.default_rng(6)
    for x, r in zip(given := samples(np.float64, 700, rng), of(f"double2float_{mode}", (given, "fp64")), strict=True):
        check(mode, r, np.float32, lambda v, x=x: sign(Fraction(float(x)) - v), (mode, x, r))
    for source, kind, bits, signed in (("int", "int32", 32, True), ("uint", "uint32", 32, False),
                                       ("ll", "int64", 64, True), ("ull", "uint64", 64, False)):
        low, high = (-(1 << bits - 1), (1 << bits - 1) - 1) if signed else (0, (1 << bits) - 1)
        size = [int(rng.integers(0, 1 << 62)) >> int(s) for s in rng.integers(0, 62, 300)]
        integers = [v for n in size for v in (n, -n, n * 2 + 1) if low <= v <= high] + [0, low, high, high - 1]
        for target, dtype in (("float", np.float32), ("double", np.float64)):
            if bits == 32 and target == "double":
                continue
            given = np.array(integers, f"{'i' if signed else 'u'}{bits // 8}")
            for n, r in zip(integers, of(f"{source}2{target}_{mode}", (given, kind)), strict=True):
                check(mode, r, dtype, lambda v, n=n: sign(n - v), (source, target, mode, n, r))


def test_reciprocal_root_is_correctly_rounded():
    given = np.abs(samples(np.float32, 1500, np.random.default_rng(7)))
    given = given[(given > 0) & np.isfinite(given)]
    for x, r in zip(given.tolist(), of("rsqrt_rn", (given, "fp32")), strict=True):
        r = np.float32(r)
        value = Fraction(float(r))
        above = (value + Fraction(float(np.nextafter(r, np.float32(INF))))) / 2
        below = (value + Fraction(float(np.nextafter(r, np.float32(0))))) / 2
        assert Fraction(x) * below * below < 1 < Fraction(x) * above * above
    np.testing.assert_array_equal(of("rsqrt_rn", ([0.0, -0.0, INF, -1.0, NAN], "fp32")), [INF, -INF, 0, NAN, NAN])


INTEGERS = {"int32": np.array([0, 1, -1, 2**31 - 1, -2**31, 0x12345678, -7, 255, 1 << 16], np.int32),
            "int64": np.array([0, 1, -1, 2**63 - 1, -2**63, 0x123456789ABCDEF0, -7, 1 << 40], np.int64)}


@pytest.mark.parametrize("kind", INTEGERS)
def test_bits_of_integers(kind):
    given = INTEGERS[kind]
    width = given.itemsize * 8
    texts = [format(int(n) & ((1 << width) - 1), f"0{width}b") for n in given]
    assert of("popc", (given, kind)).tolist() == [t.count("1") for t in texts]
    assert of("clz", (given, kind)).tolist() == [len(t) - len(t.lstrip("0")) for t in texts]
    assert of("ffs", (given, kind)).tolist() == [t[::-1].find("1") + 1 for t in texts]
    reverse = [int(t[::-1], 2) for t in texts]
    assert [int(n) & ((1 << width) - 1) for n in of("brev", (given, kind))] == reverse
    assert of("popc", (given, kind)).dtype == np.int32


@pytest.mark.parametrize("kind", ["int32", "uint32", "int64", "uint64"])
def test_high_halves(kind):
    dtype = np.dtype(kind)
    ends = np.array([0, 1, np.iinfo(dtype).min, np.iinfo(dtype).max, 3, np.iinfo(dtype).max // 3], dtype)
    x, y = (v.ravel() for v in np.meshgrid(ends, ends))
    width = dtype.itemsize * 8
    want = [(int(a) * int(b)) >> width for a, b in zip(x, y, strict=True)]
    got = of("mulhi", (x, kind), (y, kind)).view(dtype)
    assert got.tolist() == want


@pytest.mark.parametrize("kind", ["int32", "uint32"])
def test_sums_and_products_of_words(kind):
    dtype = np.dtype(kind)
    ends = np.array([0, 1, 2, np.iinfo(dtype).min, np.iinfo(dtype).max, 0x800000, 0x7FFFFF, 12345], dtype)
    x, y = (v.ravel() for v in np.meshgrid(ends, ends))

    def wrapped(values):
        return np.array([v & 0xFFFFFFFF for v in values], np.uint32).view(dtype).tolist()

    def low24(n):
        n &= 0xFFFFFF
        return n - (1 << 24) if kind == "int32" and n >> 23 else n

    pairs = [(int(a), int(b)) for a, b in zip(x, y, strict=True)]
    assert of("hadd", (x, kind), (y, kind)).view(dtype).tolist() == [(a + b) >> 1 for a, b in pairs]
    assert of("rhadd", (x, kind), (y, kind)).view(dtype).tolist() == [(a + b + 1) >> 1 for a, b in pairs]
    assert of("mul24", (x, kind), (y, kind)).view(dtype).tolist() == wrapped(low24(a) * low24(b) for a, b in pairs)
    z = np.full(len(x), 7, np.uint32)
    assert of("sad", (x, kind), (y, kind), (z, "uint32")).view(dtype).tolist() == wrapped(
        abs(a - b) + 7 for a, b in pairs)


def test_bytes_and_words():
    x, y = (np.array([v], np.int32) for v in (0x03020100, 0x07060504))
    for selector, want in ((0x3210, 0x03020100), (0x7654, 0x07060504), (0x0246, 0x00020406), (0x8888 + 1, 0x01)):
        got = of("byte_perm", (x, "int32"), (y, "int32"), (np.array([selector], np.int32), "int32"))
        assert got.tolist() == [want]
    numbers = np.array([1.5, -2.25e-300, -0.0, INF], np.float64)
    high, low = of("double2hiint", (numbers, "fp64")), of("double2loint", (numbers, "fp64"))
    assert high.tolist() == (numbers.view(np.int64) >> 32).tolist()
    assert low.tolist() == numbers.view(np.int64).astype(np.int32).tolist()
    np.testing.assert_array_equal(of("hiloint2double", (high, "int32"), (low, "int32")), numbers)
    assert of("double_as_longlong", (numbers, "fp64")).tolist() == numbers.view(np.int64).tolist()
    np.testing.assert_array_equal(of("longlong_as_double", (numbers.view(np.int64), "int64")), numbers)
    coarse = of("rcp64h", (np.array([3.0, -0.1, INF]), "fp64"))
    np.testing.assert_allclose(coarse, [1 / 3, -10.0, 0.0], rtol=2**-20)
    assert (coarse.view(np.int64) & 0xFFFFFFFF == 0).all()


@pytest.mark.parametrize("kind", KINDS)
def test_scaling_by_powers_of_two(kind):
    dtype = KINDS[kind]
    rng = np.random.default_rng(8)
    x = np.concatenate([samples(dtype, 400, rng), np.array([INF, -INF, NAN, 0.0, -0.0], dtype)])
    n = rng.integers(-2300, 2300, len(x)).astype(np.int32)
    n[:200] = rng.integers(-200, 200, 200)
    n[-8:-5] = [2**31 - 1, -2**31, 0]
    with np.errstate(all="ignore"):
        want = [INF if math.isnan(v) else v for v in x.tolist()]
        want = np.array([NAN if math.isnan(v) else dtype(_scaled(Fraction(v), int(k), dtype, v) if math.isfinite(v)
                                                         else v) for v, k in zip(x.tolist(), n, strict=True)], dtype)
    for name in ("ldexp", "scalbn"):
        got = of(name, (x, kind), (n, "int32"))
        np.testing.assert_array_equal(got, want)
        numbers = ~np.isnan(want)
        assert np.signbit(got)[numbers].tolist() == np.signbit(want)[numbers].tolist()


def _scaled(value, k, dtype, like):
    """value * 2**k rounded to nearest even by integers."""
    if value == 0:
        return like
    f = np.finfo(dtype)
    k = max(min(k, 5000), -5000)
    size = abs(value) * Fraction(2) ** k
    ulp = max(math.floor(math.log2(size.numerator) - math.log2(size.denominator)) - 1, f.minexp) - f.nmant
    while size >= Fraction(2) ** (ulp + f.nmant + 1):
        ulp += 1
    whole = round(size / Fraction(2) ** ulp)
    result = Fraction(whole) * Fraction(2) ** ulp
    return math.copysign(INF if result > Fraction(float(f.max)) else float(result), like)


@pytest.mark.parametrize("kind", KINDS)
def test_parts_of_floats(kind):
    dtype = KINDS[kind]
    x = np.concatenate([edges(dtype), np.array([INF, -INF, NAN], dtype)])
    exponents = [(-2**31 if v == 0 or math.isnan(v) else 2**31 - 1 if math.isinf(v) else math.frexp(v)[1] - 1)
                 for v in x.tolist()]
    assert of("ilogb", (x, kind)).tolist() == exponents
    np.testing.assert_array_equal(of("logb", (x, kind)), [
        -INF if v == 0 else v if math.isnan(v) else abs(v) if math.isinf(v) else float(e)
        for v, e in zip(x.tolist(), exponents, strict=True)])
    a, b = (v.ravel() for v in np.meshgrid(x, x))
    got = of("nextafter", (a, kind), (b, kind))
    want = np.nextafter(a, b)
    np.testing.assert_array_equal(got, want)
    assert np.signbit(got)[~np.isnan(want)].tolist() == np.signbit(want)[~np.isnan(want)].tolist()
    with np.errstate(all="ignore"):
        want = np.array([NAN if math.isnan(p) or math.isnan(q) or math.isinf(p) or q == 0 else math.remainder(p, q)
                         for p, q in zip(a.tolist(), b.tolist(), strict=True)])
    got = of("remainder", (a, kind), (b, kind))
    np.testing.assert_array_equal(got, want.astype(dtype))
    assert np.signbit(got)[~np.isnan(want)].tolist() == np.signbit(want)[~np.isnan(want)].tolist()
    for name, function in (("llrint", round), ("llround", lambda v: math.floor(abs(v) + 0.5) * sign(v))):
        given = np.array([0.5, 1.5, -2.5, 2.5, 1e6 + 0.25, -0.0], dtype)
        assert of(name, (given, kind)).tolist() == [function(v) for v in given.tolist()]


@triton.jit
def everything(out, whole, x, y, z, n, N: tl.constexpr):
    i = tl.arange(0, N)
    a, b, c, k = tl.load(x + i), tl.load(y + i), tl.load(z + i), tl.load(n + i)
    tl.store(out + i, libdevice.add_rd(a, b))
    tl.store(out + N + i, libdevice.mul_ru(a, b))
    tl.store(out + 2 * N + i, libdevice.div_rd(a, b))
    tl.store(out + 3 * N + i, libdevice.fma_rz(a, b, c))
    tl.store(out + 4 * N + i, libdevice.fma_rd(a, b, c))
    tl.store(out + 5 * N + i, libdevice.sqrt_ru(a))
    tl.store(out + 6 * N + i, libdevice.remainder(a, b))
    tl.store(out + 7 * N + i, libdevice.nextafter(a, b))
    tl.store(out + 8 * N + i, libdevice.ldexp(a, k))
    tl.store(whole + i, libdevice.popc(k))
    tl.store(whole + N + i, libdevice.clz(k))
    tl.store(whole + 2 * N + i, libdevice.brev(k))
    tl.store(whole + 3 * N + i, libdevice.mulhi(k, k + 5))
    tl.store(whole + 4 * N + i, libdevice.ilogb(a))


@differs("libdevice needs neither a library nor a GPU", topic="Numbers",
         peer="The names of `tl.extra.libdevice` link NVIDIA's library of GPU code; the interpreter has none of them.",
         ours="Each is a composition of exact operations or of fitted polynomials, on every target and engine; "
              "roundings down, up and toward zero are exact, and the bounds of the others are in docs/language.md.")
@pytest.mark.parametrize("kind", KINDS)
def test_engines_agree_bit_for_bit(launch, kind):
    dtype, size = KINDS[kind], 64
    rng = np.random.default_rng(9)
    x, y, z = (samples(dtype, size, rng) for _ in range(3))
    n = rng.integers(-300, 300, size).astype(np.int32)
    out, whole = np.empty((9, size), dtype), np.empty((5, size), np.int32)
    launch(everything, (1,), out, whole, x, y, z, n, N=size)
    floats = (x, kind), (y, kind), (z, kind)
    want = [of("add_rd", *floats[:2]), of("mul_ru", *floats[:2]), of("div_rd", *floats[:2]), of("fma_rz", *floats),
            of("fma_rd", *floats), of("sqrt_ru", floats[0]), of("remainder", *floats[:2]), of("nextafter", *floats[:2]),
            of("ldexp", floats[0], (n, "int32"))]
    for k, row in enumerate(want):
        np.testing.assert_array_equal(out[k], row, err_msg=str(k))
        numbers = ~np.isnan(row)
        assert (np.signbit(out[k]) == np.signbit(row))[numbers].all()
    pair = (n, "int32"), (n + 5, "int32")
    for k, row in enumerate((of("popc", pair[0]), of("clz", pair[0]), of("brev", pair[0]), of("mulhi", *pair),
                             of("ilogb", floats[0]))):
        assert whole[k].tolist() == row.tolist(), k
