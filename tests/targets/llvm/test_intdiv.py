"""Integer division and high products against the op table's rows, on every machine form."""

import itertools

import numpy as np
import pytest

from tests.targets.llvm.harness import MACHINES, compile_map, library_calls, run_map
from tilewright.ir.ops import TABLE
from tilewright.ir.ops.table import Call
from tilewright.ir.types import Scalar, storage_dtype
from tilewright.targets.llvm import intdiv
from tilewright.targets.llvm.convert import register_type
from tilewright.targets.llvm.types import Type, constant

INTS = [Scalar(n) for n in ("i8", "i16", "i32", "i64")]
NAMES = ("div_s", "div_u", "rem_s", "rem_u")
machines = pytest.mark.parametrize("machine", MACHINES.values(), ids=MACHINES)


def ref(name, *arrays):
    with np.errstate(all="ignore"):
        return TABLE[name].ref(Call(list(arrays), [], [], {}, (), None))[0]  # type: ignore[arg-type]


def edges(bits):
    special = {0, 1, 2, 3, 7, 10, 127, 255, (1 << (bits - 1)) - 1, 1 << (bits - 1), (1 << bits) - 1,
               *((1 << k) + d for k in range(0, bits, 5) for d in (-1, 0, 1)), (1 << 51) - 1, 1 << 51, (1 << 53) + 1}
    values = {s & ((1 << bits) - 1) for s in special} | {-s & ((1 << bits) - 1) for s in special}
    return sorted(values)


def pairs(t):
    """Pairs of operands: every one for i8; edges crossed, random ones, and exact multiples next to their quotient."""
    dtype = storage_dtype(t)
    unsigned = f"u{dtype.itemsize}"
    if t.bits == 8:
        every = np.arange(256, dtype=np.uint8).view(np.int8)
        return np.repeat(every, 256), np.tile(every, 256)
    rng = np.random.default_rng(3)
    crossed = np.array(list(itertools.product(edges(t.bits), repeat=2)), np.uint64).astype(unsigned)
    shifts = rng.integers(0, t.bits, (40000, 2)).astype(np.uint64)
    random = (rng.integers(0, 1 << 64, (40000, 2), dtype=np.uint64) >> shifts).astype(unsigned)
    with np.errstate(over="ignore"):
        multiples = random.copy()
        multiples[:, 0] = random[:, 0] // np.maximum(random[:, 1], 1) * random[:, 1]
        close = np.concatenate([multiples - np.array([d, 0]).astype(unsigned) for d in (0, 1, -1)])
    both = np.concatenate([crossed, random, close]).view(dtype)
    return np.ascontiguousarray(both[:, 0]), np.ascontiguousarray(both[:, 1])


@machines
@pytest.mark.parametrize("t", INTS, ids=str)
@pytest.mark.parametrize("lanes", [0, 8])
def test_division(machine, t, lanes):
    x, y = pairs(t)
    llvm = register_type(t)
    for name in NAMES:
        got = run_map(lambda f, a, b, name=name: intdiv.emit(f, name, a, b), [x, y], [llvm, llvm], llvm,
                      storage_dtype(t), machine, lanes)
        want = ref(name, x, y)
        bad = np.flatnonzero(got != want)
        assert bad.size == 0, (name, x[bad[:3]], y[bad[:3]], got[bad[:3]], want[bad[:3]])


def test_wide_division_with_all_lanes_small():
    """64-bit vectors whose operands are all small take the path through doubles; its last allowed values too."""
    rng = np.random.default_rng(4)
    x = np.concatenate([rng.integers(-(1 << 51), 1 << 51, 4000), np.full(64, (1 << 51) - 1), np.full(64, -(1 << 51))])
    y = np.concatenate([rng.integers(-1000, 1000, 4000), np.arange(-64, 64)])
    for machine in MACHINES.values():
        for name in NAMES:
            a, b = (np.abs(x), np.abs(y)) if name.endswith("u") else (x, y)
            got = run_map(lambda f, p, q, name=name: intdiv.emit(f, name, p, q), [a, b], [Type("i64")] * 2, Type("i64"),
                          np.int64, machine, 8)
            assert (got == ref(name, a, b)).all()


@pytest.mark.parametrize("t", INTS, ids=str)
def test_by_constant(t):
    x, _ = pairs(t)
    x = x[:20000]
    for divisor in (0, 1, -1, 2, 3, 7, -5, 10, 16, 100, -128):
        y = np.full_like(x, divisor)
        for name in NAMES:
            got = run_map(lambda f, a, name=name, d=divisor: intdiv.emit(f, name, a, constant(a.type, d)),
                          [x], [register_type(t)], register_type(t), storage_dtype(t), MACHINES["host"], 16)
            assert (got == ref(name, x, y)).all(), (name, divisor)


@machines
@pytest.mark.parametrize("t", INTS, ids=str)
def test_high_product(machine, t):
    x, y = pairs(t)
    llvm = register_type(t)
    for lanes in (0, 8):
        got = run_map(intdiv.mulhi_u, [x, y], [llvm, llvm], llvm, storage_dtype(t), machine, lanes)
        assert (got == ref("mulhi_u", x, y).astype(got.dtype)).all()


def test_narrow_division_is_not_scalar():
    """Vectors of up to 32 bits use no division instruction of integers and call nothing."""
    for t in INTS[:3]:
        compiled = compile_map(lambda f, a, b: intdiv.emit(f, "div_s", a, b), [register_type(t)] * 2, register_type(t),
                               MACHINES["host"])
        assert library_calls(compiled) == []
        assert "idiv" not in compiled.assembly()
