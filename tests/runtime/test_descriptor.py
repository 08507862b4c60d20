"""TensorDescriptor: checks on the host, specialisation by sizes, blocks and padding."""

import numpy as np
import pytest

import tilewright as triton
import tilewright.language as tl
from tilewright import OutOfBoundsError
from tilewright.tools.tensor_descriptor import TensorDescriptor


@triton.jit
def read(out, desc):
    block = desc.load([0, 0])
    tl.store(out + tl.arange(0, block.shape[0])[:, None] * block.shape[1] + tl.arange(0, block.shape[1]), block)


@pytest.mark.parametrize("changes, message", [
    ({"strides": [1, 4]}, "the last dimension must be contiguous"), ({"shape": [0, 4]}, "sizes must be positive"),
    ({"block_shape": [2]}, "block_shape must have 2 elements"), ({"padding": "one"}, "padding is 'zero' or 'nan'"),
    ({"shape": [1] * 6}, "1 to 5 dimensions, not 6"),
])
def test_checks(changes, message):
    fields = {"shape": [3, 4], "strides": [4, 1], "block_shape": [2, 2], "padding": "zero", **changes}
    with pytest.raises(ValueError, match=message):
        TensorDescriptor(np.zeros((3, 4), np.float32), **fields)


def test_from_tensor():
    x = np.zeros((3, 4), np.float32)
    made = TensorDescriptor.from_tensor(x, [2, 2])
    assert made.base is x and (made.shape, made.strides, made.block_shape) == ([3, 4], [4, 1], [2, 2])
    assert made.padding == "zero"


def test_each_block_shape_and_padding_is_compiled_for_itself():
    x = np.arange(12, dtype=np.float32).reshape(3, 4)
    for block, padding in (((2, 2), "zero"), ((4, 8), "zero"), ((4, 8), "nan"), ((2, 2), "zero")):
        out = np.zeros(block, np.float32)
        read[(1,)](out, TensorDescriptor.from_tensor(x, block, padding))
        want = np.full((8, 8), np.nan if padding == "nan" else 0, np.float32)
        want[:3, :4] = x
        np.testing.assert_array_equal(out, want[:block[0], :block[1]])


def test_sizes_come_with_the_launch():
    out = np.zeros((4, 4), np.float32)
    for shape in ((1, 1), (2, 3), (4, 4), (16, 2)):
        x = np.random.default_rng(1).standard_normal(shape).astype(np.float32)
        read[(1,)](out, TensorDescriptor.from_tensor(x, [4, 4]))
        want = np.zeros((16, 4), np.float32)
        want[:shape[0], :shape[1]] = x
        np.testing.assert_array_equal(out, want[:4])


@triton.jit
def fill(desc, pair, extra):
    block = tl.full((2, 2), 1, tl.float32)
    if extra == 0:
        desc.store([0, 0], block)
    tl.store(pair[0] + extra, 1)


def test_errors_name_the_argument():
    x, y = np.zeros((2, 2), np.float32), np.zeros(2, np.int32)
    desc = TensorDescriptor(x, [4, 4], [4, 1], [2, 2])
    with pytest.raises(OutOfBoundsError, match="of 'desc', whose elements 0 to 3"):
        fill[(1,)](desc, (y, 3), 0)
    with pytest.raises(OutOfBoundsError, match=r"of 'pair\[0\]', whose elements 0 to 1"):
        fill[(1,)](desc, (y, 3), 2)
    x.flags.writeable = False
    with pytest.raises(ValueError, match="parameter 'desc' is a read-only array"):
        fill[(1,)](desc, (y, 3), 0)
