"""Accesses outside a tensor: compiled code tells the kernel's line as the interpreters do."""

import numpy as np

import tilewright as triton
import tilewright.language as tl
from tests.errors.harness import kernel_case


@triton.jit
def load_far_away(x, out, B: tl.constexpr):
    i = tl.arange(0, B)
    v = tl.load(x + i + 100_000_000)  # error: OutOfBoundsError: load out of bounds: element 100000000 of 'x'
    tl.store(out + i, v)


@triton.jit
def forgotten_mask(x, out, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    v = tl.load(x + i, mask=i < 8)
    tl.store(out + i, v)  # error: OutOfBoundsError: element 8 of 'out', whose elements 0 to 7 are in bounds


@triton.jit
def one_before(x, out, B: tl.constexpr):
    v = tl.load(x - 1)  # error: OutOfBoundsError: element -1 of 'x'
    tl.store(out + tl.arange(0, B), v)


@triton.jit
def wrong_stride(x, out, B: tl.constexpr):
    i = tl.arange(0, B)
    v = tl.load(x + i[:, None] * 8 + i[None, :])  # error: OutOfBoundsError: element 8 of 'x'
    tl.store(out + i, tl.sum(v, 1))


@triton.jit
def bad_index(x, out, B: tl.constexpr):
    i = tl.arange(0, B)
    at = tl.load(x + i).to(tl.int32) * 3
    tl.atomic_add(out + at, 1.0)  # error: OutOfBoundsError: atomic access out of bounds: element 9 of 'out'


@triton.jit
def fetch(p, i):
    return tl.load(p + i)  # error: OutOfBoundsError: element 9 of 'x'


@triton.jit
def in_a_helper(x, out, B: tl.constexpr):
    tl.store(out, fetch(x, B + 1))


X = np.arange(8, dtype=np.float32)

CASES = [kernel_case(kernel, (2,), X, np.zeros(8, np.float32), 8)
         for kernel in (load_far_away, forgotten_mask, one_before, wrong_stride, bad_index, in_a_helper)]
