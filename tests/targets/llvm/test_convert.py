"""Conversions, bit for bit against `ir.fp` and the rows of the op table, on every machine form."""

import numpy as np
import pytest

from tests.targets.llvm.harness import MACHINES, run_map, same_bits
from tilewright.ir import fp
from tilewright.ir.ops import TABLE
from tilewright.ir.ops.table import Call
from tilewright.ir.types import F32, F64, I1, I8, Scalar, storage_dtype
from tilewright.targets.llvm import convert
from tilewright.targets.llvm.isa import Isa
from tilewright.targets.llvm.text import ModuleWriter
from tilewright.targets.llvm.types import Type

STORED = ("f8e4m3fnuz", "f8e5m2fnuz", "f8e4m3b15")
FLOATS = [Scalar(n) for n in ("f8e4m3", "f8e5m2", *STORED, "f16", "bf16", "f32", "f64")]
INTS = [Scalar(n) for n in ("i8", "i16", "i32", "i64")]
machines = pytest.mark.parametrize("machine", MACHINES.values(), ids=MACHINES)


def patterns(t):
    """All bit patterns of a type of 8 or 16 bits; many of a wider one, with all exponents and near-ties."""
    dtype = storage_dtype(t)
    if t.bits <= 16:
        return np.arange(1 << t.bits, dtype=f"u{t.bytes}").view(dtype)
    if t == F32:
        every = np.arange(0, 1 << 32, 20011, dtype=np.uint64).astype(np.uint32).view(np.float32)
        return np.concatenate([every, near_ties(np.float32)])
    if t == F64:
        rng = np.random.default_rng(1)
        bits = rng.integers(0, 1 << 64, 60000, dtype=np.uint64, endpoint=False).view(np.float64)
        scaled = np.ldexp(rng.uniform(1, 2, 120000), rng.integers(-160, 140, 120000)) * rng.choice([-1, 1], 120000)
        return np.concatenate([bits, scaled, near_ties(np.float64), near_ties(np.float32).astype(np.float64)])
    return integers(dtype)


def near_ties(dtype):
    """Each f16, bf16 and fp8 number, the midpoints between neighbours, and what lies next to both."""
    found = []
    for name in ("f16", "bf16", "f8e4m3", "f8e5m2", *STORED):
        t = Scalar(name)
        numbers = fp.decode(patterns(t), t)
        numbers = np.unique(numbers[np.isfinite(numbers)])
        found += [numbers, (numbers[1:] + numbers[:-1]) / 2]
    with np.errstate(all="ignore"):
        exact = np.concatenate([*found, [448, 464, 480, 57344, 61440, 65504, 65519, 65520, 3.3961775292304601e38]])
        exact = exact.astype(dtype)
        around = [exact, np.nextafter(exact, dtype(np.inf)), np.nextafter(exact, dtype(-np.inf))]
    special = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, -np.nan], dtype)
    return np.concatenate([*around, special])


def integers(dtype):
    bits = 8 * dtype.itemsize
    rng = np.random.default_rng(2)
    random = rng.integers(0, 1 << 64, 40000, dtype=np.uint64, endpoint=False) >> rng.integers(0, 64, 40000).astype("u8")
    powers = [((1 << k) + (1 << j) + d) & ((1 << 64) - 1) for k in range(bits) for j in range(0, bits, 3)
              for d in (-1, 0, 1)]
    all_of_them = np.concatenate([random, np.array(powers, np.uint64)])
    values = np.concatenate([all_of_them, ~all_of_them + np.uint64(1)])
    return values.astype(f"u{dtype.itemsize}").view(dtype)


def convert_on(machine, lanes, array, source, to, emit):
    got = run_map(emit, [array], [convert.memory_type(source)], convert.memory_type(to), storage_dtype(to), machine,
                  lanes)
    return got


def assert_same(got, want, inputs):
    same = same_bits(got, want) if got.dtype.kind == "f" else got == want
    bad = np.flatnonzero(~same)
    assert bad.size == 0, f"{bad.size} differ, e.g. {inputs[bad[:4]]!r}: {got[bad[:4]]!r}, not {want[bad[:4]]!r}"


def row_ref(name, array, source, to, **attrs):
    with np.errstate(all="ignore"):
        call = Call([array], [source], [to], {"to": to, **attrs}, (), None)  # type: ignore[arg-type]
        return TABLE[name].ref(call)[0]


@machines
@pytest.mark.parametrize("source", FLOATS, ids=str)
@pytest.mark.parametrize("toward_zero", [False, True], ids=["nearest", "toward_zero"])
def test_float_to_float(machine, source, toward_zero):
    array = patterns(source)
    with np.errstate(all="ignore"):
        exact = fp.decode(array, source)
    for to in FLOATS:
        if to == source:
            continue
        got = convert_on(machine, 16, array, source, to,
                         lambda f, x, to=to: convert.convert_float(f, x, source, to, toward_zero))
        assert_same(got, fp.encode(exact, to, toward_zero), array)


@pytest.mark.parametrize("lanes", [0, 4, 32])
def test_lane_counts_agree(lanes):
    array = patterns(F64)[:5000]
    for machine in MACHINES.values():
        for to in (Scalar("bf16"), Scalar("f8e4m3"), Scalar("f16")):
            got = convert_on(machine, lanes, array, F64, to, lambda f, x, to=to: convert.convert_float(f, x, F64, to))
            assert_same(got, fp.encode(array, to), array)


@machines
@pytest.mark.parametrize("source", INTS, ids=str)
@pytest.mark.parametrize("signed", [True, False], ids=["signed", "unsigned"])
def test_int_to_float(machine, source, signed):
    array = patterns(source)
    name = "int_to_fp_s" if signed else "int_to_fp_u"
    for to in FLOATS:
        got = convert_on(machine, 8, array, source, to, lambda f, x, to=to: convert.int_to_float(f, x, to, signed))
        assert_same(got, row_ref(name, array, source, to), array)


@machines
@pytest.mark.parametrize("source", FLOATS, ids=str)
@pytest.mark.parametrize("signed", [True, False], ids=["signed", "unsigned"])
def test_float_to_int(machine, source, signed):
    array = patterns(source)
    if source in (F32, F64):
        limits = np.array([s * (2.0**k) for k in (7, 8, 15, 16, 31, 32, 63, 64) for s in (1, -1)], array.dtype)
        array = np.concatenate([array, limits, np.nextafter(limits, array.dtype.type(0)), limits + 0.5, limits - 0.5,
                                np.array([0.5, -0.5, -0.99, 1.5], array.dtype)])
    name = "fp_to_int_s" if signed else "fp_to_int_u"
    for to in INTS:
        got = convert_on(machine, 8, array, source, to,
                         lambda f, x, to=to: convert.float_to_int(f, x, source, to, signed))
        assert_same(got, row_ref(name, array, source, to), array)


@machines
def test_bits_to_float(machine):
    array = np.array([0, 1] * 16, np.int8)
    for signed, name in ((True, "int_to_fp_s"), (False, "int_to_fp_u")):
        for to in FLOATS:
            def emit(f, x, to=to, signed=signed):
                return convert.int_to_float(f, f.cast("trunc", x, x.type.of("i1")), to, signed)

            got = convert_on(machine, 16, array, I8, to, emit)
            assert_same(got, row_ref(name, array.astype(bool), I1, to), array)


@pytest.mark.parametrize("lanes,permutations", [(0, 0), (8, 0), (16, 1), (32, 0)])
def test_a_register_of_floats_becomes_bf16_by_a_permutation(lanes, permutations):
    """Where bytes can be permuted."""
    for vbmi in (True, False):
        module = ModuleWriter(Isa(fma=True, half=True, avx512=True, round=True, vbmi=vbmi))
        f = module.function("k", [("x", Type("float", lanes))])
        convert.narrow(f, f.params[0], Scalar("bf16"))
        f.ret()
        calls = [line for line in module.text().splitlines() if "= call" in line]
        assert sum("permvar.qi.512" in line for line in calls) == vbmi * permutations
