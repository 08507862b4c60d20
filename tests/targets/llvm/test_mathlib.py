"""Elementary functions against wider arithmetic, within the op table's bounds, on every machine form.

f32 is sampled over all bit patterns at a stride (4 million a function on the host), against float64; f64 at points
chosen for each function, against the C library's long double where that is wider, and mpmath for erf.
"""

import math
import re

import numpy as np
import pytest

from tests.targets.llvm.harness import MACHINES, compile_map, library_calls, run_map
from tilewright.ir.ops import TABLE
from tilewright.targets.llvm import mathlib
from tilewright.targets.llvm.isa import Isa
from tilewright.targets.llvm.mathlib import truncate
from tilewright.targets.llvm.text import FunctionWriter, ModuleWriter
from tilewright.targets.llvm.types import DOUBLE, FLOAT, Type, constant

machines = pytest.mark.parametrize("machine", MACHINES.values(), ids=MACHINES)
NAMES = sorted(mathlib.FUNCTIONS)
LONG = np.finfo(np.longdouble).nmant >= 63


def exact(name, x):
    """The function in x's (wide) format."""
    with np.errstate(all="ignore"):
        if name == "rsqrt":
            return 1 / np.sqrt(x)
        if name == "erf":
            return np.array([math.erf(v) for v in x.astype(np.float64)])
        if name == "exp10":
            return np.power(x.dtype.type(10), x)
        plain = name.removesuffix("_rn")
        inverse = re.fullmatch(r"a(sin|cos|tan)(h?)", plain)
        return getattr(np, f"arc{inverse[1]}{inverse[2]}" if inverse else plain)(x)


def errors(got, want, dtype):
    """Distance in ulps of the format; infinite where a special value is missed."""
    with np.errstate(all="ignore"):
        nearest = want.astype(dtype)
        ulp = np.maximum(np.spacing(np.abs(nearest)), np.finfo(dtype).smallest_subnormal).astype(want.dtype)
        distance = np.abs(got.astype(want.dtype) - want) / ulp
    special = ~np.isfinite(nearest) | (want == 0)
    agrees = (np.isnan(got) & np.isnan(nearest)) | ((got == nearest) & (np.signbit(got) == np.signbit(nearest)))
    return np.where(special, np.where(agrees, 0.0, np.inf), np.where(np.isnan(got), np.inf, distance))


def check(name, x, got, want, dtype):
    error = errors(got, want, dtype)
    bound = TABLE[name].bound.ulp or 0.5
    worst = int(error.argmax())
    assert error[worst] <= bound, f"{name}({x[worst]!r}) = {got[worst]!r}, {error[worst]} ulp from {want[worst]!r}"


@machines
@pytest.mark.parametrize("name", NAMES)
def test_f32(machine, name):
    stride = 1021 if machine is MACHINES["host"] and name != "erf" else 16381
    bits = np.arange(0, 1 << 32, stride, dtype=np.uint64).astype(np.uint32)
    edges = np.array([0, 1, 0x007FFFFF, 0x00800000, 0x3F800000, 0x7F7FFFFF, 0x7F800000, 0x7FC00000], np.uint32)
    around = [np.float32(v) for v in (88.72283, 88.72284, -87.33654, -103.97, -104.0, 128.0, -126.0, -149.0, -150.0,
                                      0.5625, 9.01, 38.5, -45.0, 11014.0, 3.9192059, 0.70710677, 0.7071068, math.pi,
                                      math.pi / 2, 2.0**20, 0.5, 2.0**30, 89.415985, 89.75, 1048498.0, 0.25224128,
                                      38.53184, -37.9298, -45.15)]
    x = np.concatenate([bits, edges, edges | 0x80000000]).view(np.float32)
    x = np.concatenate([x, around, np.nextafter(around, np.float32(9e9)), np.nextafter(around, np.float32(-9e9))])
    got = run_map(lambda f, v: mathlib.emit(f, name, v), [x], [FLOAT], FLOAT, np.float32, machine, 16)
    with np.errstate(invalid="ignore"):     # signalling NaNs are among the patterns
        wide = x.astype(np.float64)
    check(name, x, got, exact(name, wide), np.float32)


def f64_points(name):
    rng = np.random.default_rng(7)
    n = 3000 if name == "erf" else 40000
    scaled = np.ldexp(rng.uniform(1, 2, n), rng.integers(-1074, 1024, n)) * rng.choice([-1, 1], n)
    ranges = {"exp": (-746, 710), "exp2": (-1076, 1025), "sin": (-(2**20), 2**20), "cos": (-(2**20), 2**20),
              "tanh": (-23, 23), "erf": (-6.1, 6.1), "floor": (-100, 100), "ceil": (-100, 100),
              "tan": (-(2**20), 2**20), "asin": (-1, 1), "acos": (-1, 1),
              "atanh": (-1, 1), "atan": (-9, 9), "sinh": (-711, 711), "cosh": (-711, 711), "expm1": (-40, 710),
              "exp10": (-324, 309), "log1p": (-1, 3), "asinh": (-9, 9), "acosh": (1, 9), "cbrt": (-9, 9)}
    low, high = ranges.get(name, (0, 4))
    multiples = np.arange(1, 4000) * (math.pi / 2)
    edges = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 5e-324, -5e-324, 1e-310, 1.0, -1.0, 709.782712893384,
                      709.782712893385, -745.133, -745.134, 1024.0, -1074.0, -1075.0, -1076.0, 0.5625, 22.0, 5.92])
    close = 1 + np.ldexp(rng.uniform(-1, 1, n), rng.integers(-52, -1, n))
    return np.concatenate([scaled, rng.uniform(low, high, n), rng.uniform(-1, 1, n), multiples, close, edges])


@machines
@pytest.mark.parametrize("name", NAMES)
def test_f64(machine, name):
    x = f64_points(name)
    got = run_map(lambda f, v: mathlib.emit(f, name, v), [x], [DOUBLE], DOUBLE, np.float64, machine, 8)
    if name == "erf":
        mpmath = pytest.importorskip("mpmath")
        mpmath.mp.prec = 80
        want = np.array([np.longdouble(str(mpmath.erf(float(v)))) if np.isfinite(v) and v != 0 else
                         np.longdouble(np.sign(v)) for v in x])
        want = np.where(x == 0, x, want)
    elif LONG:
        want = exact(name, x.astype(np.longdouble))
    else:
        pytest.skip("no wider format here to compare with")
    check(name, x, got, want, np.float64)


@machines
@pytest.mark.parametrize("name", NAMES)
def test_lane_counts_agree(machine, name):
    """Scalars and vectors of any lane count give the same bits."""
    rng = np.random.default_rng(8)
    x = np.concatenate([rng.uniform(-20, 20, 500), rng.uniform(-1, 1, 500), [0, -0.0, np.inf, -np.inf, np.nan]])
    for t, dtype in ((FLOAT, np.float32), (DOUBLE, np.float64)):
        outs = [run_map(lambda f, v: mathlib.emit(f, name, v), [x.astype(dtype)], [t], t, dtype, machine, lanes)
                for lanes in (0, 2, 32)]
        assert all(np.array_equal(outs[0], o, equal_nan=True) for o in outs[1:])


@machines
@pytest.mark.parametrize("name", NAMES)
def test_calls_no_library(machine, name):
    for t, lanes in ((FLOAT, 0), (FLOAT, 16), (DOUBLE, 8)):
        compiled = compile_map(lambda f, v: mathlib.emit(f, name, v), [t], t, machine, lanes)
        assert [c for c in library_calls(compiled) if "tilewright" not in c] == []


def hard_angles(dtype):
    """The doubles closest to multiples of pi/2 that continued fractions find, and random ones of all exponents."""
    mpmath = pytest.importorskip("mpmath")
    mpmath.mp.prec = 1300
    rng = np.random.default_rng(9)
    limit = 1024 if dtype == np.float64 else 128
    found = [5319372648326541416707072.0, 6381956970095103.0 * 2.0**797]   # Muller et al., Handbook of FP, 11.3
    multiples = [float(mpmath.mpf(int(k)) * mpmath.pi / 2) for k in rng.integers(1, 1 << 62, 200)]
    scaled = np.ldexp(rng.uniform(1, 2, 400), rng.integers(18, limit, 400))
    x = np.concatenate([found, multiples, scaled])
    x = x[x < np.finfo(dtype).max].astype(dtype)
    return np.concatenate([x, -x]), mpmath


@machines
@pytest.mark.parametrize("lanes", [0, 8])
def test_large_angles(machine, lanes):
    for t, dtype in ((FLOAT, np.float32), (DOUBLE, np.float64)):
        x, mpmath = hard_angles(dtype)
        for name in ("sin", "cos"):
            got = run_map(lambda f, v, name=name: mathlib.emit(f, name, v), [x], [t], t, dtype, machine, lanes)
            with mpmath.workprec(1300):
                want = [getattr(mpmath, name)(mpmath.mpf(float(v))) for v in x]
                want = np.array([np.longdouble(mpmath.nstr(w, 25)) for w in want])
            check(name, x, got, want, dtype)


@machines
def test_truncate(machine):
    x = np.array([0.0, -0.0, 0.5, -0.5, 1.5, -1.5, 2.0**22 + 0.5, 8388609.0, -1e30, np.inf, -np.inf, np.nan] * 2)
    for t, dtype in ((FLOAT, np.float32), (DOUBLE, np.float64)):
        got = run_map(truncate, [x.astype(dtype)], [t], t, dtype, machine, 8)
        want = np.trunc(x.astype(dtype))
        assert np.array_equal(got, want, equal_nan=True) and (np.signbit(got) == np.signbit(want))[:-1].all()


def grid_of_pairs(dtype, seed):
    """All pairs of special values, and random pairs of moderate, close and extreme sizes."""
    rng = np.random.default_rng(seed)
    ends = [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 1e-5, 123.0, np.inf, np.nan, float(np.finfo(dtype).tiny),
            float(np.finfo(dtype).max), float(np.finfo(dtype).smallest_subnormal), 2.0**31 + 1, 2.0**53, 2.0**60]
    ends = np.array([*ends, *(-e for e in ends)])
    first, second = (v.ravel() for v in np.meshgrid(ends, ends))
    n, top = 20000, 120 if dtype is np.float32 else 1000
    wide = [np.ldexp(rng.uniform(1, 2, n), rng.integers(-top, top, n)) * rng.choice([-1, 1], n) for _ in range(2)]
    near = [rng.uniform(0, 8, n), rng.uniform(-9, 9, n)]
    close = 1 + np.ldexp(rng.uniform(-1, 1, n), rng.integers(-22 if dtype is np.float32 else -50, -1, n))
    steep = [close, rng.uniform(-0.5, 0.5, n) * (top - 10) / np.abs(close - 1)]
    # powers near overflow and underflow, of numbers whose logarithms are least exact; parity where it is hard to see
    base = np.concatenate([rng.uniform(0.7, 1.42, n), np.ldexp(rng.uniform(1, 2, n), rng.integers(-top, top, n))])
    base = base.astype(dtype).astype(np.float64)
    with np.errstate(all="ignore"):
        extreme = [base, rng.choice([-1.17, -1.05, -1, 1, 1.05, 1.06], 2 * n) * top / np.log2(base)]
    edge = 2.0 ** np.finfo(dtype).nmant
    parity = [m.ravel() for m in np.meshgrid([-1.0, -1 - 4 / edge, -2.0, -0.0, -np.inf], np.concatenate(
        [s * edge * h + np.arange(-4, 5) * h / 2 for h in (0.25, 0.5, 1, 2) for s in (-1, 1)]))]
    whole = [rng.uniform(-9, 9, n), rng.integers(-30, 30, n).astype(float)]
    pairs = [(first, second), wide, near, near[::-1], steep, whole, extreme, parity,
             [wide[0], wide[0] * rng.uniform(0.5, 2, n)]]
    with np.errstate(all="ignore"):
        return [np.concatenate([p[i] for p in pairs]).astype(dtype) for i in (0, 1)]


@machines
@pytest.mark.parametrize("name", sorted(mathlib.BINARY))
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_functions_of_two(machine, name, dtype):
    t = FLOAT if dtype is np.float32 else DOUBLE
    x, y = grid_of_pairs(dtype, 11)
    got = run_map(lambda f, a, b: mathlib.emit(f, name, a, b), [x, y], [t, t], t, dtype, machine, 8)
    if dtype is np.float64 and not LONG:
        pytest.skip("no wider format here to compare with")
    wide = np.float64 if dtype is np.float32 else np.longdouble
    with np.errstate(all="ignore"):
        want = {"pow": np.power, "atan2": np.arctan2, "hypot": np.hypot}[name](x.astype(wide), y.astype(wide))
    check(name, np.stack([x, y], 1), got, want, dtype)
    scalar = run_map(lambda f, a, b: mathlib.emit(f, name, a, b), [x[:999], y[:999]], [t, t], t, dtype, machine, 0)
    assert np.array_equal(scalar, got[:999], equal_nan=True)
    compiled = compile_map(lambda f, a, b: mathlib.emit(f, name, a, b), [t, t], t, machine, 8)
    assert [c for c in library_calls(compiled) if "tilewright" not in c] == []


@pytest.mark.parametrize("off", [1, -1])
@pytest.mark.parametrize("name", ["pow", "tan", "atan", "asinh", "atanh", "acosh", "log1p", "tanh"])
def test_reciprocals_may_be_a_unit_off(name, off, monkeypatch):
    """As a GPU's are (rcp.approx.ftz), which makes zero of what is denormal."""
    if not MACHINES["host"].isa.fma:
        pytest.skip("the quotient below needs FMA")

    def flushed(f, x):
        tiny = f.fcmp("olt", f.unary_intrinsic("fabs", x), constant(x.type, 2.0**-126))
        return f.select(tiny, f.binary_intrinsic("copysign", constant(x.type, 0.0), x), x)

    def reciprocal(f, a):
        inverse = flushed(f, f.op("fdiv", constant(a.type, 1.0), flushed(f, a)))
        size, bits = f.unary_intrinsic("fabs", inverse), f.bitcast(inverse, a.type.as_int)
        moved = f.bitcast(f.op("add", bits, constant(bits.type, off)), a.type)
        usual = f.op("and", f.fcmp("olt", size, constant(a.type, math.inf)), f.fcmp("ogt", size, constant(a.type, 0)))
        return f.select(usual, moved, inverse)

    def quotient(f, a, b):
        inverse = f.reciprocal(b)
        rough = f.op("fmul", a, inverse)
        return f.fma(f.fma(f.fneg(rough), b, a), inverse, rough)

    monkeypatch.setattr(FunctionWriter, "reciprocal", reciprocal)
    monkeypatch.setattr(FunctionWriter, "quotient", quotient)
    if name == "pow":
        given = grid_of_pairs(np.float32, 12)
    else:
        rng = np.random.default_rng(13)
        bits = np.arange(0, 1 << 32, 16381, dtype=np.uint64).astype(np.uint32).view(np.float32)
        given = [np.concatenate([bits, *(rng.uniform(-top, top, 100000).astype(np.float32) for top in (1, 8))])]
    got = run_map(lambda f, *v: mathlib.emit(f, name, *v), given, [FLOAT] * len(given), FLOAT, np.float32,
                  MACHINES["host"], 16)
    with np.errstate(all="ignore"):
        wide = [x.astype(np.float64) for x in given]
        want = np.power(*wide) if name == "pow" else exact(name, *wide)
    check(name, np.stack(given, 1), got, want, np.float32)


@pytest.mark.parametrize("name", [*mathlib.FUNCTIONS, *mathlib.BINARY])
def test_f32_is_computed_in_f32(name):
    """f64 has half the lanes, and is many times as slow on most GPUs."""
    for isa in (Isa(fma=True, half=True, round=True), Isa(fma=True, half=True, round=True, avx512=True)):
        for lanes in (0, 8):
            module = ModuleWriter(isa)
            f = module.function("k", [("x", Type("float", lanes)), ("y", Type("float", lanes))])
            mathlib.emit(f, name, *f.params[: 2 if name in mathlib.BINARY else 1])
            f.ret()
            assert "double" not in module.text()


@pytest.mark.parametrize("name,most", [("exp", 6), ("exp2", 3)])
def test_powers_of_two_are_picked_out_of_a_register(name, most):
    """On AVX-512 f32 has one permutation and a short polynomial, for every lane count."""
    isa = Isa(fma=True, half=True, avx512=True, round=True)
    for lanes, registers in ((0, 1), (4, 1), (16, 1), (32, 2)):
        module = ModuleWriter(isa)
        f = module.function("k", [("x", Type("float", lanes))])
        mathlib.emit(f, name, f.params[0])
        f.ret()
        calls = [line for line in module.text().splitlines() if "= call" in line]
        assert sum("permvar" in line for line in calls) == sum("scalef" in line for line in calls) == registers
        assert sum("llvm.fma" in line for line in calls) == most * registers
