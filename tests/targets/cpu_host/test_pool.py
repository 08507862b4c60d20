"""Handing out program ids, and the threads that take them."""

import gc
import threading
import time
import weakref

import pytest

from tilewright.targets.cpu.host.pool import Ranges, ThreadPool


def drain(ranges, owner):
    parts = []
    while part := ranges.claim(owner):
        parts.append(part)
    return parts


def ids(parts):
    return [i for first, last in parts for i in range(first, last)]


@pytest.mark.parametrize("total", [1, 2, 3, 7, 64, 1000])
@pytest.mark.parametrize("participants", [1, 2, 5])
@pytest.mark.parametrize("chunk", [1, 3, 2000])
def test_one_participant_gets_everything_once(total, participants, chunk):
    """Its own range first and in order, then what others have not claimed."""
    ranges = Ranges(10, 10 + total, participants, True, chunk)
    parts = drain(ranges, 0)
    assert sorted(ids(parts)) == list(range(10, 10 + total))
    assert all(0 < last - first <= chunk for first, last in parts)
    own = ids(parts)[:total // participants]
    assert own == list(range(10, 10 + len(own)))


def test_thieves_take_from_the_tail_of_the_fullest_range():
    ranges = Ranges(0, 90, 3, True, 10)
    assert ranges.claim(0) == (0, 10)
    assert [ranges.claim(1) for _ in range(3)] == [(30, 40), (40, 50), (50, 60)]
    assert ranges.claim(1) == (80, 90)      # range 2 has 30 left, range 0 20
    assert ranges.claim(1) in ((10, 20), (20, 30), (70, 80))


def test_many_threads_share_without_overlap():
    ranges = Ranges(0, 5000, 4, False, 3)
    taken = []

    def work():
        place = ranges.join()
        if place is not None:   # the others have already done everything
            taken.extend(drain(ranges, place))
            ranges.leave()

    threads = [threading.Thread(target=work) for _ in range(4)]
    for t in threads:
        t.start()
    ranges.wait_until_drained(lambda: None)
    ranges.close()
    assert sorted(ids(taken)) == list(range(5000))
    for t in threads:
        t.join()


def test_close_waits_for_those_inside_and_shuts_out_the_late():
    ranges = Ranges(0, 10, 3, True, 100)
    assert ranges.join() == 1
    events = []

    def leave_later():
        time.sleep(0.05)
        events.append("left")
        ranges.leave()

    helper = threading.Thread(target=leave_later)
    helper.start()
    ranges.close()
    events.append("closed")
    helper.join()
    assert events == ["left", "closed"]
    assert ranges.join() is None
    ranges.close()      # again, at no cost


def test_no_more_helpers_than_places():
    ranges = Ranges(0, 10, 3, True, 1)
    assert [ranges.join(), ranges.join(), ranges.join()] == [1, 2, None]


def test_pool_runs_copies_on_threads_and_keeps_them():
    pool = ThreadPool("test-pool")
    seen, gate = [], threading.Barrier(3)

    def task():
        seen.append(threading.current_thread().name)
        gate.wait(10)

    for _ in range(3):
        pool.submit(task, 2)
        gate.wait(10)
    assert len(seen) == 6 and len(set(seen)) == 2
    assert threading.current_thread().name not in seen


def test_idle_threads_use_no_processor():
    pool = ThreadPool()
    done = threading.Event()
    pool.submit(done.set, 2)
    assert done.wait(10)
    time.sleep(0.02)
    before = time.process_time()
    time.sleep(0.2)
    assert time.process_time() - before < 0.1


def test_threads_end_with_their_pool():
    pool = ThreadPool("mortal")
    done = threading.Event()
    pool.submit(done.set, 2)
    assert done.wait(10)
    gone = weakref.ref(pool)
    del pool
    gc.collect()
    assert gone() is None
    deadline = time.monotonic() + 10
    while any(t.name.startswith("mortal") for t in threading.enumerate()):
        assert time.monotonic() < deadline
        time.sleep(0.005)
