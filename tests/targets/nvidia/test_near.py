"""Lanes go where neighbours are likely to be near, where facts tell no dimension from another."""

from __future__ import annotations

import re

import numpy as np

import tilewright as triton
import tilewright.language as tl
from tests.targets.nvidia.harness import SM90, laid_out, launch_code, tile_ir
from tilewright.ir.layout_rules import layout_of
from tilewright.ir.walk import ops_in
from tilewright.layout.linear import LANE
from tilewright.testing import engines


@triton.jit
def patches(x, out, width, height, channel_stride, row_stride, first, CHANNELS: tl.constexpr, B: tl.constexpr):
    """As the input of a convolution: places are split into rows and columns by numbers of the launch."""
    place = tl.program_id(0) * B + tl.arange(0, B)
    row, column = place // width, place % width
    channel = tl.arange(0, CHANNELS)
    pointers = x + (channel_stride * channel)[None, :] + (row_stride * row)[:, None] + (column + first)[:, None]
    inside = (row < height)[:, None] & (channel < CHANNELS)[None, :]
    values = tl.load(pointers, mask=inside)
    tl.store(out + tl.arange(0, B)[:, None] * CHANNELS + channel[None, :], values * 2)


def arguments():
    x = np.arange(8 * 6 * 10, dtype=np.float32)
    return x, np.zeros(32 * 8, np.float32), 9, 6, 60, 10, 1


def test_lanes_are_neighbours():
    x, out, *numbers = arguments()
    module = laid_out(tile_ir(patches, x, out, *numbers, CHANNELS=8, B=32))
    (load,) = (op for op in ops_in(module.entry.body) if op.name == "load")
    assert all(layout_of(load.result).coordinate(0).bases(LANE)[:3])


def test_values_and_products():
    """A product of an index that does not wrap is one instruction."""
    given, found = arguments(), arguments()
    engines.launch("cpu", patches, (1,), *given, CHANNELS=8, B=32)
    engines.launch("ptx", patches, (1,), *found, CHANNELS=8, B=32, num_warps=2)
    np.testing.assert_array_equal(found[1], given[1])
    ptx = launch_code(patches, given, {"CHANNELS": 8, "B": 32, "num_warps": 2}, SM90).texts["ptx"]
    assert not re.search(r"mul\.lo\.[su]64", ptx) and "mul.wide.s32" in ptx
