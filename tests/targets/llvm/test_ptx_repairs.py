"""PTX without the instructions that assemblers get wrong; its meaning stays."""

from __future__ import annotations

import numpy as np
import pytest

import tilewright as triton
import tilewright.language as tl
from tilewright.targets.llvm.ptx_repairs import repaired
from tilewright.testing import ptx_machine


def test_what_is_replaced() -> None:
    text = "\tneg.s16 \t%rs2, %rs1;\n\t@%p1 abs.s16 \t%rs3, %rs2;\n\tneg.s32 \t%r2, %r1;\n\tshl.b16 %rs1, %rs1, 2;\n"
    made = repaired(text).splitlines()
    assert made[0] == "\t{ .reg .b32 wide; cvt.s32.s16 wide, %rs1; neg.s32 wide, wide; cvt.u16.u32 %rs2, wide; }"
    assert "abs.s32 wide, wide; cvt.u16.u32 %rs3, wide;" in made[1] and made[2:] == text.splitlines()[2:]


def test_high_halves_that_are_chosen() -> None:
    text = ("\tmov.b32 \t{_, %rs1}, %r1;\n\tmov.b32 \t{_, %rs2}, %r2;\n\tmov.b32 \t{%rs3, %rs4}, %r2;\n"
            "\tselp.b16 \t%rs5, %rs1, 0, %p1;\n\tselp.b16 \t%rs6, %rs3, %rs1, %p1;\n")
    made = repaired(text).splitlines()
    assert made[0] == "\t{ .reg .b32 high; shr.u32 high, %r1, 16; cvt.u16.u32 %rs1, high; }"
    assert made[1:] == text.splitlines()[1:]


def test_high_halves_of_what_was_widened() -> None:
    text = ("\tcvt.u32.u16 \t%r1, %rs1;\n\tmov.b32 \t{_, %rs2}, %r1;\n\tmov.b32 \t{_, %rs3}, %r2;\n")
    made = repaired(text).splitlines()
    assert made[1] == "\t{ .reg .b32 high; shr.u32 high, %r1, 16; cvt.u16.u32 %rs2, high; }"
    assert made[::2] == text.splitlines()[::2]


def test_masks_of_what_was_packed() -> None:
    text = ("\tcvt.rn.f16.f32 \t%rs1, %r1;\n\tcvt.rn.satfinite.e4m3x2.f32 \t%rs2, %r1, %r2;\n\tmov.b16 \t%rs3, %rs1;\n"
            "\tand.b16 \t%rs4, %rs3, 32767;\n\tcvt.u16.u8 \t%rs5, %rs2;\n\tcvt.u32.u16 \t%r3, %rs1;\n"
            "\tand.b16 \t%rs6, %rs7, 32767;\n\tand.b16 \t%rs6, %rs1, %rs2;\n\tcvt.f32.f16 \t%r5, %rs1;\n"
            "\tmov.b32 \t%r4, {%rs4, %rs5};\n\tcvt.u32.u8 \t%r6, %rs1;\n")
    made = repaired(text).splitlines()
    assert made[3] == "\t{ .reg .b32 wide; cvt.s32.s16 wide, %rs3; and.b32 wide, wide, 32767; cvt.u16.u32 %rs4, wide; }"
    assert made[4] == "\t{ .reg .b32 wide; cvt.s32.s16 wide, %rs2; and.b32 wide, wide, 255; cvt.u16.u32 %rs5, wide; }"
    assert made[5] == "\tcvt.s32.s16 %r3, %rs1; and.b32 %r3, %r3, 65535;"
    assert made[10] == "\tcvt.s32.s16 %r6, %rs1; and.b32 %r6, %r6, 255;"
    kept = text.splitlines()
    assert made[:3] + made[6:10] == kept[:3] + kept[6:10]


@triton.jit
def absolute(x, out, bits, LOW: tl.constexpr, N: tl.constexpr):
    i = tl.arange(0, N)
    y = (tl.load(x + i) * 2).to(out.dtype.element_ty)
    tl.store(out + i, tl.abs(y))
    tl.store(bits + i, y.to(tl.int16, bitcast=True) & LOW)


@pytest.mark.parametrize("name", ["float16", "bfloat16"])
def test_values_of_masks_of_what_was_packed(name: str) -> None:
    torch = pytest.importorskip("torch")
    x = torch.linspace(-5, 5, 256)
    out, bits = torch.zeros(256, dtype=getattr(torch, name)), torch.zeros(256, dtype=torch.int16)
    code = ptx_machine.run(absolute, (1,), (x, out, bits), {"LOW": 4095, "N": 256})
    wanted = (x * 2).to(out.dtype)
    assert torch.equal(out, wanted.abs()) and torch.equal(bits, wanted.view(torch.int16) & 4095)
    assert "and.b16" not in code.texts["ptx"] and code.texts["ptx"].count("and.b32 wide, wide, 32767") == 2


def test_high_words() -> None:
    text = "\tmov.b64 \t{_, %r1}, %rd1;\n\tmov.b64 \t{%r2, %r3}, %rd1;\n\tmov.b64 \t%rd2, {%r2, %r3};\n"
    made = repaired(text).splitlines()
    assert made[0] == "\t{ .reg .b64 high; shr.u64 high, %rd1, 32; cvt.u32.u64 %r1, high; }"
    assert made[1:] == text.splitlines()[1:]


_MAXIMUM = "\tmax.s32 \t%r9, %r2, %r1;\n"


@pytest.mark.parametrize("text", ["neg.s32 \t%r2, %r1;", "sub.s32 \t%r2, 0, %r1;", "mul.lo.s32 \t%r2, %r1, -1;"])
@pytest.mark.parametrize("predicate", ["", "@%p1 ", "@!%p1 "])
def test_negations_beside_maxima(text: str, predicate: str) -> None:
    made = repaired(f"\t{predicate}{text}\n{_MAXIMUM}").splitlines()
    assert made == [f"\t{predicate}not.b32 %r2, %r1; {predicate}add.s32 %r2, %r2, 1;", _MAXIMUM[:-1]]
    assert repaired(f"\t{text}\n") == f"\t{text}\n"


def test_subtractions_and_other_factors_stay() -> None:
    text = f"\tsub.s32 \t%r2, 10, %r1;\n\tmul.lo.s32 \t%r3, %r1, -10;\n\tneg.s64 \t%rd1, %rd2;\n{_MAXIMUM}"
    assert repaired(text) == text


@triton.jit
def largest_of_negated(x, out, N: tl.constexpr):
    at = tl.arange(0, N)
    a, b, c = tl.load(x + at), tl.load(x + N + at), tl.load(x + 2 * N + at)
    tl.store(out + at, tl.maximum(a, tl.maximum(b, -c)))
    tl.store(out + N + at, tl.minimum(-a, tl.minimum(b * -1, 0 - c)))


def test_values_of_negations_beside_maxima() -> None:
    n = 64
    x = np.random.default_rng(0).integers(-(1 << 31), 1 << 31, (3, n)).astype(np.int32)
    x[:, 0], x[2, 1], out = [-9, 3, 7], -(1 << 31), np.zeros((2, n), np.int32)
    code = ptx_machine.run(largest_of_negated, (1,), (x, out, n), {})
    assert "neg.s32" not in code.texts["ptx"] and ", -1;" not in code.texts["ptx"]
    assert out[0].tolist() == np.maximum(np.maximum(x[0], x[1]), -x[2]).tolist() and out[0, 0] == 3
    assert out[1].tolist() == (-x).min(axis=0).tolist()


@triton.jit
def products_in_a_loop(x, out, n):
    pid = tl.program_id(0)
    v = tl.load(x + pid)
    k = 0
    while k < 3:
        k += 1
        v = tl.umulhi(pid * 1, v + n) * 3
    tl.store(out + pid, v)


def test_values_of_high_words() -> None:
    """Programs 0 to 4; random kernel 500458 of tests/gpu/test_fuzz.py is such a one."""
    x, out = np.array([-1, -2, -3, 7, 1 << 30], np.int32), np.zeros(5, np.int32)
    code = ptx_machine.run(products_in_a_loop, (5,), (x, out, 5), {})
    assert "{_, " not in code.texts["ptx"]
    want = x.astype(np.uint32)
    for _ in range(3):
        want = (np.arange(5, dtype=np.uint64) * (want + np.uint32(5)) >> 32).astype(np.uint32) * np.uint32(3)
    assert out.view(np.uint32).tolist() == want.tolist()


@triton.jit
def halves(x, y, out, zero, N: tl.constexpr):
    at = tl.arange(0, N)
    tl.store(out + at, tl.where(tl.load(zero) == 0, tl.load(x + at), tl.load(y + at).to(tl.float16)) * 2.0)


def test_values_of_chosen_halves() -> None:
    x, y, out = np.arange(64, dtype=np.float16), -np.arange(64, dtype=np.int32), np.zeros(64, np.float16)
    for zero in (0, 1):
        ptx_machine.run(halves, (1,), (x, y, out, np.array([zero])), {"N": 64, "num_warps": 1})
        assert out.tolist() == (2 * y if zero else 2 * x).tolist()


@triton.jit
def smallest(x, shifted, above, absolute, N: tl.constexpr):
    at = tl.arange(0, N)
    a = tl.load(x + at)
    tl.store(shifted + at, (-a) >> 2)
    tl.store(above + at, (a * -1 > 5).to(tl.int32))
    tl.store(absolute + at, tl.abs(a) >> 2)


@pytest.mark.parametrize("dtype", [np.int8, np.int16])
def test_the_smallest_number_wraps(dtype: type) -> None:
    low, high = np.iinfo(dtype).min, np.iinfo(dtype).max
    x = np.array([low, low + 1, -7, -1, 0, 1, 100, high], dtype)
    shifted, absolute, above = np.zeros_like(x), np.zeros_like(x), np.zeros(8, np.int32)
    code = ptx_machine.run(smallest, (1,), (x, shifted, above, absolute), {"N": 8, "num_warps": 1})
    assert "neg.s16" not in code.texts["ptx"] and "abs.s16" not in code.texts["ptx"]
    assert shifted.tolist() == (-x >> 2).tolist() and above.tolist() == (-x > 5).astype(int).tolist()
    assert absolute.tolist() == (np.abs(x) >> 2).tolist()
