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
