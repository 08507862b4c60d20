"""Memory faults of kernels become errors; all other faults and signals go where they went before."""

import mmap
import os
import signal
import subprocess
import sys
import tempfile
import threading

import numpy as np
import pytest

from tests.targets.cpu_host.kernels import KINDS, LIBRARY, counted, kernel, make, word
from tilewright.diagnostics import MemoryFaultError
from tilewright.targets.llvm.types import I8, I64, PTR, constant

pytestmark = pytest.mark.skipif("linux" not in KINDS, reason="the Linux host")


def stores_at(f, pid, slots, context):
    """slots: addresses (i64*), one a program.  Stores its id there."""
    at = word(f, word(f, slots, 0, PTR), pid)
    f.store(pid, f.emit(PTR, f"inttoptr {at} to ptr"), 8)


def clears_at(f, pid, slots, context):
    """slots: an address, bytes.  Clears them by the C library."""
    f.module.declare("memset", PTR, [PTR, I64, I64])
    f.emit(PTR, f"call ptr @memset({word(f, slots, 0, PTR)}, {constant(I64, 0)}, {word(f, slots, 1)})")


def reads_at(f, pid, slots, context):
    """slots: an address, where to store the byte."""
    f.store(f.load(word(f, slots, 0, PTR), I8, 1), word(f, slots, 1, PTR), 1)


@pytest.fixture(scope="module")
def storing():
    return kernel(stores_at, slots=1, name="storing")


def places(n, bad=(), at=16):
    """Cells for n programs, and the addresses that lead to them, those of `bad` to `at`."""
    cells = np.full(n, -1)
    addresses = cells.ctypes.data + 8 * np.arange(n)
    addresses[list(bad)] = at
    return cells, addresses


@pytest.mark.parametrize("threads", [1, 3])
def test_a_fault_is_an_error(storing, threads):
    loaded = make("linux", threads).load(storing)
    for bad in (0, 7, 399):
        cells, addresses = places(400, [bad])
        with pytest.raises(MemoryFaultError) as caught:
            loaded.launch((20, 20, 1), (addresses.ctypes.data,))
        assert caught.value.program == (bad % 20, bad // 20, 0) and caught.value.address == 16
        assert caught.value.kernel == "storing" and "0x10" in str(caught.value)
        assert cells[bad] == -1
        cells, addresses = places(400)
        loaded.launch((20, 20, 1), (addresses.ctypes.data,))
        assert (cells == np.arange(400)).all()


def test_many_faults_at_once(storing):
    loaded = make("linux", 3).load(storing)
    for _ in range(50):
        cells, addresses = places(400, range(400))
        with pytest.raises(MemoryFaultError) as caught:
            loaded.launch((400, 1, 1), (addresses.ctypes.data,))
        assert 0 <= caught.value.program[0] < 400


def test_addresses_that_no_process_has(storing):
    """Of an address that is not canonical the processor tells nothing."""
    _, addresses = places(1, [0], 1 << 62)
    with pytest.raises(MemoryFaultError):
        make("linux", 1).load(storing).launch((1, 1, 1), (addresses.ctypes.data,))


def test_in_threads_of_python(storing):
    loaded, caught = make("linux", 2).load(storing), []

    def launch(number):
        for k in range(30):
            cells, addresses = places(64, [k] if k % 2 else ())
            try:
                loaded.launch((64, 1, 1), (addresses.ctypes.data,))
                assert (cells == np.arange(64)).all()
            except MemoryFaultError as error:
                caught.append((number, error.program[0]))

    threads = [threading.Thread(target=launch, args=(n,)) for n in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(caught) == [(n, k) for n in range(3) for k in range(1, 30, 2)]


def test_in_a_function_that_the_kernel_calls():
    loaded = make("linux", 1).load(kernel(clears_at, slots=2))
    for size in (8, 100, 10_000):
        with pytest.raises(MemoryFaultError) as caught:
            loaded.launch((1, 1, 1), (4096, size))
        assert caught.value.address >= 4096


def test_a_file_that_became_shorter():
    """SIGBUS."""
    loaded, out = make("linux", 1).load(kernel(reads_at, slots=2)), np.zeros(1, np.int8)
    with tempfile.TemporaryFile() as file:
        file.truncate(8192)
        view = mmap.mmap(file.fileno(), 8192)
        at = np.frombuffer(view, np.uint8).ctypes.data
        loaded.launch((1, 1, 1), (at + 4096, out.ctypes.data))
        file.truncate(4096)
        with pytest.raises(MemoryFaultError) as caught:
            loaded.launch((1, 1, 1), (at + 4096, out.ctypes.data))
        assert caught.value.address == at + 4096


def test_in_a_forked_process(storing):
    loaded = make("linux", 2).load(storing)
    cells, addresses = places(400, [3])
    pid = os.fork()
    if not pid:
        try:
            loaded.launch((400, 1, 1), (addresses.ctypes.data,))
        except MemoryFaultError:
            os._exit(7)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 7


def test_the_handlers_before_are_put_back(storing):
    before = installed()
    LIBRARY().release_faults()
    without = installed()
    make("linux", 1).load(storing)
    assert installed() != without
    LIBRARY().release_faults()
    assert installed() == without
    make("linux", 1).load(storing)
    assert installed() == before
    kept = make("linux", 1)
    kept._catches_faults = False
    LIBRARY().release_faults()
    kept.load(storing)
    assert installed() == without
    LIBRARY().catch_faults()


def installed():
    """The handler of SIGSEGV, as an address."""
    import ctypes
    action = (ctypes.c_int64 * 19)()
    assert ctypes.CDLL(None).sigaction(int(signal.SIGSEGV), None, action) == 0
    return action[0]


# -- in a process of its own

START = """
import ctypes, faulthandler, os, signal, sys
import numpy as np
import tilewright as triton
import tilewright.language as tl
from tilewright import MemoryFaultError

@triton.jit
def follows(addresses, out):
    at = tl.load(addresses + tl.program_id(0)).to(tl.pointer_type(tl.float32))
    tl.store(out + tl.program_id(0), tl.load(at))

@triton.jit
def another(out):
    tl.store(out, 1.0)

bad, out = np.array([16]), np.zeros(1, np.float32)

def faults():
    try:
        follows[(1,)](bad, out)
    except MemoryFaultError:
        print("caught", flush=True)
"""


def run(tmp_path, program, **environment):
    file = tmp_path / "program.py"
    file.write_text(START + program)
    return subprocess.run([sys.executable, str(file)], capture_output=True, text=True, timeout=60,
                          env={"PYTHONPATH": os.pathsep.join(sys.path), "HOME": str(tmp_path), **environment})


@pytest.mark.parametrize("order", ["before", "after", "both"])
def test_beside_faulthandler(tmp_path, order):
    """Whoever comes first: kernels' faults are errors without its words, all others get them and end the process."""
    enable = "faulthandler.enable()\n"
    program = enable * (order != "after") + "faults()\n" + enable * (order != "before")
    program += "another[(1,)](out)\nfaults()\nfaults()\nprint('last', flush=True)\nctypes.string_at(16)\n"
    done = run(tmp_path, program)
    assert done.stdout.split() == ["caught", "caught", "caught", "last"]
    assert done.returncode == -signal.SIGSEGV
    assert 1 <= done.stderr.count("Fatal Python error: Segmentation fault") <= 2
    assert done.stderr.index("Fatal") < done.stderr.index("program.py")


def test_faults_of_others_end_the_process(tmp_path):
    done = run(tmp_path, "faults()\nctypes.string_at(16)\n")
    assert (done.stdout.split(), done.returncode) == (["caught"], -signal.SIGSEGV)
    done = run(tmp_path, "faults()\nos.kill(os.getpid(), signal.SIGSEGV)\n")
    assert (done.stdout.split(), done.returncode) == (["caught"], -signal.SIGSEGV)


def test_handlers_in_python_are_called(tmp_path):
    handler = "signal.signal(signal.SIGSEGV, lambda *_: print('handler', flush=True))\n"
    kill = "os.kill(os.getpid(), signal.SIGSEGV)\n" * 2
    done = run(tmp_path, handler + "faults()\n" + kill + "faults()\n")
    assert (done.stdout.split(), done.returncode) == (["caught", "handler", "handler", "caught"], 0)
    done = run(tmp_path, "faults()\n" + handler + "another[(1,)](out)\n" + kill + "faults()\n")
    assert (done.stdout.split(), done.returncode) == (["caught", "handler", "handler", "caught"], 0)


def test_a_launch_from_within_a_print(tmp_path):
    """The inner launch's fault is its own; the outer one goes on, and its fault is an error as well."""
    done = run(tmp_path, """
@triton.jit
def prints(addresses, out):
    tl.device_print("program", tl.program_id(0))
    at = tl.load(addresses + tl.program_id(0)).to(tl.pointer_type(tl.float32))
    tl.store(out + tl.program_id(0), tl.load(at))

class Output:
    def write(self, text):
        os.write(1, b"print\\n")
        faults()

good = np.ones(1, np.float32)
outs = np.zeros(3, np.float32)
real, sys.stdout = sys.stdout, Output()
print = lambda *a, **k: os.write(1, b"caught\\n")
try:
    prints[(3,)](np.array([good.ctypes.data, good.ctypes.data, 24]), outs)
except MemoryFaultError as error:
    os.write(1, f"outer {error.program[0]} {outs.sum()}\\n".encode())
""", TILEWRIGHT_NUM_THREADS="1")
    assert done.stdout.splitlines() == ["print", "caught"] * 3 + ["outer 2 2.0"]


def test_turned_off(tmp_path):
    done = run(tmp_path, "faults()\n", TILEWRIGHT_CATCH_FAULTS="0")
    assert (done.stdout, done.returncode) == ("", -signal.SIGSEGV)


def test_errors_of_other_kinds_are_not_touched():
    loaded = make("linux", 3).load(kernel(counted))
    counts = np.zeros(400, np.int32)
    loaded.launch((400, 1, 1), (counts.ctypes.data, 100, 0))
    assert (counts == 1).all()
