"""The eight-bit float formats: conversions among all floats, exhaustively, memory, torch's dtypes, no arithmetic."""

import numpy as np
import pytest

import tilewright as triton
import tilewright.language as tl
from tests.departures import differs
from tests.lang.recorder import call, trace
from tilewright.ir import fp
from tilewright.ir.types import storage_dtype

EIGHT = ("fp8e4nv", "fp8e5", "fp8e4b8", "fp8e5b16", "fp8e4b15")
STORED_ONLY = EIGHT[2:]
FLOATS = (*EIGHT, "fp16", "bf16", "fp32", "fp64")


@triton.jit
def convert(x, out, SOURCE: tl.constexpr, N: tl.constexpr):
    """One source, given as bits, to every eight-bit format and to fp16, bf16, fp32, as bits."""
    i = tl.program_id(0) * N + tl.arange(0, N)
    bits = tl.load(x + i)
    value = bits.to(SOURCE, bitcast=True)
    size = tl.num_programs(0) * N
    tl.store(out + i, value.to(tl.float8e4nv).to(tl.uint8, bitcast=True).to(tl.int64))
    tl.store(out + size + i, value.to(tl.float8e5).to(tl.uint8, bitcast=True).to(tl.int64))
    tl.store(out + 2 * size + i, value.to(tl.float8e4b8).to(tl.uint8, bitcast=True).to(tl.int64))
    tl.store(out + 3 * size + i, value.to(tl.float8e5b16).to(tl.uint8, bitcast=True).to(tl.int64))
    tl.store(out + 4 * size + i, value.to(tl.float8e4b15).to(tl.uint8, bitcast=True).to(tl.int64))
    tl.store(out + 5 * size + i, value.to(tl.float16).to(tl.uint16, bitcast=True).to(tl.int64))
    tl.store(out + 6 * size + i, value.to(tl.bfloat16).to(tl.uint16, bitcast=True).to(tl.int64))
    tl.store(out + 7 * size + i, value.to(tl.float32).to(tl.uint32, bitcast=True).to(tl.int64))
    tl.store(out + 8 * size + i, value.to(tl.float64).to(tl.uint64, bitcast=True).to(tl.int64))


def ir_type(name):
    return tl.dtype(name).to_ir()


@pytest.mark.parametrize("source", FLOATS)
def test_conversions_among_all_formats(launch, source):
    """Sources of 8 and 16 bits exhaustively (on slow engines 16 bits in part), wider ones around every number."""
    t = ir_type(source)
    slow = "cpu" not in str(launch)
    if t.bits <= 16:
        x = np.arange(1 << t.bits, dtype=f"u{t.bytes}")[:: 16 if slow and t.bits == 16 else 1]
    else:
        numbers = np.concatenate([fp.decode(np.arange(256, dtype=np.uint8), ir_type(n)) for n in EIGHT])
        numbers = np.unique(numbers[np.isfinite(numbers)])
        middles = (numbers[1:] + numbers[:-1]) / 2
        some = np.concatenate([numbers, middles, [np.inf, -np.inf, np.nan, 1e30, -1e30]]).astype(storage_dtype(t))
        around = [np.nextafter(some, some.dtype.type(side)) for side in (np.inf, -np.inf)]
        x = np.concatenate([some, *around]).view(f"u{t.bytes}")
    count = 256
    x = np.resize(x, -(-len(x) // count) * count)
    out = np.zeros((9, len(x)), np.int64)
    launch(convert, (len(x) // count,), x, out, SOURCE=tl.dtype(source), N=count)
    values = fp.decode(x.view(storage_dtype(t)), t)
    for row, name in zip(out, FLOATS, strict=True):
        to = ir_type(name)
        want = fp.encode(values, to)
        got = row.astype(f"u{to.bytes}").view(storage_dtype(to))
        if name == source:
            np.testing.assert_array_equal(row.astype(f"u{to.bytes}"), x)      # no conversion
            continue
        both_nan = np.isnan(fp.decode(got, to)) & np.isnan(fp.decode(want, to))
        bits = f"u{to.bytes}"
        wrong = (got.view(bits) != want.view(bits)) & ~both_nan
        assert not wrong.any(), (name, x[wrong][:3], got[wrong][:3], want[wrong][:3])


@triton.jit
def copy_scaled(x, out, n, N: tl.constexpr):
    i = tl.program_id(0) * N + tl.arange(0, N)
    value = tl.load(x + i, mask=i < n, other=1.0)
    tl.store(out + i, (value.to(tl.float32) * 2).to(out.dtype.element_ty), mask=i < n)


@pytest.mark.parametrize("name", ["float8_e4m3fnuz", "float8_e5m2fnuz", "float8_e4m3fn", "float8_e5m2"])
def test_torch_dtypes_as_arguments(name):
    torch = pytest.importorskip("torch")
    dtype = getattr(torch, name)
    x = torch.linspace(-20, 20, 77).to(dtype)
    out = torch.zeros(77).to(dtype)
    copy_scaled[(5,)](x, out, 77, N=16)
    assert (out.float() == (x.float() * 2).to(dtype).float()).all()
    if name.endswith("fnuz"):
        assert 0x80 not in out.view(torch.uint8)        # that would be a NaN


@pytest.mark.parametrize("name", STORED_ONLY)
def test_pointers_to_them_by_reinterpret(launch, name):
    values = fp.encode(np.linspace(-0.8, 0.8, 50), ir_type(name))
    out = np.zeros(50, np.uint8)
    kind = tl.dtype(name)
    launch(copy_scaled, (4,), triton.reinterpret(values, kind), triton.reinterpret(out, kind), 50, N=16)
    assert out.tolist() == fp.encode(fp.decode(values, ir_type(name)) * 2, ir_type(name)).tolist()


@differs("Eight-bit formats of other hardware are stored and converted only", topic="Numbers",
         peer="Adding two tiles of float8e4b15 or float8e4b8 is attempted by the backend, with an error of its own or "
              "an unrounded result.",
         ours="All five formats convert exactly to and from every float type on every target; float8e4b8, "
              "float8e5b16 and float8e4b15 have no arithmetic, and an error says to compute in float32.")
@pytest.mark.parametrize("name", STORED_ONLY)
def test_they_have_no_arithmetic(name):
    for use in (lambda b, x: x + x, lambda b, x: -x, lambda b, x: x < x, lambda b, x: call(b, tl.abs, x),
                lambda b, x: call(b, tl.maximum, x, x), lambda b, x: call(b, tl.sort, x)):
        with pytest.raises(TypeError, match=f"{name} is a format to store and convert, without arithmetic; compute in"):
            trace(use, f"{name}[4]")
    moved = trace(lambda b, x: call(b, tl.where, call(b, tl.full, (4,), True, tl.int1), x, x), f"{name}[4]")
    assert moved.result.dtype == tl.dtype(name)
    assert trace(lambda b, x: call(b, tl.sum, x, 0), f"{name}[4]").result.dtype == tl.dtype(name)


def test_b15_has_no_nan_and_saturates():
    t = ir_type("fp8e4b15")
    got = fp.decode(fp.encode(np.array([np.nan, np.inf, -np.inf, 1.9, -3e8, 1.8]), t), t)
    assert got.tolist() == [1.875, 1.875, -1.875, 1.875, -1.875, 1.75]
