"""Shape operations on layouts: NumPy does the operation to the tile, the new layout reads the same registers."""

from __future__ import annotations

import random

import numpy as np
import pytest

from tests.layout.random_layouts import random_layout, random_shape
from tilewright.layout.families import blocked
from tilewright.layout.linear import Layout, padded_shape
from tilewright.layout.views import (
    broadcasted,
    expanded,
    halved,
    inverse_order,
    joined,
    reshaped,
    reshapes_in_place,
    sliced,
    split_register,
    squashed,
    transposed,
)


@pytest.fixture(params=range(20))
def rng(request: pytest.FixtureRequest) -> random.Random:
    return random.Random(request.param)


def some_layout(rng: random.Random, least: int = 1) -> Layout:
    shape = random_shape(rng, rng.randint(2, 8))
    while len(shape) < least:
        shape = (*shape, 2)
    return random_layout(rng, shape, rng.randint(0, 2), rng.random() < 0.5)


def held(tile: np.ndarray, layout: Layout) -> np.ndarray:
    """What each [register, thread] holds of a tile."""
    assert tile.shape == layout.shape
    return tile.reshape(-1)[layout.table()]


def tile_of(layout: Layout) -> np.ndarray:
    return np.arange(layout.numel).reshape(layout.shape)


def test_slice_holds_what_a_reduction_leaves(rng: random.Random) -> None:
    layout = some_layout(rng)
    for axis in range(len(layout.shape)):
        kept = sliced(layout, axis, keep_registers=True)
        marks = np.arange(kept.numel).reshape(kept.shape)
        spread = np.broadcast_to(np.expand_dims(marks, axis), layout.shape)
        assert (held(marks, kept) == held(np.ascontiguousarray(spread), layout)).all()
        dropped = sliced(layout, axis - len(layout.shape))
        assert 0 not in dropped.bases("register") and dropped.is_surjective()
        for thread in range(layout.threads):
            assert set(dropped.table()[:, thread]) == set(kept.table()[:, thread])


def test_squash_is_the_source_of_a_broadcast(rng: random.Random) -> None:
    layout = some_layout(rng, 2)
    dims = [d for d in range(len(layout.shape)) if rng.random() < 0.5] or [0]
    kept = squashed(layout, dims, keep_registers=True)
    narrow = tile_of(kept)
    wide = np.ascontiguousarray(np.broadcast_to(narrow, layout.shape))
    assert (held(narrow, kept) == held(wide, layout)).all()
    assert 0 not in squashed(layout, dims).bases("register")


def test_broadcast_in_place(rng: random.Random) -> None:
    layout = squashed(some_layout(rng, 2), [0])
    wide = broadcasted(layout, (5, *layout.shape[1:]))
    assert wide.shape == (8, *layout.shape[1:]) and wide.is_surjective()
    source = squashed(wide, [0], keep_registers=True)
    for thread in range(layout.threads):
        assert set(source.table()[:, thread]) == set(layout.table()[:, thread])
    point = squashed(wide, range(len(wide.shape)))
    both = broadcasted(point, (5, *wide.shape[1:]))     # several dims at once
    assert both.shape == wide.shape and both.is_surjective() and sorted(both.bases("register")) == \
        [1 << i for i in range(both.bits)]
    with pytest.raises(ValueError, match="no broadcast"):
        broadcasted(wide, (16, *layout.shape[1:]))


def test_expand_transpose_join(rng: random.Random) -> None:
    layout = some_layout(rng)
    tile, rank = tile_of(layout), len(layout.shape)
    for axis in range(rank + 1):
        assert (held(np.expand_dims(tile, axis), expanded(layout, axis)) == held(tile, layout)).all()
    order = rng.sample(range(rank), rank)
    turned = transposed(layout, order)
    assert (held(np.transpose(tile, order), turned) == held(tile, layout)).all()
    assert transposed(turned, inverse_order(order)) == layout
    both = held(np.stack([tile, tile + 1000], -1), joined(layout))
    assert (both[::2] == held(tile, layout)).all() and (both[1::2] == held(tile + 1000, layout)).all()
    assert halved(joined(layout)) == layout and split_register(joined(layout)) == 0


def test_split_wherever_one_register_bit_tells() -> None:
    layout = Layout.of((8, 2), register=(2, 1), lane=(4, 8, 0, 0, 0), warp=())
    assert split_register(layout) == 1 and halved(layout).bases("register") == (1,)
    for other in (layout.with_bases(lane=(4, 8, 1, 0, 0)), layout.with_bases(register=(2, 3)),
                  Layout.of((8, 2), register=(2,), lane=(1, 4, 8, 0, 0), warp=())):
        assert split_register(other) is None
        with pytest.raises(ValueError, match="no register bit"):
            halved(other)


RESHAPES = [((8, 4), (4, 8)), ((6, 8), (48,)), ((48,), (6, 8)), ((6, 8), (6, 2, 4)), ((6, 4), (3, 8)), ((1, 6), (6,)),
            ((6,), (1, 6, 1)), ((3, 5), (3, 5)), ((4, 3, 8), (4, 24)), ((), (1, 1)), ((5, 1, 6, 4), (5, 24)),
            ((3, 5), (15,)), ((2, 3), (6,)), ((4, 6), (24,)), ((8, 3), (24,)), ((6,), (2, 3)), ((4,), (4, 2))]


@pytest.mark.parametrize("old, new", RESHAPES)
def test_reshape_in_place_where_the_padded_index_agrees(old: tuple[int, ...], new: tuple[int, ...]) -> None:
    """Decided by what each logical element's row-major index is in both padded tiles."""
    padded = [np.arange(np.prod(p, dtype=int)).reshape(p)[tuple(slice(s) for s in shape)].reshape(-1)
              for shape in (old, new) for p in [padded_shape(shape)]]
    agrees = bool(np.array_equal(*padded)) and np.prod(padded_shape(old)) == np.prod(padded_shape(new))
    assert reshapes_in_place(old, new) == agrees
    layout = random_layout(random.Random(0), padded_shape(old), 1, True)
    if agrees:
        assert reshaped(layout, old, new) == Layout(padded_shape(new), layout.inputs)
    else:
        with pytest.raises(ValueError, match="moves elements"):
            reshaped(layout, old, new)


def test_wrong_axes() -> None:
    layout = blocked((4, 8), (1, 2), (8, 4), (1, 1), (1, 0))
    for call in (lambda: sliced(layout, 2), lambda: squashed(layout, [-3]), lambda: expanded(layout, 4)):
        with pytest.raises(ValueError, match="axis"):
            call()
    with pytest.raises(ValueError, match="no order"):
        transposed(layout, (0, 0))
    with pytest.raises(ValueError, match="has no layout of shape"):
        reshaped(layout, (8, 8), (64,))
