"""Public bug reports about atomics, masks, order of memory, broadcasting: tests on every engine.

Numbers in names are the issue numbers at triton-lang/triton; the kernels are our own, written from the reports.
"""

import numpy as np
import pytest

import tilewright as triton
import tilewright.language as tl
from tests.departures import differs


@triton.jit
def atomic_row_max(out, x, N: tl.constexpr):
    r = tl.program_id(0)
    tl.atomic_max(out + r, tl.max(tl.load(x + r * N + tl.arange(0, N)), axis=0))


@triton.jit
def atomic_kinds(total, low, high, old_low, x, N: tl.constexpr):
    i = tl.arange(0, N)
    v = tl.load(x + i)
    tl.atomic_add(total + i * 0, v)
    tl.atomic_max(high + i * 0, v)
    tl.store(old_low + i, tl.atomic_min(low + i, v))


@triton.jit
def atomics_broadcast(out, R: tl.constexpr, X: tl.constexpr):
    columns = tl.arange(0, R)[None, :]
    rows = tl.arange(0, X)[:, None]
    tl.atomic_add(out + columns, rows + columns * 10, mask=rows < 2)


@triton.jit
def swap_float(out, old, expected, value):
    tl.store(old, tl.atomic_cas(out, expected, value))


@triton.jit
def stencil(out, x, H: tl.constexpr, W: tl.constexpr):
    i = tl.arange(0, H)[:, None]
    j = tl.arange(0, W)[None, :]
    acc = tl.zeros((H, W), tl.float32)
    for di in tl.static_range(-1, 2):
        for dj in tl.static_range(-1, 2):
            inside = (i + di >= 0) & (i + di < H) & (j + dj >= 0) & (j + dj < W)
            v = tl.load(x + (i + di) * W + j + dj, mask=inside)
            acc += tl.where(inside, v, 0.0)
    tl.store(out + i * W + j, acc)


@triton.jit
def row_through_memory(scratch, out, flags, B: tl.constexpr):
    i = tl.arange(0, B)[:, None]
    j = tl.arange(0, B)[None, :]
    row = tl.zeros((1, B), tl.int32) + tl.program_id(0) + 7
    f = tl.load(flags + i * B + j).to(tl.int32)
    tl.store(scratch + i * B + j, row)
    back = tl.load(scratch + i * B + j)
    tl.store(out + i * B + j, back + f * 0)


@triton.jit
def store_then_load_flattened(buffer, diff, n, B: tl.constexpr):
    i = tl.arange(0, B)
    for k in tl.range(0, n, num_stages=2, flatten=True):
        value = i * 1.0 + k
        tl.store(buffer + i, value)
        tl.store(diff + k * B + i, tl.load(buffer + i) - value)


@triton.jit
def indexed_store_in_pipeline(out, table, n, always):
    for i in tl.range(0, n, num_stages=2):
        at = tl.load(table + i)
        if always > 0:
            tl.store(out + at, i + 1)


@triton.jit
def row_per_program(y, a, x, other, always, N: tl.constexpr):
    r = tl.program_id(0)
    j = tl.arange(0, N)
    if always > 0:
        tl.store(other + j, j, mask=(r == 0) & (j < N))
    v = tl.sum(tl.load(a + r * N + j) * tl.load(x + j), axis=0)
    if always > 0:
        tl.store(other + j, j + 1, mask=(r == 0) & (j < N))
    tl.store(y + r, v)


@triton.jit
def conditional_masked_store(out, x, n, flag, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    v = tl.load(x + i, mask=i < n, other=0.0)
    if flag > 0:
        tl.store(out + i, v * 2, mask=i < n)


@triton.jit
def in_place_scale(x, s, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(x + i, tl.load(x + i, mask=i < n) * s, mask=i < n)


@triton.jit
def spin(lock, count):
    while tl.atomic_cas(lock, 0, 1) == 1:
        pass
    tl.store(count, tl.load(count) + 1)
    tl.atomic_xchg(lock, 0)


@differs("`atomic_max` and `atomic_min` of floats order zeros and ignore NaNs")
def test_6376_atomic_max_of_minus_zero(launch):
    lowest = np.finfo(np.float32).min
    x, out = np.array([[-0.0, lowest], [-1, -4]], np.float32), np.full(2, lowest, np.float32)
    launch(atomic_row_max, (2,), out, x, N=2)
    assert out.tolist() == [0.0, -1.0]


@pytest.mark.parametrize("dtype", [np.int32, np.uint32, np.int64, np.uint64, np.float32, np.float64])
def test_2355_atomics_of_all_types(launch, dtype):
    rng = np.random.default_rng(0)
    x = rng.integers(0 if np.issubdtype(dtype, np.unsignedinteger) else -99, 99, 32).astype(dtype)
    total, high = np.zeros(1, dtype), np.full(1, 5, dtype)
    low, old = np.full(32, 10, dtype), np.zeros(32, dtype)
    launch(atomic_kinds, (1,), total, low, high, old, x, N=32)
    assert total[0] == x.sum() and high[0] == max(5, x.max())
    np.testing.assert_array_equal(low, np.minimum(x, dtype(10)))
    assert (old == 10).all()


@differs("Operands of memory operations broadcast to one another")
def test_10896_atomics_broadcast_as_loads_do(launch):
    out = np.zeros(8, np.int32)
    launch(atomics_broadcast, (1,), out, R=8, X=4)
    assert out.tolist() == [2 * 10 * j + 1 for j in range(8)]


@differs("`atomic_cas` converts its operands and compares bits")
@pytest.mark.parametrize("held,swapped", [(1.5, True), (2.0, False)])
def test_9116_compare_and_swap_of_floats(launch, held, swapped):
    out, old = np.full(1, held, np.float32), np.zeros(1, np.float32)
    launch(swap_float, (1,), out, old, 1.5, 9.0)
    assert (old[0], out[0]) == (held, 9.0 if swapped else held)


@differs("A masked lane without `other` is zero")
@pytest.mark.parametrize("dtype", [np.float16, np.float32])
def test_737_masked_lanes_do_not_leak(launch, dtype):
    x = np.random.default_rng(0).integers(-9, 9, (8, 8)).astype(dtype)
    out = np.zeros((8, 8), np.float32)
    launch(stencil, (1,), out, x, H=8, W=8)
    padded = np.pad(x.astype(np.float32), 1)
    np.testing.assert_array_equal(out, sum(padded[i:i + 8, j:j + 8] for i in range(3) for j in range(3)))


@differs("Memory is accessed in program order")
def test_7957_a_row_through_memory(launch):
    scratch, out, flags = np.zeros((16, 16), np.int32), np.zeros((16, 16), np.int32), np.ones((16, 16), np.bool_)
    launch(row_through_memory, (1,), scratch, out, flags, B=16)
    assert (out == 7).all()


@differs("Memory is accessed in program order")
def test_8259_load_of_what_was_stored_in_a_pipelined_loop(launch):
    buffer, diff = np.zeros(32, np.float32), np.ones((5, 32), np.float32)
    launch(store_then_load_flattened, (1,), buffer, diff, 5, B=32)
    assert (diff == 0).all()


def test_8139_data_dependent_stores_in_a_pipelined_loop(launch):
    table = np.random.default_rng(0).permutation(32).astype(np.int32)
    out = np.zeros(32, np.int32)
    launch(indexed_store_in_pipeline, (1,), out, table, 32, 1)
    assert out[table].tolist() == list(range(1, 33))


def test_11153_stores_of_one_program_beside_a_sum(launch):
    y, other = np.zeros(4, np.float32), np.zeros(4, np.int32)
    launch(row_per_program, (4,), y, np.ones((4, 4), np.float32), np.ones(4, np.float32), other, 1, N=4)
    assert y.tolist() == [4.0] * 4 and other.tolist() == [1, 2, 3, 4]


@pytest.mark.parametrize("block", [64, 512, 1024])
@pytest.mark.parametrize("flag", [0, 1])
def test_11148_conditional_masked_store(launch, block, flag):
    x, out = np.arange(1500, dtype=np.float32), np.zeros(1500, np.float32)
    launch(conditional_masked_store, (triton.cdiv(1500, block),), out, x, 1500, flag, B=block)
    np.testing.assert_array_equal(out, x * 2 * flag)


@differs("Tuning keeps its hands off the data")
def test_6547_a_tuned_kernel_in_place_is_applied_once():
    tuned = triton.autotune([triton.Config({"B": 32}), triton.Config({"B": 64}), triton.Config({"B": 128})],
                            key=["n"])(in_place_scale)
    x = np.arange(100, dtype=np.float32)
    for times in (1, 2, 3):
        tuned[lambda meta: (triton.cdiv(100, meta["B"]),)](x, 2.0, 100)
        np.testing.assert_array_equal(x, np.arange(100, dtype=np.float32) * 2**times)


def test_a_lock_taken_by_compare_and_swap_ends(launch):
    lock, count = np.zeros(1, np.int32), np.zeros(1, np.int32)
    launch(spin, (16,), lock, count)
    assert (lock[0], count[0]) == (0, 16)
