"""`Layout`: reading, replication, padding, and the algebra, each against the table of all places."""

from __future__ import annotations

import itertools
import pickle
import random

import numpy as np
import pytest

from tests.layout.random_layouts import random_layout, random_shape
from tilewright.layout.families import blocked
from tilewright.layout.linear import Layout, log2, pack, padded_shape, unpack

SMALL = Layout.of((4, 8), register=(1, 8), lane=(2, 4), warp=(16,))


@pytest.fixture(params=range(25))
def layout(request: pytest.FixtureRequest) -> Layout:
    rng = random.Random(request.param)
    return random_layout(rng, random_shape(rng, rng.randint(0, 9)), rng.randint(0, 3), request.param % 2 == 0)


def places(layout: Layout) -> list[dict[str, int]]:
    """Every place, the first input fastest."""
    sizes = [range(layout.size(name)) for name in reversed(layout.names)]
    return [dict(zip(reversed(layout.names), at)) for at in itertools.product(*sizes)]


def test_a_table_is_the_map_at_every_place(layout: Layout) -> None:
    table = layout.table()
    assert table.shape == (layout.size("register"), layout.threads)
    flat = table.T.reshape(-1)
    assert [layout(**at) for at in places(layout)] == flat.tolist()
    with pytest.raises(ValueError, match="read-only"):
        table[0, 0] = 0


def test_reading_a_tile_by_hand() -> None:
    tile = np.arange(32).reshape(4, 8)
    assert tile.reshape(-1)[SMALL.table()].tolist() == [
        [0, 2, 4, 6, 16, 18, 20, 22], [1, 3, 5, 7, 17, 19, 21, 23],
        [8, 10, 12, 14, 24, 26, 28, 30], [9, 11, 13, 15, 25, 27, 29, 31]]


@pytest.mark.parametrize("shape", [(), (1,), (8,), (2, 4), (4, 1, 8), (2, 2, 2, 2, 4)])
def test_pack_is_the_row_major_index(shape: tuple[int, ...]) -> None:
    for i, coordinates in enumerate(np.ndindex(*shape)):
        assert pack(shape, coordinates) == i and unpack(shape, i) == coordinates


def test_owners_hold_each_element_once(layout: Layout) -> None:
    free = layout.free()
    held = [layout(**at) for at in places(layout) if not any(at[name] & free[name] for name in at)]
    assert sorted(held) == list(range(layout.numel))


def test_registers_own_before_lanes_before_warps() -> None:
    layout = Layout.of((4,), register=(1,), lane=(1, 0, 2, 2, 3), warp=(2, 0))
    assert layout.free() == {"register": 0, "lane": 0b11011, "warp": 0b11}
    assert layout.is_surjective() and not layout.is_injective()


def test_the_inverse_finds_an_owner(layout: Layout) -> None:
    identity = Layout(layout.shape, (("offset", tuple(1 << i for i in range(layout.bits))),))
    assert layout.compose(layout.inverse()) == identity
    table, index = layout.table().T.reshape(-1), layout.inverse().table()
    assert (table[index] == np.arange(layout.numel)).all()


def test_no_inverse_where_an_element_is_missing() -> None:
    with pytest.raises(ValueError, match="does not reach every element"):
        Layout.of((4,), register=(1,), lane=(), warp=()).inverse()


def test_product_and_division_undo_each_other(layout: Layout) -> None:
    rng = random.Random(layout.numel)
    outer = random_layout(rng, tuple(rng.choice([1, 2, 4]) for _ in layout.shape), 1, True)
    whole = layout.product(outer)
    assert whole.divide(layout) == outer
    for name in layout.names:   # the inner layout is the low bits of every input and every dim
        for i, basis in enumerate(whole.bases(name)):
            coordinates = unpack(whole.shape, basis)
            inner = i < len(layout.bases(name))
            assert all(c < s if inner else c % s == 0 for c, s in zip(coordinates, layout.shape))
    if whole.numel > 1:
        first, *rest = whole.bases("lane")
        assert whole.with_bases(lane=(first ^ whole.numel - 1, *rest)).divide(layout) is None


def test_division_refuses_what_is_no_multiple() -> None:
    row = Layout.of((1, 4), register=(1, 2), lane=(), warp=())
    assert blocked((16, 64), (1, 4), (2, 16), (4, 1), (1, 0)).divide(row) is not None
    assert blocked((16, 64), (1, 2), (2, 16), (4, 1), (1, 0)).divide(row) is None
    assert blocked((16, 2), (1, 2), (2, 16), (4, 1), (1, 0)).divide(row) is None


@pytest.mark.parametrize("shape", [(1, 7), (5, 3), (33, 1), (20, 24, 3), (1000,)])
def test_bounds_tell_the_tile_from_its_padding(shape: tuple[int, ...]) -> None:
    rng = random.Random(shape[0])
    for k in range(4):
        layout = random_layout(rng, padded_shape(shape), 2, k % 2 == 0)
        bounds = layout.padding(shape)
        assert [b.dim for b in bounds] == [d for d, s in enumerate(shape) if s & s - 1]
        inside = np.zeros(layout.shape, bool)
        inside[tuple(slice(s) for s in shape)] = True
        real = inside.reshape(-1)[layout.table()]
        for bound in bounds:
            axis = [slice(None)] * len(shape)
            axis[bound.dim] = slice(bound.limit)
            here = np.zeros(layout.shape, bool)
            here[tuple(axis)] = True
            for register, row in enumerate(here.reshape(-1)[layout.table()]):
                assert bound.test(register) is (True if row.all() else None if row.any() else False)
        passed = np.ones_like(real)
        for bound in bounds:
            passed &= bound.coordinate.table() < bound.limit
        assert (passed == real).all()


def test_no_bounds_without_padding() -> None:
    assert SMALL.padding((4, 8)) == ()
    with pytest.raises(ValueError, match=r"shape \(4, 16\)"):
        SMALL.padding((4, 16))


def test_equal_layouts_are_one_key(layout: Layout) -> None:
    again = Layout(layout.shape, layout.inputs)
    assert again == layout and hash(again) == hash(layout) and pickle.loads(pickle.dumps(layout)) == layout
    assert layout != layout.with_bases(lane=(*layout.bases("lane"), 0))


@pytest.mark.parametrize("shape, bases, message", [
    ((4,), {"lane": (4,)}, "outside a tile"), ((3,), {}, "no power of two|not a power of two"),
    ((4,), {"lane": (-1,)}, "outside a tile"), ((1,) * 27, {}, "at most 26 dims")])
def test_what_is_no_layout(shape: tuple[int, ...], bases: dict[str, tuple[int, ...]], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Layout.of(shape, **bases)


def test_an_input_has_one_row() -> None:
    with pytest.raises(ValueError, match="named twice"):
        Layout((2,), (("lane", (1,)), ("lane", ())))


def test_log2() -> None:
    assert [log2(1 << i) for i in range(20)] == list(range(20))
    for n in (0, -4, 3, 12):
        with pytest.raises(ValueError, match="not a power of two"):
            log2(n)
