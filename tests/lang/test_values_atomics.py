"""Atomics on every engine: old values, types, masks, broadcasting, locks; programs run on many threads on the CPU."""

import numpy as np
import pytest

import tilewright as triton
import tilewright.language as tl
from tests.departures import differs


@triton.jit
def add(x, old, v, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    found = tl.atomic_add(x + i % n, tl.load(v + i), mask=i % 3 != 1)
    tl.store(old + i, found)


@triton.jit
def every_kind(x, old, v, N: tl.constexpr, KIND: tl.constexpr):
    i = tl.arange(0, N)
    p, w, m = x + i, tl.load(v + i), i != 2
    if KIND == "max":
        found = tl.atomic_max(p, w, mask=m)
    elif KIND == "min":
        found = tl.atomic_min(p, w, mask=m, sem="relaxed", scope="cta")
    elif KIND == "and":
        found = tl.atomic_and(p, w, mask=m)
    elif KIND == "or":
        found = tl.atomic_or(p, w, m)
    elif KIND == "xor":
        found = p.atomic_xor(w, mask=m)
    elif KIND == "xchg":
        found = tl.atomic_xchg(p, w, mask=m, sem="acquire")
    else:
        found = tl.atomic_add(p, w, mask=m, sem="release")
    tl.store(old + i, found)


@triton.jit
def cas(x, old, expected, new, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(old + i, tl.atomic_cas(x + i, tl.load(expected + i), tl.load(new + i)))


@triton.jit
def count_all(out, x, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    tl.atomic_add(out, tl.sum(tl.load(x + i)))
    tl.atomic_add(out + 1, 1.0)
    tl.atomic_max(out + 2, tl.max(tl.load(x + i)))


@triton.jit
def row_max(out, x, M: tl.constexpr, N: tl.constexpr):
    r = tl.max(tl.load(x + tl.arange(0, M)[:, None] * N + tl.arange(0, N)[None, :]), axis=1)
    tl.atomic_max(out + tl.arange(0, M), r)


@triton.jit
def broadcast_all_ways(x, M: tl.constexpr, N: tl.constexpr):
    rows, cols = tl.arange(0, M)[:, None], tl.arange(0, N)[None, :]
    tl.atomic_add(x + cols, rows + cols, mask=rows > 0)
    tl.atomic_add(x + rows * N + cols, 100)


@triton.jit
def locked(x, lock, B: tl.constexpr):
    while tl.atomic_cas(lock, 0, 1) == 1:
        pass
    i = tl.arange(0, B)
    tl.store(x + i, tl.load(x + i) * 2 + 1)
    tl.debug_barrier()
    tl.atomic_xchg(lock, 0)


@triton.jit
def in_turn(x, turn, B: tl.constexpr):
    pid = tl.program_id(0)
    while tl.atomic_add(turn, 0) != pid:
        pass
    i = tl.arange(0, B)
    before = tl.load(x + i)
    tl.store(x + i, before * 3 + pid)
    tl.atomic_xchg(turn, pid + 1)


@triton.jit
def wait_on_volatile(x, flags):
    pid = tl.program_id(0)
    if pid > 0:
        while tl.load(flags + pid - 1, volatile=True) == 0:
            pass
        seen = tl.atomic_load(x + pid - 1)
    else:
        seen = 0
    tl.atomic_store(x + pid, seen + pid)
    tl.atomic_xchg(flags + pid, 1)


@triton.jit
def last_one_sums(out, parts, counter, x, B: tl.constexpr, G: tl.constexpr):
    pid = tl.program_id(0)
    tl.store(parts + pid, tl.sum(tl.load(x + pid * B + tl.arange(0, B))))
    if tl.atomic_add(counter, 1) == G - 1:
        tl.store(out, tl.sum(tl.load(parts + tl.arange(0, G))))


@triton.jit
def loads_stay_before(out, x, flag, B: tl.constexpr):
    i = tl.arange(0, B)
    v = tl.load(x + i)
    tl.atomic_xchg(flag, 0)
    tl.atomic_add(x + B - 1 - i, 10)
    again = tl.load(x + i)
    tl.store(out + i, v)
    tl.store(out + B + i, again)


INTS = [np.int32, np.int64, np.uint32, np.uint64]
FLOATS = [np.float32, np.float64]
KINDS = {"max": np.maximum, "min": np.minimum, "and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor,
         "add": np.add, "xchg": lambda a, b: b}


@pytest.mark.parametrize("dtype", [*INTS, np.float16, np.float32, np.float64])
def test_add_to_shared_elements(launch, dtype):
    """Each lane counts once, and the old values are those of some order of all lanes."""
    rng = np.random.default_rng(1)
    programs, block, n = 5, 37, 11
    v = rng.integers(1, 5, programs * block).astype(dtype)
    start = rng.integers(0, 50, n).astype(dtype)
    x, old = start.copy(), np.full(v.size, 7, dtype)
    launch(add, (programs,), x, old, v, n, B=block)
    lanes = np.arange(v.size)
    on = lanes % 3 != 1
    want = start.astype(np.int64)
    np.add.at(want, (lanes % n)[on], v[on].astype(np.int64))
    np.testing.assert_array_equal(x, want.astype(dtype))
    assert not old[~on].any()
    for slot in range(n):
        mine = np.flatnonzero(on & (lanes % n == slot))
        steps = sorted((old[i], old[i] + v[i]) for i in mine)
        assert steps[0][0] == start[slot] and steps[-1][1] == x[slot]
        assert all(a[1] == b[0] for a, b in zip(steps, steps[1:]))


@pytest.mark.parametrize("kind, dtype", [*((k, t) for k in KINDS for t in INTS),
                                         *((k, t) for k in ("max", "min", "add", "xchg") for t in FLOATS)])
def test_kinds(launch, kind, dtype):
    """Traps D20: every type, and the old value as that type."""
    function = KINDS[kind]
    rng = np.random.default_rng(2)
    raw = rng.integers(0, 256, (2, 19, np.dtype(dtype).itemsize), dtype=np.uint8)
    x, v = raw.view(dtype)[..., 0] if np.dtype(dtype).kind != "f" else rng.standard_normal((2, 19)).astype(dtype)
    x, v = x.copy(), v.copy()
    start, old = x.copy(), np.ones_like(x)
    launch(every_kind, (1,), x, old, v, N=19, KIND=kind)
    keep = np.arange(19) != 2
    np.testing.assert_array_equal(x, np.where(keep, function(start, v), start))
    np.testing.assert_array_equal(old, np.where(keep, start, 0))


def test_bfloat16_add(launch):
    torch = pytest.importorskip("torch")
    x, v = torch.full((7,), 1.5, dtype=torch.bfloat16), torch.arange(19, dtype=torch.bfloat16)
    old = torch.zeros(19, dtype=torch.bfloat16)
    launch(add, (1,), x, old, v, 7, B=19)
    want = torch.full((7,), 1.5)
    for i in range(19):
        want[i % 7] += i if i % 3 != 1 else 0
    assert x.tolist() == want.to(torch.bfloat16).tolist()


@differs("`atomic_max` and `atomic_min` of floats order zeros and ignore NaNs", topic="Memory",
         peer="They are done on the bits as integers, which can take -0.0 for less than every number.",
         ours="-0.0 is less than +0.0 and greater than all negative numbers; a NaN never replaces a number.")
def test_max_with_negative_zero(launch):
    """Traps D18."""
    low = np.finfo(np.float32).min
    x = np.array([[-0.0, low], [-1, -4]], np.float32)
    out = np.full(2, low, np.float32)
    launch(row_max, (1,), out, x, M=2, N=2)
    assert out.tolist() == [0.0, -1.0]
    signs = np.array([-0.0, 0.0, -0.0, np.nan, 1.0], np.float32)
    values = np.array([0.0, -0.0, -1.0, 2.0, np.nan], np.float32)
    old = np.zeros(5, np.float32)
    signs[2], values[2] = -1.0, -0.0
    keep = signs.copy()
    launch(every_kind, (1,), signs, old, values, N=5, KIND="max")
    assert np.signbit(signs).tolist() == [False, False, True, False, False]     # the masked lane 2 kept its -1
    assert signs[3] == 2.0 and signs[4] == 1.0 and keep[2] == signs[2]


@differs("`atomic_cas` converts its operands and compares bits", topic="Memory",
         peer="`cmp` and `val` must have the element type and the full shape; floats are refused, or end the process.",
         ours="They are converted and broadcast as in the other atomics. Elements of 16, 32 and 64 bits, floats too, "
              "are compared bit by bit: a NaN may match, 0.0 does not match -0.0.")
@pytest.mark.parametrize("dtype", [np.int16, np.int32, np.uint64, np.float16, np.float32, np.float64])
def test_cas(launch, dtype):
    """Traps D23: bits are compared, so a NaN matches itself and -0 does not match +0."""
    x = np.array([1, 2, 3, 0, 0, 9], dtype)
    expected = np.array([1, 5, 3, 0, 1, 9], dtype)
    if np.dtype(dtype).kind == "f":
        x[3:6] = [np.nan, 0.0, -0.0]
        expected[3:6] = [np.nan, -0.0, -0.0]
    new = np.arange(10, 16).astype(dtype)
    before, old = x.copy(), np.zeros_like(x)
    launch(cas, (1,), x, old, expected, new, N=6)
    bits = f"u{x.itemsize}"
    np.testing.assert_array_equal(old.view(bits), before.view(bits))
    same = before.view(bits) == expected.view(bits)
    np.testing.assert_array_equal(x.view(bits), np.where(same, new, before).view(bits))


def test_scalar_atomics_from_many_programs(launch):
    """Traps A1: a sum is added once a program."""
    x = np.random.default_rng(3).integers(-50, 50, 64 * 64).astype(np.float32)
    out = np.array([0, 0, -1000], np.float32)
    launch(count_all, (64,), out, x, B=64)
    assert out.tolist() == [x.sum(), 64, x.max()]


@differs("Operands of memory operations broadcast to one another")
def test_mutual_broadcasting(launch):
    """Traps D22."""
    x = np.zeros((4, 8), np.int32)
    launch(broadcast_all_ways, (1,), x, M=4, N=8)
    want = np.full((4, 8), 100)
    want[0] += sum(r + np.arange(8) for r in range(1, 4))
    np.testing.assert_array_equal(x, want)


def test_spin_lock(launch):
    x, lock = np.zeros(37, np.int32), np.zeros(1, np.int32)
    launch(locked, (20,), x, lock, B=37)
    assert (x == 2**20 - 1).all() and lock[0] == 0


@differs("A program may wait for programs of lower ids", topic="Launching and tuning",
         peer="No order of programs is promised; in practice those that run at once may wait for one another.",
         ours="Programs start in ascending order, so waiting for a lower id ends; waiting for a higher one may not.")
def test_programs_wait_for_lower_ones(launch):
    x, turn = np.ones(16, np.int64), np.zeros(1, np.int32)
    launch(in_turn, (20,), x, turn, B=16)
    want = 1
    for pid in range(20):
        want = want * 3 + pid
    assert (x == want).all() and turn[0] == 20


def test_flags_read_by_volatile_loads(launch):
    x, flags = np.zeros(30, np.int32), np.zeros(30, np.int32)
    launch(wait_on_volatile, (30,), x, flags)
    np.testing.assert_array_equal(x, np.cumsum(np.arange(30)))


def test_the_last_program_sees_all_parts(launch):
    x = np.arange(16 * 32, dtype=np.float32)
    out, parts, counter = np.zeros(1, np.float32), np.zeros(16, np.float32), np.zeros(1, np.int32)
    launch(last_one_sums, (16,), out, parts, counter, x, B=32, G=16)
    assert out[0] == x.sum()


@pytest.mark.parametrize("n", [5, 64])
def test_loads_do_not_move_across(launch, n):
    x = np.arange(n, dtype=np.int32)
    out, flag = np.zeros((2, n), np.int32), np.ones(1, np.int32)
    launch(loads_stay_before, (1,), out, x, flag, B=n)
    np.testing.assert_array_equal(out, [np.arange(n), np.arange(n) + 10])


@triton.jit
def hand_on(x, seen, TIMEOUT: tl.constexpr):
    """Each program waits for the one before it."""
    pid = tl.program_id(0)
    found = tl.atomic_poll(x, pid, timeout_ns=TIMEOUT)
    tl.store(seen + pid, found)
    tl.atomic_add(x, 1)


@pytest.mark.parametrize("dtype", [np.int16, np.int32, np.uint64])
def test_poll_for_a_value_that_is_there(launch, dtype):
    @triton.jit
    def poll(x, seen):
        tl.store(seen, tl.atomic_poll(x, 7))
        tl.store(seen + 1, (x + 1).atomic_poll(7, sem="relaxed", scope="sys", timeout_ns=0))
        tl.store(seen + 2, tl.atomic_poll(x, 7, timeout_ns=0))

    x, seen = np.array([7, 8], dtype), np.full(3, 5, np.int8)
    launch(poll, (1,), x, seen)
    assert seen.tolist() == [1, 0, 1] and x.tolist() == [7, 8]


def test_poll_for_programs_before(launch):
    x, seen = np.zeros(1, np.int32), np.zeros(9, np.int8)
    launch(hand_on, (9,), x, seen, None)
    assert seen.tolist() == [1] * 9 and x.tolist() == [9]


@differs("A timeout of `tl.atomic_poll` needs a GPU's clock", topic="Memory",
         peer="3.9 compiles for GPUs only, whose global timer ends the waiting.",
         ours="Waiting without an end, and the timeout 0, which reads once, work on every engine; other timeouts are "
              "for NVIDIA GPUs. On a CPU the knob `timeout` ends a launch that waits for ever.")
def test_poll_with_a_timeout_needs_a_gpus_clock():
    from tilewright.testing import engines
    x, seen = np.zeros(1, np.int32), np.full(2, 5, np.int8)
    for engine in engines.ENGINES:
        with pytest.raises(Exception, match=r"globaltimer \(for tl.atomic_poll with a timeout\) is an instruction of"):
            engines.launch(engine, hand_on, (1,), x, seen, 1000)
    engines.launch("ptx", hand_on, (2,), x, seen, 1000)
    assert seen.tolist() == [1, 1]
    engines.launch("ptx", hand_on, (1,), x, seen, 1)      # waits for 0, which never comes
    assert seen.tolist() == [0, 1]


@triton.jit
def spread_over_rows(x, out, N: tl.constexpr, M: tl.constexpr):
    i, j = tl.arange(0, N), tl.arange(0, M)
    old = tl.atomic_add(x + i, 1)
    tl.store(out + i[:, None] * M + j[None, :], old[:, None] + j[None, :])


@pytest.mark.parametrize("n, m", [(16, 64), (4, 256), (64, 8)])
def test_what_was_there_before_reaches_all_threads(launch, n, m):
    """Fewer elements than threads: one of those that hold an element does the operation."""
    x, out = np.arange(10, 10 + n, dtype=np.int32), np.zeros((n, m), np.int32)
    launch(spread_over_rows, (1,), x, out, N=n, M=m)
    np.testing.assert_array_equal(out, np.arange(10, 10 + n)[:, None] + np.arange(m))
    np.testing.assert_array_equal(x, np.arange(11, 11 + n))
