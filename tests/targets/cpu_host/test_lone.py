"""Launches with atomic operations: which of them are alone, that all count right, and that nobody stays behind."""

import ctypes
import threading

import numpy as np
import pytest

import tilewright
import tilewright.language as tl
from tests.targets.cpu_host.kernels import KINDS, WAITS, fail_at, kernel, make, word
from tilewright.diagnostics import KernelAssertionError
from tilewright.runtime import knobs
from tilewright.targets.cpu.host.library import lone_word
from tilewright.targets.cpu.host.records import Frame
from tilewright.targets.llvm.types import I64, constant

pytestmark = pytest.mark.skipif("linux" not in KINDS, reason="the Linux host")


def state():
    return ctypes.c_int64.from_address(lone_word()).value


def noting(rounds=0):
    """out[program] = 1 + whether the launch is alone, after so many additions."""
    def body(f, pid, slots, context):
        out = word(f, slots, 0, f.params[0].type)
        for _ in range(rounds):
            f.do(f"store volatile i64 0, {f.gep(out, pid, I64)}, align 8")
        alone = word(f, context, Frame.ALONE // 8)
        f.store(f.op("add", alone, constant(I64, 1)), f.gep(out, pid, I64), 8)
        return ()
    return body


def slower_with_locks(rounds, times):
    """As `noting`, but with locks a program takes so many times as long."""
    def body(f, pid, slots, context):
        out = word(f, slots, 0, f.params[0].type)
        alone = word(f, context, Frame.ALONE // 8)
        locked = f.icmp("eq", alone, constant(I64, 0))

        def one(i, _):
            f.do(f"store volatile i64 0, {f.gep(out, pid, I64)}, align 8")
            return ()

        f.loop(constant(I64, 0), f.select(locked, constant(I64, rounds * times), constant(I64, rounds)),
               constant(I64, 1), one)
        f.store(f.op("add", alone, constant(I64, 1)), f.gep(out, pid, I64), 8)
        return ()
    return body


def notes(host, programs, rounds=0, **metadata):
    out = np.zeros(programs, np.int64)
    host.load(kernel(noting(rounds), **metadata)).launch((programs, 1, 1), (out.ctypes.data,))
    assert state() == 0
    return set(out)


def test_one_thread_is_alone():
    assert notes(make("linux", 1), 50, atomics=True) == {2}
    assert notes(make("linux", 1), 1, atomics=True) == {2}
    assert notes(make("linux", 1), 50) == {1}           # it does not ask


def test_what_waits_or_shares_is_not():
    assert notes(make("linux", 1), 50, atomics=True, **WAITS) == {1}
    assert 1 in notes(make("linux", 3), 3000, 300, atomics=True)


@pytest.mark.parametrize("times", [1, 200])
def test_a_launch_is_shared_if_locks_cost_little(times):
    """After the trial; other jobs on the machine may disturb a trial, but not most of them."""
    programs, shared = 2000, []
    for _ in range(9):
        loaded = make("linux", 3).load(kernel(slower_with_locks(100, times), atomics=True))
        for _ in range(3):
            out = np.zeros(programs, np.int64)
            loaded.launch((programs, 1, 1), (out.ctypes.data,))
            assert out.all() and state() == 0
        shared.append(np.count_nonzero(out == 1) > programs / 2)
    assert (sorted(shared)[4] == 1) == (times == 1)


def test_a_trial_ends_with_a_failed_program():
    for programs in (1, 2, 5, 40, 1000):
        loaded = make("linux", 3).load(kernel(fail_at, atomics=True, asserts=[{"message": "m", "location": None}]))
        for first in range(0, programs, max(1, programs // 7)):
            with pytest.raises(KernelAssertionError):
                loaded.launch((programs, 1, 1), (first,))
            assert state() == 0


def test_another_launch_is_noticed():
    ctypes.c_int64.from_address(lone_word()).value = 1      # one that locks, somewhere
    try:
        out = np.zeros(9, np.int64)
        make("linux", 1).load(kernel(noting(), atomics=True)).launch((9, 1, 1), (out.ctypes.data,))
        assert set(out) == {1} and state() == 1
    finally:
        ctypes.c_int64.from_address(lone_word()).value = 0


def test_who_is_alone_is_waited_for():
    at = ctypes.c_int64.from_address(lone_word())
    at.value = -1                                           # some other thread
    out = np.zeros(9, np.int64)
    loaded = make("linux", 1).load(kernel(noting(), atomics=True))
    runs = threading.Thread(target=lambda: loaded.launch((9, 1, 1), (out.ctypes.data,)))
    runs.start()
    runs.join(0.2)
    assert runs.is_alive() and not out.any()
    at.value = 0
    runs.join(30)
    assert set(out) == {2} and state() == 0


@tilewright.jit
def count(x, old, n, FAILS: tl.constexpr, SCOPE: tl.constexpr):
    place = (tl.program_id(0) * 64 + tl.arange(0, 64)) % n
    if FAILS:
        tl.device_assert(tl.program_id(0) < 3, "enough")
    before = tl.atomic_add(x + place, 1, scope=SCOPE, mask=place != 5)
    tl.atomic_add(x + place, 0.0 if x.dtype.element_ty == tl.float32 else 0, scope=SCOPE)
    tl.store(old + tl.program_id(0) * 64 + tl.arange(0, 64), before)


@pytest.mark.parametrize("scope", ["cta", "gpu", "sys"])
@pytest.mark.parametrize("dtype", [np.int32, np.float32])
def test_one_thread_counts_and_gives_old_values(dtype, scope):
    x, old = np.zeros(7, dtype), np.full(640, -1, dtype)
    with knobs.scope(num_threads=1):
        count[(10,)](x, old, 7, False, scope)
    place, seen, want = np.arange(640) % 7, np.zeros(7, dtype), np.zeros(640, dtype)
    for k, p in enumerate(place):
        if p != 5:
            want[k], seen[p] = seen[p], seen[p] + 1
    np.testing.assert_array_equal(x, seen)
    np.testing.assert_array_equal(old, want)
    assert state() == 0


def test_several_python_threads_count_together():
    x, olds = np.zeros(3, np.float32), [np.zeros(6400, np.float32) for _ in range(3)]

    def run(k):
        for _ in range(20):
            count[(100,)](x, olds[k], 3, False, "gpu")

    run(0)
    x[:] = 0
    threads = [threading.Thread(target=run, args=(k,)) for k in range(3)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert x.sum() == 3 * 20 * 6400 and state() == 0


def test_a_failed_launch_is_out_again():
    x, old = np.zeros(7, np.int32), np.zeros(640, np.int32)
    with pytest.raises(Exception, match="enough"), knobs.scope(debug=True):
        count[(10,)](x, old, 7, True, "gpu")
    assert state() == 0
