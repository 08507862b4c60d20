"""Accesses in runs: vectors where they are sure or only likely, single elements where they turn out not to be."""

import numpy as np
import pytest

import tilewright as triton
import tilewright.language as tl
from tilewright.testing import ptx_machine


@triton.jit
def copy_rows(x, out, x_stride, out_stride, n, BLOCK: tl.constexpr):
    row, i = tl.program_id(0), tl.arange(0, BLOCK)
    v = tl.load(x + row * x_stride + i, mask=i < n, other=-1.0)
    tl.store(out + row * out_stride + i, v, mask=i < n)


@triton.jit
def wrapped(x, out, start, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + i, tl.load(x + n + (start + i) % n))



@pytest.mark.parametrize("columns, offset, vectors", [
    (1000, 0, True), (1024, 0, True), (999, 0, True), (1000, 1, True), (996, 3, True)])
def test_rows_of_any_length_and_alignment(columns, offset, vectors):
    rows = 3
    data = np.random.default_rng(0).standard_normal(rows * columns + offset).astype(np.float32)
    out = np.full(rows * columns + 2 * offset, 7, np.float32)
    x = data[offset:]
    target = out[offset:offset + rows * columns]
    ran = ptx_machine.run(copy_rows, (rows,), (x, target, columns, columns, columns), {"BLOCK": 1024})
    np.testing.assert_array_equal(target, x)
    assert (out[:offset] == 7).all() and (out[offset + rows * columns:] == 7).all()
    ptx = ran.texts["ptx"]
    assert (".v4.b32" in ptx) == vectors


def test_a_sure_run_has_no_second_branch():
    x, out = np.zeros(2048, np.float32), np.zeros(2048, np.float32)
    ptx = ptx_machine.run(copy_rows, (2,), (x, out, 1024, 1024, 1024), {"BLOCK": 1024}).texts["ptx"]
    assert ".v4.b32" in ptx and "ld.global.nc.b32" not in ptx and "bra" not in ptx


@pytest.mark.parametrize("start", [0, 16, 5, -64, -37, 2**31 - 40])
def test_remainders_that_may_be_negative(start):
    n, count = 48, 256
    x = np.arange(2 * n, dtype=np.float32)
    out = np.zeros(count, np.float32)
    ran = ptx_machine.run(wrapped, (1,), (x, out, start, n), {"BLOCK": count})
    i = np.int32(start) + np.arange(count, dtype=np.int32)
    np.testing.assert_array_equal(out, x[n + np.fmod(i, n)])
    assert "ld.global.nc.v4" in ran.texts["ptx"]
