"""Products by multiply-adds: how a turn reads its operands."""

import re

import numpy as np
import pytest

import tilewright as triton
import tilewright.language as tl
from tests.targets.nvidia.harness import SM90, launch_code
from tilewright.testing import ptx_machine


@triton.jit
def product(x, y, out, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    i, j, k = tl.arange(0, M), tl.arange(0, N), tl.arange(0, K)
    a, b = tl.load(x + i[:, None] * K + k[None, :]), tl.load(y + k[:, None] * N + j[None, :])
    tl.store(out + i[:, None] * N + j[None, :], tl.dot(a, b, input_precision="ieee").to(out.dtype.element_ty))


def operands(m, n, k, dtype=np.float32):
    rng = np.random.default_rng(m + n + k)
    x, y = rng.integers(-8, 8, (m, k)).astype(dtype), rng.integers(-8, 8, (k, n)).astype(dtype)
    return x, y, np.zeros((m, n), np.int32 if dtype == np.int8 else dtype)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("m, n, k", [(64, 64, 32), (16, 32, 2), (4, 4, 8), (32, 16, 12), (8, 8, 1), (16, 16, 20)])
def test_values(m, n, k, dtype):
    x, y, out = operands(m, n, k, dtype)
    ptx_machine.run(product, (1,), (x, y, out), {"M": m, "N": n, "K": k})
    np.testing.assert_array_equal(out, x @ y)


def test_rows_of_the_left_operand_are_read_four_elements_at_a_time():
    """32 sums a thread, in eight rows and four columns: eight vectors and sixteen words for 128 multiply-adds."""
    code = launch_code(product, operands(64, 64, 32), {"M": 64, "N": 64, "K": 32}, SM90)
    text = code.texts["ptx"]
    assert len(re.findall(r"ld\.shared\.v4\.b32", text)) == 8
    assert len(re.findall(r"ld\.shared\.b32", text)) == 16
    assert text.count("fma.rn.f32") == 128


def test_a_depth_that_is_odd_goes_element_by_element():
    code = launch_code(product, operands(16, 16, 1), {"M": 16, "N": 16, "K": 1}, SM90)
    assert "ld.shared.v" not in code.texts["ptx"]
