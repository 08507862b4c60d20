"""Vector clocks and records of accesses, by themselves."""

from __future__ import annotations

import numpy as np
import pytest

from tilewright.targets.nvidia.ptx.clocks import Clocks, Tracker, merge
from tilewright.targets.nvidia.ptx.report import Fault


def one(*values: int) -> np.ndarray:
    return np.array(values, np.int64)


@pytest.fixture
def clocks() -> Clocks:
    return Clocks(2)


@pytest.fixture
def tracker(clocks: Clocks) -> Tracker:
    return Tracker(64, 2, clocks, "memory")


def meet(clocks: Clocks) -> None:
    """A barrier of both warps."""
    everyone = one(0, 1)
    clocks.take_over(everyone, clocks.hand_on(everyone))


def test_read_after_write(clocks: Clocks, tracker: Tracker) -> None:
    tracker.on_write(one(3), one(5))
    tracker.on_read(one(3), one(5))         # its own
    with pytest.raises(Fault, match=r"a read after a write by thread 5 \(warp 0\).*byte 12"):
        tracker.on_read(one(3), one(40))
    with pytest.raises(Fault):
        tracker.on_read(one(3), one(6))     # another lane, with no bar.warp.sync
    clocks.sync_lanes(one(0))
    tracker.on_read(one(3), one(6))
    with pytest.raises(Fault):
        tracker.on_read(one(3), one(40))    # that orders lanes of warp 0 only
    meet(clocks)
    tracker.on_read(one(3), one(40))


def test_write_after_read(clocks: Clocks, tracker: Tracker) -> None:
    tracker.on_read(one(3, 3), one(1, 2))
    with pytest.raises(Fault, match="another thread's read"):
        tracker.on_write(one(3), one(1))    # lane 2 reads it too
    with pytest.raises(Fault, match="another thread's read"):
        tracker.on_write(one(3), one(40))
    meet(clocks)
    tracker.on_write(one(3), one(40))
    tracker.on_read(one(4), one(1))
    tracker.on_write(one(4), one(1))        # the only reader


def test_order_is_handed_on(clocks: Clocks) -> None:
    """What a warp has seen goes with what it has done."""
    three = Clocks(3)
    tracker = Tracker(16, 2, three, "memory")
    tracker.on_write(one(0), one(0))
    first = three.hand_on(one(0))
    three.take_over(one(1), first)
    second = three.hand_on(one(1))
    with pytest.raises(Fault):
        tracker.on_read(one(0), one(64))
    three.take_over(one(2), second)
    tracker.on_read(one(0), one(64))


def test_what_comes_after_a_release_is_not_ordered_by_it(clocks: Clocks, tracker: Tracker) -> None:
    released = clocks.hand_on(one(0))
    tracker.on_write(one(2), one(0))
    clocks.take_over(one(1), released)
    with pytest.raises(Fault):
        tracker.on_read(one(2), one(32))


def test_atomics_are_ordered_among_themselves_only(clocks: Clocks, tracker: Tracker) -> None:
    tracker.on_write(one(1, 1), one(0, 40), atomic=True)
    tracker.on_write(one(1), one(41), atomic=True)
    with pytest.raises(Fault, match="plain read"):
        tracker.on_read(one(1), one(0))
    with pytest.raises(Fault, match="plain write"):
        tracker.on_write(one(1), one(0))
    meet(clocks)
    tracker.on_read(one(1), one(0))


def test_the_same_value_again(clocks: Clocks, tracker: Tracker) -> None:
    tracker.on_write(one(1), one(0))
    tracker.on_write(one(1), one(40), same=lambda: np.array([True]))
    with pytest.raises(Fault):
        tracker.on_write(one(1), one(0), same=lambda: np.array([False]))


def test_a_new_cta_comes_after_the_last(clocks: Clocks, tracker: Tracker) -> None:
    tracker.on_write(one(1), one(0))
    clocks.start(clocks.latest)
    tracker.on_read(one(1), one(40))


def test_merging_and_growing(clocks: Clocks) -> None:
    assert merge(one(1, 5), one(3, 2, 9)).tolist() == [3, 5, 9]
    clocks.add_agent(100)
    assert clocks.seen.shape[1] > 100
