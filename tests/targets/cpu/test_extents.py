"""Accesses outside their arguments are errors on every engine, and those inside never are."""

import ctypes
import re

import numpy as np
import pytest

import tilewright as triton
import tilewright.language as tl
from tests.departures import differs
from tilewright import knobs
from tilewright.diagnostics import OutOfBoundsError
from tilewright.testing.engines import launch

ENGINES = ("cpu", "eager", "batched")


def caught(engine, kernel, grid, *args, **kwargs):
    with pytest.raises(OutOfBoundsError) as info:
        launch(engine, kernel, grid, *args, **kwargs)
    return info.value


def line_of(kernel, part):
    """The file's line of the one line of `kernel` that contains `part`."""
    lines = kernel.source.splitlines()
    (found,) = [n for n, line in enumerate(lines) if part in line]
    return kernel.location(kernel.tree()).line + found


@triton.jit
def copy(x, out, n, OFF: tl.constexpr, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    v = tl.load(x + i + OFF)
    tl.store(out + i, v, mask=i < n)


@differs("Accesses outside of a tensor are errors", topic="Memory",
         peer="They read and write foreign memory, or end the process.",
         ours="`OutOfBoundsError` with argument, element, program and line, and the store is not done. Compiled CPU "
              "code tests tiles against the extents of the arguments; `TILEWRIGHT_CHECK_BOUNDS=0` turns that off. A "
              "load whose value nobody needs, or only a branch that is not taken, is not done by compiled code, so "
              "nothing is wrong there; the interpreter and checked mode report it.")
@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("offset, index, program", [
    (100_000_000, 100_000_000, 0), (-1, -1, 0), (105, 1000, 6), (10**12, 10**12, 0), (-(2**40), -(2**40), 0)])
def test_a_load_out_of_bounds(engine, offset, index, program):
    x, out = np.arange(1000, dtype=np.float32), np.zeros(1000, np.float32)
    error = caught(engine, copy, (7,), x, out, 896, offset, 128)
    assert (error.kernel, error.argument, error.index, error.elements) == ("copy", "x", index, range(1000))
    assert error.program == (program, 0, 0)
    assert error.location.line == line_of(copy, "tl.load") and "^" in str(error)
    shown = f"copy: load out of bounds: element {index} of 'x', whose elements 0 to 999 are in bounds"
    assert shown in str(error) and "mask" in str(error)
    assert isinstance(error, IndexError)
    assert not out[program * 128:].any(), "nothing is written by that program"


@triton.jit
def sometimes(x, out, flag, B: tl.constexpr):
    i = tl.arange(0, B)
    v = tl.load(x + i)
    if flag > 0:
        tl.store(out + i, v)


@triton.jit
def unneeded(x, out, flag, B: tl.constexpr):
    i = tl.arange(0, B)
    tl.load(x + i)
    if flag > 0:
        tl.store(out + i, i.to(tl.float32))


@differs("Accesses outside of a tensor are errors")
@pytest.mark.parametrize("kernel, flag", [(sometimes, 0), (unneeded, 0), (unneeded, 1)])
def test_only_the_interpreter_reports_a_load_that_nobody_needs(kernel, flag):
    x, out = np.ones(1000, np.float32), np.zeros(1024, np.float32)
    assert caught("batched", kernel, (1,), x, out, flag, 1024).index == 1000
    launch("cpu", kernel, (1,), x, out, flag, 1024)
    np.testing.assert_array_equal(out, np.arange(1024, dtype=np.float32) * flag)


@pytest.mark.parametrize("engine", ENGINES)
def test_a_load_that_a_branch_needs_is_tested(engine):
    x, out = np.ones(1000, np.float32), np.zeros(1024, np.float32)
    assert caught(engine, sometimes, (1,), x, out, 1, 1024).index == 1000
    assert not out.any()


@pytest.mark.parametrize("engine", ENGINES)
def test_the_last_byte_is_in_bounds(engine):
    x, out = np.arange(1000, dtype=np.float32), np.zeros(1000, np.float32)
    launch(engine, copy, (7,), x, out, 896, 104, 128)
    np.testing.assert_array_equal(out[:896], x[104:])


@triton.jit
def fill(out, n, start, B: tl.constexpr):
    i = tl.arange(0, B)
    tl.store(out + start + i, i.to(tl.float32) + 1, mask=i < n)


@differs("Accesses outside of a tensor are errors")
@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("n, start, index", [(64, 41, 100), (10, 95, 100), (60, -4, -4), (1, 100, 100), (1, -1, -1)])
def test_a_store_out_of_bounds_writes_nothing(engine, n, start, index):
    whole = np.zeros(400, np.float32)
    error = caught(engine, fill, (1,), whole[100:200], n, start, 64)
    assert error.argument == "out" and error.program == (0, 0, 0) and error.bad.access == "store"
    assert error.index == index and error.elements == range(100)
    assert not whole.any()


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("n, start", [(60, 40), (5, 95), (0, 10**9), (-7, -(10**9)), (0, 0)])
def test_lanes_that_are_off_may_point_anywhere(engine, n, start):
    whole = np.zeros(400, np.float32)
    launch(engine, fill, (1,), whole[100:200], n, start, 64)
    assert np.count_nonzero(whole) == max(n, 0)


@triton.jit
def wild(x, out, B: tl.constexpr):
    i = tl.arange(0, B)
    none = i < 0
    v = tl.load(x + i * 1_000_000_007, mask=none, other=3.0)
    tl.store(out + i * 1_000_003, v, mask=none)
    tl.store(out + i, v)


@pytest.mark.parametrize("engine", ENGINES)
def test_masks_that_are_false_everywhere(engine):
    out = np.zeros(32, np.float32)
    launch(engine, wild, (1,), np.zeros(0, np.float32), out, 32)
    assert (out == 3).all()


@pytest.mark.parametrize("engine", ENGINES)
def test_an_empty_argument_has_no_element(engine):
    error = caught(engine, copy, (1,), np.zeros(0, np.float32), np.zeros(128, np.float32), 128, 0, 128)
    assert error.argument == "x" and error.index == 0 and len(error.elements) == 0
    assert "which has no element" in str(error)


@triton.jit
def rows(x, out, M, N, sm, sn, BM: tl.constexpr, BN: tl.constexpr):
    m = tl.program_id(0) * BM + tl.arange(0, BM)
    n = tl.arange(0, BN)
    at = m[:, None] * sm + n[None, :] * sn
    inside = (m[:, None] < M) & (n[None, :] < N)
    v = tl.load(x + at, mask=inside, other=0)
    tl.store(out + m[:, None] * BN + n[None, :], v)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("view", [np.s_[:, :], np.s_[::2, ::3], np.s_[::-1, ::-1], np.s_[1:9, 2:7]])
def test_two_dimensions_with_any_strides(engine, view):
    x = np.arange(20 * 30, dtype=np.int32).reshape(20, 30)
    part = x[view]
    (m, n), (sm, sn) = part.shape, (s // 4 for s in part.strides)
    out = np.zeros((32, 32), np.int32)
    launch(engine, rows, (4,), part, out, m, n, sm, sn, 8, 32)
    np.testing.assert_array_equal(out[:m, :n], part)
    assert not out[m:].any() and not out[:, n:].any()
    far = sm * m if abs(sm) > abs(sn) else sn * n
    error = caught(engine, rows, (4,), part, out, m + 1, n, sm, sn, 8, 32)
    assert error.argument == "x" and error.index not in error.elements, far
    error = caught(engine, rows, (4,), part, out, m, n, sm, sn + 2**30, 8, 32)
    assert error.argument == "x"


@triton.jit
def square(x, out, M, N, first, B: tl.constexpr, TURNED: tl.constexpr):
    m = tl.arange(0, B)
    n = first + tl.arange(0, B)
    if TURNED:
        v = tl.trans(tl.load(x + m[None, :] * 100 + n[:, None], mask=(m[None, :] < M) & (n[:, None] < N), other=0))
    else:
        v = tl.load(x + m[:, None] * 100 + n[None, :], mask=(m[:, None] < M) & (n[None, :] < N), other=0)
    tl.store(out + m[:, None] * B + tl.arange(0, B)[None, :], v)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("first", [0, 3])
@pytest.mark.parametrize("M,N", [(2, 13), (13, 2), (2, 16), (16, 5), (9, 9)])
def test_a_mask_of_one_dimension_says_nothing_of_another(engine, M, N, first, turned):
    """Both count from 0 to 15: one tile, along two dimensions."""
    last, out = (M - 1) * 100 + N + first - 1, np.zeros(256, np.float32)
    x = np.arange(last + 1, dtype=np.float32)
    launch(engine, square, (1,), x, out, M, N + first, first, 16, turned)
    assert out.reshape(16, 16)[M - 1, N - 1] == last
    error = caught(engine, square, (1,), x[:-1].copy(), out, M, N + first, first, 16, turned)
    assert error.argument == "x" and error.index == last


@triton.jit
def looped(x, out, n, step, B: tl.constexpr):
    i = tl.arange(0, B)
    total = tl.zeros((B,), tl.int32)
    p = x + i
    for k in range(n):
        total += tl.load(p, mask=i < 5)
        p += step
    tl.store(out + i, total)


@pytest.mark.parametrize("engine", ENGINES)
def test_pointers_that_a_loop_carries(engine):
    x, out = np.arange(100, dtype=np.int32), np.zeros(16, np.int32)
    launch(engine, looped, (1,), x, out, 20, 5, 16)
    np.testing.assert_array_equal(out[:5], x.reshape(20, 5).sum(0))
    for n, step, index in ((21, 5, 100), (2, -1, -1), (3, 2**30, 2**30), (4, -(2**31), -(2**31))):
        assert caught(engine, looped, (1,), x, out, n, step, 16).index == index


@triton.jit
def wrapped(x, out, n, k, B: tl.constexpr):
    i = (tl.program_id(0) * B + tl.arange(0, B)) % n
    j = tl.arange(0, B) // k
    tl.store(out + tl.arange(0, B), tl.load(x + i) + tl.load(x + j))


@pytest.mark.parametrize("engine", ENGINES)
def test_remainders_and_quotients(engine):
    x, out = np.arange(10, dtype=np.int32), np.zeros(32, np.int32)
    launch(engine, wrapped, (3,), x, out, 10, 4, 32)
    i = np.arange(32)
    np.testing.assert_array_equal(out, (64 + i) % 10 + i // 4)
    assert caught(engine, wrapped, (1,), x, out, 11, 4, 32).index == 10
    assert caught(engine, wrapped, (1,), x, out, 10, 2, 32).index == 10


@triton.jit
def gather(x, index, out, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    at = tl.load(index + i, mask=i < n, other=-(2**31))
    tl.store(out + i, tl.load(x + at, mask=i < n), mask=i < n)


@triton.jit
def scatter(x, index, out, n, B: tl.constexpr):
    i = tl.arange(0, B)
    at = tl.load(index + i, mask=i < n, other=10**9)
    tl.store(out + at, tl.load(x + i, mask=i < n), mask=i < n)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("dtype", [np.int8, np.float16, np.int32, np.float64])
@pytest.mark.parametrize("bad", [None, 50, -1, 2**31 - 1, -(2**31)])
def test_gathers_and_scatters(engine, dtype, bad):
    x, out = np.arange(50).astype(dtype), np.zeros(50, dtype)
    index = np.random.default_rng(0).permutation(50).astype(np.int32)
    for kernel, grid in ((gather, (4,)), (scatter, (1,))):
        out[:] = 0
        if bad is None:
            launch(engine, kernel, grid, x, index, out, 50, 16 if kernel is gather else 64)
            want = x[index] if kernel is gather else x[np.argsort(index)]
            np.testing.assert_array_equal(out, want)
            continue
        wrong = index.copy()
        wrong[37] = bad
        error = caught(engine, kernel, grid, x, wrong, out, 50, 16 if kernel is gather else 64)
        assert error.index == bad and error.argument == ("x" if kernel is gather else "out")
        assert error.program == ((2, 0, 0) if kernel is gather else (0, 0, 0))
        if kernel is scatter:
            assert not out.any(), "nothing is written by that access"


@triton.jit
def scalars(x, out, i, j, on):
    if on:
        tl.store(out + j, tl.load(x + i))
    tl.store(out, tl.load(x + i, mask=on != 0, other=7.0), mask=on == 0)


@pytest.mark.parametrize("engine", ENGINES)
def test_scalar_accesses(engine):
    x, out = np.arange(4, dtype=np.float64), np.zeros(4)
    launch(engine, scalars, (1,), x, out, 3, 2, 2)
    assert out.tolist() == [0, 0, 3, 0]
    launch(engine, scalars, (1,), x, out, 10**9, 10**9, 0)
    assert out[0] == 7
    assert caught(engine, scalars, (1,), x, out, 4, 2, 2).argument == "x"
    error = caught(engine, scalars, (1,), x, out, 3, -5, 2)
    assert (error.argument, error.index) == ("out", -5)


@triton.jit
def chosen(x, y, out, which, i):
    p = x if which == 2 else y
    tl.store(out, tl.load(p + i))


def test_a_pointer_of_one_of_several_arguments():
    x, y, out = np.full(4, 1.0), np.full(8, 2.0), np.zeros(1)
    for which, i, want in ((2, 3, 1), (3, 7, 2)):
        launch("cpu", chosen, (1,), x, y, out, which, i)
        assert out[0] == want
    caught("cpu", chosen, (1,), x, y, out, 3, 10**9)
    caught("cpu", chosen, (1,), x, y, out, 2, -(10**9))


@triton.jit
def matmul(a, b, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    m, n, k = tl.arange(0, BM), tl.arange(0, BN), tl.arange(0, BK)
    acc = tl.zeros((BM, BN), tl.float32)
    for start in range(0, K, BK):
        x = tl.load(a + m[:, None] * K + (start + k)[None, :])
        y = tl.load(b + (start + k)[:, None] * N + n[None, :])
        acc = tl.dot(x, y, acc, input_precision="ieee")
    tl.store(c + m[:, None] * N + n[None, :], acc)


@pytest.mark.parametrize("engine", ENGINES)
def test_operands_of_a_product(engine):
    a, b = np.ones((16, 32), np.float32), np.ones((32, 16), np.float32)
    c = np.zeros((16, 16), np.float32)
    launch(engine, matmul, (1,), a, b, c, 16, 16, 32, 16, 16, 16)
    assert (c == 32).all()
    assert caught(engine, matmul, (1,), a[:, :-1], b, c, 16, 16, 32, 16, 16, 16).argument == "a"
    assert caught(engine, matmul, (1,), a, b[:-1], c, 16, 16, 32, 16, 16, 16).argument == "b"
    assert caught(engine, matmul, (1,), a, b, c[:, 1:], 16, 16, 32, 16, 16, 16).argument == "c"


@triton.jit
def added(out, index, B: tl.constexpr):
    tl.atomic_add(out + tl.load(index + tl.arange(0, B)), 1)


@triton.jit
def added_one(out, i):
    tl.atomic_add(out + i, 1)


@pytest.mark.parametrize("engine", ENGINES)
def test_atomic_accesses(engine):
    out = np.zeros(10, np.int32)
    index = np.array([3, 4, 10, 3], np.int32)
    error = caught(engine, added, (1,), out, index, 4)
    assert (error.argument, error.index) == ("out", 10)
    if engine == "cpu":
        assert not out.any()
    assert caught(engine, added_one, (1,), out, -2).index == -2
    launch(engine, added_one, (1,), out, 9)
    assert out[9] == 1


@triton.jit
def helper(p, i):
    return tl.load(p + i)


@triton.jit
def caller(x, out, i):
    tl.store(out, helper(x, i))


def test_the_chain_of_calls_is_shown():
    x = np.zeros(4)
    text = str(caught("cpu", caller, (1,), x, x.copy(), 4))
    assert re.search(r"in helper:\n.*tl\.load\(p \+ i\)", text) and "called from" in text, text


@triton.jit
def element_loads(x, out, index, B: tl.constexpr):
    i = tl.arange(0, B)
    at = tl.load(index + i)
    deep = tl.load(x + at).to(tl.int32)
    tl.store(out + i, tl.load(x + deep, mask=at >= 0))


def test_a_gather_of_a_gather_is_tested_from_within():
    x, out = np.arange(8, dtype=np.float32), np.zeros(8, np.float32)
    index = np.arange(8, dtype=np.int32)[::-1].copy()
    launch("cpu", element_loads, (1,), x, out, index, 8)
    np.testing.assert_array_equal(out, x[::-1])
    x[3] = 1e6
    assert caught("cpu", element_loads, (1,), x, out, index, 8).index == 1_000_000
    index[2] = 2**30
    assert caught("cpu", element_loads, (1,), x, out, index, 8).index == 2**30


@triton.jit
def overflowing(x, out, stride, B: tl.constexpr):
    i = tl.arange(0, B)
    tl.store(out + i, tl.load(x + i * stride))


@pytest.mark.parametrize("stride", [2**59, 2**61, 2**62, -(2**62), 2**40 + 1, -(2**63) + 8])
def test_offsets_that_leave_64_bits_are_found(stride):
    """Lane 0 is in bounds, and spans that overflowed would look so too."""
    x, out = np.zeros(64), np.zeros(64)
    if stride % 2**61 == 0:     # 8-byte elements: every lane is at the same address again
        launch("cpu", overflowing, (1,), x, out, stride, 16)
    else:
        caught("cpu", overflowing, (1,), x, out, stride, 16)


@triton.jit
def first_lanes(x, out, stride, n, B: tl.constexpr):
    i = tl.arange(0, B)
    tl.store(out + i, tl.load(x + i * stride + 2 * i * stride, mask=i < n, other=0))


@pytest.mark.parametrize("stride", [7, 2**38, 2**45, 2**52, 2**56, 2**57])
def test_numbers_of_any_size_may_stand_where_no_lane_is_active(stride):
    """They may leave the range within which spans are computed, but only where the mask is false."""
    x, out = np.arange(1.0, 65.0), np.zeros(64)
    launch("cpu", first_lanes, (1,), x, out, stride, 1, 16)
    np.testing.assert_array_equal(out[:3], [1, 0, 0])
    if stride == 7:
        launch("cpu", first_lanes, (1,), x, out, stride, 4, 16)
        np.testing.assert_array_equal(out[:5], [1, 22, 43, 64, 0])
    else:
        error = caught("cpu", first_lanes, (1,), x, out, stride, 2, 16)
        assert error.index == 3 * stride and error.argument == "x"


@triton.jit
def looped_product(x, y, out, steps, B: tl.constexpr):
    i, row = tl.arange(0, B), tl.program_id(0) * B
    total = tl.zeros((B, B), dtype=tl.float32)
    for k in range(steps):
        a = tl.load(x + (row + i[:, None]) * steps * B + k * B + i[None, :])
        total = tl.dot(a, tl.load(y + (k * B + i[:, None]) * B + i[None, :]), total, input_precision="ieee")
    tl.store(out + (row + i[:, None]) * B + i[None, :], total)


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
@pytest.mark.parametrize("programs", [1, 5])
def test_operands_that_are_kept_packed_are_tested(programs, dtype):
    """Each launch tests the right operand's tiles, also those that a launch before has packed."""
    steps, b = 3, 32
    x, y = np.ones((programs * b, steps * b), dtype), np.ones(steps * b * b, dtype)
    out = np.zeros((programs * b, b), np.float32)
    for _ in range(2):
        launch("cpu", looped_product, (programs,), x, y, out, steps, b)
        assert (out == steps * b).all()
        for part, index in ((y[:-1], y.size - 1), (y[:2 * b * b - 3], 2 * b * b - 3)):
            error = caught("cpu", looped_product, (programs,), x, part, out, steps, b)
            assert (error.argument, error.index) == ("y", index)
        error = caught("cpu", looped_product, (programs,), x.reshape(-1)[:-1], y, out, steps, b)
        assert (error.argument, error.program) == ("x", (programs - 1, 0, 0))


@triton.jit
def wrapping_mask(x, out, start, n, B: tl.constexpr):
    i = start + tl.arange(0, B)
    j = i * 65536
    tl.store(out + tl.arange(0, B), tl.load(x + j, mask=j < n, other=0))


def test_a_mask_whose_numbers_wrap_does_not_hide_a_bad_address():
    """j is negative after it has wrapped, so the mask is true while the address is far away."""
    x, out = np.zeros(64), np.zeros(64)
    error = caught("cpu", wrapping_mask, (1,), x, out, 40000, 64, 16)
    assert error.argument == "x" and error.index not in error.elements


def test_a_knob_turns_the_tests_off():
    x, out = np.arange(300, dtype=np.float32), np.zeros(128, np.float32)
    part = x[:100]
    caught("cpu", copy, (1,), part, out, 128, 0, 128)
    with knobs.scope(check_bounds=False):
        launch("cpu", copy, (1,), part, out, 128, 0, 128)
    np.testing.assert_array_equal(out, x[:128])


class Opaque:
    """A tensor that tells nothing but its address and dtype."""

    def __init__(self, array):
        self.array, self.dtype = array, array.dtype

    def data_ptr(self):
        return self.array.ctypes.data


def test_a_view_of_a_larger_tensor():
    """What the error says helps: to pass the larger tensor, or to turn the tests off for the launch."""
    base, out = np.arange(1000, dtype=np.float32), np.zeros(128, np.float32)
    error = caught("cpu", copy, (1,), base[:64], out, 128, 0, 128)
    assert "a larger tensor that 'x' is a view of, pass that tensor, or launch within knobs.scope(check_bounds=False)" \
        in str(error)
    copy[(1,)](base, out, 128, 0, 128)
    np.testing.assert_array_equal(out, base[:128])
    out[:] = 0
    with knobs.scope(check_bounds=False):
        copy[(1,)](base[:64], out, 128, 0, 128)
    np.testing.assert_array_equal(out, base[:128])


def test_arguments_that_do_not_tell_their_extent_are_not_tested():
    x, out = np.arange(200, dtype=np.float32), np.zeros(128, np.float32)
    launch("cpu", copy, (1,), Opaque(x), Opaque(out), 128, 7, 128)
    np.testing.assert_array_equal(out, x[7:135])


@triton.jit
def indirect(table, out, n, B: tl.constexpr):
    i = tl.arange(0, B)
    p = tl.load(table).to(tl.pointer_type(tl.float32))
    tl.store(out + i, tl.load(p + i, mask=i < n), mask=i < n)


def test_pointers_out_of_memory_are_not_tested():
    x, out = np.arange(10, dtype=np.float32), np.zeros(16, np.float32)
    table = np.array([x.ctypes.data], np.int64)
    launch("cpu", indirect, (1,), table, out, 10, 16)
    np.testing.assert_array_equal(out[:10], x)


def test_the_portable_host_says_the_same():
    x, out = np.arange(1000, dtype=np.float32), np.zeros(1000, np.float32)
    with knobs.scope(host="portable", num_threads=2):
        assert caught("cpu", copy, (7,), x, out, 896, 105, 128).index == 1000


def test_many_violations_at_once_give_one_error():
    x, out = np.zeros(10, np.float32), np.zeros(128 * 4000, np.float32)
    error = caught("cpu", copy, (4000,), x, out, 128 * 4000, 0, 128)
    assert error.elements == range(10) and error.index in range(10, 128 * 4000)
    assert ctypes.sizeof(ctypes.c_void_p) == 8


def test_launches_by_native_code_are_tested():
    """Extents travel with each launch, also one that Python does not see."""
    x, out = np.arange(1000, dtype=np.float32), np.zeros(1000, np.float32)
    run = copy[(7,)]
    for _ in range(6):
        run(x, out, 896, 104, 128)
    for short in (x[:999], x[4:]):
        with pytest.raises(OutOfBoundsError) as info:
            run(short, out, 896, 104, 128)
        assert info.value.argument == "x" and info.value.program == (6, 0, 0)
        run(x, out, 896, 104, 128)
    np.testing.assert_array_equal(out[:896], x[104:])
    torch = pytest.importorskip("torch")
    t, o = torch.arange(1000.0), torch.zeros(1000)
    for _ in range(6):
        run(t, o, 896, 104, 128)
    with pytest.raises(OutOfBoundsError, match="element 999 of 'x', whose elements 0 to 998"):
        run(t[:999], o, 896, 104, 128)


@triton.jit
def only_element(x, out, i):
    one = tl.load(x + i + tl.arange(0, 1))
    tl.store(out, tl.reshape(one, ()))


@pytest.mark.parametrize("engine", ENGINES)
def test_a_tile_of_one_element_that_becomes_a_scalar(engine):
    x, out = np.arange(4, dtype=np.float64), np.zeros(1)
    launch(engine, only_element, (1,), x, out, 3)
    assert out[0] == 3
    assert caught(engine, only_element, (1,), x, out, 10**9).index == 10**9
