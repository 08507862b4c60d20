"""Shapes that do not fit."""

import tilewright.language as tl
from tests.errors.harness import case


@case(x="*fp32")
def add_of_two_sizes(x):
    a = tl.arange(0, 16)
    b = tl.arange(0, 8)
    c = a + b  # error: CompilationError: 16 and 8
    tl.store(x, c)


@case(x="*fp32")
def store_of_larger_value(x):
    a = tl.arange(0, 16)
    tl.store(x + a, tl.zeros((32,), tl.float32))  # error: CompilationError: 32


@case(x="*fp32")
def tile_into_scalar_pointer(x):
    tl.store(x, tl.zeros((4,), tl.float32))  # error: CompilationError: block


@case(x="*fp32")
def reshape_to_other_count(x):
    a = tl.arange(0, 16)
    b = tl.reshape(a, (4, 8))  # error: CompilationError: reshape
    tl.store(x, b)


@case(x="*fp32")
def mask_of_other_size(x):
    offsets = tl.arange(0, 16)
    mask = tl.arange(0, 8) < 3
    v = tl.load(x + offsets, mask=mask)  # error: CompilationError: mask
    tl.store(x + offsets, v)


@case(x="*fp32", n="i32")
def dot_of_unequal_inner_sizes(x, n):
    a = tl.zeros((16, 32), tl.float32)
    b = tl.zeros((16, 16), tl.float32)
    c = tl.dot(a, b)  # error: CompilationError: 32
    tl.store(x, tl.sum(c))


@case(x="*fp32")
def too_many_indices(x):
    a = tl.arange(0, 16)
    b = a[:, :]  # error: CompilationError: too many indices
    tl.store(x + b, 1)


@case(x="*fp32", n="i32")
def tile_as_condition(x, n):
    if tl.arange(0, 16) < n:  # error: CompilationError: ambiguous
        tl.store(x, 1)


@case(x="*fp32")
def axis_out_of_range(x):
    s = tl.sum(tl.zeros((4, 4), tl.float32), axis=2)  # error: CompilationError: axis
    tl.store(x, s)


@case(x="*fp32", n="i32")
def element_by_index(x, n):
    a = tl.arange(0, 16)
    tl.store(x, a[n])  # error: CompilationError: unsupported tensor index
