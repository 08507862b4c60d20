"""Barriers between accesses of a program's own memory: where they must be, and where none is needed."""

import numpy as np
import pytest

import tilewright as triton
import tilewright.language as tl
from tests.targets.nvidia.harness import compiled, laid_out, tile_ir
from tests.targets.nvidia.test_passes import CASES, ops_of
from tilewright.testing import engines


@triton.jit
def twice(x, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(x + i, tl.load(x + i) * 2)
    tl.store(x + i, tl.load(x + i) + 1)


@triton.jit
def reversed_in_place(x, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(x + (N - 1 - i), tl.load(x + i))


@triton.jit
def neighbours(x, K, N: tl.constexpr):
    i = tl.arange(0, N)
    for _ in range(K):
        right = tl.load(x + (i + 1) % N)
        tl.store(x + i, right)


@triton.jit
def scalars(x, K):
    for k in range(K):
        tl.store(x + k + 1, tl.load(x + k) + 1)


@triton.jit
def branches(x, flag, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(x + i, i)
    if tl.load(flag) > 0:
        y = tl.load(x + (N - 1 - i))
    else:
        y = i * 0
    tl.store(x + i, y)


@triton.jit
def parts(x, out, DISTANCE: tl.constexpr, N: tl.constexpr):
    first = tl.program_id(0) * 4 * DISTANCE + tl.arange(0, N)
    for_second = first + DISTANCE
    value = tl.load(x + tl.arange(0, N))
    tl.store(out + first, value)
    tl.store(out + for_second, value + 1)
    tl.store(out + (for_second + DISTANCE), value + 2)


@triton.jit
def spread_parts(out, N: tl.constexpr):
    """Other places, but no runs: the second element of the first part is the first one of the second."""
    i = tl.arange(0, N) * N
    tl.store(out + i, i)
    tl.store(out + (i + N), i + 1)


def barriers(kernel, *args, **constants):
    return len(ops_of(laid_out(tile_ir(kernel, *args, **constants)), "barrier"))


def test_one_thread_keeps_its_own_order():
    assert barriers(twice, np.zeros(1024, np.float32), N=1024) == 0


def test_a_tile_that_is_replicated_needs_barriers():
    """The copies read what only the owner stores."""
    assert barriers(twice, np.zeros(32, np.float32), N=32) > 0


def test_other_places():
    assert barriers(reversed_in_place, np.zeros(256, np.float32), N=256) == 1


@pytest.mark.parametrize(("distance", "count"), [(1024, 0), (1025, 0), (1023, 2), (512, 2)])
def test_parts_of_a_block(distance, count):
    x, out = np.arange(1024, dtype=np.float32), np.zeros(4096, np.float32)
    assert barriers(parts, x, out, DISTANCE=distance, N=1024) == count
    engines.launch("ptx", parts, (1,), x, out, DISTANCE=distance, N=1024)
    seen = min(distance, 1024)      # of a part, before the next one
    np.testing.assert_array_equal(out[:seen], x[:seen])
    np.testing.assert_array_equal(out[distance:distance + seen], x[:seen] + 1)
    np.testing.assert_array_equal(out[2 * distance:2 * distance + 1024], x + 2)


def test_parts_that_are_no_runs():
    out = np.zeros(64 * 65, np.int32)
    assert barriers(spread_parts, out, N=64) == 1
    engines.launch("ptx", spread_parts, (1,), out, N=64)
    assert list(out[64::64]) == [64 * k + 1 for k in range(64)]


def test_a_loop_carries_its_accesses_round():
    assert barriers(neighbours, np.zeros(256, np.float32), 3, N=256) == 2


@pytest.mark.parametrize("name", ["add", "softmax"])
def test_no_barrier_where_nothing_overlaps(name):
    kernel, _, args, constants = CASES[name]
    assert barriers(kernel, *args, **constants) == 0


@pytest.mark.parametrize("n", [1, 7, 32, 256, 1000])
def test_values(n):
    """With the machine's checks of races on."""
    x = np.arange(n, dtype=np.float32)
    for kernel, expected in ((twice, x * 2 + 1), (reversed_in_place, x[::-1])):
        y = x.copy()
        engines.launch("ptx", kernel, (1,), y, N=n)
        np.testing.assert_array_equal(y, expected)
    y = x.copy()
    engines.launch("ptx", neighbours, (1,), y, 3, N=n)
    np.testing.assert_array_equal(y, np.roll(x, -3))


def test_scalars():
    x = np.zeros(9, np.int32)
    engines.launch("ptx", scalars, (1,), x, 8)
    assert x.tolist() == list(range(9))


@pytest.mark.parametrize("flag", [0, 1])
def test_branches(flag):
    x = np.zeros(64, np.int32)
    engines.launch("ptx", branches, (1,), x, np.array([flag], np.int32), N=64)
    assert x.tolist() == [(63 - k) * flag for k in range(64)]


@triton.jit
def waits(flag, out):
    pid = tl.program_id(0)
    while tl.load(flag, volatile=True) != pid:
        pass
    tl.store(out + pid, pid)
    tl.atomic_xchg(flag, pid + 1)


def test_one_thread_reads_a_flag_for_all():
    flag, out = np.zeros(1, np.int32), np.zeros(4, np.int32)
    engines.launch("ptx", waits, (4,), flag, out)
    assert out.tolist() == [0, 1, 2, 3]
    ptx = compiled(tile_ir(waits, flag, out)).texts["ptx"]
    load = next(line for line in ptx.splitlines() if "ld.volatile.global" in line)
    assert load.strip().startswith("@")


@triton.jit
def steps(x, n, BY: tl.constexpr, N: tl.constexpr):
    """Each iteration's run begins BY places behind the one before."""
    i = tl.arange(0, N)
    for j in range(0, n, BY):
        tl.store(x + i + j, j)


@triton.jit
def pointer_steps(x, n, BY: tl.constexpr, N: tl.constexpr):
    p = x + tl.arange(0, N)
    for j in range(0, n, BY):
        tl.store(p, j)
        p += BY


@triton.jit
def rows_of_run_time_strides(x, stride, rows, n, N: tl.constexpr):
    """The inner loop's runs are apart; rows may overlap."""
    i = tl.arange(0, N)
    for row in range(rows):
        for j in range(0, n, N):
            tl.store(x + row * stride + (i + j), row * 1000 + j)


@triton.jit
def sums_in_place(x, n, BY: tl.constexpr, N: tl.constexpr):
    i = tl.arange(0, N)
    for j in range(0, n, BY):
        tl.store(x + i + j, tl.load(x + i + j) + 1)


@triton.jit
def until(x, n, BY: tl.constexpr, N: tl.constexpr):
    i, j = tl.arange(0, N), 0
    while j < n:
        tl.store(x + i + j, j)
        j += BY


@pytest.mark.parametrize("kernel", [steps, pointer_steps, sums_in_place, until])
@pytest.mark.parametrize(("by", "needed"), [(256, 0), (257, 0), (255, 1), (1, 1)])
def test_iterations_that_touch_the_same_places(kernel, by, needed):
    """A store through a pointer that a loop changes: the later iteration's number stays, whichever thread writes it."""
    N, n = 256, 7 * by
    x = np.zeros(7 * by + N, np.int32)
    found = barriers(kernel, x, n, BY=by, N=N)
    assert found == (1 if kernel is until else needed)      # of a `while` nobody knows by how much it advances
    expected = x.copy()
    for j in range(0, n, by):
        expected[j:j + N] = expected[j:j + N] + 1 if kernel is sums_in_place else j
    engines.launch("ptx", kernel, (1,), x, n, BY=by, N=N)
    np.testing.assert_array_equal(x, expected)


@pytest.mark.parametrize("stride", [1, 100, 1024])
def test_a_barrier_is_at_the_end_of_the_loop_that_needs_it(stride):
    x = np.zeros(2048 + 4 * stride, np.int32)
    module = laid_out(tile_ir(rows_of_run_time_strides, x, stride, 3, 1024, N=256))
    outer = next(op for op in module.entry.body.ops if op.name == "for")
    inner = next(op for op in outer.regions[0].ops if op.name == "for")
    assert [op.name for op in outer.regions[0].ops].count("barrier") == 1
    assert "barrier" not in [op.name for op in inner.regions[0].ops]
    expected = x.copy()
    for row in range(3):
        expected[row * stride:row * stride + 1024] = row * 1000 + np.arange(1024) // 256 * 256
    engines.launch("ptx", rows_of_run_time_strides, (1,), x, stride, 3, 1024, N=256)
    np.testing.assert_array_equal(x, expected)
