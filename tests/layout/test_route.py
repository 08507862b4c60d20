"""Routes, applied: every place of the destination finds its element, in the nearest place."""

from __future__ import annotations

import random

import numpy as np
import pytest

from tests.layout.random_layouts import random_layout, random_shape
from tilewright.layout.families import blocked, coalesced
from tilewright.layout.linear import Layout
from tilewright.layout.mma import accumulator, operand
from tilewright.layout.route import Reach, live_registers, own_registers, reach, route, source
from tilewright.layout.views import sliced, squashed


@pytest.fixture(params=range(40))
def pair(request: pytest.FixtureRequest) -> tuple[Layout, Layout]:
    rng = random.Random(request.param)
    shape, warps = random_shape(rng, rng.randint(0, 9)), rng.randint(0, 3)
    src, dst = (random_layout(rng, shape, warps, request.param % 3 == 0) for _ in range(2))
    if request.param % 2 and dst.with_bases(warp=src.bases("warp")).is_surjective():
        dst = dst.with_bases(warp=src.bases("warp"))
    return src, dst


def test_a_route_leads_to_the_element(pair: tuple[Layout, Layout]) -> None:
    src, dst = pair
    path = route(src, dst)
    assert src.compose(path) == dst
    assert (src.table().T.reshape(-1)[path.table()] == dst.table()).all()


def apart(src: Layout, dst: Layout) -> tuple[np.ndarray, ...]:
    """(register, lane, warp) of the source at each [register, thread] of dst."""
    path = source(src, dst)
    parts = []
    for images in (path.register, path.lane, path.warp):
        parts.append(route(src, dst).map_bases((1 << 30,), images).table())
    return tuple(parts)


def test_the_own_registers_are_taken_if_one_register_has_it_in_every_thread(pair: tuple[Layout, Layout]) -> None:
    src, dst = pair
    register, lane, warp = apart(src, dst)
    threads = np.arange(dst.threads)
    near = (lane == threads % 32) & (warp == threads // 32)
    for r in (0, *(1 << i for i in range(len(dst.bases("register"))))):
        if (src.table() == dst.table()[r]).all(1).any():       # a register that every thread could read
            assert near[r].all()
    if reach(src, dst) <= Reach.THREAD:
        assert near.all()
    if reach(src, dst) <= Reach.WARP:
        assert (warp == threads // 32).all()


def test_own_registers_of_a_slice_and_a_broadcast(pair: tuple[Layout, Layout]) -> None:
    layout, _ = pair
    for axis in range(len(layout.shape)):
        for narrow, wide in ((sliced(layout, axis), sliced(layout, axis, keep_registers=True)),
                             (squashed(layout, [axis]), squashed(layout, [axis], keep_registers=True))):
            numbers = own_registers(narrow, wide)
            assert numbers is not None
            assert (narrow.table()[list(numbers)] == wide.table()).all()


def test_own_registers_need_the_same_register_in_all_threads() -> None:
    src = Layout.of((4,), register=(1,), lane=(2, 0, 0, 0, 0), warp=())
    twisted = src.with_bases(lane=(3, 0, 0, 0, 0))
    assert reach(src, twisted) == Reach.THREAD and own_registers(src, twisted) is None
    assert own_registers(src, src) == (0, 1)
    assert own_registers(src, src.with_bases(register=(2,), lane=(1, 0, 0, 0, 0))) is None


def test_reach_of_familiar_conversions() -> None:
    acc = accumulator((64, 64), (2, 2))
    rows = coalesced((64, 64), 4, 4)
    column = rows.with_bases(register=(*rows.bases("register")[1:], 1))
    assert reach(acc, acc) == Reach.PLACE and reach(rows, column) == Reach.THREAD
    assert reach(accumulator((64, 64), (4, 1)), operand("A", (64, 64), 2, (4, 1))) == Reach.PLACE
    assert reach(accumulator((64, 64), (4, 1)), operand("A", (64, 64), 4, (4, 1))) == Reach.WARP
    assert reach(acc, rows) == Reach.BLOCK
    assert reach(sliced(acc, 1), sliced(acc, 0)) == Reach.BLOCK
    assert reach(coalesced((512,), 4, 1), coalesced((512,), 1, 1)) == Reach.WARP
    two = Layout.of((64,), register=(), lane=(1, 2, 4, 8, 16), warp=(), block=(32,))
    assert reach(two, two.with_bases(lane=(32, 2, 4, 8, 16), block=(1,))) == Reach.CLUSTER


def test_a_copy_nearby_is_preferred() -> None:
    """All lanes hold the whole: reading any order of it stays in the thread, whichever lane once owned it."""
    everywhere = Layout.of((4,), register=(1, 2), lane=(0,) * 5, warp=(0,))
    assert reach(everywhere, blocked((4,), (1,), (32,), (2,), (0,))) == Reach.THREAD
    in_each_warp = Layout.of((64,), register=(32,), lane=(1, 2, 4, 8, 16), warp=(0,))
    assert reach(in_each_warp, Layout.of((64,), register=(1,), lane=(2, 4, 8, 16, 32), warp=(0,))) == Reach.WARP


def test_copies_in_registers_come_and_go() -> None:
    """The same bits but for a register that replicates: a renaming, for the numbers of registers differ."""
    one = coalesced((64,), 2, 1)
    two = one.with_bases(register=(*one.bases("register"), 0))
    assert reach(one, two) == reach(two, one) == Reach.THREAD
    assert own_registers(one, two) == (0, 1, 0, 1) and own_registers(two, one) == (0, 1)


def test_live_registers(pair: tuple[Layout, Layout]) -> None:
    for layout in pair:
        live = live_registers(layout)
        assert live.layout.free()["register"] == 0 and live.layout.is_surjective()
        assert (layout.table()[list(live.numbers)] == live.layout.table()).all()
        assert (live.layout.table()[list(live.index)] == layout.table()).all()
        assert [live.index[n] for n in live.numbers] == list(range(len(live.numbers)))


def test_no_route() -> None:
    small = coalesced((32,), 1, 1)
    for other, message in ((coalesced((64,), 1, 1), "no way"), (coalesced((32,), 1, 2), "different launches")):
        with pytest.raises(ValueError, match=message):
            route(small, other)
    with pytest.raises(ValueError, match="no way"):
        route(small.with_bases(lane=(1, 2, 4, 8, 8)), small)
