"""Undefined lanes that cancel: exchanges by exclusive or, sums and differences, and what only looks like them."""

import numpy as np
import pytest

import tilewright as triton
import tilewright.language as tl
from tests.check.planted import finds, passes
from tilewright import UndefinedLaneError


def numbers(n, dtype=np.int32):
    return ((np.arange(n) * 7 + 3) % n).astype(dtype)


@triton.jit
def exchange(v, flip, N: tl.constexpr):
    """Neighbours of `v` change places where `flip`: one step of a bitonic network."""
    pairs = tl.reshape(v, (N // 2, 2))
    right = tl.arange(0, 2)[None, :]
    a = tl.broadcast_to(tl.sum(pairs * (1 - right), 1)[:, None], (N // 2, 2)).to(pairs.dtype)
    b = tl.broadcast_to(tl.sum(pairs * right, 1)[:, None], (N // 2, 2)).to(pairs.dtype)
    return tl.reshape(pairs ^ tl.where(tl.reshape(flip, (N // 2, 2)), a ^ b, tl.zeros_like(pairs)), (N,))


@triton.jit
def swaps_neighbours(x, out, n, B: tl.constexpr):
    offs = tl.arange(0, B)
    v = tl.load(x + offs, mask=offs < n)  # other
    swapped = exchange(v, offs >= 0, B)
    tl.store(out + offs, swapped, mask=(offs ^ 1) < n)


@triton.jit
def swaps_and_stores_all(x, out, n, B: tl.constexpr):
    offs = tl.arange(0, B)
    v = tl.load(x + offs, mask=offs < n)  # other
    swapped = exchange(v, offs >= 0, B)
    tl.store(out + offs, swapped, mask=offs < n)  # here


@triton.jit
def swaps_in_a_loop(x, out, n, turns, B: tl.constexpr):
    offs = tl.arange(0, B)
    v = tl.load(x + offs, mask=offs < n)
    for _ in range(turns):
        v = exchange(v, offs >= 0, B)
    tl.store(out + offs, v, mask=offs < n)


@triton.jit
def swaps_bits_of_floats(x, out, n, B: tl.constexpr):
    offs = tl.arange(0, B)
    v = tl.load(x + offs, mask=offs < n)
    swapped = exchange(v.to(tl.int32, bitcast=True), offs >= 0, B).to(tl.float32, bitcast=True)
    tl.store(out + offs, swapped, mask=(offs ^ 1) < n)


@triton.jit
def swaps_in_some_programs(x, out, n, B: tl.constexpr):
    offs = tl.program_id(0) * B + tl.arange(0, B)
    v = tl.load(x + offs, mask=offs < n)
    if tl.program_id(0) % 2 == 1:
        v = exchange(v, offs >= 0, B)
        v = exchange(v, offs >= 0, B)
    tl.store(out + offs, v, mask=offs < n)


@triton.jit
def adds_and_takes_away(x, out, n, B: tl.constexpr):
    offs = tl.arange(0, B)
    v = tl.load(x + offs, mask=offs < n)
    tl.store(out + offs, (v + offs) - v)


@triton.jit
def takes_away_of_itself(x, out, n, B: tl.constexpr):
    offs = tl.arange(0, B)
    v = tl.load(x + offs, mask=offs < n)
    tl.store(out + offs, (v ^ v) + offs)


@triton.jit
def takes_away_another(x, y, out, n, B: tl.constexpr):
    offs = tl.arange(0, B)
    v = tl.load(x + offs, mask=offs < n)  # other
    w = tl.load(y + offs, mask=offs < n)  # other
    tl.store(out + offs, (v + offs) - w)  # here


@triton.jit
def takes_away_a_float(x, out, n, B: tl.constexpr):
    """A lane that may hold NaN is not rid of it."""
    offs = tl.arange(0, B)
    v = tl.load(x + offs, mask=offs < n)  # other
    tl.store(out + offs, v - v)  # here


@triton.jit
def half_of_it_is_left(x, out, n, B: tl.constexpr):
    offs = tl.arange(0, B)
    v = tl.load(x + offs, mask=offs < n)  # other
    tl.store(out + offs, v ^ (v & 0xFFFF))  # here


@triton.jit
def flags_that_differ(x, out, n, B: tl.constexpr):
    offs = tl.arange(0, B)
    v = tl.load(x + offs, mask=offs < n)  # other
    tl.store(out + offs, ((v > 0) ^ (v > 1)).to(tl.int32))  # here


@pytest.mark.parametrize("dtype", [np.int8, np.int16, np.int32, np.int64, np.uint32])
def test_an_exchange(dtype):
    passes(swaps_neighbours, (1,), numbers(20, dtype), np.zeros(32, dtype), 19, B=32)


def test_an_exchange_that_brings_garbage_in():
    finds(UndefinedLaneError, swaps_and_stores_all, (1,), numbers(20), np.zeros(32, np.int32), 19, B=32, argument="out",
          index=18)
    passes(swaps_and_stores_all, (1,), numbers(20), np.zeros(32, np.int32), 20, B=32)


def test_exchanges_in_a_loop():
    passes(swaps_in_a_loop, (1,), numbers(19), np.zeros(32, np.int32), 19, 4, B=32)
    with pytest.raises(UndefinedLaneError, match="element 18 of 'out'"):
        swaps_in_a_loop[(1,)](numbers(19), np.zeros(32, np.int32), 19, 3, B=32, check=True)


def test_an_exchange_of_bits():
    passes(swaps_bits_of_floats, (1,), numbers(19, np.float32), np.zeros(32, np.float32), 19, B=32)


def test_exchanges_of_some_programs():
    passes(swaps_in_some_programs, (4,), numbers(27), np.zeros(32, np.int32), 27, B=8)


@pytest.mark.parametrize("kernel", [adds_and_takes_away, takes_away_of_itself], ids=lambda k: k.__name__)
def test_sums(kernel):
    passes(kernel, (1,), numbers(19), np.zeros(32, np.int32), 19, B=32)


@pytest.mark.parametrize("kernel", [half_of_it_is_left, flags_that_differ], ids=lambda k: k.__name__)
def test_what_does_not_cancel(kernel):
    finds(UndefinedLaneError, kernel, (1,), numbers(19), np.zeros(32, np.int32), 19, B=32, argument="out", index=19)


def test_what_is_not_the_same():
    finds(UndefinedLaneError, takes_away_another, (1,), numbers(19), numbers(19), np.zeros(32, np.int32), 19, B=32,
          argument="out", index=19)
    finds(UndefinedLaneError, takes_away_a_float, (1,), numbers(19, np.float32), np.zeros(32, np.float32), 19, B=32,
          argument="out", index=19)
