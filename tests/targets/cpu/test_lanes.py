"""Lane arithmetic: affine lanes stay affine, bounds are exact, and what may wrap is refused."""

import numpy as np
import pytest

from tilewright.ir.types import F32, I1, I8, I32, I64, Pointer
from tilewright.targets.cpu import lanes
from tilewright.targets.cpu.code import Code
from tilewright.targets.cpu.lanes import Form, LaneMath, integer, uniform
from tilewright.targets.llvm.isa import Isa
from tilewright.targets.llvm.text import ModuleWriter
from tilewright.targets.llvm.types import I64 as LLVM_I64
from tilewright.targets.llvm.types import PTR, constant


@pytest.fixture
def math():
    return LaneMath(Code(ModuleWriter(Isa()), "k", [("p", PTR), ("n", LLVM_I64)]), 16)


def moving(math, step=64, offset=0, size=1024):
    return lanes.index(math.code.params[1], offset, 1, step & -step, offset, size - 1)


def test_sums_and_products_stay_affine(math):
    i = moving(math)
    a = math.add(math.mul(i, integer(I64, 6)), integer(I64, 5))
    assert (a.form, a.stride, a.offset, a.low, a.high, a.multiple) == (Form.AFFINE, 6, 5, 5, 6143, 128)
    assert math.add(a, a, subtract=True).form is Form.UNIFORM
    assert math.mul(a, a) is None                      # not affine
    n = uniform(I64, math.code.params[1])
    assert math.mul(n, n).is_uniform and math.mul(a, n) is None


def test_integers_wrap_in_their_width(math):
    big = math.mul(lanes.index(constant(LLVM_I64, 0), 0, 1, 1 << 62, 0, 15), integer(I64, 1))
    narrow = math.narrow(big, I8)
    scaled = math.mul(narrow, integer(I8, 100))
    assert scaled.low is None                          # 15 * 100 leaves int8
    assert scaled.stride == 100 and math.mul(narrow, integer(I8, 3)).stride == 3
    assert integer(I8, 300).known == 44 and integer(I1, 1).known == 1


def test_a_stride_that_wraps_has_no_bounds(math):
    """Two lanes, -2**31 and 2**31 - 2, lie within int32 while their distance does not."""
    pair = LaneMath(math.code, 2)
    i = pair.narrow(lanes.index(constant(LLVM_I64, 0), 0, 1, 1 << 62, 0, 1), I32)
    steps = pair.mul(i, integer(I32, 2**31 - 1))
    both = pair.add(steps, pair.add(steps, integer(I32, -2**31)))
    assert both.stride == -2 and both.low is None and pair.widen(both, I64) is None


def test_a_known_number_is_one_of_its_type(math):
    assert lanes.Lane(I32, Form.UNIFORM, constant(LLVM_I64.of("i32"), 2**31 - 1), 1).known == -2**31


def test_extension_needs_bounds_or_trust(math):
    i = math.narrow(moving(math), I32)
    assert math.widen(i, I64).form is Form.AFFINE      # an index does not wrap
    unknown = math.add(i, uniform(I32, math.code.cast("trunc", math.code.params[1], LLVM_I64.of("i32"))))
    assert math.widen(unknown, I64) is None and math.widen(unknown, I64, signed=False) is None
    assert math.widen(unknown, I64, trusted=True).form is Form.AFFINE
    assert math.widen(math.add(i, integer(I32, -5)), I64, signed=False) is None
    assert math.widen(integer(I32, -1), I64, signed=False).known == 2**32 - 1


@pytest.mark.parametrize("divisor", [1, 3, 8, 16, 24, 32, 48, 64, 100, 1024, 5000])
@pytest.mark.parametrize("start", [0, 16, 32, 48])
def test_division_of_known_groups(math, start, divisor):
    """Sixteen lanes from `start`: a quotient is given exactly when they have one."""
    lane = lanes.index(constant(LLVM_I64, 0), start, 1, 1 << 62, start, start + 15)
    parts = math.divide(lane, divisor)
    values = start + np.arange(16)
    if len(set(values // divisor)) > 1:
        assert parts is None
    else:
        quotient, rest = parts
        assert quotient.known == start // divisor and rest.offset == start % divisor and rest.stride == 1


def test_division_of_moving_groups(math):
    assert math.divide(moving(math, 64), 32) is not None       # 16 lanes from a multiple of 64
    assert math.divide(moving(math, 64), 48) is not None       # 16 divides both
    assert math.divide(moving(math, 64, 8), 48) is None        # lanes 8..23 cross a multiple of 16
    assert math.divide(moving(math, 64), 24) is None
    assert math.divide(moving(math, 64), 2048)[0].known == 0   # all below


def test_pointers_count_bytes(math):
    p = uniform(Pointer(F32), math.code.params[0])
    q = math.advance(math.advance(p, moving(math), 4), integer(I64, 3), 4)
    assert (q.form, q.stride, q.offset) == (Form.AFFINE, 4, 12)
