"""Launching hand-written kernels: every program once, on any number of threads, with prints, assertions and Ctrl-C."""

import io
import os
import signal
import struct
import subprocess
import sys
import textwrap
import threading
import time

import numpy as np
import pytest

from tests.departures import differs
from tests.targets.cpu_host.kernels import KINDS, WAITS, counted, fail_at, kernel, make, wait_for_cancel, word
from tilewright.diagnostics import KernelAssertionError
from tilewright.targets.llvm.types import DOUBLE, FLOAT, I32, I64, PTR, constant


@pytest.fixture(scope="module", params=KINDS)
def kind(request):
    return request.param


@pytest.fixture(scope="module", params=[1, 2, 3], ids="{} threads".format)
def host(request, kind):
    return make(kind, request.param)


@pytest.fixture(scope="module")
def counting():
    return kernel(counted)


@pytest.mark.parametrize("grid", [(1, 1, 1), (2, 1, 1), (7, 3, 1), (5, 4, 3), (1000, 1, 1), (0, 1, 1), (1, 0, 5)])
@pytest.mark.parametrize(("rounds", "skew"), [(0, 0), (50, 0), (0, 20)])
def test_every_program_runs_once(host, counting, grid, rounds, skew):
    loaded = host.load(counting)
    total = grid[0] * grid[1] * grid[2]
    counts = np.zeros(total + 1, np.int32)
    for launch in range(1, 4):      # the first measures, the later ones know how long a program takes
        loaded.launch(grid, (counts.ctypes.data, rounds, skew))
        assert (counts[:-1] == launch).all() and counts[-1] == 0


def test_default_threshold_and_threads(kind, counting):
    """Small work on the caller, large work shared; both complete."""
    host = make(kind, None, 10_000)
    assert host.threads >= 1
    loaded = host.load(counting)
    for rounds in (0, 3000, 0, 3000):
        counts = np.zeros(300, np.int32)
        loaded.launch((300, 1, 1), (counts.ctypes.data, rounds, 10))
        assert (counts == 1).all()


def test_slots_arrive_as_bit_patterns(kind):
    def body(f, pid, slots, context):
        out = word(f, slots, 0, PTR)
        f.store(word(f, slots, 1), out, 8)
        f.store(f.cast("sext", f.load(f.gep(slots, 2, I64), I32, 8), I64), f.gep(out, 1, I64), 8)
        f.store(f.load(f.gep(slots, 3, I64), FLOAT, 8), f.gep(out, 2, I64), 4)
        f.store(f.load(f.gep(slots, 4, I64), DOUBLE, 8), f.gep(out, 3, I64), 8)
        f.store(word(f, slots, 5), f.gep(out, 4, I64), 8)

    out = np.zeros(5, np.int64)
    bits = [struct.unpack("<I", struct.pack("<f", 1.5))[0], struct.unpack("<Q", struct.pack("<d", -0.1))[0]]
    make(kind, 1).load(kernel(body)).launch((1, 1, 1), (out.ctypes.data, -5, -7, *bits, (1 << 64) - 2))
    assert out[0] == -5 and out[1] == -7 and out[4] == -2
    assert out[2:3].view(np.float32)[0] == 1.5 and out[3:4].view(np.float64)[0] == -0.1


def test_context_holds_the_grid(host):
    def body(f, pid, slots, context):
        for k in range(3):
            f.store(word(f, context, k), f.gep(word(f, slots, 0, PTR), k, I64), 8)

    out = np.zeros(3, np.int64)
    host.load(kernel(body)).launch((5, 4, 3), (out.ctypes.data,))
    assert out.tolist() == [5, 4, 3]


def test_scratch_is_aligned_and_a_threads_own(host):
    """Each program fills 4 KiB of scratch with its id, works, and finds it unchanged."""
    size = 4096

    def body(f, pid, slots, context):
        scratch = word(f, context, 3, PTR)
        f.loop(constant(I64, 0), constant(I64, size // 8), constant(I64, 1),
               lambda i, _: f.store(pid, f.gep(scratch, i, I64), 8) or ())
        (same,) = f.loop(constant(I64, 0), constant(I64, size // 8), constant(I64, 1), lambda i, v: (
            f.op("add", v[0], f.op("xor", f.load(f.gep(scratch, i, I64), I64, 8), pid)),), (constant(I64, 0),))
        low = f.op("and", f.emit(I64, f"ptrtoint {scratch} to i64"), constant(I64, 63))
        f.store(f.op("or", same, low), f.gep(word(f, slots, 0, PTR), pid, I64), 8)

    out = np.full(500, -1, np.int64)
    host.load(kernel(body, scratch_bytes=size)).launch((500, 1, 1), (out.ctypes.data,))
    assert (out == 0).all()


def test_failed_assertion(kind, host):
    place = {"file": "user.py", "line": 12, "column": 4, "end_line": 12, "end_column": 9, "function": "my_kernel"}
    loaded = host.load(kernel(fail_at, asserts=[{"message": "x must be small", "location": place}]))
    for _ in range(3):
        with pytest.raises(KernelAssertionError) as caught:
            loaded.launch((4, 5, 3), (38,))
        text = str(caught.value)
        assert "x must be small" in text and "user.py:12:5" in text and "my_kernel" in text
        failing = [(pid % 4, pid // 4 % 5, pid // 20) for pid in range(38, 60)]
        assert any(f"program {p}" in text for p in failing)
        loaded.launch((4, 5, 3), (60,))     # the record is clean again
    with pytest.raises(KernelAssertionError, match=r"program \(2, 4, 1\)"):
        make(kind, 1).load(kernel(fail_at, asserts=[{"message": "m", "location": None}])).launch((4, 5, 3), (38,))


def printing_kernel():
    """Program p prints a tile [p, p+1] of i32 and the scalar p/2 of f32; then, as a second site, nothing but text."""
    def body(f, pid, slots, context):
        room = f.alloca(I64, 8)
        small = f.cast("trunc", pid, I32)
        f.store(small, room, 4)
        f.store(f.op("add", small, constant(I32, 1)), f.gep(room, 1, I32), 4)
        f.store(f.op("fmul", f.cast("sitofp", pid, FLOAT), constant(FLOAT, 0.5)), f.gep(room, 2, I32), 4)
        f.store(room, f.gep(room, 4, I64), 8)
        f.store(f.gep(room, 2, I32), f.gep(room, 5, I64), 8)
        callback = word(f, context, 5, PTR)
        f.do(f"call void {callback.name}(i64 0, {pid}, {f.gep(room, 4, I64)})")
        f.do(f"call void {callback.name}(i64 1, {pid}, {room})")

    return kernel(body, prints=[
        {"prefix": "v", "hex": False, "signed": [True, True], "types": ["tile<2xi32>", "f32"]},
        {"prefix": "here", "hex": False, "signed": [], "types": []}])


@differs("Prints are whole and in order")
def test_prints_of_a_program_are_whole_and_in_order(host, capsys):
    host.load(printing_kernel()).launch((3, 2, 1), (0,))
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 6 * 4
    for pid in range(6):
        mine = [line for line in lines if line.startswith(f"pid ({pid % 3}, {pid // 3}, 0)")]
        head = f"pid ({pid % 3}, {pid // 3}, 0)"
        assert mine == [f"{head} idx (0) v: (operand 0) {pid}", f"{head} idx (1) v: (operand 0) {pid + 1}",
                        f"{head} idx () v: (operand 1) {pid / 2:f}", f"{head} here"]


def test_error_while_printing_ends_the_launch(host, monkeypatch):
    loaded = host.load(printing_kernel())
    closed = io.StringIO()
    closed.close()
    with monkeypatch.context() as patch:
        patch.setattr(sys, "stdout", closed)
        with pytest.raises(ValueError, match="closed file"):
            loaded.launch((3, 2, 1), (0,))


def test_several_threads_launch_at_once(host, counting):
    loaded = host.load(counting)
    arrays = [np.zeros(200, np.int32) for _ in range(4)]

    def launches(counts):
        for _ in range(20):
            loaded.launch((200, 1, 1), (counts.ctypes.data, 5, 0))

    threads = [threading.Thread(target=launches, args=(a,)) for a in arrays]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert all((a == 20).all() for a in arrays)


@pytest.mark.parametrize("threads", [1, 2])
def test_polling_kernel_from_the_main_thread(threads):
    """The portable host runs such a kernel on pool threads alone, also when it is short."""
    host = make("portable", threads)
    names = []

    def body(f, pid, slots, context):
        f.do(f"call void {word(f, context, 5, PTR).name}(i64 0, {pid}, ptr null)")

    class Recorder(io.StringIO):
        def write(self, text):
            names.append(threading.current_thread().name)
            return len(text)

    record = {"prefix": "x", "hex": False, "signed": [], "types": []}
    loaded = host.load(kernel(body, prints=[record], polls_cancel=True))
    real, sys.stdout = sys.stdout, Recorder()
    try:
        loaded.launch((20, 1, 1), (0,))
    finally:
        sys.stdout = real
    assert len(names) == 20 and threading.main_thread().name not in names


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_launch_after_fork(kind, counting):
    """Threads are made again in the child, though the parent's were busy or idle."""
    host = make(kind, 2)
    loaded = host.load(counting)
    counts = np.zeros(64, np.int32)
    loaded.launch((64, 1, 1), (counts.ctypes.data, 100, 3))
    child = os.fork()
    if child == 0:
        try:
            loaded.launch((64, 1, 1), (counts.ctypes.data, 100, 3))
            loaded.launch((64, 1, 1), (counts.ctypes.data, 100, 3))
            os._exit(0 if (counts == 3).all() else 1)
        finally:
            os._exit(2)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    loaded.launch((64, 1, 1), (counts.ctypes.data, 100, 3))
    assert (counts == 2).all()


INTERRUPTED = """
    import os, signal, sys, threading, time
    import numpy as np
    from tests.targets.cpu_host.kernels import counted, kernel, make, wait_for_cancel

    host = make("{kind}", {threads})
    flag = np.zeros(1, np.int64)
    loaded = host.load(kernel({body}, polls_cancel={polls}))
    started = (lambda: flag[0]) if {polls} else (lambda: True)

    def interrupt():
        while not started():
            time.sleep(0.001)
        time.sleep(0.05)
        os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=interrupt, daemon=True).start()
    try:
        {launch}
    except KeyboardInterrupt:
        counts = np.zeros(64, np.int32)
        host.load(kernel(counted)).launch((64, 1, 1), (counts.ctypes.data, 100, 3))
        sys.exit(0 if (counts == 1).all() else 3)
    sys.exit(4)
"""


@differs("A launch can be ended", topic="Launching and tuning",
         peer="A kernel that does not end hangs its GPU.",
         ours="Ctrl-C ends it, and `TILEWRIGHT_TIMEOUT` with an error that names a program and the line.")
@pytest.mark.skipif(sys.platform == "win32", reason="sends a POSIX signal")
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("polls", [True, False])
def test_ctrl_c(kind, threads, polls):
    """Ctrl-C ends a kernel that polls while it waits, any other at a chunk's end; the next launch is whole."""
    body, launch = "wait_for_cancel", "loaded.launch((8, 1, 1), (flag.ctypes.data,))"
    if not polls:       # 10 ms a thousand programs, a minute in all
        body = "counted"
        launch = "long = np.zeros(10**7, np.int32); loaded.launch((10**7, 1, 1), (long.ctypes.data, 10000, 0))"
    code = textwrap.dedent(INTERRUPTED).format(kind=kind, threads=threads, body=body, polls=polls, launch=launch)
    child = subprocess.run([sys.executable, "-c", code], timeout=60, capture_output=True, text=True)
    assert child.returncode == 0, child.stderr


@differs("A launch can be ended")
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("from_main", [True, False])
def test_time_limit_of_an_endless_loop(kind, threads, from_main):
    """The error names the loop and a program that was in it; the host works on."""
    host = make(kind, threads, timeout_s=0.2)
    loaded = host.load(kernel(wait_for_cancel, **WAITS))
    flag = np.zeros(1, np.int64)
    caught = []

    def launch():
        try:
            loaded.launch((3, 2, 1), (flag.ctypes.data,))
        except TimeoutError as error:
            caught.append(str(error))

    if from_main:
        launch()
    else:
        thread = threading.Thread(target=launch)
        thread.start()
        thread.join()
    text, = caught
    assert "0.2 s" in text and "user.py:7:5" in text and "my_kernel" in text and "program (" in text
    counts = np.zeros(64, np.int32)
    host.load(kernel(counted)).launch((64, 1, 1), (counts.ctypes.data, 100, 3))
    assert (counts == 1).all()


@pytest.mark.parametrize("threads", [1, 2])
def test_time_limit_between_programs(kind, threads, counting):
    """A grid of programs that all end is stopped between two of them."""
    loaded = make(kind, threads, timeout_s=0.1).load(counting)
    counts = np.zeros(10**6, np.int32)
    with pytest.raises(TimeoutError, match="between two programs"):
        loaded.launch((10**6, 1, 1), (counts.ctypes.data, 10_000, 0))
    assert 0 < counts.sum() < 10**6
    loaded.launch((100, 1, 1), (counts.ctypes.data, 10, 0))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_fork_in_the_middle_of_launches(kind, counting):
    """Whatever the threads of the pool were doing, it works in the child, and goes on in the parent."""
    host = make(kind, 3)
    loaded = host.load(counting)
    counts, stop = np.zeros(64, np.int32), threading.Event()
    launches = []

    def keep_launching():
        while not stop.is_set():
            loaded.launch((64, 1, 1), (counts.ctypes.data, 20_000, 30))
            launches.append(1)

    thread = threading.Thread(target=keep_launching)
    thread.start()
    try:
        children = []
        for number in range(12):
            time.sleep(0.003 * (number % 4))
            child = os.fork()
            if child == 0:
                signal.alarm(60)
                own = np.zeros(64, np.int32)
                for _ in range(3):
                    loaded.launch((64, 1, 1), (own.ctypes.data, 1000, 3))
                os._exit(0 if (own == 3).all() else 1)
            children.append(child)
        ends = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
    finally:
        stop.set()
        thread.join()
    assert ends == [0] * 12 and (counts == len(launches)).all()
