"""What only the Linux host has: its pool's threads, its stored code, and its choice."""

import ctypes
import gc
import os
import threading
import time

import numpy as np
import pytest

from tests.targets.cpu_host.kernels import CHILDREN, KINDS, counted, kernel, make, word
from tilewright.targets.cpu.host.choice import best_kind, make_host
from tilewright.targets.cpu.host.library import Library, load_object, source_key
from tilewright.targets.cpu.host.linux import LinuxHost
from tilewright.targets.cpu.host.portable import PortableHost
from tilewright.targets.cpu.host.records import Pool
from tilewright.targets.llvm.types import I64, PTR, constant

pytestmark = pytest.mark.skipif("linux" not in KINDS, reason="the Linux host")


@pytest.fixture(scope="module")
def counting():
    return kernel(counted)


def threads_of_process():
    return {int(t) for t in os.listdir("/proc/self/task")}


def launch_shared(loaded, counts, times=1):
    for _ in range(times):
        loaded.launch((400, 1, 1), (counts.ctypes.data, 20_000, 0))


def test_workers_take_part_and_are_kept(counting):
    before = threads_of_process()
    host = make("linux", 3)
    loaded = host.load(counting)
    counts = np.zeros(400, np.int32)
    launch_shared(loaded, counts)
    workers = threads_of_process() - before
    assert len(workers) == 2
    launch_shared(loaded, counts, 5)
    assert threads_of_process() - before == workers and (counts == 6).all()

    def spent():
        return max(float(open(f"/proc/self/task/{w}/schedstat").read().split()[0]) for w in workers)

    deadline = time.monotonic() + 30
    while spent() < 1e6:        # they have worked, sooner or later where the machine is busy
        assert time.monotonic() < deadline
        launch_shared(loaded, counts)


def test_no_threads_for_one_thread_or_small_work(counting):
    before = threads_of_process()
    alone = make("linux", 1).load(counting)
    counts = np.zeros(400, np.int32)
    launch_shared(alone, counts)
    few = make("linux", 4, 10**16).load(counting)       # months: what a program takes is measured, and may have waited
    launch_shared(few, counts)
    assert threads_of_process() <= before and (counts == 2).all()      # an older thread may have ended meanwhile


def test_small_launches_that_follow_each_other_get_help(counting):
    """Once two of them took more than half of what is worth it, one right after the other."""
    host = make("linux", 2)
    loaded = host.load(counting)
    pool = (ctypes.c_int64 * (Pool.SIZE // 8)).from_address(host.pool)
    started = ctypes.c_int32.from_address(host.pool + Pool.STARTED)
    counts, pool[Pool.WORTH // 8] = np.zeros(400, np.int32), 10**16
    deadline = time.monotonic() + 30
    while not started.value:
        assert time.monotonic() < deadline and (counts == counts[0]).all()
        loaded.launch((400, 1, 1), (counts.ctypes.data, 20, 0))
        pool[Pool.WORTH // 8] = int(loaded.ns_per_program * 400 * 1.8)


def attempts(seconds=30):
    """Again and again: on a busy machine a thread may wait for a processor at any time."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        yield
    pytest.fail("never so")


def test_the_first_programs_after_a_pause_do_not_tell_what_others_take(counting):
    """Two programs that take a thousand times as long as is known are measured; the two behind them count."""
    loaded = make("linux", 2, 10**16).load(counting)
    counts, measured = np.zeros(64, np.int32), {1: [], -4_000: [], 0: []}
    for _ in range(41):
        for rounds, skew in ((1, 0), (4_000, -4_000), (1, 0), (4_000, 0)):
            loaded.launch((64, 1, 1), (counts.ctypes.data, rounds, skew))
            measured[skew if rounds > 1 else 1].append(loaded.ns_per_program)
    usual, once, always = (np.median(times) for times in measured.values())
    assert once < 5 * usual < always / 5 and (counts == counts[0]).all()


def test_sleeping_helpers_are_woken_for_much_work_only(counting):
    """Or for less, if the launch before wanted them just now."""
    host = make("linux", 2)
    loaded = host.load(counting)
    pool = (ctypes.c_int64 * (Pool.SIZE // 8)).from_address(host.pool)
    shared = ctypes.c_int32.from_address(host.pool + Pool.GENERATION)
    counts = np.zeros(400, np.int32)

    def launches_shared(worths, pause=0.0):
        """Which of the launches that follow each other were shared; each has so many times the work that is worth it.
        """
        seen = []
        for worth in worths:
            pool[Pool.WORTH // 8] = 10**16
            loaded.launch((400, 1, 1), (counts.ctypes.data, 200, 0))
            pool[Pool.WORTH // 8] = int(loaded.ns_per_program * 400 / worth)
            before = shared.value
            loaded.launch((400, 1, 1), (counts.ctypes.data, 200, 0))
            seen.append(shared.value != before)
            time.sleep(pause)
        return seen

    for _ in attempts():
        pool[Pool.RECENT // 8] = 0
        wait_until_asleep(pool)
        if launches_shared((2, 2)) == [False, True]:
            break
    for _ in attempts():
        if launches_shared((2, 2), 0.05) == [False, False]:
            break
    for _ in attempts():
        if launches_shared((8, 8), 0.05) == [True, True]:
            break
    assert (counts == counts[0]).all()


def test_helpers_are_roused_before_their_launch(counting):
    host = make("linux", 3)
    rouse = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(host.library.image.symbols["rouse"])
    rouse(host.pool)        # there are none yet
    before = threads_of_process()
    loaded = host.load(counting)
    counts = np.zeros(400, np.int32)
    launch_shared(loaded, counts)
    workers = threads_of_process() - before
    assert len(workers) == 2

    def runs():
        return [int(open(f"/proc/self/task/{w}/schedstat").read().split()[2]) for w in sorted(workers)]

    for _ in attempts():
        pool = (ctypes.c_int64 * (Pool.SIZE // 8)).from_address(host.pool)
        wait_until_asleep(pool)
        asleep = runs()
        rouse(host.pool)
        time.sleep(0.05)
        if all(now > then for now, then in zip(runs(), asleep, strict=True)):
            break
    wait_until_asleep(pool)
    ctypes.c_int32.from_address(host.pool + Pool.LOCK).value = 1      # as another thread's launch has it
    asleep = runs()
    rouse(host.pool)
    time.sleep(0.05)
    assert runs() == asleep
    ctypes.c_int32.from_address(host.pool + Pool.LOCK).value = 0
    launch_shared(loaded, counts)
    assert (counts == 2).all()


def test_a_forked_process_leaves_the_pool_alone(counting):
    """The memory of a pool is not shared over a fork: what the child forgets and starts is its own."""
    host = make("linux", 2)
    loaded = host.load(counting)
    counts = np.zeros(400, np.int32)
    launch_shared(loaded, counts, 3)
    pool = (ctypes.c_int64 * (Pool.SIZE // 8)).from_address(host.pool)
    wait_until_asleep(pool)
    before = list(pool)
    child = os.fork()
    if child == 0:
        try:
            launch_shared(loaded, counts, 3)
            os._exit(0)
        finally:
            os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert list(pool) == before
    launch_shared(loaded, counts)
    assert (counts == 4).all()


def wait_until_asleep(pool):
    """Until the memory of the pool does not change any more."""
    last = None
    while last != list(pool):
        last = list(pool)
        time.sleep(0.05)


def test_idle_workers_use_no_processor(counting):
    loaded = make("linux", 3).load(counting)
    counts = np.zeros(400, np.int32)
    launch_shared(loaded, counts)
    time.sleep(0.05)
    before = time.process_time()
    time.sleep(0.2)
    assert time.process_time() - before < 0.05
    launch_shared(loaded, counts)       # and they wake again
    assert (counts == 2).all()


def test_threads_end_with_their_host(counting):
    before = threads_of_process()
    loaded = make("linux", 3).load(counting)
    counts = np.zeros(400, np.int32)
    launch_shared(loaded, counts)
    assert len(threads_of_process() - before) == 2
    del loaded
    gc.collect()
    deadline = time.monotonic() + 10
    while threads_of_process() - before:
        assert time.monotonic() < deadline
        time.sleep(0.005)


def test_workers_stay_off_the_callers_cpu(counting):
    usable = os.sched_getaffinity(0)
    if len(usable) < 2:
        pytest.skip("one CPU")
    before = threads_of_process()
    loaded = make("linux", 2).load(counting)
    counts = np.zeros(400, np.int32)
    try:
        for cpu in sorted(usable)[:2]:
            os.sched_setaffinity(0, {cpu})
            os.sched_setaffinity(0, usable)     # it stays where it is for now; if not, the loop's launches say so
            for _ in range(5):
                launch_shared(loaded, counts)
                worker, = threads_of_process() - before
                assert len(os.sched_getaffinity(worker)) in (len(usable) - 1, len(usable))
        assert len(os.sched_getaffinity(worker)) == len(usable) - 1
    finally:
        os.sched_setaffinity(0, usable)


def test_signals_go_to_pythons_threads(counting):
    before = threads_of_process()
    loaded = make("linux", 2).load(counting)
    launch_shared(loaded, np.zeros(400, np.int32))
    worker, = threads_of_process() - before
    status = open(f"/proc/self/task/{worker}/status").read()
    blocked = int(next(line.split()[1] for line in status.splitlines() if line.startswith("SigBlk")), 16)
    assert blocked >> 1 & 1     # SIGINT


def test_large_scratch_is_each_threads_own():
    """1 MiB of scratch a thread, too much for a stack."""
    size = 1 << 20

    def body(f, pid, slots, context):
        scratch = word(f, context, 3, PTR)
        last = f.gep(scratch, size // 8 - 1, I64)
        f.store(pid, scratch, 8)
        f.store(pid, last, 8)
        f.loop(constant(I64, 1), constant(I64, 2000), constant(I64, 1),
               lambda i, _: f.store(pid, f.gep(scratch, i, I64), 8) or ())
        wrong = f.op("or", f.op("xor", f.load(scratch, I64, 8), pid), f.op("xor", f.load(last, I64, 8), pid))
        low = f.op("and", f.emit(I64, f"ptrtoint {scratch} to i64"), constant(I64, 63))
        f.store(f.op("or", wrong, low), f.gep(word(f, slots, 0, PTR), pid, I64), 8)

    loaded = make("linux", 3).load(kernel(body, scratch_bytes=size))
    arrays = [np.full(300, -1, np.int64) for _ in range(3)]
    threads = [threading.Thread(target=lambda a=a: loaded.launch((300, 1, 1), (a.ctypes.data,))) for a in arrays]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert all((a == 0).all() for a in arrays)


def test_no_memory_for_scratch_is_an_error():
    loaded = make("linux", 2).load(kernel(counted, scratch_bytes=1 << 46))
    counts = np.zeros(10, np.int32)
    with pytest.raises(Exception, match="out of resource: memory for a thread's scratch"):
        loaded.launch((10, 1, 1), (counts.ctypes.data, 1, 0))
    assert not counts.any()


def test_launch_frees_pythons_lock(counting):
    """Another Python thread runs during a long launch."""
    loaded = make("linux", 1).load(counting)
    counts, ticks = np.zeros(1, np.int32), []
    done = threading.Event()

    def tick():
        while not done.wait(0.001):
            ticks.append(1)

    thread = threading.Thread(target=tick)
    thread.start()
    loaded.launch((1, 1, 1), (counts.ctypes.data, 30_000_000, 0))
    during = len(ticks)
    done.set()
    thread.join()
    assert during >= 3


def test_launches_leak_nothing(counting):
    loaded = make("linux", 1).load(counting)
    counts = np.zeros(1, np.int32)
    slots = (counts.ctypes.data, 0, 0)

    def pages():
        return int(open("/proc/self/statm").read().split()[1])

    for _ in range(2000):
        loaded.launch((1, 1, 1), slots)
    before = pages()
    for _ in range(20_000):
        loaded.launch((1, 1, 1), slots)
    assert pages() - before < 64


class Store(dict):
    def put(self, key, data):
        self[key] = data


def test_code_comes_from_the_store(counting, monkeypatch):
    store = Store()
    Library(CHILDREN, store)
    key, = store
    assert key == f"{source_key()} 1" and store[key][:4] == b"\x7fELF"

    class NoCompiler:
        def compile(self, request, name):
            raise AssertionError("compiled although it was stored")

    counts = np.zeros(10, np.int32)
    host = LinuxHost(NoCompiler(), 2, 0, store=store)
    host.load(counting).launch((10, 1, 1), (counts.ctypes.data, 1, 0))
    assert (counts == 1).all()
    assert load_object("other", lambda: "define void @f() {\n ret void\n}", CHILDREN, store)[:4] == b"\x7fELF"


def test_choice():
    assert best_kind() == "linux"
    assert isinstance(make_host("portable", CHILDREN, 1, 0.0, None), PortableHost)
    with pytest.raises(ValueError, match="TILEWRIGHT_HOST='gpu'.*linux, portable"):
        make_host("gpu", CHILDREN, 1, 0.0, None)
