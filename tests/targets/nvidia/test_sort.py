"""What sorting a tile's rows comes to in PTX; its values: tests/lang and tests/conform."""

import numpy as np
import pytest

import tilewright as triton
import tilewright.language as tl
from tests.targets.nvidia.harness import compiled, tile_ir


@triton.jit
def sorted_rows(x, out, M: tl.constexpr, N: tl.constexpr):
    at = tl.arange(0, M)[:, None] * N + tl.arange(0, N)[None, :]
    tl.store(out + at, tl.sort(tl.load(x + at), 1))


def lines(dtype):
    x = np.zeros(1, dtype)
    return compiled(tile_ir(sorted_rows, x, x.copy(), M=4, N=512)).texts["ptx"].count("\n")


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int16, np.float16])
def test_narrow_elements_are_sorted_as_words(dtype):
    """A GPU has no min, max and shuffles of 8 bits: widened for each of them, int8 is 1.5 times as long as int32."""
    assert lines(dtype) < 1.1 * lines(np.int32)
