"""The known traps of eager engines: each kernel gives the same bits on the eager engine and the batched oracle.

Unmodified Python would get every one of these wrong.  The expected value stands beside each case, so that both engines
being wrong together would be seen, too.
"""

import numpy as np
import pytest

import tilewright as triton
import tilewright.language as tl
from tests.departures import differs
from tilewright.testing.engines import launch

ENGINES = ["eager", "batched", "batched-passes"]


def run(engine, kernel, out, *args, grid=(1,), **kwargs):
    launch(engine, kernel, grid, *args, out, **kwargs)
    return out


@triton.jit
def int8_in_a_loop(x, out):
    v = tl.load(x + tl.arange(0, 4))
    for i in range(1):
        w = v + i
        tl.store(out + tl.arange(0, 4), w * 100)


@differs("The interpreter is the language")
@pytest.mark.parametrize("engine", ENGINES)
def test_load_int8_plus_loop_index_is_int32(engine):
    out = run(engine, int8_in_a_loop, np.zeros(4, np.int64), np.array([100, -100, 3, 0], np.int8))
    assert out.tolist() == [10000, -10000, 300, 0]


@triton.jit
def literal_and_variable(x, out):
    h = tl.load(x)
    c = 2.5
    strong = c + h
    weak = 2.5 + h
    tl.store(out, (strong.dtype == tl.float32) + 0)
    tl.store(out + 1, (weak.dtype == tl.float16) + 0)
    i = 1
    b = tl.load(x + 1).to(tl.int8)
    tl.store(out + 2, ((i + b).dtype == tl.int32) + 0)
    tl.store(out + 3, ((1 + b).dtype == tl.int8) + 0)


@pytest.mark.parametrize("engine", ENGINES)
def test_plain_assignment_decays(engine):
    out = run(engine, literal_and_variable, np.zeros(4, np.int32), np.array([1, 2], np.float16))
    assert out.tolist() == [1, 1, 1, 1]


@triton.jit
def negative_division(out, n, D: tl.constexpr):
    c = -7
    tl.store(out, c // 2)
    tl.store(out + 1, c % 2)
    tl.store(out + 2, n // D)
    tl.store(out + 3, n % D)
    tl.store(out + 4, (-7) // 2)
    tl.store(out + 5, (-7) % 2)


@pytest.mark.parametrize("engine", ENGINES)
def test_run_time_division_truncates_and_constexpr_division_floors(engine):
    out = np.zeros(6, np.int32)
    launch(engine, negative_division, (1,), out, -7, 2)
    assert out.tolist() == [-3, -1, -3, -1, -4, 1]


@triton.jit
def wrapping(out, n):
    acc = 2147483647
    for _ in range(n):
        acc += 1
    tl.store(out, acc.to(tl.int64))
    big = 2147483647
    tl.store(out + 1, (big + 1).to(tl.int64))
    tl.store(out + 2, (big * 2).to(tl.int64))


@differs("The interpreter is the language")
@pytest.mark.parametrize("engine", ENGINES)
def test_int32_wraps(engine):
    out = np.zeros(3, np.int64)
    launch(engine, wrapping, (1,), out, 3)
    assert out.tolist() == [-2147483646, -2147483648, -2]


@triton.jit
def chained(x, out, low, high):
    i = tl.arange(0, 8)
    v = tl.load(x + i)
    inside = low < v < high
    tl.store(out + i, inside.to(tl.int32))


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.filterwarnings("ignore:.and. on tiles")
def test_chained_comparison_of_tiles(engine):
    x = np.arange(8, dtype=np.int32)
    out = np.zeros(8, np.int32)
    launch(engine, chained, (1,), x, out, 2, 6)
    assert out.tolist() == [0, 0, 0, 1, 1, 1, 0, 0]


@triton.jit
def unsigned(x, out):
    v = tl.load(x)
    tl.store(out, (v > 5).to(tl.int32))
    tl.store(out + 1, (v // 2).to(tl.int64))
    tl.store(out + 2, (v >> 1).to(tl.int64))
    tl.store(out + 3, (v.to(tl.int32, bitcast=True) >> 1).to(tl.int64))


@pytest.mark.parametrize("engine", ENGINES)
def test_unsigned_values_stay_unsigned(engine):
    out = run(engine, unsigned, np.zeros(4, np.int64), np.array([0xFFFFFFFE], np.uint32))
    assert out.tolist() == [1, 0x7FFFFFFF, 0x7FFFFFFF, -1]


@triton.jit
def bool_and_or(x, out, n):
    i = tl.arange(0, 4)
    v = tl.load(x + i)
    a = (v > 0) & (v < 3)
    tl.store(out + i, a.to(tl.int32))
    p = n > 2 and n < 10
    q = not p
    r = n > 100 or n == 5
    tl.store(out + 4, p.to(tl.int32))
    tl.store(out + 5, q.to(tl.int32))
    tl.store(out + 6, r.to(tl.int32))


@pytest.mark.parametrize("engine", ENGINES)
def test_logic_on_run_time_scalars(engine):
    out = np.zeros(7, np.int32)
    launch(engine, bool_and_or, (1,), np.array([-1, 1, 2, 3], np.int32), out, 5)
    assert out.tolist() == [0, 1, 1, 0, 1, 0, 1]


@triton.jit
def guarded_load(x, out, n):
    for i in range(8):
        if i < n and tl.load(x + i) > 0:
            tl.store(out + i, 1)


@pytest.mark.parametrize("engine", ENGINES)
def test_and_guards_a_load(engine):
    """The load behind `i < n and` must not be done for i >= n: the array has only n elements."""
    out = np.zeros(8, np.int32)
    launch(engine, guarded_load, (1,), np.array([1, -1, 5], np.int32), out, 3)
    assert out.tolist() == [1, 0, 1, 0, 0, 0, 0, 0]


@triton.jit
def pick(n):
    if n > 3:
        return 1
    else:
        return 2


@triton.jit
def returned_number(x, out, n):
    v = tl.load(x)
    tl.store(out, (v + pick(n)).to(tl.int32))
    tl.store(out + 1, ((v + pick(n)).dtype == tl.int32) + 0)
    y = 1 if n > 3 else 2
    tl.store(out + 2, ((v + y).dtype == tl.int32) + 0)
    tl.store(out + 3, ((v + (1 if n > 3 else 2)).dtype == tl.int32) + 0)


@pytest.mark.parametrize("engine", ENGINES)
def test_a_number_chosen_at_run_time_is_an_int32(engine):
    out = np.zeros(4, np.int32)
    launch(engine, returned_number, (1,), np.array([127], np.int8), out, 5)
    assert out.tolist() == [128, 1, 1, 1]


@triton.jit
def loop_flow(out, n):
    total = 0
    for i in range(n):
        if i == 2:
            continue
        if i == 6:
            break
        total += i
    k = 0
    while k * k < n:
        k += 1
    tl.store(out, total)
    tl.store(out + 1, k)
    last = -1
    for j in range(10, 0, -3):
        last = j
    tl.store(out + 2, last)


@pytest.mark.parametrize("engine", ENGINES)
def test_break_continue_while_and_negative_steps(engine):
    out = np.zeros(3, np.int32)
    launch(engine, loop_flow, (1,), out, 50)
    assert out.tolist() == [0 + 1 + 3 + 4 + 5, 8, 1]


@triton.jit
def constants(out, BLOCK: tl.constexpr, FLAG: tl.constexpr, SCALE: tl.constexpr):
    H: tl.constexpr = BLOCK // 2
    i = tl.arange(0, H)
    if FLAG:
        s = SCALE
    else:
        s = 0.0
    for k in tl.static_range(2):
        tl.store(out + i + k * H, i * (k + 1) + s)


@pytest.mark.parametrize("engine", ENGINES)
def test_compile_time_values(engine):
    out = np.zeros(8, np.float32)
    launch(engine, constants, (1,), out, BLOCK=8, FLAG=True, SCALE=0.5)
    assert out.tolist() == [0.5, 1.5, 2.5, 3.5, 0.5, 2.5, 4.5, 6.5]


@triton.jit
def tuples(out, pair):
    a, b = pair
    values = (a, b, a + b)
    total = 0
    for v in values:
        total += v
    tl.store(out, total)
    tl.store(out + 1, values[1])
    doubled = [v * 2 for v in values]
    tl.store(out + 2, doubled[2])


@pytest.mark.parametrize("engine", ENGINES)
def test_tuples(engine):
    out = np.zeros(3, np.int32)
    launch(engine, tuples, (1,), out, (3, 4))
    assert out.tolist() == [14, 4, 14]


@triton.jit
def maximum_of(a, b):
    return tl.maximum(a, b)


@triton.jit
def reductions(x, out):
    i = tl.arange(0, 8)
    v = tl.load(x + i)
    tl.store(out, tl.sum(v, axis=0))
    tl.store(out + 1, tl.max(v, axis=0))
    tl.store(out + 2, tl.reduce(v, 0, maximum_of))
    m = tl.reshape(v, (2, 4))
    tl.store(out + 3 + tl.arange(0, 4), tl.sum(m, axis=0))


@pytest.mark.parametrize("engine", ENGINES)
def test_reductions_with_combine_functions(engine):
    x = np.array([3, 1, 4, 1, 5, 9, 2, 6], np.float32)
    out = run(engine, reductions, np.zeros(7, np.float32), x)
    assert out.tolist() == [31, 9, 9, 8, 10, 6, 7]


@triton.jit
def shift(x, n, B: tl.constexpr):
    i = tl.arange(0, B)
    v = tl.load(x + i)
    tl.store(x + 1 + i, v)
    tl.store(x + n, tl.load(x + 1))


@pytest.mark.parametrize("engine", ENGINES)
def test_loads_before_stores_and_own_stores_seen(engine):
    x = np.arange(10, dtype=np.int32)
    launch(engine, shift, (1,), x, 9, B=8)
    assert x.tolist() == [0, 0, 1, 2, 3, 4, 5, 6, 7, 0]
