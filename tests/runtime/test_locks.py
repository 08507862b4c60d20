"""Locks over a fork, and a compilation in a process that was forked while a thread compiled."""

import ast
import os
import subprocess
import sys
import textwrap
import threading
import time

import numpy as np
import pytest

import tilewright as triton
import tilewright.language as tl
from tilewright.locks import NO_FORK, ForkSafeLock

needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="fork")


@triton.jit
def kernel(x, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(x + i, i)


def exit_of_fork(work):
    """The exit status of a forked process that does `work`, or None if it does not come to an end."""
    pid = os.fork()
    if pid == 0:
        try:
            os._exit(0 if work() else 1)
        finally:
            os._exit(2)
    timer = threading.Timer(20, os.kill, (pid, 9))
    timer.start()
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    timer.cancel()
    return status


def held_by_another_thread(lock):
    """A thread that holds `lock`, and the event that makes it stop."""
    held, stop = threading.Event(), threading.Event()

    def hold():
        with lock:
            held.set()
            stop.wait()

    thread = threading.Thread(target=hold)
    thread.start()
    held.wait()
    return thread, stop


def test_it_is_a_lock():
    lock, seen = ForkSafeLock(), []
    thread, stop = held_by_another_thread(lock)

    def enter():
        with lock, lock:
            seen.append(stop.is_set())

    other = threading.Thread(target=enter)
    other.start()
    other.join(0.05)
    assert not seen
    stop.set()
    other.join()
    thread.join()
    assert seen == [True]


@pytest.mark.unchecked("something is to be compiled")
@needs_fork
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_a_forked_process_compiles_although_a_thread_was_compiling():
    thread, stop = held_by_another_thread(kernel._lock)
    try:
        x = np.zeros(8, np.int32)
        assert exit_of_fork(lambda: kernel[(1,)](x, N=8) is not None and (x == np.arange(8)).all()) == 0
    finally:
        stop.set()
        thread.join()
    y = np.zeros(8, np.int32)
    kernel[(1,)](y, N=8)
    assert (y == np.arange(8)).all()


@needs_fork
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_a_fork_waits_while_a_thread_imports():
    held, done = threading.Event(), []

    def imports():
        with NO_FORK, NO_FORK:
            held.set()
            time.sleep(0.2)
            done.append(True)

    thread = threading.Thread(target=imports)
    thread.start()
    held.wait()

    def is_free():
        with NO_FORK:
            return bool(done)

    assert exit_of_fork(is_free) == 0
    thread.join()
    with NO_FORK:
        assert done


FORKS = """
    import os, signal, threading, time
    import numpy as np
    import tilewright as triton
    import tilewright.language as tl

    @triton.jit
    def kernel(x, n, N: tl.constexpr):
        i = tl.arange(0, N)
        tl.store(x + i, i + n)

    def use():      # imports the compiler, starts a child, writes native launchers
        x = np.zeros(8, np.int32)
        for n in range(4):
            kernel[(1,)](x, n + 2, N=8)
            assert (x == np.arange(8) + n + 2).all()

    worker = threading.Thread(target=use)
    worker.start()
    children = []
    while worker.is_alive() and len(children) < 10:
        time.sleep(0.02)
        pid = os.fork()
        if pid == 0:
            signal.alarm(60)        # much more than it takes
            use()
            os._exit(0)
        children.append(pid)
    worker.join()
    print([os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in children])
"""


@needs_fork
@pytest.mark.parametrize("cached", [False, True])
def test_forks_at_any_time_of_the_first_launches(tmp_path, cached):
    """Whatever a thread imports, compiles or starts meanwhile: each forked process compiles and launches, too."""
    path = tmp_path / "forks.py"
    path.write_text(textwrap.dedent(FORKS))
    variables = {**os.environ, "TILEWRIGHT_DISK_CACHE": str(int(cached)), "PYTHONPATH": os.pathsep.join(sys.path),
                 "TILEWRIGHT_CACHE_DIR": str(tmp_path / "cache")}
    done = subprocess.run([sys.executable, "-W", "ignore", path], capture_output=True, text=True, env=variables,
                          timeout=200)
    statuses = ast.literal_eval(done.stdout)
    assert statuses and not any(statuses), (statuses, done.stderr)
