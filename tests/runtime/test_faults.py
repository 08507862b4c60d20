"""A memory fault of a compiled kernel is told with its access: argument, element, program and line."""

import linecache
import pickle

import numpy as np
import pytest

import tilewright as triton
import tilewright.language as tl
from tilewright import MemoryFaultError
from tilewright.targets.cpu.host.choice import best_kind

pytestmark = [
    pytest.mark.skipif(best_kind() != "linux", reason="faults are caught by the Linux host"),
    pytest.mark.unchecked("compiled code is to fault"),
]
FAR = 1 << 42


@triton.jit
def copies(x, out, off, at, B: tl.constexpr):
    pid = tl.program_id(0)
    offs = pid * B + tl.arange(0, B)
    v = tl.load(x + offs + off * (pid == at))  # here
    tl.store(out + offs, v)


@triton.jit
def stores(x, out, off, at, B: tl.constexpr):
    pid = tl.program_id(0)
    offs = pid * B + tl.arange(0, B)
    tl.store(out + offs + off * (pid == at), tl.load(x + offs))  # here


@triton.jit
def fills(x, out, off, at, B: tl.constexpr):
    pid = tl.program_id(0)
    offs = pid * B + tl.arange(0, B)
    tl.store(out + offs + off * (pid == at), tl.zeros((B,), tl.float32))  # here


@triton.jit
def adds(x, out, off, at, B: tl.constexpr):
    pid = tl.program_id(0)
    offs = pid * B + tl.arange(0, B)
    tl.atomic_add(out + offs + off * (pid == at), 1.0)  # here


@triton.jit
def gathers(x, out, off, at, B: tl.constexpr):
    pid = tl.program_id(0)
    offs = pid * B + tl.arange(0, B)
    places = tl.load(x + offs).to(tl.int64) + tl.where((offs % B == 3) & (pid == at), off, 0)
    tl.store(out + offs, tl.load(x + places))  # here


@triton.jit
def multiplies(x, out, off, at, B: tl.constexpr):
    pid = tl.program_id(0)
    i = tl.arange(0, 16)
    a = tl.load(x + i[:, None] * 16 + i[None, :])
    for k in range(3):
        b = tl.load(x + i[:, None] * 16 + i[None, :] + off * ((pid == at) & (k == 2)))  # here
        a = tl.dot(a, b)
    tl.store(out + i[:, None] * 16 + i[None, :], a, mask=pid == 0)


@triton.jit
def looks_at(address):
    return tl.load(address.to(tl.pointer_type(tl.float32)))  # here


@triton.jit
def follows(table, out):
    pid = tl.program_id(0)
    tl.store(out + pid, looks_at(tl.load(table + pid)))


def floats(n=1024):
    return np.arange(n, dtype=np.float32)


def faults(launch):
    with pytest.raises(MemoryFaultError) as caught:
        launch()
    error = caught.value
    assert linecache.getline(error.location.file, error.location.line).rstrip().endswith("# here"), str(error)
    assert f"{error.address:#x}" in str(error) and "likely cure: " in str(error)
    assert str(pickle.loads(pickle.dumps(error))) == str(error)
    return error


@pytest.mark.parametrize("kernel", [copies, stores, fills, adds, gathers, multiplies], ids=lambda k: k.__name__)
def test_without_tests_of_bounds(kernel):
    with triton.knobs.scope(check_bounds=False):
        for at in (0, 2, 5):
            error = faults(lambda at=at: kernel[(6,)](floats(), np.zeros(1024, np.float32), FAR, at, B=128))
            assert error.program == (at, 0, 0) and error.kernel == kernel.__name__
            assert error.argument == ("out" if kernel in (stores, fills, adds) else "x")
            assert error.index >= FAR and repr(error.argument) in str(error)
        out = np.full(1024, -1, np.float32)
        kernel[(6,)](floats(), out, FAR, 6, B=128)      # it works as before
        assert (out != -1).any()


def test_through_a_loaded_pointer():
    """With tests of bounds, and from native launches, too; the place names the caller."""
    good, out = floats(4) + 1, np.zeros(4, np.float32)
    table = good.ctypes.data + 4 * np.arange(4)
    for bad in (None, None, None, None, 2, 0):
        now = table.copy()
        if bad is None:
            follows[(4,)](now, out)
            assert (out == good).all()
            continue
        now[bad] = 64 + bad
        error = faults(lambda now=now: follows[(4,)](now, out))
        assert error.program == (bad, 0, 0) and error.address == 64 + bad and error.argument is None
        assert error.location.caller.function == "follows" and "came out of memory" in str(error)


def test_a_fault_of_a_kernel_out_of_the_disk_cache(tmp_path):
    with triton.knobs.scope(check_bounds=False, cache_dir=str(tmp_path)):
        for _ in range(2):
            kernel = triton.jit(copies.fn)
            faults(lambda kernel=kernel: kernel[(6,)](floats(), floats(), FAR, 4, B=128))


def test_torch_tensors():
    torch = pytest.importorskip("torch")
    with triton.knobs.scope(check_bounds=False):
        for _ in range(5):
            error = faults(lambda: copies[(2,)](torch.ones(256), torch.ones(256), FAR, 1, B=128))
            assert error.argument == "x" and error.program == (1, 0, 0)
