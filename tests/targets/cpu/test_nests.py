"""Elementwise nests: any size, masks, two dimensions, memory of any alignment, index arithmetic."""

import numpy as np
import pytest

from tests.departures import differs
from tests.targets.cpu.harness import F16, F32, F64, I8, I16, I32, I64, both, generated, kernel, ptr, run_cpu

SIZES = [1, 7, 16, 17, 1023, 1025]


def vector_add(block, t=F32):
    def body(b, x, y, o, n):
        offs = b.add(b.mul(b.pid(), block), b.iota(block))
        mask = b.binary("cmp_lt_s", offs, n)
        b.store(b.at(o, offs), b.add(b.load(b.at(x, offs), mask), b.load(b.at(y, offs), mask)), mask)
    return kernel([("x", ptr(t)), ("y", ptr(t)), ("o", ptr(t)), ("n", I32)], body)


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("block", [16, 17, 128, 1024])
def test_vector_add(n, block):
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((2, n)).astype(np.float32)
    both(vector_add(block), (-(-n // block),), [x, y, np.zeros(n, np.float32), n])


@pytest.mark.parametrize("t,dtype", [(F64, np.float64), (F16, np.float16), (I8, np.int8), (I16, np.int16),
                                     (I64, np.int64)])
def test_vector_add_of_other_types(t, dtype):
    rng = np.random.default_rng(0)
    x, y = rng.integers(-100, 100, (2, 77)).astype(dtype)
    both(vector_add(32, t), (3,), [x, y, np.zeros(77, dtype), 77])


def test_memory_need_not_be_aligned():
    raw = np.zeros(4 * 200 + 4, np.uint8)
    x, y, o = (raw[1 + 4 * k * 50:1 + 4 * k * 50 + 200].view(np.float32) for k in range(3))
    x[:], y[:] = np.arange(50), np.arange(50) * 2
    run_cpu(vector_add(64), (1,), [x, y, o, 50])
    np.testing.assert_array_equal(o, x + y)


def test_masked_lanes_are_never_written_or_read():
    """The arrays end at the end of what is mapped for them: canaries behind stay."""
    x = np.arange(64, dtype=np.float32)
    o = np.full(64, -1, np.float32)

    def body(b, x, o, n):
        offs = b.iota(64)
        mask = b.binary("cmp_lt_s", offs, n)
        b.store(b.at(o, offs), b.load(b.at(x, offs), mask, b.const(5.0, F32, (64,))), mask)

    for n in (0, 1, 15, 16, 33, 64):
        got = both(kernel([("x", ptr(F32)), ("o", ptr(F32)), ("n", I32)], body), (1,), [x, o, n])
        assert (got[1][n:] == -1).all()


def two_d(rows, columns, transposed=False):
    """o[i, j] = x[i, j] * 2 + r[j] - c[i], under a mask in both dimensions, with run-time strides."""
    def body(b, x, r, c, o, m, n, sx, so):
        i = b.add(b.mul(b.pid(0), rows), b.iota(rows))
        j = b.add(b.mul(b.pid(1), columns), b.iota(columns))
        mi, mj = b.binary("cmp_lt_s", i, m), b.binary("cmp_lt_s", j, n)
        mask = b.binary("and", b.col(mi), b.row(mj))
        def where(p, s, flip=False):
            a, c2 = (b.row(j), b.col(i)) if flip else (b.col(i), b.row(j))
            return b.at(p, b.add(b.mul(a, s), c2))
        tile = b.load(where(x, sx, transposed), mask)
        rj, ci = b.load(b.at(r, j), mj), b.load(b.at(c, i), mi)
        value = b.binary("sub_f", b.add(b.mul(tile, b.const(2.0, F32)), b.row(rj)), b.col(ci))
        b.store(where(o, so), value, mask)
    return kernel([("x", ptr(F32)), ("r", ptr(F32)), ("c", ptr(F32)), ("o", ptr(F32)), ("m", I32), ("n", I32),
                   ("sx", I32), ("so", I32)], body)


@pytest.mark.parametrize("shape", [(16, 16), (5, 19), (1, 33), (40, 1), (3, 70)])
@pytest.mark.parametrize("m,n", [(1, 1), (11, 37), (40, 70)])
@pytest.mark.parametrize("transposed", [False, True])
def test_two_dimensions(shape, m, n, transposed):
    rng = np.random.default_rng(1)
    x = rng.standard_normal((n, m) if transposed else (m, n)).astype(np.float32)
    r, c = rng.standard_normal(n).astype(np.float32), rng.standard_normal(m).astype(np.float32)
    grid = (-(-m // shape[0]), -(-n // shape[1]))
    both(two_d(*shape, transposed), grid, [x, r, c, np.zeros((m, n), np.float32), m, n, x.shape[1], n])


def test_remainder_that_wraps_and_that_does_not():
    def body(b, x, o, m):
        offs = b.add(b.mul(b.pid(), 32), b.iota(32))
        b.store(b.at(o, offs), b.load(b.at(x, b.binary("rem_s", offs, m))))
    x = np.arange(64, dtype=np.float32)
    for m in (1, 31, 32, 33, 40, 64):
        both(kernel([("x", ptr(F32)), ("o", ptr(F32)), ("m", I32)], body), (4,), [x, np.zeros(128, np.float32), m])


@pytest.mark.parametrize("divisor", [1, 3, 8, 16, 20, 48, 64, 100])
def test_quotient_and_remainder_by_constants(divisor):
    def body(b, o, q):
        offs = b.add(b.mul(b.pid(), 96), b.iota(96))
        b.store(b.at(o, offs), b.binary("rem_s", offs, divisor))
        b.store(b.at(q, offs), b.binary("div_s", offs, divisor))
        small = b.iota(96)
        b.store(b.at(o, b.add(b.binary("div_u", small, divisor), b.mul(b.binary("rem_u", small, divisor), 96))),
                b.const(7, I32, (96,)))
    both(kernel([("o", ptr(I32)), ("q", ptr(I32))], body), (2,),
         [np.zeros(96 * 110, np.int32), np.zeros(192, np.int32)])


def test_int32_values_wrap_though_addresses_do_not():
    def body(b, o, s):
        offs = b.iota(33)
        wild = b.mul(b.add(b.mul(offs, 0x7FFFFFF), s), 31)
        b.store(b.at(o, offs), b.op("ext_s", wild, to=I64))
        b.store(b.at(o, b.add(offs, 33)), b.op("ext_u", wild, to=I64))
        flag = b.binary("cmp_lt_s", b.add(offs, 2**31 - 16), b.const(0))
        b.store(b.at(o, b.add(offs, 66)), b.op("ext_u", flag, to=I64))
    both(kernel([("o", ptr(I64)), ("s", I32)], body), (1,), [np.zeros(99, np.int64), 12345])


def test_wide_offsets_and_negative_steps():
    def body(b, x, o, n):
        offs = b.op("ext_s", b.add(b.mul(b.pid(), 24), b.iota(24)), to=I64)
        back = b.op("sub", b.const(47, I64, (24,)), offs)
        mask = b.binary("cmp_lt_s", offs, n)
        b.store(b.at(o, offs), b.load(b.at(x, back), mask), mask)
    x = np.arange(48, dtype=np.float32)
    for n in (48, 40, 5):
        both(kernel([("x", ptr(F32)), ("o", ptr(F32)), ("n", I64)], body), (2,), [x, np.zeros(48, np.float32), n])


@pytest.mark.parametrize("t,dtype", [(F32, np.float32), (F16, np.float16), (I8, np.int8), (F64, np.float64)])
def test_gather_and_scatter(t, dtype):
    def body(b, x, index, o, n):
        offs = b.iota(40)
        mask = b.binary("cmp_lt_s", offs, n)
        i = b.load(b.at(index, offs), mask)
        b.store(b.at(o, i), b.load(b.at(x, i), mask, b.const(3.0 if t.is_float else 3, t, (40,))), mask)
    rng = np.random.default_rng(3)
    index = rng.permutation(40).astype(np.int32)
    for n in (40, 23):
        x = rng.integers(0, 100, 40).astype(dtype)
        both(kernel([("x", ptr(t)), ("i", ptr(I32)), ("o", ptr(t)), ("n", I32)], body), (1,),
             [x, index, np.zeros(40, dtype), n])


@differs("Of equal addresses the last wins")
def test_equal_addresses_keep_the_last_value():
    def body(b, o, p):
        offs = b.iota(37)
        b.store(b.at(o, b.binary("div_s", offs, 5)), offs)
        b.store(b.splat(p, (37,)), offs)
        b.store(b.splat(b.at(p, b.const(1)), (37,)), offs, b.binary("cmp_lt_s", offs, b.const(20)))
    both(kernel([("o", ptr(I32)), ("p", ptr(I32))], body), (1,), [np.zeros(8, np.int32), np.zeros(2, np.int32)])


def test_an_affine_tile_never_gathers():
    text = generated(vector_add(1024)).text
    assert "<16 x float>" in text or "<8 x float>" in text or "<4 x float>" in text
    assert "gather" not in text and "scatter" not in text and "extractelement" not in text
    text = generated(two_d(32, 64)).text
    assert "gather" not in text and "scatter" not in text


@pytest.mark.parametrize("bits", [0, 1, 3, 4, 5, 8, 30])
def test_shifts_and_low_bits_of_indices(bits):
    """They stay affine where all lanes of a group agree, and are right where they do not."""
    def body(b, o, n):
        offs = b.add(b.iota(96, 32), b.like(n, b.iota(96)))
        for k, i in enumerate((b.iota(96), offs)):
            for j, value in enumerate((b.binary("shl", i, bits), b.binary("shr_s", i, bits),
                                       b.binary("shr_u", i, bits), b.binary("and", i, (1 << bits) - 1))):
                b.store(b.at(b.at(o, b.const(96 * (4 * k + j))), b.iota(96)), value)
        b.store(b.at(b.at(o, b.const(768)), b.binary("and", b.iota(96), 15)), offs)
        b.store(b.at(b.at(o, b.const(784)), b.binary("shr_s", b.iota(96), 4)), offs)
    for n in (0, -40, 2**31 - 20):
        both(kernel([("o", ptr(I32)), ("n", I32)], body), (1,), [np.zeros(800, np.int32), n])


@pytest.mark.parametrize("grid", [(1, 1, 1), (7, 1, 1), (3, 4, 5), (1, 5, 1), (1, 1, 7), (7, 1, 2), (40, 30, 2)])
def test_programs_of_every_grid(grid):
    """Each program finds its place, wherever a thread's range starts."""
    def body(b, o):
        x, y, z = (b.pid(axis) for axis in range(3))
        sizes = [b.op("num_programs", axis=axis) for axis in range(2)]
        number = b.op("add", b.op("mul", b.op("add", b.op("mul", z, sizes[1]), y), sizes[0]), x)
        code = b.op("add", b.op("add", x, b.op("mul", y, b.const(100))), b.op("mul", z, b.const(10000)))
        b.store(b.op("ptr_add", o, number), code)
    x, y, z = np.meshgrid(*map(np.arange, grid), indexing="ij")
    o = np.zeros(grid[::-1], np.int32)
    run_cpu(kernel([("o", ptr(I32))], body), grid, [o])
    np.testing.assert_array_equal(o.T, x + 100 * y + 10000 * z)
