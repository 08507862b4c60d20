"""Layouts of shared memory against the byte formulas of their definitions, element by element."""

from __future__ import annotations

import numpy as np
import pytest

from tilewright.layout.linear import Layout, pack
from tilewright.layout.shared import Padded, for_matrices, nvmma, row_major, swizzled


def offsets(layout: Layout) -> np.ndarray:
    """[tile shape] -> offset."""
    table = layout.table()
    assert sorted(table.tolist()) == list(range(layout.numel))
    out = np.empty(layout.numel, np.int64)
    out[table] = np.arange(layout.numel)
    return out.reshape(layout.shape)


@pytest.mark.parametrize("shape, order", [((8,), None), ((4, 8), None), ((4, 8), (0, 1)), ((2, 4, 8), (1, 2, 0)),
                                          ((), None)])
def test_row_major(shape: tuple[int, ...], order: tuple[int, ...] | None) -> None:
    dims = order if order is not None else tuple(reversed(range(len(shape))))
    want = np.arange(np.prod(shape, dtype=int)).reshape([shape[d] for d in reversed(dims)])
    back = [list(reversed(dims)).index(d) for d in range(len(shape))]
    assert (offsets(row_major(shape, order)) == want.transpose(back)).all()


@pytest.mark.parametrize("vector", [1, 2, 8])
@pytest.mark.parametrize("per_phase", [1, 2, 4])
@pytest.mark.parametrize("max_phase", [1, 4, 8])
@pytest.mark.parametrize("shape, order", [((64, 64), (1, 0)), ((8, 128), (1, 0)), ((32, 16), (0, 1)),
                                          ((2, 16, 32), (2, 1, 0))])
def test_swizzled(vector, per_phase, max_phase, shape, order) -> None:
    layout = swizzled(shape, vector, per_phase, max_phase, order)
    fast, slow = order[0], order[1]
    at = list(np.indices(shape))
    at[fast] = at[fast] ^ (at[slow] // per_phase % max_phase * vector & shape[fast] - 1)
    assert (offsets(layout) == offsets(row_major(shape, order))[tuple(at)]).all()


@pytest.mark.parametrize("item", [1, 2, 4])
@pytest.mark.parametrize("width", [128, 64, 32])
@pytest.mark.parametrize("order", [(1, 0), (0, 1)])
@pytest.mark.parametrize("shape", [(64, 64), (128, 128), (128, 256)])
def test_nvmma_is_the_hardware_swizzle_of_panels(item, width, order, shape) -> None:
    """byte ^= ((byte >> 7) & (2^s - 1)) << 4, s = 3, 2, 1, over panels [all slow rows][width bytes]."""
    per_row, (fast, slow) = width // item, order
    if shape[fast] < per_row:
        with pytest.raises(ValueError, match="needs 128 elements"):
            nvmma(shape, item, width, order)
        return
    where = offsets(nvmma(shape, item, width, order))
    f, s = (np.arange(shape[d]).reshape([-1 if e == d else 1 for e in (0, 1)]) for d in order)
    byte = (f // per_row * shape[slow] + s) * width + f % per_row * item
    byte = byte ^ ((byte >> 7) & (width // 16 - 1)) << 4
    assert (where * item == byte).all()


def test_the_widest_swizzle_is_a_swizzle_of_eight_phases() -> None:
    assert nvmma((64, 64), 2, 128) == swizzled((64, 64), 8, 1, 8)


def test_operands_for_matrices_are_permuted_within_eight_rows() -> None:
    """So whatever is copied in by tiles of eight rows repeats; 128-byte rows are the hardware's widest swizzle."""
    assert for_matrices((64, 64), 2) == nvmma((64, 64), 2, 128)
    for shape, item in (((64, 128), 2), ((64, 256), 1), ((64, 64), 4)):
        eight = for_matrices((8, shape[1]), item).bases("offset")
        assert for_matrices(shape, item).bases("offset") == (*eight, *(8 * shape[1] << i for i in range(3)))


def descriptor_address(start: int, lead: int, stride: int, width: int, mn: bool, row: int, k: int, item: int) -> int:
    """The byte that wgmma reads for element (row, k) of a 16-byte-chunked descriptor (PTX ISA, matrix descriptor;
    the table of strides was verified on an H200 for every form)."""
    inner, outer = (row, k) if mn else (k, row)
    per_row = width // item
    byte = start + inner // per_row * lead + outer // 8 * stride + outer % 8 * width + inner % per_row * item
    return byte ^ (byte >> 7 & width // 16 - 1) << 4


@pytest.mark.parametrize("width", [128, 64, 32])
@pytest.mark.parametrize("rows, depth", [(64, 64), (128, 64)])
def test_descriptors_read_what_the_layout_says(width: int, rows: int, depth: int) -> None:
    """K-major: SBO = 8 W, k16 advances 32 bytes in a panel.  MN-major: LBO = Kt * W, SBO = 8 W, k16 advances 16 W."""
    k_major = offsets(nvmma((rows, depth), 2, width))
    mn_major = offsets(nvmma((depth, rows), 2, width))
    for k0 in range(0, depth, 16):
        start = k0 * 2 % width + k0 * 2 // width * rows * width
        for row in range(0, rows, 5):
            for k in range(16):
                assert descriptor_address(start, 16, 8 * width, width, False, row, k, 2) == 2 * k_major[row, k0 + k]
                assert descriptor_address(k0 * width, depth * width, 8 * width, width, True, row, k, 2) == \
                    2 * mn_major[k0 + k, row]


def test_batches_are_tiles_one_after_another() -> None:
    one, many = nvmma((64, 64), 2, 64), nvmma((4, 64, 64), 2, 64)
    assert many.bases("offset") == (*one.bases("offset"), 4096, 8192)


def test_padded() -> None:
    padded = Padded(row_major((4, 8)), 8, 2)
    assert [padded.place(padded.linear.inverse()(offset=pack((4, 8), (r, c)))) for r in range(4) for c in (0, 7)] == \
        [0, 7, 10, 17, 20, 27, 30, 37]
    assert padded.elements == 38


@pytest.mark.parametrize("call, message", [
    (lambda: nvmma((64, 32), 2, 128), "needs 64 elements"), (lambda: nvmma((64, 64), 2, 256), "128, 64 or 32"),
    (lambda: nvmma((64,), 2, 64), "two dims"), (lambda: row_major((4, 4), (0, 0)), "no order"),
    (lambda: swizzled((4, 4), 3, 1, 1), "3 is not a power of two")])
def test_refusals(call, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call()
