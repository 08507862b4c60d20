"""Stores that bypass the caches: when they are there, and that a launch that uses them writes the same numbers."""

import numpy as np
import pytest

from tests.targets.cpu.harness import F32, I32, generated, kernel, ptr, run_cpu, target
from tilewright.targets.cpu.streaming import LEAST_BYTES

STREAMS = "!nontemporal"


def scale(size=1024, loop=False, reload=False, rows=0):
    """o = 2 * x in blocks; also in a loop, with o read again, or in rows with a run-time step."""
    def body(b, x, o, n):
        offsets = b.add(b.mul(b.pid(), size), b.iota(size))
        if rows:
            offsets = b.add(b.mul(b.col(b.iota(rows)), n), b.row(b.iota(size)))
            offsets = b.add(offsets, b.mul(b.mul(b.pid(), rows), n))
        mask = None if rows else b.binary("cmp_lt_s", offsets, b.like(n, offsets))
        source = b.load(b.at(o if reload else x, offsets), mask)

        def write(*_):
            b.store(b.at(o, offsets), b.add(source, source), mask)
            return []
        if loop:
            b.for_(0, 2, 1, [], write)
        else:
            write()
    return kernel([("x", ptr(F32)), ("o", ptr(F32)), ("n", I32)], body)


def test_where_it_may_stream():
    if target().machine.isa.avx512:
        assert STREAMS in generated(scale()).text and generated(scale()).metadata["nontemporal"]
        assert STREAMS in generated(scale(rows=4, size=64)).text
    for module in (scale(loop=True), scale(reload=True), scale(size=8)):
        assert STREAMS not in generated(module).text and not generated(module).metadata["nontemporal"]


def aligned(count, by=0):
    raw = np.zeros(4 * count + 128, np.uint8)
    start = -raw.ctypes.data % 64 + by
    return raw[start:start + 4 * count].view(np.float32)


@pytest.mark.parametrize("by,short", [(0, 0), (4, 0), (0, 5)])
def test_large_launches(by, short):
    """Above the size, at a line and beside one, and with a part of a block at the end."""
    n = LEAST_BYTES // 4 + 1024 - short
    x, o = np.arange(n, dtype=np.float32), aligned(n, by)
    run_cpu(scale(), (-(-n // 1024),), [x, o, n])
    np.testing.assert_array_equal(o, 2 * x)


@pytest.mark.parametrize("step", [128, 129])
def test_large_launches_of_rows(step):
    count = -(-LEAST_BYTES // (4 * 64 * 4)) + 1
    x, o = np.arange(count * 4 * step, dtype=np.float32), aligned(count * 4 * step)
    run_cpu(scale(rows=4, size=64), (count,), [x, o, step])
    wanted = np.zeros((count * 4, step), np.float32)
    wanted[:, :64] = 2 * x.reshape(-1, step)[:, :64]
    np.testing.assert_array_equal(o.reshape(-1, step), wanted)
