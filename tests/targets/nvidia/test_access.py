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
    (1000, 0, False), (1024, 0, True), (999, 0, False), (1024, 1, False), (996, 3, False)])
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


@pytest.mark.parametrize("n", [1001, 1008, 1022, 3, 0])
@pytest.mark.parametrize("dtype", [np.float32, np.int8, np.int64])
def test_masks_that_end_within_a_vector(n, dtype):
    x, out = np.arange(2048).reshape(2, 1024).astype(dtype), np.full((2, 1024), 7, dtype)
    want = np.where(np.arange(1024) < n, x, np.array(7, dtype))
    ptx_machine.run(copy_rows, (2,), (x, out, 1024, 1024, n), {"BLOCK": 1024})
    np.testing.assert_array_equal(out, want)


def test_a_sure_run_has_no_second_branch():
    x, out = np.zeros(2048, np.float32), np.zeros(2048, np.float32)
    ptx = ptx_machine.run(copy_rows, (2,), (x, out, 1024, 1024, 1024), {"BLOCK": 1024}).texts["ptx"]
    assert ".v4.b32" in ptx and "ld.global.nc.b32" not in ptx and "bra" not in ptx


@pytest.mark.parametrize("start", [0, 16, 5, -64, -37, 2**31 - 40])
def test_remainders_that_may_be_negative(start):
    n, count = 48, 512
    x = np.arange(2 * n, dtype=np.float32)
    out = np.zeros(count, np.float32)
    ran = ptx_machine.run(wrapped, (1,), (x, out, start, n), {"BLOCK": count})
    i = np.int32(start) + np.arange(count, dtype=np.int32)
    np.testing.assert_array_equal(out, x[n + np.fmod(i, n)])
    assert ("ld.global.nc.v4" in ran.texts["ptx"]) == (start % 16 == 0)


# --- elements in a loop


@triton.jit
def wrapped_rows(x, out, start, n, rows, limit, R: tl.constexpr, C: tl.constexpr, OTHER: tl.constexpr):
    """Columns modulo n, of rows within a mask; where that does not hold OTHER, if there is one."""
    row, column = tl.arange(0, R)[:, None], (start + tl.arange(0, C))[None, :]
    mask = (row < rows) & (column < limit)
    place = x + row * 2 * n + n + column % n
    value = tl.load(place, mask=mask, other=OTHER) if OTHER is not None else tl.load(place, mask=mask)
    tl.store(out + row * C + tl.arange(0, C)[None, :], value)


@triton.jit
def store_wrapped(x, out, start, n, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(out + n + (start + i) % n, tl.load(x + i, mask=i < n, other=3), mask=i < n)


def in_a_loop(ptx):
    return 'pragma "nounroll"' in ptx


@pytest.mark.parametrize("start", [0, -16, -112, -37, 5])
@pytest.mark.parametrize("dtype, other", [(np.float32, -1.0), (np.float16, None), (np.int8, 7), (np.int64, 2),
                                          (bool, None)])
def test_many_remainders_that_may_be_negative(start, dtype, other):
    n, rows, R, C, limit = 48, 14, 16, 256, 192 if start % 16 == 0 else 190
    x = np.random.default_rng(1).integers(-100, 100, (R, 2 * n)).astype(dtype)
    out = np.zeros((R, C), dtype)
    ran = ptx_machine.run(wrapped_rows, (1,), (x, out, start, n, rows, limit), {"R": R, "C": C, "OTHER": other})
    column = start + np.arange(C)
    want = np.where((np.arange(R) < rows)[:, None] & (column < limit), x[:, n + np.fmod(column, n)],
                    np.array(other or 0, dtype))
    np.testing.assert_array_equal(out, want)
    assert in_a_loop(ran.texts["ptx"]) == (start % 16 == 0)     # else nothing is likely


@pytest.mark.parametrize("start", [0, -16, -37, -4096])
@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.int8])
def test_many_stores_at_remainders_that_may_be_negative(start, dtype):
    n, N = 4112, 4096
    x = np.random.default_rng(1).integers(-100, 100, N).astype(dtype)
    out, want = np.zeros(2 * n, dtype), np.zeros(2 * n, dtype)
    ran = ptx_machine.run(store_wrapped, (1,), (x, out, start, n), {"N": N})
    want[n + np.fmod(start + np.arange(N), n)] = x
    np.testing.assert_array_equal(out, want)
    assert in_a_loop(ran.texts["ptx"]) == (start % 16 == 0)


@pytest.mark.parametrize("columns, offset", [(4001, 0), (4000, 1), (4096, 3), (4000, 0), (3, 0)])
def test_long_rows_of_any_length_and_alignment(columns, offset):
    rows = 2
    data = np.random.default_rng(0).standard_normal(rows * columns + offset).astype(np.float32)
    out = np.full(rows * columns + 2 * offset, 7, np.float32)
    x, target = data[offset:], out[offset:offset + rows * columns]
    ran = ptx_machine.run(copy_rows, (rows,), (x, target, columns, columns, columns), {"BLOCK": 4096})
    np.testing.assert_array_equal(target, x)
    assert (out[:offset] == 7).all() and (out[offset + rows * columns:] == 7).all()
    ptx = ran.texts["ptx"]
    assert not in_a_loop(ptx) and (".v4.b32" in ptx) == (columns % 16 == 0 and not offset)


def test_a_loop_over_a_tile_with_padding():
    rows, columns, n = 3, 1504, 1520
    x = np.arange((rows + 2) * n, dtype=np.float32)
    out = np.zeros((rows, columns), np.float32)

    @triton.jit
    def copy(x, out, x_stride, out_stride, start, R: tl.constexpr, C: tl.constexpr):
        row, i = tl.arange(0, R)[:, None], tl.arange(0, C)[None, :]
        tl.store(out + row * out_stride + i, tl.load(x + x_stride * (row + 1) + (i + start) % x_stride))

    for start in (16, -16):
        ran = ptx_machine.run(copy, (1,), (x, out, n, columns, start), {"R": rows, "C": columns})
        place = n * np.arange(1, rows + 1)[:, None] + np.fmod(np.arange(columns) + start, n)
        np.testing.assert_array_equal(out, x[place])
    assert in_a_loop(ran.texts["ptx"])


# --- narrow numbers that are widened where they are needed


@triton.jit
def exchanged(x, y, out, n, N: tl.constexpr):
    i = tl.arange(0, N)
    a, b = tl.load(x + i).to(tl.int32), tl.load(y + i).to(tl.int32)
    if n > 3:
        p, q = a, b
    else:
        p, q = b, a
    for k in range(n):
        if k % 2 == 0:
            p, q = q + k, a
        else:
            p, q = a, p
    tl.store(out + i, p * 1000 + q)


@pytest.mark.parametrize("n", [0, 2, 3, 4, 5])
def test_widened_numbers_that_both_ways_of_a_branch_give(n):
    x, y = (np.random.default_rng(s).integers(-128, 128, 512).astype(np.int8) for s in range(2))
    out = np.zeros(512, np.int32)
    ptx_machine.run(exchanged, (1,), (x, y, out, n), {"N": 512})
    a, b = x.astype(np.int32), y.astype(np.int32)
    p, q = (a, b) if n > 3 else (b, a)
    for k in range(n):
        p, q = (q + k, a) if k % 2 == 0 else (a, p)
    np.testing.assert_array_equal(out, p * 1000 + q)


# --- elements that are stored to one place


@triton.jit
def store_to_shared_places(x, out, N: tl.constexpr, RUN: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(out + i // RUN, tl.load(x + i))


@pytest.mark.parametrize("run", [2, 4, 32, 64, 256])
def test_of_equal_addresses_that_are_known_the_last_is_stored(run):
    x, out = np.arange(256, dtype=np.float32), np.zeros(256 // run, np.float32)
    ptx_machine.run(store_to_shared_places, (1,), (x, out), {"N": 256, "RUN": run})
    np.testing.assert_array_equal(out, x[run - 1::run])


@triton.jit
def chosen_columns(x, out, columns, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    inside = i < columns
    tl.store(out + i, tl.where(inside, tl.load(x + i) + 1, -1.0))


@pytest.mark.parametrize(("columns", "flags"), [(48, 2), (1008, 2), (1000, 8)])
def test_neighbours_that_are_alike_have_one_flag(columns, flags):
    """A number of columns that is a multiple of 16 is compared with once for each vector of 4."""
    x = np.arange(1024, dtype=np.float32)
    out = np.zeros_like(x)
    code = ptx_machine.run(chosen_columns, (1,), (x, out, columns), {"BLOCK": 1024})
    np.testing.assert_array_equal(out, np.where(np.arange(1024) < columns, x + 1, -1))
    assert code.texts["ptx"].count("setp.lt.s32") == flags


@triton.jit
def remainder_of_a_branch(x, out, m, n, B: tl.constexpr):
    i = tl.arange(0, B)
    if n > 2:
        at = (n * 16 + i) % m
    else:
        at = (n * 32 - 16 + i) % m
    tl.store(out + i, tl.load(x + m + at))


@pytest.mark.parametrize("n", [2, 3, -1])
def test_remainders_of_a_branch_are_tested_by_their_addresses(n):
    x, out = np.arange(96, dtype=np.float32), np.zeros(128, np.float32)
    ran = ptx_machine.run(remainder_of_a_branch, (1,), (x, out, 48, n), {"B": 128, "num_warps": 1})
    np.testing.assert_array_equal(out, 48 + np.fmod((n * 16 if n > 2 else n * 32 - 16) + np.arange(128), 48))
    assert "ld.global.nc.v4.b32" in ran.texts["ptx"] and "ld.global.nc.b32" in ran.texts["ptx"]
