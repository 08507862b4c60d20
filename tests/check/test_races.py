"""Two programs that touch one element: what is a race, and what atomics put in order."""

import numpy as np
import pytest

import tilewright as triton
import tilewright.language as tl
from tests.check.planted import finds, passes
from tilewright import DataRaceError


def zeros(n, dtype=np.float32):
    return np.zeros(n, dtype)


@triton.jit
def all_to_one(out):
    tl.store(out, tl.program_id(0))  # here


@triton.jit
def sums_without_atomics(x, out, B: tl.constexpr):
    offs = tl.program_id(0) * B + tl.arange(0, B)
    total = tl.load(out)  # other
    tl.store(out, total + tl.sum(tl.load(x + offs)))  # here


@triton.jit
def overlapping_blocks(out, STEP: tl.constexpr, B: tl.constexpr):
    pid = tl.program_id(0)
    tl.store(out + pid * STEP + tl.arange(0, B), pid * 1.0)  # here


@triton.jit
def reads_the_neighbour(x, B: tl.constexpr):
    offs = tl.program_id(0) * B + tl.arange(0, B)
    v = tl.load(x + offs + 1)  # other
    tl.store(x + offs, v)  # here


@triton.jit
def reads_what_others_wrote(x, out):
    pid = tl.program_id(0)
    tl.store(x + pid, pid)  # other
    tl.store(out + pid, tl.load(x + (pid + 1) % tl.num_programs(0)))  # here


@triton.jit
def transposes_in_place(x, N: tl.constexpr, B: tl.constexpr):
    m = tl.program_id(0) * B + tl.arange(0, B)
    n = tl.program_id(1) * B + tl.arange(0, B)
    v = tl.load(x + m[:, None] * N + n[None, :])  # other
    tl.store(x + n[:, None] * N + m[None, :], tl.trans(v))  # here


@triton.jit
def adds_and_reads(count, out):
    tl.atomic_add(count, 1)  # other
    tl.store(out + tl.program_id(0), tl.load(count))  # here


@triton.jit
def adds_and_stores(count):
    if tl.program_id(0) == 3:
        tl.store(count, 0)  # other
    tl.atomic_add(count, 1)  # here


@triton.jit
def stores_after_adding(count):
    tl.atomic_add(count, 1)  # other
    if tl.program_id(0) == 3:
        tl.store(count, 0)  # here


@triton.jit
def histogram_without_atomics(x, out, B: tl.constexpr):
    at = tl.load(x + tl.program_id(0) * B + tl.arange(0, B))
    tl.store(out + at, tl.load(out + at) + 1)  # here


@triton.jit
def forgets_an_axis(out, N: tl.constexpr):
    tl.store(out + tl.program_id(0) * N + tl.arange(0, N), tl.program_id(1))  # here


@triton.jit
def scatters(places, out, B: tl.constexpr):
    offs = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(out + tl.load(places + offs), offs)  # here


@triton.jit
def halves(out, n):
    pid = tl.program_id(0)
    for i in range(n):
        tl.store(out + (pid + i) // 2, pid * 10 + i)  # here


@triton.jit
def narrow_into_wide(words, out):
    pid = tl.program_id(0)
    if pid == 0:
        tl.store(words, 7)  # here
    tl.store(out + pid, pid.to(tl.int8))  # here


@triton.jit
def last_one_sums(x, parts, count, out, n, SEM: tl.constexpr):
    pid = tl.program_id(0)
    tl.store(parts + pid, tl.load(x + pid) * 2)  # other
    if tl.atomic_add(count, 1, sem=SEM) == n - 1:
        total = 0.0
        for i in range(n):
            total += tl.load(parts + i)  # here
        tl.store(out, total)


@triton.jit
def locked(lock, total, SEM: tl.constexpr):
    while tl.atomic_cas(lock, 0, 1, sem=SEM) == 1:
        pass
    tl.store(total, tl.load(total) + tl.program_id(0))  # here
    tl.atomic_xchg(lock, 0)


@triton.jit
def wrong_lock(locks, total):
    pid = tl.program_id(0)
    while tl.atomic_cas(locks + pid % 2, 0, 1) == 1:
        pass
    tl.store(total, tl.load(total) + pid + 1)  # here
    tl.atomic_xchg(locks + pid % 2, 0)


@triton.jit
def passes_on(x, flags):
    pid = tl.program_id(0)
    if pid > 0:
        while tl.atomic_add(flags + pid - 1, 0) == 0:
            pass
        tl.store(x + pid, tl.load(x + pid - 1) + 1)
    tl.atomic_xchg(flags + pid, 1)


@triton.jit
def raises_the_flag_first(x, flags):
    pid = tl.program_id(0)
    tl.atomic_xchg(flags + pid, 1)
    if pid > 0:
        while tl.atomic_add(flags + pid - 1, 0) == 0:
            pass
        tl.store(x + pid, tl.load(x + pid - 1) + 1)  # here


@triton.jit
def flag_and_sum(x, out, total, B: tl.constexpr):
    offs = tl.program_id(0) * B + tl.arange(0, B)
    v = tl.load(x + offs)
    if tl.sum(v) > 0:
        tl.store(out, 1)
    tl.atomic_add(total, tl.sum(v))


def test_all_programs_store_in_one_element():
    error = finds(DataRaceError, all_to_one, (3,), zeros(1, np.int32), argument="out", index=0)
    assert error.finding.others[0][1].line == error.location.line


def test_a_sum_without_atomics():
    finds(DataRaceError, sums_without_atomics, (4,), np.ones(32, np.float32), zeros(1), B=8, argument="out", index=0,
          says="has read in the same launch")


def test_blocks_that_overlap():
    finds(DataRaceError, overlapping_blocks, (3,), zeros(64), STEP=15, B=16, argument="out", index=15,
          says="stored something else")
    passes(overlapping_blocks, (4,), zeros(64), STEP=16, B=16)


def test_a_shift_in_place():
    finds(DataRaceError, reads_the_neighbour, (4,), np.arange(33, dtype=np.float32), B=8, argument="x", index=8)


def test_reading_what_another_program_wrote():
    finds(DataRaceError, reads_what_others_wrote, (4,), zeros(4, np.int32), zeros(4, np.int32), argument="x")


def test_a_transposition_in_place():
    finds(DataRaceError, transposes_in_place, (2, 2), np.arange(256, dtype=np.float32), N=16, B=8, argument="x")
    passes(transposes_in_place, (1, 1), np.arange(256, dtype=np.float32), N=16, B=16)


def test_a_counter_that_is_read_plainly():
    finds(DataRaceError, adds_and_reads, (4,), zeros(1, np.int32), zeros(4, np.int32), argument="count",
          says="atomically changed")


def test_a_counter_that_is_reset_plainly():
    finds(DataRaceError, adds_and_stores, (8,), zeros(1, np.int32), argument="count", says="has stored to")
    finds(DataRaceError, stores_after_adding, (8,), zeros(1, np.int32), argument="count", program=(3, 0, 0))


def test_a_histogram_without_atomics():
    finds(DataRaceError, histogram_without_atomics, (2,), np.arange(16, dtype=np.int32) % 8, zeros(8, np.int32), B=8,
          argument="out")


def test_a_grid_axis_that_is_forgotten():
    finds(DataRaceError, forgets_an_axis, (2, 3), zeros(16, np.int32), N=8, argument="out")
    passes(forgets_an_axis, (2, 1), zeros(16, np.int32), N=8)


def test_a_scatter_with_equal_places():
    finds(DataRaceError, scatters, (2,), np.array([0, 1, 2, 3, 4, 1, 6, 7], np.int32), zeros(8, np.int32), B=4,
          argument="out", index=1)
    passes(scatters, (2,), np.array([0, 0, 2, 3, 4, 5, 6, 6], np.int32), zeros(8, np.int32), B=4)


def test_in_a_loop():
    finds(DataRaceError, halves, (4,), zeros(8, np.int32), 3, argument="out")
    passes(halves, (1,), zeros(8, np.int32), 3)


def test_arguments_that_share_memory():
    words = zeros(4, np.int32)
    finds(DataRaceError, narrow_into_wide, (2,), words, words.view(np.int8)[2:], argument="out", index=1)
    passes(narrow_into_wide, (2,), words, zeros(8, np.int8))


@pytest.mark.parametrize("sem", ["relaxed", "release", "acquire"])
def test_a_counter_that_orders_nothing(sem):
    finds(DataRaceError, last_one_sums, (5,), np.ones(5, np.float32), zeros(5), zeros(1, np.int32), zeros(1), 5,
          SEM=sem, argument="parts")


def test_the_last_program_sums():
    passes(last_one_sums, (5,), np.ones(5, np.float32), zeros(5), zeros(1, np.int32), zeros(1), 5, SEM="acq_rel")


def test_a_lock():
    passes(locked, (6,), zeros(1, np.int32), zeros(1, np.int32), SEM="acq_rel")
    finds(DataRaceError, locked, (6,), zeros(1, np.int32), zeros(1, np.int32), SEM="relaxed", argument="total")


def test_two_locks_for_one_element():
    finds(DataRaceError, wrong_lock, (4,), zeros(2, np.int32), zeros(1, np.int32), argument="total")


def test_a_chain_of_programs():
    passes(passes_on, (6,), zeros(6), zeros(6, np.int32))
    finds(DataRaceError, raises_the_flag_first, (6,), zeros(6), zeros(6, np.int32), argument="x")


def test_equal_bits_by_all_programs_are_no_race():
    passes(flag_and_sum, (4,), np.ones(32, np.int32), zeros(1, np.int32), zeros(1, np.int32), B=8)


def test_many_programs_in_several_batches():
    """The marks outlive a batch of programs."""
    finds(DataRaceError, overlapping_blocks, (4000,), zeros(4000 * 1023 + 1), STEP=1023, B=1024, argument="out")
    passes(overlapping_blocks, (4000,), zeros(4000 * 1024), STEP=1024, B=1024)
