"""Small integers fill whole registers where nothing else is computed with them."""

import numpy as np
import pytest

from tests.targets.cpu.harness import DTYPES, I8, I16, I32, WIDE, both, generated, kernel, ptr


def summed(t, size=256, wide=False, gathers=False):
    """o = x + y in blocks, below n; `wide`: the sum is of 32 bits; `gathers`: x at every third place."""
    def body(b, x, y, o, n):
        offs = b.add(b.mul(b.pid(), size), b.iota(size))
        mask = b.binary("cmp_lt_s", offs, n)
        place = b.mul(offs, 3) if gathers else offs
        values = [b.load(b.at(x, place), mask), b.load(b.at(y, offs), mask)]
        if wide:
            values = [b.op("ext_s", v, to=I32) for v in values]
        total = b.op("min_s", b.add(*values), b.like(b.const(100, I32 if wide else t), values[0]))
        b.store(b.at(o, offs), b.op("trunc", total, to=t) if wide else total, mask)
    return kernel([("x", ptr(t)), ("y", ptr(t)), ("o", ptr(t)), ("n", I32)], body)


@pytest.mark.parametrize("t", [I8, I16], ids=str)
@pytest.mark.parametrize("n", [1, 63, 64, 65, 255, 256, 257, 1000])
def test_sums(t, n):
    rng = np.random.default_rng(n)
    x, y = (rng.integers(-50, 50, 3 * n).astype(DTYPES[t]) for _ in range(2))
    for form in ({}, {"wide": True}, {"gathers": True}):
        both(summed(t, **form), (-(-n // 256),), [x, y, np.zeros(n, DTYPES[t]), n], optimise=(True,))


@pytest.mark.parametrize("t,lanes", [(I8, 64), (I16, 32)])
def test_lanes(t, lanes):
    assert f"add <{lanes} x {t}>" in generated(summed(t), isa=WIDE).text
    for form in ({"wide": True}, {"gathers": True}):
        assert f"<{lanes} x {t}>" not in generated(summed(t, **form), isa=WIDE).text
    assert "add <16 x i32>" in generated(summed(I32), isa=WIDE).text


@pytest.mark.parametrize("shape", [(3, 40), (4, 128), (5, 1)])
def test_rows_and_broadcasts(shape):
    rows, columns = shape

    def body(b, x, y, o):
        offs = b.add(b.mul(b.col(b.iota(rows)), columns), b.row(b.iota(columns)))
        line = b.op("broadcast", b.load(b.at(y, b.row(b.iota(columns)))), shape=shape)
        flag = b.op("cmp_lt_s", b.load(b.at(x, offs)), line)
        b.store(b.at(o, offs), b.op("select", flag, b.add(b.load(b.at(x, offs)), line), line))
    rng = np.random.default_rng(1)
    x, y = rng.integers(-9, 9, shape).astype(np.int8), rng.integers(-9, 9, columns).astype(np.int8)
    both(kernel([("x", ptr(I8)), ("y", ptr(I8)), ("o", ptr(I8))], body), (1,), [x, y, np.zeros(shape, np.int8)])
