"""Public bug reports about numbers, types, control flow, compile-time values: tests on every engine.

Numbers in names are the issue numbers at triton-lang/triton; the kernels are our own, written from the reports.
"""

import math

import numpy as np
import pytest

import tilewright as triton
import tilewright.language as tl
from tests.departures import differs
from tilewright.ir import fp
from tilewright.ir.types import F8E4M3, F8E5M2


@triton.jit
def divide(q, r, x, y, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(q + i, tl.load(x + i) // tl.load(y + i))
    tl.store(r + i, tl.load(x + i) % tl.load(y + i))


@triton.jit
def quotient_only(q, x, y, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(q + i, tl.load(x + i) // tl.load(y + i))


@triton.jit
def remainder_only(r, x, y, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(r + i, tl.load(x + i) % tl.load(y + i))


@triton.jit
def ceil_div(out, a, b):
    tl.store(out, tl.cdiv(a, b))


@triton.jit
def backward_sum(out, x, start, stop, step):
    total = 0
    for i in tl.range(start, stop, step):
        total += tl.load(x + i)
    tl.store(out, total)


@triton.jit
def third(i):
    for _ in range(3):
        if i > 0:
            return i * 3
        i += 1
    return i


@triton.jit
def call_in_loop(out, n):
    for i in range(3):
        tl.store(out + i, third(n + i))


@triton.jit
def store_and_return(out, i):
    tl.store(out + i, i + 1)
    return i * 2


@triton.jit
def ignored_result(out, n):
    for i in range(n):
        if i % 2 == 0:
            store_and_return(out, i)


@triton.jit
def body(num, denom):
    return num, denom, num / denom


@triton.jit
def trip_counts(out, n):
    num = 1.0
    denom = 12.0
    ratio = 0.0
    for _ in range(n):
        num, denom, ratio = body(num, denom)
    tl.store(out, ratio)


@triton.jit
def tuple_argument(out, x, t: tl.constexpr):
    tl.static_assert(t[1] == 1)
    s: tl.constexpr = (0, 1, 2)
    pair = (tl.load(x), t[2])
    tl.store(out, t[0] + s[1] + pair[1])
    tl.store(out + 1, pair[0])


@triton.jit
def relu6_loop(out, x, N: tl.constexpr):
    v = tl.load(x + tl.arange(0, N))
    for _ in range(2):
        v = tl.maximum(v, 0.0)
        v = tl.minimum(v, 6.0)
    tl.static_assert(v.dtype == tl.float16)
    tl.store(out + tl.arange(0, N), tl.where(v > 3, v, 0))


@triton.jit
def to_fp8(out, x, N: tl.constexpr, WIDE: tl.constexpr):
    i = tl.arange(0, N)
    v = tl.load(x + i)
    kind: tl.constexpr = tl.float8e4nv if WIDE else tl.float8e5
    tl.store(out + i, v.to(kind).to(tl.uint8, bitcast=True))


@triton.jit
def from_fp8(out, x, N: tl.constexpr, WIDE: tl.constexpr):
    i = tl.arange(0, N)
    kind: tl.constexpr = tl.float8e4nv if WIDE else tl.float8e5
    tl.store(out + i, tl.load(x + i).to(kind, bitcast=True).to(out.dtype.element_ty))


@triton.jit
def carried_int8(out, x, n):
    v = tl.load(x)
    for i in range(n):
        w = tl.load(x + i) + i
        tl.static_assert(w.dtype == tl.int32)
        tl.store(out + i, w)


@triton.jit
def decayed(out, half, N: tl.constexpr):
    c = 2.5
    v = tl.load(half + tl.arange(0, N))
    tl.static_assert((c + v).dtype == tl.float32)
    tl.static_assert((2.5 + v).dtype == tl.float16)
    d = -7
    tl.store(out, d // 2)
    tl.store(out + 1, d % 2)
    e: tl.constexpr = -7
    tl.store(out + 2, e // 2)


@triton.jit
def wraps(out, n):
    acc = 2147483647
    for _ in range(n):
        acc += 1
    tl.store(out, acc)


@triton.jit
def batch_offset(out, x, batch, stride):
    tl.store(out, batch.to(tl.int64) * stride)


@triton.jit
def int8_products(out, a, b, N: tl.constexpr):
    i = tl.arange(0, 10)[:, None]
    j = tl.arange(0, N)[None, :]
    k = tl.arange(0, 20)
    x = tl.load(a + i * 20 + k[None, :])
    y = tl.load(b + k[:, None] * N + j)
    tl.store(out + i * N + j, tl.dot(x, y))


@triton.jit
def literal_and_variable(out):
    zero = tl.zeros((1,), tl.float64)
    a = zero + 0.1
    c = 0.1
    b = zero + c
    tl.store(out + tl.arange(0, 1), (a == 0.1).to(tl.int32) + 2 * (b == c).to(tl.int32))


def test_619_division_truncates(launch):
    x = np.concatenate([np.arange(16), [-7]]).astype(np.int64)
    y = np.array([-2] * 16 + [2], np.int64)
    q, r = np.zeros(17, np.int64), np.zeros(17, np.int64)
    launch(divide, (1,), q, r, x, y, N=17)
    assert q.tolist() == [math.trunc(a / b) for a, b in zip(x, y)]
    assert r.tolist() == [int(math.fmod(a, b)) for a, b in zip(x, y)]


@differs("Undefined integer operations give some value")
def test_4676_division_by_zero_is_one_value(launch):
    x, y = np.array([2, -2, 0], np.int32), np.zeros(3, np.int32)
    both_q, both_r, q, r = (np.full(3, 9, np.int32) for _ in range(4))
    launch(divide, (1,), both_q, both_r, x, y, N=3)
    launch(quotient_only, (1,), q, x, y, N=3)
    launch(remainder_only, (1,), r, x, y, N=3)
    assert both_q.tolist() == q.tolist() and both_r.tolist() == r.tolist()


@differs("`tl.cdiv` of negative numbers")
@pytest.mark.parametrize("a,b", [(-36, 5), (36, 5), (35, 5), (-35, 5), (1, 7), (-1, 7)])
def test_954_cdiv_of_negatives(launch, a, b):
    out = np.zeros(1, np.int32)
    launch(ceil_div, (1,), out, a, b)
    assert out[0] == -(-a // b)


@differs("Loops step down by a run-time step")
@pytest.mark.parametrize("bounds,total", [((88, -1, -8), 540), ((5, 10, -3), 0)])
def test_10950_negative_run_time_step(launch, bounds, total):
    x, out = np.arange(1, 101, dtype=np.int32), np.full(1, -1, np.int32)
    launch(backward_sum, (1,), out, x, *bounds)
    assert out[0] == total


@differs("A step of zero is an error")
def test_11242_a_zero_step_is_an_error(launch):
    x, out = np.arange(16, dtype=np.int32), np.zeros(1, np.int32)
    with pytest.raises(triton.TritonError, match="step"):
        launch(backward_sum, (1,), out, x, 0, 8, 0)


@differs("break, continue and return stand anywhere")
def test_2567_return_in_a_loop_of_a_callee(launch):
    out = np.zeros(3, np.int32)
    launch(call_in_loop, (1,), out, 0)
    assert out.tolist() == [3, 3, 6]


def test_5768_a_result_may_be_ignored(launch):
    out = np.zeros(4, np.int32)
    launch(ignored_result, (1,), out, 4)
    assert out.tolist() == [1, 0, 3, 0]


@pytest.mark.parametrize("n", [1, 2, 3])
def test_2672_any_trip_count(launch, n):
    out = np.zeros(1, np.float32)
    launch(trip_counts, (1,), out, n)
    assert out[0] == np.float32(1 / 12)


def test_10451_tuples_as_constexpr(launch):
    x, out = np.array([5.0], np.float32), np.zeros(2, np.float32)
    launch(tuple_argument, (1,), out, x, t=(0, 1, 2))
    assert out.tolist() == [3.0, 5.0]


@differs("A literal beside a tensor is weak everywhere")
def test_10730_literals_keep_fp16(launch):
    x = np.array([-1, 2, 3, 4, 7, 0.5, 6, 100], np.float16)
    out = np.zeros(8, np.float16)
    launch(relu6_loop, (1,), out, x, N=8)
    v = np.clip(x, 0, 6)
    np.testing.assert_array_equal(out, np.where(v > 3, v, 0))


@differs("fp8 conversions are exact on every engine", topic="Numbers",
         peer="Some numbers are rounded the wrong way, and some special codes widen to numbers (its issues 11753, "
              "11784, 11897).",
         ours="To nearest, ties to even, saturating, from every float; every code widens to its value.")
@pytest.mark.parametrize("source", [np.float16, np.float32, np.float64])
def test_11753_fp8_rounds_to_even(launch, source):
    x, out = np.array([1.125, 1.375, 126.24, 65504], source), np.zeros(4, np.uint8)
    launch(to_fp8, (1,), out, x, N=4, WIDE=False)
    assert fp.decode(out, F8E5M2).tolist() == [1.0, 1.5, 128.0, 57344.0]     # saturates
    y = np.array([1.0625001, 126.24, -0.0, 448], source)
    launch(to_fp8, (1,), out, y, N=4, WIDE=True)
    first = 1.0 if source is np.float16 else 1.125     # 1.0625001 is the tie 1.0625 in fp16
    assert fp.decode(out, F8E4M3).tolist() == [first, 128.0, -0.0, 448.0]


@differs("fp8 conversions are exact on every engine")
@pytest.mark.parametrize("wide", [False, True])
@pytest.mark.parametrize("target", [np.float16, np.float32, np.float64])
def test_11784_all_fp8_codes_widen(launch, wide, target):
    x, out = np.arange(256, dtype=np.uint8), np.zeros(256, target)
    launch(from_fp8, (1,), out, x, N=256, WIDE=wide)
    np.testing.assert_array_equal(out.astype(np.float64), fp.decode(x, F8E4M3 if wide else F8E5M2))


def test_a_sum_of_int8_and_index_is_int32(launch):
    x, out = np.array([100, 127, -128], np.int8), np.zeros(3, np.int32)
    launch(carried_int8, (1,), out, x, 3)
    assert out.tolist() == [100, 128, -126]


def test_plain_assignment_decays(launch):
    out = np.zeros(3, np.int32)
    launch(decayed, (1,), out, np.ones(4, np.float16), N=4)
    assert out.tolist() == [-3, -1, -4]


def test_an_int32_accumulator_wraps(launch):
    out = np.zeros(1, np.int32)
    launch(wraps, (1,), out, 3)
    assert out[0] == -2147483646


def test_6748_offsets_beyond_int32(launch):
    out = np.zeros(1, np.int64)
    launch(batch_offset, (1,), out, np.zeros(1, np.float32), 319, 7_864_320)
    assert out[0] == 2_508_718_080


@differs("int8 products do not wrap in the interpreter", topic="Numbers",
         peer="The interpreter multiplies int8 in int8.",
         ours="int32, on every engine.")
def test_3566_int8_dot_is_int32(launch):
    a, b = np.full((10, 20), 5, np.int8), np.full((20, 10), 5, np.int8)
    out = np.zeros((10, 10), np.int32)
    launch(int8_products, (1,), out, a, b, N=10)
    assert (out == 500).all()


def test_5466_literal_and_variable_compare_equal(launch):
    out = np.zeros(1, np.int32)
    launch(literal_and_variable, (1,), out)
    assert out[0] == 3      # a literal adopts fp64; the variable is fp32, widened alike on both sides
