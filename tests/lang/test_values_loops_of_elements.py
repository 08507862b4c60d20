"""Loops in functions of elements, on every engine: each element goes round as often as it needs."""

import numpy as np
import pytest

import tilewright as triton
import tilewright.language as tl


@triton.jit
def collatz(n):
    steps = n * 0
    while n > 1:
        if n % 2 == 0:
            n = n // 2
        else:
            n = 3 * n + 1
        steps += 1
    return steps, n


@triton.jit
def powers(base, count):
    """base ** count, and the sum of range(count, -3, -2); counts differ from element to element."""
    result = base * 0 + 1
    total = count * 0
    for _ in range(count):
        result *= base
    for i in range(count, -3, -2):
        total += i
    return result, total


@triton.jit
def stays_if_odd(n):
    """Only even numbers come to the loop; odd ones would never leave it."""
    rounds = n * 0
    if n % 2 == 0:
        for _ in range(3):
            while n != 0:
                n -= 2
                rounds += 1
            n = rounds % 4 + rounds % 2
    else:
        rounds -= 1
    return rounds


@triton.jit
def newton(x):
    """The square root, to 1 part in 1000; early exits of a loop."""
    guess = x
    for _ in range(60):
        following = (0.5 * (guess + x / guess)).to(x.dtype)
        if tl.abs(following - guess) < 1e-3 * guess:
            break
        guess = following
    return guess


@triton.jit
def gcd(a, b):
    while b != 0:
        a, b = b, a % b
    return a


@triton.jit
def map_kernel(out, more, x, y, N: tl.constexpr, WHAT: tl.constexpr):
    i = tl.arange(0, N)
    if WHAT == "collatz":
        steps, end = tl.map_elementwise(collatz, tl.load(x + i))
        tl.store(out + i, steps)
        tl.store(more + i, end)
    elif WHAT == "powers":
        result, total = tl.map_elementwise(powers, tl.load(x + i), tl.load(y + i))
        tl.store(out + i, result)
        tl.store(more + i, total)
    else:
        tl.store(out + i, tl.map_elementwise(stays_if_odd, tl.load(x + i)))


@triton.jit
def newton_kernel(out, x, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(out + i, tl.map_elementwise(newton, tl.load(x + i)))


@triton.jit
def reduce_kernel(out, x, M: tl.constexpr, N: tl.constexpr, AXIS: tl.constexpr):
    i, j = tl.arange(0, M)[:, None], tl.arange(0, N)[None, :]
    left = tl.arange(0, N if AXIS == 0 else M)
    tl.store(out + left, tl.reduce(tl.load(x + i * N + j), AXIS, gcd))


@triton.jit
def scan_kernel(out, x, M: tl.constexpr, N: tl.constexpr, AXIS: tl.constexpr, REVERSE: tl.constexpr):
    at = tl.arange(0, M)[:, None] * N + tl.arange(0, N)[None, :]
    tl.store(out + at, tl.associative_scan(tl.load(x + at), AXIS, gcd, reverse=REVERSE))


def collatz_of(n):
    steps = 0
    while n > 1:
        n = 3 * n + 1 if n % 2 else n // 2
        steps += 1
    return steps, n


@pytest.mark.parametrize("n", [1, 16, 37])
def test_each_element_leaves_when_it_is_done(launch, n):
    x = np.random.default_rng(1).integers(-3, 200, n).astype(np.int32)
    steps, end = np.zeros_like(x), np.zeros_like(x)
    launch(map_kernel, (1,), steps, end, x, x, N=n, WHAT="collatz")
    want = [collatz_of(int(v)) for v in x]
    np.testing.assert_array_equal(steps, [w[0] for w in want])
    np.testing.assert_array_equal(end, [w[1] for w in want])


@pytest.mark.parametrize("t", [np.int32, np.int64])
def test_bounds_that_differ(launch, t):
    rng = np.random.default_rng(2)
    base, count = rng.integers(-3, 4, 37).astype(t), rng.integers(-4, 9, 37).astype(t)
    result, total = np.zeros_like(base), np.zeros_like(base)
    launch(map_kernel, (1,), result, total, base, count, N=37, WHAT="powers")
    np.testing.assert_array_equal(result, [int(b) ** max(0, int(c)) for b, c in zip(base, count)])
    np.testing.assert_array_equal(total, [sum(range(int(c), -3, -2)) for c in count])


def stays(n):
    rounds = 0
    for _ in range(3):
        rounds += n // 2
        n = rounds % 4 + rounds % 2
    return rounds


def test_elements_that_do_not_come_to_a_loop_do_not_keep_it_going(launch):
    x = np.random.default_rng(3).integers(0, 50, 37).astype(np.int32)
    out = np.zeros_like(x)
    launch(map_kernel, (1,), out, out, x, x, N=37, WHAT="stays")
    np.testing.assert_array_equal(out, [-1 if v % 2 else stays(int(v)) for v in x])


@pytest.mark.parametrize("t", [np.float16, np.float32, np.float64])
def test_floats_and_break(launch, t):
    x = np.random.default_rng(4).uniform(0.5, 100, 21).astype(t)
    out = np.zeros_like(x)
    launch(newton_kernel, (1,), out, x, N=21)
    np.testing.assert_allclose(out.astype(np.float64), np.sqrt(x.astype(np.float64)), rtol=5e-3)


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("shape", [(1, 1), (4, 64), (3, 19), (33, 5)])
def test_reductions(launch, shape, axis):
    x = (np.random.default_rng(5).integers(1, 12, shape) * 60).astype(np.int32)
    out = np.zeros(shape[1 - axis], np.int32)
    launch(reduce_kernel, (1,), out, x, M=shape[0], N=shape[1], AXIS=axis)
    np.testing.assert_array_equal(out, np.gcd.reduce(x, axis))


@pytest.mark.parametrize("axis,reverse", [(0, False), (1, False), (1, True)])
def test_scans(launch, axis, reverse):
    x = (np.random.default_rng(6).integers(1, 12, (5, 37)) * 60).astype(np.int32)
    out = np.zeros_like(x)
    launch(scan_kernel, (1,), out, x, M=5, N=37, AXIS=axis, REVERSE=reverse)
    turned = np.flip(x, axis) if reverse else x
    want = np.gcd.accumulate(turned, axis)
    np.testing.assert_array_equal(out, np.flip(want, axis) if reverse else want)
