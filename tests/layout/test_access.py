"""Accesses to shared memory, carried out by the machine: every element in its place, every wavefront foreseen."""

from __future__ import annotations

import dataclasses
import random

import numpy as np
import pytest

from tests.layout.machine import BYTES, Fault, Machine
from tests.layout.random_layouts import random_layout, random_shape
from tilewright.layout.access import Form, access, best_access
from tilewright.layout.families import blocked, coalesced
from tilewright.layout.linear import Layout
from tilewright.layout.mma import accumulator, operand, warpgroup_accumulator
from tilewright.layout.shared import for_matrices, nvmma, row_major, swizzled


def random_tile(shape: tuple[int, ...], item: int) -> np.ndarray:
    return np.random.default_rng(0).integers(0, 1 << 8 * item, shape, dtype=np.uint64).astype(BYTES[item])


def stored(tile: np.ndarray, layout: Layout, shared: Layout, item: int, form: Form) -> None:
    """Writing puts the tile where `shared` says, each byte once, in as many wavefronts as foretold."""
    found = access(layout, shared, item, form, store=True)
    machine = Machine(layout.size("warp"), tile.nbytes, item)
    machine.store(tile.reshape(-1)[layout.table()], found)
    assert machine.written.all() and machine.wavefronts == found.wavefronts >= found.issued
    assert (machine.memory.view(tile.dtype) == tile.reshape(-1)[shared.table()]).all()


def loaded(tile: np.ndarray, layout: Layout, shared: Layout, item: int, form: Form) -> None:
    found = access(layout, shared, item, form)
    machine = Machine(layout.size("warp"), tile.nbytes, item)
    machine.memory[:] = tile.reshape(-1)[shared.table()].view(np.uint8)
    machine.visible[:] = True
    assert (machine.load(found, layout.size("register")) == tile.reshape(-1)[layout.table()]).all()
    assert machine.wavefronts == found.wavefronts >= found.issued >= found.ideal // 8


FIXED = [row_major((64, 64)), row_major((64, 64), (0, 1)), swizzled((64, 64), 8, 2, 4),
         swizzled((64, 64), 4, 1, 8, (0, 1))]


@pytest.mark.parametrize("item", [1, 2, 4, 8])
@pytest.mark.parametrize("shared", [*FIXED, None], ids=["rows", "columns", "swizzled", "swizzled columns", "nvmma"])
def test_fragments_and_fixed_shared_layouts(item: int, shared: Layout | None) -> None:
    shared = shared or nvmma((64, 64), item, 32)
    tile = random_tile((64, 64), item)
    width = max(1, 4 // item)
    for layout in (blocked((64, 64), (1, 4), (4, 8), (4, 1), (1, 0)), accumulator((64, 64), (2, 2)),
                   operand("A", (64, 64), width, (2, 2)), operand("B", (64, 64), width, (2, 2))):
        for form in Form:
            if access(layout, shared, item, form) is not None:
                loaded(tile, layout, shared, item, form)
            if access(layout, shared, item, form, store=True) is not None:
                stored(tile, layout, shared, item, form)


@pytest.mark.parametrize("seed", range(40))
def test_random_layouts(seed: int) -> None:
    rng = random.Random(seed)
    item = rng.choice([1, 2, 4, 8])
    shape = random_shape(rng, rng.randint(1, 10))
    layout = random_layout(rng, shape, rng.randint(0, 2), seed % 3 == 0)
    bits = list(range(layout.bits))
    rng.shuffle(bits)
    bases = [1 << b for b in bits]
    for _ in range(2):
        i, j = rng.randrange(len(bases)), rng.randrange(len(bases))
        if i != j:
            bases[i] ^= bases[j]
    shared, tile = Layout.of(shape, offset=bases), random_tile(shape, item)
    loaded(tile, layout, shared, item, Form.VECTOR)
    stored(tile, layout, shared, item, Form.VECTOR)


# What ldmatrix must be used for: operands whose shared layout a copy engine fixed.  (operand, shared, item bytes, form,
# matrices an instruction, wavefronts as many as the bytes need)
A, B = operand("A", (128, 64), 2, (2, 2)), operand("B", (64, 128), 2, (2, 2))
MATRIX_CASES = {
    "A K-major": (A, nvmma((128, 64), 2, 128), 2, Form.MATRIX, 4),
    "A K-major, cp.async's swizzle": (A, swizzled((128, 64), 8, 1, 8), 2, Form.MATRIX, 4),
    "A K-major, 64 bytes": (A, nvmma((128, 64), 2, 64), 2, Form.MATRIX, 4),
    "A MN-major": (A, nvmma((128, 64), 2, 128, (0, 1)), 2, Form.TRANSPOSED, 4),
    "B n fast": (B, nvmma((64, 128), 2, 128), 2, Form.TRANSPOSED, 4),
    "B K-major": (operand("B", (64, 128), 2, (2, 2)), nvmma((64, 128), 2, 128, (0, 1)), 2, Form.MATRIX, 4),
    "A fp8": (operand("A", (128, 128), 4, (2, 2)), nvmma((128, 128), 1, 128), 1, Form.MATRIX, 4),
    "A tf32": (operand("A", (128, 32), 1, (2, 2)), nvmma((128, 32), 4, 128), 4, Form.MATRIX, 4),
    "B of one instruction, K-major": (operand("B", (16, 8), 2), swizzled((16, 8), 8, 4, 2, (0, 1)), 2,
                                      Form.MATRIX, 2),
    "B of k 8, n fast": (operand("B", (8, 8), 2), row_major((8, 8)), 2, Form.TRANSPOSED, 1),
}


@pytest.mark.parametrize("name", MATRIX_CASES)
def test_matrices_are_found_where_they_fit(name: str) -> None:
    layout, shared, item, form, width = MATRIX_CASES[name]
    best = best_access(layout, shared, item)
    assert (best.form, best.width, best.conflict_free) == (form, width, True)
    assert best.wavefronts == best.ideal
    loaded(random_tile(layout.shape, item), layout, shared, item, form)
    assert best_access(layout, shared, item, forms=()).form is Form.VECTOR


@pytest.mark.parametrize("item", [1, 2, 4])
@pytest.mark.parametrize("k", [16, 32, 64, 128])
@pytest.mark.parametrize("k_fast", [True, False])
def test_operands_that_are_copied_in_by_rows(item: int, k: int, k_fast: bool) -> None:
    """cp.async writes 16 bytes a lane, ldmatrix reads: no conflict on either side, as few wavefronts as the bytes."""
    width = 4 // item
    for which, shape in (("A", (64, k)), ("B", (k, 64))):
        layout = operand(which, shape, width, (2, 2))
        along_k = 1 if which == "A" else 0
        order = (along_k, 1 - along_k) if k_fast else (1 - along_k, along_k)
        shared = for_matrices(shape, item, order)
        if k * item >= 16 or not k_fast:
            write = access(coalesced(shape, 16 // item, 4, order), shared, item, store=True)
            assert write.conflict_free and write.width == 16 // item
        form = Form.MATRIX if k_fast else Form.TRANSPOSED
        read = access(layout, shared, item, form)
        if not k_fast and item != 2:
            assert read is None     # only 16-bit elements are transposed
        elif k * item >= 32:        # a whole k-step of an instruction
            assert read.conflict_free and read.wavefronts == read.ideal
            loaded(random_tile(shape, item), layout, shared, item, form)


def test_stmatrix_into_a_staging_buffer() -> None:
    layout, shared = warpgroup_accumulator((64, 64)), nvmma((64, 64), 2, 128)
    best = best_access(layout, shared, 2, store=True)
    assert (best.form, best.width, best.wavefronts) == (Form.MATRIX, 4, best.ideal)
    stored(random_tile((64, 64), 2), layout, shared, 2, Form.MATRIX)


def test_where_no_matrix_fits() -> None:
    """A byte operand with n fast: no instruction transposes bytes.  64-bit elements: none reads them."""
    fp8 = operand("B", (128, 128), 4, (2, 2))
    assert [access(fp8, nvmma((128, 128), 1, 128), 1, f) for f in (Form.MATRIX, Form.TRANSPOSED)] == [None, None]
    assert access(operand("A", (16, 16), 1), row_major((16, 16)), 8, Form.MATRIX) is None
    assert access(accumulator((16, 8)), row_major((16, 8)), 4, Form.MATRIX) is None


def test_a_store_from_replicas_is_made_once() -> None:
    layout = coalesced((8,), 1, 4)
    found = access(layout, row_major((8,)), 4, store=True)
    assert (found.idle_lanes, found.idle_warps) == (0b11000, 0b11)
    stored(random_tile((8,), 4), layout, row_major((8,)), 4, Form.VECTOR)
    assert access(layout, row_major((8,)), 4).idle_lanes == 0


def test_lanes_that_store_nothing_are_in_nobodys_way() -> None:
    """Lane bit 4 repeats what register 1 holds: half of the warp stores pairs, the others' offsets do not count."""
    layout = Layout.of((32,), register=(1,), lane=(2, 4, 8, 16, 1), warp=())
    found = access(layout, row_major((32,)), 4, store=True)
    assert (found.width, found.wavefronts, found.idle_lanes) == (2, 1, 0b10000)
    stored(random_tile((32,), 4), layout, row_major((32,)), 4, Form.VECTOR)
    assert access(layout, row_major((32,)), 4).width == 1       # but they load


def test_no_stmatrix_from_lanes_that_hold_copies() -> None:
    """All lanes of stmatrix store: two rows would be written twice.  ldmatrix may read a row twice."""
    layout, shared = accumulator((4, 8)), row_major((4, 8))
    assert access(layout, shared, 2, Form.MATRIX, store=True) is None
    loaded(random_tile((4, 8), 2), layout, shared, 2, Form.MATRIX)


@pytest.mark.parametrize("field, change", [
    ("by_lane", lambda v: (*v[:3], v[3] ^ 8, v[4])), ("by_warp", lambda v: (v[0] ^ 8, *v[1:])),
    ("steps", lambda v: (*v[:-1], dataclasses.replace(v[-1], offset=v[-1].offset ^ 8))),
    ("steps", lambda v: v[1:]), ("steps", lambda v: (*v[1:], v[1])),
    ("steps", lambda v: (dataclasses.replace(v[0], registers=v[0].registers[::-1]), *v[1:])),
    ("idle_warps", lambda v: 1)])
@pytest.mark.parametrize("form", [Form.VECTOR, Form.MATRIX])
def test_a_wrong_access_is_noticed(form: Form, field: str, change) -> None:
    layout, shared = accumulator((64, 64), (2, 2)), swizzled((64, 64), 8, 1, 8)
    tile = random_tile((64, 64), 2)
    found = access(layout, shared, 2, form, store=True)
    broken = dataclasses.replace(found, **{field: change(getattr(found, field))})
    machine = Machine(4, tile.nbytes, 2)
    with pytest.raises((Fault, AssertionError)):
        machine.store(tile.reshape(-1)[layout.table()], broken)
        assert machine.written.all()
        assert (machine.memory.view(tile.dtype) == tile.reshape(-1)[shared.table()]).all()


def test_shapes_must_agree() -> None:
    with pytest.raises(ValueError, match="does not hold a tile"):
        access(coalesced((64,), 1, 1), row_major((32,)), 4)
