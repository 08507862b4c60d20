"""Float max and min, bit for bit against the op table's rows, signed zeros and every kind of NaN included."""

import numpy as np
import pytest

from tests.targets.llvm.harness import MACHINES, compile_map, library_calls, run_map, same_bits
from tilewright.ir.ops import TABLE
from tilewright.ir.ops.table import Call
from tilewright.ir.types import F32, F64, storage_dtype
from tilewright.targets.llvm import minmax
from tilewright.targets.llvm.convert import register_type
from tilewright.targets.llvm.isa import Isa
from tilewright.targets.llvm.text import ModuleWriter
from tilewright.targets.llvm.types import Type, constant, zero

NAMES = ("max_f", "min_f", "max_nan_f", "min_nan_f")
machines = pytest.mark.parametrize("machine", MACHINES.values(), ids=MACHINES)


def ref(name, t, a, b):
    with np.errstate(all="ignore"):
        return TABLE[name].ref(Call([a, b], [t, t], [t], {}, (), None))[0]  # type: ignore[arg-type]


def pairs(t):
    dtype, bits = storage_dtype(t), f"u{t.bytes}"
    quiet = np.array([np.nan, -np.nan], dtype)
    signalling = np.array([0x7F800001, 0xFFA00000] if t == F32 else [0x7FF0000000000001, 0xFFF4000000000000], bits)
    special = np.concatenate([np.array([0.0, -0.0, 1, -1, np.inf, -np.inf, 1e-40, -1e-40, 3.5], dtype), quiet,
                              signalling.view(dtype)])
    random = np.random.default_rng(5).integers(0, 256, 4096 * t.bytes, dtype=np.uint8).view(dtype)
    a = np.concatenate([np.repeat(special, len(special)), random, random])
    b = np.concatenate([np.tile(special, len(special)), random[::-1], random])
    return a, b


@machines
@pytest.mark.parametrize("t", [F32, F64], ids=str)
@pytest.mark.parametrize("name", NAMES)
def test_two_operands(machine, t, name):
    a, b = pairs(t)
    llvm = register_type(t)
    for lanes in (0, 8):
        got = run_map(lambda f, x, y: minmax.emit(f, name, x, y), [a, b], [llvm] * 2, llvm, a.dtype, machine, lanes)
        want = ref(name, t, a, b)
        bad = np.flatnonzero(~same_bits(got, want))
        assert bad.size == 0, (a[bad[:4]], b[bad[:4]], got[bad[:4]], want[bad[:4]])


@machines
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("limit", [0.0, -0.0, 6.0, -1.5, float("inf"), float("nan")])
def test_constant_limit(machine, name, limit):
    a, _ = pairs(F32)
    want = ref(name, F32, a, np.full_like(a, limit))
    for emit in (lambda f, x: minmax.emit(f, name, x, constant(x.type, limit)),
                 lambda f, x: minmax.emit(f, name, constant(x.type, limit), x)):
        got = run_map(emit, [a], [Type("float")], Type("float"), np.float32, machine, 16)
        assert same_bits(got, want).all()


@pytest.mark.parametrize("make_quiet", ["fadd", "fmul"])
def test_results_of_arithmetic_need_no_product(make_quiet):
    """Products with 1 are left out where a number was computed; not where LLVM takes the computation away."""
    for other, products in ((2.5, 0), (1.0 if make_quiet == "fmul" else -0.0, 2)):
        t = Type("float", 16)
        f = ModuleWriter(Isa(fma=True, avx512=True)).function("f", [("x", t), ("y", t)])
        minmax.emit(f, "max_f", *(f.op(make_quiet, v, constant(t, other)) for v in f.params))
        f.ret()
        assert f.text().count("call <16 x float> @llvm.canonicalize") == products


@machines
def test_signalling_nans_through_trivial_arithmetic(machine):
    a, b = pairs(F32)
    with np.errstate(all="ignore"):
        want = ref("max_f", F32, a, b)
    got = run_map(lambda f, x, y: minmax.emit(f, "max_f", f.op("fmul", x, constant(x.type, 1.0)), y), [a, b],
                  [Type("float")] * 2, Type("float"), np.float32, machine, 16)
    assert same_bits(got, want).all()


def test_relu_is_one_instruction():
    for machine in MACHINES.values():
        compiled = compile_map(lambda f, x: minmax.emit(f, "max_f", x, zero(x.type)), [Type("float")], Type("float"),
                               machine)
        assert library_calls(compiled) == []
        if machine.isa.avx512:
            assert "vmaxps" in compiled.assembly() and "vcmp" not in compiled.assembly()
