"""Kernels with many loop nests: each nest is a function, so that LLVM's time grows with their number only."""

import re

import numpy as np
import pytest

import tilewright as triton
import tilewright.language as tl
from tilewright.diagnostics import OutOfBoundsError
from tilewright.runtime import knobs


@triton.jit
def rows(x_ptr, o_ptr, s_ptr, n, N: tl.constexpr, BLOCK: tl.constexpr):
    """Doubles rows of n elements, and sums each."""
    column = tl.arange(0, BLOCK)
    mask = column < n
    total = 0.0
    for row in tl.static_range(N):
        x = tl.load(x_ptr + row * n + column, mask=mask)
        tl.store(o_ptr + row * n + column, x * 2, mask=mask)
        total += tl.sum(x, axis=0)
    tl.store(s_ptr, total)


def functions(count):
    array = np.zeros(1, np.float32)     # a dtype would be a tensor of the GPU, where there is one
    text = rows.warmup(array, array, array, 100, N=count, BLOCK=128, grid=(1,)).asm["llir"]
    return [len(part.splitlines()) for part in re.split(r"^define ", text, flags=re.M)[1:]]


@pytest.mark.parametrize("count", [3, 50])
def test_results(count):
    x = np.random.default_rng(0).integers(-9, 9, (count, 100)).astype(np.float32)
    o, s = np.zeros_like(x), np.zeros(1, np.float32)
    rows[(1,)](x, o, s, 100, N=count, BLOCK=128)
    assert (o == 2 * x).all() and s[0] == x.sum()


def test_a_violation_is_found_before_its_nest_writes():
    x, o, s = np.ones((50, 100), np.float32), np.zeros((44, 100), np.float32), np.zeros(1, np.float32)
    with pytest.raises(OutOfBoundsError, match="element 4400 of 'o_ptr'") as error:
        rows[(1,)](x, o, s, 100, N=50, BLOCK=128)
    assert "tl.store(o_ptr" in str(error.value)
    assert (o == 2).all() and s[0] == 0


def test_with_line_tables():
    with knobs.scope(debug_info=True):
        test_results(50)


def test_no_function_grows_with_the_number_of_nests():
    few, many = functions(50), functions(100)
    assert len(many) > 190 and max(many[1:]) == max(few[1:])        # the first is the program itself
    assert many[0] < 2.2 * few[0] and many[0] / 100 < 40            # lines for a turn of the unrolled loop
