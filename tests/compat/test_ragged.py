"""Ragged tensors: blocks of slices, on every engine, against NumPy."""

from __future__ import annotations

import numpy as np
import pytest

import tilewright as triton
import tilewright.language as tl
from tests.gpu import CUDA, ON_GPU
from tilewright.testing import engines
from tilewright.tools.ragged_tma import atomic_add_ragged, create_ragged_descriptor, load_ragged, store_ragged

SLICES = np.array([[0, 5], [5, 0], [5, 7], [12, 1]], np.int32)


@pytest.fixture(params=(*engines.ENGINES, "checked", engines.ON_MACHINE, *([CUDA] if ON_GPU else [])))
def launch(request):
    return lambda *args, **kwargs: engines.launch(request.param, *args, **kwargs)


@triton.jit
def doubles(source, target, slices, SIDE: tl.constexpr, ADD: tl.constexpr):
    """Every slice twice as large, block for block; blocks reach past the slices and the columns."""
    first = tl.load(slices + tl.program_id(0) * 2)
    count = tl.load(slices + tl.program_id(0) * 2 + 1)
    for row in range(0, count, SIDE):
        for column in range(0, source.shape[1], SIDE):
            block = load_ragged(source, first, count, [row, column])
            if ADD:
                atomic_add_ragged(target, first, count, [row, column], block * 2)
            else:
                store_ragged(target, first, count, [row, column], block * 2)


@pytest.mark.parametrize("side", [4, 3])
@pytest.mark.parametrize("add", [False, True])
def test_slices_do_not_touch_one_another(launch, side, add):
    source = np.random.default_rng(2).standard_normal((13, 10)).astype(np.float32)
    target = np.full((14, 10), 100 if add else 7, np.float32)
    descriptors = (create_ragged_descriptor(tensor, [side, side]) for tensor in (source, target))
    launch(doubles, (4,), *descriptors, SLICES, SIDE=side, ADD=add)
    np.testing.assert_array_equal(target[:13], source * 2 + (100 if add else 0))
    assert (target[13] == (100 if add else 7)).all()


@triton.jit
def one_block(out, desc, first, count, row, RAGGED: tl.constexpr):
    block = load_ragged(desc, first, count, [0, row, 0], ragged_dim=RAGGED)
    i, j, k = tl.arange(0, 2)[:, None, None], tl.arange(0, 4)[None, :, None], tl.arange(0, 8)[None, None, :]
    tl.store(out + i * 32 + j * 8 + k, block)


@pytest.mark.parametrize("ragged_dim", [1, -2])
def test_another_dimension_and_what_is_outside_is_zero(launch, ragged_dim):
    data = np.arange(1, 2 * 9 * 6 + 1, dtype=np.float32).reshape(2, 9, 6)
    desc = create_ragged_descriptor(data, [2, 4, 8], ragged_dim)
    out = np.full((2, 4, 8), -1, np.float32)
    launch(one_block, (1,), out, desc, 3, 5, 2, RAGGED=ragged_dim)
    want = np.zeros_like(out)
    want[:, :3, :6] = data[:, 5:8]
    np.testing.assert_array_equal(out, want)
    launch(one_block, (1,), out, desc, 3, 5, -2, RAGGED=ragged_dim)      # before the slice
    want[:, :2], want[:, 2:, :6] = 0, data[:, 3:5]
    np.testing.assert_array_equal(out, want)


@pytest.mark.parametrize("dim", [1, -1, 2, -3])
def test_the_last_dimension_is_not_ragged(dim):
    with pytest.raises(ValueError, match=f"not the last of 2, but is {dim}"):
        create_ragged_descriptor(np.zeros((4, 4), np.float32), [2, 2], dim)


def test_a_wrong_number_of_coordinates():
    with pytest.raises(triton.CompileTimeAssertionFailure, match="coords has a number for each dimension"):
        one_block[(1,)](np.zeros((2, 4, 8), np.float32), create_ragged_descriptor(np.zeros((4, 4)), [2, 2]), 0, 1, 0, 0)
